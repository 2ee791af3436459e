"""Makes coming-from-jax.md from the installed JAX: `python docs/coming_from_jax.py`.

The script finds which names exist and which arguments they lack. The notes on differences, and on
replacements for missing names, are tables in this file.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import gpushard as gs

PAGE = Path(__file__).with_name("coming-from-jax.md")
MODULES = ("", "numpy", "lax", "random", "sharding", "tree", "tree_util", "nn")
UNIMPORTED = ("extend", "flatten_util")
"""Modules that `import jax` does not import; other libraries may."""

ELSEWHERE = ("numpy", "special", "nn", "debug", "multihost", "tree_util", "legacy", "sharding")
"""Modules to search for a name that is missing in the module of its name."""

_UNREDUCED = "`unreduced` raises an error: there are no arrays of partial sums"
_DIVIDE = "the length of an axis need not be a multiple of the number of its shards"
_UNTRACED = "returns a `bool`, unless an argument is traced"
_QUANTILE = (
    "if elements are infinite, some results are NaN where JAX's are not, or the other way round"
)
_SIZE = "without `size`, the call waits until the devices have computed the size"
_PROMOTION = "different dtypes promote as in NumPy: `float32` and `int32` to `float64`"
_NO_DERIVATIVES = "no replacement: gpushard computes no derivatives"
_FULL_PRECISION = "no replacement: products have the full precision of their dtype"
_PRECISE = "no replacement: functions are as precise as NumPy's"
_IN_ORDER = "no replacement: operations run in order"
_MUTABLE = "not needed: arrays themselves can be changed, by `x[i] = value`"
_LEAKS = "no replacement: using a leaked value always raises `TracedValueError`"

DIFFERS: dict[str, dict[str, str]] = {
    "": {
        "Array": "`x[i] = value` works; a pickle keeps the sharding; "
        "`memoryview(x)` works from Python 3.12 on",
        "debug": "prints whole arrays, with and without `partitioned=True`",
        "Device": "a device may be a part of a GPU",
        "NamedSharding": _DIVIDE,
        "P": _UNREDUCED,
        "ShapeDtypeStruct": "no arguments `is_ref`, `manual_axis_type`",
        "config": "a name without a meaning here raises an error, which says what to use instead",
        "device_put": "copies between devices never go through the host",
        "default_backend": 'returns "cpu" or "gpu"',
        "live_arrays": "does not list deleted arrays",
        "make_array_from_callback": "calls the callback once for each distinct block; `dtype` is "
        "needed only if this process has no device of the sharding",
        "process_count": "returns 1 in this version",
        "process_index": "returns 0 in this version",
        "smap": "`in_axes` is required; JAX can derive it from the shardings of arguments",
        "pure_callback": "the callback gets NumPy arrays; if the arguments are replicated, it "
        "is called only once",
    },
    "numpy": {
        "array": "64-bit types are on, as in NumPy",
        "asarray": "64-bit types are on, as in NumPy",
        "allclose": _UNTRACED,
        "argpartition": "returns int64 positions",
        "array_equal": _UNTRACED,
        "array_equiv": _UNTRACED,
        "convolve": "integers stay integers, as in NumPy",
        "correlate": "integers stay integers, as in NumPy",
        "cumprod": "multiplies small integers in 64 bits, as in NumPy",
        "cumsum": "adds small integers in 64 bits, as in NumPy",
        "digitize": "returns int64 positions",
        "divmod": "an integer divided by 0 gives 0, as in NumPy",
        "floor_divide": "an integer divided by 0 gives 0, as in NumPy",
        "histogram": "returns counts as integers, as in NumPy",
        "histogram2d": "returns counts as floats, as in NumPy",
        "histogramdd": "returns counts as floats, as in NumPy",
        "nancumprod": "multiplies small integers in 64 bits, as in NumPy",
        "nancumsum": "adds small integers in 64 bits, as in NumPy",
        "percentile": _QUANTILE,
        "polydiv": "drops leading zeros of the remainder, unless an argument is traced",
        "polymul": "drops leading zeros, unless an argument is traced; integers stay integers",
        "put": "a position out of bounds raises an error",
        "put_along_axis": "a position out of bounds raises an error",
        "quantile": _QUANTILE,
        "reciprocal": "integers stay integers, as in NumPy",
        "searchsorted": "returns int64 positions",
        "take": "a position out of bounds raises an error, also with `mode=None`",
        "take_along_axis": "a position out of bounds raises an error, also with `mode=None`",
        "tri": "returns float64 by default",
        "vsplit": "needs at least two axes, as in NumPy",
        "unique": _SIZE,
        "nonzero": _SIZE,
    },
    "nn": {
        "dot_product_attention": "computes the softmax of float64 in float64",
        "gelu": "`approximate=False` needs SciPy",
        "one_hot": "returns float64 by default",
    },
    "lax": {
        "add": "a Python number takes the dtype of the array, as in all functions of `gs.lax`",
        "conv_general_dilated": "the axes of features and batch stay split; the array is gathered "
        "along all other axes",
        "dot": _PROMOTION,
        "dot_general": _PROMOTION,
        "linalg": "on the host, a singular matrix raises an error; `gs.numpy.linalg` has more "
        "functions",
        "ragged_dot": "`group_offset` must be None",
        "reduce": "the function gets arrays, and combines them element by element",
        "reduce_window": "supports only sums, products, minima, maxima and bitwise functions",
        "stop_gradient": "returns its argument: gpushard computes no derivatives",
    },
    "random": {
        "key": "supports only keys of Threefry",
    },
    "sharding": {
        "NamedSharding": _DIVIDE,
        "AxisType": "a mesh stores the types of its axes; axes of all types behave alike",
        "Mesh": "meshes that differ only in `axis_types` are equal",
        "AbstractMesh": "no argument `abstract_device`",
        "PartitionSpec": _UNREDUCED,
    },
}
"""Differences of names that exist here."""

NEAREST: dict[str, dict[str, str]] = {
    "": {
        "check_tracer_leaks": _LEAKS,
        "checkpoint": _NO_DERIVATIVES,
        "checkpoint_policies": _NO_DERIVATIVES,
        "checking_leaks": _LEAKS,
        "copy_to_host_async": "`x.copy_to_host_async()`",
        "debug_infs": "`gs.numpy.isinf(x).any()`",
        "debug_nans": "`gs.numpy.isnan(x).any()`",
        "distributed": "no replacement: a program is one process in this version",
        "default_matmul_precision": _FULL_PRECISION,
        "dlpack": "`gs.from_dlpack(x)`, `x.__dlpack__()`",
        "enable_checks": "`gs.configure(enable_checks=True)`",
        "enable_x64": "no replacement: 64-bit types are always on",
        "ensure_compile_time_eval": "compute the value outside of the traced function",
        "empty_ref": "`gs.numpy.empty(shape)`; `x[i] = value` works",
        "experimental": "`gs.io_callback`, `gs.multihost`, `gs.legacy`",
        "flatten_util": "`gs.tree.flatten`, then `gs.numpy.concatenate` of the raveled leaves",
        "float0": _NO_DERIVATIVES,
        "free_ref": _MUTABLE,
        "freeze": _MUTABLE,
        "host_count": "`gs.process_count()`",
        "host_id": "`gs.process_index()`",
        "host_ids": "`range(gs.process_count())`",
        "lib": "no replacement",
        "named_call": "`gs.named_scope`",
        "new_ref": "`x` itself: `x[i] = value` works",
        "numpy_dtype_promotion": "no replacement: dtypes promote as in NumPy, and Python numbers "
        "have weak types",
        "numpy_rank_promotion": "no replacement: always allowed, as in NumPy",
        "ops": "`gs.lax` has these functions, such as `gs.lax.segment_sum`",
        "print_environment_info": "`gpushard info` in a shell",
        "process_indices": "`range(gs.process_count())`",
        "ref": _MUTABLE,
        "Ref": "`gs.Array`: `x[i] = value` works",
        "scipy": "`gs.special`",
        "softmax_custom_jvp": _NO_DERIVATIVES,
        "thread_guard": "no replacement: several threads may use an array",
        "version": "`gs.__version__`",
        **dict.fromkeys(
            (
                "custom_derivatives",
                "custom_gradient",
                "custom_jvp",
                "custom_vjp",
                "grad",
                "fwd_and_bwd",
                "hessian",
                "jacfwd",
                "jacobian",
                "jacrev",
                "jvp",
                "linearize",
                "linear_transpose",
                "remat",
                "value_and_grad",
                "vjp",
            ),
            _NO_DERIVATIVES,
        ),
    },
    "numpy": {
        "ComplexWarning": "`numpy.exceptions.ComplexWarning`",
        "complex_": "`gs.numpy.complex128`",
        "float_": "`gs.numpy.float64`",
        "fromfile": "`gs.load(file, sharding)`, or `numpy.fromfile`, then `gs.device_put`",
        "fromstring": "`numpy.fromstring`, then `gs.device_put`",
        **dict.fromkeys(
            ("character", "flexible", "object_"),
            "no replacement: elements are numbers and booleans",
        ),
        **dict.fromkeys(
            (
                "float4_e2m1fn",
                "float6_e2m3fn",
                "float6_e3m2fn",
                "int1",
                "int2",
                "int4",
                "uint1",
                "uint2",
                "uint4",
            ),
            "no replacement: an element has at least 8 bits",
        ),
    },
    "lax": {
        "AccuracyMode": _PRECISE,
        "DotAlgorithm": _FULL_PRECISION,
        "DotAlgorithmPreset": _FULL_PRECISION,
        "PrecisionLike": "`gs.lax.Precision`",
        "RaggedDotDimensionNumbers": "`gs.lax.ragged_dot`, or `gs.lax.dot_general` for each group",
        "RandomAlgorithm": "`gs.random`, which has only keys of Threefry",
        "Tolerance": _PRECISE,
        "after_all": _IN_ORDER,
        "approx_max_k": "`gs.lax.top_k`, which is exact",
        "approx_min_k": "`gs.lax.top_k(-x, k)`, which is exact",
        "broadcast_like": "`gs.numpy.broadcast_to(x, y.shape)`",
        "composite": "call the function itself",
        "conv_general_dilated_local": "`gs.numpy.einsum` of windows",
        "conv_general_dilated_patches": "`gs.lax.conv_general_dilated` with an identity as kernel",
        "conv_general_permutations": "`gs.lax.conv_dimension_numbers`",
        "conv_general_shape_tuple": "`gs.eval_shape` of `gs.lax.conv_general_dilated`",
        "conv_shape_tuple": "`gs.eval_shape` of `gs.lax.conv`",
        "conv_transpose_shape_tuple": "`gs.eval_shape` of `gs.lax.conv_transpose`",
        "create_token": _IN_ORDER,
        "custom_linear_solve": "call `solve` itself: gpushard computes no derivatives",
        "custom_root": "call `solve` itself: gpushard computes no derivatives",
        "dce_sink": "no replacement: values that callbacks read are always computed",
        "dtype": "`x.dtype`",
        "igamma_grad_a": _NO_DERIVATIVES,
        "mulhi": "`gs.lax.mul` in a wider dtype, then `gs.lax.shift_right_arithmetic`",
        "pcast": "no replacement: values may vary over any axis",
        "platform_dependent": "`if gs.default_backend() == ...`",
        "precv": "`gs.lax.ppermute`",
        "psend": "`gs.lax.ppermute`",
        "ragged_all_to_all": "`gs.lax.all_to_all` of padded arrays",
        "ragged_dot_general": "`gs.lax.ragged_dot`, or `gs.lax.dot_general` for each group",
        "random_gamma_grad": _NO_DERIVATIVES,
        "reduce_window_shape_tuple": "`gs.eval_shape` of `gs.lax.reduce_window`",
        "rng_bit_generator": "`gs.random.bits`",
        "rng_uniform": "`gs.random.uniform`",
        "scaled_dot": "`gs.lax.dot` of scaled operands",
        "shape_as_value": "`x.shape`",
        "stage": "`x` itself",
    },
    "sharding": {
        "AbstractDevice": "`gs.AbstractMesh`, a mesh without devices",
        "auto_axes": "no replacement: axes of all types behave alike",
        "explicit_axes": "no replacement: axes of all types behave alike",
        "get_abstract_mesh": "`gs.get_mesh()`",
        "make_single_device_sharding": "`gs.SingleDeviceSharding(device)`",
        "use_abstract_mesh": "`gs.use_mesh(mesh)`",
    },
    "tree_util": {
        "default_registry": "no replacement: gpushard registers all nodes in one place",
    },
    "nn": {
        "scaled_dot_general": "`gs.numpy.einsum`",
        "scaled_matmul": "`gs.numpy.matmul`",
    },
}
"""Replacements of missing names."""

HEAD = """\
# Coming from JAX

