"""`nnx.jit`: what is traced again, where state lies, donation, methods, stages."""

import collections
import functools
import gc
import logging
import weakref
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import nnx
from gpushard.errors import ArgumentTypeError, DeletedArrayError, TraceContextError
from tests.nnx.graphs import Plain

P = gs.P


class Layers(nnx.Module):
    """A hundred Variables."""

    def __init__(self, count: int = 100) -> None:
        for n in range(count):
            setattr(self, f"v{n:03}", nnx.Param(gnp.full(4, float(n))))
        self.steps = 0


def traced(caplog: Any) -> int:
    """Return how often a function was traced since the last question."""
    count = sum("compiled" in record.getMessage() for record in caplog.records)
    caplog.clear()
    return count


def test_a_second_instance_compiles_nothing(caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "gpushard.jit")

    @nnx.jit
    def step(m: Any, x: Any) -> Any:
        m.v050 += x
        return m.v050.value.sum()

    first, second = Layers(), Layers()
    with gs.log_compiles():
        assert step(first, 1.0) == 204 and traced(caplog) == 1
        assert step(second, 2.0) == 208 and step(first, 1.0) == 208 and traced(caplog) == 0
        second.steps = 1
        step(second, 1.0)
        assert traced(caplog) == 1
        second.steps = 0
        second.v050.tag = "other"
        step(second, 1.0)
        assert traced(caplog) == 1
        second.v050 = nnx.Param(gnp.zeros(4), tag="other")
        assert step(second, 1.0) == 4 and traced(caplog) == 0
        second.v000 = second.v001
        step(second, 1.0)
        assert traced(caplog) == 1


def test_jit_may_be_written_in_a_loop(caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "gpushard.jit")

    def step(m: Any) -> None:
        m.v000 += 1

    m = Layers(1)
    with gs.log_compiles():
        for _ in range(3):
            nnx.jit(step)(m)
    assert traced(caplog) == 1 and m.v000.value.tolist() == [3] * 4
    gone = weakref.ref(step)
    del step
    gc.collect()
    assert gone() is None


def test_what_changes_between_calls_is_seen() -> None:
    m = Plain()
    m.parts, m.table, m.pair = [nnx.Param(gnp.ones(2))], {}, (nnx.Param(gnp.ones(2)),)

    @nnx.jit
    def total(m: Any) -> Any:
        leaves = nnx.to_flat_state(nnx.state(m))
        return sum((leaf.value.sum() for _, leaf in leaves), gnp.zeros(()))

    assert total(m) == 4
    m.parts.append(nnx.Param(gnp.ones(2)))
    assert total(m) == 6
    m.table["a"] = nnx.Param(gnp.ones(3))
    assert total(m) == 9
    m.pair[0].value = gnp.ones(5)
    assert total(m) == 12
    m.parts[0], m.parts[1] = m.parts[1], m.parts[1]
    assert total(m) == 10
    m.__dict__["renamed"] = m.__dict__.pop("parts")
    assert total(m) == 10 and hasattr(m, "renamed")


def test_names_and_metadata_that_change_between_calls_are_seen() -> None:
    said = nnx.jit(lambda m: gnp.asarray([n for x in vars(m).values() for n in [x.number]]))
    names = nnx.jit(lambda m: gnp.asarray(len(next(iter(vars(m))))))
    m = Plain()
    m.long = nnx.Param(gnp.ones(2), number=1)
    assert said(m).tolist() == [1] and said(m).tolist() == [1] and names(m) == 4
    m.long.number = 2
    assert said(m).tolist() == [2]
    m.__dict__["x"] = m.__dict__.pop("long")
    assert names(m) == 1


def test_what_arguments_share_is_found_when_one_before_changes() -> None:
    a, b = Plain(), Plain()
    a.first, a.own = nnx.Param(gnp.zeros(2)), nnx.Param(gnp.ones(2))
    b.same, first = a.own, a.first

    @nnx.jit
    def f(a: Any, b: Any) -> None:
        del a.own
        b.same = a.first
        b.same += 1

    f(a, b)
    assert a.first is b.same is first and first.value.tolist() == [1, 1]


def test_values_that_do_not_change_are_the_same_arrays() -> None:
    m = Layers(3)
    before = {name: x.value for name, x in vars(m).items() if name != "steps"}

    @nnx.jit
    def step(m: Any) -> None:
        m.v000 += 1
        m.v002.value[0] = 7.0

    step(m)
    assert m.v001.value is before["v001"]
    assert m.v000.value.tolist() == [1, 1, 1, 1] and m.v002.value.tolist() == [7, 2, 2, 2]
    assert before["v000"].tolist() == [0, 0, 0, 0] and before["v002"].tolist() == [2, 2, 2, 2]


