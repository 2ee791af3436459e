"""Kernels of one launch for what takes CuPy many, on CuPy arrays in the current stream.

Loops over elements, strides and types are CuPy's `ElementwiseKernel` and `ReductionKernel`; what
is done with an element lies in `kernels/*.cuh`, where it is tested without a GPU. All write into
arrays that they are given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from gpushard.runtime.cuda.sources import kernel_header
from gpushard.typing import LocalArray, Shape

_OPTIONS = ("--fmad=false",)
"""Products and sums are rounded one by one, as on the host."""

_LETTERS = "ABCDEFGH"
"""Names for types of operands, which CuPy wants to be one letter long."""

_NAMES = {
    "?": "bool",
    **{f"i{n}": f"{name}" for n, name in ((1, "signed char"), (2, "short"), (4, "int"))},
    **{f"u{n}": f"unsigned {name}" for n, name in ((1, "char"), (2, "short"), (4, "int"))},
    **{"i8": "long long", "u8": "unsigned long long"},
    **{"f2": "float16", "f4": "float", "f8": "double"},
}


def _name(dtype: np.dtype[Any]) -> str:
    """Return what CUDA C++ calls a type.

    >>> _name(np.dtype(np.uint8))
    'unsigned char'
    """
    return _NAMES["?" if dtype.kind == "b" else f"{dtype.kind}{dtype.itemsize}"]


def _type(operand: Any, letter: str) -> str:
    """Return the type of an operand in CuPy's terms: a letter stands for that of an array."""
    return letter if isinstance(operand, cupy.ndarray) else operand.dtype.name


def _elementwise(inputs: str, outputs: str, code: str, name: str, header: str, **more: Any) -> Any:
    return cupy.ElementwiseKernel(
        inputs,
        outputs,
        code,
        f"gpushard_{name}",
        preamble=kernel_header(header),
        options=_OPTIONS,
        **more,
    )


_threefry = functools.cache(
    lambda: _elementwise(
        "uint32 key0, uint32 key1, uint32 high, uint32 low",
        "uint32 first, uint32 second",
        "const Words drawn = threefry(key0, key1, high, low);"
        "first = drawn.first; second = drawn.second",
        "threefry",
        "random",
    )
)


def threefry(
    key: tuple[Any, Any], high: Any, low: Any, out: tuple[LocalArray, ...] = ()
) -> tuple[Any, Any]:
    """Do what `gpushard.ops.random.threefry` does, for results that may be given."""
    first, second = _threefry()(*key, high, low, *out)
    return first, second


@functools.lru_cache(maxsize=1024)
def _drawing(code: str, work: str, types: tuple[str, ...], ndim: int, batch: int) -> Any:
    dims, parameters = range(ndim), range(len(types))
    inputs = [
        "raw K keys",
        "uint64 count",
        *(f"{type_of} given{n}" for n, type_of in enumerate(types)),
        *(f"int64 length{dim}" for dim in dims),
        *(f"int64 start{dim}" for dim in dims[batch:]),
    ]
    number, at = "0", "0"
    for dim in dims[:batch]:
        number = f"({number}) * length{dim} + index[{dim}]"
    for dim in dims[batch:]:
        at = f"({at}) * length{dim} + (start{dim} + index[{dim}])"
    lines = [
        f"typedef {work} W",
        "const ptrdiff_t* index = _ind.get()",
        f"const Stream s = stream_of(keys, {number}, {at}, count)",
        *(f"const W p{n} = W(given{n})" for n in parameters),
        f"drawn = T({code}({', '.join(['s', *(f'p{n}' for n in parameters)])}))",
    ]
    text = "; ".join(lines)
    return _elementwise(", ".join(inputs), "T drawn", text, "draw", "random", reduce_dims=False)


def draw(
    code: str,
    work: np.dtype[Any],
    keys: LocalArray,
    parameters: Sequence[Any],
    out: LocalArray,
    start: Shape,
    whole: Shape,
) -> None:
    """Draw a number for each element of a block.

    Args:
      code: a function of `kernels/random.cuh`, which takes the stream of an element and parameters
        of the type `W`; `T` is the type of the result.
      work: what `W` is.
      keys: uint32 of shape (..., 2); the leading dims are those of the block, and every key counts
        the elements of the other dims on its own.
      parameters: numbers, or arrays that broadcast with the block.
      out: the block.
      start: its first element in the whole array.
      whole: shape of that.
    """
    batch = keys.ndim - 1
    local = out.shape
    if not local:
        out, local, start, whole = out.reshape(1), (1,), (0,), (1,)
    given = [p if isinstance(p, cupy.ndarray) else work.type(p) for p in parameters]
    types = tuple(_type(p, letter) for p, letter in zip(given, _LETTERS, strict=False))
    kernel = _drawing(code, _name(work), types, len(local), batch)
    lengths = (*local[:batch], *whole[batch:])
    kernel(keys, math.prod(whole[batch:]), *given, *lengths, *start[batch:], out)
