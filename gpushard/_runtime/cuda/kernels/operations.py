"""Do in one launch what takes CuPy several, on CuPy arrays in the current stream.

CuPy's `ElementwiseKernel` and `ReductionKernel` make the loops over elements, strides and dtypes.
The code for an element lies in `kernels/*.cuh`, where it is tested without a GPU. All functions
write into arrays of the caller.
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

from gpushard._runtime.cuda.kernels.elementwise import cuda_name
from gpushard._runtime.cuda.kernels.sources import kernel_header
from gpushard._typing import Dtype, LocalArray, LocalArrays, Shape
from gpushard.dtypes import kind_of, real_of

_OPTIONS = ("--fmad=false",)  # products and sums are rounded separately, as on the host
_LETTERS = "ABCDEFGH"  # names for dtypes of operands, which must be one letter long for CuPy


def _type(operand: Any, letter: str) -> str:
    """Return the dtype of an operand in CuPy's terms: a letter stands for that of an array."""
    return letter if isinstance(operand, cupy.ndarray) else operand.dtype.name


def _types(operands: Sequence[Any]) -> tuple[str, ...]:
    return tuple(map(_type, operands, _LETTERS))


def _with_dim(x: LocalArray) -> LocalArray:
    """Give an array at least one dim: in a kernel, a scalar has no address."""
    return x if x.ndim else x.reshape(1)


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
    """Compute `gpushard._ops.prng.threefry`, into `out` if it comes."""
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
    work: Dtype,
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
      work: the type `W`.
      keys: uint32 of shape (..., 2); the leading dims are those of the block, and every key counts
        the elements of the other dims on its own.
      parameters: numbers, or arrays that broadcast with the block.
      out: the block.
      start: position of its first element in the whole array.
      whole: shape of the whole array.
    """
    batch = keys.ndim - 1
    local = out.shape
    if not local:
        out, local, start, whole = out.reshape(1), (1,), (0,), (1,)
    operands = [p if isinstance(p, cupy.ndarray) else work.type(p) for p in parameters]
    kernel = _drawing(code, cuda_name(work), _types(operands), len(local), batch)
    lengths = (*local[:batch], *whole[batch:])
    kernel(keys, math.prod(whole[batch:]), *operands, *lengths, *start[batch:], out)


@dataclasses.dataclass(frozen=True)
class Along:
    """An indexed dim of a block."""

    size: int  # length of the dim in the whole array
    start: int  # position where the block starts
    length: int  # length of the dim in the block
    step: int  # bytes from one position to the next


def _offset(types: Sequence[str]) -> tuple[list[str], str]:
    """Write the operands and the offset in a block for positions along several dims."""
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
    inside: LocalArray | None = None,
) -> None:
    """Take the elements that index arrays select and that lie in a block.

    Args:
      x: a view of the block in the shape of the selected part; it has only the first element of
        indexed dims.
      positions: one array for each indexed dim, which broadcast with the part.
      dims: the indexed dims.
      out: the part.
      fill: the value of elements outside the block. If `fill` and `inside` are None, they stay.
      inside: gets whether each element is in the block; others become 0.
    """
    mode = "there" if inside is not None else "" if fill is None else "fill"
    types = _types(positions)
    operands = [(at, *dataclasses.astuple(dim)) for at, dim in zip(positions, dims, strict=True)]
    more = [fill] if mode == "fill" else []
    outs = [out] if inside is None else [out, inside]
    kernel = _taking(types, mode)
    kernel(_with_dim(x), *itertools.chain(*operands), *more, *map(_with_dim, outs))


@functools.lru_cache(maxsize=1024)
def _locating(types: tuple[str, ...]) -> Any:
    inputs, offset = _offset(types)
    return _elementwise(", ".join(inputs), "int64 key", f"key = {offset}", "locate", "indexing")


@functools.lru_cache(maxsize=1024)
def _updating(
    operation: str, work: str, value: str, operand: str, ndim: int, is_sorted: bool
) -> Any:
    if is_sorted:
        replaces = "true" if operation == "Replace" else "false"
        call = f"update_sorted<{operation}, W, V>(x, value, step, &key - n, &order - n, n, count, "
        call += f"{replaces})"
    else:
        call = f"update_few<{operation}, W, V>(x, value, step, &key - n, n, count)"
    lines = [
        f"typedef {work} W",
        f"typedef {value} V",
        f"const long long n = _ind.get()[{ndim - 1}]",
        call,
    ]
    inputs = f"{operand} value, int64 step, int64 count, int64 key"
    return _elementwise(
        inputs + ", int64 order" * is_sorted,
        "T x",
        "; ".join(lines),
        "update",
        "indexing",
        reduce_dims=False,
    )


FEW = 1 << 10  # up to this many updates are compared with one another; more are sorted


def update(
    operation: str,
    work: Dtype,
    kind: Dtype,
    x: LocalArray,
    value: Any,
    positions: LocalArrays,
    dims: Sequence[Along],
    grid: Shape,
    shape: Shape,
) -> None:
    """Replace elements of a block, or combine them with values, one after the other.

    Args:
      operation: a class of `kernels/indexing.cuh`.
      work: the dtype in which elements are combined.
      kind: the dtype of values for that.
      x: a view of the block in the shape of the broadcast values; it has only the first element of
        indexed dims. Updates along the last dim may be of the same element.
      value: the value of each update, in that shape.
      positions: numbers, or arrays of one shape, one for each indexed dim.
      dims: the indexed dims.
      grid: the shape of positions.
      shape: the shape to which positions are reshaped, to broadcast with the block.
    """
    count = x.shape[-1]
    key = cupy.empty(grid, np.int64)
    operands = [(at, *dataclasses.astuple(dim)) for at, dim in zip(positions, dims, strict=True)]
    _locating(_types(positions))(*itertools.chain(*operands), key)
    key = key.reshape(shape)
    step, more, is_sorted = 0, [key], count > FEW
    if isinstance(value, cupy.ndarray):
        step = value.strides[-1]
        value = value[..., :1] if is_sorted else value
    if is_sorted:
        more.append(cupy.argsort(key, axis=-1, kind="stable"))
    if operation in ("Add", "Subtract", "Multiply"):  # overflow of these is defined
        work, kind = (np.dtype(f"u{t.itemsize}") if t.kind == "i" else t for t in (work, kind))
    types = cuda_name(work), cuda_name(kind), _type(value, "G")
    kernel = _updating(operation, *types, x.ndim, is_sorted)
    kernel(value, step, count, *more, x)


_REDUCTIONS = {
    "nonzero": ("int64 out0", "in0 != T(0) ? 1 : 0", "a + b", "out0 = a", "0", "long long"),
    "valid": ("int64 out0", "in0 == in0 ? 1 : 0", "a + b", "out0 = a", "0", "long long"),
    "valid sum": ("S out0", "in0 == in0 ? S(in0) : S(0)", "a + b", "out0 = a", "0", None),
    "nanmin": (
        "T out0", "Held<T>(in0)", "further(a, b, true)", "out0 = a.value", "Held<T>()", "Held<T>"
    ),
    "nanmax": (
        "T out0", "Held<T>(in0)", "further(a, b, false)", "out0 = a.value", "Held<T>()", "Held<T>"
    ),
    "furthest": ("int64 out0", "position(in0)", "outer(a, b)", "out0 = a", "-1", "long long"),
    "argmin": (
        "int64 out0", "Placed<T>(in0, _J)", "first(a, b, true)", "out0 = a.at", "Placed<T>()",
        "Placed<T>",
    ),
    "argmax": (
        "int64 out0", "Placed<T>(in0, _J)", "first(a, b, false)", "out0 = a.at", "Placed<T>()",
        "Placed<T>",
    ),
}  # fmt: skip
"""Reductions of one operand to one result; CuPy makes large ones in two steps. Each has the dtype
of the result, the value of an element, and the combination of two. Then come the result, the start,
and its type if that is not the result's."""


