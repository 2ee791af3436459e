"""jit, control flow, stages and pjit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax
from gpushard.errors import TracedValueError
from tests.systems.behaviours import differs

LINE = gs.make_mesh((8,), "x")
GRID = gs.make_mesh((4, 2), ("x", "y"))
ROWS = gs.NamedSharding(LINE, P("x"))
VALUE = np.arange(8.0)


# jit


def test_jit_calls_the_function_once_for_a_kind_of_arguments() -> None:
    calls: list[int] = []
    f = gs.jit(lambda v: (calls.append(1), v + 1)[1])
    for value in (VALUE, VALUE * 2):
        assert np.array_equal(f(value), value + 1)
    f(VALUE[:4])
    assert len(calls) == 2


def test_jit_is_a_decorator_with_options() -> None:
    @gs.jit(static_argnames="n")
    def f(v: Any, n: int) -> Any:
        return v * n

    assert np.array_equal(f(VALUE, n=3), 3 * VALUE) and f.__name__ == "f"


def test_jit_of_a_method_binds_the_instance() -> None:
    class Scaled:
        factor = 3

        @gs.jit(static_argnums=0)
        def __call__(self, v: Any) -> Any:
            return v * self.factor

    assert np.array_equal(Scaled()(VALUE), 3 * VALUE)


def test_static_numbers_and_names_follow_from_each_other() -> None:
    f = gs.jit(lambda v, n: v * n, static_argnums=1)
    assert np.array_equal(f(VALUE, n=2), f(VALUE, 2))
    g = gs.jit(lambda v, n: v * n, static_argnames="n")
    assert np.array_equal(g(VALUE, 2), g(VALUE, n=2))
    h = gs.jit(lambda v, n: v * n, static_argnums=-1)
    assert np.array_equal(h(VALUE, 2), 2 * VALUE)


def test_donated_arguments_are_gone() -> None:
    x = gs.device_put(VALUE, ROWS)
    y = gs.jit(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted() and np.array_equal(y, VALUE + 1)


def test_shardings_are_prefixes_of_arguments_and_results() -> None:
    f = gs.jit(lambda t: (t["a"] + 1, t["b"]), in_shardings=ROWS, out_shardings=(None, ROWS))
    first, second = f({"a": VALUE, "b": VALUE})
    assert first.sharding == ROWS and second.sharding == ROWS


def test_out_shardings_are_honoured_exactly() -> None:
    to = gs.NamedSharding(GRID, P("y", "x"))
    f = gs.jit(lambda v: v @ v.T, out_shardings=to)
    assert f(gs.device_put(np.ones((8, 4)), gs.NamedSharding(GRID, P("x", "y")))).sharding == to


def test_a_bare_spec_means_the_mesh_around() -> None:
    with gs.set_mesh(LINE):
        assert gs.jit(lambda v: v, out_shardings=P("x"))(VALUE).sharding == ROWS


@differs("a `Device` in `in_shardings`")
def test_a_device_is_a_sharding() -> None:
    device = gs.devices()[3]
    assert gs.jit(lambda v: v, in_shardings=device)(VALUE).devices() == {device}


def test_functions_are_done_on_a_device() -> None:
    device = gs.devices()[2]
    assert gs.jit(lambda v: v + 1, device=device)(VALUE).devices() == {device}


JIT_ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "a number out of range": (
        lambda: gs.jit(lambda v: v, static_argnums=4)(VALUE), ValueError, "4"),
    "an unknown name": (lambda: gs.jit(lambda v: v, static_argnames="q"), ValueError, "q"),
    "static and donated": (
        lambda: gs.jit(lambda v: v, static_argnums=0, donate_argnums=0), ValueError, "0"),
    "a static argument without a hash": (
        lambda: gs.jit(lambda v, n: v, static_argnums=1)(VALUE, [1]), (ValueError, TypeError),
        "list"),  # type: ignore[dict-item]
    "a device with shardings": (
        lambda: gs.jit(lambda v: v, device=gs.devices()[0], in_shardings=ROWS), ValueError,
        "device"),
    "abstracted axes": (
        lambda: gs.jit(lambda v: v, abstracted_axes={0: "n"}), Exception, "abstracted_axes"),
    "keyword arguments with in_shardings": (
        lambda: gs.jit(lambda v: v, in_shardings=ROWS)(v=VALUE), ValueError, "in_shardings"),
    "a spec without a mesh": (
        lambda: gs.jit(lambda v: v, in_shardings=P("x"))(VALUE), Exception, "mesh"),
    "an argument that lies elsewhere": (
        lambda: gs.jit(lambda v: v, in_shardings=ROWS)(gs.device_put(VALUE, gs.devices()[1])),
        ValueError, "in_shardings"),
    "arguments on other devices": (
        lambda: gs.jit(lambda a, b: a + b)(
            *[gs.device_put(VALUE, d) for d in gs.devices()[:2]]), ValueError, "move one of them"),
}  # fmt: skip


@pytest.mark.parametrize("name", JIT_ERRORS)
def test_errors_of_jit(name: str) -> None:
    call, kind, words = JIT_ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


READS: dict[str, Any] = {
    "bool": bool, "int": int, "float": float, "complex": complex, "asarray": np.asarray,
    "index": lambda v: [1][v.astype(int)], "item": lambda v: v.item(),
    "tolist": lambda v: v.tolist(), "sharding": lambda v: v.sharding,
    "devices": lambda v: v.devices(), "shards": lambda v: v.addressable_shards,
    "mask": lambda v: gnp.ones(1)[(v > 0)[None]], "iteration": lambda v: list(v),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_traced_values_are_no_data(name: str) -> None:
    def f(value: Any) -> Any:
        READS[name](value)
        return value

    with pytest.raises(TypeError) as caught:
        gs.jit(f)(gnp.asarray(1.0))
    if name != "iteration":  # of a number, as in NumPy
        assert isinstance(caught.value, TracedValueError) and "value" in str(caught.value)


def test_a_leaked_value_raises_when_it_is_used() -> None:
    kept: list[Any] = []
    gs.jit(lambda v: (kept.append(v), v)[1])(VALUE)
    with pytest.raises(TracedValueError):
        kept[0] + 1


def test_jit_takes_views_of_what_is_around() -> None:
    with gs.disable_jit():
        seen: list[Any] = []
        gs.jit(lambda v: (seen.append(float(v.sum())), v)[1])(VALUE)
    assert seen == [28.0]
    gs.clear_caches()


def test_graphs_and_shapes_without_data() -> None:
    assert gs.eval_shape(lambda v: v @ v, gs.ShapeDtypeStruct((4,), "float32")).shape == ()
    assert "add" in str(gs.make_jaxpr(lambda v: v + 1)(VALUE))
    assert gs.typeof(gnp.ones((2, 3))).shape == (2, 3)


def test_scopes_name_operations() -> None:
    def f(v: Any) -> Any:
        with gs.named_scope("mine"):
            return v + 1

    assert "mine" in gs.jit(f).lower(VALUE).as_text(debug_info=True)


@differs("64-bit types")
def test_traced_functions_have_types_of_64_bits() -> None:
    assert gs.jit(lambda: gnp.arange(3))().dtype == np.int64


# Control flow


def test_control_flow() -> None:
    def f(v: Any) -> Any:
        v = lax.cond(v.sum() > 0, lambda w: w + 1, lambda w: w - 1, v)
        v = lax.fori_loop(0, 3, lambda n, w: w * 2, v)
        v = lax.while_loop(lambda w: w.sum() < 1000, lambda w: w * 2, v)
        carry, each = lax.scan(lambda c, w: (c + w, c), 0.0, v)
        return lax.switch(1, [gnp.sin, gnp.cos], carry) + lax.map(lambda w: w + 1, each).sum()

    assert np.allclose(gs.jit(f)(VALUE), f(gnp.asarray(VALUE)))


def test_carries_keep_their_type() -> None:
    with pytest.raises(TypeError, match="carry"):
        lax.scan(lambda c, w: (c + 0.5, None), gnp.asarray(1), VALUE)


def test_branches_give_the_same_type() -> None:
    with pytest.raises(TypeError):
        lax.cond(True, lambda v: v, lambda v: v.astype("int32"), gnp.asarray(VALUE))


def test_constraints_lay_values_out() -> None:
    f = gs.jit(lambda v: lax.with_sharding_constraint(v * 2, ROWS))
    assert f(VALUE).sharding == ROWS


@differs("`unroll` of `scan` and `fori_loop`")
def test_unrolling_changes_nothing() -> None:
    made = [lax.scan(lambda c, w: (c + w, c), 0.0, VALUE, unroll=n)[0] for n in (1, 4)]
    assert made[0] == made[1]


# Stages


def stages() -> tuple[Any, Any, Any]:
    """Return the three stages of a product."""
    f = gs.jit(lambda v: (v @ v.T).sum(), donate_argnums=0)
    x = gs.device_put(np.ones((8, 4)), ROWS)
    traced = f.trace(x)
    lowered = traced.lower()
    return traced, lowered, lowered.compile()


def test_what_is_traced_shows_its_graph() -> None:
    traced, lowered, _ = stages()
    assert "matmul" in str(traced.jaxpr) and traced.out_info.shape == ()
    assert traced.fun_name and traced.lower(lowering_platforms=None).in_tree == lowered.in_tree


@pytest.mark.parametrize("attribute", ["in_tree", "in_avals", "donate_argnums", "args_info"])
def test_every_stage_says_what_it_takes(attribute: str) -> None:
    traced, lowered, compiled = stages()
    assert getattr(traced, attribute) == getattr(lowered, attribute)
    assert getattr(compiled, attribute) == getattr(lowered, attribute)


def test_arguments_have_shape_type_and_whether_they_are_donated() -> None:
    ((info,), _) = stages()[1].args_info
    assert (info.shape, info.dtype, info.donated) == ((8, 4), np.float64, True)


def test_what_is_lowered_has_text_and_costs() -> None:
    _, lowered, _ = stages()
    assert lowered.as_text() and lowered.as_text(dialect="gpushard", debug_info=True)
    assert lowered.cost_analysis()["flops"] > 0 and lowered.compiler_ir() is not None
    with pytest.raises(ValueError, match="dialect"):
        lowered.as_text(dialect="stablehlo2")


@differs("text of a lowered program")
def test_there_is_one_dialect() -> None:
    assert isinstance(stages()[1].as_text("gpushard"), str)


def test_unknown_options_of_the_compiler_are_refused() -> None:
    with pytest.raises(ValueError, match="no_such"):
        stages()[1].compile(compiler_options={"no_such": 1})


def test_what_is_compiled_can_be_asked_and_called() -> None:
    _, _, compiled = stages()
    assert compiled.input_shardings[0][0] == ROWS and compiled.output_shardings is not None
    assert compiled.memory_analysis().peak_memory_in_bytes > 0 and compiled.as_text()
    assert compiled.cost_analysis()["flops"] > 0 and compiled.runtime_executable() is not None
    assert compiled.input_formats is not None and compiled.output_formats is not None
    assert float(compiled(gs.device_put(np.ones((8, 4)), ROWS))) == 256


COMPILED_ERRORS: dict[str, Any] = {
    "another tree": lambda f: f({"a": gs.device_put(np.ones((8, 4)), ROWS)}),
    "another shape": lambda f: f(gs.device_put(np.ones((8, 2)), ROWS)),
    "another sharding": lambda f: f(gs.device_put(np.ones((8, 4)), gs.NamedSharding(LINE, P()))),
    "in a trace": lambda f: gs.jit(lambda v: f(v))(np.ones((8, 4))),
}


@pytest.mark.parametrize("name", COMPILED_ERRORS)
def test_compiled_functions_refuse_other_arguments(name: str) -> None:
    with pytest.raises((TypeError, ValueError)):
        COMPILED_ERRORS[name](stages()[2])


# pjit


def test_the_example_of_pjit() -> None:
    f = gs.pjit(lambda v: v @ v.T, in_axis_resources=P("x", "y"), out_axis_resources=P("y", "x"))
    with GRID:
        made = f(np.ones((8, 2)))
    assert made.sharding.is_equivalent_to(gs.NamedSharding(GRID, P("y", "x")), 2)


def test_pjit_takes_one_spelling() -> None:
    with pytest.raises((ValueError, TypeError), match="in_axis_resources"):
        gs.pjit(lambda v: v, in_axis_resources=P("x"), in_shardings=ROWS)


@differs("a committed argument of `pjit` with another sharding than in `in_shardings`")
def test_pjit_never_moves_what_was_put_elsewhere() -> None:
    with pytest.raises(ValueError), GRID:
        gs.pjit(lambda v: v, in_axis_resources=P("x"))(gs.device_put(VALUE, gs.devices()[1]))


def test_formats_and_open_layouts_are_shardings_of_jit() -> None:
    lies = gs.Format(gs.Layout((0,)), ROWS)
    f = gs.jit(lambda v: v + 1, in_shardings=lies, out_shardings=gs.Format(gs.Layout.AUTO, ROWS))
    assert f(VALUE).sharding == ROWS


def test_open_dims_are_left_to_the_library() -> None:
    def f(v: Any) -> Any:
        sharding = gs.NamedSharding(GRID, P(P.UNCONSTRAINED, "y"))
        return lax.with_sharding_constraint(v * 2, sharding)

    x = gs.device_put(np.ones((8, 4)), gs.NamedSharding(GRID, P("x")))
    assert gs.jit(f)(x).sharding.spec == P("x", "y")


def test_layouts_of_compiled_functions_have_the_name_of_old() -> None:
    compiled = stages()[2]
    ((layout,), _), ((lies,), _) = compiled.input_layouts, compiled.input_formats
    assert layout == lies.layout


def test_random_keys_and_assignments_are_traced() -> None:
    def f(key: Any, v: Any) -> Any:
        v = v + 0
        v[0] = 9
        return gs.random.uniform(gs.random.split(key)[0], (3,)), v.at[1].set(7)

    drawn, v = gs.jit(f)(gs.random.key(0), VALUE)
    assert drawn.shape == (3,) and v.tolist()[:2] == [9, 7]


def test_maps_and_collectives_are_traced() -> None:
    f = gs.jit(gs.shard_map(lambda b: lax.psum(b, "x"), LINE, P("x"), P()))
    assert f(VALUE).tolist() == [28]
    assert np.array_equal(gs.vmap(gs.jit(lambda v: v * 2))(VALUE), 2 * VALUE)


def test_a_function_may_be_jitted_again_without_tracing_again() -> None:
    calls: list[int] = []

    def f(v: Any) -> Any:
        calls.append(1)
        return v + 1

    gs.jit(f)(VALUE)
    gs.jit(f)(VALUE)
    assert calls == [1]


def test_associative_scans() -> None:
    assert np.array_equal(lax.associative_scan(gnp.add, gnp.asarray(VALUE)), np.cumsum(VALUE))
