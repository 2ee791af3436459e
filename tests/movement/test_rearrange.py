"""Rearrangements against NumPy, and the bytes that they move against counts of single elements."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard.movement import rearrangements
from gpushard.movement.buffer import ShardedBuffer
from gpushard.movement.rearrange import rearrange, rearrange_plan_for
from gpushard.movement.reshapes import reshape
from gpushard.runtime.runtime import Runtime
from gpushard.testing.deferred import deferred
from tests.movement.rearranged import OPERATIONS, Drawn
from tests.movement.rearrangement_oracle import Box, least
from tests.movement.strategies import (
    DTYPES,
    Layout,
    Runtimes,
    free_boxes,
    grids,
    numbers,
    runtimes_of,
    sharding_of,
    sides,
)

DOMAINS = (1, 2, 12)
POOLED = {"small_bytes": 0, "inline_bytes": 0, "plan_cache_bytes": 1 << 18}
P = gs.P


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    with runtimes_of(DOMAINS, POOLED, {}) as made:
        yield made


choices = st.tuples(st.sampled_from(DOMAINS), st.booleans())


def put(runtime: Runtime, data: np.ndarray, layout: Layout) -> ShardedBuffer:
    buffer = gs.device_put(data, sharding_of(runtime, layout))._live()
    buffer.wait()
    return buffer


def traffic_of(runtime: Runtime, before: dict[tuple[int, int], int]) -> dict[int, tuple[int, int]]:
    """(bytes that are copied into each domain, those from other domains)."""
    counted: dict[int, tuple[int, int]] = {}
    for (of, to), nbytes in runtime.backend.traffic.items():
        nbytes -= before.get((of, to), 0)
        into, received = counted.get(to, (0, 0))
        counted[to] = into + nbytes, received + nbytes * (of != to)
    return {m: counts for m, counts in counted.items() if any(counts)}


def check(
    runtime: Runtime,
    drawn: Drawn,
    layouts: Sequence[Layout],
    dtype: Any,
    destination: Layout,
    same: bool = False,
) -> None:
    """Run a rearrangement and compare all that can be known of it.

    Args:
      runtime: where.
      drawn: what.
      layouts: how the sources lie.
      dtype: of them.
      destination: how the result shall lie.
      same: whether all sources are the first one.
    """
    shapes, how = drawn.shapes, drawn.how
    count = 1 if same else len(shapes)
    sizes = [math.prod(shape) for shape in shapes[:count]]
    first = np.cumsum([0, *sizes])
    ids = [first[n] + np.arange(sizes[n]).reshape(shapes[n]) for n in range(count)]
    data = [numbers(shapes[n], dtype) + np.asarray(17 * n, dtype) for n in range(count)]
    buffers = [put(runtime, *pair) for pair in zip(data, layouts[:count], strict=True)]
    fill = np.asarray(93, dtype)
    sources, of = (buffers * len(shapes), [0] * len(shapes)) if same else (buffers, range(count))
    tiling = sharding_of(runtime, destination).tiling(how.shape)
    domain = tuple(device.memory_domain for device in runtime.devices)
    runtime.devices[0].memory_stats()
    used = [device.account.in_use for device in runtime.devices]
    for device in runtime.devices:
        device.account.peak = device.account.in_use
    before = dict(runtime.backend.traffic)
    result = rearrange(sources, how, tiling, fill=fill)
    result.wait()
    result.check()
    counted = traffic_of(runtime, before)
    expected = np.ascontiguousarray(drawn.numpy([data[n] for n in of], fill)).reshape(how.shape)
    whole = drawn.numpy([ids[n] for n in of], -1).reshape(how.shape)
    kept: dict[int, frozenset[Box]] = {m: frozenset() for m in domain}
    for (device, box), value in zip(
        destination.boxes(how.shape).items(), result.values, strict=True
    ):
        there = np.asarray(value)
        assert there.tobytes() == expected[(*box, ...)].tobytes()
        if any(np.shares_memory(there, old) for buffer in buffers for old in buffer.values):
            bounds = tuple((part.start, part.stop) for part in box)
            kept[domain[device]] |= {bounds}
    held = list(zip(layouts[:count], ids, strict=True))
    itemsize = np.dtype(dtype).itemsize
    bound = least(held, destination, whole, domain, itemsize, kept)
    if not any(hasattr(layout, "bounds") for layout in (*layouts, destination)):
        best = least(held, destination, whole, domain, itemsize)
        assert {m: one.kept for m, one in best.items()} == {m: one.kept for m, one in bound.items()}
    copied = {
        m: ((one.written - one.filled) * itemsize, one.received * itemsize)
        for m, one in bound.items()
        if one.written > one.filled
    }
    assert counted == copied
    written = sum(one.written for one in bound.values()) * itemsize
    runtime.devices[0].memory_stats()
    grown = [d.account.in_use - n for d, n in zip(runtime.devices, used, strict=True)]
    peaks = [d.account.peak - n for d, n in zip(runtime.devices, used, strict=True)]
    assert sum(grown) == sum(peaks) == written
    if how.piece is None:
        plan = rearrange_plan_for(sources, how, tiling)
        assert plan.written == {m: one.written * itemsize for m, one in bound.items()}
        assert plan.received == {m: one.received * itemsize for m, one in bound.items()}
        assert f"{plan.total:,} bytes" in plan.explain()


@pytest.mark.parametrize("operation", OPERATIONS)
@settings(max_examples=150, deadline=None)
@given(data=st.data(), choice=choices)
def test_results_are_numpys_and_no_byte_moves_in_vain(
    runtimes: Runtimes, operation: str, choice: tuple[int, bool], data: st.DataObject
) -> None:
    drawn = data.draw(OPERATIONS[operation]())
    layouts = [data.draw(sides(len(shape))) for shape in drawn.shapes]
    dtype, destination = data.draw(st.sampled_from(DTYPES)), data.draw(sides(len(drawn.how.shape)))
    same = len(set(drawn.shapes)) == 1 and data.draw(st.booleans())
    check(runtimes[choice], drawn, layouts, dtype, destination, same)


@settings(max_examples=200, deadline=None)
@given(data=st.data(), choice=choices, operation=st.sampled_from(list(OPERATIONS)))
def test_boxes_of_users_shardings(
    runtimes: Runtimes, operation: str, choice: tuple[int, bool], data: st.DataObject
) -> None:
    drawn = data.draw(OPERATIONS[operation]())

    def layout(shape: tuple[int, ...]) -> Layout:
        own = (grids(shape), free_boxes(shape)) if math.prod(shape) else ()
        return data.draw(st.one_of(sides(len(shape)), *own))

    layouts, destination = [layout(shape) for shape in drawn.shapes], layout(drawn.how.shape)
    check(runtimes[choice], drawn, layouts, "float32", destination)


@pytest.mark.parametrize("seed", range(60))
def test_any_schedule(seed: int) -> None:
    with testing.simulated(
        seed, host_devices=4, host_domains=(1, 2, 4)[seed % 3], inline_bytes=0, small_bytes=0
    ) as runtime:
        runtime.sim.failing = 0
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        specs = [P("x", "y"), P("y"), P(None, ("y", "x")), P()]
        old = numbers((6, 5), "int32")
        x = deferred(
            gs.device_put(old, gs.NamedSharding(mesh, specs[seed % 4])), lambda v: v + 1
        )._live()
        cases = [
            (reshape((6, 5), (5, 6)), (old + 1).reshape(5, 6)),
            (rearrangements.roll((6, 5), (2, 1), (0, 1)), np.roll(old + 1, (2, 1), (0, 1))),
            (rearrangements.pad((6, 5), ((1, 0), (2, 1))), np.pad(old + 1, ((1, 0), (2, 1)))),
            (rearrangements.tile((6, 5), (2, 3)), np.tile(old + 1, (2, 3))),
            (rearrangements.diagonal((6, 5), -1, 0, 1), np.diagonal(old + 1, -1)),
        ]
        for how, expected in cases[seed % 2 :: 2]:
            sharding = gs.NamedSharding(mesh, P(("x", "y")[seed % 2]))
            result = rearrange([x], how, sharding.tiling(how.shape))
            assert np.array_equal(np.asarray(gs.Array(result, sharding)), expected)
