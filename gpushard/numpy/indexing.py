"""Elements by position, positions of elements, and arrays from an index: `r_`, `c_`.

`nonzero` and functions that use it have a result of unknown size. The host waits for one number,
the size, unless you give `size=`. Masks are gathered then, with a byte for each element; arrays are
not. `put`, `put_along_axis`, `place`, `putmask` and `fill_diagonal` give an array a new value, as
`x[index] = value` does.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import numpy as np

from gpushard._array import Array
from gpushard._functions import nonzero_positions, put_and_place, take_elements
from gpushard._functions.argument_checks import check_choice, count, integer, listed
from gpushard._functions.docstrings import described
from gpushard._functions.host_memory import on_host
from gpushard._functions.index_bounds import (
    as_int64,
    as_integers,
    bounded,
    clipped,
    has_traced,
    unravelled,
)
from gpushard._functions.nonzero_positions import count_true
from gpushard._functions.shapes import as_shape, dim_count, element_count
from gpushard._functions.values import is_value
from gpushard._geometry.tiling import MOST_ELEMENTS
from gpushard._ops.scalars import is_number
from gpushard._placement.arguments import as_value, settle
from gpushard._placement.creation import array, asarray, ones, place_of
from gpushard._placement.device_put import device_put
from gpushard._placement.public_functions import public, public_array
from gpushard._transforms.values.user_functions import check_function
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import elementwise as ew
from gpushard.numpy.data_type import result_type
from gpushard.numpy.grids import line_of_slice
from gpushard.numpy.joining import concatenate

__all__ = [
    "argwhere", "c_", "choose", "compress", "diag_indices", "diag_indices_from", "extract",
    "fill_diagonal", "flatnonzero", "index_exp", "ix_", "mask_indices", "nonzero", "place", "put",
    "put_along_axis", "putmask", "r_", "ravel_multi_index", "s_", "select", "take",
    "take_along_axis", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    "unravel_index",
]  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

take = public_array(take_elements.take)
take_along_axis = public_array(take_elements.take_along_axis)
choose = public_array(take_elements.choose)
compress = public_array(take_elements.compress, operands=2)
nonzero = public(nonzero_positions.nonzero)
flatnonzero = public_array(nonzero_positions.flatnonzero)
argwhere = public_array(nonzero_positions.argwhere)


def _changing(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function that changes its first argument take data on the host with `inplace=False`."""
    first = inspect.unwrap(function).__code__.co_varnames[0]

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        arguments: Any = args
        if not kwargs.get("inplace", True):
            if arguments:
                arguments = (as_value(arguments[0], function.__name__), *arguments[1:])
            elif first in kwargs:
                kwargs[first] = as_value(kwargs[first], function.__name__)
        return function(*arguments, **kwargs)

    return call


put, put_along_axis = (
    _changing(put_and_place.put),
    _changing(put_and_place.put_along_axis),
)
place, fill_diagonal = _changing(put_and_place.place), _changing(put_and_place.fill_diagonal)
putmask = put_and_place.putmask


def select(condlist: Any, choicelist: Any, default: Any = 0, *, out_sharding: Any = None) -> Array:
    """Choose each element from the first array with a condition that is true there.

    Args:
      condlist: the conditions, a sequence of arrays of booleans.
      choicelist: a sequence with an array for each condition.
      default: the element if no condition is true.
      out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.

    Raises:
      ArgumentError: there are no conditions, or the numbers of conditions and arrays differ.
      ArgumentTypeError: a condition is not boolean.
    """
    conditions = listed(condlist, "select", "condlist", "a sequence of arrays of booleans")
    choices = listed(choicelist, "select", "choicelist", "a sequence of arrays")
    if not conditions or len(conditions) != len(choices):
        raise ArgumentError(
            f"select: condlist has {len(conditions)} conditions and choicelist {len(choices)} "
            "arrays; give as many, and at least one",
            argument="condlist",
            conditions=len(conditions),
            choices=len(choices),
        )
    conditions = [as_value(condition, "select") for condition in conditions]
    for condition in conditions:
        if condition.dtype != bool:
            raise ArgumentTypeError(
                f"select: a condition has dtype {condition.dtype}; conditions are booleans",
                argument="condlist",
                dtype=condition.dtype,
            )
    operands = [x if is_value(x) or is_number(x) else np.asarray(x) for x in [*choices, default]]
    dtype = result_type(*operands)
    *values, result = [as_value(x, "select").astype(dtype) for x in operands]
    for condition, value in zip(conditions[::-1], values[::-1], strict=True):
        result = ew.where(condition, value, result)
    return settle(result, out_sharding)


