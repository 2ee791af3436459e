"""Steps of plans: every element is written once, before it is read, where the step says so."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement.planning.holdings import holdings
from gpushard._movement.planning.rearrange import make_rearrange
from gpushard._movement.planning.reshard import make_plan
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard._runtime.runtime import Runtime
from tests.movement.element_oracle import Shape, Side
from tests.movement.rearranged import OPERATIONS
from tests.movement.strategies import DEVICES, free_boxes, grids, indices, sharding_of, sides
from tests.share import examples

PLACES = st.integers(0, DEVICES - 1)
RELAYING = st.sampled_from([None, 0, 0, 50])
"""`relay_bytes`."""


def _alone(ndim: int, place: int) -> Side:
    """The layout of an array that one device has."""
    return Side((1,), (place,), ((),) * ndim)


@pytest.fixture(scope="module")
def runtimes() -> Iterator[dict[int, Runtime]]:
    made = {}
    for domains in (1, 3, 12):
        with testing.runtime(host_devices=DEVICES, host_domains=domains) as runtime:
            made[domains] = runtime
    yield made


def check_steps(plan: gs.Plan) -> int:
    """Follow the steps with one count of writes per element; return the copies between blocks."""
    shards = sum(len(source.devices) for source in plan.sources)
    written = {shards + i: np.zeros(s, int) for i, (_, s, _) in enumerate(plan.allocations)}
    domain = {
        shards + i: plan.wanted.device_domain[home]
        for i, (home, _, _) in enumerate(plan.allocations)
    }
    held = [of for source in plan.sources for of in holdings(source.assignment).device_domain]
    shapes = [shape for source in plan.sources for shape in source.shard_shapes]
    inside = [np.ones(shape, int) for shape in shapes]
    writer = {to: np.full(count.shape, -1) for to, count in written.items()}
    last_part: dict[int, int] = {}
    between = 0
    for number, step in enumerate(plan.steps):
        after = dict(step.after)
        assert set(after) == {of for of in step.reads if of >= shards}
        for to in step.writes:
            assert domain[to] == step.domain
            assert step.part > last_part[to] if to in last_part else step.part == 0
            last_part[to] = step.part
        assert not set(step.reads) & set(step.writes)
        for to, view in step.fills:
            part = view.of(np.zeros(0) if to not in written else written[to])
            part += 1
            view.of(writer[to])[...] = number
        for phase in step.phases:
            before = {to: count.copy() for to, count in written.items()}
            assert phase.itemsize == 8
            for to, target, of, source, source_domain in phase.moves:
                assert to in step.writes
                assert of in step.reads or of in step.writes
                assert target.shape == source.shape
                part = target.of(written[to])
                part += 1
                view = target.of(writer[to])
                view[...] = number
                assert np.may_share_memory(part, written[to])
                if of < shards:
                    assert source.of(inside[of]).all()
                    assert source_domain == held[of]
                else:
                    assert (source.of(before[of]) == 1).all()
                    assert (source.of(writer[of]) <= after.get(of, number)).all()
                    assert source_domain == domain[of]
                    assert (source_domain == step.domain) == (of not in after)
                    between += 1
    assert all((count == 1).all() for count in written.values())
    assert set(last_part) == set(written)
    return between


@examples(300)
@given(
    st.data(),
    st.lists(st.integers(0, 9), max_size=3).map(tuple),
    st.sampled_from([1, 3, 12]),
)
def test_every_read_follows_its_write(
    runtimes: dict[int, Runtime], draw: st.DataObject, shape: Shape, domains: int
) -> None:
    runtime, index = runtimes[domains], draw.draw(indices(shape))
    piece = index_piece(parse_index(shape, index))
    alone = _alone(len(shape), draw.draw(PLACES))
    source = draw.draw(free_boxes(shape) | sides(len(shape)) | st.just(alone))
    destination = draw.draw(free_boxes(piece.shape) | sides(len(piece.shape)))
    of = sharding_of(runtime, source).tiling(shape)
    to = sharding_of(runtime, destination).tiling(piece.shape)
    plan = make_plan(of, to, piece, itemsize=8, relay_bytes=draw.draw(RELAYING))
    between = check_steps(plan)
    event(f"copies between blocks: {between > 0}, relays: {plan.relays > 0}")


@examples(200)
@given(st.data(), st.sampled_from(list(OPERATIONS)), st.sampled_from([1, 3, 12]))
def test_every_read_of_a_rearrangement_follows_its_write(
    runtimes: dict[int, Runtime], draw: st.DataObject, operation: str, domains: int
) -> None:
    runtime, how = runtimes[domains], draw.draw(OPERATIONS[operation]()).how
    layouts = [
        draw.draw(sides(len(shape)) | grids(shape) | st.builds(_alone, st.just(len(shape)), PLACES))
        for shape in how.sources
    ]
    sources = [
        sharding_of(runtime, layout).tiling(shape)
        for layout, shape in zip(layouts, how.sources, strict=True)
    ]
    everywhere = Side((DEVICES,), tuple(range(DEVICES)), ((),) * len(how.shape))
    wanted = draw.draw(sides(len(how.shape)) | st.just(everywhere))
    destination = sharding_of(runtime, wanted).tiling(how.shape)
    numbers = list(range(len(sources)))
    if len(set(how.sources)) == 1 and draw.draw(st.booleans()):  # one source, several times
        sources, numbers = sources[:1], [0] * len(sources)
    roots = [0] * len(sources)
    relay_bytes = draw.draw(RELAYING)
    plan = make_rearrange(how, sources, numbers, destination, 8, roots, relay_bytes)
    between = check_steps(plan)
    event(f"copies between blocks: {between > 0}, relays: {plan.relays > 0}")
    direct = make_rearrange(how, sources, numbers, destination, 8, roots)
    assert (plan.written, plan.received) == (direct.written, direct.received)
