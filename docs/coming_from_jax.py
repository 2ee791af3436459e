"""Makes coming-from-jax.md from the installed JAX: `python docs/coming_from_jax.py`.

What is there, and what arguments it lacks, is found out; notes on what differs, and on what stands
for what is not there, are below, and nowhere else.
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
"""Modules of JAX that are there once something has imported them, as other libraries do."""

ELSEWHERE = ("numpy", "special", "nn", "debug", "multihost", "tree_util", "legacy", "sharding")
"""Where a name is looked for that is not in the module of its name."""

_UNREDUCED = "a spec keeps `unreduced`, and no sharding takes it: arrays hold complete sums"

INTERNAL = {"": ("ops",)}
"""Names of modules that have another meaning here."""

DIFFERS: dict[str, dict[str, str]] = {
    "": {
        "Array": "`x[i] = value` works; pickles keep the sharding; "
        "`memoryview(x)` from Python 3.12 on",
        "debug": "whole arrays are printed, `partitioned=` or not",
        "Device": "a device may be a part of a GPU",
        "NamedSharding": "dims need not be divisible by the axes that split them",
        "P": _UNREDUCED,
        "ShapeDtypeStruct": "without `is_ref`, `manual_axis_type`",
        "config": "what has no meaning here is refused, with what to use in its place",
        "device_put": "never through the host where both are on devices",
        "default_backend": '"cpu" or "gpu"',
        "live_arrays": "without those that were deleted",
        "make_array_from_callback": "one call for each distinct box; takes `dtype` for no data",
        "process_count": "1 in this version",
        "process_index": "0 in this version",
        "smap": "`in_axes` has to be given: it is not what the sharding of arguments says",
        "pure_callback": "gets NumPy arrays; one call for what is the same on all devices",
    },
    "numpy": {
        "array": "64-bit types are on, as in NumPy",
        "asarray": "64-bit types are on, as in NumPy",
        "allclose": "a `bool`, unless it is traced",
        "argpartition": "positions have 64 bits",
        "array_equal": "a `bool`, unless it is traced",
        "array_equiv": "a `bool`, unless it is traced",
        "convolve": "integers stay integers, as in NumPy",
        "correlate": "integers stay integers, as in NumPy",
        "cumprod": "small integers are multiplied in 64 bits, as in NumPy",
        "cumsum": "small integers are summed in 64 bits, as in NumPy",
        "digitize": "positions have 64 bits",
        "divmod": "an integer divided by 0 gives 0, as in NumPy",
        "floor_divide": "an integer divided by 0 gives 0, as in NumPy",
        "histogram": "counts are integers, as in NumPy",
        "histogram2d": "counts are floats, as in NumPy",
        "histogramdd": "counts are floats, as in NumPy",
        "nancumprod": "small integers are multiplied in 64 bits, as in NumPy",
        "nancumsum": "small integers are summed in 64 bits, as in NumPy",
        "percentile": "as `quantile`",
        "polydiv": "leading zeros of the remainder are left out, unless it is traced",
        "polymul": "leading zeros are left out, unless it is traced; integers stay integers",
        "put": "positions out of bounds raise",
        "put_along_axis": "positions out of bounds raise",
        "quantile": "beside infinite elements some results are NaN where JAX's are not, "
        "and the other way round",
        "reciprocal": "integers stay integers, as in NumPy",
        "searchsorted": "positions have 64 bits",
        "take": "positions out of bounds raise, also with `mode=None`",
        "take_along_axis": "positions out of bounds raise, also with `mode=None`",
        "tri": "float64 by default",
        "vsplit": "at least two dims, as in NumPy",
        "unique": "without `size`, the size is read from the devices",
        "nonzero": "without `size`, the size is read from the devices",
    },
    "nn": {
        "dot_product_attention": "the softmax of float64 is computed in float64",
        "gelu": "`approximate=False` needs SciPy",
        "one_hot": "float64 by default",
    },
    "lax": {
        "add": "numbers of Python's take the dtype of the array, as in all of `lax`",
        "conv_general_dilated": "features and batch stay split, other dims come whole",
        "dot": "two types promote as in NumPy: `float32` and `int32` to `float64`",
        "dot_general": "two types promote as in NumPy: `float32` and `int32` to `float64`",
        "linalg": "singular matrices raise on the host; `gs.numpy.linalg` has more",
        "ragged_dot": "`group_offset` must be None",
        "reduce": "the function gets arrays, and combines their elements one by one",
        "reduce_window": "of sums, products, extremes and bits",
        "stop_gradient": "returns what it gets: there are no derivatives",
    },
    "random": {
        "key": "keys are those of Threefry",
    },
    "sharding": {
        "NamedSharding": "dims need not be divisible by the axes that split them",
        "AxisType": "meshes keep types; axes of all types work alike",
        "Mesh": "meshes that differ in `axis_types` only are equal",
        "AbstractMesh": "without `abstract_device`",
        "PartitionSpec": _UNREDUCED,
    },
}
"""What is to be known of a name that is there."""

NEAREST: dict[str, dict[str, str]] = {
    "": {
        "checkpoint": "nothing: there are no derivatives",
        "checkpoint_policies": "nothing: there are no derivatives",
        "checking_leaks": "nothing: operations run as they are called",
        "clear_caches": "`gs.empty_cache()` gives free memory back; plans are bounded",
        "copy_to_host_async": "`x.copy_to_host_async()`",
        "debug_nans": "`gs.numpy.isnan(x).any()`",
        "disable_jit": "nothing: operations run as they are called",
        "distributed": "one process in this version",
        "default_matmul_precision": "products have all digits of their type",
        "dlpack": "`gs.from_dlpack(x)`, `x.__dlpack__()`",
        "enable_checks": "`gs.configure(enable_checks=True)`",
        "enable_x64": "always on",
        "ensure_compile_time_eval": "nothing: operations run as they are called",
        "eval_shape": "`gs.ShapeDtypeStruct`, `x.aval`",
        "empty_ref": "`gs.numpy.empty(shape)`; `x[i] = value` works",
        "experimental": "`gs.io_callback`, `gs.multihost`, `gs.legacy`",
        "flatten_util": "`gs.tree.flatten`, and `gs.numpy.concatenate` of its leaves, raveled",
        "float0": "nothing: there are no derivatives",
        "host_count": "`gs.process_count()`",
        "host_id": "`gs.process_index()`",
        "host_ids": "`range(gs.process_count())`",
        "jit": "nothing yet: operations run as they are called",
        "lib": "nothing",
        "log_compiles": "nothing: nothing is compiled for a program",
        "make_jaxpr": "nothing yet",
        "ops": "`gs.lax`, which has `segment_sum` and the others; `gpushard.ops` is internal",
        "new_ref": "`x`: `x[i] = value` works",
        "numpy_dtype_promotion": "NumPy's rules, with weak types for Python's numbers",
        "numpy_rank_promotion": "allowed, as in NumPy",
        "print_environment_info": "`gpushard info` in a shell",
        "process_indices": "`range(gs.process_count())`",
        "Ref": "`gs.Array`: `x[i] = value` works",
        "scipy": "`gs.special`",
        "softmax_custom_jvp": "nothing: there are no derivatives",
        "thread_guard": "arrays may be used by several threads",
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
            "nothing: there are no derivatives",
        ),
    },
    "numpy": {
        "ComplexWarning": "`numpy.exceptions.ComplexWarning`",
        "complex_": "`gs.numpy.complex128`",
        "float_": "`gs.numpy.float64`",
        "fromfile": "`gs.load(file, sharding)`, or `numpy.fromfile` and `gs.device_put`",
        "fromstring": "`numpy.fromstring` and `gs.device_put`",
        "frompyfunc": "`gs.numpy.vectorize`",
        "ufunc": "`numpy.ufunc`: those of NumPy take arrays",
        **dict.fromkeys(
            ("character", "flexible", "object_"), "nothing: elements are numbers and booleans"
        ),
    },
    "lax": {
        "AccuracyMode": "nothing: functions are as precise as NumPy's",
        "DotAlgorithm": "products have all digits of their type",
        "DotAlgorithmPreset": "products have all digits of their type",
        "PrecisionLike": "`gs.lax.Precision`",
        "RaggedDotDimensionNumbers": "`gs.lax.ragged_dot`, or `gs.lax.dot_general` for each group",
        "RandomAlgorithm": "`gs.random`: keys are those of Threefry",
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
        "dce_sink": "nothing: what callbacks read is computed",
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
        "scaled_dot": "`gs.lax.dot` of what is scaled",
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
"""What stands for a name that is not there. Once it is, the entry is not read."""

HEAD = """\
# Coming from JAX

