"""Makes coming-from-jax.md from the installed JAX: `python docs/coming_from_jax.py`.

The script finds which names exist and which arguments they lack. The notes on differences, and on
replacements for missing names, are tables in this file.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator
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

_UNREDUCED = "a spec keeps `unreduced`, but shardings refuse it: arrays hold complete sums"

INTERNAL = {"": ("ops",)}
"""Modules with the name of one of JAX's and another meaning."""

DIFFERS: dict[str, dict[str, str]] = {
    "": {
        "Array": "`x[i] = value` works; pickles keep the sharding; "
        "`memoryview(x)` from Python 3.12 on",
        "debug": "whole arrays are printed, `partitioned=` or not",
        "Device": "a device may be a part of a GPU",
        "NamedSharding": "dims need not be divisible by the axes that split them",
        "P": _UNREDUCED,
        "ShapeDtypeStruct": "without `is_ref`, `manual_axis_type`",
        "config": "names without a meaning here raise an error with the replacement",
        "device_put": "never copies through the host between devices",
        "default_backend": '"cpu" or "gpu"',
        "live_arrays": "without deleted arrays",
        "make_array_from_callback": "one call for each distinct box; `dtype` is for arrays "
        "without data here",
        "process_count": "1 in this version",
        "process_index": "0 in this version",
        "smap": "`in_axes` is required: it does not follow from the sharding of arguments",
        "pure_callback": "gets NumPy arrays; one call for a value equal on all devices",
    },
    "numpy": {
        "array": "64-bit types are on, as in NumPy",
        "asarray": "64-bit types are on, as in NumPy",
        "allclose": "a `bool`, unless it is traced",
        "argpartition": "positions are int64",
        "array_equal": "a `bool`, unless it is traced",
        "array_equiv": "a `bool`, unless it is traced",
        "convolve": "integers stay integers, as in NumPy",
        "correlate": "integers stay integers, as in NumPy",
        "cumprod": "small integers are multiplied in 64 bits, as in NumPy",
        "cumsum": "small integers are summed in 64 bits, as in NumPy",
        "digitize": "positions are int64",
        "divmod": "an integer divided by 0 gives 0, as in NumPy",
        "floor_divide": "an integer divided by 0 gives 0, as in NumPy",
        "histogram": "counts are integers, as in NumPy",
        "histogram2d": "counts are floats, as in NumPy",
        "histogramdd": "counts are floats, as in NumPy",
        "nancumprod": "small integers are multiplied in 64 bits, as in NumPy",
        "nancumsum": "small integers are summed in 64 bits, as in NumPy",
        "percentile": "as `quantile`",
        "polydiv": "drops leading zeros of the remainder, unless it is traced",
        "polymul": "drops leading zeros, unless it is traced; integers stay integers",
        "put": "positions out of bounds raise",
        "put_along_axis": "positions out of bounds raise",
        "quantile": "with infinite elements, some results are NaN where JAX's are not, "
        "or the other way round",
        "reciprocal": "integers stay integers, as in NumPy",
        "searchsorted": "positions are int64",
        "take": "positions out of bounds raise, also with `mode=None`",
        "take_along_axis": "positions out of bounds raise, also with `mode=None`",
        "tri": "float64 by default",
        "vsplit": "at least two dims, as in NumPy",
        "unique": "without `size`, the host reads the size from the devices",
        "nonzero": "without `size`, the host reads the size from the devices",
    },
    "nn": {
        "dot_product_attention": "the softmax of float64 is computed in float64",
        "gelu": "`approximate=False` needs SciPy",
        "one_hot": "float64 by default",
    },
    "lax": {
        "add": "Python numbers take the dtype of the array, as in all of `lax`",
        "conv_general_dilated": "features and batch stay split, other dims are gathered",
        "dot": "two types promote as in NumPy: `float32` and `int32` to `float64`",
        "dot_general": "two types promote as in NumPy: `float32` and `int32` to `float64`",
        "linalg": "singular matrices raise on the host; `gs.numpy.linalg` has more",
        "ragged_dot": "`group_offset` must be None",
        "reduce": "the function gets arrays, and combines their elements one by one",
        "reduce_window": "only sums, products, extremes and bitwise functions",
        "stop_gradient": "returns its argument: there are no derivatives",
    },
    "random": {
        "key": "only keys of Threefry",
    },
    "sharding": {
        "NamedSharding": "dims need not be divisible by the axes that split them",
        "AxisType": "a mesh stores types; axes of all types work alike",
        "Mesh": "meshes that differ only in `axis_types` are equal",
        "AbstractMesh": "without `abstract_device`",
        "PartitionSpec": _UNREDUCED,
    },
}
"""Differences of names that exist here."""

