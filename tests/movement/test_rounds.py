"""What domains cannot reach comes through as little page-locked memory as there is, in rounds."""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._movement.plan import Plan
from gpushard._movement.planning.rearrangements import roll
from gpushard._movement.rearrange import plan_for, rearrange
from gpushard._movement.staging_slots import Staging
from gpushard._runtime.chunks import LEAST_SLOT
from gpushard.errors import OutOfMemoryError
from gpushard.testing.runtime import SimRuntime
from tests.share import seeds, some

P = gs.P
SPECS = [P(), P("x"), P("y"), P("x", "y"), P("y", "x"), P(None, "x"), P(("x", "y")), P(None, "y")]


@contextlib.contextmanager
def simulated(seed: int, pinned_bytes: int, strangers: float = 1.0) -> Iterator[SimRuntime]:
    """Four GPUs, of which one reaches another's memory by chance or never."""
    with testing.simulated(
        seed,
        host_readable=False,
        host_devices=4,
        host_domains=4,
        small_bytes=0,
        pinned_bytes=pinned_bytes,
    ) as runtime:
        runtime.sim.failing, runtime.sim._strangers = 0, strangers
        runtime.sim._reach.clear()
        yield runtime


def spread(spec: gs.P) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), spec)


def begin(runtime: SimRuntime) -> None:
    """Count page-locked memory from here on."""
    runtime.devices[0].memory_stats()
    for domain in runtime.domains:
        domain.ring.peak = domain.ring.total - domain.ring.free


