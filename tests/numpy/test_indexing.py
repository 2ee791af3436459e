"""Elements by position against NumPy's functions of the same name."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import (
    ArgumentError,
    ArgumentRangeError,
    ArgumentTypeError,
    ArrayIndexError,
)
from tests.numpy.compare import LAYOUTS, agree, placed, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")

FULL = [name for name in LAYOUTS if name != "empty"]
MODES = ["raise", "clip", "wrap"]


def both(data: np.ndarray) -> list[Any]:
    """Data on the host, and split over devices."""
    return [data, put(data, *(["x", "y"][: data.ndim]))]


def test_take() -> None:
    for layout in LAYOUTS:
        data, x = placed(layout)
        for axis in (None, *range(data.ndim)):
            n = data.size if axis is None else data.shape[axis]
            for shape in ((), (4,), (0,), (2, 3)):
                for low, high in ((-n, n), (-2 * n - 3, 2 * n + 3)):
                    at = np.random.default_rng(n).integers(low, max(high, low + 1), shape)
                    for mode in MODES:
                        if data.size or axis is None:  # NumPy may check nothing where no result is
                            agree(
                                functools.partial(gnp.take, x, at.astype("h"), axis, mode=mode),
                                functools.partial(np.take, data, at, axis, None, mode),
                            )
        at = np.array([1, 0, -1, 1], np.int8)
        there = put(at, "y")
        if data.size:
            for mode in MODES:
                same(gnp.take(x, there, 1, mode=mode), np.take(data, at, 1, mode=mode))
            same(x.take(there), data.take(at))
            same(np.take(x, [0, 1], 0), data.take([0, 1], 0))
            same(gnp.take(x, [True, False]), data.take([1, 0]))


def test_the_result_goes_where_it_is_wanted() -> None:
    data, x = placed("even")
    to = gs.NamedSharding(x.sharding.mesh, gs.P("y"))
    for found in (
        gnp.take(x, [0, 3, 5], 0, out_sharding=to),
        gnp.take_along_axis(x, np.zeros((4, 6), int), 0, out_sharding=to),
        gnp.compress([True] * 4, x, 0, out_sharding=to),
        gnp.extract(data > 0, x, out_sharding=to),
        gnp.argwhere(x, out_sharding=to),
        gnp.flatnonzero(x, out_sharding=to),
        gnp.nonzero(x, out_sharding=to)[1],
        gnp.where(x, out_sharding=to)[1],
        gnp.choose(x > 0, [x, 1.0], out_sharding=to),
        gnp.select([x > 0], [x], out_sharding=to),
        x.at[np.array([1, 2])].get(out_sharding=to),
        x.at[1:].get(out_sharding=to),
        gnp.diag_indices(4, out_sharding=to)[0],
        gnp.tril_indices(4, out_sharding=to)[0],
        gnp.unravel_index([3, 4], (4, 4), out_sharding=to)[0],
        gnp.ravel_multi_index(([3, 4], [1, 1]), (5, 4), out_sharding=to),
    ):
        assert found.sharding == to


def test_along_an_axis() -> None:
    for layout in FULL:
        data, x = placed(layout)
        for axis in range(-data.ndim, data.ndim):
            n = data.shape[axis]
            rng = np.random.default_rng(n)
            for k, others in ((3, data.shape), (0, data.shape), (2, (1,) * data.ndim)):
                sizes = list(others)
                sizes[axis] = k
                at = rng.integers(-n, n, sizes)
                new = value(at.shape, data.dtype, "new")
                for given in both(at):
                    same(gnp.take_along_axis(x, given, axis), np.take_along_axis(data, at, axis))
                    _changed_alike(data, x, "put_along_axis", (at, new, axis), (given, new, axis))
                    _changed_alike(data, x, "put_along_axis", (at, 7, axis), (given, 7, axis))
        at = np.array([0, -1, 1, 0])
        same(gnp.take_along_axis(x, at, None), np.take_along_axis(data, at, None))
        _changed_alike(data, x, "put_along_axis", (at, [1, 2, 3, 4], None))
        order = data.argsort(-1)
        same(np.take_along_axis(x, order, -1), np.take_along_axis(data, order, -1))
        same(np.take(x, axis=-1, indices=[0, 1]), data.take([0, 1], -1))
    long = put(value((1, 6), "d"), "y")
    at = np.random.default_rng(0).integers(0, 6, (4, 3))
    same(gnp.take_along_axis(long, put(at, "x")), np.take_along_axis(np.asarray(long), at, -1))
    _changed_alike(np.asarray(long), long, "put_along_axis", (at[:, :1], 9.0, -1))


def _changed_alike(
    data: np.ndarray, x: gs.Array, name: str, theirs: tuple[Any, ...], ours: Any = None
) -> None:
    """Check that functions that change an array change it alike, and no other."""
    expected, changed = data.copy(), x.at[...].get()
    shared, sharding = changed.at[...].get(), changed.sharding
    try:
        getattr(np, name)(expected, *theirs)
    except (TypeError, ValueError, IndexError) as error:
        kind = TypeError if isinstance(error, TypeError) else (ValueError, IndexError, TypeError)
        with pytest.raises(kind):
            getattr(gnp, name)(changed, *(ours or theirs))
        same(changed, data)
        return
    getattr(gnp, name)(changed, *(ours or theirs))
    same(changed, expected)
    assert changed.sharding == sharding
    same(shared, data)


def test_put() -> None:
    for layout in LAYOUTS:
        data, x = placed(layout)
        n = data.size
        at = np.array([0, -1, n // 2, 0, n // 3])
        for new in (5, [1.5, 2.5], np.arange(9.0), [], [[1.0, 2.0]]):
            for mode in MODES:
                _changed_alike(data, x, "put", (at, new, mode))
                _changed_alike(data, x, "put", (at * 2, new, mode))
                _changed_alike(data, x, "put", ([], new, mode))
        if n:
            wide = put(np.arange(3.0), "x")
            for mode in MODES:
                _changed_alike(
                    data, x, "put", (at, np.arange(3.0), mode), (put(at, "x"), wide, mode)
                )
    one = gs.device_put(np.array(3.0))
    _changed_alike(np.array(3.0), one, "put", ([0, 0], [1.0, 2.0]))
    same(x, data)
    x.put([0], -4.0)
    assert float(x.ravel()[0]) == -4


def test_masks_that_change() -> None:
    for layout in LAYOUTS:
        data, x = placed(layout)
        mask = value(data.shape, "i", "mask") > 0
        for given in (mask, put(mask, *LAYOUTS[layout][1]), put(mask)):
            for new in (2, [1.0, 2.0, 3.0], [], np.arange(data.size + 3.0), [[9.0]]):
                for name in ("place", "putmask"):
                    _changed_alike(data, x, name, (mask, new), (given, new))
        many = put(np.arange(data.size + 1.0))
        for name in ("place", "putmask"):
            _changed_alike(data, x, name, (mask, np.asarray(many)), (mask, many))
        _changed_alike(data, x, "place", (mask.reshape(-1), 1))
        _changed_alike(data, x, "place", (mask[:-1], 1))


def test_conditions() -> None:
    for layout in LAYOUTS:
        data, x = placed(layout)
        for axis in (None, *range(data.ndim)):
            n = data.size if axis is None else data.shape[axis]
            for length in {0, n, max(n - 1, 0), n + 2}:
                mask = np.arange(length) % 3 != 1
                mask[n:] = length == n + 2 and n % 2 == 0
                for given in (mask, mask.tolist(), put(mask, "x"), put(mask * 2)):
                    agree(
                        functools.partial(gnp.compress, given, x, axis),
                        functools.partial(np.compress, mask, data, axis),
                    )
        same(x.compress([True] * data.shape[0], 0), data)
        mask = data > 0
        for given in (mask, put(mask, *LAYOUTS[layout][1])):
            same(gnp.extract(given, x), np.extract(mask, data))
            same(np.extract(given, arr=x), np.extract(mask, data))
        first = np.arange(data.shape[0]) % 2 == 0
        same(np.compress(first, a=x, axis=0), np.compress(first, data, 0))
        same(np.compress(condition=first, axis=0, a=x), np.compress(first, data, 0))


def test_what_a_condition_chooses_is_split_as_by_a_mask() -> None:
    data, x = placed("even")
    mask = put(np.arange(6) % 3 > 0, "x")
    found = gnp.compress(mask, x, 1)
    same(found, data[:, np.arange(6) % 3 > 0])
    assert found.sharding == x[:, mask].sharding == x.sharding.with_spec(gs.P(None, "x"))


def test_conditions_for_a_result_of_known_size() -> None:
    data = np.arange(1.0, 25).reshape(4, 6)
    x = put(data, "x")
    for axis in (None, 0, 1, -1):
        lines = data.ravel() if axis is None else data
        dim, n = (0, lines.size) if axis is None else (axis, data.shape[axis])
        for mask in (np.arange(n) % 3 != 1, np.arange(n - 1) > 1, np.zeros(n, bool)):
            chosen = np.compress(mask, lines, dim)
            for size in (0, 2, n + 1):
                for fill in (None, -7.0):
                    pad = [(0, 0)] * lines.ndim
                    pad[dim] = (0, max(size - chosen.shape[dim], 0))
                    wide = np.pad(chosen, pad, constant_values=fill or 0)
                    wanted = np.take(wide, range(size), dim)
                    call = functools.partial(gnp.compress, axis=axis, size=size, fill_value=fill)
                    same(call(mask, x), wanted)
                    same(call(put(mask), x), wanted)
                    if size == 2 or fill:
                        same(gs.jit(call)(mask, x), wanted)


def test_numbers_of_elements_that_are_traced_are_clipped() -> None:
    at = np.array([1, 13, -1, 11])
    for order in ("C", "F"):
        found = gs.jit(lambda at, order=order: gnp.unravel_index(at, (3, 4), order))(at)
        same(found, np.unravel_index(at.clip(0, 11), (3, 4), order))
        found = gs.jit(lambda at, order=order: gnp.ravel_multi_index((at, at), (3, 4), order=order))
        same(found(at), np.ravel_multi_index((at.clip(0, 2), at.clip(0, 3)), (3, 4), order=order))


def test_traced_positions_to_take_are_clipped() -> None:
    data, x = placed("even")
    at = np.array([-99, -9, -8, -1, 0, 7, 8, 9, 99])
    wanted = [0, 0, 0, 7, 0, 7, 7, 7, 7]
    same(gs.jit(lambda x, at: gnp.take(x, at, 0))(x, at), data[wanted])
    same(gs.jit(gnp.take)(x[:, 0], at), data[wanted, 0])


def test_positions_clipped_along_a_dim_count_from_its_end() -> None:
    data, x = placed("even")
    at = np.array([[-20, -8, -1, 0, 7, 30], [3] * 6])
    same(gnp.take_along_axis(x, at, 0, mode="clip"), np.take_along_axis(data, at.clip(-8, 7), 0))
    same(gnp.take_along_axis(x[:0], at[:0], 0, mode="clip"), data[:0])


@pytest.mark.parametrize("fill", [None, 9.0])
def test_positions_outside_along_a_dim_are_filled(fill: float | None) -> None:
    data, x = placed("even")
    at = np.array([[-20, -9, -8, -1, 0, 7], [3, 8, 30, 3, 3, 3]])
    inside = (at >= -8) & (at < 8)
    there = np.take_along_axis(data, np.where(inside, at, 0), 0)
    wanted = np.where(inside, there, np.nan if fill is None else fill)
    for given in both(at):
        same(gnp.take_along_axis(x, given, 0, mode="fill", fill_value=fill), wanted)
    same(gnp.take_along_axis(x[:0], at, 0, mode="fill", fill_value=9), np.full((2, 6), 9.0))


def test_positions_without_a_sign_never_count_from_the_end() -> None:
    x = put(np.arange(8.0), "x")
    at = np.array([1, 255, 7, 8], np.uint8)
    for mode, wanted in (("fill", [1, 99, 7, 99]), ("clip", [1, 7, 7, 7]), ("wrap", [1, 7, 7, 0])):
        part = x.at[at].get(mode=mode, fill_value=99, wrap_negative_indices=False)
        same(part, np.array(wanted, float))
    far = np.array([1, 1 << 63, (1 << 64) - 1], np.uint64)
    for mode, wanted in (("fill", [1, 99, 99]), ("clip", [1, 7, 7])):
        part = x.at[far].get(mode=mode, fill_value=99, wrap_negative_indices=False)
        same(part, np.array(wanted, float))
    signed = x.at[np.array([-1, 8, -9])].get(mode="wrap", wrap_negative_indices=False)
    same(signed, np.array([7.0, 0, 7]))


def test_arrays_of_other_libraries_and_variables_are_index_arrays() -> None:
    data, x = placed("even")
    for at in (np.array([[3, 1], [0, -1]]), np.arange(8) % 3 == 1):
        for given in (memoryview(at), gs.nnx.Variable(put(at)), gs.nnx.Variable(at)):
            same(x[given], data[at])
            same(x[given, 1:3], data[at, 1:3])


@pytest.mark.parametrize("dtype", "?bIfD")
def test_where_elements_are_not_zero(dtype: str) -> None:
    for layout in LAYOUTS:
        data, x = placed(layout, dtype)
        same(gnp.nonzero(x), np.nonzero(data))
        same(np.nonzero(x), np.nonzero(data))
        same(x.nonzero(), data.nonzero())
        same(gnp.where(x), np.where(data))
        same(gnp.argwhere(x), np.argwhere(data))
        same(gnp.flatnonzero(x), np.flatnonzero(data))
        same(gnp.nonzero(data), np.nonzero(data))
        count = np.count_nonzero(data)
        for size in (count, count + 3, max(count - 2, 0), 0):
            fills = tuple(range(-1, -1 - data.ndim, -1))
            expected = np.argwhere(data)[:size]
            pad = np.tile(fills, (size - len(expected), 1)).reshape(-1, data.ndim)
            wide = np.concatenate([expected, pad])
            same(gnp.argwhere(x, size=size, fill_value=fills), wide)
            same(gnp.nonzero(x, size=size, fill_value=fills), tuple(wide.T))
        assert gnp.nonzero(x)[0].sharding.spec.axes(0) == tuple(
            axis for dim in range(x.ndim) for axis in x.sharding.spec.axes(dim)
        )


def test_fills_are_integers_of_64_bits() -> None:
    for fill in (2**63 - 1, -(2**63)):
        same(gnp.flatnonzero(put(np.array([0, 1])), size=2, fill_value=fill), np.array([1, fill]))
    same(gnp.round(put(np.array([1, 25])), 2**31 - 1), np.array([1, 25]))


def test_nothing_but_the_count_is_read() -> None:
    data, x = placed("even")
    mask, at = x > 0, put(np.array([1, 2, -3]), "x")
    index = gs.device_put(1)
    with gs.transfer_guard("disallow"):
        found = [x[mask], *gnp.nonzero(x), x[at], gnp.take(x, at, 1), gnp.extract(mask, x)]
        y = x.at[at].add(1.0).at[mask].set(0.0)
        y[mask] = 2.0
        y[mask] = x[mask]
    same(found[0], data[data > 0])
    same(y, np.where(data > 0, data, data + np.isin(np.arange(8), [1, 2, 5])[:, None]))
    same(x[index], data[1])


def test_choices() -> None:
    for layout in FULL:
        data, _ = placed(layout)
        at = np.abs(value(data.shape, "i", "at")) % 3
        lists: list[list[Any]] = [[data, -data, data * 2], [data, 1, np.float32(2)]]
        for choices in lists:
            ours = [put(c, *LAYOUTS[layout][1]) if np.ndim(c) else c for c in choices]
            for mode in MODES:
                for move in (0, 1, -2):
                    index = put(at + move, *LAYOUTS[layout][1])
                    agree(
                        functools.partial(gnp.choose, index, ours, mode=mode),
                        functools.partial(np.choose, at + move, choices, mode=mode),
                    )
            conditions = [data > 1, data < 0, data > -9]
            given = [put(c, *LAYOUTS[layout][1]) for c in conditions]
            same(gnp.select(given, ours, 9), np.select(conditions, choices, 9))
            same(gnp.select(given[:2], ours[:2]), np.select(conditions[:2], choices[:2]))
    small = [np.arange(3, dtype=np.int8)]
    same(gnp.select([[True, False, True]], small, 7), np.select([small[0] != 1], small, 7))
    same(gnp.choose([0, 1], [[1, 2], [3, 4]]), np.choose([0, 1], [[1, 2], [3, 4]]))
    same(gnp.choose([0, 0], [5]), np.choose([0, 0], [5]))
    ints = put(np.array([1, 0, 1], np.int8)).choose([np.int8(3), put(np.arange(3, dtype="h"))])
    same(ints, np.array([0, 3, 2], "h"))
    mixed = [np.arange(3, dtype=dtype) for dtype in "ebB"]  # of two at a time it would be float32
    same(gnp.choose([0, 1, 2], mixed), np.choose([0, 1, 2], mixed))


@pytest.mark.parametrize("order", "CF")
def test_numbers_of_elements(order: Any) -> None:
    shape = (3, 4, 5)
    numbers = np.random.default_rng(0).integers(0, 60, (4, 3))
    for at in (*both(numbers), [7, 3], 59):
        wanted = np.unravel_index(np.asarray(at), shape, order)
        found = gnp.unravel_index(at, shape, order)
        same(found, wanted)
        back = gnp.ravel_multi_index(found, shape, order=order)
        same(back, np.ravel_multi_index(wanted, shape, order=order))
    out = tuple(numbers - move for move in (20, 30, 40))
    for mode in ("clip", "wrap", ("clip", "wrap", "wrap")):
        expected = np.ravel_multi_index(out, shape, mode, order)
        same(gnp.ravel_multi_index(out, shape, mode, order), expected)
        there = tuple(put(one, "x") for one in out)
        same(gnp.ravel_multi_index(there, shape, mode, order), expected)
    for at in both(np.array([200, 251], "u1")):
        same(gnp.unravel_index(at, (2, 300), order), np.unravel_index([200, 251], (2, 300), order))
    for wrong in (60, -1, put(np.array([1, 60])), put(np.array([-1, 4]))):
        with pytest.raises(ArgumentError, match="out of bounds for size 60"):
            gnp.unravel_index(wrong, shape)
    with pytest.raises(ArgumentError, match="out of bounds for size 4"):
        gnp.ravel_multi_index((1, 4, 1), shape)


MAKERS: list[tuple[str, tuple[Any, ...]]] = [
    *[("diag_indices", (n, d)) for n in (0, 1, 4) for d in (1, 2, 3)],
    *[(f"{t}_indices", (4, k, m)) for t in ("tril", "triu") for k in (-2, 0, 3) for m in (None, 6)],
    *[(f"{t}_indices_from", (np.ones((3, 5)), k)) for t in ("tril", "triu") for k in (-1, 2)],
    ("diag_indices_from", (np.ones((3, 3, 3)),)),
    ("ix_", ([1, 2], [0, 3, 1])),
    ("ix_", ([True, False, True], [], [2])),
]


@pytest.mark.parametrize(("name", "args"), MAKERS)
def test_positions_are_numpys(name: str, args: tuple[Any, ...]) -> None:
    expected = getattr(np, name)(*args)
    same(getattr(gnp, name)(*args), expected)
    there = tuple(put(a) if isinstance(a, np.ndarray) else a for a in args)
    same(getattr(gnp, name)(*there), expected)


def test_a_grid_of_positions_on_devices() -> None:
    data, x = placed("even")
    rows, columns = np.array([1, 5, -1]), np.array([True, False, True, True, False, True])
    grid = gnp.ix_(put(rows, "x"), put(columns, "y"))
    same(x[grid], data[np.ix_(rows, columns)])


@pytest.mark.parametrize("wrap", [False, True])
def test_diagonals_are_filled(wrap: bool) -> None:
    for shape, entries in (((5, 3), ("y", "x")), ((3, 5), ("x",)), ((4, 4, 4), ("x", None, "y"))):
        data = value(shape, "d")
        for new in (0, [1.0, 2.0], np.arange(9.0)):
            _changed_alike(data, put(data, *entries), "fill_diagonal", (new, wrap))


BAD: list[tuple[Callable[[gs.Array], Any], type[Exception], str]] = [
    (lambda x: gnp.take(x, [9], 0), ArrayIndexError, "index 9 is out of bounds for axis 0"),
    (lambda x: gnp.take(x, put(np.array([-9])), 0), ArrayIndexError, "index -9 is out of bounds"),
    (lambda x: gnp.take(x, [0], mode="bounce"), ArgumentError, "mode='bounce' is unknown"),
    (lambda x: gnp.take(x, [0.5]), ArgumentTypeError, "indices has dtype float64"),
    (lambda x: gnp.take(x, [[0], [1, 2]]), ArgumentError, "different lengths"),
    (lambda x: gnp.take(x, 0, out=x), ArgumentError, "out= is not supported"),
    (lambda x: gnp.take_along_axis(x, [0]), ArgumentError, "ndim=1 and the array has ndim=2"),
    (lambda x: gnp.take_along_axis(x, [[0]] * 3), ArgumentError, r"\(3, 1\) do not broadcast"),
    (lambda x: gnp.take_along_axis(x, [[9]]), ArrayIndexError, "index 9"),
    (lambda x: gnp.put(np.ones(3), [0], 1), ArgumentTypeError, "a is a ndarray"),
    (lambda x: gnp.put(x, [99], 1), ArrayIndexError, "index 99"),
    (lambda x: gnp.put(x, [0], 1j), ArgumentTypeError, "imaginary"),
    (lambda x: gnp.place(x, [True], 1), ArgumentError, "different numbers of elements"),
    (lambda x: gnp.putmask(x, [True], 1), ArgumentError, "mask has shape"),
    (lambda x: gnp.compress([[True]], x), ArgumentError, "must be 1-dimensional"),
    (lambda x: gnp.compress([True], x, size=-1), ArgumentError, "size=-1"),
    (lambda x: gs.jit(lambda x: gnp.place(x, x > 0, []))(x), ArgumentError, "are no values"),
    (lambda x: gnp.compress([False] * 99 + [True], x), ArrayIndexError, "index 99"),
    (lambda x: gnp.nonzero(x[0, 0]), ArgumentError, "at least one axis"),
    (
        lambda x: gnp.nonzero(x, size=2, fill_value=(1,)),
        ArgumentError,
        "1 numbers for an array",
    ),
    (lambda x: gnp.nonzero(x, size=-1), ArgumentError, "size=-1"),
    (lambda x: gnp.nonzero(x, size=2, fill_value=0.5), ArgumentTypeError, "fill_value"),
    *(
        (lambda x, fill=fill: gnp.flatnonzero(x, size=2, fill_value=fill), ArgumentRangeError, "64")
        for fill in (2**63, -(2**63) - 1)
    ),
    *(
        (lambda x, decimals=decimals: gnp.round(x, decimals), ArgumentRangeError, "of 32 bits")
        for decimals in (2**31, -(2**31) - 1)
    ),
    (lambda x: gnp.select([x > 0], []), ArgumentError, "1 conditions"),
    (lambda x: gnp.select([x], [x]), ArgumentTypeError, "conditions are booleans"),
    (lambda x: gnp.choose(x > 0, []), ArgumentError, "no choices"),
    (lambda x: gnp.choose(x > 0, [x]), ArgumentError, "not one of 0 to 0"),
    (lambda x: gnp.fill_diagonal(x[0], 1), ArgumentError, "two axes"),
    (lambda x: gnp.where(x, x), ArgumentError, "both x and y"),
    (lambda x: gnp.ix_(x), ArgumentError, "give vectors"),
    (lambda x: gnp.unravel_index([0], (2,), "K"), ArgumentError, "order='K'"),
    (lambda x: gnp.ravel_multi_index([0], (2, 3)), ArgumentError, "1 arrays for dims="),
    (lambda x: gnp.diag_indices_from(x), ArgumentError, "one length"),
    (lambda x: gnp.tril_indices_from(x[0]), ArgumentError, "give a matrix"),
]


@pytest.mark.parametrize(("call", "error", "text"), BAD)
def test_bad_calls(call: Any, error: type[Exception], text: str) -> None:
    data, x = placed("even")
    with pytest.raises(error, match=text) as caught:
        call(x)
    assert type(caught.value) is error
    same(x, data)
