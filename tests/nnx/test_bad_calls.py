"""Bad input of transforms: a typed error that says what is wrong, and nothing has changed."""

import collections
import dataclasses
import functools
import operator
import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import nnx
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    GpushardError,
    ShardingError,
    TraceContextError,
    TreeError,
    UnboundAxisError,
)
from tests.nnx.graphs import Plain, difference, objects_of

P = gs.P
MESH = gs.make_mesh((4,), "x")
ROWS, WHOLE = gs.NamedSharding(MESH, P("x")), gs.NamedSharding(MESH, P())
PARAMS = nnx.StateSharding({nnx.Param: ROWS})
TWO = nnx.StateSharding({nnx.PathContains("a"): ROWS, ...: WHOLE})


def yielding(m: Any) -> Any:
    """Yield what it takes: no function that can be traced."""
    yield m


def module() -> Any:
    m = Plain()
    m.w, m.b = nnx.Param(gnp.ones(8)), nnx.BatchStat(gnp.zeros((4, 2)))
    m.part, m.name = Plain(), "model"
    m.part.w = nnx.Param(gnp.ones(8))
    return m


def shared(m: Any) -> Any:
    other = nnx.clone(m)
    other.part.a = other.w
    return other


def with_static(m: Any, value: Any) -> Any:
    other = nnx.clone(m)
    other.part.options = value
    return other


def tagged(m: Any) -> Any:
    other = nnx.clone(m)
    other.part.w.tag = "t"
    return other


class Unhashable:
    __hash__ = None  # type: ignore[assignment]


def jit(f: Any, **options: Any) -> Any:
    return nnx.jit(f, **options)


def mapped(f: Any, **options: Any) -> Any:
    return nnx.shard_map(f, **{"mesh": MESH, "in_specs": P(), "out_specs": P(), **options})


def first(m: Any, *more: Any) -> Any:
    return m.w.value * 2


class Applied(nnx.Module):
    def __init__(self, part: Any) -> None:
        self.part = part

    def apply(self, x: Any) -> Any:
        return self.part.w * x

    __call__ = apply


@gs.tree_util.register_dataclass
@dataclasses.dataclass
class Holder:
    part: Any


def circle(m: Any) -> Any:
    other = nnx.clone(m)
    holder = Holder(other.part)
    other.part.again = holder
    return holder


def captured_list(m: Any) -> Any:
    m = nnx.clone(m)
    m.part.items = []
    return jit(lambda x: m.part.items.append(x))(1.0)


def under(make: Any) -> Any:
    """Make something where a mesh is around."""
    with gs.set_mesh(MESH):
        return make()


def assigned(m: Any) -> Any:
    """Assign to a Variable that is no argument."""

    def f(x: Any) -> Any:
        m.part.w.value = m.part.w.value + x
        return x

    return f


def beside_circle(m: Any) -> Any:
    def f(x: Any) -> Any:
        circle: list[Any] = []
        circle.append(circle)
        m.part.w.value = x
        return x

    return f


def half(m: Any) -> Any:
    """Assign to an argument first, and then to one that is none."""

    def f(other: Any, x: Any) -> Any:
        other.w += x
        m.w[0] = x

    return f


def renamed(m: Any) -> Any:
    def f(x: Any) -> Any:
        m.name = "other"
        return x

    return f


def deleted(m: Any) -> Any:
    def f(x: Any) -> Any:
        del m.part.w
        return x

    return f


def popped(m: Any) -> Any:
    return lambda x: (nnx.pop(m, nnx.Param), x)[1]


def updated(m: Any) -> Any:
    return lambda x: (nnx.update(m, {"part": {"w": x}}), x)[1]


def updated_at(m: Any, **state: Any) -> Any:
    return lambda x: (nnx.update(m, state), x)[1]


def passed_on(m: Any) -> Any:
    """Give an object that is no argument to another transform, which changes it."""
    inner = nnx.jit(lambda m, x: setattr(m.w, "value", x))
    return lambda x: (inner(m, x), x)[1]


def grown(m: Any) -> Any:
    """Give an object that is no argument to another transform, which adds to it."""
    inner = nnx.jit(lambda m, x: setattr(m, "extra", nnx.Param(x)))
    return lambda x: (inner(m, x), x)[1]


