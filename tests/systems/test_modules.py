"""Modules as graphs, `StateSharding`, `nnx.jit` and `nnx.shard_map`."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, nnx
from tests.systems.behaviours import differs

MESH = gs.make_mesh((2, 4), ("data", "model"))


class MLP(nnx.Module):
    """Two layers and a count of calls."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(8, 16, rngs=rngs)
        self.second = nnx.Linear(16, 8, rngs=rngs)
        self.calls = nnx.Variable(gnp.zeros((), int))

    def __call__(self, x: Any) -> Any:
        self.calls.value += 1
        return self.second(nnx.relu(self.first(x)))


@pytest.fixture
def model() -> MLP:
    """A model."""
    return MLP(rngs=nnx.Rngs(0))


def spec() -> nnx.StateSharding:
    """Return how the kernels of a model are split."""
    return nnx.StateSharding({nnx.PathContains("kernel"): P(None, "model"), ...: P()})


def test_modules_split_and_merge(model: MLP) -> None:
    graphdef, params, rest = nnx.split(model, nnx.Param, ...)
    again = nnx.merge(graphdef, params, rest)
    assert again is not model and np.array_equal(again.first.kernel, model.first.kernel)
    assert hash(graphdef) == hash(nnx.graphdef(model)) and pickle.loads(pickle.dumps(graphdef))


def test_sharing_and_cycles_are_kept() -> None:
    class Node(nnx.Module):
        def __init__(self) -> None:
            self.weight = nnx.Param(gnp.ones(2))
            self.same = self.weight
            self.me = self

    again = nnx.merge(*nnx.split(Node()))
    assert again.same is again.weight and again.me is again


def test_states_are_updated_in_place(model: MLP) -> None:
    kernel, state = model.first.kernel, nnx.state(model, nnx.Param)
    doubled = nnx.map_state(lambda path, v: v.replace(v.value * 2), state)
    before = np.asarray(kernel.value)
    nnx.update(model, doubled)
    assert model.first.kernel is kernel and np.array_equal(kernel.value, 2 * before)


def test_values_are_removed_by_filters(model: MLP) -> None:
    state = nnx.pop(model, nnx.PathContains("calls"))
    assert list(state) == ["calls"] and not hasattr(model, "calls")


def test_clones_share_nothing(model: MLP) -> None:
    copy = nnx.clone(model)
    copy.calls.value += 1
    assert int(model.calls.value) == 0


def test_abstract_modules_take_no_memory() -> None:
    found: Any = nnx.eval_shape(lambda: MLP(rngs=nnx.Rngs(0)))
    assert isinstance(found.first.kernel.value, gs.ShapeDtypeStruct)


FILTERS: dict[str, tuple[Any, int]] = {
    "a type": (nnx.Param, 4), "everything": (..., 5), "nothing": (None, 0), "a path": (
        nnx.PathContains("first"), 2), "any of": ((nnx.PathContains("first"), "no tag"), 2),
    "a callable": (lambda path, v: path[-1] == "bias", 2), "not": (nnx.Not(nnx.Param), 1),
    "all": (nnx.All(nnx.Param, nnx.PathContains("second")), 2),
}  # fmt: skip


@pytest.mark.parametrize("name", FILTERS)
def test_filters(name: str, model: MLP) -> None:
    chosen, count = FILTERS[name]
    assert len(nnx.to_flat_state(nnx.state(model, chosen))) == count


def test_everything_comes_last(model: MLP) -> None:
    with pytest.raises(ValueError):
        nnx.split(model, ..., nnx.Param)


def test_leaves_that_no_filter_takes_are_named(model: MLP) -> None:
    with pytest.raises(ValueError, match="calls"):
        nnx.split(model, nnx.Param)


def test_state_shardings_are_made_of_mappings_pairs_and_states(model: MLP) -> None:
    pairs = [(nnx.Param, P("model")), (..., P())]
    assert nnx.StateSharding(pairs) == nnx.StateSharding(dict(pairs))
    own = nnx.StateSharding(dict(pairs))
    assert own.filters == (nnx.Param, ...) and own.shardings == (P("model"), P())
    assert hash(own) == hash(nnx.StateSharding(pairs)) and "model" in repr(own)
    of_state = nnx.StateSharding(nnx.get_partition_spec(nnx.state(model)))
    assert of_state.map_prefix(("calls",), model.calls) == P()


def test_what_no_filter_covers_is_an_error(model: MLP) -> None:
    with pytest.raises(ValueError, match="calls"):
        nnx.StateSharding({nnx.Param: P()}).map_prefix(("calls",), model.calls)


def test_jit_updates_modules_in_place(model: MLP) -> None:
    calls = model.calls
    f = nnx.jit(lambda m, x: (m(x), m))
    y, same = f(model, np.ones((4, 8)))
    assert same is model and model.calls is calls and int(calls.value) == 1 and y.shape == (4, 8)


def test_jit_lays_variables_out(model: MLP) -> None:
    with gs.set_mesh(MESH):
        nnx.jit(lambda m: m.calls.value, in_shardings=(spec(),))(model)
    wanted = gs.NamedSharding(MESH, P(None, "model"))
    assert model.first.kernel.sharding.is_equivalent_to(wanted, 2)


