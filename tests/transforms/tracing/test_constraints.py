"""Where users say that arguments, results and other values of traced functions lie."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, testing
from tests.share import examples

P = gs.P
U = P.UNCONSTRAINED
GRID = np.arange(48.0).reshape(6, 8)
constrain = lax.with_sharding_constraint

SPECS = [P(), P("x"), P(None, "x"), P("x", "y"), P("y", "x"), P(("x", "y")), P(None, ("y", "x"))]


@pytest.fixture
def mesh() -> Any:
    with testing.runtime(host_devices=4):
        yield gs.make_mesh((2, 2), ("x", "y"))


@examples(200)
@given(st.sampled_from(SPECS), st.sampled_from([*SPECS, P(U), P(U, "x"), P("y", U)]))
def test_a_constraint_says_where_a_value_lies(lies: gs.P, wanted: gs.P) -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        x = gs.device_put(GRID, gs.NamedSharding(mesh, lies))
        to = gs.NamedSharding(mesh, wanted)
        eager = constrain(x, to)
        traced = gs.jit(lambda x: constrain(x, to))(x)
        np.testing.assert_array_equal(traced, GRID)
        assert traced.sharding == eager.sharding
        for dim, entry in enumerate(wanted):
            if entry is not U:
                assert eager.sharding.spec.axes(dim) == wanted.axes(dim)


def test_constraints_take_prefixes_formats_specs_and_keys(mesh: Any) -> None:
    x = gs.device_put(GRID, gs.NamedSharding(mesh, P("x")))
    key = gs.random.key(0)
    rows, columns = gs.NamedSharding(mesh, P("y")), gs.NamedSharding(mesh, P(None, "y"))

    def f(x: Any, key: Any) -> Any:
        pair = constrain((x, {"a": x + 1}), (rows, columns))
        auto = constrain(x, gs.Format(gs.Layout.AUTO, columns))
        return pair, auto, constrain(key, gs.NamedSharding(mesh, P()))

    for way in (f, gs.jit(f)):
        (first, second), auto, keys = way(x, key)
        assert (first.sharding, second["a"].sharding) == (rows, columns)
        assert auto.sharding == columns and keys.dtype == key.dtype
        np.testing.assert_array_equal(second["a"], GRID + 1)
    with mesh:
        assert gs.jit(lambda x: constrain(x, P("y")))(x).sharding == rows
        assert gs.device_put(x, P("y")).sharding == rows
    assert gs.jit(lambda x: gs.device_put(x, rows))(x).sharding == rows
    assert constrain(GRID, rows).sharding == rows


def test_constraints_in_mapped_functions_leave_named_dims(mesh: Any) -> None:
    x = gs.device_put(np.arange(96.0).reshape(2, 6, 8), gs.NamedSharding(mesh, P("x")))

    def f(row: Any) -> Any:
        return constrain(row, gs.NamedSharding(mesh, P(None, "y"))) + 1

    made = gs.jit(gs.vmap(f))(x)
    np.testing.assert_array_equal(made, np.asarray(x) + 1)
    assert made.sharding.spec == P("x", None, "y")
    with pytest.raises(gs.errors.ShardingError, match="mapped"):
        gs.shard_map(
            lambda a: constrain(a, gs.NamedSharding(mesh, P("x"))),
            mesh=mesh, in_specs=P("x"), out_specs=P("x"),
        )(x)  # fmt: skip
    with pytest.raises(gs.errors.ShardingError, match="mapped"):
        gs.vmap(lambda row: constrain(row, gs.SingleDeviceSharding(gs.devices()[0])))(x)


def test_arguments_may_lie_as_in_shardings_mean(mesh: Any) -> None:
    one = gs.make_mesh((1,), "x", devices=gs.devices()[:1])
    x = gs.device_put(GRID, gs.devices()[0])
    made = gs.jit(lambda x: x + 1, in_shardings=gs.NamedSharding(one, P("x")))(x)
    np.testing.assert_array_equal(made, GRID + 1)


def test_open_dims_follow_formats_and_what_is_left_out(mesh: Any) -> None:
    x = gs.device_put(GRID, gs.NamedSharding(mesh, P("x", "y")))
    columns = gs.NamedSharding(mesh, P(None, "y"))
    auto = gs.Format(gs.Layout.AUTO)
    for prefix in (None, auto, (None, None), (auto, columns), (gs.Format(None, x.sharding), None)):
        f = gs.jit(lambda x, y: (x, y), in_shardings=prefix)
        a, b = f(x, GRID)
        assert a.sharding == x.sharding
        np.testing.assert_array_equal(b, GRID)
    given = gs.jit(lambda x, y: y, in_shardings=(x.sharding, None))(x, GRID)
    assert given.sharding == gs.NamedSharding(mesh, P())  # over the mesh of the others
    out = gs.jit(lambda x: (x + 1, x + 2), out_shardings=(auto, gs.Format(auto.layout, columns)))
    first, second = out(x)
    assert (first.sharding, second.sharding) == (x.sharding, columns)
    assert pickle.loads(pickle.dumps(auto)) == auto
    open_ended = gs.NamedSharding(mesh, P(U, "x"))
    assert pickle.loads(pickle.dumps(open_ended)) == open_ended
    assert not open_ended.is_fully_replicated


BAD: dict[str, tuple[Callable[[Any, Any, Any], Any], type[Exception], str]] = {
    "a spec without a mesh": (lambda x, m, o: constrain(x, P("x")), RuntimeError, "shardings="),
    "the same in jit": (
        lambda x, m, o: gs.jit(lambda x: constrain(x, P("x")))(x), RuntimeError, "needs a mesh"
    ),
    "in_shardings without a mesh": (
        lambda x, m, o: gs.jit(abs, in_shardings=P("x"))(GRID), RuntimeError, "in_shardings="
    ),
    "out_shardings without a mesh": (
        lambda x, m, o: gs.jit(abs, out_shardings=P("x"))(x), RuntimeError, "out_shardings="
    ),
    "None": (lambda x, m, o: constrain(x, None), ValueError, "UNCONSTRAINED"),
    "a string": (lambda x, m, o: constrain(x, "x"), TypeError, "shardings='x'"),
    "no array": (
        lambda x, m, o: constrain("a", gs.NamedSharding(m, P())), TypeError, "with_sharding_con"
    ),
    "too many dims": (
        lambda x, m, o: gs.jit(lambda x: constrain(x, gs.NamedSharding(m, P(U, None, "x"))))(x),
        ValueError, "ndim=2",
    ),
    "no prefix": (
        lambda x, m, o: constrain((x, x), (gs.NamedSharding(m, P()),)), ValueError, "shardings"
    ),
    "an order": (
        lambda x, m, o: constrain(x, gs.Format(gs.Layout((1, 0)), gs.NamedSharding(m, P()))),
        ValueError, "row-major",
    ),
    "open dims of an array": (
        lambda x, m, o: gs.device_put(x, gs.NamedSharding(m, P(U))), ValueError, "UNCONSTRAINED"
    ),
    "open dims in in_shardings": (
        lambda x, m, o: gs.jit(abs, in_shardings=gs.NamedSharding(m, P(U)))(GRID),
        ValueError, "in_shardings has",
    ),
    "open dims in out_shardings": (
        lambda x, m, o: gs.jit(abs, out_shardings=gs.NamedSharding(m, P(U)))(x),
        ValueError, "out_shardings has",
    ),
    "keyword arguments": (
        lambda x, m, o: gs.jit(abs, in_shardings=o.sharding)(x=x), ValueError, "keyword arguments"
    ),
    "an argument that lies elsewhere": (
        lambda x, m, o: gs.jit(abs, in_shardings=gs.NamedSharding(m, P("y")))(x),
        ValueError, "in_shardings asks for",
    ),
    "devices that differ": (
        lambda x, m, o: gs.jit(lambda x, y: (x, y))(x, o),
        ValueError, "argument x .* is on .*, argument y .* on .*Device",
    ),
    "a format that is no layout": (lambda x, m, o: gs.Format("AUTO"), TypeError, "layout='AUTO'"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_refused(name: str, mesh: Any) -> None:
    make, error, text = BAD[name]
    x = gs.device_put(GRID, gs.NamedSharding(mesh, P("x")))
    two = gs.make_mesh((2,), "x", devices=gs.devices()[:2])
    other = gs.device_put(GRID, gs.NamedSharding(two, P("x")))
    with pytest.raises(error, match=text) as caught:
        make(x, mesh, other)
    assert isinstance(caught.value, gs.errors.GpushardError)


def test_a_value_with_open_dims_can_be_used_on(mesh: Any) -> None:
    x = gs.device_put(GRID, gs.NamedSharding(mesh, P("x", "y")))
    f = gs.jit(lambda x: gnp.exp(constrain(x / 9, gs.NamedSharding(mesh, P(U, "x")))).sum(0))
    np.testing.assert_allclose(f(x), np.exp(GRID / 9).sum(0))


def test_open_dims_of_a_value_over_another_mesh_are_not_split(mesh: Any) -> None:
    for names, spec in ((("a", "b"), P("a", "b")), (("y", "x"), P("y", "x"))):
        x = gs.device_put(GRID, gs.NamedSharding(gs.make_mesh((2, 2), names), spec))
        made = gs.jit(lambda x: constrain(x, gs.NamedSharding(mesh, P(U, "x"))))(x)
        np.testing.assert_array_equal(made, GRID)
        assert [made.sharding.spec.axes(dim) for dim in range(2)] == [(), ("x",)]