def test_donation_frees_what_modules_held() -> None:
    m = Layers(3)
    before = [x.value for x in vars(m).values() if isinstance(x, nnx.Variable)]

    @nnx.jit(donate_argnums=0)
    def step(m: Any, x: Any) -> Any:
        m.v000 += x
        return x * 2

    x = gnp.ones(4)
    assert step(m, x).tolist() == [2, 2, 2, 2]
    assert all(x.is_deleted() for x in before) and not x.is_deleted()
    assert m.v000.value.tolist() == [1, 1, 1, 1] and m.v001.value.tolist() == [1, 1, 1, 1]
    with pytest.raises(DeletedArrayError):
        np.asarray(before[0])
    named = nnx.jit(lambda *, m: m.v000.value + 1, donate_argnames="m")
    held = m.v000.value
    assert named(m=m).tolist() == [2, 2, 2, 2] and held.is_deleted()
    assert m.v000.value.tolist() == [1, 1, 1, 1]


def test_donation_of_what_shardings_move() -> None:
    rows = gs.NamedSharding(gs.make_mesh((4,), "x"), P("x"))
    m, kept = Layers(2), Layers(1)
    before = [m.v000.value, m.v001.value]
    step = nnx.jit(lambda m, k: (setattr(m, "v000", m.v001), k)[1], in_shardings=(rows, rows),
                   donate_argnums=0)  # fmt: skip
    assert step(m, kept) is kept
    assert all(x.is_deleted() for x in before) and kept.v000.value.sharding == rows
    assert m.v000 is m.v001 and m.v001.value.tolist() == [1] * 4
    nnx.jit(lambda m, k: step(m, k))(m, kept)
    assert m.v001.value.tolist() == [1] * 4 and kept.v000.value.tolist() == [0] * 4


def test_state_lies_where_shardings_say_changed_or_not() -> None:
    mesh = gs.make_mesh((4,), "x")
    rows, whole = gs.NamedSharding(mesh, P("x")), gs.NamedSharding(mesh, P())
    m = Layers(3)
    spec = nnx.StateSharding(
        {nnx.PathIn(("v000",)): rows, nnx.PathContains("v001"): None, ...: whole}
    )
    out = nnx.jit(lambda m, x: (x, m), in_shardings=(spec, rows), out_shardings=(whole, None))(
        m, np.ones(8)
    )
    assert out[1] is m and out[0].sharding == whole
    assert m.v000.value.sharding == rows and m.v002.value.sharding == whole
    made = nnx.jit(lambda: Layers(2), out_shardings=rows)()
    assert made.v001.value.sharding == rows


def test_shardings_of_a_state_are_those_of_its_leaves() -> None:
    mesh = gs.make_mesh((4,), "x")
    state = nnx.state(Layers(2))
    state.v000.sharding = ("x",)
    shardings = nnx.get_named_sharding(state, mesh)
    nnx.jit(lambda state: None, in_shardings=(shardings,))(state)
    assert state.v000.value.sharding.spec == P("x") and state.v001.value.sharding.spec == P()
    specs = {"s": nnx.get_partition_spec(state)}
    over = nnx.shard_map(lambda d: d["s"].v000 * 2, mesh=mesh, in_specs=(specs,), out_specs=P("x"))
    assert over({"s": state}).sharding.spec == P("x")


def test_a_format_is_a_sharding() -> None:
    mesh = gs.make_mesh((2,), "x")
    rows = gs.Format(gs.Layout((0,)), gs.NamedSharding(mesh, P("x")))
    m = Layers(2)
    nnx.jit(lambda m: None, in_shardings=(nnx.StateSharding({...: rows}),))(m)
    assert m.v001.value.sharding.spec == P("x")


def test_shapes_are_enough_to_compile_for_shardings() -> None:
    rows = gs.NamedSharding(gs.make_mesh((2,), "x"), P("x"))
    f = nnx.jit(lambda m, x: m.v001.value + x, in_shardings=(rows, rows))
    abstract = nnx.eval_shape(lambda: Layers(2))
    compiled = f.lower(abstract, gs.ShapeDtypeStruct((4,), "float64")).compile()
    m = nnx.jit(lambda: Layers(2), out_shardings=rows)()
    y = compiled(m, gs.device_put(np.ones(4), rows))
    assert y.tolist() == [2] * 4 and y.sharding == rows
    live = len(gs.live_arrays())
    assert f.eval_shape(Layers(2), np.ones(4)).shape == (4,)
    gc.collect()
    assert len(gs.live_arrays()) == live


