"""Values that mapped functions see: what can be done with them, and what raises which error."""

from __future__ import annotations

import copy
import functools
import math
import pickle
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
from gpushard import errors, testing
from gpushard._array.array import ConcreteArray
from gpushard._functions.host_reads import at_hand

P = gs.P
VALUE = np.arange(64.0).reshape(8, 8)


@pytest.fixture(autouse=True)
def mesh() -> Iterator[gs.Mesh]:
    with testing.runtime(host_devices=8):
        yield gs.make_mesh((4, 2), ("x", "y"))


def placed(mesh: gs.Mesh, *spec: Any) -> gs.Array:
    return gs.device_put(VALUE, gs.NamedSharding(mesh, P(*spec)))


def inside(mesh: gs.Mesh, body: Callable[[Any], Any], *spec: Any) -> Any:
    """Run a body on a value that varies along x."""
    return gs.shard_map(body, mesh, P("x"), P("x"), check_rep=False)(placed(mesh, "x"))


def test_a_value_is_an_array_with_the_shape_of_a_block(mesh: gs.Mesh) -> None:
    def body(x: Any) -> Any:
        assert isinstance(x, gs.Array)
        assert (x.shape, x.ndim, x.size, len(x)) == ((2, 8), 2, 16, 2)
        assert (x.dtype, x.itemsize, x.nbytes, x.weak_type) == (np.float64, 8, 128, False)
        assert x.aval == gs.ShapeDtypeStruct((2, 8), np.float64)
        assert "(2, 8)" in repr(x) and "'x': 4" in str(x) == f"{x}"
        assert copy.copy(x) is not x and copy.deepcopy(x).shape == x.shape
        rows = list(x)
        assert len(rows) == 2 and rows[0].shape == (8,)
        return gs.numpy.stack([rows[1], rows[0]])

    want = VALUE.reshape(4, 2, 8)[:, ::-1].reshape(8, 8)
    np.testing.assert_array_equal(np.asarray(inside(mesh, body)), want)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "bool": (lambda x: bool(x[0, 0] > 1), errors.TracedBoolError, "where"),
    "if": (lambda x: 1 if (x > 1).all() else 2, errors.TracedBoolError, "where"),
    "int": (lambda x: int(x[0, 0]), errors.TracedIntegerError, "astype"),
    "index": (lambda x: [1, 2][x[0, 0].astype(int)], errors.TracedIntegerError, "x[i]"),
    "range": (lambda x: range(x[0, 0].astype(int)), errors.TracedIntegerError, "x[i]"),
    "slice": (lambda x: x[: x[0, 0].astype(int)], errors.TracedIntegerError, "x[i]"),
    "float": (lambda x: float(x[0, 0]), errors.ConcretizationError, "return"),
    "complex": (lambda x: complex(x[0, 0]), errors.ConcretizationError, "return"),
    "math": (lambda x: math.sqrt(x[0, 0]), errors.ConcretizationError, "return"),
    "item": (lambda x: x[0, 0].item(), errors.ConcretizationError, "return"),
    "tolist": (lambda x: x.tolist(), errors.ConcretizationError, "return"),
    "tobytes": (lambda x: x.tobytes(), errors.ConcretizationError, "return"),
    "pickle": (pickle.dumps, errors.ConcretizationError, "return"),
    "asarray": (np.asarray, errors.TracedArrayError, "gpushard.numpy"),
    "device_get": (gs.device_get, errors.TracedArrayError, "returns"),
    "mask": (lambda x: x[x > 3], errors.ConcretizationError, "size="),
    "nonzero": (lambda x: gs.numpy.nonzero(x), errors.ConcretizationError, "size="),
    "unique": (lambda x: gs.numpy.unique(x), errors.ConcretizationError, "size="),
    "bincount": (
        lambda x: gs.numpy.bincount(x[0].astype(int)),
        errors.ConcretizationError,
        "length=",
    ),
    "arange": (lambda x: gs.numpy.arange(x[0, 0]), errors.ConcretizationError, "x + arange(n)"),
    "format": (lambda x: f"{x[0, 0]:.2f}", errors.ConcretizationError, "return"),
    "sharding": (lambda x: x.sharding, errors.TracedArrayError, "returns"),
    "devices": (lambda x: x.devices(), errors.TracedArrayError, "returns"),
    "device": (lambda x: x.device, errors.TracedArrayError, "returns"),
    "committed": (lambda x: x.committed, errors.TracedArrayError, "returns"),
    "shards": (lambda x: x.addressable_shards, errors.TracedArrayError, "returns"),
    "shard": (lambda x: x.addressable_data(0), errors.TracedArrayError, "returns"),
    "delete": (lambda x: x.delete(), errors.TracedArrayError, "returns"),
    "dlpack": (lambda x: np.from_dlpack(x), errors.TracedArrayError, "returns"),
    "device_put": (lambda x: gs.device_put(x, gs.devices()[0]), errors.TracedArrayError, "returns"),
    "reshard": (lambda x: gs.reshard(x, P()), errors.TracedArrayError, "returns"),
    "iteration": (lambda x: list(x[0, 0]), errors.TracedValueError, "ravel"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_needs_elements_or_a_place_is_refused(mesh: gs.Mesh, name: str) -> None:
    ask, kind, way = REFUSED[name]

    def body(first: Any) -> Any:
        return ask(first * 2)

    with pytest.raises(TypeError) as caught:
        inside(mesh, body)
    error: Any = caught.value
    assert type(error) is kind and isinstance(error, errors.TracedValueError)
    assert "argument first of shape (8, 8) of the shard_map of body" in str(error)
    assert way in str(error)
    assert f"{__file__}:" in str(error) and error.line in str(error)
    assert error.arg.startswith("argument first")


def test_what_comes_of_no_argument_says_so(mesh: gs.Mesh) -> None:
    with pytest.raises(errors.TracedIntegerError, match="It comes from axis_index") as caught:
        inside(mesh, lambda x: range(gs.lax.axis_index("x")))
    assert "x[i + gpushard.numpy.arange(n)]" in str(caught.value)
    row = gs.device_put(VALUE[0])
    made = inside(mesh, lambda x: row[2 * gs.lax.axis_index("x") + gs.numpy.arange(2)])
    np.testing.assert_array_equal(np.asarray(made), VALUE[0])


def test_what_a_map_passes_on_to_a_map_within_comes_from_its_own_argument(mesh: gs.Mesh) -> None:
    def ask(*given: Any) -> Any:
        return float(given[-1].sum())

    eight, same = np.arange(8), (0, None)
    for within in (
        gs.pmap(ask),
        functools.partial(gs.pmap(ask, in_axes=same), eight),
        functools.partial(gs.vmap(ask, in_axes=same), eight),
        gs.shard_map(ask, mesh, P("x"), P()),
    ):
        with pytest.raises(errors.ConcretizationError, match="It comes from argument row of shape"):
            gs.vmap(lambda row, within=within: within(row * 2))(VALUE)


def test_what_is_the_same_for_all_comes_from_its_argument_too(mesh: gs.Mesh) -> None:
    with pytest.raises(errors.TracedArrayError, match=r"argument x of shape \(8, 8\) of the vmap"):
        gs.vmap(lambda n, x: x.sharding, in_axes=(0, None))(np.arange(8), VALUE)


def test_what_an_argument_is_assigned_to_comes_of_it(mesh: gs.Mesh) -> None:
    def body(first: Any) -> Any:
        new = gs.numpy.zeros(8)
        new[...] = first[0]
        return bool(new[0] > 0)

    with pytest.raises(errors.TracedValueError, match="argument first of shape"):
        inside(mesh, body)


def test_messages_of_python_call_a_value_an_array(mesh: gs.Mesh) -> None:
    with pytest.raises(TypeError, match="unhashable type: 'Array'"):
        inside(mesh, lambda x: {x: 1})
    with pytest.raises(errors.TreeError, match=r"the result is a leaf \(Array\)"):
        gs.shard_map(lambda x: x, mesh, P("x"), (P("x"), P("x")))(placed(mesh, "x"))


def test_the_line_that_asks_is_the_user_s(mesh: gs.Mesh) -> None:
    def body(x: Any) -> Any:
        return np.sum(x) + float(x[0, 0])

    line = body.__code__.co_firstlineno + 1
    with pytest.raises(errors.ConcretizationError, match=f"{__file__}:{line}"):
        inside(mesh, body)


def test_what_is_the_same_everywhere_can_be_read(mesh: gs.Mesh) -> None:
    def body(x: Any) -> Any:
        total = gs.lax.psum(x, "x").sum()
        steps = 0
        while total > 100:
            total, steps = total / 2, steps + 1
        assert float(total) == VALUE.sum() / 2**steps and f"{total:.1f}" == "63.0"
        assert int(gs.numpy.ones(3).sum()) == 3
        return x * steps

    np.testing.assert_array_equal(np.asarray(inside(mesh, body)), VALUE * 5)


def test_a_value_that_is_used_after_its_function_returned_raises(mesh: gs.Mesh) -> None:
    kept: list[Any] = []
    inside(mesh, lambda x: (kept.append(x), x)[1])
    for use in (lambda: kept[0] + 1, lambda: kept[0].sum(), lambda: bool(kept[0])):
        with pytest.raises(errors.TracedValueError, match=r"shard_map of <lambda>.* has returned"):
            use()
    with pytest.raises(errors.TracedValueError, match="has returned"):
        inside(mesh, lambda x: x + kept[0])
    for map_it in (gs.vmap, gs.pmap, lambda f: gs.shard_map(f, mesh, gs.P(), gs.P())):
        with pytest.raises(errors.TracedValueError, match="has returned"):
            map_it(lambda x: x)(kept[0])


def test_assignment_gives_a_variable_another_value(mesh: gs.Mesh) -> None:
    def body(x: Any) -> Any:
        y = x  # another name of the same variable
        z = copy.copy(x)
        x[0] = -1
        x[1, 2:4] = gs.lax.axis_index("x")
        x[0, [1, 2]] += 5
        new = gs.numpy.zeros((2, 8))
        new[0] = x[1]
        new[1, x[0, 0].astype(int) + 3] = 7
        new.at[0].set(100)
        assert y is x
        return new + z

    want = np.zeros((4, 2, 8))
    for i, block in enumerate(VALUE.reshape(4, 2, 8)):
        row = block[1].copy()
        row[2:4] = i
        want[i] = block
        want[i, 0] += row
        want[i, 1, 2] += 7
    x = placed(mesh, "x")
    made = gs.shard_map(body, mesh, P("x"), P("x"))(x)
    np.testing.assert_array_equal(np.asarray(made), want.reshape(8, 8))
    np.testing.assert_array_equal(np.asarray(x), VALUE)


def test_what_is_assigned_gives_way_no_more() -> None:
    def assigned(x: Any) -> Any:
        before = gs.typeof(x).weak_type
        x[...] = 2.5
        assert before and not gs.typeof(x).weak_type
        return x

    weak = gs.numpy.broadcast_to(gs.device_put(1.5), (3,))
    assert gs.vmap(assigned)(weak).tolist() == [2.5] * 3
    assert not gs.jit(assigned)(weak).weak_type


def test_values_are_not_assigned_to_arrays_of_outside(mesh: gs.Mesh) -> None:
    outside = gs.device_put(np.zeros((2, 8)))

    def body(x: Any) -> Any:
        outside[0] = x[0]
        return x

    with pytest.raises(errors.TracedValueError, match="argument x of shape"):
        inside(mesh, body)
    np.testing.assert_array_equal(np.asarray(outside), np.zeros((2, 8)))
    made = inside(mesh, lambda x: outside.at[0].set(x[0]))
    np.testing.assert_array_equal(np.asarray(made)[::2], VALUE[::2])


def test_arrays_of_outside_are_the_same_everywhere(mesh: gs.Mesh) -> None:
    other = gs.make_mesh((8,), ("x",))
    ways = [
        gs.device_put(VALUE[:2]),
        gs.device_put(VALUE[:2], gs.devices()[3]),
        gs.device_put(VALUE[:2], gs.NamedSharding(mesh, P("x", "y"))),
        gs.device_put(VALUE[:2], gs.NamedSharding(other, P(None, "x"))),
        VALUE[:2],
    ]
    want = (VALUE.reshape(4, 2, 8) + VALUE[:2]).reshape(8, 8)
    for other_one in ways:
        made = inside(mesh, lambda x, y=other_one: x + y)
        np.testing.assert_array_equal(np.asarray(made), want)
        product = inside(mesh, lambda x, y=other_one: x @ gs.numpy.asarray(y).T @ y)
        np.testing.assert_allclose(np.asarray(product), VALUE @ VALUE[:2].T @ VALUE[:2])


def test_blocks_are_views_on_the_way_in_and_out(mesh: gs.Mesh) -> None:
    x = placed(mesh, "x", "y")
    same = gs.shard_map(lambda x: x, mesh, P("x", "y"), P("x", "y"))(x)
    assert same is not x
    for one, two in zip(x.addressable_shards, same.addressable_shards, strict=True):
        assert one.data.unsafe_buffer_pointer() == two.data.unsafe_buffer_pointer()
    same[0, 0] = 5  # which is not seen by x
    np.testing.assert_array_equal(np.asarray(x), VALUE)
    swapped = gs.shard_map(lambda x: x, mesh, P("x", "y"), P("y", "x"))(x)
    assert swapped.shape == (4, 16)


def test_results_that_do_not_vary_have_memory_for_each_block_that_is_assigned_to(
    mesh: gs.Mesh,
) -> None:
    x = placed(mesh)
    made = gs.shard_map(lambda x: x, mesh, P(), P("x"))(x)
    np.testing.assert_array_equal(np.asarray(made), np.tile(VALUE, (4, 1)))
    made[0] = -1
    want = np.tile(VALUE, (4, 1))
    want[0] = -1
    np.testing.assert_array_equal(np.asarray(made), want)
    np.testing.assert_array_equal(np.asarray(x), VALUE)


def test_what_is_not_computed_yet_has_a_text_and_is_not_waited_for(mesh: gs.Mesh) -> None:
    texts = []

    def body(x: Any) -> Any:
        y = gs.numpy.ones((2, 3), "f4")
        texts.extend([repr(x), str(y), repr(x[0, 0])])
        assert x.block_until_ready() is x
        return x.block_until_ready() * 2

    x = placed(mesh, "x")
    np.testing.assert_array_equal(np.asarray(gs.jit(body)(x)), VALUE * 2)
    assert texts == [
        "Array(shape=(8, 8), dtype=float64, traced)",
        "Array(shape=(2, 3), dtype=float32, traced)",
        "Array(shape=(), dtype=float64, traced)",
    ]
    np.testing.assert_array_equal(np.asarray(inside(mesh, body)), VALUE * 2)
    np.testing.assert_array_equal(np.asarray(gs.vmap(lambda x: x.block_until_ready())(x)), VALUE)
    with mock.patch.object(ConcreteArray, "block_until_ready") as waited:
        gs.vmap(lambda x: x.block_until_ready())(x)
    waited.assert_called_once_with()


def test_a_traced_value_of_no_argument_says_so() -> None:
    for f in (lambda x: float(gs.numpy.ones(3).sum()), lambda x: at_hand(gs.numpy.ones(3), "f")):
        with pytest.raises(errors.TracedValueError, match="It comes from no argument, in the jit"):
            gs.jit(f)(VALUE)


def test_what_is_at_hand_of_a_mapped_value(mesh: gs.Mesh) -> None:
    def same(x: Any) -> Any:
        assert np.array_equal(at_hand(gs.numpy.arange(3) * 2, "this"), [0, 2, 4])
        return x

    np.testing.assert_array_equal(np.asarray(inside(mesh, same)), VALUE)
    with pytest.raises(errors.TracedValueError, match="this needs elements"):
        inside(mesh, lambda x: at_hand(x, "this"))


def test_arrays_on_the_host_are_made_in_traced_functions(mesh: gs.Mesh) -> None:
    place = gs.NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    made = gs.jit(lambda: (gs.numpy.full(8, 3.0, out_sharding=place), gs.numpy.ones(8)))()
    assert made[0].sharding == place and made[0].tolist() == [3] * 8
    assert made[1].sharding.memory_kind == "device"


def test_specs_that_are_none_leave_values_whole(mesh: gs.Mesh) -> None:
    shapes = []
    f = gs.shard_map(lambda x: (shapes.append(x.shape), x * 2)[1], mesh, None, P("x"))
    np.testing.assert_array_equal(np.asarray(f(VALUE)), np.concatenate([VALUE * 2] * 4))
    whole = gs.shard_map(lambda x: x.sum(), mesh, None, None)(VALUE)
    assert whole.sharding.spec == P() and whole == VALUE.sum() and shapes == [(8, 8)]
