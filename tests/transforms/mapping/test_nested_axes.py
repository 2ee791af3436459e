"""Maps in maps over one mesh: which axes are left for the inner one, where dims of `vmap` live."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.debug import count_traffic
from tests.share import some

P = gs.P
lax = gs.lax
MATRIX = np.arange(64.0).reshape(8, 8) ** 1.5


@pytest.fixture(autouse=True)
def mesh() -> Iterator[gs.Mesh]:
    with testing.runtime(host_devices=8):
        yield gs.make_mesh((2, 1, 4), ("x", "y", "z"))


def equal(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), want)


PLACES: tuple[Any, ...] = (None, P(), P("x"), P("x", "z"), P(None, ("z", "x")))


def everywhere(mesh: gs.Mesh, value: Any) -> Iterator[Any]:
    """Yield an array wherever it may lie: on the host, on one device, or over the mesh."""
    yield value
    yield gs.numpy.asarray(value)
    yield gs.device_put(value, gs.devices()[5])
    for spec in PLACES[1:]:
        yield gs.device_put(value, gs.NamedSharding(mesh, spec))


def in_blocks(f: Callable[[Any], Any], x: Any, rows: int, columns: int) -> Any:
    """Return what a function gives for each block of a matrix, at its place."""
    return np.block(
        [[f(part) for part in np.split(row, columns, 1)] for row in np.split(x, rows, 0)]
    )


ORDERS = [order for n in (1, 2, 3) for order in itertools.permutations("xyz", n)]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("outer", ORDERS)
@pytest.mark.parametrize("how", ["eager", "jit", "given"])
def test_a_shard_map_in_another_one_takes_the_axes_that_are_left(
    mesh: gs.Mesh, outer: Sequence[str], how: str
) -> None:
    left = [axis for axis in mesh.axis_names if axis not in outer]
    count = int(np.prod([mesh.shape[axis] for axis in left]))
    rows = int(np.prod([mesh.shape[axis] for axis in outer]))
    spec = P(None, tuple(left))

    def block(x: Any) -> Any:
        assert x.shape == (8 // rows, 8 // count)
        return x - x.mean() + lax.psum(x.sum(), left) if left else x - x.mean() + x.sum()

    def between(x: Any) -> Any:
        own = mesh if how == "given" else None
        return gs.shard_map(block, own, spec, spec)(x) + lax.pmax(x.max(), tuple(outer))

    f = gs.shard_map(between, mesh, P(tuple(outer)), P(tuple(outer)), axis_names=set(outer))
    want = in_blocks(
        lambda row: in_blocks(lambda x: x - x.mean(), row, 1, count) + row.sum(), MATRIX, rows, 1
    )
    for x in everywhere(mesh, MATRIX):
        equal((gs.jit(f) if how == "jit" else f)(x), want + MATRIX.max())


def test_an_axis_that_is_mapped_already_is_refused_by_name(mesh: gs.Mesh) -> None:
    def nested(**options: Any) -> Any:
        inner = gs.shard_map(lambda x: x, **options)
        return gs.shard_map(inner, mesh, P("x"), P("x"), axis_names={"x"})(MATRIX)

    with pytest.raises(ValueError, match=r"the mesh axes \['x'\] are mapped already"):
        nested(in_specs=P("x"), out_specs=P("x"), axis_names={"x", "z"})
    with pytest.raises(ValueError, match="mesh axis 'x' is in auto, or mapped already"):
        nested(in_specs=P("x"), out_specs=P("x"))
    with pytest.raises(ValueError, match=r"axis_names names \['q'\], the mesh has"):
        nested(in_specs=P("z"), out_specs=P("z"), axis_names={"q"})


def inner(mesh: gs.Mesh) -> Callable[[Any], Any]:
    """Return a function of a vector over the mesh axis z."""
    return gs.shard_map(lambda v: v * 2 + lax.psum(v.sum(), "z"), mesh, P("z"), P("z"))


def defined(v: Any) -> Any:
    return v * 2 + v.sum()


def assigning(f: Callable[[Any], Any], m: Any) -> Callable[[Any], Any]:
    def body(v: Any) -> Any:
        w, zero = v * 3, m.zeros(8)
        made = f(v)
        zero[0] = made[1]
        w[2] = zero[0]
        return w + zero + made

    return body


BODIES: dict[str, Callable[[Callable[[Any], Any], Any], Callable[[Any], Any]]] = {
    "alone": lambda f, m: f,
    "with values from before": lambda f, m: lambda v: f(v + 1) + v + m.arange(8.0),
    "in a result of its own": lambda f, m: lambda v: (f(v), v + 1)[1],
    "with assignments": assigning,
    "the same for all": lambda f, m: lambda v: f(v) * 0 + 1,
    "a number": lambda f, m: lambda v: f(v).max() - v.min(),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_dim_of_vmap_is_split_over_the_mesh_of_a_map_in_it(mesh: gs.Mesh, name: str) -> None:
    body = BODIES[name](inner(mesh), gs.numpy)
    want = np.stack([BODIES[name](defined, np)(v) for v in MATRIX])
    for x in everywhere(mesh, MATRIX):
        for f in (gs.vmap(body, spmd_axis_name="x"), gs.jit(gs.vmap(body, spmd_axis_name="x"))):
            made = f(x)
            equal(made, want)
            assert made.sharding.spec.axes(0) == ("x",), (name, made.sharding)


def test_a_map_in_vmap_uses_what_was_computed_around_it(mesh: gs.Mesh) -> None:
    def body(v: Any) -> Any:
        total = v.sum()
        add = gs.shard_map(lambda block: block + total, mesh, P("z"), P("z"))
        return add(gs.numpy.arange(8.0))

    for x in everywhere(mesh, MATRIX):
        made = gs.vmap(body, spmd_axis_name="x")(x)
        equal(made, np.arange(8.0) + MATRIX.sum(1, keepdims=True))


def test_a_dim_of_vmap_that_is_split_stays_where_it_is() -> None:
    with testing.runtime(host_devices=8, host_domains=8):
        mesh = gs.make_mesh((2, 2, 2), ("x", "y", "z"))
        x = gs.device_put(MATRIX, gs.NamedSharding(mesh, P("x", "z")))
        f = gs.vmap(gs.shard_map(lambda v: v * 2, mesh, P("z"), P("z")), spmd_axis_name="x")
        for call in (f, gs.jit(f)):
            with count_traffic() as traffic:
                equal(call(x), MATRIX * 2)
            assert traffic.bytes_received == 0


def test_a_dim_of_vmap_that_lies_there_is_not_brought_there(mesh: gs.Mesh) -> None:
    x = gs.device_put(MATRIX, gs.NamedSharding(mesh, P("x", None)))
    traced = gs.jit(gs.vmap(lambda v: v * 2, spmd_axis_name="x")).trace(x)
    assert "multiply" in traced.jaxpr and "reshard" not in traced.jaxpr


def test_an_axis_of_one_device_moves_no_dim_of_vmap(mesh: gs.Mesh) -> None:
    x = gs.device_put(MATRIX, gs.NamedSharding(mesh, P("x")))
    columns = gs.NamedSharding(mesh, P("z"))
    for f, spec in (
        (lambda v: v * 2, P("x")),
        (lambda v: lax.with_sharding_constraint(v * 2, columns), P("x", "z")),
    ):
        made = gs.vmap(f, spmd_axis_name="y")(x)
        equal(made, MATRIX * 2)
        assert made.sharding.spec == spec


def test_dims_of_several_vmaps_and_a_constraint(mesh: gs.Mesh) -> None:
    cube = MATRIX.reshape(2, 4, 8)
    f = gs.vmap(gs.vmap(inner(mesh), spmd_axis_name="x"), 1, 1, spmd_axis_name="y")
    made = f(cube)
    equal(made, np.stack([[defined(v) for v in rows] for rows in cube]))
    assert made.sharding.spec.axes(0) == ("x",)
    for names, axes in ((("x", None), [("x",), ()]), ((None, "x"), [(), ("x",)])):
        first, second = names
        made = gs.vmap(gs.vmap(inner(mesh), spmd_axis_name=second), spmd_axis_name=first)(cube)
        equal(made, np.stack([[defined(v) for v in rows] for rows in cube]))
        assert [made.sharding.spec.axes(dim) for dim in range(2)] == axes
    whole = gs.NamedSharding(mesh, P("z"))
    made = gs.vmap(lambda v: lax.with_sharding_constraint(v * 2, whole), spmd_axis_name="x")(MATRIX)
    equal(made, MATRIX * 2)
    assert made.sharding.spec == P("x", "z")


@pytest.mark.parametrize(
    ("axis", "spec", "message"),
    [
        ("q", P("z"), r"spmd_axis_name='q' names mesh axes"),
        ("z", P("z"), r"in_specs has .*'z'.* split the axis of an enclosing vmap"),
    ],
)
def test_axes_of_vmap_that_do_not_fit_the_map_in_it(
    mesh: gs.Mesh, axis: str, spec: Any, message: str
) -> None:
    f = gs.shard_map(lambda v: v, mesh, spec, spec)
    with pytest.raises(ValueError, match=message):
        gs.vmap(f, spmd_axis_name=axis)(MATRIX)


@pytest.mark.parametrize("seed", range(some(8, 80)))
def test_smap_sees_blocks_along_one_axis(mesh: gs.Mesh, seed: int) -> None:
    rng = np.random.default_rng(seed)
    axis = str(rng.choice(["x", "y", "z"]))
    count, into = mesh.shape[axis], int(rng.integers(-2, 2))
    out = None if rng.random() < 0.3 else int(rng.integers(-2, 2))

    def body(x: Any, total: Any) -> Any:
        return x * 2 + x.max() if out is not None else total(x)

    parts = np.split(MATRIX, count, into)
    every = [body(part, lambda _: sum(parts)) for part in parts]
    want = every[0] if out is None else np.concatenate(every, out)
    f = gs.smap(
        lambda x: body(x, lambda x: lax.psum(x, axis)), in_axes=into, out_axes=out, axis_name=axis
    )
    with gs.set_mesh(mesh):
        for x in everywhere(mesh, MATRIX):
            equal(f(x), want)
            equal(gs.jit(f)(x), want)


def test_smap_in_smap_as_a_decorator_and_of_trees(mesh: gs.Mesh) -> None:
    @gs.smap(in_axes=({"a": 0, "b": None},), out_axes={"a": 0, "b": None}, axis_name="x")
    def rows(t: Any) -> Any:
        assert t["a"].shape == (4, 8) and t["b"].shape == (8, 8)
        columns = gs.smap(lambda v: v - lax.axis_index("z"), in_axes=1, out_axes=1, axis_name="z")
        return {"a": columns(t["a"]), "b": t["b"] + 1}

    with gs.set_mesh(mesh):
        made = rows({"a": MATRIX, "b": MATRIX})
    equal(made["a"], MATRIX - np.repeat(np.arange(4), 2))
    equal(made["b"], MATRIX + 1)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "names": (
        lambda: gs.smap(lambda x: x, in_axes=0, out_axes=0, axis_name=("x", "y")),
        TypeError,
        "must be the name of a mesh axis",
    ),
    "an axis": (
        lambda: gs.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="q")(MATRIX),
        ValueError,
        r"axis_names names \['q'\]",
    ),
    "a dim": (
        lambda: gs.smap(lambda x: x, in_axes=2, out_axes=0, axis_name="x")(MATRIX),
        ValueError,
        "smap of <lambda>: in_axes=2 is out of range for argument x of shape",
    ),
    "a dim of the result": (
        lambda: gs.smap(lambda x: x.sum(), in_axes=0, out_axes=0, axis_name="x")(MATRIX),
        ValueError,
        "smap of <lambda>: out_axes=0 is out of range for the result",
    ),
    "a length": (
        lambda: gs.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="z")(MATRIX[:6]),
        ValueError,
        "axis 0 of argument x .* has length 6",
    ),
    "what differs": (
        lambda: gs.smap(lambda x: x, in_axes=0, out_axes=None, axis_name="x")(MATRIX),
        ValueError,
        "the result varies along 'x'",
    ),
    "a prefix": (
        lambda: gs.smap(lambda x: x, in_axes=({"a": 0},), out_axes=0, axis_name="x")(MATRIX),
        ValueError,
        r"in_axes is not a prefix of args: in_axes\[0\]",
    ),
    "a prefix of the result": (
        lambda: gs.smap(lambda x: x, in_axes=0, out_axes={"a": 0}, axis_name="x")(MATRIX),
        ValueError,
        "out_axes is not a prefix of the result",
    ),
    "a function": (lambda: gs.smap(3, in_axes=0, out_axes=0, axis_name="x"), TypeError, "f=3"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_smap_refuses_what_it_cannot_do(mesh: gs.Mesh, name: str) -> None:
    call, builtin, message = REFUSED[name]
    with gs.set_mesh(mesh), pytest.raises(builtin, match=message) as caught:
        call()
    assert isinstance(caught.value, gs.errors.GpushardError)


def test_smap_needs_a_mesh() -> None:
    with pytest.raises(gs.errors.MeshError, match="none is set"):
        gs.smap(lambda x: x, in_axes=0, out_axes=0, axis_name="x")(MATRIX)


@pytest.mark.parametrize("names", [("x", "z"), ("z", "x"), ("y", "z", "x")])
def test_groups_of_the_elements_of_several_axes(mesh: gs.Mesh, names: tuple[str, ...]) -> None:
    groups = [[7, 0, 3, 5], [1, 6, 2, 4]]
    of = {element: group for group in groups for element in group}
    values = np.arange(8.0) ** 2 + 1

    def body(v: Any) -> Any:
        total = lax.psum(v, names, axis_index_groups=groups)
        every = lax.all_gather(v, names, axis_index_groups=groups, tiled=True)
        return total * 1000 + (every * np.array([1.0, 2, 3, 4])).sum()

    made = gs.shard_map(body, mesh, P(names), P(names))(values)
    want = [
        1000 * values[of[n]].sum() + (values[of[n]] * np.array([1.0, 2, 3, 4])).sum()
        for n in range(8)
    ]
    equal(made, want)
