"""`pjit` against JAX's, where JAX still has it, and against `jit`."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import ArgumentError, ArgumentTypeError, NoMeshError
from gpushard.legacy import FROM_GDA, GlobalDeviceArray

P = gs.P
VALUE = np.arange(16.0).reshape(8, 2)


def made(mesh: gs.Mesh, *axes: Any) -> GlobalDeviceArray:
    return GlobalDeviceArray.from_callback((8, 2), mesh, axes, lambda index: VALUE[index])


SPECS: list[tuple[Any, Any]] = [
    (("x",), ("y", "x")),
    (("x", "y"), ("x", "y")),
    ((("x", "y"),), (None, ("y", "x"))),
    ((), ("y",)),
    ((None, "y"), ()),
]


@pytest.mark.filterwarnings("ignore:jax.experimental.pjit")
@pytest.mark.parametrize(("into", "out"), SPECS)
@pytest.mark.parametrize("older", [False, True])
def test_as_jax(jax: ModuleType, into: Any, out: Any, older: bool) -> None:
    """JAX lost the older names; what they say is the same."""
    names = (
        ("in_axis_resources", "out_axis_resources") if older else ("in_shardings", "out_shardings")
    )
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    other = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    f = gs.pjit(lambda x: x @ x.T, **{names[0]: P(*into), names[1]: P(*out)})
    where = [
        jax.sharding.NamedSharding(other, jax.sharding.PartitionSpec(*spec)) for spec in (into, out)
    ]
    theirs_pjit = importlib.import_module("jax.experimental.pjit").pjit
    wanted = theirs_pjit(lambda x: x @ x.T, in_shardings=where[0], out_shardings=where[1])(VALUE)
    with mesh:
        result = f(VALUE)
    np.testing.assert_allclose(np.asarray(result), np.asarray(wanted))
    own = {shard.device.id: shard.index for shard in result.addressable_shards}
    theirs = {shard.device.id: shard.index for shard in wanted.addressable_shards}
    sizes = lambda index: [s.indices(8)[:2] for s in index]  # noqa: E731
    assert {k: sizes(v) for k, v in own.items()} == {k: sizes(v) for k, v in theirs.items()}


def test_the_mesh_is_that_of_each_call() -> None:
    f = gs.pjit(lambda x: x + 1, P("x"), P("x"))
    for size in (2, 4, 2):
        with gs.make_mesh((size,), "x"):
            assert len(f(VALUE).devices()) == size
    with pytest.raises(RuntimeError, match="with mesh:") as caught:
        f(VALUE)
    assert isinstance(caught.value, NoMeshError)


def test_none_is_a_replica_by_the_older_name_alone() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(VALUE, gs.NamedSharding(mesh, P("x")))
    with mesh:
        older = gs.pjit(lambda x: x + 1, in_axis_resources=None, out_axis_resources=None)(VALUE)
        today = gs.pjit(lambda x: x + 1, in_shardings=None, out_shardings=None)(x)
    assert older.sharding.spec == P()
    assert len(older.devices()) == 8
    assert today.sharding.spec == P("x")


def test_global_arrays_lie_as_they_do() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    f = gs.pjit(
        lambda a, b, c: (a + b["b"] + c, a),
        in_axis_resources=(FROM_GDA, {"b": P("x")}, None),
        out_axis_resources=(P("y"), None),
    )
    alone = gs.pjit(lambda a: a * 2, in_axis_resources=FROM_GDA)
    with mesh:
        total, same = f(made(mesh, "x", "y"), {"b": VALUE}, 1.0)
        doubled = alone(made(mesh, "y"))
        lowered = alone.lower(made(mesh, "y"))
    np.testing.assert_array_equal(np.asarray(total), 2 * VALUE + 1)
    assert (total.sharding.spec, same.sharding.spec) == (P("y"), P())
    assert doubled.sharding.is_equivalent_to(gs.NamedSharding(mesh, P("y")), 2)
    assert type(total) is type(doubled) is not GlobalDeviceArray
    assert "multiply" in lowered.as_text()


def test_results_are_global_where_it_is_set() -> None:
    with testing.runtime(parallel_functions_output_gda=True):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        f = gs.pjit(lambda x: (x @ x.T, x.sum()), out_axis_resources=(P("y", "x"), None))
        with mesh:
            out, total = f(made(mesh, "x", "y"))
            again, _ = f(out)  # goes in, too
        assert type(out) is type(total) is type(again) is GlobalDeviceArray
        assert out.mesh_axes == ("y", "x")
        assert out.local_shards[0].data.shape == (4, 2)
        assert total.mesh_axes == ()
        np.testing.assert_allclose(np.asarray(gs.numpy.copy(out)), VALUE @ VALUE.T)
        with pytest.raises(NoMeshError, match="parallel_functions_output_gda"):
            gs.pjit(lambda x: x + 1)(1.0)
        with mesh:  # what lies on one device is a replica then
            alone = gs.pjit(lambda x: x + 1)(gs.device_put(VALUE, gs.devices()[2]))
        assert type(alone) is GlobalDeviceArray and alone.mesh_axes == ()
        assert len(alone.local_shards) == 8
        assert all(np.array_equal(part.data, VALUE + 1) for part in alone.local_shards)
        with mesh:  # a traced function around it has its results as values
            around = gs.jit(lambda x: f(x)[0] + 1)(VALUE)
        assert type(around) is not GlobalDeviceArray


def test_static_and_donated_arguments() -> None:
    calls = []

    def body(x: Any, n: int) -> Any:
        calls.append(n)
        return x * n

    f = gs.pjit(body, in_shardings=(P("x"),), static_argnums=1, donate_argnums=0)
    with gs.make_mesh((4,), "x") as mesh:
        for n in (2, 2, 3):
            x = gs.device_put(VALUE, gs.NamedSharding(mesh, P("x")))
            assert np.array_equal(f(x, n), VALUE * n)
            assert x.is_deleted()
    assert calls == [2, 3]


def test_as_a_decorator_and_a_method() -> None:
    class Model:
        rate = 2

        @gs.pjit(static_argnums=0)
        def scaled(self, x: Any) -> Any:
            return self.rate * x

    @gs.pjit(out_shardings=P("x"))
    def step(x: Any) -> Any:
        return x + 1

    with gs.make_mesh((4,), "x"):
        assert step(VALUE).sharding.spec == P("x")
        assert step.eval_shape(VALUE).shape == (8, 2)
        assert step.trace(VALUE).fun_name == "step"
    assert np.array_equal(Model().scaled(VALUE), 2 * VALUE)


def test_wrong_arguments_are_refused_before_a_call() -> None:
    with pytest.raises(ArgumentTypeError, match=r"^pjit: .*must be a function"):
        gs.pjit(3, P("x"))
    with pytest.raises(ArgumentError, match="both static and donated"):
        gs.pjit(lambda a, k: a, P("x"), static_argnums=1, donate_argnums=1)
    with pytest.raises(NoMeshError) as caught:
        gs.pjit(lambda x: x, P("x"), P("y"))(np.ones(4))
    assert caught.value.spec == P("x")


def test_what_was_compiled_can_be_forgotten() -> None:
    f = gs.pjit(lambda x: x + 1, P("x"), P("x"))
    with gs.make_mesh((4,), "x"):
        f(VALUE)
        f.clear_cache()
        np.testing.assert_array_equal(np.asarray(f(VALUE)), VALUE + 1)
