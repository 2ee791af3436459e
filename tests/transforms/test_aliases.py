"""Results of transformed functions are arrays of their own: an assignment to one changes no other.

The oracle is a picture of all arrays on the host, taken before each assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy, nnx, testing

P = gs.P
VALUE = np.arange(64.0).reshape(8, 2, 4)

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def mesh() -> gs.Mesh:
    return gs.make_mesh((4, 2), ("x", "y"))


def xmap_on_mesh(f: Function, **options: Any) -> Function:
    def call(*args: Any) -> Any:
        entry = {0: "i"}
        with mesh():
            return legacy.xmap(f, entry, entry, axis_resources={"i": "x"}, **options)(*args)

    return call


def vmap_on_mesh(f: Function) -> Function:
    def call(*args: Any) -> Any:
        with gs.set_mesh(mesh()):
            return gs.vmap(f, spmd_axis_name="x")(*args)

    return call


def xmap_in_turns(f: Function) -> Function:
    return legacy.xmap(f, {0: "i"}, {0: "i"}, axis_resources={"i": legacy.SerialLoop(2)})


def scanned(f: Function) -> Function:
    return lambda *args: gs.lax.scan(lambda carry, part: (carry, f(*part)), 0, args)[1]


MAPS: dict[str, Callable[[Function], Function]] = {
    "vmap": gs.vmap,
    "vmap of the last dim": lambda f: gs.vmap(f, -1, -1),
    "vmap of vmap": lambda f: gs.vmap(gs.vmap(f)),
    "vmap over a mesh axis": vmap_on_mesh,
    "pmap": gs.pmap,
    "soft_pmap": gs.soft_pmap,
    "pmap of vmap": lambda f: gs.pmap(gs.vmap(f)),
    "shard_map": lambda f: gs.shard_map(f, mesh(), P("x"), P("x")),
    "shard_map of whole arrays": lambda f: gs.shard_map(f, mesh(), P(), P()),
    "shard_map of one axis": lambda f: gs.shard_map(f, mesh(), P("x"), P("x"), axis_names={"x"}),
    "xmap": lambda f: legacy.xmap(f, {0: "i"}, {0: "i"}),
    "xmap of two names": lambda f: legacy.xmap(f, {0: "i", 1: "j"}, {0: "i", 1: "j"}),
    "xmap of no name": lambda f: legacy.xmap(f, {}, {}),
    "xmap on a mesh": xmap_on_mesh,
    "xmap in turns": xmap_in_turns,
    "vtile": lambda f: legacy.vtile(f, 0, 0, 2),
    "vtile of one tile": lambda f: legacy.vtile(f, 0, 0, 1),
}

TRACED: dict[str, Callable[[Function], Function]] = {
    "jit": gs.jit,
    "jit of vmap": lambda f: gs.jit(gs.vmap(f)),
    "vmap of jit": lambda f: gs.vmap(gs.jit(f)),
    "sharded_jit": lambda f: legacy.sharded_jit(f, None, None),
    "nnx.jit": nnx.jit,
    "nnx.shard_map": lambda f: nnx.shard_map(f, mesh=mesh(), in_specs=P("x"), out_specs=P("x")),
    "cond": lambda f: lambda *args: gs.lax.cond(True, f, f, *args),
    "switch": lambda f: lambda *args: gs.lax.switch(1, [f, f], *args),
    "scan": scanned,
    "map": lambda f: lambda *args: gs.lax.map(lambda part: f(*part), args),
    "loop": lambda f: lambda *args: gs.lax.fori_loop(0, 0, lambda i, args: args, args),
    "while": lambda f: lambda *args: gs.lax.while_loop(lambda _: False, lambda args: args, args),
}

EVERY = MAPS | TRACED


def assigned(v: Any) -> Any:
    before = v + 0
    v[...] = 7.0
    return v, before


def twice(v: Any) -> Any:
    made = v + 1
    return made, made


BODIES: dict[str, Function] = {
    "the argument": lambda v: v,
    "the argument twice": lambda v: (v, v),
    "the argument and another result": lambda v: (v, v + 1),
    "two arguments in another order": lambda v, w: (w, v, v),
    "one result twice": twice,
    "the argument as it is, by functions": lambda v: (v.astype(v.dtype), gs.numpy.asarray(v)),
    "the argument in other orders": lambda v: (v.T, v.T, v.reshape(v.shape), v[...]),
    "an argument that was assigned to": assigned,
}

SPECS: tuple[Any, ...] = (None, P(), P("x"), P("x", "y"))


def arguments(body: Function, spec: Any) -> list[Any]:
    count = body.__code__.co_argcount
    if spec is None:
        return [gs.device_put(VALUE + n) for n in range(count)]
    return [gs.device_put(VALUE + n, gs.NamedSharding(mesh(), spec)) for n in range(count)]


def check_apart(arrays: list[Any], first: int) -> None:
    """Assign to each array from a number on, and see that no other one changes."""
    for n in range(first, len(arrays)):
        before = [np.array(x) for x in arrays]
        arrays[n][...] = before[n] = np.full(arrays[n].shape, 100.0 + n)
        for other, (x, value) in enumerate(zip(arrays, before, strict=True)):
            np.testing.assert_array_equal(np.asarray(x), value, f"{n} changed {other}")


@pytest.mark.one_of(3)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", EVERY)
def test_an_assignment_to_a_result_changes_nothing_else(name: str, body: str) -> None:
    for spec in SPECS:
        args = arguments(BODIES[body], spec)
        values = [np.array(x) for x in args]
        made = EVERY[name](BODIES[body])(*args)
        for x, value in zip(args, values, strict=True):
            np.testing.assert_array_equal(np.asarray(x), value)
        check_apart([*args, *gs.tree.leaves(made)], len(args))


@pytest.mark.parametrize("name", EVERY)
def test_an_assignment_to_an_argument_changes_no_result(name: str) -> None:
    for spec in SPECS:
        (x,) = arguments(BODIES["the argument twice"], spec)
        made = gs.tree.leaves(EVERY[name](BODIES["the argument twice"])(x))
        x[...] = -1.0
        for each in made:
            np.testing.assert_array_equal(np.asarray(each), VALUE)


@pytest.mark.parametrize("name", MAPS)
def test_a_function_sees_arguments_as_they_were_when_it_was_called(name: str) -> None:
    for spec in SPECS:
        (x,) = arguments(BODIES["the argument"], spec)

        def body(v: Any, x: Any = x) -> Any:
            x[...] = -1.0
            return v

        (made,) = gs.tree.leaves(MAPS[name](body)(x))
        np.testing.assert_array_equal(np.asarray(made), VALUE)


DONATING: dict[str, Callable[[Function], Function]] = {
    "pmap": lambda f: gs.pmap(f, donate_argnums=0),
    "jit": lambda f: gs.jit(f, donate_argnums=0),
    "nnx.jit": lambda f: nnx.jit(f, donate_argnums=0),
    "pjit": lambda f: gs.pjit(f, donate_argnums=0),
    "xmap": lambda f: legacy.xmap(f, {0: "i"}, {0: "i"}, donate_argnums=0),
    "xmap to another dim": lambda f: legacy.xmap(f, {0: "i"}, {1: "i"}, donate_argnums=0),
    "xmap on a mesh": lambda f: xmap_on_mesh(f, donate_argnums=0),
}


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("name", DONATING)
def test_results_live_on_where_arguments_are_donated(name: str, body: str) -> None:
    for spec in SPECS:
        args = arguments(BODIES[body], spec)
        made = gs.tree.leaves(DONATING[name](BODIES[body])(*args))
        assert args[0].is_deleted()
        check_apart(made, 0)


@pytest.mark.parametrize("name", DONATING)
def test_a_function_that_raises_leaves_donated_arguments(name: str) -> None:
    def fails(x: Any) -> Any:
        return x / (1 // 0)

    def leaks(x: Any) -> Any:
        return x, "text"

    for body, error in ((fails, ZeroDivisionError), (leaks, gs.errors.ArgumentTypeError)):
        (x,) = arguments(BODIES["the argument"], SPECS[0])
        with pytest.raises(error):
            DONATING[name](body)(x)
        np.testing.assert_array_equal(np.asarray(x), VALUE)


def test_what_shardings_move_is_given_up() -> None:
    mesh = gs.make_mesh((8,), ("x",))
    rows = gs.NamedSharding(mesh, P("x"))
    for jit in (gs.jit, nnx.jit, gs.pjit):
        x = gs.device_put(np.arange(8.0))
        made = jit(lambda v: v + 1, in_shardings=(rows,), donate_argnums=0)(x)
        assert x.is_deleted() and made.sharding == rows


def test_results_that_are_arguments_are_live_arrays() -> None:
    mesh = gs.make_mesh((8,), ("x",))
    x = gs.device_put(np.arange(8.0), gs.NamedSharding(mesh, P()))
    for f in (gs.vmap(lambda v: v), gs.shard_map(lambda v: v, mesh, P(), P())):
        y, z = gs.jit(f)(x), f(x)
        assert any(y is each for each in gs.live_arrays())
        assert any(z is each for each in gs.live_arrays())


@pytest.mark.parametrize("n", [4, 4000])
def test_assignments_and_a_deletion_within_vmap_leave_what_it_sees(n: int) -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        x = gs.device_put(np.arange(float(n)), gs.NamedSharding(mesh, gs.P("x")))

        def assigns(a: Any) -> Any:
            x[0] = 99.0
            x[1:3] = np.array([7.0, 8.0])
            return a * 1

        def deletes(a: Any) -> Any:
            x.delete()
            return a * 1

        np.testing.assert_array_equal(np.asarray(gs.vmap(assigns)(x)), np.arange(float(n)))
        assigned = np.asarray(x).copy()
        assert assigned[:3].tolist() == [99, 7, 8]
        np.testing.assert_array_equal(np.asarray(gs.vmap(deletes)(x)), assigned)
        assert x.is_deleted()