def check_peaks(runtime: SimRuntime, plan: Plan) -> None:
    peaks = {domain.index: domain.ring.peak for domain in runtime.domains if domain.ring.peak}
    assert peaks == {of: staging.nbytes for of, staging in plan.staging.items()}
    assert max(peaks.values(), default=0) <= runtime.settings.pinned_bytes
    possible = min(4, runtime.settings.pinned_bytes // LEAST_SLOT)
    assert all(staging.slots == min(possible, staging.chunks) for staging in plan.staging.values())


@pytest.mark.parametrize("seed", seeds(40))
def test_the_result_does_not_depend_on_how_many_rounds_there_are(seed: int) -> None:
    draw = random.Random(seed)
    pinned = draw.choice([64, 100, 128, 256, 1000, 4096, 1 << 20])
    shape = tuple(draw.randint(1, 40) for _ in range(2))
    old, new = (spread(draw.choice(SPECS)) for _ in range(2))
    data = np.arange(np.prod(shape)).reshape(shape).astype(draw.choice(["u1", "i4", "c16"]))
    with simulated(seed, pinned, draw.choice([0.5, 1.0])) as runtime:
        x = gs.device_put(data, old)
        x.block_until_ready()
        plan = x.plan(new)
        begin(runtime)
        y = gs.reshard(x, new)
        y.block_until_ready()
        check_peaks(runtime, plan)
        how, tiling = roll(shape, (3, -2), (0, 1)), new.tiling(shape)
        begin(runtime)
        turned = rearrange([x._live()], how, tiling)
        turned.wait()
        check_peaks(runtime, plan_for([x._live()], how, tiling)[0].plan)
        assert np.array_equal(y, data)
        assert np.array_equal(gs.Array(turned, new), np.roll(data, (3, -2), (0, 1)))
        rounds = [int(n) for n in re.findall(r"in ([\d,]+) rounds?", plan.explain())]
        assert rounds == [staging.rounds for staging in plan.staging.values()]


def test_a_move_fits_wherever_its_result_does() -> None:
    """1 MiB for each device, or a sixteenth, and page-locked memory of 256 bytes."""
    side = some(256, 1024)
    data = np.arange(side**2, dtype="i4").reshape(side, side)
    with simulated(0, 256) as runtime, contextlib.ExitStack() as limited:
        x = gs.device_put(data, spread(P(("x", "y"))))
        x.block_until_ready()
        columns = spread(P(None, ("x", "y")))
        plan = x.plan(columns)
        for device in runtime.devices:
            device.account.limit = plan.peak[device]
            limited.callback(setattr, device.account, "limit", None)
        begin(runtime)
        y = gs.reshard(x, columns)
        y.block_until_ready()
        check_peaks(runtime, plan)
        assert {of: s.nbytes for of, s in plan.staging.items()} == dict.fromkeys(range(4), 256)
        assert all(s.rounds >= 3 * side**2 // 4 // 256 for s in plan.staging.values())
        assert {s.chunk_bytes for s in plan.staging.values()} == {256 // 4}
        assert [device.account.peak for device in runtime.devices] == list(plan.peak.values())
        assert np.array_equal(y, data)


@pytest.mark.parametrize(
    ("side", "pinned", "planned"),
    [
        (64, 4096, Staging(slots=3, slot_bytes=256, chunk_bytes=256, chunks=3)),
        (64, 512, Staging(slots=4, slot_bytes=128, chunk_bytes=128, chunks=6)),
        (16, 4096, Staging(slots=3, slot_bytes=64, chunk_bytes=16, chunks=3)),
        (16, 64, Staging(slots=1, slot_bytes=64, chunk_bytes=16, chunks=3)),
    ],
)
def test_slots_are_as_large_as_what_each_domain_gets_or_a_quarter_of_the_ring(
    side: int, pinned: int, planned: Staging
) -> None:
    """Three others get a sixteenth of the bytes each from a domain."""
    with simulated(0, pinned) as runtime:
        data = np.zeros((side, side), "u1")
        plan = gs.device_put(data, spread(P(("x", "y")))).plan(spread(P(None, ("x", "y"))))
        assert plan.staging == dict.fromkeys(range(len(runtime.devices)), planned)


def test_slots_are_filled_as_often_as_there_are_chunks_for_all_of_them() -> None:
    for chunks, rounds in ((1, 1), (4, 1), (5, 2), (8, 2), (9, 3)):
        planned = Staging(slots=4, slot_bytes=64, chunk_bytes=60, chunks=chunks)
        assert (planned.rounds, planned.nbytes) == (rounds, 256)


@pytest.mark.parametrize("room", [0, 64, 128, 192, 256, 1024])
def test_others_that_use_the_ring_leave_room_for_one_round_or_it_is_an_error(room: int) -> None:
    data = np.arange(400, dtype="i4").reshape(20, 20)
    with simulated(0, 1024) as runtime:
        x = gs.device_put(data, spread(P("x")))
        x.block_until_ready()
        ring = runtime.domains[0].ring
        held = runtime.run_locked(lambda: (ring.trim() and 0) or ring.take((), 1024 - room, None))
        try:
            if room:
                y = gs.reshard(x, spread(P(None, "x")))
                assert np.array_equal(y, data)
            else:
                before = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
                with pytest.raises(OutOfMemoryError, match="no room"):
                    gs.reshard(x, spread(P(None, "x")))
                after = [device.memory_stats()["bytes_in_use"] for device in runtime.devices]
                assert after == before
            assert np.array_equal(x, data)
        finally:
            runtime.run_locked(lambda: ring.release(held))


def test_slots_are_held_until_all_that_goes_through_them_is_submitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A library that needs memory for a launch may give back whatever nobody holds by then."""
    with simulated(0, 256) as runtime:
        x = gs.device_put(np.arange(400, dtype="i4").reshape(20, 20), spread(P("x")))
        x.block_until_ready()
        begin(runtime)
        held = []
        enqueue = runtime.backend.enqueue

        def watched(item: Any) -> None:
            runtime._claims.drain()
            held.append([d.ring.total - d.ring.free for d in runtime.domains[:4]])
            enqueue(item)

        monkeypatch.setattr(runtime.backend, "enqueue", watched)
        columns = spread(P(None, "x"))
        y = gs.reshard(x, columns)
        monkeypatch.undo()
        planned = [x.plan(columns).staging[of].nbytes for of in range(4)]
        assert held == [planned] * len(held) and len(held) > 4
        assert np.array_equal(y, np.arange(400).reshape(20, 20))
