"""Steps of plans: every element is written once, before it is read, where the step says so."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard.movement.plan import make_plan
from gpushard.ops.indexing import index_piece, parse_index
from gpushard.runtime.runtime import Runtime
from tests.movement.element_oracle import Shape, Side
from tests.movement.strategies import DEVICES, free_boxes, indices, sharding_of, sides
from tests.share import examples


@pytest.fixture(scope="module")
def runtimes() -> Iterator[dict[int, Runtime]]:
    made = {}
    for domains in (1, 3, 12):
        with testing.runtime(host_devices=DEVICES, host_domains=domains) as runtime:
            made[domains] = runtime
    yield made


def check_steps(plan: gs.Plan) -> int:
    """Follow the steps with one count of writes per element; return the copies between blocks."""
    recipe, shards = plan.recipe, len(plan.source.devices)
    written = {shards + i: np.zeros(s, int) for i, (_, s, _) in enumerate(recipe.allocations)}
    domain = {
        shards + i: plan.overlap.wanted.device_domain[home]
        for i, (home, _, _) in enumerate(recipe.allocations)
    }
    writer = {to: np.full(count.shape, -1) for to, count in written.items()}
    last_part: dict[int, int] = {}
    between = 0
    for number, step in enumerate(recipe.steps):
        after = dict(step.after)
        assert set(after) == {of for of in step.reads if of >= shards}
        for to in step.writes:
            assert domain[to] == step.domain
            assert step.part > last_part[to] if to in last_part else step.part == 0
            last_part[to] = step.part
        assert not set(step.reads) & set(step.writes)
        for phase in step.phases:
            before = {to: count.copy() for to, count in written.items()}
            for to, to_index, of, of_index, source_domain in phase.moves:
                assert to in step.writes
                assert of in step.reads or of in step.writes
                written[to][to_index] += 1
                writer[to][to_index] = number
                if of < shards:
                    shard = np.empty(plan.source.shard_shapes[of])[of_index]
                    shape = (
                        shard.shape if phase.order is None else shard.transpose(phase.order).shape
                    )
                    assert source_domain == plan.overlap.held.device_domain[of]
                else:
                    assert (before[of][of_index] == 1).all()
                    assert (writer[of][of_index] <= after.get(of, number)).all()
                    assert source_domain == domain[of]
                    assert (source_domain == step.domain) == (of not in after)
                    assert phase.order is None
                    shape = before[of][of_index].shape
                    between += 1
                assert written[to][to_index].shape == shape
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
    alone = Side((1,), (draw.draw(st.integers(0, DEVICES - 1)),), ((),) * len(shape))
    source = draw.draw(free_boxes(shape) | sides(len(shape)) | st.just(alone))
    destination = draw.draw(free_boxes(piece.shape) | sides(len(piece.shape)))
    of = sharding_of(runtime, source).tiling(shape)
    to = sharding_of(runtime, destination).tiling(piece.shape)
    relay_bytes = draw.draw(st.sampled_from([None, 0, 0, 50]))
    plan = make_plan(of, to, piece, itemsize=4, relay_bytes=relay_bytes)
    between = check_steps(plan)
    event(f"copies between blocks: {between > 0}, relays: {plan.relays > 0}")