@functools.lru_cache(maxsize=64)
def _reduction(name: str) -> Any:
    *code, start, kind = _REDUCTIONS[name]
    return cupy.ReductionKernel(
        "T in0",
        *code,
        start,
        f"gpushard_{name.replace(' ', '_')}",
        reduce_type=kind,
        preamble=kernel_header("reduction"),
        options=_OPTIONS,
    )


def reduce(name: str, x: LocalArray, axes: tuple[int, ...], out: LocalArray) -> LocalArray:
    """Reduce some dims of an array, and return `out`.

    Args:
      name: "nonzero" counts elements that are not 0, "valid" those that are not NaN. "valid sum"
        adds up the latter, and "nanmin" and "nanmax" are their extremes. "furthest" is the position
        that needs the longest dim to be in bounds. "argmin" and "argmax" are the row-major number
        of the first extreme, or of the first NaN.
      x: the array, which has elements along the reduced dims.
      axes: the reduced dims.
      out: the result, with or without the reduced dims as dims of length 1.
    """
    gone = {axis % x.ndim for axis in axes}
    shape = [n for dim, n in enumerate(x.shape) if dim not in gone]
    _reduction(name)(x, axis=axes, out=out.reshape(shape))
    return out


@functools.lru_cache(maxsize=64)
def _numbering(count: int) -> Any:
    lines = ["long long left = at, offset = 0, number = 0, many = 1, place"]
    for n in reversed(range(count)):
        lines += [
            f"place = left % length{n}; left /= length{n}; offset += place * step{n}",
            f"number += (place + start{n}) * many; many *= size{n}",
        ]
    scalars = [f"int64 {name}{n}" for n in range(count) for name in _ALONG]
    lines += ["at = number", "value = moved(x, offset)"]
    return _elementwise(
        ", ".join(["T x", *scalars]),
        "int64 at, T value",
        "; ".join(lines),
        "number",
        "indexing",
    )