def marked(m: Any) -> Any:
    return lambda x: (setattr(m.w, "tag", "t"), x)[1]


def untagged(m: Any) -> Any:
    return lambda x: (delattr(m.part.w, "tag"), x)[1]


def looped(m: Any) -> Any:
    """Change an argument in the body of a loop, which is traced itself."""

    def f(m: Any, x: Any) -> Any:
        def body(n: Any, x: Any) -> Any:
            m.w.value = m.w.value + x
            return x

        return gs.lax.fori_loop(0, 2, body, x)

    return f


BAD: dict[str, tuple[Any, Any, str]] = {
    # What filters take
    "an uncovered Variable": (
        lambda m: jit(first, in_shardings=(PARAMS,))(m), ArgumentError, r"takes \.b, a BatchStat",
    ),
    "an uncovered Variable in shard_map": (
        lambda m: mapped(first, in_specs=(nnx.StateSharding({nnx.Param: P()}),))(m),
        ArgumentError, r"no filter takes \.b",
    ),
    "a Variable made inside that nothing covers": (
        lambda m: jit(lambda m: setattr(m, "c", nnx.Cache(gnp.ones(2))), in_shardings=(
            nnx.StateSharding({nnx.Param: ROWS, nnx.BatchStat: None}),
        ))(m), ArgumentError, r"takes \.c, a Cache",
    ),
    "a result that nothing covers": (
        lambda m: jit(nnx.clone, out_shardings=PARAMS)(m), ArgumentError, r"takes \.b",
    ),
    "... too early": (
        lambda m: nnx.StateSharding({...: ROWS, nnx.Param: WHOLE}), ArgumentError, "before other",
    ),
    # Aliases
    "aliases within one module": (
        lambda m: jit(first, in_shardings=(TWO,))(shared(m)),
        ArgumentError, r"in_shardings: a .*part\.a with .*'x'",
    ),
    "aliases in two arguments": (
        lambda m: jit(first, in_shardings=(ROWS, WHOLE))(m.part, m.part.w),
        ArgumentError, "in_shardings: a Param is",
    ),
    "a StateSharding and a sharding": (
        lambda m: jit(first, in_shardings=(TWO, ROWS))(m, m.part), ArgumentError, r"part\.w",
    ),
    "None and a sharding": (
        lambda m: jit(first, in_shardings=(None, ROWS))(m.part, m.part), ArgumentError, "None",
    ),
    "aliases of an argument and a result": (
        lambda m: jit(lambda m: m, in_shardings=(ROWS,), out_shardings=WHOLE)(m.part),
        ArgumentError, r"result\.w",
    ),
    "aliases in shard_map": (
        lambda m: mapped(first, in_specs=(P("x"), P()))(m.part, m.part), ArgumentError, "Param",
    ),
    "aliases by name in shard_map": (
        lambda m: mapped(lambda m, k: m.w.value, in_specs=(P("x"),))(m.part, k=m.part),
        ArgumentError, r"kwargs\['k'\]\.w",
    ),
    "aliases of a result in shard_map": (
        lambda m: mapped(lambda m: m, in_specs=(P("x"),), out_specs=P())(m.part),
        ArgumentError, r"result\.w",
    ),
    "aliases of a keyword argument and a result in shard_map": (
        lambda m: mapped(lambda *, k: k, in_specs=(), out_specs=P("x"))(k=m.part),
        ArgumentError, r"the keyword arguments.*k.*\.w",
    ),
    # What is changed that is no argument
    "a captured Variable": (
        lambda m: jit(assigned(m))(1.0), TraceContextError, r"m\.part\.w, a Param",
    ),
    "a captured Variable in shard_map": (
        lambda m: mapped(assigned(m))(1.0), TraceContextError, r"m\.part\.w",
    ),
    "a captured Variable in gs.jit": (
        lambda m: gs.jit(assigned(m))(1.0), TraceContextError, r"m\.part\.w",
    ),
    "a captured Variable in vmap": (
        lambda m: gs.vmap(assigned(m))(gnp.ones(2)), TraceContextError, r"m\.part\.w",
    ),
    "a captured Variable beside a list that holds itself": (
        lambda m: jit(beside_circle(m))(1.0), TraceContextError, r"m\.part\.w, a Param",
    ),
    "a part of a captured Variable": (
        lambda m: jit(half(m))(nnx.clone(m), 1.0), TraceContextError, r"m\.w, a Param",
    ),
    "an argument in a loop": (
        lambda m: jit(looped(m))(m, 1.0), TraceContextError, r"m\.w, a Param",
    ),
    "an operator that changes a captured Variable": (
        lambda m: jit(lambda x: (operator.iadd(m.w, x), x)[1])(1.0), TraceContextError, "of m.w,",
    ),
    "a copy into a captured Variable": (
        lambda m: jit(lambda x: (m.w.copy_from(nnx.Param(x)), x)[1])(1.0),
        TraceContextError, r"value of m\.w,",
    ),
    "a deletion of metadata of a captured Variable": (
        lambda m: jit(untagged(tagged(m)))(1.0), TraceContextError, r"deletion of 'tag' of m\.part",
    ),
    "metadata of a captured Variable": (
        lambda m: jit(marked(m))(1.0), TraceContextError, "'tag' of m.w",
    ),
    "an attribute of a captured Module": (
        lambda m: jit(renamed(m))(1.0), TraceContextError, "'name' of m, a Plain",
    ),
    "a deletion in a captured Module": (
        lambda m: jit(deleted(m))(1.0), TraceContextError, r"deletion of 'w' of m\.part",
    ),
    "pop of a captured Module": (lambda m: jit(popped(m))(1.0), TraceContextError, "'w' of m"),
    "update of a captured Module": (
        lambda m: jit(updated(m))(1.0), TraceContextError, r"m\.part\.w",
    ),
    "update that adds to a captured Module": (
        lambda m: jit(updated_at(m, new=1))(1.0), TraceContextError, "assignment to 'new' of m,",
    ),
    "update of a text of a captured Module": (
        lambda m: jit(updated_at(m, name="other"))(1.0), TraceContextError, "to 'name' of m,",
    ),
    "a captured Module that is passed on": (
        lambda m: jit(passed_on(m))(gnp.ones(8)), TraceContextError, r"m\.w",
    ),
    "a captured Module that is passed on and grows": (
        lambda m: jit(grown(m.part))(1.0), TraceContextError, "a change of m, a Plain",
    ),
    "an empty captured Module that is passed on and grows": (
        lambda m: jit(grown(Plain()))(1.0), TraceContextError, "a Plain that was made outside",
    ),
    # Arguments
    "a static Module": (
        lambda m: jit(first, static_argnums=0)(m), ArgumentTypeError, "static argument 0",
    ),
    "a static Module by name": (
        lambda m: jit(first, static_argnames="m")(m=m), ArgumentTypeError, "static argument 'm'",
    ),
    "a Module in a static tuple": (
        lambda m: jit(first, static_argnums=1)(m, (1, m)), ArgumentTypeError, "argument 1",
    ),
    "a static argument without hash": (
        lambda m: jit(first, static_argnums=1)(m, [1]), ArgumentError, "no hash",
    ),
    "a static value without hash": (
        lambda m: jit(first)(with_static(m, {1})), ArgumentTypeError,
        r"^an argument: the static value at \.part\.options is a set",
    ),
    "metadata without hash": (
        lambda m: jit(first)(nnx.Param(gnp.ones(2), names=["x"])),
        ArgumentTypeError, r"\.names is a list",
    ),
    "a static value without hash that is made": (
        lambda m: jit(lambda m: with_static(m, {1}))(m), ArgumentTypeError,
        r"^a result: the static value at \.part\.options is a set",
    ),
    "a Variable of a text": (
        lambda m: jit(first)(with_static(m, nnx.Param("text"))), ArgumentTypeError, r"options is",
    ),
    "a result that is no array": (
        lambda m: jit(lambda m: object())(m), ArgumentTypeError, "object",
    ),
    "a result with a sharding that is no array": (
        lambda m: jit(lambda m: "text", out_shardings=ROWS)(m),
        ArgumentTypeError, "leaf 0 of the result",
    ),
    "eval_shape of a number": (
        lambda m: nnx.eval_shape(3), ArgumentTypeError, "nnx.eval_shape.* must be a function",
    ),
    "keyword arguments with in_shardings": (
        lambda m: jit(first, in_shardings=(ROWS,))(m=m.part), ArgumentError, "by position",
    ),
    "a donated static argument": (
        lambda m: jit(first, static_argnums=0, donate_argnums=0), ArgumentError, "both static",
    ),
    "a number of no argument": (
        lambda m: jit(lambda m: m, donate_argnums=3), ArgumentError, "donate_argnums",
    ),
    "abstracted_axes": (lambda m: jit(first, abstracted_axes=1), ArgumentError, "must be None"),
    "a device with shardings": (
        lambda m: jit(first, in_shardings=ROWS, device=gs.devices()[0]), ArgumentError, "device",
    ),
    # Functions
    "a generator in jit": (lambda m: jit(yielding), ArgumentTypeError, "no generator"),
    "a generator in shard_map": (lambda m: mapped(yielding), ArgumentTypeError, "no generator"),
    "a number as a function": (lambda m: jit(3), ArgumentTypeError, "function"),
    "a number as a function of blocks": (
        lambda m: mapped(3), ArgumentTypeError, r"^nnx\.shard_map: .* must be a function",
    ),
    "a mesh that is none": (lambda m: mapped(first, mesh=4), ArgumentTypeError, "mesh"),
    "an unknown auto axis": (
        lambda m: mapped(first, auto={"z"}), ArgumentError, "auto names",
    ),
    # Shardings
    "names of dims that are a number": (
        lambda m: nnx.with_partitioning(gs.nn.initializers.zeros, 5), ArgumentTypeError,
        "sharding=5 must be a tuple",
    ),
    "names of dims that are a string": (
        lambda m: nnx.with_partitioning(gs.nn.initializers.zeros, "xy"), ArgumentTypeError,
        "sharding='xy' must be a tuple",
    ),
    "a sharding without hash": (
        lambda m: nnx.StateSharding({nnx.Param: [1]}), ArgumentTypeError, r"sharding \[1\]",
    ),
    "a sharding without hash in a State": (
        lambda m: nnx.StateSharding(nnx.State({"w": Unhashable()})), ArgumentTypeError, "no hash",
    ),
    "a filter without hash": (
        lambda m: nnx.StateSharding([([nnx.Param], ROWS)]), ArgumentTypeError, "no hash",
    ),
    "no mapping of shardings": (lambda m: nnx.StateSharding(3), ArgumentTypeError, "mapping"),
    "a StateSharding of numbers": (
        lambda m: jit(first, in_shardings=(nnx.StateSharding({...: 3}),))(m),
        ArgumentTypeError, "3",
    ),
    "a StateSharding for an array": (
        lambda m: jit(lambda x: x, in_shardings=(PARAMS,))(gnp.ones(8)),
        ArgumentTypeError, "it is for Modules",
    ),
    "a StateSharding for an array in shard_map": (
        lambda m: mapped(lambda x: x, in_specs=(nnx.StateSharding({...: P()}),))(gnp.ones(8)),
        ArgumentTypeError, "it is for Modules",
    ),
    "a spec without a mesh": (
        lambda m: jit(first, in_shardings=(nnx.StateSharding({...: P("x")}),))(m),
        ArgumentError, "mesh",
    ),
    "a state that lies elsewhere": (
        lambda m: jit(first, in_shardings=(WHOLE,))(placed(m)), ShardingError, r"argument m.*\.w",
    ),
    "a prefix of too many": (
        lambda m: jit(first, in_shardings=(ROWS, ROWS))(m.part), TreeError, "in_shardings",
    ),
    "a prefix of results": (
        lambda m: jit(first, out_shardings=(ROWS, ROWS))(m), TreeError, "out_shardings",
    ),
    "a prefix of other keys": (
        lambda m: jit(lambda d: 1, in_shardings=({"b": ROWS},))({"a": m.part}),
        TreeError, "in_shardings",
    ),
    "a spec of more dims": (
        lambda m: mapped(first, in_specs=(P(None, None, "x"),))(m.part), ArgumentError,
        r"argument m\.w",
    ),
    "a sharding of more dims": (
        lambda m: jit(first, in_shardings=(gs.NamedSharding(MESH, P(None, "x")),))(m.part),
        ShardingError, "ndim=",
    ),
    "an unknown axis": (
        lambda m: mapped(first, in_specs=(P("z"),))(m.part), ArgumentError, "axis 'z' is not in",
    ),
    "an unknown axis in a StateSharding": (
        lambda m: mapped(first, in_specs=(nnx.StateSharding({...: P("z")}),))(m.part),
        ArgumentError, "axis 'z' is not in",
    ),
    "a sharding in in_specs": (
        lambda m: mapped(first, in_specs=(ROWS,))(m.part), ArgumentTypeError, "use a PartitionSpec",
    ),
    "a dim that is not divided": (
        lambda m: mapped(first, in_specs=(P("x"),))(cut(m)), ArgumentError, "not divide",
    ),
    "a Variable that varies": (
        lambda m: mapped(varied)(m), ArgumentError, r"argument m\.part\.w.* varies along 'x'",
    ),
    "a result that varies": (
        lambda m: mapped(lambda m: m.w.value, in_specs=(P("x"),))(m.part),
        ArgumentError, "the result varies",
    ),
    "an unbound axis": (
        lambda m: jit(lambda m: gs.lax.psum(m.w.value, "x"))(m), UnboundAxisError, "'x'",
    ),
    # Modules that are bound to the function
    "a bound method": (
        lambda m: jit(Applied(m.part).apply), ArgumentTypeError, r"Try: .*m\.apply\(x\)\)\(m, x\)",
    ),
    "a callable Module": (
        lambda m: jit(Applied(m.part)), ArgumentTypeError, r"Try: .*: m\(x\)\)\(m, x\)",
    ),
    "a partial bound method": (
        lambda m: jit(functools.partial(Applied(m.part).apply)), ArgumentTypeError, "bound to it",
    ),
    "a partial Module": (
        lambda m: jit(functools.partial(functools.partial(first, m.part), 1)),
        ArgumentTypeError, "bound to it",
    ),
    "a partial Variable by name": (
        lambda m: jit(functools.partial(first, more=[m.w])), ArgumentTypeError, "bound to it",
    ),
    "a Module that is a pytree": (
        lambda m: types.new_class("M", (nnx.Module,), {"pytree": True}), ArgumentError,
        "class M cannot be a pytree",
    ),
    # What is shared, and what is captured
    "a container of no type": (
        lambda m: jit(first)(with_static(m, collections.deque([nnx.Param(1.0)]))),
        ArgumentTypeError, r"deque at \.part\.options has a Param.*Try: ",
    ),
    "a partial attribute": (
        lambda m: nnx.clone(with_static(m, functools.partial(first, m.part))), ArgumentTypeError,
        r"partial at \.part\.options has a Plain",
    ),
    "a circle through a dataclass": (
        lambda m: nnx.split(circle(m)), ArgumentError,
        r"at \.part\.again back into a Holder.*break the circle",
    ),
    "a list of a captured Module": (
        captured_list, TraceContextError, r"change of the list 'items' of m\.part, a Plain",
    ),
    "a pop of a Variable": (lambda m: nnx.pop(m.w, ...), ArgumentTypeError, "would be removed"),
    "a split of streams into less than none": (
        lambda m: nnx.Rngs(0, a=1).split({"a": -1}), ArgumentError, "split",
    ),
    "a fork of streams into a text": (
        lambda m: nnx.Rngs(0).fork(split="many"), ArgumentTypeError, "split",
    ),
    # Names beside values
    "a name that the mesh lacks": (
        lambda m: under(lambda: nnx.Param(gnp.ones((4, 2)), sharding=("y",))), ShardingError, "'y'",
    ),
    "more names than dims": (
        lambda m: under(lambda: nnx.Param(gnp.ones(4), sharding=("x", None))), ShardingError,
        "Param: .*has 2 names",
    ),
    "names that are no tuple": (
        lambda m: under(lambda: nnx.Param(gnp.ones(4), sharding="x")), ArgumentTypeError, "tuple",
    ),
    "a name that the mesh lacks in jit": (
        lambda m: under(lambda: jit(lambda x: nnx.Param(x, sharding=("y",)).value)(gnp.ones(4))),
        ShardingError, "'y'",
    ),
    # Stages
    "a compiled call with another structure": (
        lambda m: jit(first).lower(m).compile()(m.part), ArgumentTypeError,
        r"args\[0\] is Plain of w, and was Plain of b, name, part, w when it was lowered",
    ),
    "a compiled call with another shape": (
        lambda m: jit(first).lower(m.part).compile()(cut(m)), ArgumentTypeError, r"\.w is",
    ),
    "a compiled call with another static value": (
        lambda m: jit(first).lower(with_static(m, 2)).compile()(with_static(m, 3)),
        ArgumentTypeError, r"args\[0\]\.part\.options is 3, and was 2",
    ),
    "a compiled call with other metadata": (
        lambda m: jit(lambda x, *, m: x).lower(1.0, m=m).compile()(1.0, m=tagged(m)),
        ArgumentTypeError, r"kwargs\['m'\]\.part\.w is Param\(tag='t'\), and was Param\(\)",
    ),
    "a compiled call with more arguments": (
        lambda m: jit(first).lower(m).compile()(m, 1.0), ArgumentTypeError, "was compiled for",
    ),
    "a spec of more dims than a Variable has": (
        lambda m: jit(first, in_shardings=gs.NamedSharding(MESH, P(None, "x")))(m),
        ShardingError, r"argument m\.part\.w of shape \(8,\): .*2 entries",
    ),
    "options of a compiler": (
        lambda m: jit(first).lower(m).compile({"fast": 1}), ArgumentError, "no options",
    ),
    "a dialect": (lambda m: jit(first).lower(m).as_text("hlo"), ArgumentError, "dialect"),
    "a platform": (
        lambda m: jit(first).trace(m).lower(lowering_platforms=("tpu",)), ArgumentError, "tpu",
    ),
    # The two halves
    "a tag without context": (
        lambda m: nnx.to_tree((m,), ctxtag="other"), ArgumentError, "update_context",
    ),
    "aliases in to_tree": (
        lambda m: nnx.to_tree((m, m), prefix=(P("x"), P())), ArgumentError, "prefix",
    ),
    "leaves of no graph": (
        lambda m: nnx.NodeStates(nnx.graphdef(m), (nnx.State({"z": 1}),)), ArgumentError, "lack",
    ),
}  # fmt: skip