To port a program, change `import jax.numpy as jnp` to `import gpushard.numpy as jnp`. Then write
`import gpushard as gs`, and change `jax` to `gs`. Arrays have the attributes and methods of
`jax.Array`. Outside of `jit`, operations run immediately.

gpushard computes no derivatives, so `grad` and similar functions are missing. A
[table in the README](../README.md#where-gpushard-differs-from-jax-on-purpose) lists differences
that are intended: uneven shapes are legal, 64-bit types are on, `x[i] = v` works, and a pickle
keeps the sharding. `gpushard.nnx` has Flax's modules; [its page](nnx.md) lists the differences from
Flax.

The tables below list every public name of JAX {version}, except primitives, which have names that
end in `_p`. The second column says what gpushard has:

| here | meaning |
|---|---|
| same | takes all arguments that JAX takes, and returns equal values for them |
| differs | exists; the last column says what differs |
| missing | does not exist; the last column says what to use instead |

Dtypes of results follow NumPy, even for a name that is *same*. For example, `sqrt` of `int8` is
`float16`, and the mean of `int8` is `float64`.
"""


def tables(jax: ModuleType) -> str:
    """Write the page."""
    parts = [HEAD.format(version=jax.__version__)]
    for module in MODULES:
        theirs = importlib.import_module(f"jax.{module}".rstrip("."))
        rows = list(rows_of(theirs, module))
        same = sum(how == "same" for _, how, _ in rows)
        present = sum(how != "missing" for _, how, _ in rows)
        ours = f"gs.{module}".rstrip(".")
        parts.append(
            f"## `{theirs.__name__}`\n\n`{ours}` has {present} of {len(rows)} names; "
            f"{same} are the same.\n\n| name | here | differences, or what to use instead |\n"
            "|---|---|---|"
        )
        parts[-1] += "".join(f"\n| `{name}` | {how} | {note} |" for name, how, note in rows) + "\n"
    return "\n".join(parts)


def rows_of(theirs: ModuleType, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield each name, its status here, and its differences or its replacement."""
    ours = namespace(module)
    for name in sorted(public_names(theirs)):
        if ours is not None and hasattr(ours, name):
            notes = [DIFFERS.get(module, {}).get(name), *lacking(theirs, ours, name)]
            note = "; ".join(filter(None, notes))
            yield name, "differs" if note else "same", note
        else:
            nearest = NEAREST.get(module, {}).get(name) or elsewhere(name)
            yield name, "missing", nearest or "no replacement"


def public_names(module: ModuleType) -> list[str]:
    """List the names of a module of JAX that users may use."""
    for name in UNIMPORTED:
        importlib.import_module(f"jax.{name}")
    names = [name for name in dir(module) if name[0] != "_" and not name.endswith("_p")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name in names if hasattr(module, name)]


def namespace(module: str) -> Any:
    """Return gpushard's module of a name, or None."""
    return getattr(gs, module, None) if module else gs


def elsewhere(name: str) -> str:
    """Return the path of a name in another module, or an empty text."""
    if hasattr(gs, name):
        return f"`gs.{name}`"
    for module in ELSEWHERE:
        if hasattr(namespace(module), name):
            return f"`gs.{module}.{name}`"
    return ""


def lacking(theirs: Any, ours: Any, name: str) -> Iterator[str]:
    """Yield which arguments gpushard's function calls by other names, and which it lacks."""
    if inspect.ismodule(getattr(theirs, name)):
        missing = set(public_names(getattr(theirs, name))) - set(dir(getattr(ours, name)))
        if missing and name not in MODULES:
            yield f"lacks {_quoted(sorted(missing))}"
        return
    parameters = [parameters_of(getattr(module, name)) for module in (theirs, ours)]
    if None in parameters:
        return
    expected, taken = parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in taken):
        return
    known = {p.name for p in taken if p.kind != p.POSITIONAL_ONLY}
    by_place = [p.name for p in taken if p.kind != p.KEYWORD_ONLY]
    wanted = [p for p in expected if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    fewer = len(by_place) < sum(p.kind == p.POSITIONAL_OR_KEYWORD for p in expected)
    lacks, renamed = [], {}
    for place, parameter in enumerate(expected):
        if parameter not in wanted or parameter.name in known:
            continue
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD and place < len(by_place):
            name_here = by_place[place]
            if not (fewer and name_here in {p.name for p in expected}):
                if name_here != parameter.name:
                    renamed[parameter.name] = name_here
                continue  # else it is only taken by place
        lacks.append(parameter.name)
    if renamed:
        arguments, verb = ("arguments", "are") if len(renamed) > 1 else ("argument", "is")
        yield f"{arguments} {_quoted(renamed)} {verb} called {_quoted(renamed.values())}"
    if lacks:
        yield f"no argument{'s' * (len(lacks) > 1)} {_quoted(lacks)}"


def _quoted(names: Iterable[str]) -> str:
    """Write names as code, with commas between them."""
    return ", ".join(f"`{name}`" for name in names)


def parameters_of(value: Any) -> Any:
    """Return the parameters of a function, or None."""
    if inspect.isclass(value) or not callable(value):
        return None
    try:
        return list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return None


if __name__ == "__main__":
    PAGE.write_text(tables(importlib.import_module("jax")))
