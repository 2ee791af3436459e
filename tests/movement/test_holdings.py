"""Who sends what: copies tile their blocks, and holders of a block share the work by bytes."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement.planning.dim_maps import Piece, identity
from gpushard._movement.planning.reshard import make_plan
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard._runtime.runtime import Runtime
from tests.movement.element_oracle import Part, Shape, Side, all_specs, blocks_of, bounds
from tests.movement.strategies import DEVICES, far_pairs, indices, sharding_of, sides, strides
from tests.share import examples

LONG = 16
"""A dim of so many rows is long enough to be cut by the first long one."""

Runtimes = dict[int, Runtime]


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    made = {}
    for domains in (2, 4, 12):
        with testing.runtime(host_devices=DEVICES, host_domains=domains) as runtime:
            made[domains] = runtime
    yield made


def plan_of(
    runtime: Runtime, shape: Shape, source: Side, destination: Side, piece: Piece | None = None
) -> gs.Plan:
    piece = piece or identity(shape)
    of, to = sharding_of(runtime, source), sharding_of(runtime, destination)
    return make_plan(of.tiling(shape), to.tiling(piece.shape), piece, itemsize=4)


def domains_of(runtime: Runtime) -> tuple[int, ...]:
    return tuple(device.memory_domain for device in runtime.devices)


def box_copies(plan: gs.Plan) -> Iterator[tuple[int, int, tuple[Any, ...], tuple[Any, ...]]]:
    """(reading device, writing device, source indices, destination indices) of every copy."""
    copies, overlap, maps = plan.how.copies, plan.how.overlap, plan.how.piece.maps
    for i in range(len(copies)):
        of = int(overlap.held.home[copies.held[i]])
        to = int(overlap.wanted.home[copies.pair[i]])
        read: dict[int, range] = {}
        write: dict[int, range] = {}
        for dim, m in enumerate(maps):
            length = int(copies.length[dim, i])
            if m.source is not None:
                first = int(copies.source_offset[dim, i] + plan.source.starts[m.source, of])
                read[m.source] = range(first, first + m.step * length, m.step)
            if m.destination is not None:
                first = int(copies.destination_offset[dim, i])
                first += int(plan.destination.starts[m.destination, to])
                write[m.destination] = range(first, first + length)
        yield (
            of,
            to,
            tuple(v for _, v in sorted(read.items())),
            tuple(v for _, v in sorted(write.items())),
        )


def check_tiling(
    runtime: Runtime, shape: Shape, source: Side, destination: Side, plan: gs.Plan, part: Part
) -> None:
    """Every copied block is written once, with the right elements, out of boxes that hold them."""
    numbers = np.arange(math.prod(shape)).reshape(shape)
    result = part(numbers)
    domain, held, wanted = domains_of(runtime), source.boxes(shape), destination.boxes(result.shape)
    times = {m: np.zeros(result.shape, int) for m in set(domain)}
    for i, (of, to, read, write) in enumerate(box_copies(plan)):
        reader = plan.source.devices[of]
        writer = plan.destination.devices[to]
        assert isinstance(reader, gs.Device)
        assert isinstance(writer, gs.Device)
        assert all(len(r) for r in (*read, *write))
        assert int(plan.how.copies.source_domain[i]) == reader.memory_domain
        assert int(plan.how.copies.domain[i]) == writer.memory_domain
        for ranges, box in ((read, held[reader.id]), (write, wanted[writer.id])):
            for r, edges in zip(ranges, box, strict=True):
                assert edges.start <= min(r) and max(r) < edges.stop
        elements = numbers[np.ix_(*read)].ravel()
        assert elements.tolist() == result[np.ix_(*write)].ravel().tolist()
        times[writer.memory_domain][np.ix_(*write)] += 1
    least = bounds(shape, source, destination, domain, 4, part)
    for m, count in times.items():
        assert count.max(initial=0) <= 1
        assert count.sum() == (least[m].written if m in least else 0)


def check_balance(
    runtime: Runtime, shape: Shape, source: Side, destination: Side, plan: gs.Plan
) -> int:
    """The holders of a block send about equally much; return how many blocks were shared."""
    numbers, domain = np.arange(math.prod(shape)).reshape(shape), domains_of(runtime)
    least = bounds(shape, source, destination, domain, 4)
    holders = defaultdict(set)
    for m, blocks in blocks_of(source, domain, numbers).items():
        for block in blocks:
            holders[block].add(m)
    block_of = {e: block for block in holders for e in block.elements}
    sent: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    rows: dict[Any, int] = defaultdict(int)
    for of, to, read, _ in box_copies(plan):
        sender, receiver = plan.source.devices[of], plan.destination.devices[to]
        assert isinstance(sender, gs.Device)
        assert isinstance(receiver, gs.Device)
        if sender.memory_domain == receiver.memory_domain:
            continue
        block = block_of[int(numbers[tuple(r[0] for r in read)])]
        sent[block][sender.memory_domain] += math.prod(map(len, read))
        box = [
            range(max(a.start, b.start), min(a.stop, b.stop))
            for a, b in zip(
                source.boxes(shape)[sender.id], destination.boxes(shape)[receiver.id], strict=True
            )
        ]
        lengths = list(map(len, box))
        cut = next((n for n in lengths if n >= LONG), max(lengths, default=1))
        rows[block] = max(rows[block], math.prod(lengths) // cut)
    shared = 0
    for block, senders in holders.items():
        total = sum((bound.missing & block.mask).bit_count() for bound in least.values())
        assert sum(sent[block].values()) == total
        assert set(sent[block]) <= senders
        share = math.ceil(total / len(senders))
        assert max(sent[block].values(), default=0) <= share + rows[block]
        shared += len(senders) > 1 and total > 0
    return shared


@pytest.mark.parametrize(
    ("shape", "count"), [((8, 8), 800), ((5, 7), 800), ((40, 3), 300), ((3, 40), 300)]
)
def test_pairs_of_a_cube(shape: Shape, count: int) -> None:
    pairs = list(itertools.product(all_specs(2, 3), repeat=2))
    shared = 0
    with testing.runtime(host_domains=8) as runtime:
        for source, destination in pairs[:: len(pairs) // count]:
            a, b = (Side((2, 2, 2), tuple(range(8)), spec) for spec in (source, destination))
            plan = plan_of(runtime, shape, a, b)
            shared += check_balance(runtime, shape, a, b, plan)
    assert shared > count


sizes = st.lists(st.integers(1, 6) | st.integers(1, 40), max_size=3).map(tuple)


@examples(200)
@given(st.data(), sizes.filter(lambda shape: math.prod(shape) < 3000), st.sampled_from([2, 4, 12]))
def test_random_balance(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, domains: int
) -> None:
    source, destination = draw.draw(sides(len(shape))), draw.draw(sides(len(shape)))
    plan = plan_of(runtimes[domains], shape, source, destination)
    shared = check_balance(runtimes[domains], shape, source, destination, plan)
    event(f"shared blocks: {shared > 0}")
    check_tiling(runtimes[domains], shape, source, destination, plan, np.asarray)


@examples(200)
@given(st.data(), sizes.filter(lambda shape: math.prod(shape) < 3000), st.sampled_from([2, 4, 12]))
def test_random_parts_are_tiled(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, domains: int
) -> None:
    source, index = draw.draw(sides(len(shape))), draw.draw(indices(shape))
    piece = index_piece(parse_index(shape, index))
    destination = draw.draw(sides(len(piece.shape)))
    plan = plan_of(runtimes[domains], shape, source, destination, piece)
    check_tiling(
        runtimes[domains], shape, source, destination, plan, lambda a: np.asarray(a[index])
    )


@examples(100)
@given(st.data(), st.lists(st.integers(1, 30), min_size=1, max_size=2).map(tuple))
def test_random_parts_with_many_holders(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape
) -> None:
    index = draw.draw(strides(shape))
    piece = index_piece(parse_index(shape, index))
    source, destination = draw.draw(far_pairs(shape, piece.shape))
    runtime = runtimes[DEVICES]
    plan = plan_of(runtime, shape, source, destination, piece)
    event(f"cut boxes: {len(plan.how.copies) > plan.how.overlap.cells.sum()}")
    check_tiling(runtime, shape, source, destination, plan, lambda a: a[index])
    source, destination = draw.draw(far_pairs(shape, shape))
    plan = plan_of(runtime, shape, source, destination)
    check_balance(runtime, shape, source, destination, plan)
    check_tiling(runtime, shape, source, destination, plan, np.asarray)


@pytest.mark.parametrize("holders", [2, 3, 5])
def test_one_big_block_is_cut_evenly(holders: int) -> None:
    """A block that `holders` domains hold and one lacks: each sends its share of whole rows."""
    shape, order = (97, 3), tuple(range(holders))
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        source, destination = Side((holders,), order, ((), ())), Side((1,), (7,), ((), ()))
        plan = plan_of(runtime, shape, source, destination)
        sent = sorted(n for (of, to), n in plan.link_bytes.items() if of != to)
        assert len(sent) == holders
        assert sent[-1] - sent[0] <= 3 * 4
        check_tiling(runtime, shape, source, destination, plan, np.asarray)


@pytest.mark.parametrize("receivers", [1, 2, 4])
def test_scalars_have_holders_too(receivers: int) -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        source = Side((4,), (0, 1, 2, 3), ())
        destination = Side((receivers,), tuple(range(8 - receivers, 8)), ())
        plan = plan_of(runtime, (), source, destination)
        assert sorted(plan.link_bytes.values()) == [4] * receivers
        assert len({of for of, _ in plan.link_bytes}) == receivers
        check_tiling(runtime, (), source, destination, plan, np.asarray)
        x = gs.device_put(np.float32(3), sharding_of(runtime, source))
        y = gs.reshard(x, sharding_of(runtime, destination))
        assert [float(shard.data) for shard in y.addressable_shards] == [3.0] * receivers