NEAREST: dict[str, dict[str, str]] = {
    "": {
        "checkpoint": "nothing: there are no derivatives",
        "checkpoint_policies": "nothing: there are no derivatives",
        "checking_leaks": "nothing: using a leaked value always raises `TracedValueError`",
        "copy_to_host_async": "`x.copy_to_host_async()`",
        "debug_nans": "`gs.numpy.isnan(x).any()`",
        "distributed": "one process in this version",
        "default_matmul_precision": "products have the full precision of their type",
        "dlpack": "`gs.from_dlpack(x)`, `x.__dlpack__()`",
        "enable_checks": "`gs.configure(enable_checks=True)`",
        "enable_x64": "always on",
        "ensure_compile_time_eval": "compute outside of the traced function",
        "empty_ref": "`gs.numpy.empty(shape)`; `x[i] = value` works",
        "experimental": "`gs.io_callback`, `gs.multihost`, `gs.legacy`",
        "flatten_util": "`gs.tree.flatten`, and `gs.numpy.concatenate` of the raveled leaves",
        "float0": "nothing: there are no derivatives",
        "host_count": "`gs.process_count()`",
        "host_id": "`gs.process_index()`",
        "host_ids": "`range(gs.process_count())`",
        "lib": "nothing",
        "ops": "`gs.lax` has `segment_sum` and the others; `gpushard._ops` is internal",
        "new_ref": "`x`: `x[i] = value` works",
        "numpy_dtype_promotion": "NumPy's rules, with weak types for Python numbers",
        "numpy_rank_promotion": "allowed, as in NumPy",
        "print_environment_info": "`gpushard info` in a shell",
        "process_indices": "`range(gs.process_count())`",
        "Ref": "`gs.Array`: `x[i] = value` works",
        "scipy": "`gs.special`",
        "softmax_custom_jvp": "nothing: there are no derivatives",
        "thread_guard": "several threads may use an array",
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
            "nothing: there are no derivatives",
        ),
    },
    "numpy": {
        "ComplexWarning": "`numpy.exceptions.ComplexWarning`",
        "complex_": "`gs.numpy.complex128`",
        "float_": "`gs.numpy.float64`",
        "fromfile": "`gs.load(file, sharding)`, or `numpy.fromfile` and `gs.device_put`",
        "fromstring": "`numpy.fromstring` and `gs.device_put`",
        **dict.fromkeys(
            ("character", "flexible", "object_"), "nothing: elements are numbers and booleans"
        ),
    },
    "lax": {
        "AccuracyMode": "nothing: functions are as precise as NumPy's",
        "DotAlgorithm": "products have the full precision of their type",
        "DotAlgorithmPreset": "products have the full precision of their type",
        "PrecisionLike": "`gs.lax.Precision`",
        "RaggedDotDimensionNumbers": "`gs.lax.ragged_dot`, or `gs.lax.dot_general` for each group",
        "RandomAlgorithm": "`gs.random`: only keys of Threefry",
        "Tolerance": "nothing: functions are as precise as NumPy's",
        "after_all": "nothing: operations run in order",
        "approx_max_k": "`gs.lax.top_k`, exact",
        "approx_min_k": "`gs.lax.top_k(-x, k)`, exact",
        "broadcast_like": "`gs.numpy.broadcast_to(x, y.shape)`",
        "composite": "the function itself",
        "conv_general_dilated_local": "`gs.numpy.einsum` of windows",
        "conv_general_dilated_patches": "`gs.lax.conv_general_dilated` with an identity as kernel",
        "conv_general_permutations": "`gs.lax.conv_dimension_numbers`",
        "conv_general_shape_tuple": "`gs.eval_shape` of `gs.lax.conv_general_dilated`",
        "conv_shape_tuple": "`gs.eval_shape` of `gs.lax.conv`",
        "conv_transpose_shape_tuple": "`gs.eval_shape` of `gs.lax.conv_transpose`",
        "create_token": "nothing: operations run in order",
        "custom_linear_solve": "`solve` itself: there are no derivatives",
        "custom_root": "`solve` itself: there are no derivatives",
        "dce_sink": "nothing: values that callbacks read are always computed",
        "dtype": "`x.dtype`",
        "igamma_grad_a": "nothing: there are no derivatives",
        "mulhi": "`gs.lax.mul` in a wider type, and `gs.lax.shift_right_arithmetic`",
        "pcast": "nothing: values may vary over any axis",
        "platform_dependent": "`if gs.default_backend() == ...`",
        "precv": "`gs.lax.ppermute`",
        "psend": "`gs.lax.ppermute`",
        "ragged_all_to_all": "`gs.lax.all_to_all`, padded",
        "ragged_dot_general": "`gs.lax.ragged_dot`, or `gs.lax.dot_general` for each group",
        "random_gamma_grad": "nothing: there are no derivatives",
        "reduce_window_shape_tuple": "`gs.eval_shape` of `gs.lax.reduce_window`",
        "rng_bit_generator": "`gs.random.bits`",
        "rng_uniform": "`gs.random.uniform`",
        "scaled_dot": "`gs.lax.dot` of scaled operands",
        "shape_as_value": "`x.shape`",
        "stage": "`x`",
    },
    "sharding": {
        "AbstractDevice": "a mesh without devices: `gs.AbstractMesh`",
        "auto_axes": "nothing: all axes are alike",
        "explicit_axes": "nothing: all axes are alike",
        "get_abstract_mesh": "`gs.get_mesh()`",
        "make_single_device_sharding": "`gs.SingleDeviceSharding(device)`",
        "use_abstract_mesh": "`gs.use_mesh(mesh)`",
    },
    "tree_util": {
        "default_registry": "nothing: all nodes are registered in one place",
    },
    "nn": {
        "scaled_dot_general": "`gs.numpy.einsum`",
        "scaled_matmul": "`gs.numpy.matmul`",
    },
}
"""Replacements of missing names."""

