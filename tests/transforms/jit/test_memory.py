"""What is predicted of the memory of a traced function is what it takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, testing

SIDE = 256


def _chain(a: Any, mesh: Any) -> Any:
    return gnp.tanh(2 * a + 1) * a - a / 3


def _softmax(a: Any, mesh: Any) -> Any:
    e = gnp.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _there_and_back(a: Any, mesh: Any) -> Any:
    columns = gs.reshard(a * 2, gs.NamedSharding(mesh, P(None, "x")))
    return gs.reshard(gnp.sort(columns, axis=0), gs.NamedSharding(mesh, P("x")))


def _psum(a: Any, mesh: Any) -> Any:
    own = gs.shard_map(lambda a: lax.psum(a * 2, "x"), mesh, P("x"), P())
    return own(a)


PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "one kernel": _chain,
    "two sorts": lambda a, mesh: gnp.sort(a, axis=1) + gnp.sort(a * 2, axis=1),
    "softmax": _softmax,
    "two layers": lambda a, mesh: gnp.maximum(a @ a.T, 0) @ a,
    "there and back": _there_and_back,
    "sums of columns": lambda a, mesh: (a * 2).sum(0) + a.sum(0),
    "a sum of everything": lambda a, mesh: a.sum(),
    "a transpose": lambda a, mesh: a.T,
    "a transpose that is none": lambda a, mesh: a.transpose(0, 1),
    "a sum in a mapped function": _psum,
    "a loop": lambda a, mesh: lax.fori_loop(0, 5, lambda i, c: gnp.sort(c, axis=1) * 2 + 1, a),
    "a scan": lambda a, mesh: lax.scan(lambda c, x: (c + x, c * 2), gnp.zeros(SIDE), a)[1],
    "a short scan with three results": lambda a, mesh: lax.scan(
        lambda c, _: (c + 1, (c.sum(), c * 2, c.max())), gnp.zeros(4 * SIDE), length=64
    )[1],
    "a scan that takes more than it gives": lambda a, mesh: lax.scan(
        lambda c, _: (gnp.sort(gnp.outer(c, c), 1)[0], c * 2), gnp.ones(SIDE), length=64
    )[1],
    "a condition": lambda a, mesh: lax.while_loop(
        lambda c: gnp.sort(-gnp.sort(c, axis=1), axis=1).sum() < -70000, lambda c: c - 1, a
    ),
    "a branch": lambda a, mesh: lax.cond(
        a.sum() > 0, lambda a: gnp.sort(a, axis=1) + a, lambda a: a, a
    ),
    "what dies early": lambda a, mesh: (gnp.sort(a, axis=1) * 2).sum(1) + gnp.sort(a, axis=1)[:, 0],
}


SORTS = (
    "two sorts", "there and back", "a loop", "a condition", "a scan that takes more than it gives",
    "a branch", "what dies early",
)  # fmt: skip
"""What sorts, for which libraries of GPUs take memory of their own."""

EVEN = ("there and back", "a sum in a mapped function")
"""What takes equal blocks, or whose devices have their peaks at other times if they are not."""

CALLS = [
    (name, rows)
    for name in PROGRAMS
    for rows in (SIDE, SIDE + 1)
    if rows == SIDE or name not in EVEN
] + [("a sum of everything", 4)]


@pytest.mark.parametrize(("name", "rows"), CALLS)
def test_the_peak_is_predicted(name: str, rows: int) -> None:
    where = {"backend": "host"} if name in SORTS else {}
    with testing.runtime(host_devices=4, **where):
        mesh = gs.make_mesh((4,), "x")
        value = np.random.default_rng(0).uniform(1, 2, (rows, SIDE))
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        compiled = gs.jit(lambda a: PROGRAMS[name](a, mesh)).lower(x).compile()
        memory = compiled.memory_analysis()
        gs.block_until_ready(compiled(x))
        peak = sum(device.memory_stats()["peak_bytes_in_use"] or 0 for device in gs.devices())
        on_host = gs.devices()[0].platform == "cpu"
        most = peak if on_host and "scan" not in name else 1.05 * peak
        assert peak <= memory.peak_memory_in_bytes <= most


def test_loops_over_nothing_take_nothing() -> None:
    compiled = gs.jit(lambda x: lax.map(lambda row: row * 2, x)).lower(gnp.zeros((3, 0))).compile()
    assert compiled.memory_analysis().peak_memory_in_bytes == 0
