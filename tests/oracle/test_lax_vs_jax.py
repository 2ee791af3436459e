"""`gpushard.lax` beside `jax.lax`: the same calls on the same arrays, split anyhow.

Each call is made eagerly, under `jit`, and under `vmap` of both, with arrays of random shardings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs

AXES = {"a": 2, "b": 2}


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with 64-bit types in JAX."""
    with jax.enable_x64(True):
        yield


class _Case:
    """A call: `make(lax, *arrays)` of either library, on arrays of some shapes and types."""

    def __init__(
        self, make: Callable[..., Any], *arrays: str, mapped: bool = True, close: float = 1e-12
    ) -> None:
        self.make, self.arrays, self.mapped, self.close = make, arrays, mapped, close


def _array(text: str, random: np.random.Generator) -> Any:
    """Return an array from a type and lengths, such as "f8:3,4"; "+" is for positive numbers."""
    kind, _, lengths = text.partition(":")
    shape = tuple(int(n) for n in lengths.split(",") if n)
    positive = kind.endswith("+")
    dtype = np.dtype(kind.rstrip("+"))
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        low = 0 if positive or dtype.kind == "u" else -9
        return random.integers(low, 9, shape).astype(dtype)
    x = random.standard_normal(shape) * 2
    x = abs(x) + 0.1 if positive else x
    if dtype.kind == "c":
        x = x + 1j * random.standard_normal(shape)
    return np.asarray(x).astype(dtype)


def _placed(x: Any, random: np.random.Generator) -> Any:
    mesh = gs.make_mesh(tuple(AXES.values()), tuple(AXES))
    axes = [axis for axis in AXES if random.random() < 0.7]
    entries: list[Any] = [None] * x.ndim
    for axis in axes if x.ndim else ():
        entries[random.integers(x.ndim)] = axis
    return gs.device_put(x, gs.NamedSharding(mesh, gs.P(*entries)))


def _same(got: Any, want: Any, close: float) -> None:
    got, want = gs.tree.leaves(got), gs.tree.leaves(want)
    assert len(got) == len(want)
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = np.asarray(mine), np.asarray(theirs)
        assert mine.shape == theirs.shape and mine.dtype == theirs.dtype, (mine, theirs)
        if theirs.dtype.kind in "fc":
            small = theirs.dtype.char in "fF"
            limit = 1e-5 if small else 1e-2 if theirs.dtype.itemsize == 2 else close
            np.testing.assert_allclose(mine, theirs, rtol=limit, atol=limit)
        else:
            np.testing.assert_array_equal(mine, theirs)


def _call(name: str, *texts: str, **how: Any) -> _Case:
    return _Case(lambda lax, *xs: getattr(lax, name)(*xs), *texts, **how)


def _at(name: str, *more: Any, on: str = "f8:4,6", **how: Any) -> _Case:
    return _Case(lambda lax, x: getattr(lax, name)(x, *more, **how), on)


CASES: dict[str, _Case] = {}
for _name in [
    "abs", "asin", "atan", "acos", "acosh", "asinh", "atanh", "cos", "cosh", "exp", "exp2",
    "expm1", "log", "log1p", "logistic", "neg", "reciprocal", "rsqrt", "sign", "sin", "sinh",
    "sqrt", "square", "tan", "tanh",
]:  # fmt: skip
    _type = "f8+:4,6" if _name in ("log", "log1p", "rsqrt", "sqrt", "acosh") else "f8:4,6"
    _close = 1e-9 if _name in ("tan", "tanh", "atanh") else 1e-12
    CASES[_name] = _call(_name, _type, close=_close)
    CASES[f"{_name} f4"] = _call(_name, _type.replace("f8", "f4"))
for _name in [
    "cbrt", "ceil", "floor", "is_finite", "round", "erf", "erfc", "erf_inv", "bessel_i0e",
    "bessel_i1e",
]:  # fmt: skip
    CASES[_name] = _call(_name, "f8:4,6", close=1e-9)
for _name in ["lgamma", "digamma"]:
    CASES[_name] = _call(_name, "f8+:4,6", close=1e-9)