Programs change `import jax.numpy as jnp` to `import gpushard.numpy as jnp`, and `jax` to `gs`.
Arrays have JAX's attributes and methods. What differs on purpose is in
[a table of the README](../README.md#where-gpushard-differs-from-jax-on-purpose): uneven shapes are
legal, 64-bit types are on, `x[i] = v` works, and pickles keep their sharding. Operations run as
they are called.

Modules as Flax has them are in `gpushard.nnx`; [its page](nnx.md) says what differs.

The tables have every public name of JAX {version}, but for primitives, whose names end in `_p`. A
name is *the same* if it takes all arguments that JAX's does, and gives the same values for them.
Types of results are NumPy's: `sqrt` of `int8` is `float16`, and the mean of `int8` is `float64`.
Where there is no such name, the last column says what to use.
"""


def tables(jax: ModuleType) -> str:
    """Return the page."""
    parts = [HEAD.format(version=jax.__version__)]
    for module in MODULES:
        theirs = importlib.import_module(f"jax.{module}".rstrip("."))
        rows = list(rows_of(theirs, module))
        same = sum(how == "same" for _, how, _ in rows)
        there = sum(how != "not there" for _, how, _ in rows)
        ours = f"gs.{module}".rstrip(".")
        parts.append(
            f"## `{theirs.__name__}`\n\n{len(rows)} names, of which `{ours}` has {there}, "
            f"{same} of them the same.\n\n| name | here | how |\n|---|---|---|"
        )
        parts[-1] += "".join(f"\n| `{name}` | {how} | {note} |" for name, how, note in rows) + "\n"
    return "\n".join(parts)


def rows_of(theirs: ModuleType, module: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, whether it is there, and how it differs or what is near."""
    ours = namespace(module)
    for name in sorted(public_names(theirs)):
        internal = name in INTERNAL.get(module, ())
        if ours is not None and hasattr(ours, name) and not internal:
            notes = [DIFFERS.get(module, {}).get(name), *lacking(theirs, ours, name)]
            note = "; ".join(filter(None, notes))
            yield name, "differs" if note else "same", note
        else:
            yield name, "not there", NEAREST.get(module, {}).get(name) or elsewhere(name)


def public_names(module: ModuleType) -> list[str]:
    """Return what users may use of a module of JAX."""
    for name in UNIMPORTED:
        importlib.import_module(f"jax.{name}")
    names = [name for name in dir(module) if name[0] != "_" and not name.endswith("_p")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [name for name in names if hasattr(module, name)]


def namespace(module: str) -> Any:
    """Return our module of a name, or None."""
    return getattr(gs, module, None) if module else gs


def elsewhere(name: str) -> str:
    """Return where else the name is."""
    if hasattr(gs, name):
        return f"`gs.{name}`"
    for module in ELSEWHERE:
        if hasattr(namespace(module), name):
            return f"`gs.{module}.{name}`"
    return ""


def lacking(theirs: Any, ours: Any, name: str) -> Iterator[str]:
    """Yield which arguments ours has under other names, or not at all."""
    if inspect.ismodule(getattr(theirs, name)):
        missing = set(public_names(getattr(theirs, name))) - set(dir(getattr(ours, name)))
        if missing and name not in MODULES:
            yield f"without {', '.join(f'`{each}`' for each in sorted(missing))}"
        return
    parameters = [parameters_of(getattr(module, name)) for module in (theirs, ours)]
    if None in parameters:
        return
    given, taken = parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in taken):
        return
    known = {p.name for p in taken if p.kind != p.POSITIONAL_ONLY}
    by_place = [p.name for p in taken if p.kind != p.KEYWORD_ONLY]
    wanted = [p for p in given if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    without = []
    for place, parameter in enumerate(given):
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