def extract(
    condition: Any,
    arr: Any,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Select the elements for which a condition is true, in row-major order.

    Args:
      condition: an array of booleans, usually with the shape of `arr`.
      arr: an array.
      size: the length of the result; by default the host waits to read how many elements there are.
      fill_value: the element that pads the result up to `size`; 0 by default.
      out_sharding: the sharding or `PartitionSpec` of the result; gpushard chooses by default.
    """
    mask = (condition if is_value(condition) else np.asarray(condition)).ravel()
    return compress(mask, arr, size=size, fill_value=fill_value, out_sharding=out_sharding)


_new = described(
    n="the number of rows.",
    m="the number of columns; by default equal to the number of rows.",
    arr="the matrix.",
    out_sharding="a sharding for the results; by default they go where new arrays go.",
)


@described()
def ix_(*args: Any, out_sharding: Any = None) -> tuple[Array, ...]:
    """Create the index of a subgrid from vectors of positions, one vector for each axis.

    Args:
      *args: vectors of integers. A vector of booleans stands for the positions where it is true.

    Raises:
      ArgumentError: an operand is not a vector.

    >>> import gpushard as gs
    >>> x = gs.numpy.reshape(gs.numpy.arange(6), (2, 3))
    >>> x[ix_([1, 0], [True, False, True])]
    Array([[3, 5],
           [0, 2]], dtype=int64)
    """
    vectors = []
    for vector in args:
        is_empty = isinstance(vector, list | tuple) and not vector
        at = as_value(np.asarray(vector, np.int64) if is_empty else vector, "ix_")
        if at.ndim != 1:
            raise ArgumentError(
                f"ix_: an argument has shape {at.shape}; give vectors, such as x.ravel()",
                argument="args",
                shape=at.shape,
            )
        vectors.append(nonzero(at)[0] if at.dtype == bool else at)
    shapes = [tuple(-1 if d == n else 1 for d in range(len(args))) for n in range(len(args))]
    grid = (at.reshape(shape) for at, shape in zip(vectors, shapes, strict=True))
    return tuple(settle(at, out_sharding) for at in grid)


@described()
def unravel_index(
    indices: Any, shape: Any, order: str = "C", *, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Convert positions in the flattened array to positions along each axis.

    Args:
      indices: the positions in the flattened array, integers.
      shape: the shape of the array.
      order: "C" for row-major, "F" for column-major order.

    Raises:
      ArgumentError: a position is out of range. If `indices` is on devices, the host waits to check
        it.
    """
    sizes = as_shape(shape)
    at = as_int64(as_integers(indices, "unravel_index"))
    at = _checked(at, math.prod(sizes), "unravel_index")
    places = unravelled(at, sizes[::-1] if _is_columns(order, "unravel_index") else sizes)
    places = places[::-1] if order == "F" else places
    return tuple(settle(as_value(place, "unravel_index"), out_sharding) for place in places)


@described()
def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C", *, out_sharding: Any = None
) -> Array:
    """Convert positions along each axis to positions in the flattened array.

    Args:
      multi_index: for each axis an array of positions; these arrays broadcast.
      dims: the shape of the array.
      mode: what to do with positions out of bounds: "raise", "clip" or "wrap", or a tuple with one
        of these for each axis.
      order: "C" for row-major, "F" for column-major order.

    Raises:
      ArgumentError: a position is out of bounds, or the numbers of arrays and axes differ.
    """
    sizes = as_shape(dims)
    places = listed(multi_index, "ravel_multi_index", "multi_index", "a sequence of positions")
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    if not len(places) == len(sizes) == len(modes):
        raise ArgumentError(
            f"ravel_multi_index: multi_index has {len(places)} arrays for dims={sizes}; give one "
            "for each axis",
            argument="multi_index",
            dims=sizes,
        )
    numbers: Any = 0
    entries = list(zip(places, sizes, modes, strict=True))
    for place, size, how in entries[::-1] if _is_columns(order, "ravel_multi_index") else entries:
        at = as_integers(place, "ravel_multi_index", "multi_index")
        if how == "raise":
            at = _checked(at, size, "ravel_multi_index")
        else:
            at = bounded(at, size, how, "ravel_multi_index")
        numbers = numbers * size + at.astype(np.int64)
    return settle(as_value(numbers, "ravel_multi_index"), out_sharding)


