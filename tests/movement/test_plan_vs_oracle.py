"""Plans and what really happens against the element oracle.

Every case compares, per memory domain, the bytes that the plan announces with the oracle's least
(W and R), the bytes counted where the backend copies with both, the values of every shard with
NumPy, and the predicted peak of every device with the measured one; under a guard that forbids
all copies between host and devices.
"""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement.execute import run as run_plan
from gpushard._movement.planning.dim_maps import Piece, permutation
from gpushard._movement.reshard import plan_for
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from tests.movement.element_oracle import Box, Part, Shape, Side, Spec, all_specs, bounds, charges
from tests.movement.strategies import (
    DEVICES,
    DTYPES,
    Free,
    Layout,
    Runtimes,
    far_pairs,
    free_boxes,
    grids,
    indices,
    numbers,
    runtimes_of,
    sharding_of,
    side_of_part,
    sides,
    sources,
    strides,
)
from tests.share import examples, some

CHECKED = {"enable_checks": True, "plan_cache_bytes": 1 << 18}
POOLED = CHECKED | {"small_bytes": 0, "inline_bytes": 0, "relay_bytes": 0}
"""Everything is pooled and runs on streams; whatever may be relayed is."""
INLINE = CHECKED | {"small_bytes": 0}
"""Everything is pooled and copied by the caller."""
DEFAULTS = CHECKED
"""Small arrays are not pooled and are copied by the caller."""


@contextlib.contextmanager
def no_host_transfers() -> Iterator[None]:
    with (
        gs.transfer_guard_host_to_device("disallow_explicit"),
        gs.transfer_guard_device_to_host("disallow_explicit"),
    ):
        yield


def as_ranges(shape: Shape, box: Box) -> list[range]:
    return [range(*part.indices(n)) for n, part in zip(shape, box, strict=True)]


@dataclasses.dataclass
class Case:
    """A source that lies on devices, and everything known about it."""

    runtime: Runtime
    data: np.ndarray
    source: Layout
    x: gs.Array

    @classmethod
    def make(cls, runtime: Runtime, data: np.ndarray, source: Layout) -> "Case":
        return cls(runtime, data, source, gs.device_put(data, sharding_of(runtime, source)))

    def check(self, destination: Layout) -> None:
        """Reshard and compare everything with the oracle."""
        sharding = sharding_of(self.runtime, destination)
        plan = self.x.plan(sharding)
        self.compare(plan, lambda: gs.reshard(self.x, sharding), destination)

    def check_part(self, destination: Layout, piece: Piece, part: Part, reuse: bool = True) -> None:
        """Move a part of the array to `destination`."""
        sharding = sharding_of(self.runtime, destination)
        buffer = self.x._live()
        prepared = plan_for(buffer, sharding.tiling(piece.shape), piece)
        self.compare(
            prepared.plan,
            lambda: gs.Array(run_plan(prepared, (buffer,)), sharding),
            *(destination, part, reuse),
        )

    def compare(
        self,
        plan: gs.Plan,
        run: Callable[[], gs.Array],
        destination: Layout,
        part: Part = np.asarray,
        reuse: bool = True,
    ) -> None:
        """Run a movement and compare its plan, its result and what was counted.

        Args:
          plan: what the library says.
          run: does it.
          destination: how the result shall lie.
          part: which part of the source it is, for NumPy.
          reuse: whether memory of the source may be reused.
        """
        runtime, itemsize = self.runtime, self.data.itemsize
        domain = tuple(device.memory_domain for device in runtime.devices)
        least = bounds(
            self.data.shape, self.source, destination, domain, itemsize, part, reuse=reuse
        )
        written = {m: bound.written * itemsize for m, bound in least.items()}
        received = {m: bound.received * itemsize for m, bound in least.items()}
        assert (plan.written, plan.received) == (written, received)
        assert plan.bytes_written == sum(written.values())
        assert plan.bytes_received == sum(received.values())
        if plan.how.overlap.free:
            check_joined(plan)
        fresh_peaks(runtime)
        before = dict(runtime.backend.traffic)
        with no_host_transfers():
            y = run().block_until_ready()
        moved = {k: n - before.get(k, 0) for k, n in runtime.backend.traffic.items()}
        moved = nonzero(moved)
        assert moved == plan.link_bytes
        assert into(moved) == nonzero(written)
        assert into(moved, others=True) == nonzero(received)
        assert not any(HOST_DOMAIN in link for link in moved)
        check_peaks(runtime, plan)
        check_values(y, part(self.data), destination)
        reused = any(bound.aliased or bound.viewed for bound in least.values())
        if isinstance(self.source, Side) and isinstance(destination, Side) and not reused:
            self.check_charges(destination, y.shape)

    def check_charges(self, destination: Side, shape: Shape) -> None:
        """Compare what the devices pay for, source and result, with the rule for shared blocks."""
        domain = tuple(device.memory_domain for device in self.runtime.devices)
        assert isinstance(self.source, Side)
        of = charges(self.source, self.data.shape, domain)
        to = charges(destination, shape, domain)
        for device in self.runtime.devices:
            elements = of.get(device.id, 0) + to.get(device.id, 0)
            assert device.account.in_use == elements * self.data.itemsize