for _name in ["igamma", "igammac", "zeta"]:
    CASES[_name] = _call(_name, "f8+:4,6", "f8+:4,6", close=1e-8)
for _name in ["add", "sub", "mul", "div", "max", "min", "eq", "ne", "ge", "gt", "le", "lt"]:
    for _type in ("f8", "i8", "i1", "u2"):
        CASES[f"{_name} {_type}"] = _call(_name, f"{_type}:4,6", f"{_type}:4,6")
    CASES[f"{_name} scalar"] = _call(_name, "f8:4,6", "f8:")
    CASES[f"{_name} ones"] = _call(_name, "f8:4,1", "f8:4,6")
for _name in ["shift_left", "shift_right_arithmetic", "shift_right_logical"]:
    for _type in ("i1", "u1", "i8"):
        CASES[f"{_name} {_type}"] = _call(_name, f"{_type}:4,6", f"{_type}:4,6")
    CASES[f"{_name} far"] = _Case(
        lambda lax, x, name=_name: getattr(lax, name)(x, x * 0 + np.int8(9)), "i1:4,6"
    )
for _name in ["bitwise_and", "bitwise_or", "bitwise_xor"]:
    for _type in ("?", "i4"):
        CASES[f"{_name} {_type}"] = _call(_name, f"{_type}:4,6", f"{_type}:4,6")
for _type in ("i1", "u1", "i8", "u4"):
    CASES[f"clz {_type}"] = _call("clz", f"{_type}:4,6")
    CASES[f"population_count {_type}"] = _call("population_count", f"{_type}:4,6")
    CASES[f"rem {_type}"] = _call("rem", f"{_type}:4,6", f"{_type}:4,6")
    CASES[f"bitwise_not {_type}"] = _call("bitwise_not", f"{_type}:4,6")

