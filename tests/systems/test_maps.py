"""pmap, soft_pmap, vmap, shard_map, xmap, collectives, and callbacks in all of them."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, legacy
from gpushard.sharding import PmapSharding
from tests.systems.behaviours import differs

DEVICES = gs.devices()
LINE = gs.make_mesh((8,), "x")
GRID = gs.make_mesh((4, 2), ("x", "y"))
VALUE = np.arange(8.0)
ROWS = np.arange(16.0).reshape(8, 2)


# pmap


def test_pmap_puts_an_element_on_each_device() -> None:
    made = gs.pmap(lambda v: v + 1)(ROWS)
    assert isinstance(made.sharding, PmapSharding) and made.addressable_data(3).shape == (2,)
    assert np.array_equal(made, ROWS + 1)


def test_pmap_maps_keyword_arguments_over_their_first_dim() -> None:
    assert np.array_equal(gs.pmap(lambda v, w: v + w)(VALUE, w=VALUE), 2 * VALUE)


def test_pmap_takes_axes_by_prefix() -> None:
    f = gs.pmap(lambda t, v: t["a"] + v, in_axes=({"a": 1}, None), out_axes=1)
    assert f({"a": ROWS.T}, np.ones(2)).shape == (2, 8)


def test_static_arguments_of_pmap_have_no_entry() -> None:
    f = gs.pmap(lambda n, v: v * n, static_broadcasted_argnums=0, in_axes=(0,))
    assert np.array_equal(f(3, VALUE), 3 * VALUE)


def test_donated_arguments_of_pmap_are_gone() -> None:
    x = gs.pmap(lambda v: v)(VALUE)
    gs.pmap(lambda v: v + 1, donate_argnums=0)(x)
    assert x.is_deleted()


def test_results_that_do_not_depend_on_the_input_are_sharded_too() -> None:
    made = gs.pmap(lambda v: gnp.ones(2))(VALUE)
    assert made.shape == (8, 2) and len(made.devices()) == 8


def test_pmap_of_pmap_takes_both_dims_apart() -> None:
    made = gs.pmap(gs.pmap(lambda v: v * 2))(np.ones((4, 2, 3)))
    assert made.shape == (4, 2, 3) and made.addressable_data(5).shape == (3,)


def test_jit_of_pmap_and_pmap_of_jit() -> None:
    for f in (gs.jit(gs.pmap(lambda v: v + 1)), gs.pmap(gs.jit(lambda v: v + 1))):
        assert np.array_equal(f(VALUE), VALUE + 1)


def test_pmap_has_lower() -> None:
    lowered = gs.pmap(lambda v: v + 1).lower(VALUE)  # type: ignore[attr-defined]
    assert np.array_equal(lowered.compile()(VALUE), VALUE + 1)


def test_devices_of_pmap_are_chosen() -> None:
    made = gs.pmap(lambda v: v, devices=DEVICES[4:])(np.ones(4))
    assert made.devices() == set(DEVICES[4:])


def test_pmap_takes_the_size_of_an_axis() -> None:
    assert gs.pmap(lambda v: v, in_axes=None, axis_size=4)(np.ones(3)).shape == (4, 3)


PMAP_ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "nothing is mapped": (lambda: gs.pmap(lambda v: v, in_axes=None)(VALUE), ValueError, "mapped"),
    "sizes disagree": (lambda: gs.pmap(lambda a, b: a)(VALUE, np.ones(4)), ValueError, "(8|4)"),
    "a number is mapped": (lambda: gs.pmap(lambda v: v)(1.0), ValueError, "ndim=0"),
    "an axis beyond the rank": (lambda: gs.pmap(lambda v: v, in_axes=3)(ROWS), ValueError, "3"),
    "another axis_size": (
        lambda: gs.pmap(lambda v: v, axis_size=4)(VALUE), ValueError, "axis_size=4"),
    "no devices": (lambda: gs.pmap(lambda v: v, devices=[]), ValueError, "devices"),
    "devices in another pmap": (
        lambda: gs.pmap(gs.pmap(lambda v: v, devices=DEVICES[:2]))(np.ones((4, 2))),
        ValueError, "devices"),
    "another number of devices": (
        lambda: gs.pmap(lambda v: v, devices=DEVICES[:3])(VALUE), ValueError, "3"),
    "more than there are": (lambda: gs.pmap(lambda v: v)(np.ones(9)), ValueError, "soft_pmap"),
    "a static argument without a hash": (
        lambda: gs.pmap(lambda n, v: v, static_broadcasted_argnums=0)([1], VALUE),
        TypeError, "hash"),
}  # fmt: skip


@pytest.mark.parametrize("name", PMAP_ERRORS)
def test_errors_of_pmap_name_sizes(name: str) -> None:
    call, kind, words = PMAP_ERRORS[name]
    with pytest.raises(kind, match=words):
        call()


@differs("`pmap(..., out_axes=None)` of a value that varies")
def test_what_varies_cannot_leave_pmap_without_an_axis() -> None:
    with pytest.raises(ValueError, match="out_axes=None"):
        gs.pmap(lambda v: v, out_axes=None)(VALUE)


@differs("`pmap` of `pmap`")
def test_each_element_of_pmap_of_pmap_is_on_a_device() -> None:
    assert len(gs.pmap(gs.pmap(lambda v: v))(np.ones((4, 2))).devices()) == 8


# soft_pmap


def test_soft_pmap_runs_an_axis_longer_than_the_devices() -> None:
    made = gs.soft_pmap(lambda v: v - lax.pmean(v, "i"), "i")(np.arange(24.0))
    assert np.allclose(made, np.arange(24.0) - 11.5) and made.addressable_data(0).shape == (3,)


def test_soft_pmap_counts_the_whole_axis() -> None:
    f = gs.soft_pmap(lambda v: (lax.psum(1, "i"), lax.axis_index("i")), "i")
    count, index = f(np.ones(16))
    assert np.asarray(count).tolist() == [16] * 16 and np.asarray(index).tolist() == list(range(16))


def test_soft_pmap_takes_axis_zero_and_none() -> None:
    with pytest.raises(ValueError, match="0 and None"):
        gs.soft_pmap(lambda v: v, in_axes=1)


def test_soft_pmap_names_devices_and_sizes_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"10 elements.*8"):
        gs.soft_pmap(lambda v: v)(np.ones(10))


@differs("`pmap`, `soft_pmap` and `vmap` in `soft_pmap`")
def test_maps_within_soft_pmap_work() -> None:
    assert np.array_equal(gs.soft_pmap(gs.vmap(lambda v: v + 1))(ROWS), ROWS + 1)


# vmap


def test_vmap_maps_any_dim_of_trees() -> None:
    f = gs.vmap(lambda t, v: (t["a"] * v, v), in_axes=({"a": 1}, None), out_axes=(0, None))
    product, same = f({"a": ROWS.T}, np.ones(2))
    assert np.array_equal(product, ROWS) and same.shape == (2,)


def test_vmap_names_its_dim() -> None:
    assert np.allclose(gs.vmap(lambda v: v / lax.psum(v, "i"), axis_name="i")(VALUE).sum(), 1)


def test_vmap_takes_a_size_and_mesh_axes() -> None:
    assert gs.vmap(lambda: gnp.ones(2), axis_size=3)().shape == (3, 2)
    x = gs.device_put(ROWS, gs.NamedSharding(LINE, P()))
    assert gs.vmap(lambda v: v * 2, spmd_axis_name="x")(x).sharding.spec[0] == "x"


# shard_map


def test_shard_map_gives_blocks() -> None:
    f = gs.shard_map(lambda b: b * b.shape[0], GRID, P("x", "y"), P("x", "y"))
    assert np.array_equal(f(np.ones((8, 2))), np.full((8, 2), 2.0))


def test_shard_map_is_a_decorator_too() -> None:
    @gs.shard_map(mesh=LINE, in_specs=P("x"), out_specs=P())  # type: ignore[call-overload]
    def total(b: Any) -> Any:
        return lax.psum(b.sum(), "x")

    assert float(total(VALUE)) == 28


def test_a_spec_of_shard_map_may_be_none_or_one_for_all() -> None:
    f = gs.shard_map(lambda a, b: a + b[:1], LINE, (P("x"), None), P("x"))
    assert f(VALUE, VALUE).shape == (8,)
    assert gs.shard_map(lambda a, b: a + b, LINE, P("x"), P("x"))(VALUE, VALUE).shape == (8,)


def test_keyword_arguments_of_shard_map_come_whole() -> None:
    f = gs.shard_map(lambda b, whole: b + whole.sum(), LINE, P("x"), P("x"))
    assert np.array_equal(f(VALUE, whole=VALUE), VALUE + 28)


def test_shard_map_takes_an_abstract_mesh() -> None:
    x = gs.device_put(VALUE, gs.NamedSharding(LINE, P("x")))
    assert gs.shard_map(lambda b: b * 2, gs.AbstractMesh((8,), ("x",)), P("x"), P("x"))(x).shape


def test_auto_axes_are_left_to_the_library() -> None:
    f = gs.shard_map(lambda b: b @ b.T, GRID, P("x"), P("x"), auto=frozenset({"y"}))
    g = gs.shard_map(lambda b: b @ b.T, GRID, P("x"), P("x"), axis_names={"x"})
    assert f(np.ones((8, 6))).shape == g(np.ones((8, 6))).shape == (8, 2)


SHARD_MAP_ERRORS: dict[str, tuple[Any, str]] = {
    "a spec longer than the rank": (
        lambda: gs.shard_map(lambda b: b, LINE, P(None, "x"), P("x"))(VALUE), "2"),
    "an unknown axis": (lambda: gs.shard_map(lambda b: b, LINE, P("q"), P())(VALUE), "q"),
    "an axis in auto": (
        lambda: gs.shard_map(lambda b: b, GRID, P("y"), P("y"), auto=frozenset({"y"}))(VALUE),
        "y"),
    "what varies leaves without the axis": (
        lambda: gs.shard_map(lambda b: b, LINE, P("x"), P())(VALUE), "varies along 'x'"),
    "a collective over an auto axis": (
        lambda: gs.shard_map(lambda b: lax.psum(b, "y"), GRID, P("x"), P("x"),
                             auto=frozenset({"y"}))(VALUE), "auto"),
    "a number under a sharded spec": (
        lambda: gs.shard_map(lambda b: b.sum(), LINE, P("x"), P("x"))(VALUE), "0|1"),
    "a dim that its axes do not divide": (
        lambda: gs.shard_map(lambda b: b, LINE, P("x"), P("x"))(np.ones(10)), "10"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARD_MAP_ERRORS)
def test_errors_of_shard_map_name_what_clashes(name: str) -> None:
    call, words = SHARD_MAP_ERRORS[name]
    with pytest.raises((ValueError, TypeError, NameError), match=words):
        call()


def test_unchecked_replication_takes_the_first_block() -> None:
    f = gs.shard_map(lambda b: b, LINE, P("x"), P(), check_rep=False)
    assert f(VALUE).tolist() == [0]


@differs("a value that does not vary")
def test_a_value_that_does_not_vary_can_be_read() -> None:
    def f(b: Any) -> Any:
        return b if float(lax.psum(1, "x")) == 8 else b * 0

    assert np.array_equal(gs.shard_map(f, LINE, P("x"), P("x"))(VALUE), VALUE)


# Collectives


def over(body: Any) -> Any:
    """Return what a body makes of a number on each device."""
    return np.asarray(gs.shard_map(body, LINE, P("x"), P("x"))(VALUE))


COLLECTIVES: dict[str, tuple[Any, Any]] = {
    "psum": (lambda b: lax.psum(b, "x"), [28] * 8),
    "pmean": (lambda b: lax.pmean(b, "x"), [3.5] * 8),
    "pmax": (lambda b: lax.pmax(b, "x"), [7] * 8),
    "pmin": (lambda b: lax.pmin(b, "x"), [0] * 8),
    "psum of groups": (
        lambda b: lax.psum(b, "x", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]]),
        [6] * 4 + [22] * 4),
    "all_gather": (lambda b: lax.all_gather(b, "x", tiled=True)[:1] + b, VALUE),
    "psum_scatter": (
        lambda b: lax.psum_scatter(gnp.ones(8) * b, "x", tiled=True), [28] * 8),
    "all_to_all": (
        lambda b: lax.all_to_all(gnp.arange(8.0) + 10 * b, "x", 0, 0, tiled=True)[1:2],
        np.arange(8) + 10),
    "ppermute": (lambda b: lax.ppermute(b, "x", [(0, 1), (1, 0)]), [1, 0] + [0] * 6),
    "pshuffle": (lambda b: lax.pshuffle(b, "x", [7, 6, 5, 4, 3, 2, 1, 0]), VALUE[::-1]),
    "pbroadcast": (lambda b: lax.pbroadcast(b, "x", 3), [3] * 8),
    "axis_index": (lambda b: b * 0 + lax.axis_index("x"), VALUE),
    "axis_size": (lambda b: b * 0 + lax.axis_size("x"), [8] * 8),
    "psum of a constant": (lambda b: b * 0 + lax.psum(2, "x"), [16] * 8),
    "psum of a constant in groups": (
        lambda b: b * 0 + lax.psum(1, "x", axis_index_groups=[[0, 1], [2, 3], [4, 5], [6, 7]]),
        [2] * 8),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives(name: str) -> None:
    body, wanted = COLLECTIVES[name]
    assert np.array_equal(over(body), wanted)


def test_pswapaxes_exchanges_a_dim_with_the_devices() -> None:
    f = gs.shard_map(lambda b: lax.pswapaxes(b[0], "x", 0)[None], LINE, P("x"), P("x"))
    square = np.arange(64.0).reshape(8, 8)
    assert np.array_equal(f(square), square.T)


def test_collectives_take_tuples_of_axes() -> None:
    f = gs.shard_map(
        lambda b: (lax.psum(b, ("x", "y")), b * 0 + lax.axis_index(("x", "y"))),
        GRID, P(("x", "y")), (P(), P(("x", "y"))),
    )  # fmt: skip
    total, index = f(VALUE)
    assert total.tolist() == [28] and np.array_equal(index, VALUE)


def test_collectives_take_trees_and_truth_values() -> None:
    def f(b: Any) -> Any:
        return lax.psum({"a": b, "b": (b > 3, 1j * b)}, "x")

    made = gs.shard_map(f, LINE, P("x"), P())(VALUE)
    assert float(made["a"][0]) == 28 and complex(made["b"][1][0]) == 28j


COLLECTIVE_ERRORS: dict[str, tuple[Any, type[Exception], str]] = {
    "an unbound name": (lambda b: lax.psum(b, "q"), NameError, "q"),
    "groups that overlap": (
        lambda b: lax.psum(b, "x", axis_index_groups=[[0, 1], [1, 2]]), ValueError, "group"),
    "groups that are incomplete": (
        lambda b: lax.psum(b, "x", axis_index_groups=[[0, 1]]), ValueError, "group"),
    "a source twice": (lambda b: lax.ppermute(b, "x", [(0, 1), (0, 2)]), ValueError, "0"),
    "a target twice": (lambda b: lax.ppermute(b, "x", [(0, 1), (2, 1)]), ValueError, "1"),
}  # fmt: skip


@pytest.mark.parametrize("name", COLLECTIVE_ERRORS)
def test_errors_of_collectives(name: str) -> None:
    body, kind, words = COLLECTIVE_ERRORS[name]
    with pytest.raises(kind, match=words):
        over(body)


def test_an_unbound_name_outside_of_maps() -> None:
    with pytest.raises(NameError):
        lax.axis_index("x")


# xmap


def test_xmap_names_dims_and_axis_resources_split_them() -> None:
    f = legacy.xmap(lambda v: v * 2, {0: "i"}, {0: "i"}, axis_resources={"i": "x"})
    with GRID:
        assert f(VALUE).sharding.spec == P("x")


def test_xmap_reduces_by_name_and_in_einsum() -> None:
    f = legacy.xmap(
        lambda v: (v.sum("i"), gnp.einsum("{i,j},{i,j}->{j}", v, v)), ["i", "j"], (["j"], ["j"])
    )
    total, squares = f(ROWS)
    assert np.allclose(total, ROWS.sum(0)) and np.allclose(squares, (ROWS**2).sum(0))


def test_xmap_takes_sizes_and_loops() -> None:
    assert legacy.xmap(lambda: gnp.ones(()), (), ["i"], axis_sizes={"i": 3})().shape == (3,)
    f = legacy.xmap(lambda v: v + 1, ["i"], ["i"], axis_resources={"i": legacy.SerialLoop(4)})
    assert np.array_equal(f(VALUE), VALUE + 1)


XMAP_ERRORS: dict[str, Any] = {
    "an entry twice": lambda: legacy.xmap(lambda v: v, ["i", "i"], ["i"])(ROWS),
    "a negative dim": lambda: legacy.xmap(lambda v: v, {-1: "i"}, {0: "i"})(VALUE),
    "sizes disagree": lambda: legacy.xmap(lambda a, b: a, (["i"], ["i"]), ["i"])(VALUE, ROWS[0]),
    "an unknown name in out_axes": lambda: legacy.xmap(lambda v: v, ["i"], ["i", "k"])(VALUE),
    "an unknown name in resources": lambda: legacy.xmap(
        lambda v: v, ["i"], ["i"], axis_resources={"k": "x"})(VALUE),
    "a resource that is not in scope": lambda: legacy.xmap(
        lambda v: v, ["i"], ["i"], axis_resources={"i": "nowhere"})(VALUE),
    "another rank": lambda: legacy.xmap(lambda v: v, ["i"], ["i"])(ROWS),
    "no result": lambda: legacy.xmap(lambda v: None, ["i"], ["i"])(VALUE),
    "an axis that is left": lambda: legacy.xmap(lambda v: v, ["i"], {})(VALUE),
    "pmap inside": lambda: legacy.xmap(lambda v: gs.pmap(lambda w: w)(v), {0: "i"}, {0: "i"})(ROWS),
    "soft_pmap inside": lambda: legacy.xmap(
        lambda v: gs.soft_pmap(lambda w: w)(v), {0: "i"}, {0: "i"})(ROWS),
    "sharded_jit inside": lambda: legacy.xmap(
        lambda v: legacy.sharded_jit(lambda w: w, None, None)(v), {0: "i"}, {0: "i"})(ROWS),
}  # fmt: skip


@pytest.mark.parametrize("name", XMAP_ERRORS)
def test_errors_of_xmap(name: str) -> None:
    with pytest.raises((ValueError, TypeError, NameError, NotImplementedError)):
        XMAP_ERRORS[name]()


# sharded_jit


def test_sharded_jit_cuts_by_numbers_of_parts() -> None:
    f = legacy.sharded_jit(lambda v: v * 2, legacy.Parts(4, 1), legacy.Parts(2, 2))
    assert f(ROWS).sharding.sharding_spec.sharding == (legacy.Chunked(2), legacy.Chunked(2))


def test_sharded_jit_without_parts_replicates() -> None:
    assert legacy.sharded_jit(lambda v: v * 2, None, None)(ROWS).is_fully_replicated


def test_sharded_jit_inside_pmap() -> None:
    f = gs.pmap(legacy.sharded_jit(lambda v: v + 1, legacy.Parts(2), legacy.Parts(2)))
    assert np.array_equal(f(np.ones((4, 2))), np.full((4, 2), 2.0))


SHARDED_JIT_ERRORS: dict[str, Any] = {
    "products disagree": lambda: legacy.sharded_jit(
        lambda v: v, legacy.Parts(4), legacy.Parts(2))(VALUE),
    "more than the devices": lambda: legacy.sharded_jit(
        lambda v: v, legacy.Parts(16), legacy.Parts(16))(np.ones(16)),
    "keyword arguments": lambda: legacy.sharded_jit(lambda v: v, None, None)(v=VALUE),
    "a constraint outside": lambda: legacy.with_sharding_constraint(VALUE, legacy.Parts(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHARDED_JIT_ERRORS)
def test_errors_of_sharded_jit(name: str) -> None:
    with pytest.raises((ValueError, NotImplementedError)):
        SHARDED_JIT_ERRORS[name]()


def test_numbers_of_partitions() -> None:
    assert legacy.get_num_partitions(legacy.Parts(2, 3), None) == 6
    aval = gs.ShapeDtypeStruct((8, 6), "float32")
    local = legacy.get_local_aval(aval, legacy.Parts(4, 1), legacy.Parts(2, 1))
    assert local.shape == (4, 6)
    assert legacy.get_global_aval(local, legacy.Parts(4, 1), legacy.Parts(2, 1)).shape == (8, 6)


# Callbacks

MAPS: dict[str, Any] = {
    "eagerly": lambda f: f,
    "jit": gs.jit,
    "vmap": gs.vmap,
    "pmap": gs.pmap,
    "pmap of pmap": lambda f: lambda v: gs.pmap(gs.pmap(f))(v.reshape(4, 2)).reshape(8),
    "shard_map": lambda f: gs.shard_map(f, LINE, P("x"), P("x")),
}


@pytest.mark.parametrize("name", MAPS)
def test_callbacks_work_in_every_map(name: str) -> None:
    seen: list[float] = []

    def f(v: Any) -> Any:
        gs.debug.callback(lambda w: seen.extend(np.ravel(w).tolist()), v)
        return v + gs.pure_callback(np.negative, v, v, vmap_method="sequential")

    assert np.array_equal(MAPS[name](f)(gnp.asarray(VALUE)), 0 * VALUE)
    gs.effects_barrier()
    assert sorted(seen) == VALUE.tolist()


def test_prints_have_formats(capsys: Any) -> None:
    gs.debug.print("v is {} and {w}", 1, w=gnp.asarray(2))
    gs.effects_barrier()
    assert capsys.readouterr().out == "v is 1 and 2\n"


def test_io_callbacks_give_arrays() -> None:
    made = gs.io_callback(lambda v: v * 2, gs.ShapeDtypeStruct((8,), "float64"), VALUE)
    assert np.array_equal(made, 2 * VALUE)


def test_taps_get_values_transforms_and_devices() -> None:
    seen: list[Any] = []

    def tap(value: Any, transforms: Any, device: Any = None) -> None:
        seen.append((value, transforms, device))

    assert float(legacy.id_tap(tap, gnp.asarray(1.0), result=gnp.asarray(2.0))) == 2
    gs.vmap(lambda v: legacy.id_tap(tap, v))(VALUE)
    gs.pmap(lambda v: legacy.id_tap(tap, v, tap_with_device=True))(VALUE)
    legacy.barrier_wait()
    assert seen[0][1:] == ([], None) and seen[1][1] == [("batch", {"batch_dims": (0,)})]
    assert {device for *_, device in seen[2:]} == set(DEVICES)


def test_id_print_sorts_what_it_says_first() -> None:
    stream = io.StringIO()
    legacy.id_print(gnp.asarray(1.5), z=1, a=2, output_stream=stream)
    legacy.barrier_wait()
    text = stream.getvalue()
    assert text.index("a: 2") < text.index("z: 1") < text.index("1.5")


def test_a_failure_surfaces_once() -> None:
    def fail(value: Any, transforms: Any) -> None:
        raise KeyError("mine")

    legacy.id_tap(fail, gnp.asarray(1.0))
    with pytest.raises(gs.errors.CallbackError):
        legacy.barrier_wait()
    legacy.barrier_wait()


def test_call_asks_a_function_of_the_host() -> None:
    made = legacy.call(np.sin, VALUE, result_shape=gs.ShapeDtypeStruct((8,), "float64"))
    assert np.allclose(made, np.sin(VALUE))


def test_xmap_has_lower() -> None:
    lowered = legacy.xmap(lambda v: v + 1, ["i"], ["i"]).lower(VALUE)  # type: ignore[attr-defined]
    assert np.array_equal(lowered.compile()(VALUE), VALUE + 1)


def test_groups_may_be_of_different_sizes() -> None:
    groups = [[0, 1, 2], [3, 4, 5, 6, 7]]
    assert over(lambda b: lax.psum(b, "x", axis_index_groups=groups)).tolist() == [3] * 3 + [25] * 5


def test_a_name_may_be_used_again_further_inside() -> None:
    f = gs.vmap(lambda v: gs.vmap(lambda w: lax.psum(w, "i"), axis_name="i")(v), axis_name="i")
    assert np.array_equal(f(ROWS), np.repeat(ROWS.sum(1, keepdims=True), 2, 1))


def test_callbacks_are_in_the_order_of_the_program() -> None:
    seen: list[int] = []
    for n in range(5):
        gs.debug.callback(lambda v: seen.append(int(v)), gnp.asarray(n), ordered=True)
    gs.effects_barrier()
    assert seen == list(range(5))


@differs("`x[i] = v`")
def test_values_in_bodies_can_be_assigned_to() -> None:
    def f(b: Any) -> Any:
        b = b + 0
        b[0] = 1
        b += 1
        return b

    assert np.array_equal(gs.shard_map(f, LINE, P("x"), P("x"))(VALUE), np.full(8, 2.0))


@differs('`x.sum("i")`, `einsum("{i}->", x)`')
def test_reductions_take_names_in_every_map() -> None:
    f = gs.vmap(lambda v: v.sum("i"), axis_name="i", out_axes=None)
    assert np.array_equal(f(ROWS), ROWS.sum(0))