def extremes(
    name: str,
    x: LocalArray,
    axes: tuple[int, ...],
    dims: Sequence[Along],
    number: LocalArray,
    value: LocalArray | None = None,
) -> None:
    """Find "argmin" or "argmax" of a block, as row-major numbers in dims of the whole array.

    The axes ascend. `number` gets the positions and `value` the extremes, both without the reduced
    dims. Without `value` the block must have these dims whole.
    """
    if kind_of(x.dtype) == "f":  # CuPy's functions find any of several NaNs, not the first
        reduce(name, x, axes, number)
    else:
        getattr(x, name)(axis=axes, out=number)
    if value is None:
        return
    others = [dim for dim in range(x.ndim) if dim - x.ndim not in axes]
    shape, strides = ([of[dim] for dim in others] for of in (x.shape, x.strides))
    view = cupy.lib.stride_tricks.as_strided(x, shape, strides)
    scalars = itertools.chain(*map(dataclasses.astuple, dims))
    _numbering(len(dims))(_with_dim(view), *scalars, *map(_with_dim, (number, value)))


@functools.lru_cache(maxsize=64)
def _binning(common: str) -> Any:
    return _elementwise(
        "X x, raw E edges, int64 bins, int64 before",
        "int64 number",
        f"const long long at = bin_of<{common}>(edges, bins, static_cast<{common}>(x));"
        "number = at < 0 || (before && number < 0) ? -1 : before ? number * bins + at : at",
        "bin",
        "counting",
    )


def bin_numbers(x: LocalArray, edges: LocalArray, number: LocalArray, *, further: bool) -> None:
    """Find the bin of each element; -1 if it is in none.

    Args:
      x: the elements.
      edges: of the bins, ascending.
      number: gets the numbers.
      further: whether these are the bins of a further dim. Then `number` has the bins of the dims
        before, and gets the row-major numbers of both.
    """
    common = cuda_name(np.result_type(x.dtype, edges.dtype))
    _binning(common)(x, edges, len(edges) - 1, int(further), number)


