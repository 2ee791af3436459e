"""Splitting, editing, turning, putting together and applying, against NumPy's."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ConcretizationError
from gpushard.numpy import splitting
from tests.numpy.calls import KINDS, Call, alike, everywhere
from tests.numpy.compare import LAYOUTS, placed, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_splitting(layout: str) -> None:
    data, x = placed(layout)
    calls: list[Call] = [
        lambda ns, x: ns.array_split(x, 3),
        lambda ns, x: ns.array_split(x, 4, axis=-1),
        lambda ns, x: ns.array_split(x, [1, 2, 9]),
        lambda ns, x: ns.split(x, 2, axis=1),
        lambda ns, x: ns.split(x, np.array([-1, 2, 1])),
        lambda ns, x: ns.hsplit(x, [1]),
        lambda ns, x: ns.vsplit(x, 1),
        lambda ns, x: ns.dsplit(x, 2),
        lambda ns, x: ns.hsplit(x[:, 0], [2, 3]),
        lambda ns, x: ns.vsplit(x[:, 0, ..., 0] if x.ndim > 2 else x[:, 0], 1),
    ]
    for call in calls:
        alike(call, data, x, exact=True)


def test_few_empty_parts_are_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "_MOST_EMPTY", 2)
    data = value((4,), "d")
    everywhere(lambda ns, x: ns.array_split(x, 6), data)
    with pytest.raises(ArgumentError, match="7 leaves more than 2 parts"):
        gnp.array_split(data, 7)


def test_arrays_that_do_not_fit() -> None:
    with pytest.raises(ArgumentError, match=r"\(2, 3, 4\) and \(2, 3, 5\) do not fit along axis=0"):
        gnp.concat([np.ones((2, 3, 4)), np.ones((2, 3, 5))])
    with pytest.raises(ArgumentError, match=r"stack: arrays have shapes \(2,\) and \(3,\)"):
        gnp.stack([np.ones(2), np.ones(3)])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_turning(layout: str) -> None:
    data, x = placed(layout)
    calls: list[Call] = [
        *(lambda ns, x, k=k: ns.rot90(x, k) for k in (-1, 0, 1, 2, 3, 6)),  # type: ignore[misc]
        lambda ns, x: ns.rot90(x, axes=(-1, 0)),
        lambda ns, x: ns.rot90(x, axes=(0, 0)),
        lambda ns, x: ns.atleast_3d(x),
        lambda ns, x: ns.atleast_3d(x[:, 0], x),
        lambda ns, x: ns.resize(x, (4, 3)),
        lambda ns, x: ns.resize(x, (5, 7)),
        lambda ns, x: ns.block([[x, x], [x, x]]),
        lambda ns, x: ns.block([x[0], x[1:].reshape(-1, *x.shape[2:])]),
        lambda ns, x: ns.block([[x], x]),
        lambda ns, x: ns.block([x[0, :1], x[0, 0]]),
        lambda ns, x: ns.block([]),
    ]
    for call in calls:
        alike(call, data, x, exact=True)


def test_axes_roll_to_any_place() -> None:
    data = value((2, 3, 4), "f")
    x = put(data, "x", None, "y")
    for axis, start in itertools.product(range(-4, 4), range(-4, 5)):
        alike(lambda ns, x, a=axis, b=start: ns.rollaxis(x, a, b), data, x, exact=True)
    alike(lambda ns, x: ns.rollaxis(x, 1), data, x, exact=True)


POSITIONS: list[Any] = [
    0,
    -1,
    2,
    slice(1, 4),
    slice(None, None, -2),
    [0, 2],
    [3, 0, 3],
    np.array([-1, 1]),
    [],
    np.array([True, False, True, False, False]),
    7,
    [1.5],
]


@pytest.mark.parametrize("at", range(len(POSITIONS)))
def test_taking_out_and_putting_in(at: int) -> None:
    obj = POSITIONS[at]
    data = value((5, 3), "d")
    many = len(range(*obj.indices(5))) if isinstance(obj, slice) else np.asarray(obj).size
    if np.asarray(obj).dtype == bool:
        many = 2
    calls: list[Call] = [
        lambda ns, x: ns.delete(x, obj, axis=0),
        lambda ns, x: ns.delete(x, obj),
        lambda ns, x: ns.insert(x, obj, 7, axis=0),
        lambda ns, x: ns.insert(x, obj, 7.5),
        lambda ns, x: ns.insert(x, obj, np.arange(3), axis=0),
        lambda ns, x: ns.insert(x, obj, np.arange(3 * many).reshape(many, 3), axis=0),
    ]
    for call in calls:
        everywhere(call, data, exact=True)


def test_putting_in_several_at_one_place() -> None:
    data = value((4, 3), "l")
    more = np.arange(6).reshape(2, 3)
    calls: list[Call] = [
        lambda ns, x: ns.insert(x, [1], more, axis=0),
        lambda ns, x: ns.insert(x, [2], np.arange(8).reshape(4, 2), axis=1),
        lambda ns, x: ns.insert(x, [1, 1], more, axis=0),
        lambda ns, x: ns.insert(x, [1, 1, 2], np.arange(9).reshape(3, 3), axis=0),
        lambda ns, x: ns.insert(x, [4, 0, 4], 1.9, axis=0),
        lambda ns, x: ns.insert(x, 1, [5, 6, 7, 8], axis=1),
        lambda ns, x: ns.insert(x.ravel(), 2, [5, 6, 7]),
        lambda ns, x: ns.insert(x, 1, np.arange(9), axis=1),
        lambda ns, x: ns.append(x, more, axis=0),
        lambda ns, x: ns.append(x, more),
        lambda ns, x: ns.append(x, 1.5),
        lambda ns, x: ns.append(x, more, axis=1),
    ]
    for call in calls:
        everywhere(call, data, exact=True)


@pytest.mark.parametrize("dtype", ["?", "l", "D"])
def test_zeros_at_the_ends(dtype: str) -> None:
    data = np.array([0, 0, 1, 0, 2, 0], dtype)
    for trim in ("fb", "f", "b", "B"):
        everywhere(lambda ns, x: ns.trim_zeros(x, trim), data, exact=True)  # noqa: B023
    table = np.zeros((5, 4), dtype)
    table[1:3, 2] = 1
    everywhere(lambda ns, x: ns.trim_zeros(x), table, exact=True)
    everywhere(lambda ns, x: ns.trim_zeros(x, "f", axis=1), table, exact=True)
    everywhere(lambda ns, x: ns.trim_zeros(x), np.zeros((3,), dtype), exact=True)


@pytest.mark.parametrize("dtype", ["?", "h", "D"])
def test_counts_for_each(dtype: str) -> None:
    data = value((5, 3), dtype)
    for counts in (
        [2, 0, 1, 3, 1],
        np.zeros(5, int),
        [2],
        np.array([True, False, True, True, False]),
    ):
        everywhere(lambda ns, x: ns.repeat(x, counts, axis=0), data, exact=True)  # noqa: B023
        given = np.asarray(counts)
        for entry in ("x", None):
            alike(
                lambda ns, x: x.repeat(
                    put(given, entry if given.size > 1 else None) if ns is gnp else given,  # noqa: B023
                    axis=0,
                ),
                data,
                put(data, None, "y"),
                exact=True,
            )
    everywhere(lambda ns, x: ns.repeat(x, np.arange(15)), data, exact=True)
    everywhere(lambda ns, x: ns.repeat(x, [1, 2], axis=0), data)
    everywhere(lambda ns, x: ns.repeat(x, [1, -2, 1], axis=1), data)


def test_counts_on_devices_are_not_read_whole() -> None:
    x, counts = put(value((64,), "d"), "x"), put(np.arange(64) % 3, "x")
    with gs.transfer_guard("disallow_explicit"):
        found = gnp.repeat(x, counts)
    assert found.sharding.spec == gs.P("x")


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "cube"])
def test_applying(layout: str) -> None:
    data, x = placed(layout)
    half = data > 0
    calls: list[Call] = [
        lambda ns, x: ns.apply_along_axis(lambda line: line.sum(), 0, x),
        lambda ns, x: ns.apply_along_axis(lambda line: ns.cumsum(line), -1, x),
        lambda ns, x: ns.apply_along_axis(lambda line, k: ns.tile(line, (k, 1)), 1, x, 2),
        lambda ns, x: ns.apply_along_axis(lambda line: 1.5, 0, x),
        lambda ns, x: ns.apply_over_axes(ns.sum, x, (0, -1)),
        lambda ns, x: ns.apply_over_axes(ns.max, x, 1),
        lambda ns, x: ns.piecewise(x, [x < 0, x >= 1], [-1, lambda v: v * 2]),
        lambda ns, x: ns.piecewise(x, [x < 0, x < 1], [lambda v: v - 1, 5, 7.5]),
        lambda ns, x: ns.piecewise(x, half, [lambda v: v * 3, 2]),
        lambda ns, x: ns.piecewise(x, [x < 0], [1, 2, 3]),
    ]
    for call in calls:
        alike(call, data, x)


CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "one as a list": lambda m: [True, False, True],
    "one of numbers": lambda m: [np.True_, np.False_, np.True_],
    "one as an array": lambda m: m.asarray([True, False, True]),
    "lists": lambda m: [[True, False, True], [False, True, False]],
    "arrays": lambda m: [m.asarray([True, False, True]), m.asarray([False, True, False])],
    "rows": lambda m: m.asarray([[True, False, True], [False, True, False]]),
    "rows of NumPy's": lambda m: np.array([[True, False, True], [False, True, False]]),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_of_pieces(name: str) -> None:
    everywhere(lambda ns, x: ns.piecewise(x, CONDITIONS[name](ns), [7, 8]), np.array([1.0, 2, 3]))


@pytest.mark.parametrize("conditions", [[False, True], [True, False], [True], True])
def test_conditions_of_a_number(conditions: Any) -> None:
    x = np.array(2.5)
    alike(lambda ns, x: ns.piecewise(x, conditions, [7, lambda v: v * 2]), x, gs.device_put(x))


def test_without_conditions_the_last_function_is_all() -> None:
    same(gnp.piecewise([1.0, 2], [], [lambda v: v * 2]), np.array([2.0, 4]))


def test_nothing_to_apply_to() -> None:
    _, x = placed("empty")
    alike(lambda ns, x: ns.apply_along_axis(lambda line: line, 1, x), np.asarray(x), x)
    with pytest.raises(ArgumentError, match=r"\(0, 3\) has no vectors along axis=1"):
        gnp.apply_along_axis(lambda line: line, 1, x)
    data = np.ones((1, 3))
    alike(lambda ns, x: ns.apply_along_axis(lambda line: line * 2, 1, x), data, put(data, "x"))


@pytest.mark.parametrize("k", [-7, -1, 0, 2, 9])
def test_matrices(k: int) -> None:
    same(gnp.tri(3, 4, k), np.tri(3, 4, k))
    same(gnp.tri(4, k=k, dtype="l"), np.tri(4, k=k, dtype="l"))
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    split = gs.NamedSharding(mesh, gs.P("x", "y"))
    made = gnp.tri(5, 3, k, out_sharding=split)
    same(made, np.tri(5, 3, k))
    assert made.sharding == split
    for kind in ("b", "l") if k < 0 else ("b", "B", "l"):
        traced = gs.jit(lambda k: gnp.tri(5, 3, k, "f", out_sharding=split))(np.array(k, kind))
        same(traced, np.tri(5, 3, k, "f"))
        assert traced.sharding == split


def test_elements_repeated_to_a_known_length() -> None:
    data = np.arange(12.0).reshape(3, 4)
    x = put(data, None, "x")
    for axis, counts in ((0, [2, 0, 3]), (1, [1, 0, 2, 1]), (0, [2]), (1, 3), (None, 2)):
        full = np.repeat(data, counts, axis)
        dim = axis or 0
        for length in (1, full.shape[dim], full.shape[dim] + 2):
            for given in (counts, np.array(counts, np.uint8), put(np.asarray(counts))):
                made = gnp.repeat(x, given, axis, total_repeat_length=length)
                places = np.arange(length).clip(0, full.shape[dim] - 1)
                last = np.repeat(data, counts, axis).take(places, dim)
                if length > full.shape[dim]:  # filled with the last element, repeated or not
                    index = (slice(None),) * dim
                    end = data.ravel()[-1] if axis is None else data[(*index, -1)]
                    last[(*index, slice(full.shape[dim], None))] = np.expand_dims(end, dim)
                same(made, last)


@pytest.mark.parametrize("dtype", KINDS)
def test_powers(dtype: str) -> None:
    data = value((5,), dtype)
    calls: list[Call] = [
        lambda ns, x: ns.vander(x),
        lambda ns, x: ns.vander(x, 3, increasing=True),
        lambda ns, x: ns.vander(x, 0),
    ]
    for call in calls:
        everywhere(call, data)


@pytest.mark.parametrize("entries", [(), ("x",)])
@pytest.mark.parametrize("at", [2, [1], [0, 3], [True, False, True, False, False, True]])
def test_positions_may_be_on_devices(at: Any, entries: Any) -> None:
    data, x = value((6, 4), "d"), put(value((6, 4), "d"), "x", "y")
    positions = put(np.asarray(at), *entries[: np.ndim(at)])
    whole = np.asarray(at)
    same(gnp.delete(x, positions, axis=0), np.delete(data, whole, axis=0))
    same(gnp.insert(x, positions, 7, axis=0), np.insert(data, whole, 7, axis=0))
    if whole.ndim and whole.dtype != bool:
        for found, wanted in zip(gnp.split(x, positions), np.split(data, whole), strict=True):
            same(found, wanted)


def test_positions_that_are_not_computed_yet_are_refused() -> None:
    _, x = placed("even")
    for call in (
        lambda at: gnp.delete(x, at),
        lambda at: gnp.insert(x, at, 1),
        lambda at: gnp.split(x, at),
    ):
        with pytest.raises(ConcretizationError, match="argument at of shape"):
            gs.jit(call)(gs.device_put(np.array([1])))
