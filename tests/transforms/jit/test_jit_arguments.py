"""What `jit` makes of functions, of their arguments and of what they close over."""

from __future__ import annotations

import dataclasses
import functools
import gc
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import errors, lax, testing
from gpushard._transforms.jit import jit as module
from gpushard._transforms.values.user_functions import parameter_names

P = gs.P


@dataclasses.dataclass(frozen=True)
class Scaled:
    """A function that equals others."""

    by: int

    def __call__(self, x: Any) -> Any:
        return x * self.by


class Bare:
    """A function without a hash."""

    __hash__ = None  # type: ignore[assignment]

    def __call__(self, x: Any) -> Any:
        return x + 1

    def method(self, x: Any) -> Any:
        return x + 2


@gs.tree_util.register_dataclass
@dataclasses.dataclass
class Pair:
    """A pytree."""

    a: Any
    b: Any


def _last(*args: Any) -> Any:
    return args[0] * args[-1]


def _named(x: Any, *, a: int = 1, b: int = 0) -> Any:
    return x * a - b


def _down(x: Any, n: int) -> Any:
    return x if n == 0 else gs.jit(_down, static_argnums=1)(x + 1, n - 1)


KINDS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "partial": (lambda x: gs.jit(functools.partial(np.multiply, 3))(x), [3, 6]),
    "partial, static": (
        lambda x: gs.jit(functools.partial(_named, a=2), static_argnames="b")(x, b=1), [1, 3]
    ),
    "equal functions": (lambda x: gs.jit(Scaled(3))(x) + gs.jit(Scaled(4))(x), [7, 14]),
    "no hash": (gs.jit(Bare()), [2, 3]),
    "bound": (gs.jit(Bare().method), [3, 4]),
    "twice": (gs.jit(gs.jit(lambda x: -x)), [-1, -2]),
    "of vmap": (gs.jit(gs.vmap(lambda x: x * 5)), [5, 10]),
    "last of any": (lambda x: gs.jit(_last, static_argnums=-1)(x, 9, 4), [4, 8]),
    "names, swapped": (
        lambda x: gs.jit(_named, static_argnames=("a", "b"))(x, b=2, a=3), [1, 4]
    ),
    "numbers, swapped": (lambda x: gs.jit(_last, static_argnums=(2, 0))(5, x, 7), [35, 35]),
    "first number, given by name": (
        lambda x: gs.jit(lambda n, x: [x] * n, static_argnums=0)(n=1, x=x)[0], [1, 2]
    ),
    "last number, given by name": (
        lambda x: gs.jit(lambda x, n: [x] * n, static_argnums=1)(x, n=1)[0], [1, 2]
    ),
    "recursion": (lambda x: gs.jit(_down, static_argnums=1)(x, 4), [5, 6]),
    "default": (lambda x: gs.jit(_named)(x), [1, 2]),
    "nothing": (lambda x: gs.jit(lambda x, none, more: x)(x, None, {"a": None}), [1, 2]),
    "dataclass": (lambda x: gs.jit(lambda p: Pair(p.b, p.a))(Pair(x, None)).b, [1, 2]),
    "staticmethod": (lambda x: gs.jit(staticmethod(_named))(x), [1, 2]),
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_functions_of_all_kinds(name: str) -> None:
    function, want = KINDS[name]
    for _ in range(2):
        assert np.broadcast_to(function(gnp.asarray([1.0, 2.0])), 2).tolist() == want


def test_arguments_by_number_of_a_function_that_takes_any() -> None:
    def are_numbers(*args: Any) -> list[bool]:
        return [type(x) is int for x in args]

    for number, static in ((-2, [1, 0]), (-1, [0, 1]), (0, [1, 0]), (2, [0, 0]), (-3, [0, 0])):
        made = gs.jit(are_numbers, static_argnums=number)(1, 2)
        assert [x.item() for x in made] == static
        give = gs.jit(lambda *args: [x + 1 for x in args], donate_argnums=number)
        pair = [gnp.ones(3), gnp.ones(3)]
        memory = give.lower(*pair).compile().memory_analysis()
        assert memory.alias_size_in_bytes == sum(static) * pair[0].nbytes
        give(*pair)
        assert [x.is_deleted() for x in pair] == [bool(own) for own in static]
    first = gs.jit(lambda a, *rest: [type(x) is int for x in (a, *rest)], static_argnums=1)
    assert [x.item() for x in first(1, 2)] == [False, True]