def _is_columns(order: Any, name: str) -> bool:
    check_choice(name, "order", order, ("C", "F"))
    return bool(order == "F")


def _checked(at: Any, size: int, name: str) -> Any:
    """Check that flat positions are from 0 and in bounds; traced ones are clipped."""
    if size and has_traced((at,)):
        return clipped(at, 0, size - 1)
    if count_true((at < 0) | (at >= size)):
        raise ArgumentError(
            f"{name}: an index is out of bounds for size {size}; use 0 to {size - 1}",
            argument="indices",
            size=size,
        )
    return at


@_new
def diag_indices(n: int, ndim: int = 2, *, out_sharding: Any = None) -> tuple[Array, ...]:
    """Create the index of the main diagonal of an array with axes of equal length.

    Args:
      n: the length of the axes.
      ndim: the number of axes.
    """
    numbers = on_host("diag_indices", np.arange, element_count(n, "diag_indices", "n"))
    dims = count(dim_count(ndim, "diag_indices", "ndim"), "diag_indices", "ndim")
    return (device_put(numbers, place_of(None, out_sharding)),) * dims


@_new
def diag_indices_from(arr: Any, *, out_sharding: Any = None) -> tuple[Array, ...]:
    """Create the index of the main diagonal of an array.

    Args:
      arr: an array of at least two axes, all of equal length.

    Raises:
      ArgumentError: the array has fewer than two axes, or axes of different lengths.
    """
    array_shape = np.shape(arr)
    if len(array_shape) < 2 or len(set(array_shape)) > 1:
        raise ArgumentError(
            f"diag_indices_from: the array has shape {array_shape}; it needs at least two axes, "
            "all of one length",
            argument="x",
            shape=array_shape,
        )
    return diag_indices(array_shape[0], len(array_shape), out_sharding=out_sharding)