def nonzero(counts: dict[Any, int]) -> dict[Any, int]:
    return {key: n for key, n in counts.items() if n}


def into(links: dict[tuple[int, int], int], *, others: bool = False) -> dict[int, int]:
    """Bytes that arrive in each domain; only those of other domains, if asked."""
    result: dict[int, int] = {}
    for (of, to), nbytes in links.items():
        if not (others and of == to):
            result[to] = result.get(to, 0) + nbytes
    return result


def fresh_peaks(runtime: Runtime) -> None:
    """Account for what is gone and measure peaks anew."""
    runtime.devices[0].memory_stats()
    for device in runtime.devices:
        device.account.peak = device.account.in_use


def check_peaks(runtime: Runtime, plan: gs.Plan) -> None:
    for device in runtime.devices:
        measured = device.memory_stats()["peak_bytes_in_use"] or 0
        assert measured <= plan.peak.get(device, 0) <= 1.05 * measured


def check_joined(plan: gs.Plan) -> None:
    """No two copies could be one: those of a block from one place do not continue one another."""
    copies = plan.how.copies
    read_pair = np.full(len(copies), -1) if copies.read_pair is None else copies.read_pair
    held = np.where(read_pair < 0, copies.held, -1)
    of = list(zip(copies.pair.tolist(), held.tolist(), read_pair.tolist(), strict=True))
    boxes = [
        list(zip(starts, lengths, strict=True))
        for starts, lengths in zip(
            copies.destination_offset.T.tolist(), copies.length.T.tolist(), strict=True
        )
    ]
    for dim in range(len(copies.length)):
        rest = [(way, box[:dim], box[dim + 1 :]) for way, box in zip(of, boxes, strict=True)]
        begins = {repr((one, box[dim][0])) for one, box in zip(rest, boxes, strict=True)}
        ends = {repr((one, sum(box[dim]))) for one, box in zip(rest, boxes, strict=True)}
        assert not begins & ends


def check_values(y: gs.Array, expected: np.ndarray, side: Layout) -> None:
    boxes = side.boxes(expected.shape)
    shards = y.addressable_shards
    assert y.shape == expected.shape
    assert [shard.device.id for shard in shards] == list(boxes)
    for shard, box in zip(shards, boxes.values(), strict=True):
        assert as_ranges(y.shape, shard.index) == as_ranges(y.shape, box)
        value = np.asarray(shard.data)
        assert value.dtype == expected.dtype
        assert value.shape == expected[box].shape
        assert value.tobytes() == expected[box].tobytes()


CUBE = (2, 2, 2)
SPECS_2D = list(all_specs(2, 3))
EVERY_SIZE = {"even": ((8, 8), np.int32), "uneven": ((5, 7), np.float64)}


def check_all_pairs(runtime: Runtime, shape: Shape, dtype: Any, specs: list[Spec]) -> int:
    count, data, order = 0, numbers(shape, dtype), tuple(range(8))
    for source in SPECS_2D:
        case = Case.make(runtime, data, Side(CUBE, order, source))
        for destination in specs:
            case.check(Side(CUBE, order, destination))
            count += 1
        check_values(case.x, data, case.source)
    return count


in_every_domain = pytest.mark.parametrize("domains", [1, 2, 8])


@in_every_domain
@pytest.mark.parametrize(("size", "mode"), [("even", INLINE), ("uneven", POOLED)])
def test_all_pairs(size: str, mode: dict[str, int], domains: int) -> None:
    with testing.runtime(host_domains=domains, **mode) as runtime:
        chosen = SPECS_2D[:: some(12, 1)]
        assert check_all_pairs(runtime, *EVERY_SIZE[size], chosen) == 49 * len(chosen)


@in_every_domain
@pytest.mark.parametrize(
    ("size", "mode"),
    some(
        [("uneven", DEFAULTS)],
        [("even", POOLED), ("uneven", INLINE), ("even", DEFAULTS), ("uneven", DEFAULTS)],
    ),
)
def test_pairs_in_the_other_modes(size: str, mode: dict[str, int], domains: int) -> None:
    with testing.runtime(host_domains=domains, **mode) as runtime:
        assert check_all_pairs(runtime, *EVERY_SIZE[size], SPECS_2D[::7]) == 49 * 7


DOMAINS = (1, 2, 3, 4, 12)


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    with runtimes_of(DOMAINS, POOLED, DEFAULTS) as made:
        yield made


Source = tuple[np.ndarray, Side]
choices = st.tuples(st.sampled_from(DOMAINS), st.booleans())
random_cases = examples(250)


@random_cases
@given(st.data(), sources(), choices)
def test_random_reshards(
    runtimes: Runtimes, draw: st.DataObject, source: Source, choice: tuple[int, bool]
) -> None:
    data, side = source
    Case.make(runtimes[choice], data, side).check(draw.draw(sides(data.ndim)))