def test_a_name_of_an_argument_without_one_is_another_argument() -> None:
    f = gs.jit(lambda a, /, **others: [type(a) is int, type(others["a"]) is int], static_argnums=0)
    assert [x.item() for x in f(1, a=2)] == [True, False]


def test_methods() -> None:
    class Model:
        @gs.jit
        def plus(self: Any, x: Any) -> Any:
            return x + 1

    gs.tree.register_static(Model)
    model = Model()
    assert isinstance(model.plus, types.MethodType) and model.plus == model.plus
    assert model.plus(1.0).item() == 2
    assert model.plus.lower(model, 1.0).compile()(model, 2.0).item() == 3


def test_another_jit_finds_what_was_traced() -> None:
    calls = []

    def f(x: Any, n: int = 1) -> Any:
        calls.append(n)
        return x * n

    for _ in range(50):
        gs.jit(f)(1.0)
    assert calls == [1] and len(module._caches[f]) == 1
    gs.jit(f, static_argnums=1)(1.0, 2)
    gs.jit(f, static_argnames="n")(1.0, 2)  # the same options
    assert calls == [1, 2]
    alive = weakref.ref(f)
    del f
    gc.collect()
    assert alive() is None


def test_what_cannot_be_compared_is_forgotten_with_it() -> None:
    made = gs.jit(Bare())
    made(1.0)
    assert made._cache in module._every and made._cache.nbytes
    gs.clear_caches()
    assert not made._cache.nbytes
    before = len(module._every)
    del made
    gc.collect()
    assert len(module._every) < before


def test_numpy_arrays_of_outside_are_taken_as_they_are() -> None:
    held = np.ones(2)
    f = gs.jit(lambda x: x + held)
    assert f(gnp.zeros(2)).tolist() == [1, 1]
    held[:] = 7
    assert f(gnp.zeros(2)).tolist() == [1, 1]
    both = gs.jit(lambda x: (x * held, held.fill(2)))
    assert both(gnp.ones(2))[0].tolist() == [7, 7]


def test_constants_may_be_deleted() -> None:
    held = gnp.ones(2)
    f = gs.jit(lambda x: x + held, donate_argnums=0)
    assert f(held).tolist() == [2, 2] and held.is_deleted()
    assert f(gnp.zeros(2)).tolist() == [1, 1]


def test_given_twice_and_donated_once() -> None:
    x = gnp.ones(2)
    assert gs.jit(lambda x, y: (x, x + y), donate_argnums=0)(x, x)[1].tolist() == [2, 2]
    assert x.is_deleted()
    y = gnp.ones(2)
    kept, view, new = gs.jit(lambda x: (x, x.reshape(2, 1), x * 2), donate_argnums=0)(y)
    kept[0] = 5
    assert (kept.tolist(), view.tolist(), new.tolist()) == ([5, 1], [[1], [1]], [2, 2])
    first, second = gs.jit(lambda x: [x + 1] * 2)(gnp.ones(2))
    first[0] = 5
    assert (first.tolist(), second.tolist()) == ([5, 2], [2, 2])
    first, second = gs.jit(lambda x: [x + 1] * 2)(gnp.ones(2))
    first.delete()
    assert second.tolist() == [2, 2]
    z = np.ones(2)
    gs.jit(lambda x: x * 2, donate_argnums=0)(z)
    assert z.tolist() == [1, 1]


@gs.jit
def _assigns(x: Any) -> Any:
    x[0] = 9
    return x