def test_uneven_dims_are_fine() -> None:
    mesh = gs.make_mesh((4,), "x")
    m = Plain()
    m.v = nnx.Param(gnp.ones(6))
    with mesh:
        assert nnx.jit(lambda m: m.v.value.sum(), in_shardings=(P("x"),))(m) == 6
    assert m.v.value.sharding.spec == P("x")


def test_methods_and_decorators() -> None:
    class Counter(nnx.Module):
        """It counts."""

        def __init__(self) -> None:
            self.count = nnx.Variable(gnp.zeros((), int))

        @nnx.jit
        def step(self, by: Any) -> Any:
            """Count on."""
            self.count += by
            return self.count.value

        @nnx.jit(static_argnums=1)
        def twice(self, how: str, x: Any) -> Any:
            return x + x if how == "sum" else x * x

    c = Counter()
    assert c.step(2) == 2 and Counter.step(c, 3) == 5 and c.count.value == 5
    assert c.twice("sum", 3) == 6 and c.twice("product", 3) == 9
    assert isinstance(Counter.step, nnx.JitWrapped)
    assert Counter.step.__name__ == "step" and Counter.step.__doc__ == "Count on."
    assert Counter.step.__wrapped__ is not None
    wrapped = nnx.jit(lambda m: m, in_shardings=(None,), static_argnums=())
    assert wrapped.in_shardings == (None,) and wrapped.out_shardings is None
    assert wrapped.static_argnums == ()


def test_callables_of_any_kind() -> None:
    class Slots:
        __slots__ = ()

        def __call__(self, m: Any, x: Any) -> Any:
            return m.v001.value * x

        def method(self, m: Any, x: Any) -> Any:
            return m.v001.value + x

    m, own = Layers(2), Slots()
    first, second = nnx.jit(own.method), nnx.jit(own.method)
    del first
    assert second(m, 2.0).tolist() == [3] * 4 and nnx.jit(own)(m, 2.0).tolist() == [2] * 4
    assert nnx.jit(functools.partial(own, x=5.0))(m).tolist() == [5] * 4
    assert nnx.jit(nnx.clone)(m) is not m


def test_static_arguments_beside_shardings() -> None:
    mesh = gs.make_mesh((2,), "x")
    rows = gs.NamedSharding(mesh, P("x"))
    m = Layers(1)

    @nnx.jit(static_argnums=1, in_shardings=(rows, rows))
    def f(m: Any, n: int, x: Any) -> Any:
        return m.v000.value * n + x

    y = f(m, 3, np.ones(4))
    assert y.tolist() == [1, 1, 1, 1] and m.v000.value.sharding == y.sharding == rows


def test_the_first_of_any_number_of_arguments_may_be_static_counted_from_the_end() -> None:
    rows = gs.NamedSharding(gs.make_mesh((2,), ("x",)), gs.P("x"))

    @nnx.jit(static_argnums=-2, in_shardings=(rows,))
    def f(*args: Any) -> Any:
        return args[1] * args[0]

    made = f(3, gs.numpy.arange(4.0))
    assert made.tolist() == [0, 3, 6, 9] and made.sharding == rows


def test_functions_within_each_other_keep_references() -> None:
    inner = nnx.jit(lambda a, b: (setattr(a, "again", b), b)[1])

    @nnx.jit
    def outer(m: Any) -> Any:
        b = inner(m, m.b)
        assert b is m.b and m.again is b
        m.b.v += 1
        return m.again

    m = Plain()
    m.b = Plain()
    m.b.v = nnx.Param(gnp.zeros(2))
    b = m.b
    assert outer(m) is b and m.again is b and b.v.value.tolist() == [1, 1]


