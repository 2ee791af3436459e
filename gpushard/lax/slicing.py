"""Parts of arrays, under the names of `jax.lax`: by places that Python knows, or that arrays hold.

Places that arrays hold never make the host read anything. Where a window would reach beyond the
array, it is moved until it is within.
"""

from __future__ import annotations

import builtins
import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpushard.array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.docstrings import named
from gpushard.functions.indexing import fill_bytes
from gpushard.functions.values import is_value
from gpushard.lax.arguments import as_arrays, check_shape, dim, integers
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value
from gpushard.numpy.indexing import take
from gpushard.numpy.manipulation import broadcast_to, expand_dims
from gpushard.numpy.public import public

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers",
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "gather", "index_in_dim", "index_take",
    "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul",
    "scatter_sub", "slice", "slice_in_dim",
]  # fmt: skip

_slicing = public(arrays=1, operand="an array.")


@_slicing
def slice(
    operand: Any,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """Return a part of an array.

    Args:
      start_indices: where it begins along each dim.
      limit_indices: before which place it ends.
      strides: from how many elements one is taken; from each by default.

    Raises:
      ArgumentError: a place is beyond the array.

    >>> import gpushard as gs
    >>> gs.lax.slice(gs.numpy.arange(5), (1,), (5,), (2,))
    Array([1, 3], dtype=int64)
    """
    ndim = operand.ndim
    starts = integers("slice", "start_indices", start_indices, ndim)
    limits = integers("slice", "limit_indices", limit_indices, ndim)
    steps = (1,) * ndim if strides is None else integers("slice", "strides", strides, ndim)
    for at, n in enumerate(operand.shape):
        if not 0 <= starts[at] <= limits[at] <= n or steps[at] < 1:
            raise ArgumentError(
                f"lax.slice: start {starts[at]}, limit {limits[at]} and stride {steps[at]} do not "
                f"fit dim {at} of length {n}; use 0 <= start <= limit <= {n}, and strides from 1",
                argument="limit_indices",
                axis=at,
                size=n,
            )
    part: Array = operand[tuple(map(builtins.slice, starts, limits, steps))]
    return part


@_slicing
def slice_in_dim(
    operand: Any,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """Return a part of an array along a dim.

    Args:
      start_index: where it begins; negative from the end.
      limit_index: before which place it ends, likewise.
      stride: from how many elements one is taken.
      axis: which dim.

    >>> import gpushard as gs
    >>> gs.lax.slice_in_dim(gs.numpy.arange(5), 1, None, 2)
    Array([1, 3], dtype=int64)
    """
    at = dim("slice_in_dim", axis, operand.ndim)
    n = operand.shape[at]
    ends = [
        number if value is None else value + n * (value < 0)
        for value, number in ((start_index, 0), (limit_index, n))
    ]
    starts, limits, strides = [0] * operand.ndim, list(operand.shape), [1] * operand.ndim
    starts[at], limits[at], strides[at] = *ends, stride
    return slice(operand, starts, limits, strides)


@_slicing
def index_in_dim(operand: Any, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """Return the elements at a place along a dim.

    Args:
      index: which place; negative from the end.
      axis: along which dim.

    Raises:
      ArgumentError: there is no such place.

    >>> import gpushard as gs
    >>> gs.lax.index_in_dim(gs.numpy.arange(5), -1)
    Array([4], dtype=int64)
    """
    at = dim("index_in_dim", axis, operand.ndim)
    (place,) = integers("index_in_dim", "index", (index,))
    n = operand.shape[at]
    if not -n <= place < n:
        raise ArgumentError.refusing(
            "index", index, f"is out of range for {n} elements", "lax.index_in_dim", size=n
        )
    place %= n
    part: Array = operand[(builtins.slice(None),) * at + (builtins.slice(place, place + 1),)]
    return part if keepdims else part.squeeze(at)


def index_take(src: Any, idxs: Sequence[Any], axes: Sequence[int]) -> Array:
    """Return the elements at places along some dims, which come first.

    Args:
      src: an array.
      idxs: for each of the dims a vector of places, all of one length.
      axes: the dims.

    >>> import gpushard as gs
    >>> gs.lax.index_take(gs.numpy.arange(6).reshape(2, 3), ([1, 0],), (1,))
    Array([[1, 4],
           [0, 3]], dtype=int64)
    """
    x = as_value(src, "index_take")
    places = dict(
        zip([dim("index_take", axis, x.ndim, "axes") for axis in axes], idxs, strict=True)
    )
    order = [*places, *(at for at in range(x.ndim) if at not in places)]
    at = tuple(as_value(positions, "index_take") for positions in places.values())
    taken: Array = x.transpose(order).at[at].get(mode="clip")
    return taken


def _starts(name: str, start_indices: Any, shape: Sequence[int]) -> list[Any]:
    """Return where a window begins along each dim: an integer of Python's, or a scalar array."""
    if hasattr(start_indices, "ndim"):
        check_shape(name, "start_indices", start_indices.shape, (len(shape),))
        starts = [start_indices[at] for at in range(len(shape))]
    else:
        starts = list(start_indices)
    if len(starts) != len(shape):
        raise ArgumentError.refusing(
            "start_indices",
            start_indices,
            f"must have {len(shape)}, one for each dim",
            f"lax.{name}",
        )
    for start in starts:
        if is_value(start) and (kind_of(start.dtype) not in "iu" or start.shape):
            raise ArgumentTypeError(
                f"lax.{name}: start_indices must be scalar integers, one is of {start.dtype} and "
                f"shape {start.shape}",
                argument="start_indices",
                dtype=start.dtype,
            )
    held = [at for at, start in enumerate(starts) if not is_value(start)]
    known = integers(name, "start_indices", [starts[at] for at in held])
    for at, place in zip(held, known, strict=True):
        starts[at] = place
    return starts


def _within(start: Any, size: int, n: int) -> Any:
    """Return where a window begins once it is within a dim; negative places are from the end."""
    if not is_value(start):
        return builtins.min(builtins.max(start + n * (start < 0), 0), n - size)
    wide = start.astype(np.int64)
    return ew.clip(ew.where(ew.less(wide, 0), ew.add(wide, n), wide), 0, n - size)


def _check_sizes(name: str, sizes: Sequence[int], shape: Sequence[int]) -> None:
    if len(sizes) != len(shape) or not all(0 <= s <= n for s, n in zip(sizes, shape, strict=True)):
        raise ArgumentError(
            f"lax.{name}: a window of shape {tuple(sizes)} is not within the array of shape "
            f"{tuple(shape)}",
            argument="slice_sizes",
            shape=tuple(sizes),
            expected=tuple(shape),
        )


@_slicing
def dynamic_slice(operand: Any, start_indices: Any, slice_sizes: Sequence[int]) -> Array:
    """Return a window of an array that begins where arrays say.

    A window that reaches beyond the array is moved until it is within; negative places count from
    the end.

    Args:
      start_indices: where it begins along each dim: integers, scalar arrays, or a vector.
      slice_sizes: its shape.

    Raises:
      ArgumentError: the window is larger than the array.
      ArgumentTypeError: places are no integers.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_slice(gs.numpy.arange(5), (gs.numpy.asarray(9),), (2,))
    Array([3, 4], dtype=int64)
    """
    sizes = integers("dynamic_slice", "slice_sizes", slice_sizes)
    _check_sizes("dynamic_slice", sizes, operand.shape)
    starts = _starts("dynamic_slice", start_indices, operand.shape)
    places = list(map(_within, starts, sizes, operand.shape))
    known = tuple(
        builtins.slice(None) if is_value(place) else builtins.slice(place, place + size)
        for place, size in zip(places, sizes, strict=True)
    )
    part: Array = operand[known]
    for at, (place, size) in enumerate(zip(places, sizes, strict=True)):
        if is_value(place) and size < part.shape[at]:
            part = take(part, ew.add(place, np.arange(size)), at, mode="clip")
    return part


@_slicing
def dynamic_slice_in_dim(operand: Any, start_index: Any, slice_size: int, axis: int = 0) -> Array:
    """Return a window of an array along a dim; see `dynamic_slice`.

    Args:
      start_index: where it begins, an integer or a scalar array.
      slice_size: its length.
      axis: which dim.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_slice_in_dim(gs.numpy.arange(5), gs.numpy.asarray(1), 2)
    Array([1, 2], dtype=int64)
    """
    at = dim("dynamic_slice_in_dim", axis, operand.ndim)
    starts: list[Any] = [0] * operand.ndim
    sizes = list(operand.shape)
    starts[at], sizes[at] = start_index, slice_size
    return dynamic_slice(operand, starts, sizes)


@_slicing
def dynamic_index_in_dim(operand: Any, index: Any, axis: int = 0, keepdims: bool = True) -> Array:
    """Return the elements at a place along a dim that an array may hold; see `dynamic_slice`.

    Args:
      index: which place, an integer or a scalar array.
      axis: along which dim.

    >>> import gpushard as gs
    >>> gs.lax.dynamic_index_in_dim(gs.numpy.arange(5), gs.numpy.asarray(1), keepdims=False)
    Array(1, dtype=int64)
    """
    part = dynamic_slice_in_dim(operand, index, 1, axis)
    return part if keepdims else part.squeeze(dim("dynamic_index_in_dim", axis, operand.ndim))


def dynamic_update_slice(operand: Any, update: Any, start_indices: Any) -> Array:
    """Return an array with a window replaced that begins where arrays say; see `dynamic_slice`.

    Args:
      operand: an array.
      update: what replaces the window, an array of the same dtype, of as many dims.
      start_indices: where the window begins along each dim: integers, scalar arrays, or a vector.

    Raises:
      ArgumentError: the window is larger than the array.
      ArgumentTypeError: places are no integers, or dtypes differ.

    >>> import gpushard as gs
    >>> x = gs.numpy.arange(5)
    >>> dynamic_update_slice(x, gs.numpy.asarray([7, 8]), (gs.numpy.asarray(9),))
    Array([0, 1, 2, 7, 8], dtype=int64)
    """
    x, new = as_arrays("dynamic_update_slice", operand, update)
    _check_sizes("dynamic_update_slice", new.shape, x.shape)
    starts = _starts("dynamic_update_slice", start_indices, x.shape)
    places = list(map(_within, starts, new.shape, x.shape))
    held = [at for at, place in enumerate(places) if is_value(place)]
    if len(held) <= 1:
        index = tuple(
            ew.add(place, np.arange(size)) if is_value(place)
            else builtins.slice(place, place + size)
            for place, size in zip(places, new.shape, strict=True)
        )  # fmt: skip
    else:
        index = tuple(
            ew.add(place, _line(size, at, x.ndim)) if is_value(place)
            else place + _line(size, at, x.ndim)
            for at, (place, size) in enumerate(zip(places, new.shape, strict=True))
        )  # fmt: skip
    updated: Array = x.at[index].set(new, **({"mode": "clip"} if held else {}))
    return updated


def _line(n: int, at: int, ndim: int) -> np.ndarray[Any, Any]:
    """Return 0, 1, 2, ... along one of several dims."""
    return np.arange(n).reshape([n if place == at else 1 for place in range(ndim)])


def dynamic_update_slice_in_dim(operand: Any, update: Any, start_index: Any, axis: int) -> Array:
    """Return an array with a window along a dim replaced; see `dynamic_update_slice`.

    Args:
      operand: an array.
      update: what replaces the window.
      start_index: where it begins, an integer or a scalar array.
      axis: which dim.

    >>> import gpushard as gs
    >>> x = gs.numpy.arange(3)
    >>> dynamic_update_slice_in_dim(x, gs.numpy.asarray([7]), gs.numpy.asarray(1), 0)
    Array([0, 7, 2], dtype=int64)
    """
    x = as_value(operand, "dynamic_update_slice_in_dim")
    starts: list[Any] = [0] * x.ndim
    starts[dim("dynamic_update_slice_in_dim", axis, x.ndim)] = start_index
    return dynamic_update_slice(x, update, starts)


def dynamic_update_index_in_dim(operand: Any, update: Any, index: Any, axis: int) -> Array:
    """Return an array with the elements at a place along a dim replaced.

    Args:
      operand: an array.
      update: what replaces them; it may lack the dim.
      index: which place, an integer or a scalar array.
      axis: which dim.

    >>> import gpushard as gs
    >>> dynamic_update_index_in_dim(gs.numpy.arange(3), 7, gs.numpy.asarray(1), 0)
    Array([0, 7, 2], dtype=int64)
    """
    x, new = as_arrays("dynamic_update_index_in_dim", operand, update)
    at = dim("dynamic_update_index_in_dim", axis, x.ndim)
    new = new if new.ndim == x.ndim else expand_dims(new, at)
    return dynamic_update_slice_in_dim(x, new, index, at)


class GatherDimensionNumbers(NamedTuple):
    """How the dims of operand, indices and result of `gather` belong together."""

    offset_dims: tuple[int, ...]  # dims of the result that a window has
    collapsed_slice_dims: tuple[int, ...]  # dims of the operand that go; windows have length 1
    start_index_map: tuple[int, ...]  # the dims of the operand that indices are along
    operand_batching_dims: tuple[int, ...] = ()  # dims of the operand that go with indices' dims
    start_indices_batching_dims: tuple[int, ...] = ()  # these


class ScatterDimensionNumbers(NamedTuple):
    """How the dims of operand, indices and updates of `scatter` belong together."""

    update_window_dims: tuple[int, ...]  # dims of the updates that a window has
    inserted_window_dims: tuple[int, ...]  # dims of the operand along which windows have length 1
    scatter_dims_to_operand_dims: tuple[int, ...]  # the dims of the operand that indices are along
    operand_batching_dims: tuple[int, ...] = ()  # dims of the operand that go with indices' dims
    scatter_indices_batching_dims: tuple[int, ...] = ()  # these


class GatherScatterMode(enum.Enum):
    """What happens to windows that reach beyond the array."""

    CLIP = 0  # they are moved until they are within
    FILL_OR_DROP = 1  # read, they have one value; written, they are left out
    PROMISE_IN_BOUNDS = 2  # there are none
    ONE_HOT = 3  # as FILL_OR_DROP


def _mode_of(name: str, mode: Any) -> GatherScatterMode:
    words = {
        None: GatherScatterMode.FILL_OR_DROP,
        "clip": GatherScatterMode.CLIP,
        "fill": GatherScatterMode.FILL_OR_DROP,
        "drop": GatherScatterMode.FILL_OR_DROP,
        "promise_in_bounds": GatherScatterMode.PROMISE_IN_BOUNDS,
    }
    if isinstance(mode, GatherScatterMode):
        return mode
    if not isinstance(mode, str | None) or mode not in words:
        raise ArgumentError.refusing(
            "mode", mode, "is unknown; use a GatherScatterMode, or clip, fill, drop", f"lax.{name}"
        )
    return words[mode]


class _Windows(NamedTuple):
    """Windows of an operand: places along each dim, and which windows are within it."""

    places: list[Any]  # arrays that broadcast to the shape of all windows
    within: Any  # booleans that broadcast likewise; None where all are


def _windows(
    name: str,
    operand: Any,
    indices: Any,
    numbers: GatherDimensionNumbers,
    sizes: Sequence[int],
    mode: GatherScatterMode,
) -> tuple[_Windows, tuple[int, ...]]:
    """Return the places of windows, and the shape of all."""
    if kind_of(indices.dtype) not in "iu" or not indices.ndim:
        raise ArgumentTypeError(
            f"lax.{name}: indices of {indices.dtype} and shape {indices.shape} must be integers, "
            "with a last dim for the dims that they are along",
            argument="indices",
            dtype=indices.dtype,
        )
    batch = indices.shape[:-1]
    check_shape(
        name, "the last dim of indices", indices.shape[-1:], (len(numbers.start_index_map),)
    )
    ndim = len(batch) + len(numbers.offset_dims)
    outer = [at for at in range(ndim) if at not in numbers.offset_dims]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    windowed = [at for at in range(operand.ndim) if at not in gone]
    if len(outer) != len(batch) or len(windowed) != len(numbers.offset_dims):
        raise ArgumentError(
            f"lax.{name}: {numbers} do not fit an operand of shape {operand.shape} and indices of "
            f"shape {indices.shape}: each dim of the operand is one of a window, collapsed, or "
            "batched",
            argument="dimension_numbers",
        )
    _check_sizes(name, sizes, operand.shape)
    shape = [0] * ndim
    for at, n in zip(outer, batch, strict=True):
        shape[at] = n
    for at, place in zip(windowed, sorted(numbers.offset_dims), strict=True):
        shape[place] = sizes[at]
    lined = [shape[at] if at in outer else 1 for at in range(ndim)]
    places: list[Any] = [np.zeros((1,) * ndim, np.int64)] * operand.ndim
    within = None
    for number, at in enumerate(numbers.start_index_map):
        start = indices[..., number].reshape(lined).astype(np.int64)
        last = operand.shape[at] - sizes[at]
        if mode not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
            fits = ew.logical_and(ew.greater_equal(start, 0), ew.less_equal(start, last))
            within = fits if within is None else ew.logical_and(within, fits)
        places[at] = ew.clip(start, 0, last)
    for at, of in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        places[at] = _line(batch[of], outer[of], ndim)
    for at, place in zip(windowed, sorted(numbers.offset_dims), strict=True):
        places[at] = places[at] + _line(sizes[at], place, ndim)
    return _Windows(places, within), tuple(shape)


def gather(
    operand: Any,
    start_indices: Any,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Return windows of an array, as many as there are indices.

    Args:
      operand: an array.
      start_indices: where windows begin: integers, the last dim for the dims of the operand.
      dimension_numbers: which dims are which.
      slice_sizes: the shape of a window, with all dims of the operand.
      unique_indices: makes no difference.
      indices_are_sorted: makes no difference.
      mode: what happens to windows beyond the array; they are moved until they are within by
        default.
      fill_value: what they have with "fill"; by default NaN, the least of signed integers, the
        greatest of unsigned ones.

    >>> import gpushard as gs
    >>> numbers = GatherDimensionNumbers((), (0,), (0,))
    >>> gather(gs.numpy.arange(5), gs.numpy.asarray([[3], [1]]), numbers, (1,))
    Array([3, 1], dtype=int64)
    """
    x, indices = as_value(operand, "gather"), as_value(start_indices, "gather")
    sizes = integers("gather", "slice_sizes", slice_sizes, x.ndim)
    numbers = GatherDimensionNumbers(*dimension_numbers)
    how = GatherScatterMode.CLIP if mode is None else _mode_of("gather", mode)
    windows, shape = _windows("gather", x, indices, numbers, sizes, how)
    taken: Array = x.at[tuple(windows.places)].get(mode="clip")
    taken = taken if taken.shape == shape else broadcast_to(taken, shape)
    if windows.within is None:
        return taken
    fill = np.frombuffer(fill_bytes(fill_value, x.dtype), x.dtype)[0]
    return ew.where(windows.within, taken, fill)


_SCATTER = """

Args:
  operand: an array.
  scatter_indices: where windows begin: integers, the last dim for the dims of the operand.
  updates: what the windows get, an array of the same dtype.
  dimension_numbers: which dims are which.
  indices_are_sorted: makes no difference.
  unique_indices: makes no difference.
  mode: what happens to windows beyond the array; they are left out by default.
"""


def _scatter(name: str, method: str, text: str) -> Callable[..., Array]:
    def function(
        operand: Any,
        scatter_indices: Any,
        updates: Any,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        x, new = as_arrays(name, operand, updates)
        return _scattered(name, x, scatter_indices, new.shape, dimension_numbers, mode, method, new)

    return named(function, name, text + _SCATTER)


def _scattered(
    name: str,
    x: Any,
    scatter_indices: Any,
    shape: Sequence[int],
    dimension_numbers: Any,
    mode: Any,
    method: str,
    value: Any,
) -> Array:
    indices, how = as_value(scatter_indices, name), _mode_of(name, mode)
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    lengths = iter([shape[at] for at in sorted(numbers.update_window_dims)])
    sizes = [1 if at in gone else next(lengths, 1) for at in range(x.ndim)]
    windows, whole = _windows(name, x, indices, GatherDimensionNumbers(*numbers), sizes, how)
    check_shape(name, "updates", shape, whole)
    places = windows.places
    if windows.within is not None:
        places[0] = ew.where(windows.within, places[0], np.int64(x.shape[0]))
    places[0] = ew.add(places[0], np.zeros(whole, np.int64))
    changed: Array = getattr(x.at[tuple(places)], method)(value, mode="drop")
    return changed


scatter = _scatter("scatter", "set", "Return an array with windows replaced.")
scatter_add = _scatter("scatter_add", "add", "Return an array with updates added to windows.")
scatter_sub = _scatter(
    "scatter_sub", "subtract", "Return an array with updates taken from windows."
)
scatter_mul = _scatter("scatter_mul", "multiply", "Return an array with windows multiplied.")
scatter_min = _scatter(
    "scatter_min", "min", "Return an array with the lesser of window and update."
)
scatter_max = _scatter(
    "scatter_max", "max", "Return an array with the greater of window and update."
)


def scatter_apply(
    operand: Any,
    scatter_indices: Any,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """Return an array with a function applied to windows.

    Args:
      operand: an array.
      scatter_indices: where windows begin: integers, the last dim for the dims of the operand.
      func: takes an array and returns one, element by element.
      dimension_numbers: which dims are which.
      update_shape: the shape that the windows have together.
      indices_are_sorted: makes no difference.
      unique_indices: makes no difference.
      mode: what happens to windows beyond the array; they are left out by default.

    >>> import gpushard as gs
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> x, at = gs.numpy.arange(3), gs.numpy.asarray([[1]])
    >>> scatter_apply(x, at, lambda x: x + 7, numbers, update_shape=(1,))
    Array([0, 8, 2], dtype=int64)
    """
    x = as_value(operand, "scatter_apply")
    numbers = ScatterDimensionNumbers(*dimension_numbers)
    shape = integers("scatter_apply", "update_shape", update_shape)
    return _scattered("scatter_apply", x, scatter_indices, shape, numbers, mode, "apply", func)