CASES |= {
    "rem f8": _call("rem", "f8:4,6", "f8:4,6"),
    "atan2": _call("atan2", "f8:4,6", "f8:4,6"),
    "nextafter": _call("nextafter", "f8:4,6", "f8:4,6"),
    "pow": _call("pow", "f8+:4,6", "f8:4,6", close=1e-9),
    "pow integers": _call("pow", "f8:4,6", "i4:4,6", close=1e-9),
    "integer_pow": _at("integer_pow", 3),
    "integer_pow -2": _at("integer_pow", -2, on="f8+:4,6"),
    "integer_pow i8": _at("integer_pow", 3, on="i8:4,6"),
    "complex": _call("complex", "f8:4,6", "f8:4,6"),
    "complex f4": _call("complex", "f4:4,6", "f4:4,6"),
    "conj": _call("conj", "c16:4,6"),
    "conj f4": _call("conj", "f4:4,6"),
    "real": _call("real", "c16:4,6"),
    "imag": _call("imag", "c16:4,6"),
    "sign c": _call("sign", "c16:4,6"),
    "exp c": _call("exp", "c16:4,6"),
    "logistic c": _call("logistic", "c16:4,6"),
    "round to even": _Case(
        lambda lax, x: lax.round(x / 2, lax.RoundingMethod.TO_NEAREST_EVEN), "f8:4,6"
    ),
    "round halves": _Case(lambda lax, x: lax.round(x / np.float64(2.0)), "f8:4,6"),
    "betainc": _Case(
        lambda lax, a, b, x: lax.betainc(a, b, lax.logistic(x)),
        "f8+:4,6", "f8+:4,6", "f8:4,6", close=1e-8,
    ),
    "clamp": _call("clamp", "f8:", "f8:4,6", "f8:4,6"),
    "clamp numbers": _Case(lambda lax, x: lax.clamp(-1.0, x, 1.0), "f8:4,6"),
    "select": _call("select", "?:4,6", "f4:4,6", "f4:4,6"),
    "select_n": _call("select_n", "?:4,6", "i8:4,6", "i8:4,6"),
    "select_n three": _Case(
        lambda lax, n, *xs: lax.select_n(lax.rem(n, n * 0 + np.int32(3)), *xs),
        "i4+:4,6", "f8:4,6", "f8:4,6", "f8:4,6",
    ),
    "convert": _at("convert_element_type", np.int8),
    "bitcast": _at("bitcast_convert_type", np.int64),
    "bitcast smaller": _at("bitcast_convert_type", np.int16),
    "bitcast larger": _at("bitcast_convert_type", np.int64, on="i4:4,2"),
    "reduce_precision": _at("reduce_precision", 5, 10),
    "reduce_precision f4": _at("reduce_precision", 8, 7, on="f4:4,6"),
    "broadcast": _at("broadcast", (2, 3)),
    "broadcast_in_dim": _at("broadcast_in_dim", (2, 4, 5, 6), (1, 3)),
    "broadcast_to_rank": _at("broadcast_to_rank", 4),
    "collapse": _at("collapse", 0, 2, on="f8:4,6,2"),
    "concatenate": _Case(lambda lax, *xs: lax.concatenate(xs, 1), "f8:4,6", "f8:4,3"),
    "expand_dims": _at("expand_dims", (0, 2)),
    "squeeze": _at("squeeze", (1,), on="f8:4,1,6"),
    "reshape": _at("reshape", (6, 4)),
    "reshape turned": _at("reshape", (6, 4), (1, 0)),
    "rev": _at("rev", (0, 1)),
    "transpose": _at("transpose", (1, 0)),
    "tile": _at("tile", (2, 3)),
    "split": _at("split", (1, 2, 3), 1),
    "stack": _Case(lambda lax, *xs: lax.stack(xs, 1), "f8:4,6", "f8:4,6"),
    "unstack": _at("unstack", 1),
    "pad": _Case(lambda lax, x: lax.pad(x, 1.5, ((1, 2, 0), (0, 3, 0))), "f8:4,6"),
    "pad between": _Case(lambda lax, x: lax.pad(x, 1.5, ((1, 2, 2), (-1, -2, 1))), "f8:4,6"),
    "pad less": _Case(lambda lax, x: lax.pad(x, 1.5, ((-1, 2, 0), (0, -3, 0))), "f8:4,6"),
    "pad array": _Case(lambda lax, x, y: lax.pad(x, y, ((1, -1, 0), (0, 3, 1))), "f8:4,6", "f8:"),
    "slice": _at("slice", (1, 0), (4, 6), (1, 2)),
    "slice_in_dim": _at("slice_in_dim", -4, -1, 2, 1),
    "index_in_dim": _at("index_in_dim", -1, 1),
    "index_in_dim gone": _at("index_in_dim", 2, 1, keepdims=False),
    "index_take": _Case(
        lambda lax, x, i, j: lax.index_take(x, (i, j), (0, 2)), "f8:9,6,9", "i8+:5", "i8+:5"
    ),
    "dynamic_slice": _call("dynamic_slice", "f8:4,6"),
    "argmax": _at("argmax", 1, np.int32),
    "argmin": _at("argmin", 0, np.int64),
    "cumlogsumexp": _at("cumlogsumexp", 1),
    "sort": _at("sort", 0),
    "sort keys": _Case(
        lambda lax, *xs: lax.sort(xs, 1, num_keys=2), "i1:4,6", "i1:4,6", "f8:4,6"
    ),
    "sort_key_val": _call("sort_key_val", "i1:4,6", "f8:4,6"),
    "top_k": _at("top_k", 3),
    "top_k axis": _at("top_k", 2, axis=0),
    "top_k i1": _at("top_k", 4, on="i1:4,6"),
    "fft": _Case(lambda lax, x: lax.fft(x, "fft", (6,)), "c16:4,6"),
    "rfft": _Case(lambda lax, x: lax.fft(x, lax.FftType.RFFT, (4, 6)), "f8:4,6"),
    "irfft": _Case(lambda lax, x: lax.fft(x, "irfft", (10,)), "c16:4,6"),
    "dot": _call("dot", "f8:4,6", "f8:6,5"),
    "dot vector": _call("dot", "i1:6", "i1:6"),
    "dot preferred": _Case(
        lambda lax, x, y: lax.dot(x, y, preferred_element_type=np.int32), "i1:4,6", "i1:6"
    ),
    "dot_general": _Case(
        lambda lax, x, y: lax.dot_general(x, y, (((3, 1), (2, 0)), ((0,), (3,)))),
        "f8:2,3,4,5", "f8:3,6,5,2",
    ),
    "batch_matmul": _call("batch_matmul", "f8:2,3,4", "f8:2,4,5"),
}  # fmt: skip
del CASES["dynamic_slice"]