def test_what_only_reads_may_be_called_with_modules_of_outside() -> None:
    class Scale(nnx.Module):
        def __init__(self) -> None:
            self.factor, self.calls = nnx.Param(gnp.full(2, 3.0)), nnx.Variable(gnp.zeros(()))

        @nnx.jit
        def __call__(self, x: Any) -> Any:
            return x * self.factor

        @nnx.jit
        def counted(self, x: Any) -> Any:
            self.calls[...] += 1
            return x * self.factor

    m, mesh = Scale(), gs.make_mesh((2,), "x")
    over = {"mesh": mesh, "in_specs": P("x"), "out_specs": P("x")}
    for transform in (gs.vmap, gs.jit, nnx.jit, lambda f: gs.shard_map(f, **over)):
        assert transform(lambda x: m(x))(gnp.ones((4, 2))).tolist() == [[3, 3]] * 4
        with pytest.raises(TraceContextError, match=r"m\.calls"):
            transform(lambda x: m.counted(x))(gnp.ones((4, 2)))
    assert m.calls.value == 0 and m.factor.value.tolist() == [3, 3]
    assert m.counted(1.0).tolist() == [3, 3] and m.calls.value == 1


def test_a_body_of_a_loop_takes_modules_as_arguments_of_its_own() -> None:
    m = Plain()
    m.v = nnx.Param(gnp.ones(2))

    @nnx.jit
    def f(m: Any, x: Any) -> Any:
        graphdef, state = nnx.split(m)

        def body(_: Any, carry: Any) -> Any:
            state, x = carry
            m = nnx.merge(graphdef, state)
            m.v.value = m.v.value * 2
            return nnx.state(m), x + m.v.value.sum()

        state, x = gs.lax.fori_loop(0, 3, body, (state, x))
        nnx.update(m, state)
        return x

    assert f(m, 0.0) == 28 and m.v.value.tolist() == [8, 8]


def test_keys_cross_the_boundary() -> None:
    m = Plain()
    m.key, m.count = nnx.RngKey(gs.random.key(0)), nnx.RngCount(gnp.zeros((), int))

    @nnx.jit
    def draw(m: Any) -> Any:
        key = gs.random.fold_in(m.key.value, m.count.value)
        m.count += 1
        return gs.random.normal(key, (3,))

    expected = [gs.random.normal(gs.random.fold_in(gs.random.key(0), n), (3,)) for n in range(2)]
    assert np.array_equal(draw(m), expected[0]) and np.array_equal(draw(m), expected[1])
    assert m.key.value.dtype == gs.random.key(0).dtype


def test_eval_shape_makes_nothing_and_changes_nothing() -> None:
    m = Layers(2)

    @nnx.jit
    def step(m: Any, x: Any) -> Any:
        m.v000.value = m.v000.value.sum()
        m.extra = nnx.Param(x)
        return m, x * 2

    live = len(gs.live_arrays())
    new, y = step.eval_shape(m, gs.ShapeDtypeStruct((10**6, 10**6), "float32"))
    assert y.shape == (10**6, 10**6) and len(gs.live_arrays()) == live
    assert new is not m and new.v000.shape == () and isinstance(new.v000.value, gs.ShapeDtypeStruct)
    assert m.v000.shape == (4,) and not hasattr(m, "extra")
    abstract = nnx.eval_shape(lambda: Layers(2))
    assert nnx.graphdef(abstract) == nnx.graphdef(m)
    again = nnx.eval_shape(step, abstract, 1.0)[0]
    assert again.v000.shape == () and abstract.v000.shape == (4,)


def test_static_and_other_arguments_that_lie_nowhere() -> None:
    mesh = gs.make_mesh((4,), "x")
    rows, whole = gs.NamedSharding(mesh, P("x")), gs.NamedSharding(mesh, P())

    def f(n: int, m: Any, x: Any, k: int) -> Any:
        return m.v001.value + n, x * k

    own = nnx.jit(f, static_argnums=(0, -1), in_shardings=(rows, whole), donate_argnums=(1, 2))
    assert own.static_argnums == (0, 3)
    m = Layers(2)
    for _ in range(2):
        total, product = own(3, m, 2.0, 5)
        assert total.tolist() == [4] * 4 and float(product) == 10
        assert m.v000.value.sharding == total.sharding == rows
        m.v000.value = m.v001.value = gnp.ones(4)


def test_all_values_are_on_the_device_of_the_call() -> None:
    m, device = Layers(2), gs.devices()[1]
    nnx.jit(lambda m: None, device=device)(m)
    assert m.v000.value.devices() == m.v001.value.devices() == {device}


def test_functions_that_equal_each_other_are_kept_apart() -> None:
    class Scaled:
        def __init__(self, by: float) -> None:
            self.by = by

        def __eq__(self, other: object) -> bool:
            return type(other) is Scaled

        def __hash__(self) -> int:
            return 0

        def __call__(self, x: Any) -> Any:
            return x * self.by

    two, three = Scaled(2), Scaled(3)
    assert [float(nnx.jit(f)(1.0)) for f in (two, three, Scaled(4))] == [2, 3, 4]


