"""Basic indices against NumPy's: values, shapes, and where the result lies."""

import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpushard as gs
from gpushard._runtime.backend import HOST_DOMAIN
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ArrayIndexError

pytestmark = pytest.mark.usefixtures("rt")

VALUE = np.arange(8 * 6, dtype=np.int32).reshape(8, 6)


def named(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


def expected_spec(spec: gs.PartitionSpec, shape: tuple[int, ...], index: Any) -> gs.PartitionSpec:
    """Follow every dim through an index: what is kept and longer than 1 keeps its axes."""
    entries = list(index if isinstance(index, tuple) else (index,))
    given_dims = sum(e is not None and e is not Ellipsis for e in entries)
    fill = [slice(None)] * (len(shape) - given_dims)
    at = next((i for i, e in enumerate(entries) if e is Ellipsis), None)
    entries = entries + fill if at is None else [*entries[:at], *fill, *entries[at + 1 :]]
    axes, result = iter([spec.axes(dim) for dim in range(len(shape))]), []
    sizes = iter(shape)
    for entry in entries:
        if entry is None:
            result.append(())
            continue
        axis, size = next(axes), next(sizes)
        if isinstance(entry, slice):
            result.append(axis if len(range(size)[entry]) > 1 else ())
    while result and not result[-1]:
        result.pop()
    return gs.P(*result)


@given(st.data())
def test_selects_what_numpy_selects(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    index = data.draw(hnp.basic_indices(case.value.shape, allow_newaxis=True))
    x, expected = case.put(), case.value[index]
    part = x[index]
    found = np.asarray(part)
    assert (part.shape, part.dtype) == (expected.shape, expected.dtype)
    assert (found.shape, found.tobytes()) == (expected.shape, expected.tobytes())
    spec = expected_spec(case.sharding.spec, x.shape, index)
    wanted = gs.NamedSharding(case.sharding.mesh, spec)
    assert part.sharding.is_equivalent_to(wanted, part.ndim)
    for shard in part.addressable_shards:
        assert np.asarray(shard.data).tobytes() == expected[(*shard.index, ...)].tobytes()
    assert (part.committed, part.weak_type) == (True, False)
    x.delete()
    assert np.asarray(part[...]).tobytes() == expected.tobytes()


@given(st.data())
def test_indices_of_indices(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    part, expected = case.put(), case.value
    for _ in range(3):
        index = data.draw(hnp.basic_indices(expected.shape, allow_newaxis=True))
        part, expected = part[index], expected[index]
    assert np.asarray(part).tobytes() == expected.tobytes()


@given(st.data())
def test_rejects_what_numpy_rejects(cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    ends = st.integers(-12, 12)
    steps = st.integers(-3, 3).filter(bool)
    entries = ends | st.just(...) | st.none() | st.builds(slice, ends, ends, steps)
    index = tuple(data.draw(st.lists(entries, max_size=5)))
    x = case.put()
    try:
        expected = case.value[index]
    except IndexError:
        with pytest.raises(ArrayIndexError):
            x[index]
    else:
        assert np.asarray(x[index]).tobytes() == expected.tobytes()


def test_integers_are_whatever_says_so() -> None:
    class Two:
        def __index__(self) -> int:
            return 2

    x = gs.device_put(VALUE, named("x", "y"))
    for index in (np.int8(2), np.array(2), np.uint64(2), Two(), gs.device_put(2)):
        assert np.array_equal(x[index], VALUE[2])
        assert np.array_equal(x[:index], VALUE[:2])
        assert np.array_equal(x[index, index], VALUE[2, 2])


@pytest.mark.parametrize(
    ("entries", "index", "result"),
    [
        (("x", "y"), 0, ("y",)),
        (("x", "y"), (slice(None), 0), ("x",)),
        (("x", "y"), (0, 0), ()),
        (("x", "y"), (None, ...), (None, "x", "y")),
        (("x", "y"), (..., None), ("x", "y")),
        (("x", "y"), slice(2, 3), (None, "y")),
        (("x", "y"), slice(0, 0), (None, "y")),
        (("x", "y"), slice(None, None, -2), ("x", "y")),
        ((("x", "y"),), slice(1, None), (("x", "y"),)),
        ((None, ("y", "x")), (0, slice(None, None, 2)), (("y", "x"),)),
        ((), (0, slice(None)), ()),
    ],
)
def test_kept_dims_keep_their_axes(entries: Any, index: Any, result: Any) -> None:
    x = gs.device_put(VALUE, named(*entries))
    assert x[index].sharding == named(*result)
    assert np.array_equal(x[index], VALUE[index])


def test_single_device_and_uncommitted_arrays_stay_where_they_are() -> None:
    x = gs.device_put(VALUE, gs.devices()[3])
    assert x[1:, ::2].sharding == gs.SingleDeviceSharding(gs.devices()[3])
    assert x[1:, ::2].committed
    weak = gs.device_put(2.0)
    assert (weak[None].committed, weak[None].weak_type) == (False, True)
    assert weak[None].sharding == weak.sharding


@pytest.mark.parametrize("shape", [(6,), (5, 3), (3, 2, 4), (0, 4), (4, 0)])
def test_iteration_yields_rows_without_the_host(rt: Runtime, shape: tuple[int, ...]) -> None:
    value = np.arange(np.prod(shape)).reshape(shape)
    x = gs.device_put(value, named("x", *["y"] * (len(shape) > 1)))
    before = dict(rt.backend.traffic)
    with gs.transfer_guard("disallow"):
        rows = list(x)
        last = list(reversed(x))
    to_host = [n for (_, domain), n in rt.backend.traffic.items() if domain == HOST_DOMAIN]
    assert sum(to_host) == sum(n for (_, domain), n in before.items() if domain == HOST_DOMAIN)
    assert len(rows) == len(last) == shape[0]
    for row, expected in zip(rows, value, strict=True):
        assert row.sharding == named(*["y"] * (len(shape) > 1 and shape[1] > 1))
        assert row.shape == expected.shape
        assert np.array_equal(row, expected)
    assert [np.asarray(r).tolist() for r in last] == value[::-1].tolist()


def test_iteration_is_lazy_and_sees_deletion() -> None:
    x = gs.device_put(VALUE, named("x"))
    rows = iter(x)
    assert np.array_equal(next(rows), VALUE[0])
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        next(rows)


def test_dense_parts_share_memory_and_whole_ones_move_nothing(rt: Runtime) -> None:
    value = np.arange(64 * 512, dtype=np.float64).reshape(64, 512)
    x = gs.device_put(value, named("x"))
    before = dict(rt.backend.traffic)
    whole, new = x[...], x[:, None]
    assert dict(rt.backend.traffic) == before
    for part in (whole, new):
        for mine, theirs in zip(part.addressable_shards, x.addressable_shards, strict=True):
            assert mine.data.unsafe_buffer_pointer() == theirs.data.unsafe_buffer_pointer()
    assert np.array_equal(new, value[:, None])


class RowsReversed(gs.Sharding):
    """A user's own sharding: device i of n holds the i-th block of rows from the end."""

    def __init__(self, devices: list[gs.Device]) -> None:
        self.devices = devices

    @property
    def device_set(self) -> set[Any]:
        return set(self.devices)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Any]:
        step = global_shape[0] // len(self.devices)
        rows = [slice(i * step, (i + 1) * step) for i in range(len(self.devices))]
        rest = tuple(slice(None) for _ in global_shape[1:])
        return {d: (r, *rest) for d, r in zip(self.devices, reversed(rows), strict=True)}


def test_what_is_in_a_users_own_sharding_is_indexed_too() -> None:
    x = gs.device_put(VALUE, RowsReversed(gs.devices()[:4]))
    assert np.array_equal(x, VALUE)
    assert np.array_equal(x.addressable_data(0), VALUE[6:])
    assert np.array_equal(x[0], VALUE[0])
    assert np.array_equal(gs.reshard(x, named("x"))[0], VALUE[0])
    alone = gs.device_put(VALUE, RowsReversed(gs.devices()[:1]))
    assert np.array_equal(alone[2:4, 1], VALUE[2:4, 1])


def test_an_element_is_an_index_once_it_is_0d() -> None:
    x = gs.device_put(np.arange(4), named("x"))
    assert operator.index(x[3]) == 3
    assert [10, 11, 12, 13][x[2]] == 12


@pytest.mark.parametrize("make", [np.int8, np.array, gs.device_put])
def test_bounds_of_slices_are_whatever_is_an_integer(make: Any) -> None:
    data = np.arange(9.0)
    x, (one, two, seven) = gs.device_put(data), map(make, (1, 2, 7))
    for index in (slice(one, None), slice(None, seven), slice(None, None, two)):
        plain = slice(*(n if n is None else int(n) for n in (index.start, index.stop, index.step)))
        np.testing.assert_array_equal(x[index], data[plain])