for _name in ["cumsum", "cumprod", "cummax", "cummin"]:
    CASES[_name] = _at(_name, 1)
    CASES[f"{_name} reverse"] = _at(_name, 0, True, on="i2:4,6")
for _name, _types in {
    "reduce_sum": ("f8", "i1", "f4"),
    "reduce_prod": ("f8", "i2"),
    "reduce_max": ("f8", "i1", "?"),
    "reduce_min": ("f8", "u1", "?"),
    "reduce_and": ("?", "i4"),
    "reduce_or": ("?", "i4"),
    "reduce_xor": ("?", "u1"),
}.items():
    for _type in _types:
        CASES[f"{_name} {_type}"] = _at(_name, (1,), on=f"{_type}:4,6,3")
        CASES[f"{_name} {_type} all"] = _at(_name, (0, 2), on=f"{_type}:3,2,5")
for _name in ["add", "mul", "max", "min"]:
    for _type, _init in (("f8", 0.5), ("i4", 1)):
        _how = {"window_strides": (2, 1), "window_dilation": (1, 2), "base_dilation": (2, 1)}
        CASES[f"reduce {_name} {_type}"] = _Case(
            lambda lax, x, name=_name, init=_init: lax.reduce(
                x, x.dtype.type(init), getattr(lax, name), (1,)
            ),
            f"{_type}:4,6",
        )
        CASES[f"reduce_window {_name} {_type}"] = _Case(
            lambda lax, x, name=_name, init=_init: lax.reduce_window(
                x, x.dtype.type(init), getattr(lax, name), (2, 3), (1, 2), "SAME"
            ),
            f"{_type}:4,6",
            mapped=False,
        )
        CASES[f"reduce_window {_name} {_type} more"] = _Case(
            lambda lax, x, name=_name, init=_init, how=_how: lax.reduce_window(
                x, x.dtype.type(init), getattr(lax, name), (2, 3), padding=((1, 0), (-1, 2)), **how
            ),
            f"{_type}:4,6",
            mapped=False,
        )
CASES |= {
    **{
        f"reduce_window {padding} of {lengths}": _Case(
            lambda lax, x, padding=padding: lax.reduce_window(
                x, np.float64(np.inf), lax.min, (2, 1), (2, 1), padding, (2, 3)
            ),
            f"f8:{lengths}",
        )
        for padding in ("SAME", "SAME_LOWER", "VALID")
        for lengths in ("3,6", "4,6", "2,6", "5,1")
    },
    "reduce_window one dim": _Case(
        lambda lax, x: lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1)),
        "f8:2,4,6,3",
    ),
    "reduce pairs": _Case(
        lambda lax, x, y: lax.reduce(
            (x, y),
            (np.int64(0), np.float64(1)),
            lambda a, b: (a[0] + b[0], a[1] * b[1]),
            (1,),
        ),
        "i8:4,7", "f8:4,7",
    ),
}  # fmt: skip

_NUMBERS = {
    "one": ("GatherDimensionNumbers", ((), (0,), (0,)), (1,), "f8:9", "i8:5,1"),
    "rows": ("GatherDimensionNumbers", ((1,), (0,), (0,)), (1, 3), "f8:9,3", "i8:5,1"),
    "windows": ("GatherDimensionNumbers", ((0, 2), (), (1, 0)), (2, 3), "f8:9,8", "i4:5,2"),
    "batched": (
        "GatherDimensionNumbers", ((2,), (1,), (1,), (0,), (0,)), (1, 1, 2), "f8:4,6,2", "i8:4,5,1"
    ),
}  # fmt: skip
for _name, (_numbers, _dims, _sizes, _operand, _indices) in _NUMBERS.items():
    for _mode in ("clip", "fill", None):
        CASES[f"gather {_name} {_mode}"] = _Case(
            lambda lax, x, i, n=_numbers, d=_dims, s=_sizes, mode=_mode: lax.gather(
                x, i, getattr(lax, n)(*d), s, mode=mode
            ),
            _operand,
            _indices,
        )