def test_eval_shape_leaves_static_arguments_as_they_are() -> None:
    marks = object(), object()

    def f(n: Any, m: Any, *, k: Any = marks[1], other: Any) -> Any:
        assert (n, k) == marks
        return m.v000.value, other.v000.value.sum()

    own = nnx.jit(f, static_argnums=0, static_argnames="k")
    for said in ({"k": marks[1]}, {}):
        shape, total = own.eval_shape(marks[0], Layers(1), other=Layers(1), **said)
        assert shape.shape == (4,) and total.shape == ()


def test_modules_and_arrays_may_come_in_one_container() -> None:
    m = Layers(1)

    @nnx.jit
    def step(pair: Any, *, k: Any) -> Any:
        own, more = pair
        own.v000 += more["x"]
        return k[0].v000.value, k[1] + 1

    value, number = step((m, {"x": 2.0}), k=[m, 1])
    assert value.tolist() == m.v000.value.tolist() == [2] * 4 and number == 2
    two = collections.namedtuple("two", ["m", "x"])
    result = nnx.jit(lambda pair: two(pair.m, pair.m.v000 + pair.x))(two(m, 3.0))
    assert type(result) is two and result.m is m and result.x.tolist() == [5] * 4


def test_names_of_attributes_are_free() -> None:
    m = Plain()
    m._level, m._plan, m._metadata = 3, nnx.Param(gnp.ones(2), _level=5), "text"

    @nnx.jit
    def step(m: Any) -> None:
        m._plan += 1
        m._level += 1

    step(m)
    step(m)
    assert m._level == 5 and m._plan.value.tolist() == [3, 3] and m._plan._level == 5
    assert vars(nnx.clone(m)).keys() == {"_level", "_plan", "_metadata"}


def test_graphdefs_cross_into_functions_of_arrays() -> None:
    m = Layers(2)
    graphdef, state = nnx.split(m)

    @gs.jit
    def step(graphdef: Any, state: Any) -> Any:
        m = nnx.merge(graphdef, state)
        m.v000 += 1
        m.steps += 1
        return nnx.split(m)

    graphdef, state = step(*step(graphdef, state))
    new = nnx.merge(graphdef, state)
    assert new.steps == 2 and new.v000.value.tolist() == [2] * 4 and m.steps == 0
    assert gs.tree.leaves(graphdef) == [] and gs.tree.map(len, graphdef) is graphdef
    keys = gs.random.split(gs.random.key(0), 3)
    graphdef, state = gs.vmap(lambda key: nnx.split(nnx.Linear(2, 4, rngs=nnx.Rngs(key))))(keys)
    assert nnx.merge(graphdef, state).kernel.shape == (3, 2, 4)


def test_stages() -> None:
    m = Layers(2)

    @nnx.jit(donate_argnums=1)
    def step(m: Any, x: Any) -> Any:
        m.v000 += x
        return m.v001.value * x

    x = gnp.ones(4)
    stage = step.trace(m, x)
    assert stage.out_info[2].shape == (4,) and stage.in_avals[0][1].shape == (4,)
    lowered = stage.lower(lowering_platforms=("cpu",))
    assert "multiply" in lowered.as_text() and lowered.cost_analysis()["flops"] >= 4
    assert lowered.compiler_ir() is not None and lowered.out_tree.num_leaves == 2
    compiled = step.lower(m, x).compile()
    for each in (stage, lowered, compiled):
        assert each.donate_argnums == (2,) and each.in_tree.num_leaves == 3
        assert each.args_info[0][1].donated
        assert "nnx" in repr(each) and "step" in repr(each)
    assert m.v000.value.tolist() == [0] * 4 and not x.is_deleted()
    assert compiled(m, x).tolist() == [1] * 4
    assert m.v000.value.tolist() == [1] * 4 and x.is_deleted()
    other = Layers(2)
    compiled(other, gnp.ones(4))
    assert other.v000.value.tolist() == [1] * 4
    assert compiled.memory_analysis().argument_size_in_bytes == 3 * 32
    assert compiled.cost_analysis()["flops"] >= 4 and compiled.runtime_executable() is not None
    assert compiled.as_text() and compiled.out_tree == lowered.out_tree
    assert compiled.input_shardings[0][1] == compiled.output_shardings[2]
    assert compiled.input_formats[0][1].sharding == compiled.input_shardings[0][1]
    for call in (compiled.call, type(compiled).call, type(lowered).from_flat_info):
        with pytest.raises(NotImplementedError):
            call(m, x)
    with pytest.raises(ArgumentTypeError, match="and was Layers of steps, v000, v001 when"):
        compiled(Layers(3), gnp.ones(4))


