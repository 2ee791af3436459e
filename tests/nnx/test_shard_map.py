"""`nnx.shard_map`: blocks of state, what is made inside, keyword arguments, methods."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, nnx
from gpushard.errors import ArgumentError
from tests.nnx.graphs import Plain

P = gs.P


def module() -> nnx.Module:
    m = Plain()
    m.w, m.b = nnx.Param(gnp.arange(8.0)), nnx.BatchStat(gnp.zeros(3))
    return m


def test_variables_are_blocks_inside() -> None:
    mesh = gs.make_mesh((4,), "x")
    spec = nnx.StateSharding({nnx.Param: P("x"), ...: None})

    @nnx.shard_map(mesh=mesh, in_specs=(spec,), out_specs=P())
    def f(m: Any) -> Any:
        assert m.w.shape == (2,) and m.b.shape == (3,)
        m.w += lax.axis_index("x")
        m.b += lax.psum(m.w.value.sum(), "x")
        return m.b.value

    m = module()
    expected = np.arange(8) + np.repeat(np.arange(4), 2)
    assert f(m).tolist() == [expected.sum()] * 3
    assert np.array_equal(m.w.value, expected) and m.w.value.sharding.spec == P("x")
    assert m.b.value.tolist() == [expected.sum()] * 3


def test_blocks_of_what_is_made_inside_are_joined() -> None:
    mesh = gs.make_mesh((4,), "model")
    made = nnx.shard_map(
        lambda: module(), mesh=mesh, in_specs=(), out_specs=nnx.StateSharding({
            nnx.Param: P("model"), ...: P(),
        }),
    )()  # fmt: skip
    assert made.w.shape == (32,) and made.b.shape == (3,)
    assert made.w.value.sharding.spec == P("model")


def test_keyword_arguments_come_whole_and_return() -> None:
    mesh = gs.make_mesh((4,), "x")
    m, k = module(), module()

    @nnx.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P("x"))
    def f(w: Any, *, k: Any) -> Any:
        assert w.shape == (2,) and k.w.shape == (8,)
        k.b += 1
        return w * 2

    assert f(m.w.value, k=k).tolist() == (2 * np.arange(8)).tolist()
    assert k.b.value.tolist() == [1, 1, 1]


def test_methods_take_the_first_spec() -> None:
    mesh = gs.make_mesh((2,), "x")

    class Scale(nnx.Module):
        def __init__(self) -> None:
            self.factor = nnx.Param(gnp.arange(4.0))

        @nnx.shard_map(mesh=mesh, in_specs=(P("x"), P("x")), out_specs=P("x"))
        def __call__(self, x: Any) -> Any:
            return x * self.factor.value

    assert Scale()(gnp.ones(4)).tolist() == [0, 1, 2, 3]


def test_what_varies_under_a_spec_is_refused_by_path() -> None:
    mesh = gs.make_mesh((4,), "x")

    def f(model: Any) -> None:
        model.part.b += lax.axis_index("x")

    m = Plain()
    m.part = module()
    with pytest.raises(
        ArgumentError, match=r"argument model\.part\.b.* varies along 'x', and in_specs=P"
    ):
        nnx.shard_map(f, mesh=mesh, in_specs=(P(),), out_specs=P())(m)
    assert m.part.b.value.tolist() == [0, 0, 0]
    nnx.shard_map(f, mesh=mesh, in_specs=(P(),), out_specs=P(), check_rep=False)(m)
    assert m.part.b.value.tolist() == [0, 0, 0]


def test_an_abstract_mesh_and_auto_axes() -> None:
    mesh = gs.make_mesh((2, 2), ("x", "y"))
    m = module()
    m.w.value = gs.device_put(m.w.value, gs.NamedSharding(mesh, P(("x", "y"))))

    def f(m: Any) -> Any:
        return m.w.value * 2

    spec = nnx.StateSharding({nnx.Param: P("x"), ...: P()})
    over = {"mesh": mesh.abstract_mesh, "in_specs": (spec,), "out_specs": P("x")}
    assert nnx.shard_map(f, **over, auto={"y"})(m).tolist() == (2 * np.arange(8)).tolist()


def test_jit_and_shard_map_within_each_other_keep_references() -> None:
    mesh = gs.make_mesh((4,), "x")
    whole = nnx.shard_map(mesh=mesh, in_specs=P(), out_specs=P())
    m = Plain()
    m.a = m.b = nnx.Param(gnp.ones(4))
    a = m.a

    def f(m: Any) -> Any:
        assert m.a is m.b
        m.a += 1
        m.c = m.a
        return m.b

    assert nnx.jit(lambda m: whole(f)(m))(m) is a and m.c is a
    assert whole(nnx.jit(f))(m) is a and a.value.tolist() == [3] * 4


def test_inner_is_the_function_of_what_was_taken_apart() -> None:
    mesh = gs.make_mesh((4,), "x")
    spec = nnx.StateSharding({nnx.Param: P("x"), ...: P()})
    f = nnx.shard_map(lambda m: m.w.value * 2, mesh=mesh, in_specs=(spec,), out_specs=P("x"))
    m = module()
    (pure,) = nnx.to_tree((m,), prefix=(spec,))
    assert len(pure.states) == 2 and list(pure.states[0]) == ["w"]
    args, kwargs, out = f.inner(pure)
    assert out.tolist() == (2 * np.arange(8)).tolist() and kwargs == {} and len(args) == 1


def test_transforms_can_be_built_of_the_two_halves() -> None:
    def twice(f: Any) -> Any:
        def call(*args: Any) -> Any:
            def pure(*args: Any) -> Any:
                own = nnx.from_tree(args, ctxtag="twice", is_inner=True)
                out = f(*own)
                return nnx.to_tree((nnx.clear_non_graph_nodes(own), out), ctxtag="twice")

            with nnx.update_context("twice"):
                made = gs.jit(pure)(*nnx.to_tree(args, ctxtag="twice"))
                return nnx.from_tree(made, ctxtag="twice", is_inner=False)[1]

        return call

    m = module()
    m.again = m.w

    def f(m: Any, other: Any, x: Any) -> Any:
        assert other is m.w
        m.w += x
        m.new = nnx.Param(x)
        return other, m

    w = m.w
    out = twice(f)(m, m.w, 2.0)
    assert out[0] is w and out[1] is m and m.w is w and m.again is w
    assert np.array_equal(w.value, np.arange(8) + 2) and m.new.value == 2