@random_cases
@given(st.data(), sources(), choices)
def test_random_parts(
    runtimes: Runtimes, draw: st.DataObject, source: Source, choice: tuple[int, bool]
) -> None:
    data, side = source
    index = draw.draw(indices(data.shape))
    case = Case.make(runtimes[choice], data, side)
    destination = side_of_part(data.shape, side, index)
    piece = index_piece(parse_index(data.shape, index))
    tiling = sharding_of(case.runtime, destination).tiling(piece.shape)
    plan = plan_for(case.x._live(), tiling, piece).plan
    case.compare(plan, lambda: case.x[index], destination, lambda a: np.asarray(a[index]))


@random_cases
@given(st.data(), sources(), choices)
def test_random_parts_to_other_devices(
    runtimes: Runtimes, draw: st.DataObject, source: Source, choice: tuple[int, bool]
) -> None:
    data, side = source
    index = draw.draw(indices(data.shape))
    destination = draw.draw(sides(data[index].ndim))
    piece = index_piece(parse_index(data.shape, index))
    Case.make(runtimes[choice], data, side).check_part(
        destination, piece, lambda a: np.asarray(a[index])
    )


@examples(120)
@given(st.data(), st.lists(st.integers(1, 18), min_size=1, max_size=3).map(tuple), st.booleans())
def test_random_parts_with_many_holders(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, pooled: bool
) -> None:
    """Blocks that several domains hold and others want, in strides: boxes are cut."""
    data, index = numbers(shape, draw.draw(st.sampled_from(DTYPES))), draw.draw(strides(shape))
    source, destination = draw.draw(far_pairs(shape, data[index].shape))
    Case.make(runtimes[DEVICES, pooled], data, source).check_part(
        destination, index_piece(parse_index(shape, index)), lambda a: a[index]
    )


@random_cases
@given(st.data(), sources(), choices)
def test_random_transposes(
    runtimes: Runtimes, draw: st.DataObject, source: Source, choice: tuple[int, bool]
) -> None:
    data, side = source
    axes = tuple(draw.draw(st.permutations(range(data.ndim))))
    destination = draw.draw(sides(data.ndim))
    # What changes the order of dims is copied, even where a block has only one long dim.
    Case.make(runtimes[choice], data, side).check_part(
        destination,
        permutation(data.shape, axes),
        lambda a: a.transpose(axes),
        reuse=axes == tuple(range(data.ndim)),
    )


@random_cases
@given(st.data(), st.lists(st.integers(0, 9), max_size=3).map(tuple), choices)
def test_random_shardings_of_users(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, choice: tuple[int, bool]
) -> None:
    data = numbers(shape, draw.draw(st.sampled_from(DTYPES)))
    case = Case.make(runtimes[choice], data, draw.draw(grids(shape)))
    case.check(draw.draw(grids(shape) | sides(len(shape))))


@examples(400)
@given(st.data(), st.lists(st.integers(0, 9), max_size=3).map(tuple), choices)
def test_random_boxes_that_form_no_grid(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, choice: tuple[int, bool]
) -> None:
    """As the source, as the destination, or both; the whole and parts."""
    data = numbers(shape, draw.draw(st.sampled_from(DTYPES)))
    alone = Side((1,), (draw.draw(st.integers(0, DEVICES - 1)),), ((),) * len(shape))
    source = draw.draw(free_boxes(shape) | sides(len(shape)) | st.just(alone))
    case = Case.make(runtimes[choice], data, source)
    case.check(draw.draw(free_boxes(shape)))
    index = draw.draw(indices(shape))
    piece = index_piece(parse_index(shape, index))
    destination = draw.draw(free_boxes(piece.shape) | sides(len(piece.shape)))
    case.check_part(destination, piece, lambda a: np.asarray(a[index]))
    axes = tuple(draw.draw(st.permutations(range(len(shape)))))
    turned = permutation(shape, axes)
    case.check_part(
        draw.draw(free_boxes(turned.shape)),
        turned,
        lambda a: a.transpose(axes),
        reuse=axes == tuple(range(len(shape))),
    )


def test_plans_of_equal_shapes_know_their_dtype() -> None:
    source, destination = Side(CUBE, tuple(range(8)), ((0,),)), Side(CUBE, tuple(range(8)), ((2,),))
    with testing.runtime(host_domains=2, **POOLED) as runtime:
        for dtype in DTYPES * 2:
            Case.make(runtime, numbers((6, 6), dtype), source).check(destination)


def test_what_is_read_from_one_new_block_is_one_copy() -> None:
    """Whatever lies beside it, and whoever else holds it."""
    whole, column = ((0, 2), (0, 3)), ((0, 2), (1, 2))
    source = Free((2, 3), ((0, whole), (2, ((0, 1), (2, 3))), (3, ((1, 2), (2, 3)))))
    destination = Free((2, 3), ((2, whole), (3, column)))
    with testing.runtime(host_devices=4, host_domains=2, **POOLED) as runtime:
        case = Case.make(runtime, numbers((2, 3), np.int32), source)
        case.check(destination)
        copies = case.x.plan(sharding_of(runtime, destination)).how.copies
        assert copies.read_pair is not None and copies.read_pair.tolist() == [-1, -1, -1, 0]
