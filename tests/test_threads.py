"""Random programs on several threads that share arrays: values as NumPy's, and nothing leaks."""

from __future__ import annotations

import gc
import random
import threading

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime

SPECS = (
    gs.P("x", "y"),
    gs.P("y", "x"),
    gs.P("x"),
    gs.P(None, "x"),
    gs.P(),
    gs.P(("x", "y")),
    gs.P(None, ("x", "y")),
)
STREAMS = {"small_bytes": 0, "inline_bytes": 0}


def program(seed, mesh, shared, steps):
    """Place, move, slice, read and drop arrays; each comes with its value."""
    rng = random.Random(seed)
    place = lambda: gs.NamedSharding(mesh, rng.choice(SPECS))  # noqa: E731
    bound = lambda: rng.choice([None, rng.randint(-9, 9)])  # noqa: E731
    mine = []
    for _ in range(steps):
        x, value = rng.choice(mine if mine and rng.random() < 0.7 else shared)
        action = rng.choice(["put", "reshard", "reshard", "slice", "start", "read", "drop"])
        if action == "put":
            value = np.random.default_rng(rng.randrange(1 << 30)).random((rng.randint(1, 40), 31))
            source = value.copy()
            mine.append((gs.device_put(source, place()), value))
            source[:] = -1
        elif action == "reshard":
            mine.append((gs.reshard(x, place()), value))
        elif action == "slice":
            index = tuple(slice(bound(), bound(), rng.choice([1, 2, -1, -3])) for _ in range(2))
            mine.append((x[index], value[index]))
        elif action == "start":
            x.copy_to_host_async()
        elif action == "read":
            assert np.array_equal(np.asarray(x), value)
        elif mine:
            mine.pop(rng.randrange(len(mine)))
        if len(mine) > 10:
            mine.pop(rng.randrange(len(mine)))
    for x, value in mine:
        assert np.array_equal(np.asarray(x), value)


@pytest.mark.parametrize(
    "settings",
    [
        {"host_domains": 1},
        {"host_domains": 8},
        {"host_domains": 2, **STREAMS},
        {"host_domains": 8, "host_workers": 4, **STREAMS},
        {"host_domains": 4, "memory_limit": 200_000, "small_bytes": 0, "inline_bytes": 2000},
    ],
    ids=str,
)
def test_threads_that_share_arrays_read_what_numpy_has_and_leak_nothing(settings):
    with runtime(host_devices=8, **settings) as rt:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        value = np.random.default_rng(0).random((17, 31))
        shared = [(gs.device_put(value, gs.NamedSharding(mesh, s)), value) for s in SPECS]
        errors = []

        def run(seed):
            try:
                program(seed, mesh, shared, steps=400)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        shared.clear()
        gc.collect()
        assert [d.memory_stats()["bytes_in_use"] for d in rt.devices] == [0] * 8
        assert rt.live_arrays() == []
