"""`vmap`: arguments, results, names, and how it goes together with other maps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random, testing

P = gs.P
CUBE = np.arange(24.0).reshape(2, 3, 4)
MATRIX = np.arange(12.0).reshape(3, 4)


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def equal(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("into", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("out", [0, 1, -1, -2])
def test_dims_go_in_and_out_where_they_are_said(into: int, out: int) -> None:
    x = gs.device_put(CUBE)
    made = gs.vmap(lambda x: x.cumsum(0), into, out)(x)
    loops = [np.cumsum(part, 0) for part in np.moveaxis(CUBE, into, 0)]
    equal(made, np.stack(loops, out))


def test_arguments_are_trees_and_their_axes_prefixes() -> None:
    x, y = gs.device_put(CUBE), gs.device_put(MATRIX)

    def body(d: Any, s: Any, *, k: Any) -> Any:
        return {"z": d["a"] * s + d["b"], "k": (k, 1.0)}

    f = gs.vmap(body, in_axes=({"a": 1, "b": None}, None), out_axes={"z": 1, "k": (0, None)})
    made = f({"a": x, "b": y[0]}, 2.0, k=MATRIX)
    equal(made["z"], np.moveaxis(np.moveaxis(CUBE, 1, 0) * 2 + MATRIX[0], 0, 1))
    equal(made["k"][0], MATRIX)
    assert float(made["k"][1]) == 1.0
    equal(gs.vmap(lambda a, b: a + b, in_axes=[0, None])(MATRIX, 1), MATRIX + 1)


def test_what_does_not_differ_is_the_same_for_all() -> None:
    equal(gs.vmap(lambda x: gs.numpy.ones(2))(MATRIX), np.ones((3, 2)))
    equal(gs.vmap(lambda x: 5)(MATRIX), np.full(3, 5))
    equal(gs.vmap(lambda: gs.lax.axis_index("i"), axis_name="i", axis_size=4)(), np.arange(4))
    total = gs.vmap(lambda x: gs.lax.psum(x, "i"), axis_name="i", out_axes=None)(MATRIX)
    equal(total, MATRIX.sum(0))


def test_maps_in_maps() -> None:
    x = gs.device_put(CUBE)
    equal(gs.vmap(gs.vmap(gs.numpy.cumsum))(x), CUBE.cumsum(-1))
    dot = gs.vmap(gs.vmap(gs.numpy.dot, (0, None)), (None, 0))
    equal(dot(MATRIX, MATRIX), MATRIX @ MATRIX.T)

    def inner(x: Any) -> Any:
        return gs.lax.psum(x, ("i", "j")) + gs.lax.axis_index(("i", "j")) - gs.lax.psum(x, "i")

    made = gs.vmap(gs.vmap(inner, axis_name="j"), axis_name="i")(x)
    want = CUBE.sum((0, 1)) + np.arange(6).reshape(2, 3, 1) - CUBE.sum(0)
    equal(made, want)
    shadowed = gs.vmap(gs.vmap(lambda x: gs.lax.psum(x, "i"), axis_name="i"), axis_name="i")(x)
    equal(shadowed, np.broadcast_to(CUBE.sum(1, keepdims=True), CUBE.shape))


def test_axes_may_be_integers_of_numpy() -> None:
    one = np.int64(1)
    for x in (MATRIX, gs.device_put(MATRIX)):
        equal(gs.vmap(lambda column: column + 1, one, one)(x), MATRIX + 1)
        equal(gs.vmap(gs.numpy.sum, (one,))(x), MATRIX.sum(0))


def test_vmap_over_and_under_shard_map() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(3 * 8 * 4.0).reshape(3, 8, 4)
    x = gs.device_put(value, gs.NamedSharding(mesh, P(None, "x", "y")))
    body = gs.shard_map(
        lambda x: x - gs.lax.pmean(x, "x") + gs.lax.psum(x.sum(), "y"),
        mesh,
        P("x", "y"),
        P("x", "y"),
    )
    want = []
    for part in value:
        blocks = part.reshape(4, 2, 2, 2)  # x, row, y, column
        mean = blocks.mean(0)
        total = blocks.sum((1, 2, 3))
        want.append((blocks - mean + total[:, None, None, None]).reshape(8, 4))
    equal(gs.vmap(body)(x), want)
    equal(gs.vmap(body, spmd_axis_name=None)(value), want)
    under = gs.shard_map(
        gs.vmap(lambda row: row * gs.lax.psum(row.sum(), "x")), mesh, P("x"), P("x")
    )
    rows = value[0].reshape(4, 2, 4)
    equal(under(value[0]), (rows * rows.sum((0, 2))[:, None]).reshape(8, 4))


def test_vmap_over_shard_map_of_a_dim_that_the_other_axis_does_not_divide_further() -> None:
    """Four rows in four blocks: y, which splits them in two, is given up."""
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(3 * 4 * 6.0).reshape(3, 4, 6)
    for spec, kept in ((P(None, "y"), P(None, "x")), (P(None, None, "y"), P(None, "x", "y"))):
        x = gs.device_put(value, gs.NamedSharding(mesh, spec))
        body = gs.shard_map(lambda b: b * 2, mesh, P("x"), P("x"), axis_names={"x"})
        made = gs.vmap(body)(x)
        equal(made, value * 2)
        assert [made.sharding.spec.axes(n) for n in range(3)] == [kept.axes(n) for n in range(3)]


def test_a_dim_can_be_put_on_a_mesh_axis() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(CUBE.reshape(8, 3), gs.NamedSharding(mesh, P(None, None)))
    made = gs.vmap(lambda row: row.sum() + row, spmd_axis_name="x")(x)
    assert made.sharding.spec.axes(0) == ("x",)
    value = CUBE.reshape(8, 3)
    equal(made, value.sum(1, keepdims=True) + value)
    with gs.set_mesh(mesh):
        made = gs.vmap(gs.numpy.sum, spmd_axis_name=("x", "y"))(value)
    assert made.sharding.spec.axes(0) == ("x", "y")
    inner = gs.shard_map(lambda r: gs.lax.psum(r, "y"), mesh, P("y"), P(), axis_names={"y"})
    pair = np.arange(16.0).reshape(8, 2)
    with gs.set_mesh(mesh):
        equal(gs.vmap(inner, spmd_axis_name="x")(pair), pair.sum(1, keepdims=True))


def test_positions_that_differ_are_taken_in_one_call() -> None:
    x, at = gs.device_put(CUBE), gs.numpy.asarray([1, 0, 1, 1, 0])
    take = gs.vmap(lambda i: x[i])
    equal(take(at), CUBE[[1, 0, 1, 1, 0]])
    called = []

    def note(frame: Any, event: str, function: Any) -> None:
        # A method of NumPy's arrays, or a kernel of the CUDA backend, whose events are taken, too.
        code = frame.f_code
        own = code.co_name if "kernels" in code.co_filename else ""
        names = {"c_call": getattr(function, "__name__", ""), "call": own}
        if names.get(event) == "take":
            called.append(event)

    sys.setprofile(note)
    try:
        take(at)
    finally:
        sys.setprofile(None)
    assert len(called) == 1


def test_positions_and_updates_that_differ() -> None:
    at = gs.numpy.asarray([2, 0, 1])
    outside = gs.device_put(MATRIX)
    equal(gs.vmap(lambda row, i: row[i])(MATRIX, at), MATRIX[np.arange(3), [2, 0, 1]])
    equal(gs.vmap(lambda i: outside[i])(at), MATRIX[[2, 0, 1]])
    want = np.stack([MATRIX] * 3)
    want[np.arange(3), [2, 0, 1], 0] += 5
    equal(gs.vmap(lambda i: outside.at[i, 0].add(5.0))(at), want)
    equal(outside, MATRIX)

    def assign(row: Any, i: Any) -> Any:
        made = gs.numpy.zeros(4)
        made[i] = row[i]
        made[3] += 1
        return made

    want = np.zeros((3, 4))
    want[np.arange(3), [2, 0, 1]] = MATRIX[np.arange(3), [2, 0, 1]]
    want[:, 3] += 1
    equal(gs.vmap(assign)(MATRIX, at), want)


def test_an_inner_map_does_not_assign_to_values_of_the_outer_one() -> None:
    def outer(row: Any) -> Any:
        def inner(x: Any) -> Any:
            row[0] = x
            return x

        return gs.vmap(inner)(row)

    with pytest.raises(gs.errors.TracedValueError, match="argument row of shape"):
        gs.vmap(outer)(MATRIX)


def test_shapes_are_known_in_mapped_functions() -> None:
    """`eval_shape` and `make_jaxpr` see what a function sees: blocks, names and outer values."""
    mesh = gs.make_mesh((4,), ("i",))
    functions: dict[str, Callable[[Any], Any]] = {
        "itself": lambda x: gs.eval_shape(lambda a: a, x),
        "made": lambda x: gs.eval_shape(lambda a: a + gs.numpy.zeros(3), x),
        "outer": lambda x: gs.eval_shape(lambda a, n: a * x * n, x, 2),
        "sum": lambda x: gs.eval_shape(lambda a: gs.lax.psum(a, "i"), x),
        "shape": lambda x: gs.eval_shape(lambda a: a + x, gs.ShapeDtypeStruct((3,), x.dtype)),
        "text": lambda x: gs.make_jaxpr(lambda a: a + x, return_shape=True)(x)[1],
        "keys": lambda x: gs.eval_shape(lambda k: random.normal(k, (3,)), random.key(x.size)),
    }
    for name, shape in functions.items():

        def seen(x: Any, shape: Any = shape, name: str = name) -> Any:
            made = shape(x)
            assert made.dtype == np.float64 and made.shape[-1] == 3, name
            return x

        blocks = gs.shard_map(seen, mesh, P("i"), P("i"))
        for way in (gs.vmap(seen, axis_name="i"), gs.pmap(seen, "i"), blocks):
            equal(way(np.ones((4, 3))), np.ones((4, 3)))


def test_keys_are_mapped() -> None:
    keys = random.split(random.key(0), 4)

    def draw(key: Any, scale: Any) -> Any:
        first, second = random.split(key)
        return scale * random.normal(random.fold_in(first, 3), (2,)) + random.uniform(second)

    made = gs.vmap(draw)(keys, np.arange(4.0))
    equal(made, [np.asarray(draw(keys[i], float(i))) for i in range(4)])
    assert gs.vmap(random.split)(keys).dtype == keys.dtype
    assert bool(gs.vmap(lambda key: key == key)(keys).all())
    same = gs.vmap(lambda x: random.normal(keys[0], (2,)) + x)(np.zeros(3))
    equal(same, np.stack([np.asarray(random.normal(keys[0], (2,)))] * 3))


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "none": (lambda: gs.vmap(lambda x: x, None)(MATRIX), ValueError, "no argument is mapped"),
    "sizes": (
        lambda: gs.vmap(lambda x, y: x)(MATRIX, CUBE),
        ValueError,
        r"3 along axis 0 of argument x of shape \(3, 4\); 2 along axis 0 of argument y",
    ),
    "size": (lambda: gs.vmap(lambda x: x, axis_size=4)(MATRIX), ValueError, "axis_size=4: 3 along"),
    "rank 0": (lambda: gs.vmap(lambda x: x)(3.0), ValueError, "argument x, with ndim=0"),
    "beyond": (lambda: gs.vmap(lambda x: x, 2)(MATRIX), ValueError, "in_axes=2 is out of r"),
    "type": (lambda: gs.vmap(lambda x: x, 1.5)(MATRIX), TypeError, "in_axes=1.5 .* an integer"),
    "truth": (lambda: gs.vmap(lambda x: x, False)(MATRIX), TypeError, "in_axes=False .* an int"),
    "truth of an array": (
        lambda: gs.vmap(lambda x: x, (False,))(gs.device_put(MATRIX)),
        TypeError,
        "in_axes=False .* an integer",
    ),
    "out truth": (
        lambda: gs.vmap(lambda x: x, 0, False)(MATRIX),
        TypeError,
        "out_axes=False .* an integer",
    ),
    "out": (
        lambda: gs.vmap(lambda x: x, 0, None)(MATRIX),
        ValueError,
        "varies along .* out_axes=None",
    ),
    "out beyond": (
        lambda: gs.vmap(lambda x: x, 0, 3)(MATRIX),
        ValueError,
        "out_axes=3 is out of r",
    ),
    "prefix": (lambda: gs.vmap(lambda x: x, (0, 0))(MATRIX), ValueError, "in_axes"),
    "result": (lambda: gs.vmap(lambda x: "a")(MATRIX), TypeError, "the result is a str"),
    "argument": (lambda: gs.vmap(lambda x: x)("a"), TypeError, "argument x is a str"),
    "argument of a function without a signature": (
        lambda: gs.vmap(max)(MATRIX, "a"),
        TypeError,
        "argument 1 is a str",
    ),
    "function": (lambda: gs.vmap(3), TypeError, "f=3 must be a function"),
    "mesh": (lambda: gs.vmap(lambda x: x, spmd_axis_name="q")(MATRIX), ValueError, "no mesh"),
    "unbound": (
        lambda: gs.vmap(lambda x: gs.lax.psum(x, "j"), axis_name="i")(MATRIX),
        NameError,
        "'j' is unbound; the names here are 'i'",
    ),
    "place": (
        lambda: gs.vmap(lambda x: gs.numpy.add(x, 1, out_sharding=P()))(MATRIX),
        TypeError,
        "argument x",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with pytest.raises(builtin, match=message) as caught:
        call()
    assert isinstance(caught.value, gs.errors.GpushardError)


MIXED: list[Callable[[Any], Any]] = [
    lambda x: gs.lax.psum(x, ("v", "x")) + gs.lax.pmax(x, ("x", "v")),
    lambda x: gs.lax.all_gather(x, ("v", "x")),
    lambda x: gs.lax.all_gather(x, ("x", "v"), axis=1, tiled=True),
    lambda x: gs.lax.psum_scatter(gs.numpy.concatenate([x] * 4), ("v", "x"), tiled=True),
    lambda x: gs.lax.all_to_all(gs.numpy.stack([x * n for n in range(8)]), ("x", "v"), 0, 1),
    lambda x: gs.lax.all_to_all(gs.numpy.concatenate([x] * 4), ("v", "x"), 0, 1, tiled=True),
    lambda x: gs.lax.ppermute(x, ("v", "x"), [(n, (n + 3) % 8) for n in range(8)]),
    lambda x: x + gs.lax.axis_index(("v", "x")) * gs.lax.axis_size(("v", "x")),
    lambda x: gs.lax.pbroadcast(x, ("x", "v"), 5),
]


@pytest.mark.parametrize("number", range(len(MIXED)))
def test_collectives_over_a_mapped_dim_and_a_mesh_axis(number: int) -> None:
    mesh = gs.make_mesh((4,), ("x",))
    body = MIXED[number]
    value = np.arange(4 * 2 * 2 * 3.0).reshape(4, 2, 2, 3)  # along x, along v, a block
    want = gs.vmap(gs.vmap(body, axis_name="v"), axis_name="x")(value)
    inside = gs.shard_map(
        lambda x: gs.vmap(body, axis_name="v")(x[0])[None], mesh, P("x"), P("x"), check_rep=False
    )
    equal(inside(value), want)
    around = gs.vmap(
        gs.shard_map(lambda x: body(x[0])[None], mesh, P("x"), P("x"), check_rep=False),
        in_axes=1,
        out_axes=1,
        axis_name="v",
    )
    equal(around(value), want)


REDUCTIONS = ("sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "argmax", "argmin",
              "nansum", "nanmax", "nanargmax", "nanargmin", "median", "ptp", "count_nonzero",
              "cumsum", "average")  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_numbers(name: str) -> None:
    value = np.array([3.0, -1.0, 0.0, 2.0])
    function = getattr(gs.numpy, name)
    want = np.stack([getattr(np, name)(v) for v in value])
    for form in (gs.vmap(function), gs.pmap(function), gs.jit(gs.vmap(function))):
        np.testing.assert_array_equal(np.asarray(form(value)), want)


@pytest.mark.parametrize("map_of", [gs.vmap, gs.pmap, lambda f: gs.jit(gs.vmap(f))])
def test_an_element_keeps_what_its_loop_had_in_the_end_whatever_is_assigned_to(map_of: Any) -> None:
    def step(state: Any) -> Any:
        i, v = state
        v[1] = v[2] * 2
        v[2] += 1
        return i + 1, v

    made = map_of(lambda n, v: gs.lax.while_loop(lambda s: s[0] < n, step, (0, v))[1])(
        np.arange(3), MATRIX
    )
    want = MATRIX.copy()
    for n, v in enumerate(want):
        for _ in range(n):
            v[1], v[2] = v[2] * 2, v[2] + 1
    np.testing.assert_array_equal(np.asarray(made), want)


MOVES: dict[str, Callable[[Any, Any], Any]] = {
    "roll": lambda x, m: m.roll(x, 1, 0),
    "flip": lambda x, m: m.flip(x),
    "transpose": lambda x, m: m.transpose(x),
    "concatenate": lambda x, m: m.concatenate([x, x], 1),
    "pad": lambda x, m: m.pad(x, ((1, 2), (0, 1)), constant_values=1),
    "tile": lambda x, m: m.tile(x, (2, 1)),
    "repeat": lambda x, m: m.repeat(x, 2, 0),
    "slice": lambda x, m: x[1:, ::2],
}


@pytest.mark.parametrize("name", MOVES)
def test_functions_that_move_elements_are_mapped_over_nothing(name: str) -> None:
    f = MOVES[name]
    wanted = f(np.zeros((3, 4)), np).shape
    for count in (0, 2):
        x = np.arange(12.0 * count).reshape(count, 3, 4)
        made = gs.vmap(lambda x: f(x, gs.numpy))(gs.device_put(x))
        assert made.shape == (count, *wanted) and made.dtype == x.dtype
        equal(made, np.reshape([f(part, np) for part in x], made.shape))