def test_neither_wrappers_nor_plans_keep_modules_alive() -> None:
    step = nnx.jit(lambda m: m.v000.value.sum())
    m = Layers(2)
    step(m)
    step(m)
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(m), weakref.ref(m.v000), weakref.ref(m.v000.value)
        del m
        assert [x() for x in gone] == [None] * 3
    finally:
        gc.enable()


def test_without_tracing_it_does_the_same() -> None:
    m = Layers(2)
    with gs.disable_jit():
        out = nnx.jit(lambda m, x: (m.v000.copy_from(m.v001), m, x * 2)[1:])(m, 2.0)
    assert out[0] is m and out[1] == 4 and m.v000.value.tolist() == [1] * 4

    def fails(m: Any) -> None:
        m.v000.value[0] = 5
        raise ArithmeticError

    with gs.disable_jit(), pytest.raises(ArithmeticError):
        nnx.jit(fails)(m)
    assert m.v000.value.tolist() == [1] * 4


def test_data_of_the_host_are_laid_out_as_results() -> None:
    mesh = gs.make_mesh((4,), "x")
    rows = gs.NamedSharding(mesh, P("x"))
    step = nnx.jit(lambda m: (np.arange(8.0), m.v000 * 2), out_shardings=rows)
    for x in (made := step(Layers(1))):
        assert isinstance(x, gs.Array) and x.sharding == rows
    assert made[0].tolist() == list(range(8)) and made[1].tolist() == [0] * 4
    with pytest.raises(ArgumentTypeError, match="leaf 1 of"):
        nnx.jit(lambda m: (m.v000.value, "text"), out_shardings=rows)(Layers(1))


def test_a_cleared_cache_is_traced_again(caplog: Any) -> None:
    caplog.set_level(logging.WARNING, "gpushard.jit")
    calls = []

    @nnx.jit
    def step(m: Any) -> Any:
        calls.append(1)
        return m.v000 + 1

    m = Layers(1)
    assert repr(step).startswith("<nnx.jit of ") and repr(step).endswith("step>")
    for count in (1, 1):
        step(m)
        assert len(calls) == count
    step.clear_cache()
    step(m)
    assert len(calls) == 2


def changed(**parts: Any) -> nnx.Module:
    """Return a Module that has some parts of another kind."""
    m = Plain()
    m.a, m.b, m.e = nnx.Param(gnp.ones(2)), gnp.ones(2), "text"
    m.c = m.a
    for name, part in parts.items():
        setattr(m, name, part)
    return m


DIFFERENT: dict[str, tuple[dict[str, Any], str]] = {
    "a static value": ({"b": 3}, r"args\[0\]\.b is 3, and was an array when"),
    "another static value": ({"e": 1}, r"\.e is 1, and was 'text' when"),
    "no alias": (
        {"c": nnx.Param(gnp.ones(2))},
        r"\.c is Param\(\), and was an object that occurred",
    ),
    "an array": ({"c": gnp.ones(2)}, r"\.c is an array, and was an object that occurred before"),
    "another kind": ({"a": nnx.Cache(gnp.ones(2))}, r"\.a is Cache\(\), and was Param\(\) when"),
    "metadata": (
        {"a": nnx.Param(gnp.ones(2), u=1)},
        r"\.a is Param\(u=1\), and was Param\(\) when",
    ),
    "a container": ({"b": {"k": 1}}, r"\.b is dict of k, and was an array when"),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_compiled_stage_says_where_a_graph_differs(name: str) -> None:
    parts, words = DIFFERENT[name]
    compiled = nnx.jit(lambda m: m.a * 2).lower(changed()).compile()
    assert compiled(changed()).tolist() == [2, 2]
    with pytest.raises(ArgumentTypeError, match=words):
        compiled(changed(**parts))


def test_an_object_that_no_name_reaches() -> None:
    class Holder:
        """What is looked into by no search."""

    holder: Any = Holder()
    holder.v = nnx.Param(gnp.ones(2))

    @nnx.jit
    def step(x: Any) -> None:
        holder.v.value = x

    with pytest.raises(TraceContextError, match="of a captured object, a Param that") as caught:
        step(gnp.zeros(2))
    assert caught.value.path == "" and holder.v.value.tolist() == [1, 1]