HEAD = """\
# Coming from JAX

To port a program, change `import jax.numpy as jnp` to `import gpushard.numpy as jnp`, and `jax` to
`gs`. Arrays have JAX's attributes and methods. Outside of `jit`, operations run immediately.

A [table in the README](../README.md#where-gpushard-differs-from-jax-on-purpose) lists the intended
differences: uneven shapes are legal, 64-bit types are on, `x[i] = v` works, and pickles keep their
sharding. `gpushard.nnx` has Flax's modules; [its page](nnx.md) lists the differences.

The tables below have every public name of JAX {version}, except for primitives, with names that end
in `_p`. A name is *same* if it takes all of JAX's arguments and returns equal values for them.
Types of results follow NumPy: `sqrt` of `int8` is `float16`, and the mean of `int8` is `float64`.
For a missing name, the last column says what to use instead.
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
            f"{same} are the same.\n\n| name | here | notes |\n|---|---|---|"
        )
        parts[-1] += "".join(f"\n| `{name}` | {how} | {note} |" for name, how, note in rows) + "\n"
    return "\n".join(parts)


def rows_of(theirs: ModuleType, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield each name, its status here, and its differences or its replacement."""
    ours = namespace(module)
    for name in sorted(public_names(theirs)):
        internal = name in INTERNAL.get(module, ())
        if ours is not None and hasattr(ours, name) and not internal:
            notes = [DIFFERS.get(module, {}).get(name), *lacking(theirs, ours, name)]
            note = "; ".join(filter(None, notes))
            yield name, "differs" if note else "same", note
        else:
            yield name, "missing", NEAREST.get(module, {}).get(name) or elsewhere(name)


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
    """Yield the arguments that gpushard's function has under other names, or lacks."""
    if inspect.ismodule(getattr(theirs, name)):
        missing = set(public_names(getattr(theirs, name))) - set(dir(getattr(ours, name)))
        if missing and name not in MODULES:
            yield f"without {', '.join(f'`{each}`' for each in sorted(missing))}"
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
    without = []
    for place, parameter in enumerate(expected):
        if parameter not in wanted or parameter.name in known:
            continue
        if parameter.kind == parameter.POSITIONAL_OR_KEYWORD and place < len(by_place):
            if by_place[place] != parameter.name:
                yield f"`{parameter.name}` is `{by_place[place]}`"
            continue  # else it is only taken by place
        without.append(f"`{parameter.name}`")
    if without:
        yield f"without {', '.join(without)}"


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
