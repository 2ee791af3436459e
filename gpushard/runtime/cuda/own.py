"""Kernels of one launch for what takes CuPy many, on CuPy arrays in the current stream.

Loops over elements, strides and types are CuPy's `ElementwiseKernel` and `ReductionKernel`; what
is done with an element lies in `kernels/*.cuh`, where it is tested without a GPU. All write into
arrays that they are given.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
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
    **{"c8": "complex<float>", "c16": "complex<double>"},
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


def _types(operands: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(_type, operands, _LETTERS))


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
    kernel = _drawing(code, _name(work), _types(given), len(local), batch)
    lengths = (*local[:batch], *whole[batch:])
    kernel(keys, math.prod(whole[batch:]), *given, *lengths, *start[batch:], out)


@dataclasses.dataclass(frozen=True)
class Along:
    """A dim that is indexed, of a block."""

    size: int
    """Length of the dim of the whole array."""

    start: int
    """Where the block starts in it."""

    length: int
    """How long that is."""

    step: int
    """Bytes from one position to the next."""


def _offset(types: Sequence[str]) -> tuple[list[str], str]:
    """Return the operands, and the offset in a block, of positions along several dims."""
    inputs, offset = [], "0"
    for n, type_of in enumerate(types):
        inputs += [f"{type_of} at{n}", *(f"int64 {name}{n}" for name in _ALONG)]
        part = f"offset_in(at{n}, {', '.join(f'{name}{n}' for name in _ALONG)})"
        offset = part if not n else f"both({offset}, {part})"
    return inputs, offset


_ALONG = tuple(field.name for field in dataclasses.fields(Along))


@functools.lru_cache(maxsize=1024)
def _taking(types: tuple[str, ...], mode: str) -> Any:
    inputs, offset = _offset(types)
    missing = {"fill": "else part = fill", "there": "else part = T(0); there = from >= 0"}
    return _elementwise(
        ", ".join(["T x", *inputs, *(["T fill"] if mode == "fill" else [])]),
        "T part, bool there" if mode == "there" else "T part",
        f"const long long from = {offset}; if (from >= 0) part = moved(x, from);"
        f"{missing.get(mode, '')}",
        "take",
        "indexing",
    )


def take(
    x: LocalArray,
    positions: Sequence[Any],
    dims: Sequence[Along],
    out: LocalArray,
    fill: Any = None,
    there: LocalArray | None = None,
) -> None:
    """Take from a block what lies in it of what index arrays select.

    Args:
      x: the block, seen as having the shape of the selected part: of the indexed dims only the
        first element.
      positions: one array for each indexed dim, which broadcast with the part.
      dims: these.
      out: the part.
      fill: what elements get that are not in the block; if it is None, and `there`, they stay.
      there: gets which elements are; others become 0.
    """
    mode = "there" if there is not None else "" if fill is None else "fill"
    types = _types(positions)
    given = [(at, *dataclasses.astuple(dim)) for at, dim in zip(positions, dims, strict=True)]
    more = ([fill] if mode == "fill" else []) + [out] + ([there] if mode == "there" else [])
    _taking(types, mode)(x, *itertools.chain(*given), *more)


@functools.lru_cache(maxsize=1024)
def _locating(types: tuple[str, ...]) -> Any:
    inputs, offset = _offset(types)
    return _elementwise(", ".join(inputs), "int64 key", f"key = {offset}", "locate", "indexing")


@functools.lru_cache(maxsize=1024)
def _updating(operation: str, work: str, value: str, given: str, is_sorted: bool) -> Any:
    if is_sorted:
        replaces = "true" if operation == "Replace" else "false"
        call = f"update_sorted<{operation}, W, V>(x, value, step, &key - n, &order - n, n, count, "
        call += f"{replaces})"
    else:
        call = f"update_few<{operation}, W, V>(x, value, step, &key - n, n, count)"
    lines = [
        f"typedef {work} W",
        f"typedef {value} V",
        "const long long n = _ind.get()[_ind.ndim - 1]",
        call,
    ]
    inputs = f"{given} value, int64 step, int64 count, int64 key"
    return _elementwise(
        inputs + ", int64 order" * is_sorted,
        "T x",
        "; ".join(lines),
        "update",
        "indexing",
        reduce_dims=False,
    )


FEW = 1 << 10
"""So many updates look at one another before they are sorted."""


def update(
    operation: str,
    work: np.dtype[Any],
    kind: np.dtype[Any],
    x: LocalArray,
    value: Any,
    positions: Sequence[LocalArray],
    dims: Sequence[Along],
    shape: Shape,
) -> None:
    """Replace elements of a block, or combine them with values, one after the other.

    Args:
      operation: a class of `kernels/indexing.cuh`.
      work: the type to combine in.
      kind: the type of values for that.
      x: the block, seen as having the shape of values that broadcast: of the indexed dims only the
        first element. The last dim is that of updates which may be of the same element.
      value: of each update; of the same shape.
      positions: one array for each indexed dim, all of one shape.
      dims: these.
      shape: what that is reshaped to, so that it broadcasts with the block.
    """
    count = x.shape[-1]
    key = cupy.empty(positions[0].shape, np.int64)
    given = [(at, *dataclasses.astuple(dim)) for at, dim in zip(positions, dims, strict=True)]
    _locating(_types(positions))(*itertools.chain(*given), key)
    key = key.reshape(shape)
    step, more, is_sorted = 0, [key], count > FEW
    if isinstance(value, cupy.ndarray):
        step = value.strides[-1]
        value = value[..., :1] if is_sorted else value
    if is_sorted:
        more.append(cupy.argsort(key, axis=-1, kind="stable"))
    kernel = _updating(operation, _name(work), _name(kind), _type(value, "G"), is_sorted)
    kernel(value, step, count, *more, x)