@functools.lru_cache(maxsize=4)
def _tallying(weighted: bool) -> Any:
    what = "double(weight)" if weighted else "1ull"
    kind = "float64" if weighted else "uint64"
    return _elementwise(
        "N number, int64 length" + (", W weight" if weighted else ""),
        f"raw {kind} totals",
        "const long long at = static_cast<long long>(number);"
        f"if (at >= 0 && at < length) atomicAdd(&totals[at], {what})",
        "tally",
        "counting",
    )


def tally(number: LocalArray, length: int, weights: LocalArray | None, out: LocalArray) -> None:
    """Count each number below a length, or add up its weights, in no particular order.

    Numbers out of bounds do not count; `out` gets int64, or float64 with weights.
    """
    out[...] = 0
    if weights is None:
        _tallying(False)(number, length, out.view(np.uint64))
    else:
        _tallying(True)(number, length, weights, out)


@functools.lru_cache(maxsize=64)
def _finding(ndim: int) -> Any:
    lines = ["long long at = rank_of(counts, size, wanted + i - 1)", "const bool there = at < size"]
    for dim in reversed(range(ndim)):
        lines.append(f"place{dim} = there ? at % length{dim} : fill{dim}; at /= length{dim}")
    scalars = [f"int64 {name}{dim}" for dim in range(ndim) for name in ("length", "fill")]
    return _elementwise(
        ", ".join(["raw int64 counts, int64 size, int64 wanted", *scalars]),
        ", ".join(f"int64 place{dim}" for dim in range(ndim)),
        "; ".join(lines),
        "find",
        "counting",
    )


def nth_places(
    counts: LocalArray, shape: Shape, fills: Sequence[int], first: int, out: LocalArrays
) -> None:
    """Find the positions of true elements of a mask, from the true element number `first` on.

    `counts` has the number of true elements up to each element, in row-major order. `fills` has the
    value for each dim beyond the last true element.
    """
    scalars = itertools.chain(*zip(shape, fills, strict=True))
    _finding(len(shape))(counts, math.prod(shape), first + 1, *scalars, *out)


@functools.lru_cache(maxsize=8)
def _squaring(count: str, skips: bool, is_complex: bool) -> Any:
    square = "norm(apart)" if is_complex else "apart * apart"
    return _elementwise(
        f"T x, S total, {count} count",
        "R square",
        f"const S apart = S(x) - total / S(R(count > 1 ? count : 1)); square = {square};"
        + "if (x != x) square = R(0)" * skips,
        "square",
        "reduction",
    )


def squares(x: LocalArray, total: LocalArray, count: Any, *, skips: bool) -> LocalArray:
    """Compute squared distances from means, totals over counts; if `skips`, NaNs give 0."""
    real = real_of(total.dtype)
    square = cupy.empty(np.broadcast_shapes(x.shape, total.shape), real)
    kernel = _squaring(_type(count, "C"), skips, total.dtype.kind == "c")
    kernel(x, total, count, square)
    return square


@functools.lru_cache(maxsize=8)
def _dividing(count: str, root: bool) -> Any:
    return _elementwise(
        f"S total, {count} count, float64 correction, float64 otherwise",
        "S mean",
        "const double many = count - correction;"
        "mean = total / S(many > 0 ? many : otherwise);" + "mean = sqrt(mean)" * root,
        "quotient",
        "reduction",
    )


def quotient(
    total: LocalArray,
    count: Any,
    correction: float = 0,
    *,
    root: bool = False,
    otherwise: float = math.nan,
    out: LocalArray | None = None,
) -> LocalArray:
    """Divide sums by counts less a correction, or by `otherwise` if none is left; take roots."""
    kernel = _dividing(_type(count, "C"), root)
    result: LocalArray = kernel(
        total, count, correction, otherwise, *([] if out is None else [out])
    )
    return result


@functools.lru_cache(maxsize=64)
def _creating(inputs: str, code: str) -> Any:
    return _elementwise(inputs, "T made", code, "make", "counting", reduce_dims=False)