def varied(m: Any) -> None:
    m.w += 1
    m.part.w += gs.lax.axis_index("x")


def cut(m: Any) -> Any:
    other = nnx.clone(m.part)
    other.w.value = other.w.value[:6]
    return other


def placed(m: Any) -> Any:
    other = nnx.clone(m.part)
    other.w.value = gs.device_put(other.w.value, ROWS)
    return other


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_and_changes_nothing(name: str) -> None:
    call, error, said = BAD[name]
    m = module()
    before, objects = nnx.clone(m), objects_of(m)
    with pytest.raises(error, match=said) as caught:
        call(m)
    assert isinstance(caught.value, GpushardError)
    assert not any(name in str(caught.value) for name in ("_Pure", "Jitted", "_Updated"))
    assert difference(m, before, list(zip(objects, objects_of(before), strict=True))) == ""
    assert np.array_equal(jit(lambda m: m.w.value + m.part.w.value)(m), np.full(8, 2))


def test_errors_name_the_first_variable_that_leads_to_what_is_captured() -> None:
    m = module()

    def f(x: Any) -> Any:
        first = second = m.part
        second.w.value = x
        return first

    with pytest.raises(TraceContextError, match=r"of first\.w, a Param"):
        jit(f)(1.0)
    held = {"parts": [None, (m.part,)]}
    with pytest.raises(TraceContextError, match=r"of held\['parts'\]\[1\]\[0\]\.w, a Param"):
        jit(lambda x: setattr(held["parts"][1][0].w, "value", x))(1.0)  # type: ignore[index]


def test_there_are_enough_of_them() -> None:
    assert len(BAD) >= 40