WITHIN: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "assignment stays inside": (lambda x: (_assigns(x), x), ([9, 2], [1, 2])),
    "a number is an array inside": (lambda x: gs.jit(lambda n: n.astype(int))(2.5) + x, [3, 4]),
    "so is a result": (lambda x: gs.jit(lambda x: 3.0)(x).reshape(1), [3]),
    "numbers keep their weak type": (
        lambda x: gs.jit(lambda n: n * x.astype("float32"))(2.0).astype("float64"), [2, 4]
    ),
    "static ones stay": (
        lambda x: gs.jit(lambda x, n: sum([x] * n), static_argnums=1)(x, 3), [3, 6]
    ),
    "where it is told to": (
        lambda x: gs.jit(lambda x: x + gnp.ones(2), device=gs.devices()[0])(x), [2, 3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WITHIN)
def test_a_function_in_another_sees_what_it_sees_alone(name: str) -> None:
    function, want = WITHIN[name]
    found = gs.jit(function)(gnp.asarray([1.0, 2.0]))
    assert gs.tree.map(lambda x: x.tolist(), found) == want


def test_in_a_mapped_function_too() -> None:
    x = gnp.ones((2, 2))
    both = gs.vmap(lambda x: (_assigns(x), x, gs.jit(lambda n: n.astype(int))(1.5)))(x)
    assert [x.tolist() for x in both] == [[[9, 1], [9, 1]], [[1, 1], [1, 1]], [1, 1]]
    with pytest.raises(errors.ArgumentError, match="list, which has no hash"):
        gs.vmap(lambda x: gs.jit(lambda x, n: x, static_argnums=1)(x, [1]))(x)
    with pytest.raises(errors.ArgumentTypeError, match="argument x"):
        gs.jit(lambda y: gs.jit(lambda x: 1)(object()))(x)


def test_a_device() -> None:
    with testing.runtime(host_devices=4):
        last = gs.devices()[-1]
        f = gs.jit(lambda x: (x + 1, gnp.zeros(2)), device=last)
        for _ in range(2):
            for x in (np.ones(2), gs.device_put(np.ones(2), gs.devices()[1])):
                assert [y.device for y in f(x)] == [last, last]
        inner = gs.jit(lambda x: f(x)[0])
        assert inner(np.ones(2)).device == last
        assert f.lower(np.ones(2)).compile().output_shardings[0] == gs.SingleDeviceSharding(last)
        own = gs.jit(lambda x: x, backend=last.platform, keep_unused=True, inline=True)
        assert own(1.0).item() == 1


LEAKS: dict[str, Callable[[Any], Any]] = {
    "bool": bool,
    "asarray": np.asarray,
    "device_get": gs.device_get,
    "add": lambda x: x + 1,
    "argument": gs.jit(lambda x: x),
    "assigned": lambda x: gnp.zeros(2).__setitem__(slice(None), x),
    "assigned to": lambda x: x.__setitem__(0, 1),
    "sharding": lambda x: x.sharding,
    "mapped": gs.vmap(lambda x: x + 1),
    "loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c + 1, x),
    "condition": lambda x: lax.cond(True, lambda x: x, lambda x: -x, x),
    "closure of a loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c + x.sum(), 0.0),
    "shapes": lambda x: gs.eval_shape(lambda y: y + x, 1.0),
    "iteration": list,
    "item": lambda x: x[0].item(),
    "print": lambda x: f"{x[0]:.2f}",
}


@pytest.mark.parametrize("transform", [gs.jit, gs.vmap])
@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_says_where_it_is_used(name: str, transform: Any) -> None:
    kept: list[Any] = []
    transform(lambda first: kept.append(first) or first)(gnp.ones((2, 2)))
    with pytest.raises(errors.TracedValueError, match=r"which has returned.*argument first") as e:
        LEAKS[name](kept[0])
    assert __file__ in str(e.value)


def test_traced_values_can_be_referred_to_weakly_and_go() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append(weakref.ref(x))
        raise KeyError

    with pytest.raises(KeyError):
        gs.jit(f)(gnp.ones(2))
    gc.collect()
    assert seen[0]() is None


@pytest.mark.parametrize("transform", [gs.jit, gs.vmap])
def test_arrays_of_outside_are_not_assigned_what_is_no_data(transform: Any) -> None:
    out = gnp.zeros(2)

    def part(x: Any) -> Any:
        out[0] = x.sum()
        return x

    def whole(x: Any) -> Any:
        out[...] = x
        return x

    def at(x: Any) -> Any:
        out[x.astype(int) * 0] = 1
        return x

    for body in (part, whole, at):
        with pytest.raises(
            errors.TracedValueError, match=r"an array from outside.*test_jit_arguments"
        ):
            transform(body)(gnp.ones((2, 2)))
    assert out.tolist() == [0, 0]


def test_several_threads_trace_at_once() -> None:
    barrier, found = threading.Barrier(6), []

    @gs.jit
    def f(x: Any) -> Any:
        barrier.wait(10)  # all are inside
        return gs.vmap(lambda v: lax.fori_loop(0, 3, lambda i, c: c + v, v))(x)

    def run(n: int) -> None:
        found.append(f(gnp.full(n, 2.0)).tolist())

    threads = [threading.Thread(target=run, args=(n,)) for n in range(1, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(map(len, found)) == [1, 2, 3, 4, 5, 6]
    assert all(set(values) == {8.0} for values in found)


def test_a_call_within_its_own_trace() -> None:
    depth: list[int] = []

    @gs.jit
    def f(x: Any) -> Any:
        if len(depth) < 3:
            depth.append(1)
            return f(x) + 1
        return x

    assert f(gnp.zeros(1)).tolist() == [3]


def test_an_error_in_a_trace_leaves_nothing_behind() -> None:
    fail = [True]

    @gs.jit
    def f(x: Any) -> Any:
        with gs.named_scope("outer"):
            return gs.vmap(lambda v: lax.cond(v > 0, lambda: v, lambda: 1 / (not fail[0]) + v))(x)

    with pytest.raises(ZeroDivisionError):
        f(gnp.ones(2))
    fail.clear()
    fail.append(False)
    assert f(gnp.asarray([1.0, -1.0])).tolist() == [1, 0]
    assert "outer" not in gs.make_jaxpr(lambda x: x + 1)(1.0)


def test_names_of_parts() -> None:
    @gs.named_scope("head")
    def head(x: Any) -> Any:
        return x * 2

    @gs.jit
    def f(x: Any) -> Any:
        with gs.named_scope("a"), gs.named_scope("b"):
            x = head(x)
            x = lax.fori_loop(0, 2, lambda i, c: c + 1, x)
        return -x

    text = f.lower(1.0).as_text().splitlines()
    assert sum(line.endswith("# a/b/head") for line in text) == 1
    assert any("= for " in line and line.endswith("# a/b") for line in text)
    assert not any("negative" in line and "#" in line for line in text)
    assert "a/b/head" in f.lower(gnp.ones(3)).compile().as_text()


def test_an_operation_that_is_laid_out_anew_keeps_the_name_of_its_part() -> None:
    with testing.runtime(host_devices=4, host_domains=4):
        mesh = gs.make_mesh((4,), ("x",))
        x, w = (
            gs.device_put(np.ones(shape, "f"), gs.NamedSharding(mesh, gs.P(*[None] * dim, "x")))
            for shape, dim in (((8, 8, 8), 2), ((8, 8), 1))
        )

        def f(x: Any, w: Any) -> Any:
            with gs.named_scope("part"):
                total = x.sum(2)  # which `jit` scatters over the columns that `w` has
            return total + w

        text = gs.jit(f).lower(x, w).compile().as_text()
    assert "= sum a  # part; 768 bytes received" in text


def test_what_is_known_of_values() -> None:
    with testing.runtime(host_devices=2):
        sharding = gs.NamedSharding(gs.make_mesh((2,), ("x",)), P("x"))
        x = gs.device_put(np.ones(4, np.float32), sharding)
        assert gs.typeof(x) == gs.ShapeDtypeStruct((4,), np.float32, sharding)
        seen: list[Any] = []
        gs.jit(lambda x: seen.append(gs.typeof(x)) or x)(x)
        gs.vmap(lambda x: seen.append(gs.typeof(x)) or x)(x)
        assert seen == [gs.ShapeDtypeStruct(shape, np.float32) for shape in ((4,), ())]
        for number in (True, 1, 1.0, 1j):
            assert gs.typeof(number) == gs.device_put(number).aval
        assert gs.typeof(np.ones((2, 0), np.int8)) == gs.ShapeDtypeStruct((2, 0), np.int8)


def test_shapes_with_static_arguments() -> None:
    f = gs.jit(lambda x, n: [x] * n, static_argnums=1)
    wide = gs.ShapeDtypeStruct((3,), np.float32)
    assert gs.eval_shape(f, wide, 2) == f.eval_shape(wide, 2) == [wide, wide]
    text, shapes = gs.make_jaxpr(lambda x, n: {"y": x * n}, 1, return_shape=True)(wide, 3)
    assert "multiply a 3" in text and shapes == {"y": wide}
    assert gs.make_jaxpr(f)(wide, 1) == gs.make_jaxpr(lambda x: [x])(wide)
    with gs.disable_jit():
        assert gs.eval_shape(f, wide, 1) == [wide]


@pytest.mark.parametrize("traced", [gs.jit, gs.pjit])
def test_a_list_of_shardings_is_one_for_each_argument(traced: Any) -> None:
    rows = gs.NamedSharding(gs.make_mesh((2,), "x"), P("x"))
    f = traced(lambda x, y: [x, x + y], in_shardings=[rows, None], out_shardings=[None, rows])
    assert [x.sharding for x in f(np.ones(8), 1.0)] == [rows, rows]


def test_keys_that_are_equal_are_traced_apart_and_each_once() -> None:
    traced = []

    @gs.jit
    def f(x: dict[Any, Any]) -> Any:
        (key,) = x
        traced.append(key)
        return x[key] + (2 if key is True else 1)

    assert [float(f({key: 1.0})) for key in (1, True, 1, True, 1)] == [2, 3, 2, 3, 2]
    assert len(traced) == 2


@pytest.mark.parametrize("change", [lambda x: x.__setitem__(0, 1), lambda x: gnp.put(x, 0, 1)])
def test_a_branch_changes_nothing_of_what_is_around_it(change: Any) -> None:
    def f(x: Any) -> Any:
        return gs.lax.cond(x.sum() > 0, lambda: (change(x), x.sum())[1], lambda: 0.0)

    with pytest.raises(gs.errors.TracedValueError, match="changes a value of the one around it"):
        gs.jit(f)(np.ones(3))


def test_functions_without_a_signature() -> None:
    x = np.arange(6.0).reshape(2, 3)
    part = gs.jit(getattr, static_argnums=1)
    np.testing.assert_array_equal(part(x, "T"), x.T)
    assert repr(part) == "<jit of getattr>"
    with pytest.raises(errors.ArgumentTypeError, match="argument 0 is a str"):
        part("text", "T")
    with pytest.raises(errors.ArgumentError, match="argument 1 of shape") as caught:
        gs.vmap(max)(x, np.float64(3))
    assert caught.value.argument == "in_axes"


def test_names_of_as_many_arguments_as_are_given() -> None:
    for f, count, names in (
        (lambda a, b, *c: a, 4, ["a", "b", "c[0]", "c[1]"]), (lambda a, b, *c: a, 1, ["a"]),
        (lambda a, *, b=1: a, 2, ["a", "1"]), (getattr, 2, ["0", "1"]),
    ):  # fmt: skip
        assert parameter_names(f, count) == names


def test_places_of_arguments_hold_within_others_and_for_stages() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), "x")
        rows, whole = gs.NamedSharding(mesh, P("x")), gs.NamedSharding(mesh, P())
        placed = gs.jit(lambda x, y: (x * 2, y + 1), in_shardings=(rows, whole))
        x = np.arange(8.0)
        inner = gs.jit(lambda x: placed(x, x))(gs.device_put(x, whole))
        stage = placed.lower(x, gs.device_put(x, whole)).compile()
        for first, second in (inner, stage(x, gs.device_put(x, whole)), placed(x, x)):
            assert first.sharding == rows and second.sharding == whole
            assert first.tolist() == (x * 2).tolist() and second.tolist() == (x + 1).tolist()
        assert stage.input_shardings == ((rows, whole), {})
        assert stage.output_layouts == (gs.Layout((0,)), gs.Layout((0,)))
