"""What `jit` takes, keeps and refuses, and its stages."""

from __future__ import annotations

import copy
import dataclasses
import gc
import logging
import math
import pickle
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import errors, lax, nnx, stages, testing
from gpushard._movement.buffer import ShardedBuffer
from gpushard._runtime.host.nests import c_compiler

P = gs.P
NS = gs.NamedSharding


class Counted:
    """A function that counts how often Python runs it."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.calls = 0

    def __call__(self, *args: Any, **named: Any) -> Any:
        self.calls += 1
        return self.function(*args, **named)


def test_python_runs_once_for_arguments_of_a_kind() -> None:
    f = Counted(lambda x, y: x + y)
    jitted = gs.jit(f)
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        x = gs.device_put(np.arange(8.0), NS(mesh, P("x")))
        for _ in range(3):
            jitted(x, x)
        assert f.calls == 1
        jitted(x, gs.device_put(x, NS(mesh, P())))  # lies elsewhere
        jitted(x.astype("float32"), x)  # another type
        jitted(x[:4], x[:4])  # another shape
        jitted(x, 2.0)  # a number
        assert f.calls == 5
        assert jitted(x, 3.0).tolist() == [3, 4, 5, 6, 7, 8, 9, 10]  # another number
        assert f.calls == 5
        jitted.clear_cache()
        jitted(x, x)
        gs.clear_caches()
        jitted(x, x)
        assert f.calls == 7


def test_many_shapes_are_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpushard._transforms.jit.jit._CACHE_BYTES", 100_000)
    jitted = gs.jit(lambda x: x * 2)
    for n in range(1, 80):
        jitted(np.zeros(n))
    assert jitted._cache.nbytes <= 100_000


def test_a_function_is_not_kept_alive() -> None:
    def function(x: Any) -> Any:
        return x + 1

    alive = weakref.ref(function)
    gs.jit(function)(gnp.ones(2))
    del function
    gc.collect()
    assert alive() is None


@pytest.mark.parametrize(
    ("options", "args", "named", "calls"),
    [
        ({"static_argnums": 1}, (3,), {}, 1),
        ({"static_argnums": (-1,)}, (3,), {}, 1),
        ({"static_argnames": "n"}, (3,), {}, 1),
        ({"static_argnames": ("n",)}, (), {"n": 3}, 1),
        ({"static_argnums": 1}, (), {"n": 3}, 1),
    ],
)
def test_static_arguments(options: Any, args: Any, named: Any, calls: int) -> None:
    def f(x: Any, n: int) -> Any:
        seen.append(n)
        return gnp.broadcast_to(x, (n, *x.shape))

    seen: list[int] = []
    jitted = gs.jit(f, **options)
    x = gnp.ones(2)
    for _ in range(2):
        assert jitted(x, *args, **named).shape == (3, 2)
    assert seen == [3] * calls
    assert jitted(x, 4).shape == (4, 2)


def test_donated_arguments_are_deleted() -> None:
    x, y = gnp.ones(3), gnp.ones(3)
    jitted = gs.jit(lambda x, y: x + y, donate_argnums=0)
    assert jitted(x, y).tolist() == [2, 2, 2]
    assert x.is_deleted() and not y.is_deleted()
    with pytest.raises(errors.DeletedArrayError):
        jitted(x, y)
    named = gs.jit(lambda x, y: {"x": x * y}, donate_argnames="y")
    z = gnp.ones(3)
    named(y, y=z)
    assert z.is_deleted() and not y.is_deleted()


def test_shardings_in_and_out() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        split, whole = NS(mesh, P("x", "y")), NS(mesh, P())
        value = np.arange(16.0).reshape(4, 4)
        f = gs.jit(lambda x, y: (x @ y, {"sum": x.sum()}), in_shardings=(split, None),
                   out_shardings=(NS(mesh, P("y", "x")), {"sum": whole}))  # fmt: skip
        product, total = f(value, gs.device_put(value, whole))
        assert product.sharding == NS(mesh, P("y", "x"))
        assert total["sum"].sharding == whole
        np.testing.assert_allclose(np.asarray(product), value @ value)
        with pytest.raises(errors.ShardingError, match="in_shardings"):
            f(gs.device_put(value, whole), value)
        one = gs.jit(lambda x: (x, x + 1), out_shardings=whole)  # a prefix
        assert [x.sharding for x in one(gs.device_put(value, split))] == [whole, whole]
        with gs.set_mesh(mesh):
            bare = gs.jit(lambda x: x * 2, out_shardings=P("x"))
            assert bare(value).sharding == NS(mesh, P("x"))


def test_what_lies_where_when_nothing_is_said() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        x = gs.device_put(np.arange(8.0), NS(mesh, P("x")))
        y = gs.jit(lambda x: gnp.exp(x) + gnp.arange(8) + np.ones(8))(x)
        assert y.sharding == x.sharding and y.committed
        assert not gs.jit(lambda x: x + 1)(np.ones(3)).committed


def test_arrays_of_outside_are_constants() -> None:
    c = gnp.ones(3)
    f = gs.jit(lambda x: (c, x + c))
    first, total = f(c)
    first[0] = 5
    c[1] = 7
    assert f(gnp.zeros(3))[1].tolist() == [1, 1, 1]
    assert total.tolist() == [2, 2, 2] and c.tolist() == [1, 7, 1]


def test_results_are_values() -> None:
    def f(x: Any) -> Any:
        y = x + 1
        return x, y, y, y.reshape(1, 3)

    x = gnp.zeros(3)
    a, b, c, d = gs.jit(f)(x)
    for each in (a, b, c, d):
        each[0] = 9
    assert x.tolist() == [0, 0, 0]
    assert [a.tolist(), b.tolist(), c.tolist()] == [[9, 0, 0], [9, 1, 1], [9, 1, 1]]


def test_methods_and_decorators() -> None:
    class Model:
        scale = 3

        @gs.jit
        def plain(self: Any, x: Any) -> Any:
            return x

        @classmethod
        def make(cls) -> Any:
            return cls()

    @gs.jit(static_argnames="n")
    def power(x: Any, n: int) -> Any:
        """Raise it."""
        return x**n

    assert power(gnp.asarray(3), n=2).item() == 9
    assert power.__name__ == "power" and power.__doc__ == "Raise it."
    gs.tree.register_static(Model)
    assert Model().plain(gnp.ones(2)).tolist() == [1, 1]


def test_jit_in_jit_and_keys() -> None:
    inner = gs.jit(lambda x: x * 2)
    assert gs.jit(lambda x: inner(x) + inner(x))(gnp.ones(2)).tolist() == [4, 4]
    draw = gs.jit(lambda key: gs.random.normal(key, (4,)))
    key = gs.random.key(3)
    assert draw(key).tolist() == gs.random.normal(key, (4,)).tolist()
    split = gs.jit(lambda key: gs.random.split(key, 3)[1:])
    assert (split(key) == gs.random.split(key, 3)[1:]).all()


def test_switched_off_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    f = gs.jit(lambda x: float(x) + 1)
    with gs.disable_jit():
        assert f(gnp.asarray(2.0)) == 3
    with gs.log_compiles(), caplog.at_level(logging.WARNING, "gpushard.jit"):
        g = gs.jit(lambda x: x + 1)
        g(1.0)
        g(2.0)
    assert len(caplog.records) == 1


def test_shapes_without_data() -> None:
    x = gs.ShapeDtypeStruct((2, 3), "float32")
    made = gs.eval_shape(lambda x, k: {"p": x @ x.T, "k": k}, x,
                         gs.random.key(0))  # fmt: skip
    assert (made["p"].shape, made["p"].dtype) == ((2, 2), np.float32)
    assert made["k"].dtype == gs.random.key(0).dtype


def test_a_failing_body_leaves_arguments_as_they_were() -> None:
    x = gnp.arange(3.0)

    @gs.jit
    def f(x: Any) -> Any:
        x[0] = 9
        raise KeyError("of the body")

    with pytest.raises(KeyError, match="of the body"):
        f(x)
    assert x.tolist() == [0, 1, 2]
    assert gs.jit(lambda x: x + 1)(x).tolist() == [1, 2, 3]


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "if": (lambda x: x if x.sum() > 0 else -x, errors.TracedBoolError, r"test_jit_calls.*where"),
    "int": (lambda x: int(x[0]), errors.TracedIntegerError, "argument x"),
    "float": (lambda x: float(x[0]), errors.ConcretizationError, "argument x"),
    "range": (lambda x: range(x[0]), errors.TracedIntegerError, "argument x"),
    "shape": (lambda x: gnp.zeros(x[0].astype(int)), errors.TracedIntegerError, "integers"),
    "item": (lambda x: x[0].item(), errors.ConcretizationError, "argument x"),
    "numpy": (lambda x: np.linalg.inv(np.asarray(x)), errors.TracedArrayError, "argument x"),
    "mask": (lambda x: x[x > 1], errors.ConcretizationError, "size="),
    "nonzero": (lambda x: gnp.nonzero(x), errors.ConcretizationError, "size="),
    "unique": (lambda x: gnp.unique(x), errors.ConcretizationError, "size="),
    "sharding": (lambda x: x.sharding, errors.TracedArrayError, "x.sharding"),
    "shards": (lambda x: x.addressable_shards, errors.TracedArrayError, "lies"),
    "pickle": (lambda x: __import__("pickle").dumps(x), errors.TracedValueError, "pickling"),
    "no array": (lambda x: "text", errors.ArgumentTypeError, "result"),
    "shape error": (lambda x: x + gnp.ones(5), errors.ArgumentError, "broadcast"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_are_no_data(name: str) -> None:
    function, kind, said = REFUSED[name]
    x = gnp.arange(3.0)
    with pytest.raises(kind, match=said):
        gs.jit(lambda x: function(x))(x)
    assert x.tolist() == [0, 1, 2]


def test_leaks() -> None:
    kept: list[Any] = []
    gs.jit(lambda x: kept.append(x) or x)(gnp.ones(2))
    with pytest.raises(errors.TracedValueError, match="has returned"):
        kept[0] + 1
    with pytest.raises(errors.TracedValueError, match="has returned"):
        gs.jit(lambda x: x + kept[0])(gnp.ones(2))
    with pytest.raises(errors.TracedValueError, match="has returned"):
        gs.reshard(kept[0], gs.SingleDeviceSharding(gs.devices()[0]))


def _two(x: Any, n: int) -> Any:
    return x * n


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "no function": (lambda: gs.jit(3), errors.ArgumentTypeError, "function"),
    "number": (lambda: gs.jit(_two, static_argnums=2), errors.ArgumentError, "static_argnums"),
    "name": (lambda: gs.jit(_two, static_argnames="k"), errors.ArgumentError, "static_argnames"),
    "donated name": (
        lambda: gs.jit(_two, donate_argnames="k"), errors.ArgumentError, "donate_argnames",
    ),
    "both": (
        lambda: gs.jit(_two, static_argnums=1, donate_argnums=1), errors.ArgumentError, "donated",
    ),
    "unhashable": (
        lambda: gs.jit(_two, static_argnums=1)(1, [2]), errors.ArgumentError, "list, which has no",
    ),
    "argument": (lambda: gs.jit(_two)(1, "n"), errors.ArgumentTypeError, "argument n"),
    "object": (lambda: gs.jit(_two)(object(), 2), errors.ArgumentTypeError, "argument x"),
    "keyword with in_shardings": (
        lambda: gs.jit(_two, in_shardings=gs.SingleDeviceSharding(gs.devices()[0]))(x=1, n=2),
        errors.ArgumentError, "in_shardings",
    ),
    "prefix": (
        lambda: gs.jit(lambda x: x, out_shardings=(None, None))(1), errors.TreeError, "out_shard",
    ),
    "place": (
        lambda: gs.jit(lambda x: x, out_shardings="x")(1), errors.ArgumentTypeError, "out_shard",
    ),
    "spec without a mesh": (
        lambda: gs.jit(lambda x: x, out_shardings=P("x"))(1), errors.ArgumentError, "mesh",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments(name: str) -> None:
    call, kind, said = WRONG[name]
    with pytest.raises(kind, match=said):
        call()


def test_stages() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        x = gs.device_put(np.ones((4, 4), np.float32), NS(mesh, P("x", "y")))
        f = gs.jit(lambda x, n: (x @ x.T) * n, out_shardings=NS(mesh, P("y", "x")),
                   static_argnums=1, donate_argnums=0)  # fmt: skip
        traced = f.trace(x, 2)
        assert isinstance(traced, stages.Traced) and "matmul" in traced.jaxpr
        assert traced.out_info.shape == (4, 4) and traced.out_info.dtype == np.float32
        assert traced.args_info == ((stages.ArgInfo((4, 4), np.dtype(np.float32), True),), {})
        assert traced.donate_argnums == (0,)
        lowered = traced.lower()
        assert isinstance(lowered, stages.Lowered) and "reshard" in lowered.as_text()
        assert "PartitionSpec" in lowered.as_text(debug_info=True) or "P(" in lowered.as_text(
            debug_info=True
        )
        assert lowered.cost_analysis()["flops"] >= 2 * 4**3
        compiled = lowered.compile()
        assert compiled.input_shardings == ((x.sharding,), {})
        assert compiled.output_shardings == NS(mesh, P("y", "x"))
        memory = compiled.memory_analysis()
        assert memory.peak_memory_in_bytes >= memory.argument_size_in_bytes == 64
        with pytest.raises(errors.ArgumentTypeError, match="shapes or types"):
            compiled(gnp.ones((2, 2), "float32"))
        with pytest.raises(errors.ArgumentTypeError, match="compiled for"):
            compiled({"x": x})
        with pytest.raises(errors.ShardingError, match="elsewhere"):
            compiled(gs.device_put(x, NS(mesh, P())))
        with pytest.raises(errors.ArgumentTypeError, match="traced or mapped"):
            gs.jit(lambda x: compiled(x))(x)
        with pytest.raises(errors.ArgumentError, match="dialect"):
            lowered.as_text("stablehlo")
        with pytest.raises(errors.ArgumentError, match="compiler_options"):
            lowered.compile({"fast": True})
        made = compiled(x)
        assert made.sharding == NS(mesh, P("y", "x")) and x.is_deleted()
        np.testing.assert_array_equal(np.asarray(made), np.full((4, 4), 8.0))


def test_what_a_traced_function_gives_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Any] = []

    def check(buffer: Any) -> None:
        checked.append(buffer)

    monkeypatch.setattr(ShardedBuffer, "check", check)
    for checks in (True, False):
        with testing.runtime(host_devices=2, enable_checks=checks):
            made = gs.jit(lambda x: x + 1)(np.ones(4))
            assert any(buffer is made._live() for buffer in checked) == checks
            checked.clear()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "tanh", "expm1", "log", "log1p"])
def test_polynomials_are_close(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    info = np.finfo(dtype)
    parts = [
        rng.uniform(-1, 1, 20_000), rng.uniform(-110, 100, 20_000), rng.uniform(-760, 720, 20_000),
        np.exp(rng.uniform(-80, 0, 9_000)), -np.exp(rng.uniform(-80, 0, 9_000)),
        [0.0, -0.0, np.inf, -np.inf, np.nan, info.tiny, -info.tiny, float(info.max), 88.72, 709.7],
    ]  # fmt: skip
    value = np.concatenate(parts).astype(dtype)
    function = getattr(gnp, name)
    found = np.asarray(gs.jit(lambda x: function(x * 1) * 1)(value))
    with np.errstate(all="ignore"):
        want = getattr(np, name)(value.astype(np.longdouble))
        rounded = want.astype(dtype)
        unit = np.spacing(np.maximum(np.abs(rounded), info.tiny)).astype(np.longdouble)
    finite = np.isfinite(rounded)
    np.testing.assert_array_equal(found[~finite], rounded[~finite])
    error = np.abs(found[finite].astype(np.longdouble) - want[finite]) / unit[finite]
    assert error.max() <= 4.5
    np.testing.assert_array_equal(np.signbit(found[finite]), np.signbit(rounded[finite]))


@pytest.mark.parametrize(("dtype", "most"), [("float32", 7), ("float64", 4.5)])
def test_the_error_function_is_close(dtype: str, most: float) -> None:
    rng = np.random.default_rng(0)
    sizes = np.concatenate([rng.uniform(0, 7, 60_000), np.exp(rng.uniform(-80, 90, 9_000))])
    value = np.concatenate([sizes, -sizes, [0.0, -0.0, np.inf, -np.inf, np.nan]]).astype(dtype)
    found = np.asarray(gs.jit(lambda x: gs.special.erf(x))(value))
    want = np.array([math.erf(x) for x in value.astype(float)])
    unit = np.spacing(np.maximum(np.abs(want), np.finfo(dtype).tiny).astype(dtype))
    error = np.abs(found - want)[:-1] / unit[:-1]
    assert error.max() <= most and np.isnan(found[-1]) and np.abs(found[:-1]).max() == 1
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(value[:-1]))


def test_bits_do_not_depend_on_how_arrays_are_split() -> None:
    value = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)

    def f(x: Any) -> Any:
        e = gnp.exp(x - x.max(axis=-1, keepdims=True))
        return gnp.tanh(e / e.sum(axis=-1, keepdims=True) * x.mean(axis=-1, keepdims=True))

    with testing.runtime(backend="host", host_devices=6):
        mesh = gs.make_mesh((6,), ("x",))
        found = [gs.jit(f)(gs.device_put(value, NS(mesh, spec))) for spec in (P(), P("x"))]
        np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(found[1]))


@gs.jit
def _tripled(x: Any) -> Any:
    return x * 3


def test_pickled_functions() -> None:
    assert pickle.loads(pickle.dumps(_tripled)) is _tripled is copy.deepcopy(_tripled)
    other = pickle.loads(pickle.dumps(gs.jit(_two, static_argnums=1)))
    assert np.allclose(other(gnp.ones(3), 2), _two(np.ones(3), 2))


def test_a_part_of_a_kernel_is_compiled_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    value = np.arange(40000.0)
    with testing.runtime(backend="host", host_devices=1):
        x = gnp.asarray(value)
        for kept in (None, 0, 100, 4096, 8000):
            c_compiler.compiled.cache_clear()
            files = list(tmp_path.rglob("*.so"))
            for path in files if kept is not None else []:
                part = path.read_bytes()[:kept]
                path.unlink()  # what is mapped stays as it is
                path.write_bytes(part)
            assert np.array_equal(gs.jit(lambda x: (x + 0.375) * 2 - 1)(x), (value + 0.375) * 2 - 1)
            (made,) = tmp_path.rglob("*.so")
            assert c_compiler._whole(made) and not caplog.records


def test_no_home(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", home)
    c_compiler.compiled.cache_clear()
    with testing.runtime(backend="host", host_devices=1):
        assert gs.jit(lambda x: (x + 1.125) * 2)(gnp.ones(40000)).sum() == 4.25 * 40000
    assert "home directory" in caplog.text
    c_compiler.compiled.cache_clear()


@pytest.mark.parametrize("shape", [(), (8, 6), (0, 4)])
def test_small_regions_are_one_straight_function(shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    value, number = rng.integers(-9, 9, shape).astype(np.float32), np.float32(3)
    mesh = gs.make_mesh((4, 2), ("x", "y"))

    def f(x: Any, n: Any) -> Any:
        y = x * n - 1
        return y, (y + x) * y, gs.numpy.where(y > x, y, n), n * n

    for spec in (gs.P(), gs.P(*("x", "y")[: len(shape)])):
        x = gs.device_put(value, gs.NamedSharding(mesh, spec))
        n = gs.device_put(number, gs.NamedSharding(mesh, gs.P()))
        for found, want in zip(gs.jit(f)(x, n), f(x, n), strict=True):
            assert found.aval == want.aval and found.sharding == want.sharding
            np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


def test_static_arguments_are_told_apart_by_the_types_inside() -> None:
    jitted = gs.jit(lambda x, pair: x * pair[0][0], static_argnums=1)
    x = gnp.arange(3)
    for pair in (((1,), 2), ((1.0,), 2), ((True,), 2)):
        assert jitted(x, pair).dtype == (x * pair[0][0]).dtype


@pytest.mark.parametrize("zero", [0.0, np.float32(0), 0j])
def test_static_zeros_are_told_apart_by_their_signs(zero: Any) -> None:
    jitted = gs.jit(lambda x, pair: gnp.copysign(x, np.real(pair[0])), static_argnums=1)
    assert [float(jitted(2.0, (n, "a"))) for n in (zero, -zero, zero)] == [2, -2, 2]


@dataclasses.dataclass(frozen=True)
class _Rate:
    value: Any
    name: str = dataclasses.field(default="", compare=False)


_NUMBERS = [
    0, False, 0.0, -0.0, 0j, complex(0, -0.0), np.float32(0), np.float32(-0.0), np.float64(0),
    np.int8(0), np.bool_(False), 1, True, 1.0, np.float32(1), np.int64(1), float("nan"),
    np.float32("nan"), "0", None, b"0",
]  # fmt: skip


@pytest.mark.parametrize(
    "wrap",
    [
        lambda x: x,
        lambda x: (x, "a"),
        lambda x: frozenset([(x,)]),
        lambda x: _Rate(x, str(id(x))),
        lambda x: ((_Rate((x, 2)),),),
    ],
)
def test_static_arguments_that_are_equal_are_told_apart(wrap: Any) -> None:
    """Each value is traced for once, in any order, and again for nothing."""
    numbers = [*_NUMBERS, *reversed(_NUMBERS), float("nan"), np.float32("nan")]
    seen: list[Any] = []

    def f(x: Any, static: Any) -> Any:
        seen.append(static)
        return x

    jitted = gs.jit(f, static_argnums=1)
    for number in numbers:
        jitted(1.0, wrap(copy.deepcopy(number)))
    assert len(seen) == len(_NUMBERS)


@dataclasses.dataclass
class _Rated:
    """A pytree whose second field is no leaf."""

    x: Any
    rate: Any


gs.tree.register_dataclass(_Rated, data_fields=["x"], meta_fields=["rate"])


def _signed(tree: _Rated) -> _Rated:
    rate = np.real(getattr(tree.rate, "value", tree.rate))
    return _Rated(gnp.copysign(tree.x * 1, rate), tree.rate)


_CALLS: dict[str, Callable[[_Rated], _Rated]] = {
    "jit": gs.jit(_signed),
    "scan": lambda c: lax.scan(_signed_step, c, None, length=1)[0],
    "fori_loop": lambda c: lax.fori_loop(0, 1, _signed_round, c),
    "cond": lambda c: lax.cond(gnp.asarray(True), _signed, _signed, c),
}


def _signed_step(c: _Rated, _: Any) -> tuple[_Rated, None]:
    return _signed(c), None


def _signed_round(i: Any, c: _Rated) -> _Rated:
    return _signed(c)


@pytest.mark.parametrize("name", _CALLS)
@pytest.mark.parametrize(
    "wrap", [lambda x: x, lambda x: (x,), _Rate], ids=["bare", "tuple", "record"]
)
def test_structures_that_are_equal_are_told_apart(name: str, wrap: Any) -> None:
    """Aux data of pytrees are static."""
    gs.clear_caches()
    for number in (0.0, -0.0, 0, np.float32(-0.0), -0.0, 0.0):
        result = _CALLS[name](_Rated(gnp.ones(2), wrap(number)))
        assert repr(result.rate) == repr(wrap(number))
        assert np.signbit(np.asarray(result.x)).tolist() == [bool(np.signbit(number))] * 2


def test_keys_that_are_equal_are_told_apart() -> None:
    jitted = gs.jit(lambda x: x)
    for key in (1, True, 1.0, 1):
        (result,) = jitted({key: 0.0})
        assert type(result) is type(key)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("donated", [False, True])
def test_memory_of_donated_arguments_is_let_go_of(compiled: bool, donated: bool) -> None:
    def f(x: Any) -> Any:
        for _ in range(3):
            x = gnp.sort(x + 1, 0)
        return x

    jitted = gs.jit(f, donate_argnums=(0,) if donated else ())
    with testing.runtime(backend="host", host_devices=2):  # where sorting takes no more
        mesh = gs.make_mesh((2,), ("x",))
        value = np.random.default_rng(0).random((512, 512))
        x = gs.device_put(value, NS(mesh, P(None, "x")))
        stages_of = jitted.lower(x).compile()
        predicted = stages_of.memory_analysis()
        result = (stages_of if compiled else jitted)(x)
        peak = sum(d.memory_stats()["peak_bytes_in_use"] for d in gs.devices())
        assert peak <= predicted.peak_memory_in_bytes <= 1.05 * peak
        assert peak == (2 if donated else 3) * value.nbytes
        assert predicted.alias_size_in_bytes == donated * value.nbytes
        np.testing.assert_allclose(np.asarray(result), np.sort(value, 0) + 3)


@pytest.mark.parametrize("jit", [gs.jit, gs.pjit, nnx.jit])
def test_memory_of_donated_arguments_that_move_is_let_go_of(jit: Any) -> None:
    with testing.runtime(backend="host", host_devices=2):
        mesh = gs.make_mesh((2,), ("x",))
        x = gs.device_put(np.ones((512, 512)))
        f = jit(lambda x: gnp.sort(gnp.sort(x + 1, 0) + 1, 0),
                in_shardings=NS(mesh, P(None, "x")), donate_argnums=0)  # fmt: skip
        f(x).block_until_ready()
        peaks = [d.memory_stats()["peak_bytes_in_use"] for d in gs.devices()]
        assert x.is_deleted() and peaks == [1.5 * 8 * 512**2, 8 * 512**2]


def test_a_donated_argument_that_is_a_result_stays() -> None:
    for result in (
        gs.jit(lambda x: (x, x + 1), donate_argnums=0)(gnp.ones(3))[0],
        gs.jit(lambda x: x, donate_argnums=0).lower(gnp.ones(3)).compile()(gnp.ones(3)),
    ):
        assert result.tolist() == [1, 1, 1]


def test_costs_tell_what_is_read_from_what_is_written() -> None:
    costs = gs.jit(lambda x: x.sum()).lower(gnp.ones(8)).cost_analysis()
    assert (costs["bytes read"], costs["bytes written"]) == (64, 8)
    assert costs["bytes accessed"] == 72


def _softmax(x: Any) -> Any:
    e = gnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


MEMORY: dict[str, Any] = {
    "chain": lambda x, mesh: gnp.tanh(2 * x + 1) * x - x / 3,
    "softmax": lambda x, mesh: _softmax(x),
    "reshard": lambda x, mesh: gs.reshard(x, NS(mesh, P(None, "x"))) + 1,
    "all_gather": lambda x, mesh: gs.shard_map(
        lambda block: gs.lax.all_gather(block, "x", tiled=True),
        mesh=mesh, in_specs=P("x"), out_specs=P(None),
    )(x),
    "cond": lambda x, mesh: gs.lax.cond(
        x[0, 0] > 0, lambda x: gnp.sort(x, 1), lambda x: x + 1, x
    ),
}  # fmt: skip


@pytest.mark.parametrize("donated", [False, True])
@pytest.mark.parametrize("name", MEMORY)
def test_the_peak_of_memory_is_predicted(name: str, donated: bool) -> None:
    where = {"backend": "host"} if name == "cond" else {}  # which sorts
    with testing.runtime(host_devices=4, **where):
        mesh = gs.make_mesh((4,), ("x",))
        x = gs.device_put(np.ones((512, 512), np.float32), NS(mesh, P("x")))
        jitted = gs.jit(lambda x: MEMORY[name](x, mesh), donate_argnums=(0,) if donated else ())
        compiled = jitted.lower(x).compile()
        predicted = compiled.memory_analysis().peak_memory_in_bytes
        compiled(x)
        peak = sum(d.memory_stats()["peak_bytes_in_use"] for d in gs.devices())
        assert peak <= predicted <= 1.05 * peak


LAID_OUT: list[Callable[[Any], Any]] = [
    lambda x: gnp.zeros_like(x) + 1,
    lambda x: gnp.full_like(x, gnp.arange(6)),
    lambda x: gnp.ones_like(x.T, shape=(5, 3), dtype="int8"),
    lambda x: gnp.empty_like(x.sum()),
    lambda x: lax.scan(lambda c, row: (c + row, gnp.ones_like(row)), gnp.zeros_like(x[0]), x),
    lambda x: lax.cond(x.sum() > 0, gnp.zeros_like, lambda y: y, x),
    lambda x: gs.vmap(lambda row: row + gnp.ones_like(row) + gnp.ones_like(x).sum())(x),
    lambda x: gnp.nonzero(x > 2, size=5),
    lambda x: gnp.argwhere(x > 2, size=5),
    lambda x: x[gnp.nonzero(x[:, 0] > 2, size=5)[0]],
]
"""What asks how another array lies."""


@pytest.mark.parametrize("number", range(len(LAID_OUT)))
def test_what_is_laid_out_as_others_is_so_under_jit(number: int) -> None:
    f, value = LAID_OUT[number], np.arange(48.0).reshape(8, 6) % 7
    with testing.runtime(backend="host", host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        placed = [gs.device_put(value, gs.NamedSharding(mesh, s)) for s in (P("x", "y"), P("y"))]
        for x in (*placed, gnp.asarray(value)):
            for found, want in zip(gs.tree.leaves(gs.jit(f)(x)), gs.tree.leaves(f(x)), strict=True):
                assert found.sharding.is_equivalent_to(want.sharding, want.ndim)
                assert found.aval == want.aval and found.committed == want.committed
                np.testing.assert_array_equal(np.asarray(found), np.asarray(want))


@pytest.mark.parametrize("map_of", [lambda f: f, gs.jit])
@pytest.mark.parametrize("first", [0, 1])
def test_a_number_of_python_gives_way_and_an_array_of_one_does_not(map_of: Any, first: int) -> None:
    """Whichever comes first: programs are kept by the types of their operands."""
    for dtype, number in (("int8", 2), ("float32", 2.0), ("complex64", 2j), ("int8", True)):
        own = np.arange(3).astype(dtype)
        given = [number, np.array(number)]
        with testing.runtime(host_devices=2):
            for value in (given[first], given[1 - first]):
                made = map_of(lambda x, value=value: gnp.tensordot(x, value, 0))(gnp.asarray(own))
                assert made.dtype == np.multiply(own, value).dtype, (dtype, value)
                np.testing.assert_array_equal(made, np.multiply(own, value))