@_new
def tril_indices(
    n: int, k: int = 0, m: int | None = None, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Create the index of the elements of a matrix on and below a diagonal."""
    return _triangle(np.tril_indices, n, k, m, "tril_indices", out_sharding)


@_new
def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Create the index of the elements of a matrix on and above a diagonal."""
    return _triangle(np.triu_indices, n, k, m, "triu_indices", out_sharding)


@_new
def tril_indices_from(arr: Any, k: int = 0, *, out_sharding: Any = None) -> tuple[Array, Array]:
    """Create the index of the elements of a matrix on and below a diagonal.

    Raises:
      ArgumentError: the array is not a matrix.
    """
    rows, columns = _matrix_shape(arr, "tril_indices_from")
    return tril_indices(rows, k, columns, out_sharding=out_sharding)


@_new
def triu_indices_from(arr: Any, k: int = 0, *, out_sharding: Any = None) -> tuple[Array, Array]:
    """Create the index of the elements of a matrix on and above a diagonal.

    Raises:
      ArgumentError: the array is not a matrix.
    """
    rows, columns = _matrix_shape(arr, "triu_indices_from")
    return triu_indices(rows, k, columns, out_sharding=out_sharding)


def _triangle(make: Any, n: Any, k: Any, m: Any, name: str, out_sharding: Any) -> Any:
    rows = element_count(n, name, "n")
    columns = rows if m is None else element_count(m, name, "m")
    if rows * columns > MOST_ELEMENTS:
        raise ArgumentError(
            f"{name}: n={rows} rows of m={columns} columns are more than 2**58 elements; use "
            "smaller numbers",
            argument="n",
            n=rows,
            m=columns,
        )
    diagonal = min(max(integer(k, name, "k"), -rows), columns)  # those beyond are empty
    places = on_host(name, make, rows, diagonal, columns)
    place = place_of(None, out_sharding)
    return tuple(device_put(at, place) for at in places)


def _matrix_shape(x: Any, name: str) -> tuple[int, int]:
    array_shape = x.shape if is_value(x) else np.shape(x)
    if len(array_shape) != 2:
        raise ArgumentError(
            f"{name}: the array has shape {array_shape}; give a matrix",
            argument="x",
            shape=array_shape,
        )
    rows, columns = array_shape
    return rows, columns


s_ = np.s_
index_exp = np.index_exp


class _Joined:
    """Arrays, numbers and ranges joined by an index; see `r_` and `c_`."""

    def __init__(self, name: str, axis: int, ndim: int, start: int) -> None:
        self._name = name
        self._given = axis, ndim, start

    def __getitem__(self, key: Any) -> Array:
        entries = list(key) if isinstance(key, tuple) else [key]
        axis, ndim, start = self._given
        if isinstance(entries[0], str):
            axis, ndim, start, entries = *self._directive(entries[0]), entries[1:]
        arrays = [self._entry(entry, ndim, start) for entry in entries]
        weighed = [
            entry if is_number(entry) else x for entry, x in zip(entries, arrays, strict=True)
        ]
        return concatenate(arrays, axis, dtype=result_type(*weighed))

    def __repr__(self) -> str:
        return self._name

    def _directive(self, text: str) -> tuple[int, int, int]:
        """Return the axis, the least number of dims, and the position of the dims of an entry."""
        if text in ("r", "c"):
            raise ArgumentTypeError(
                f"{self._name}[{text!r}, ...] makes a numpy.matrix; use {self._name}['0,2', ...]",
                argument="index",
                value=text,
            )
        try:
            numbers = [int(part) for part in text.split(",")]
            if len(numbers) > 3:
                raise ValueError
        except ValueError:
            raise ArgumentError(
                f"{self._name}[{text!r}, ...]: the text must hold up to three integers, such as "
                "'0,2,-1'",
                argument="index",
                value=text,
            ) from None
        return tuple(numbers + list(self._given)[len(numbers) :])  # type: ignore[return-value]

    def _entry(self, entry: Any, ndim: int, start: int) -> Array:
        """Return an entry with at least some dims; its own dims begin at `start`."""
        x = line_of_slice(entry) if isinstance(entry, slice) else array(entry)
        new = ndim - x.ndim
        if new <= 0:
            return x
        dims = list(range(ndim))
        first = start if start >= 0 else start + new + 1
        x = x.reshape((1,) * new + x.shape)
        return x.transpose(dims[:first] + dims[new:] + dims[first:new])


r_ = _Joined("r_", 0, 1, -1)
"""`r_[1:4, 0, x]` joins ranges, numbers and arrays along the first dim.

>>> r_[1:4, 0, [7, 8]]
Array([1, 2, 3, 0, 7, 8], dtype=int64)
"""

c_ = _Joined("c_", -1, 2, 0)
"""`c_[x, y]` joins vectors as columns.

>>> c_[[1, 2], [3, 4]]
Array([[1, 3],
       [2, 4]], dtype=int64)
"""


def mask_indices(
    n: int, mask_func: Callable[[Any, Any], Any], k: Any = 0, *, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Create the index of the elements of a square matrix that a function such as `tril` keeps.

    Args:
      n: the number of rows and columns.
      mask_func: a function of a matrix and `k` that replaces the other elements by zeros.
      k: the second argument of the function, such as the number of a diagonal.
      out_sharding: a sharding for the matrix on which `mask_func` is called.
    """
    check_function(mask_func, "mask_indices", "mask_func")
    masked = mask_func(ones((n, n), int, out_sharding=out_sharding), k)
    return tuple(asarray(masked).nonzero())