def arange(out: LocalArray, start: int, begin: Any, delta: Any, ends: Sequence[Any]) -> None:
    """Write evenly spaced numbers; the first element of `out` is number `start` of the whole array.

    `begin` and `delta` have the dtype to compute in; integers count in uint64 and wrap around.
    `ends` are elements 0 and 1 of the whole array.
    """
    work = begin.dtype.name
    code = f"begin + static_cast<{cuda_name(begin.dtype)}>(at) * delta"
    kernel = _creating(
        f"{work} begin, {work} delta, T first, T second, int64 start",
        "const long long at = start + i;"
        f"made = at == 0 ? first : at == 1 ? second : static_cast<T>({code})",
    )
    kernel(begin, delta, *ends, start, out)


def linspace(out: LocalArray, start: int, numbers: Sequence[Any], div: int, last: int) -> None:
    """Write a block of `linspace`, as NumPy does to the bit; its first element is number `start`.

    `numbers` are the first, the last, their difference, and the step, in the dtype to compute in.
    `div` is the number of steps, and `last` the position of the last number.
    """
    work = numbers[0].dtype
    names = ("begin", "end", "delta", "step")
    whole = "floor" if out.dtype.kind in "iu" else ""
    kernel = _creating(
        ", ".join(
            [*(f"{work.name} {name}" for name in names), "int64 start, int64 div, int64 last"]
        ),
        f"typedef {cuda_name(work)} W; const long long at = start + i; W value = W(at);"
        "value = div > 0 ? step == W(0) ? value / W(div) * delta : value * step : value * delta;"
        f"value = at == last ? end : value + begin; made = static_cast<T>({whole}(value))",
    )
    kernel(*numbers, start, div, last, out)


def eye(out: LocalArray, right: int) -> None:
    """Write 1 on the diagonal that starts `right` columns right of the first element, else 0."""
    kernel = _creating(
        "int64 right", "const ptrdiff_t* at = _ind.get(); made = T(at[0] + right == at[1] ? 1 : 0)"
    )
    kernel(right, out)


def triangle(x: LocalArray, edge: int, part: str, out: LocalArray) -> None:
    """Keep the "left" or "right" part of matrices, and write 0 elsewhere.

    `edge` elements of the first row are on the left; each further row has one more.
    """
    comparison = "<" if part == "left" else ">="
    kernel = _creating(
        "T x, int64 edge",
        f"const ptrdiff_t* at = _ind.get() + {x.ndim - 2};"
        f"made = at[1] {comparison} at[0] + edge ? x : T(0)",
    )
    kernel(x, edge, out)


@functools.lru_cache(maxsize=64)
def _choosing(types: tuple[str, ...]) -> Any:
    pairs = zip(types, ("which", "x", "y"), strict=True)
    inputs = ", ".join(f"{type_of} {name}" for type_of, name in pairs)
    return _elementwise(inputs, "T made", "made = which ? T(x) : T(y)", "where", "counting")


def where(which: Any, x: Any, y: Any, out: LocalArray) -> LocalArray:
    """Choose elements of `x` where `which` is true, else of `y`; both may be numbers."""
    _choosing(_types((which, x, y)))(which, x, y, out)
    return out


_replacing = functools.cache(
    lambda: _elementwise(
        "T x, T nan, T high, T low",
        "T made",
        "made = x != x ? nan : x - x == T(0) ? x : x > T(0) ? high : low",
        "finite",
        "counting",
    )
)


def finite(x: LocalArray, others: Sequence[Any], out: LocalArray | None = None) -> LocalArray:
    """Replace NaN, infinity and minus infinity; by default by 0 and the ends of the dtype."""
    ends = np.finfo(x.dtype)
    defaults = (0, ends.max, ends.min)
    values = [x.dtype.type(e if o is None else o) for o, e in zip(others, defaults, strict=True)]
    result: LocalArray = _replacing()(x, *values, *([] if out is None else [out]))
    return result