def test_jit_has_stages(model: MLP) -> None:
    f = nnx.jit(lambda m, x: m(x))
    x = np.ones((4, 8))
    traced = f.trace(model, x)
    lowered = traced.lower()
    compiled = lowered.compile()
    assert traced.out_info is not None and lowered.as_text() and lowered.cost_analysis()
    assert int(model.calls.value) == 0
    assert np.allclose(compiled(model, x), nnx.clone(model)(gnp.asarray(x)))
    assert int(model.calls.value) == 1
    with pytest.raises(NotImplementedError):
        type(lowered).from_flat_info()


def test_a_second_instance_compiles_nothing(caplog: Any) -> None:
    f = nnx.jit(lambda m, x: m(x))
    f(MLP(rngs=nnx.Rngs(0)), np.ones((4, 8)))
    with gs.log_compiles():
        f(MLP(rngs=nnx.Rngs(1)), np.ones((4, 8)))
    assert not caplog.records


def test_jit_is_a_decorator_and_a_method() -> None:
    class Counter(nnx.Module):
        def __init__(self) -> None:
            self.n = nnx.Variable(gnp.zeros((), int))

        @nnx.jit
        def add(self, m: Any) -> None:
            self.n.value += m

    counter = Counter()
    counter.add(3)
    assert int(counter.n.value) == 3


def test_shard_map_gives_blocks_and_changes_modules(model: MLP) -> None:
    @nnx.shard_map(mesh=MESH, in_specs=(P(), P("data")), out_specs=P("data"))
    def f(m: MLP, x: Any) -> Any:
        return m(x)

    y = f(model, np.ones((4, 8)))
    assert y.shape == (4, 8) and int(model.calls.value) == 1 and callable(f.inner)


def test_shard_map_splits_by_state_shardings(model: MLP) -> None:
    f = nnx.shard_map(
        lambda m: m.first.kernel.value.sum()[None], mesh=MESH, in_specs=(spec(),),
        out_specs=P("model"),
    )  # fmt: skip
    assert f(model).shape == (4,)
    assert model.first.kernel.addressable_data(0).shape == (8, 4)


def test_two_paths_with_two_specs_are_refused() -> None:
    weight = nnx.Param(gnp.ones((8, 8)))

    class Holder(nnx.Module):
        def __init__(self) -> None:
            self.weight = weight

    f = nnx.shard_map(lambda a, b: a.weight.sum(), mesh=MESH, in_specs=(P(), P("data")),
                      out_specs=P())  # fmt: skip
    with pytest.raises(ValueError, match="weight"):
        f(Holder(), Holder())


def test_a_variable_of_outside_cannot_be_assigned(model: MLP) -> None:
    def f(x: Any) -> Any:
        model.calls.value += 1
        return x

    with pytest.raises(RuntimeError, match="calls"):
        nnx.jit(f)(np.ones(2))
    assert int(model.calls.value) == 0


def test_nothing_changes_where_a_body_raises(model: MLP) -> None:
    def f(m: MLP) -> None:
        m.calls.value += 1
        raise KeyError

    with pytest.raises(KeyError):
        nnx.jit(f)(model)
    assert int(model.calls.value) == 0


def test_streams_of_keys_are_counted_through_transforms() -> None:
    rngs = nnx.Rngs(0, dropout=1)
    drop = nnx.Dropout(0.5, rngs=rngs)
    f = nnx.jit(lambda m, x: m(x))
    first, second = (np.asarray(f(drop, np.ones(64))) for _ in range(2))
    assert not np.array_equal(first, second)
    with pytest.raises(ValueError):
        nnx.Rngs("seed")  # type: ignore[arg-type]


def test_named_kernels_have_specs_and_shardings() -> None:
    init = nnx.with_partitioning(nnx.initializers.lecun_normal(), (None, "model"))
    layer = nnx.Linear(8, 16, kernel_init=init, rngs=nnx.Rngs(0))
    specs = nnx.get_partition_spec(nnx.state(layer))
    assert specs["kernel"].value == P(None, "model")
    shardings = nnx.get_named_sharding(nnx.state(layer), MESH)
    assert shardings["kernel"].value == gs.NamedSharding(MESH, P(None, "model"))


@differs("modules as pytrees")
def test_modules_are_no_trees(model: MLP) -> None:
    with pytest.raises(TypeError, match=r"nnx\.state"):
        gs.device_put(model)


@differs("Variables after `merge`")
def test_merged_variables_are_new(model: MLP) -> None:
    graphdef, state = nnx.split(model)
    nnx.merge(graphdef, state).calls.value = gnp.asarray(9)
    assert int(state["calls"].value) == 0


@differs("missing or surplus leaves in `merge`")
def test_missing_leaves_are_named(model: MLP) -> None:
    graphdef, params, _ = nnx.split(model, nnx.Param, ...)
    with pytest.raises(ValueError, match="calls"):
        nnx.merge(graphdef, params)


@differs("keyword arguments of `shard_map`")
def test_keyword_arguments_of_shard_map_are_replicated() -> None:
    f = nnx.shard_map(lambda x, y: x + y.sum(), mesh=MESH, in_specs=P("data"), out_specs=P("data"))
    assert np.array_equal(f(np.ones(4), y=np.ones(2)), np.full(4, 3.0))


@differs("`Compiled.args_info`")
def test_compiled_functions_tell_their_arguments(model: MLP) -> None:
    assert nnx.jit(lambda m: m.calls.value).lower(model).compile().args_info is not None
