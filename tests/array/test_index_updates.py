"""What updates by index arrays and masks cost, and how they go where NumPy's own loops are not."""

from __future__ import annotations

import copy
import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._functions import index_bounds, masks, nonzero_positions
from gpushard._functions.host_reads import at_hand, concrete
from gpushard._ops.aval import Aval
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.row import Site
from gpushard._ops.table import gather
from gpushard._ops.table.scatter import SCATTER
from gpushard.testing import runtime
from tests.traffic import received

P = gs.P
DATA = np.arange(64 * 32.0).reshape(64, 32)


def placed(data: np.ndarray, *entries: Any) -> gs.Array:
    array: gs.Array = gs.device_put(data, gs.NamedSharding(gs.make_mesh((8,), ("x",)), P(*entries)))
    return array


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers, and the positions, that the host reads."""
    seen: list[int] = []

    def noted(read: Any) -> Any:
        def note(x: Any, *name: str) -> Any:
            seen.append(1 if name else x.size)
            return read(x, *name)

        return note

    def fetched(x: Any, why: str) -> Any:
        seen.append(x.size)
        return concrete(x, why)

    def fetched_at_hand(x: Any, why: str) -> Any:
        value = at_hand(x, why)
        if value is not None:
            seen.append(x.size)
        return value

    monkeypatch.setattr(index_bounds, "concrete", fetched)
    monkeypatch.setattr(nonzero_positions, "concrete", fetched)
    monkeypatch.setattr(index_bounds, "at_hand", fetched_at_hand)
    monkeypatch.setattr(masks, "counts_of", noted(masks.counts_of))
    return seen


def test_one_value_for_a_mask_moves_nothing_and_reads_nothing(reads: list[int]) -> None:
    with runtime(host_domains=8, small_bytes=0, inline_bytes=0) as rt:
        x = placed(DATA, "x")
        mask, rows = x % 3 == 0, placed(np.arange(64) % 5 == 0, "x")
        row = placed(np.arange(32.0))
        before = dict(rt.backend.traffic)
        x[mask] = -1.0
        x[rows] = row
        y = x.at[mask].add(2.0).at[rows].multiply(row).at[rows, :].min(3.0)
        assert received(rt, before) == 0 and not reads
        expected = np.where(DATA % 3 == 0, -1, DATA)
        chosen = (np.arange(64) % 5 == 0)[:, None]
        expected = np.where(chosen, np.arange(32.0), expected)
        np.testing.assert_array_equal(x, expected)
        expected = np.where(DATA % 3 == 0, expected + 2, expected)
        expected = np.where(chosen, np.minimum(expected * np.arange(32.0), 3), expected)
        np.testing.assert_array_equal(y, expected)


def test_a_mask_is_counted_once_and_positions_are_checked_once(reads: list[int]) -> None:
    with runtime():
        x, mask = placed(DATA, "x"), placed(DATA > 100, "x")
        at = placed(np.arange(8), "x")
        both = placed(np.arange(8), "x")
        for index, count in ((mask, 1), (at, 1), ((at, both), 1), ([1, 2], 0), ((at, 3), 0)):
            reads.clear()
            x[index]
            assert len(reads) == count
            reads.clear()
            x.at[index].get(mode="clip")
            x.at[index].add(1.0, mode="drop")
            assert len(reads) == (index is mask)  # to update by one value takes no count
        reads.clear()
        gs.numpy.nonzero(mask, size=5)
        assert not reads


@pytest.mark.parametrize("inline", [0, 1 << 20])
def test_positions_that_were_assigned_to_are_checked_again(reads: list[int], inline: int) -> None:
    with runtime(inline_bytes=inline):
        x, at = placed(DATA), placed(np.arange(8))
        x[at]
        again = copy.copy(at)
        for position in (64, -65, 63):
            at[3] = position
            at.block_until_ready()
            reads.clear()
            if -64 <= position < 64:
                np.testing.assert_array_equal(x[at], DATA[np.asarray(at)])
            else:
                with pytest.raises(IndexError, match=f"index {position} is out of bounds"):
                    x[at]
            assert len(reads) == 1
            np.testing.assert_array_equal(x[again], DATA[:8])


def test_neither_the_array_nor_its_update_is_gathered() -> None:
    with runtime(host_domains=8, small_bytes=0, inline_bytes=0) as rt:
        x, at = placed(DATA, "x"), placed(np.array([3, 60, -1, 17]))
        before = dict(rt.backend.traffic)
        found = x.at[at].get(mode="clip")
        moved = received(rt, before)
        state = 4 * 32 * (8 + 1)
        assert moved <= (7 + 7) * state < 7 * DATA.nbytes // 2
        np.testing.assert_array_equal(found, DATA[[3, 60, -1, 17]])
        before = dict(rt.backend.traffic)
        x.at[at].set(0.0, mode="drop")
        assert received(rt, before) == 0


def test_what_a_mask_selects_is_split_like_it() -> None:
    with runtime():
        x = placed(DATA, "x")
        assert x[x > 100].sharding == x.sharding
        assert x[x[:, 0] > 100].sharding == x.sharding
        assert x[:, placed(np.arange(32) > 5)].sharding == x.sharding
        y = placed(DATA, None, "x")
        assert y[placed(np.arange(64) > 5, "x")].sharding.spec == P("x")


ELSEWHERE = types.SimpleNamespace(**{name: getattr(np, name) for name in dir(np)})
"""A namespace that is not NumPy, with what NumPy has: kernels take the way that they take on GPUs.
"""

HOW = [None, np.add, np.subtract, np.multiply, np.divide, np.minimum, np.maximum]


@pytest.mark.parametrize("ufunc", HOW, ids=lambda f: f.__name__ if f else "set")
def test_sorted_updates_are_those_of_numpys_loops(ufunc: Any) -> None:
    rng = np.random.default_rng(0)
    forms: list[tuple[Indexed, tuple[tuple[int, ...], ...], tuple[int, ...]]] = [
        (Indexed((-2,), 1), ((30,),), (30, 5)),
        (Indexed((-1,), 0), ((3, 4),), (3, 4)),
        (Indexed((-1,), 0), ((0,),), ()),
        (Indexed((-2, -1), 0), ((9,), (2, 1)), (9,)),
        (Indexed((-1,), 0, ((-2, -2),)), ((6, 8),), (1, 8)),
        (Indexed((-2,), 0, ((-1, -1),)), ((20, 1),), ()),
    ]
    for indexed, shapes, own in forms:
        for dtype in "dlbF":
            x = rng.integers(1, 5, (6, 5)).astype(dtype)
            values = rng.integers(1, 5, own).astype(dtype)
            at = [rng.integers(-7, 7, shape) for shape in shapes]
            avals = [Aval(a.shape, a.dtype) for a in (x, values, *at)]
            for start, stop in ((0, 6), (2, 5), (3, 3)):
                site = Site(((start, 0),), (start, 0), (stop - start, 5))
                if start and indexed.paired and indexed.paired[0][0] == -2:
                    continue  # that dim is split for the positions as well
                operands = site, x[start:stop], values, *at
                wide = [SCATTER.kernel(xp, avals, (indexed, ufunc)) for xp in (np, ELSEWHERE)]
                with np.errstate(all="ignore"):
                    one, two = (kernel(*operands) for kernel in wide)
                assert one.dtype == two.dtype == x.dtype and one.shape == (stop - start, 5)
                exact = ufunc in (None, np.minimum, np.maximum) or dtype in "lb"
                if exact and ufunc is not np.divide:
                    np.testing.assert_array_equal(one, two)
                else:
                    whole = dtype in "lb"  # quotients on either side of an integer
                    np.testing.assert_allclose(one, two, 1e-4, atol=float(whole))


MANY: dict[str, Any] = {
    "rows": np.array([1, 1, 5, 1, -3]),
    "elements": (np.array([0, 0, 2, 0]), np.array([4, 4, 1, 4])),
    "a slice and columns": (slice(1, 4), np.array([3, 3])),
    "a grid": (np.array([[1], [1]]), np.array([0, 0, 3])),
    "a mask": np.arange(64) % 3 == 0,
    "a mask and positions": (np.arange(64) == 3, np.array([1, 1, 2])),
    "a position and others": (np.array([1]), np.array([2, 2, 0])),
    "nothing": np.zeros(0, int),
    "a row": 2,
}


@pytest.mark.parametrize("index", MANY.values(), ids=MANY)
def test_a_function_is_applied_once_for_each_time_that_an_element_is_selected(index: Any) -> None:
    data = DATA.copy()
    np.square.at(data, index)
    with runtime():
        for place in ((), ("x",), (None, "x")):
            x = placed(DATA, *place)
            made = x.at[index].apply(gs.numpy.square)
            np.testing.assert_array_equal(np.asarray(made), data)
            assert made.sharding == x.sharding and made.dtype == x.dtype
            if isinstance(index, np.ndarray):
                again = x.at[gs.device_put(index)].apply(lambda part: part * part)
                np.testing.assert_array_equal(np.asarray(again), data)
                traced = gs.jit(lambda x, at: x.at[at].apply(lambda part: part * part))
                np.testing.assert_array_equal(np.asarray(traced(x, index)), data)
        data, mask, at = DATA.copy(), np.arange(64) == 3, np.array([1, 1, 2])
        np.square.at(data, (mask, at))
        made = gs.jit(lambda x, at: x.at[mask, at].apply(gs.numpy.square))(placed(DATA, "x"), at)
        np.testing.assert_array_equal(np.asarray(made), data)
        whole = placed(np.arange(8), "x").at[np.array([1, 1, 2])].apply(lambda part: part * 1.5 + 1)
        assert np.asarray(whole).tolist() == [0, 4, 4, 3, 4, 5, 6, 7]  # int(1.5 * 2 + 1) twice


@pytest.mark.parametrize("mode", ["drop", "fill", "clip"])
def test_functions_are_applied_as_jax_applies_them(jax: Any, mode: str) -> None:
    at, data = np.array([1, 9, 1, -1, 9, -20]), np.arange(8, dtype=np.float32)
    wanted = jax.numpy.asarray(data).at[at].apply(lambda part: part * 3 + 1, mode=mode)
    with runtime():
        made = placed(data, "x").at[at].apply(lambda part: part * 3 + 1, mode=mode)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(wanted))


def test_functions_are_applied_to_positions_that_are_clipped_or_dropped() -> None:
    x, at = gs.device_put(np.arange(4.0)), np.array([-1, 2, 9])
    how: dict[str, Any] = {"wrap_negative_indices": False}
    made = x.at[at].apply(lambda part: part + 5, mode="clip", **how)
    assert made.tolist() == [5, 1, 7, 8]
    assert x.at[at].apply(lambda part: part + 5, **how).tolist() == [0, 1, 7, 3]
    far = x.at[np.array([7, 9])].apply(lambda part: pytest.fail("nothing is selected"), mode="drop")
    assert far.tolist() == x.tolist()


@pytest.mark.parametrize("dtype", [float, complex, np.int8])
def test_values_may_have_more_dims_of_length_one_than_the_part(dtype: Any) -> None:
    data, row = np.zeros((4, 3), dtype), np.array([7, 8, 9], dtype)
    mask, at = np.array([True, False, True, False]), np.array([0, 2])
    for lead in ((1,), (1, 1), (1, 1, 1)):
        for index, value in ((mask, row), (at, row), (at, row * np.ones((2, 1), dtype))):
            value = value.reshape(lead + value.shape)
            wanted = data.copy()
            wanted[index] = value
            x = gs.device_put(data)
            for given in (value, gs.device_put(value)):
                np.testing.assert_array_equal(x.at[index].set(given), wanted)
                np.testing.assert_array_equal(x.at[index].add(given), wanted)
                np.testing.assert_array_equal(x.at[gs.device_put(index)].set(given), wanted)


def test_values_of_two_elements_are_broadcast_where_dims_are_split() -> None:
    data, row = np.zeros((8, 2)), np.array([7.0, 8])
    with runtime():
        for value in (row, row[:, None]):
            part = slice(2, 7) if value is row else slice(2, 4)
            wanted = data.copy()
            wanted[part] = value
            for entries in (("x",), (None, None), ()):
                made = placed(data, *entries).at[part].set(gs.device_put(value))
                np.testing.assert_array_equal(made, wanted)


def test_values_come_to_where_the_array_lies() -> None:
    with runtime():
        here, there = gs.devices()[:2]
        x = gs.device_put(np.zeros(4), here)
        for value in (np.array([7.0, 8]), np.array([7.0])):
            wanted = np.zeros(4)
            wanted[[1, 2]] = value
            given = gs.device_put(value, there)
            for made in (x.at[np.array([1, 2])].set(given), x.at[np.array([1, 2])].add(given)):
                np.testing.assert_array_equal(made, wanted)
                assert made.devices() == {here}


def test_a_dim_of_no_elements_has_none_that_is_nearest() -> None:
    x = gs.device_put(np.ones((0, 3)))
    for mode in ("clip", "wrap"):
        assert x.at[np.array([0, 4]), np.array([1, 2])].get(mode=mode).tolist() == [0, 0]
        assert x.at[np.array([0])].get(mode=mode).tolist() == [[0, 0, 0]]


def test_a_mask_is_as_long_as_the_dim_or_empty() -> None:
    x = gs.device_put(np.arange(6.0).reshape(3, 2))
    for place in (np.asarray, gs.device_put):
        assert x[place(np.zeros(0, bool))].shape == (0, 2)
        for length in (1, 2, 4):
            with pytest.raises(
                gs.errors.ArrayIndexError, match=f"has length {length} where axis 0"
            ):
                x[place(np.ones(length, bool))]


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum])
def test_rows_that_are_updated_often_take_every_value_in_order(ufunc: np.ufunc) -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((40, 7, 300)).astype(np.float32)
    with runtime():
        x = placed(data, "x")
        for most in (2, 9, 40):  # how often a row is there: few times, several, too often
            at = rng.integers(-40, 40, 24) if most == 40 else np.arange(24) % (24 // most)
            for index, values in (
                ((at,), rng.standard_normal((24, 1, 300)).astype(np.float32)),
                ((at, at % 7), rng.standard_normal((24, 300)).astype(np.float32)),
                ((slice(3, 37), at % 7), np.float32(1.1)),
            ):
                want = data.copy()
                ufunc.at(want, index, np.broadcast_to(values, want[index].shape))
                name = {"add": "add", "multiply": "multiply", "maximum": "max"}[ufunc.__name__]
                made = getattr(x.at[index], name)(values)
                assert np.asarray(made).tobytes() == want.tobytes()


def test_few_positions_are_checked_by_the_host_itself(reads: list[int]) -> None:
    with runtime(backend="host"):
        x, at = placed(DATA, "x"), placed(np.arange(8), "x")
        x[at]
        with pytest.raises(IndexError, match="index 70 is out of bounds for axis 0 of length 64"):
            x[placed(np.array([3, 64, 70, -65]))]
    with runtime(backend="host", inline_bytes=0):
        x, more = placed(DATA, "x"), placed(np.arange(8), "x")
        x[more]
    assert reads == [8, 4, 1]


def test_a_new_value_is_not_copied_again() -> None:
    data = np.arange(64 * 48.0).reshape(64, 48)
    with runtime(host_devices=4, small_bytes=0) as own:
        x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
        at = gs.device_put(np.array([5, 40, 5]), gs.NamedSharding(x.sharding.mesh, gs.P()))
        before = own.backend.traffic.get((0, 0))
        made = [x.at[at].set(1), x.at[at].add(2.0), x.at[at, at - 5].multiply(4)]
        assert own.backend.traffic.get((0, 0)) == before  # within the memory of the devices
        for part in made:
            assert part.sharding == x.sharding and not part.weak_type
        found = [np.asarray(part)[5, 0] for part in made]
        assert found == [1, data[5, 0] + 4, data[5, 0] * 16]
        np.testing.assert_array_equal(np.asarray(x), data)


@pytest.mark.parametrize("shape", [(8, 1), (8, 1, 1), (1, 8, 1), (1, 1), (8, 20), (0, 1), ()])
def test_conditions_that_are_the_same_for_many_elements(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    condition = rng.integers(0, 2, shape).astype(rng.choice([bool, np.int8]))
    with runtime(host_devices=4):
        place = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P())
        width = (3, 4, 20) if len(shape) == 3 else (20,)
        if shape[:1] == (0,):
            width = (0, 20)
        for own, other in ((width, ()), ((), width), (width, width), (width[-1:], width)):
            x, y = rng.random(own, np.float32), rng.integers(0, 9, other, np.int16)
            try:
                want = np.where(condition, x, y)
            except ValueError:  # shapes that do not broadcast
                continue
            given = [gs.device_put(one, place) for one in (condition, x, y)]
            found = gs.numpy.where(*given)
            assert found.dtype == want.dtype and found.shape == want.shape
            np.testing.assert_array_equal(np.asarray(found), want)


def test_mul_is_another_name_of_multiply() -> None:
    x = gs.device_put(np.arange(6.0))
    np.testing.assert_array_equal(x.at[1:3].mul(4), x.at[1:3].multiply(4))
    assert x.at[2].mul(4).tolist() == [0, 1, 8, 3, 4, 5]


@pytest.mark.parametrize("kind", ["list", "array", "devices"])
def test_positions_that_wrap_are_the_remainders(kind: str) -> None:
    data = np.arange(48.0).reshape(8, 6)
    x = gs.device_put(data, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
    rows, columns = [9, -9, 16, 7], [-7, 6, 0, 13]
    make = {"list": list, "array": np.array, "devices": gs.numpy.asarray}[kind]
    at, beside = make(rows), make(columns)
    want = data[np.mod(rows, 8), np.mod(columns, 6)]
    np.testing.assert_array_equal(x.at[at, beside].get(mode="wrap"), want)
    np.testing.assert_array_equal(x.at[at].get(mode="wrap"), data[np.mod(rows, 8)])
    data[np.mod(rows, 8), 2] = 5
    np.testing.assert_array_equal(x.at[at, 2].set(5, mode="wrap"), data)


def _kept(positions: np.ndarray, there: np.ndarray) -> np.ndarray:
    return np.where(there, positions, 0).astype(np.int64)


SPLITS = [("x",), (None, "x"), (("x", "y"),), ("x", "y"), ("y", "x")]
EDGES = [0, 1, -1, 31, 63, 64, 65, -64, -65, 47, 48, 49, -48, -49, 24]
"""The first and last positions of dims of 64 and 48, and the ones beyond."""


@pytest.mark.parametrize("entries", SPLITS, ids=str)
@pytest.mark.parametrize("domains", [1, 4])
@pytest.mark.parametrize("kind", ["int64", "int8", "uint64"])
def test_what_is_out_of_bounds_is_filled_or_dropped(
    entries: Any, domains: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gather, "SMALL", 0)  # blocks of an owner are never joined
    data = np.arange(64 * 48.0).reshape(64, 48)
    edges = np.array([at for at in EDGES if kind[0] == "i" or at >= 0], kind)
    if kind == "uint64":
        edges = np.append(edges, np.array([2**63, 2**64 - 1, 2**64 - 6], kind))
    first, second = edges.repeat(len(edges)), np.tile(edges, len(edges))
    pairs = [*zip(first.tolist(), second.tolist(), strict=True)]
    there = np.array([-64 <= i < 64 and -48 <= j < 48 for i, j in pairs])
    inside = tuple(part[there].astype(np.int64) for part in (first, second))
    with runtime(host_devices=4, host_domains=domains, small_bytes=0):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, P(*entries)))
        positions = [
            gs.device_put(part, gs.NamedSharding(mesh, P("x"))) for part in (first, second)
        ]
        got = np.asarray(x.at[*positions].get(mode="fill", fill_value=-1))
        np.testing.assert_array_equal(
            got, np.where(there, data[_kept(first, there), _kept(second, there)], -1)
        )
        want = data.copy()
        np.add.at(want, inside, 1)
        np.testing.assert_array_equal(x.at[*positions].add(1, mode="drop"), want)
        want[inside] = 7
        np.testing.assert_array_equal(x.at[*positions].set(7, mode="drop"), want)
        rows = np.array([-64 <= i < 64 for i in edges.tolist()])
        got = np.asarray(x.at[edges].get(mode="fill", fill_value=-1))
        np.testing.assert_array_equal(got[rows], data[edges[rows].astype(np.int64)])
        assert (got[~rows] == -1).all()


@pytest.mark.parametrize("first", [np.array([2, 0, -1]), np.array([True, False, True])])
def test_negative_positions_are_out_of_bounds_of_their_own_dim(first: np.ndarray) -> None:
    data = np.arange(15.0).reshape(3, 5)
    x, second = gs.device_put(data), np.array([4, -1, -2])[: np.atleast_1d(data[first]).shape[0]]
    rows = np.nonzero(first)[0] if first.dtype == bool else first
    inside = (rows >= 0) & (second >= 0)
    expected = data.copy()
    expected[rows[inside], second[inside]] = 9
    found = x.at[first, second].set(9, wrap_negative_indices=False)
    np.testing.assert_array_equal(found, expected)
    clipped = data[np.maximum(rows, 0), np.maximum(second, 0)]
    np.testing.assert_array_equal(x.at[first, second].get(wrap_negative_indices=False), clipped)


@pytest.mark.parametrize("place", [np.asarray, gs.device_put], ids=["host", "device"])
def test_a_mask_of_two_dims_comes_before_the_dim_of_negative_positions(place: Any) -> None:
    data, mask = np.arange(30.0).reshape(3, 2, 5), np.array([[0, 1], [1, 0], [0, 1]], bool)
    x, last = gs.device_put(data), place(np.array([0, -1, -5]))
    found = x.at[mask, last].set(9, wrap_negative_indices=False)
    data[0, 1, 0] = 9
    np.testing.assert_array_equal(found, data)
    with pytest.raises(gs.errors.ArrayIndexError, match="length 3 where axis 1") as caught:
        x[np.ones((3, 3), bool)]
    assert caught.value.dim == 1


@pytest.mark.parametrize("positions", [[3, -3], [2, -4], [-3, 3], [0, 3], [-4]])
def test_the_position_furthest_out_of_bounds_is_named(positions: list[int]) -> None:
    x = gs.device_put(np.arange(3.0))
    (outside,) = [at for at in positions if not -3 <= at < 3]
    for use in (
        lambda: x[np.array(positions)],
        lambda: x.at[np.array(positions)].set(1),
        lambda: x.at[np.array(positions)].apply(lambda part: part * 2),
    ):
        with pytest.raises(gs.errors.ArrayIndexError, match=rf"(^|\D){outside}\D"):
            use()


def test_functions_are_applied_where_a_traced_mask_is_true() -> None:
    data = np.arange(12.0).reshape(4, 3)

    def double(x: gs.Array, mask: gs.Array, **how: Any) -> gs.Array:
        return x.at[mask].apply(lambda part: part * 2 + 1, **how)

    with runtime():
        for mask in (data % 2 == 1, np.array([True, False, True, True]), np.zeros((4, 3), bool)):
            wanted = data.copy()
            wanted[mask] = wanted[mask] * 2 + 1
            made = gs.jit(double)(placed(data, "x"), mask)
            np.testing.assert_array_equal(np.asarray(made), wanted)
            assert made.dtype == data.dtype
            counts = gs.jit(double)(data.astype(np.int8), mask)
            np.testing.assert_array_equal(np.asarray(counts), wanted.astype(np.int8))
            assert counts.dtype == np.int8
        where = data > 5
        made = gs.jit(lambda x, m: x.at[m].apply(lambda part: part > 8))(data > 3, where)
        np.testing.assert_array_equal(np.asarray(made), np.where(where, False, data > 3))
