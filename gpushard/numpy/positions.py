"""Functions that make positions: of diagonals and triangles, of grids, of row-major order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import as_shape, count
from gpushard.functions.indexing import as_int64, as_integers, bounded, nonzero, unravelled
from gpushard.numpy.arguments import as_value, integer, is_value, settle
from gpushard.numpy.making import place_of
from gpushard.placement.device_put import device_put


def ix_(*args: Any, out_sharding: Any = None) -> tuple[Array, ...]:
    """Return vectors of positions as the index of a grid: each along a dim of its own.

    Args:
      *args: vectors of integers, or of booleans, which stand for the positions of those that are
        true.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: one is no vector.

    >>> import gpushard as gs
    >>> x = gs.numpy.reshape(gs.numpy.arange(6), (2, 3))
    >>> x[ix_([1, 0], [True, False, True])]
    Array([[3, 5],
           [0, 2]], dtype=int64)
    """
    vectors = []
    for one in args:
        at = as_value(np.asarray(one, np.int64) if _is_empty(one) else one, "ix_")
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


def _is_empty(x: Any) -> bool:
    return isinstance(x, list | tuple) and not x


def unravel_index(
    indices: Any, shape: Any, order: str = "C", *, out_sharding: Any = None
) -> tuple[Array, ...]:
    """Return for each dim the positions of elements that are numbered.

    Args:
      indices: numbers of elements.
      shape: of the array that they are in.
      order: "C" for row-major, "F" for column-major order.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: there is no element of a number; the host waits to see that if they are on
        devices.
    """
    sizes = as_shape(shape)
    at = as_int64(as_integers(indices, "unravel_index"))
    _check_numbers(at, math.prod(sizes), "unravel_index")
    found = unravelled(at, sizes[::-1] if _is_columns(order, "unravel_index") else sizes)
    found = found[::-1] if order == "F" else found
    return tuple(settle(as_value(one, "unravel_index"), out_sharding) for one in found)


def ravel_multi_index(
    multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C", *, out_sharding: Any = None
) -> Array:
    """Return the numbers of elements from their positions.

    Args:
      multi_index: positions for each dim; they are broadcast.
      dims: shape of the array that they are in.
      mode: what happens to positions out of bounds: "raise", "clip" or "wrap"; or a tuple of these.
      order: "C" for row-major, "F" for column-major order.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: a position is out of bounds, or there are not as many arrays as dims.
    """
    sizes = as_shape(dims)
    given = list(multi_index)
    modes = mode if isinstance(mode, tuple) else (mode,) * len(sizes)
    if not len(given) == len(sizes) == len(modes):
        raise ArgumentError(
            f"ravel_multi_index: multi_index has {len(given)} arrays for {len(sizes)} dims; give "
            "one for each",
            argument="multi_index",
            dims=sizes,
        )
    numbers: Any = 0
    entries = list(zip(given, sizes, modes, strict=True))
    for one, size, how in entries[::-1] if _is_columns(order, "ravel_multi_index") else entries:
        at = as_integers(one, "ravel_multi_index", "multi_index")
        if how == "raise":
            _check_numbers(at, size, "ravel_multi_index")
        else:
            at = bounded(at, size, how, "ravel_multi_index")
        numbers = numbers * size + at.astype(np.int64)
    return settle(as_value(numbers, "ravel_multi_index"), out_sharding)


def _is_columns(order: Any, name: str) -> bool:
    if order not in ("C", "F"):
        raise ArgumentError(
            f'{name}: order={order!r} must be "C" or "F"', argument="order", value=order
        )
    return bool(order == "F")


def _check_numbers(at: Any, size: int, name: str) -> None:
    """Check that numbers are in bounds; negative ones are not.

    Raises:
      ArgumentError: one is out of bounds.
    """
    wrong = (at < 0) | (at >= size)
    if nonzero(wrong.ravel())[0].size if is_value(at) else wrong.any():
        raise ArgumentError(
            f"{name}: an index is out of bounds for size {size}; use 0 to {size - 1}",
            argument="indices",
            size=size,
        )


def diag_indices(n: int, ndim: int = 2, *, out_sharding: Any = None) -> tuple[Array, ...]:
    """Return the index of the main diagonal of an array whose dims are equally long.

    Args:
      n: how long.
      ndim: how many dims.
      out_sharding: where the results go; by default where new data goes.
    """
    length = count(n, "diag_indices", "n")
    at = device_put(np.arange(length), place_of(None, out_sharding))
    return (at,) * count(ndim, "diag_indices", "ndim")


def diag_indices_from(arr: Any, *, out_sharding: Any = None) -> tuple[Array, ...]:
    """Return the index of the main diagonal of an array.

    Args:
      arr: an array of at least two dims, all equally long.
      out_sharding: where the results go; by default where new data goes.

    Raises:
      ArgumentError: it is not like that.
    """
    own = np.shape(arr) if not is_value(arr) else arr.shape
    if len(own) < 2 or len(set(own)) > 1:
        raise ArgumentError(
            f"diag_indices_from: the array has shape {own}; it needs at least two dims, all of "
            "one length",
            argument="x",
            shape=own,
        )
    return diag_indices(own[0], len(own), out_sharding=out_sharding)


def tril_indices(
    n: int, k: int = 0, m: int | None = None, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Return the index of a matrix's elements on and below a diagonal.

    Args:
      n: number of rows.
      k: which diagonal: 0 for the main one, positive for one above it.
      m: number of columns; `n` by default.
      out_sharding: where the results go; by default where new data goes.
    """
    return _triangle(np.tril_indices, n, k, m, "tril_indices", out_sharding)