for _name in ["scatter", "scatter_add", "scatter_sub", "scatter_mul", "scatter_min", "scatter_max"]:
    _once = "i8:3,1" if _name != "scatter" else "i8:1,1"
    CASES[f"{_name} rows"] = _Case(
        lambda lax, x, i, y, name=_name: getattr(lax, name)(
            x, i, y, lax.ScatterDimensionNumbers((1,), (0,), (0,))
        ),
        "f8:9,3", _once, f"f8:{_once[3]},3",
    )  # fmt: skip
    for _mode in ("clip", "drop"):
        CASES[f"{_name} windows {_mode}"] = _Case(
            lambda lax, x, i, y, name=_name, mode=_mode: getattr(lax, name)(
                x, i, y, lax.ScatterDimensionNumbers((1, 2), (), (1, 0)), mode=mode
            ),
            "f8:7,8", f"i8:{_once[3]},2", f"f8:{_once[3]},2,3",
        )  # fmt: skip

for _keys in (("i8:", "i4:"), (2, -1), ("i8:", 3)):
    _texts = [_key for _key in _keys if isinstance(_key, str)]

    def _mixed(keys: Any, held: Any) -> list[Any]:
        left = iter(held)
        return [np.int64(key) if isinstance(key, int) else next(left).astype(np.int64)
                for key in keys]  # fmt: skip

    CASES[f"dynamic_slice {_keys}"] = _Case(
        lambda lax, x, *held, keys=_keys: lax.dynamic_slice(x, _mixed(keys, held), (2, 3)),
        "f8:5,8", *_texts,
    )  # fmt: skip
    CASES[f"dynamic_update_slice {_keys}"] = _Case(
        lambda lax, x, y, *held, keys=_keys: lax.dynamic_update_slice(x, y, _mixed(keys, held)),
        "f8:5,8", "f8:2,3", *_texts,
    )  # fmt: skip
CASES |= {
    "dynamic_slice vector": _Case(
        lambda lax, x, i: lax.dynamic_slice(x, i, (2, 3)), "f8:5,8", "i8:2"
    ),
    "dynamic_slice_in_dim": _Case(
        lambda lax, x, i: lax.dynamic_slice_in_dim(x, i, 3, 1), "f8:5,8", "i8:"
    ),
    "dynamic_index_in_dim": _Case(
        lambda lax, x, i: lax.dynamic_index_in_dim(x, i, 1, False), "f8:5,8", "i8:"
    ),
    "dynamic_update_slice_in_dim": _Case(
        lambda lax, x, y, i: lax.dynamic_update_slice_in_dim(x, y, i, 1), "f8:5,8", "f8:5,2", "i8:"
    ),
    "dynamic_update_index_in_dim": _Case(
        lambda lax, x, y, i: lax.dynamic_update_index_in_dim(x, y, i, 1), "f8:5,8", "f8:5", "i8:"
    ),
}

