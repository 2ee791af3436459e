"""Elements by position, as functions: `take`, `put`, `nonzero` and their like.

What changes an array gives it a new value, as `x[index] = value` does.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from gpushard.array.assignment import renew
from gpushard.array.positions import count_true, true_positions
from gpushard.array.reading import fill_bytes, read_part
from gpushard.array.selection import as_int64, check_positions, clipped, is_on_devices
from gpushard.array.shard import Shards
from gpushard.array.updating import as_operand, scattered, stays
from gpushard.dtypes import result_type
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import check_dtype, count
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import one_from_end
from gpushard.ops.bind import bind
from gpushard.ops.indexed import Indexed, part_shape
from gpushard.ops.table.elementwise import ASTYPE, WHERE
from gpushard.ops.table.gather import GATHER
from gpushard.ops.table.movement import STACK
from gpushard.typing import Shape

if TYPE_CHECKING:
    from gpushard.array.array import Array

_INDEX = np.dtype(np.int64)


def as_integers(at: Any, name: str, argument: str = "indices") -> Any:
    """Return positions: an array on devices, or on the host.

    Raises:
      ArgumentTypeError: they are no integers.
      ArgumentError: they are lists of different lengths.
    """
    try:
        found = at if is_on_devices(at) else np.asarray(at)
    except ValueError:
        raise ArgumentError(
            f"{name}: {argument} has lists of different lengths; make them equally long",
            argument=argument,
        ) from None
    if isinstance(at, list | tuple) and not found.size:
        return found.astype(_INDEX)
    if found.dtype.kind not in "biu":
        raise ArgumentTypeError(
            f"{name}: {argument} has dtype {found.dtype}; positions are integers",
            argument=argument,
            dtype=found.dtype,
        )
    if found.dtype.kind == "b":
        return bind(ASTYPE, (found,), (_INDEX,)) if is_on_devices(found) else found.astype(_INDEX)
    return found


def bounded(at: Any, size: int, mode: Any, name: str, dim: int = 0, *, fill: bool = False) -> Any:
    """Return positions in bounds, as a mode of `numpy.take` has them, or of `jax.numpy.take`.

    Args:
      at: the positions.
      size: how many there are.
      mode: what happens to those out of bounds; those that are to be filled stay.
      name: of the function, for errors.
      dim: the dim, for errors.
      fill: whether "fill" is a mode, too.

    Raises:
      ArrayIndexError: one is out of bounds, and the mode is "raise".
      ArgumentError: the mode is unknown.
    """
    modes = ("raise", "clip", "wrap", *(("fill",) if fill else ()))
    if mode not in modes:
        raise ArgumentError(
            f"{name}: mode={mode!r} is unknown; use one of "
            + ", ".join(f'"{one}"' for one in modes),
            argument="mode",
            mode=mode,
        )
    if mode == "fill":
        return as_int64(at)
    if mode == "raise" or not size:
        check_positions(at, size, dim)
        return at
    if mode == "wrap":
        return as_int64(at) % size
    return clipped(at, 0, size - 1)


def take(
    x: Array,
    indices: Any,
    axis: Any = None,
    mode: str = "raise",
    out: Sharding | None = None,
    fill_value: Any = None,
) -> Array:
    """Do the work of `gpushard.numpy.take`."""
    at, fill = as_integers(indices, "take"), filling(mode, fill_value, x.dtype, "take")
    if axis is None and not fill and x.size and _is_split_within(x):
        at = as_int64(bounded(at, x.size, mode, "take", fill=True)) % x.size
        indexed = Indexed(tuple(range(-x.ndim, 0)), 0, (), True)
        return cast("Array", bind(GATHER, (x, *unravelled(at, x.shape)), (indexed, b""), out))
    if axis is None:
        x, axis = cast("Any", x).ravel(), 0
    dim = x.ndim + one_from_end(axis, x.ndim, "take")
    at = bounded(at, x.shape[dim], mode, "take", dim, fill=True)
    indexed = Indexed((dim - x.ndim,), x.ndim - dim - 1, (), bool(x.shape[dim]) and not fill)
    return cast("Array", bind(GATHER, (x, at), (indexed, fill), out))


def _is_split_within(x: Array) -> bool:
    """Whether another dim than the first is split, so that elements in a row are apart."""
    sharding = x.sharding
    if not isinstance(sharding, NamedSharding) or not isinstance(x, Shards):
        return False
    return any(sharding.spec.axes(dim) for dim in range(1, x.ndim))


def filling(mode: str, fill_value: Any, dtype: np.dtype[Any], name: str) -> bytes:
    """Return the bytes of what there is for positions out of bounds with "fill", else none.

    Raises:
      ArgumentError: there is a fill value, and another mode.
    """
    if mode != "fill" and fill_value is not None:
        raise ArgumentError(
            f'{name}: fill_value= is for mode="fill", and mode is {mode!r}; give both',
            argument="fill_value",
            mode=mode,
        )
    return fill_bytes(fill_value, dtype) if mode == "fill" else b""


def along(
    x: Array, indices: Any, axis: Any, name: str, mode: str = "raise", *, fill: bool = False
) -> tuple[Indexed, Any, Shape]:
    """Return how positions along one dim index an array, checked; their shape with the others.

    Raises:
      ArgumentError: they have other dims than the array, or do not broadcast.
      ArgumentTypeError: they are no integers.
      ArrayIndexError: one is out of bounds.
    """
    at = as_integers(indices, name)
    if at.ndim != x.ndim:
        raise ArgumentError(
            f"{name}: indices have {at.ndim} dims and the array {x.ndim}; give as many",
            argument="indices",
            shape=at.shape,
            expected=x.shape,
        )
    own = one_from_end(axis, x.ndim, name)
    others = [dim for dim in range(-x.ndim, 0) if dim != own]
    inside = bool(x.shape[own]) and mode != "fill"
    indexed = Indexed((own,), 0, tuple((dim, dim) for dim in others), inside)
    try:
        shape = part_shape(indexed, x.shape, (at.shape,))
    except ValueError:
        raise ArgumentError(
            f"{name}: indices of shape {at.shape} do not broadcast with the array of shape "
            f"{x.shape}; other dims than axis={axis} must be equal or 1",
            argument="indices",
            shape=at.shape,
            expected=x.shape,
        ) from None
    size = x.shape[own]
    if mode == "clip" and size:  # JAX's, for which negative positions count from the end
        return indexed, clipped(at, -size, size - 1), shape
    return indexed, bounded(at, size, mode, name, x.ndim + own, fill=fill), shape


def put(x: Array, indices: Any, values: Any, mode: str = "raise") -> None:
    """Do the work of `gpushard.numpy.put`."""
    at = as_integers(indices, "put").ravel()
    new = repeated(values, at.shape[0])
    if new is None and x.size:  # NumPy does not look at the positions then
        return
    at = bounded(at, math.prod(x.shape), mode, "put")
    if new is None:
        return
    if not x.shape:
        x[...] = new[-1]
        return
    positions = unravelled(as_int64(at) % x.size, x.shape)
    indexed = Indexed(tuple(range(-x.ndim, 0)), 0, (), True)
    renew(x, scattered(x, indexed, positions, new, at.shape))


def unravelled(at: Any, shape: Shape) -> list[Any]:
    """Return for each dim the positions of elements that are numbered in row-major order."""
    found: list[Any] = []
    rest = at
    for size in reversed(shape):
        found.append(rest % size)
        rest = rest // size
    return found[::-1]


def repeated(values: Any, length: int) -> Any:
    """Return values as one dim of some length, from the first again where they are too few.

    Returns:
      An array on the host or on devices; None if there are no values, or none are wanted.
    """
    found: Any = values if is_on_devices(values) else np.asarray(values)
    if not found.size or not length:
        return None
    if found.size == 1:
        return np.asarray(values).reshape(1) if found is not values else found.reshape(1)
    flat = found.ravel()
    if found.size >= length:
        return flat[:length]
    at = np.arange(length) % found.size
    return take(flat, at) if is_on_devices(flat) else flat[at]


def nonzero(
    x: Array, size: int | None = None, fill_value: Any = None, name: str = "nonzero"
) -> tuple[Array, ...]:
    """Do the work of `gpushard.numpy.nonzero`.

    Raises:
      ArgumentError: the array has no dims, or fill values are not one for each of them.
    """
    if not x.ndim:
        raise ArgumentError(
            f"{name} needs at least one dim, the shape is (); use atleast_1d(x)",
            argument="x",
            shape=(),
        )
    many = None if size is None else count(size, name, "size")
    return true_positions(x, many, _fills(fill_value, x.ndim, name))


def _fills(value: Any, ndim: int, name: str) -> tuple[int, ...] | None:
    """Return what positions get that are too many, for each dim.

    Raises:
      ArgumentTypeError: it is no integer, nor a tuple of them.
      ArgumentError: there are not as many as dims.
    """
    if value is None:
        return None
    given = value if isinstance(value, tuple | list) else (value,) * ndim
    try:
        fills = tuple(operator.index(one) for one in given)
    except TypeError:
        raise ArgumentTypeError(
            f"{name}: fill_value={value!r} must be an integer, or a tuple of them",
            argument="fill_value",
            value=value,
        ) from None
    if len(fills) != ndim:
        raise ArgumentError(
            f"{name}: fill_value has {len(fills)} numbers for {ndim} dims; give one for each",
            argument="fill_value",
            value=value,
        )
    return fills


def argwhere(x: Array, size: int | None = None, fill_value: Any = None) -> Array:
    """Do the work of `gpushard.numpy.argwhere`."""
    return cast("Array", bind(STACK, nonzero(x, size, fill_value, "argwhere"), (-1,)))


def compress(x: Array, condition: Any, axis: Any = None, out: Sharding | None = None) -> Array:
    """Do the work of `gpushard.numpy.compress`.

    Raises:
      ArgumentError: the condition has other than one dim.
      ArrayIndexError: it is true beyond the end of the dim.
    """
    mask = _as_mask(condition, "condition")
    if mask.ndim != 1:
        raise ArgumentError(
            f"compress: condition has shape {mask.shape}; it must have one dim",
            argument="condition",
            shape=mask.shape,
        )
    if axis is None:
        x, axis = cast("Any", x).ravel(), 0
    dim = x.ndim + one_from_end(axis, x.ndim, "compress")
    lead = (slice(None),) * dim
    if mask.shape[0] <= x.shape[dim]:
        return read_part(x[(*lead, slice(mask.shape[0]))], (*lead, mask != 0), out_sharding=out)
    at = true_positions(mask)[0] if is_on_devices(mask) else np.nonzero(mask)[0]
    return read_part(x, (*lead, at), out_sharding=out)


def _as_mask(mask: Any, argument: str) -> Any:
    """Return what can be compared with 0.

    Raises:
      ArgumentTypeError: these are no numbers.
    """
    found: Any = mask if is_on_devices(mask) else np.asarray(mask)
    check_dtype(found.dtype, argument)
    return found


def place(x: Array, mask: Any, values: Any) -> None:
    """Do the work of `gpushard.numpy.place`.

    Raises:
      ArgumentError: the mask has another number of elements, or there are no values.
    """
    found = _as_mask(mask, "mask")
    if found.size != x.size:
        raise ArgumentError(
            f"place: mask of shape {found.shape} and array of shape {x.shape} have different "
            "numbers of elements",
            argument="mask",
            shape=found.shape,
            expected=x.shape,
        )
    chosen = found.reshape(x.shape) != 0
    many = count_true(chosen) if is_on_devices(chosen) else int(np.count_nonzero(chosen))
    new = repeated(values, many)
    if new is not None:
        x[chosen] = new
    elif many:
        raise ArgumentError("place: there are no values; give at least one", argument="vals")


def masked(x: Array, mask: Any, values: Any) -> None:
    """Do the work of `gpushard.numpy.putmask`."""
    found = _as_mask(mask, "mask")
    if found.shape != x.shape:
        raise ArgumentError(
            f"putmask: mask has shape {found.shape} and the array {x.shape}; make them equal",
            argument="mask",
            shape=found.shape,
            expected=x.shape,
        )
    new = repeated(values, x.size)
    if new is not None:
        new = as_operand(new if new.size == 1 else new.reshape(x.shape), x.shape, x, None)
        renew(x, bind(WHERE, (found, new, x), (), stays(x, found, new)))


def choose(index: Array, choices: Any, mode: str = "raise", out: Sharding | None = None) -> Array:
    """Do the work of `gpushard.numpy.choose`.

    Raises:
      ArgumentError: there are no choices, or an entry of the index is the number of none.
    """
    at: Any = as_integers(index, "choose", "index")
    found = [one if is_on_devices(one) else np.asarray(one) for one in choices]
    if not found:
        raise ArgumentError("choose: there are no choices; give at least one", argument="choices")
    if mode == "raise":
        if count_true((at < 0) | (at >= len(found))):
            raise ArgumentError(
                f"choose: an entry of the index is not one of 0 to {len(found) - 1}; use "
                'mode="clip" or "wrap"',
                argument="index",
                choices=len(found),
            )
    else:
        at = bounded(at, len(found), mode, "choose")
    dtype = result_type(*(one.dtype for one in found))
    *first, result = [one if one.dtype == dtype else one.astype(dtype) for one in found]
    for number, one in reversed([*enumerate(first)] or [(0, result)]):
        result = bind(WHERE, (at == number, one, result), (), None if number else out)
    return cast("Array", result)