def triu_indices(
    n: int, k: int = 0, m: int | None = None, *, out_sharding: Any = None
) -> tuple[Array, Array]:
    """Return the index of a matrix's elements on and above a diagonal.

    Args:
      n: number of rows.
      k: which diagonal: 0 for the main one, positive for one above it.
      m: number of columns; `n` by default.
      out_sharding: where the results go; by default where new data goes.
    """
    return _triangle(np.triu_indices, n, k, m, "triu_indices", out_sharding)


def tril_indices_from(arr: Any, k: int = 0, *, out_sharding: Any = None) -> tuple[Array, Array]:
    """Return the index of a matrix's elements on and below a diagonal.

    Args:
      arr: the matrix.
      k: which diagonal: 0 for the main one, positive for one above it.
      out_sharding: where the results go; by default where new data goes.

    Raises:
      ArgumentError: it is no matrix.
    """
    rows, columns = _matrix_shape(arr, "tril_indices_from")
    return tril_indices(rows, k, columns, out_sharding=out_sharding)


def triu_indices_from(arr: Any, k: int = 0, *, out_sharding: Any = None) -> tuple[Array, Array]:
    """Return the index of a matrix's elements on and above a diagonal.

    Args:
      arr: the matrix.
      k: which diagonal: 0 for the main one, positive for one above it.
      out_sharding: where the results go; by default where new data goes.

    Raises:
      ArgumentError: it is no matrix.
    """
    rows, columns = _matrix_shape(arr, "triu_indices_from")
    return triu_indices(rows, k, columns, out_sharding=out_sharding)


def _triangle(make: Any, n: Any, k: Any, m: Any, name: str, out_sharding: Any) -> Any:
    rows = count(n, name, "n")
    columns = rows if m is None else count(m, name, "m")
    made = make(rows, integer(k, name, "k"), columns)
    place = place_of(None, out_sharding)
    return tuple(device_put(at, place) for at in made)


def _matrix_shape(x: Any, name: str) -> tuple[int, int]:
    own = x.shape if is_value(x) else np.shape(x)
    if len(own) != 2:
        raise ArgumentError(
            f"{name}: the array has shape {own}; give a matrix", argument="x", shape=own
        )
    rows, columns = own
    return rows, columns