_CONVS: dict[str, tuple[Any, ...]] = {
    "1-D": (((1,), "SAME"), {}, "f8:4,6,9", "f8:5,6,3"),
    "2-D": (((1, 2), "SAME"), {}, "f8:4,6,7,6", "f8:5,6,3,2"),
    "3-D": (((1, 2, 1), "VALID"), {}, "f8:2,4,5,6,4", "f8:3,4,2,3,1"),
    "lower": (((2,), "SAME_LOWER"), {}, "f8:4,6,9", "f8:5,6,2"),
    "pads": (((2, 1), ((1, 2), (-1, 3))), {}, "f8:4,6,7,6", "f8:5,6,3,2"),
    "dilated": (
        ((1, 2), ((1, 2), (0, 3))), {"lhs_dilation": (2, 3), "rhs_dilation": (2, 1)},
        "f8:4,6,7,6", "f8:5,6,3,2",
    ),
    "groups": (((1, 1), "SAME"), {"feature_group_count": 2}, "f8:4,6,7,6", "f8:4,3,3,2"),
    "depthwise": (((1, 1), "SAME"), {"feature_group_count": 6}, "f8:4,6,7,6", "f8:12,1,3,2"),
    "batch groups": (((1, 1), "VALID"), {"batch_group_count": 2}, "f8:4,6,7,6", "f8:4,6,3,2"),
    "NHWC": (
        ((1, 1), "SAME"), {"dimension_numbers": ("NHWC", "HWIO", "NHWC")},
        "f8:4,7,6,3", "f8:3,2,3,5",
    ),
    "turned": (
        ((1, 2), "VALID"), {"dimension_numbers": ("HNCW", "WOHI", "CWNH")},
        "f8:7,4,3,6", "f8:2,5,3,3",
    ),
    "f4": (((1, 1), "SAME"), {}, "f4:4,6,7,6", "f4:5,6,3,2"),
    "f2": (((1, 1), "SAME"), {}, "f2:4,6,7,6", "f2:5,6,3,2"),
    "none": (((1,), "VALID"), {}, "f8:4,6,2", "f8:5,6,3"),
}  # fmt: skip
for _name, (_args, _how, _left, _right) in _CONVS.items():
    CASES[f"conv {_name}"] = _Case(
        lambda lax, x, y, args=_args, how=_how: lax.conv_general_dilated(x, y, *args, **how),
        _left, _right, close=1e-11,
    )  # fmt: skip
for _padding in ("SAME", "VALID", ((1, 2), (0, 1))):
    for _stride in ((1, 1), (2, 3)):
        CASES[f"conv_transpose {_padding} {_stride}"] = _Case(
            lambda lax, x, y, stride=_stride, padding=_padding: lax.conv_transpose(
                x, y, stride, padding
            ),
            "f8:2,4,5,6", "f8:3,2,6,4", close=1e-11,
        )  # fmt: skip
CASES["conv_transpose turned"] = _Case(
    lambda lax, x, y: lax.conv_transpose(x, y, (2, 2), "SAME", transpose_kernel=True),
    "f8:2,4,5,6", "f8:3,2,4,6", close=1e-11,
)  # fmt: skip


def _arrays(case: _Case, seed: int, *lead: int) -> list[Any]:
    random = np.random.default_rng(seed)
    texts = [
        text.replace(":", f":{','.join(map(str, lead))},") if lead else text for text in case.arrays
    ]
    return [_array(text, random) for text in texts]


@pytest.mark.one_of(5)
@pytest.mark.parametrize("name", CASES)
def test_eagerly_and_traced(jax: ModuleType, name: str) -> None:
    case = CASES[name]
    for seed in range(2):
        arrays = _arrays(case, seed)
        want = case.make(jax.lax, *map(jax.numpy.asarray, arrays))
        random = np.random.default_rng(seed)
        placed = [_placed(x, random) for x in arrays]
        with np.errstate(all="ignore"):
            _same(case.make(gs.lax, *placed), want, case.close)
            traced = gs.jit(functools.partial(case.make, gs.lax))
            _same(traced(*placed), want, case.close)


@pytest.mark.one_of(5)
@pytest.mark.parametrize("name", CASES)
def test_mapped(jax: ModuleType, name: str) -> None:
    case = CASES[name]
    if not case.mapped:
        pytest.skip("JAX has no such rule")
    arrays = _arrays(case, 5, 3)
    want = jax.vmap(functools.partial(case.make, jax.lax))(*map(jax.numpy.asarray, arrays))
    random = np.random.default_rng(5)
    placed = [_placed(x, random) for x in arrays]
    mapped = gs.vmap(functools.partial(case.make, gs.lax))
    with np.errstate(all="ignore"):
        _same(mapped(*placed), want, case.close)
        _same(gs.jit(mapped)(*placed), want, case.close)
