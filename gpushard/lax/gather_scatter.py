"""Windows of arrays by dimension numbers, under the names of `jax.lax`: `gather` and `scatter`.

Each call becomes one index of arrays: the places of the windows along each dim, which broadcast.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.docstrings import named
from gpushard._functions.elementwise import clip, where
from gpushard._functions.indexing import fill_bytes
from gpushard._functions.manipulation import broadcast_to
from gpushard._placement.arguments import as_value
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.lax.arguments import as_arrays, check_shape, integers
from gpushard.lax.slicing import check_sizes, line, signed

__all__ = [
    "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather", "scatter",
    "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
]  # fmt: skip


class GatherDimensionNumbers(NamedTuple):
    """The roles of the dimensions in `gather`; the fields have the same meaning as in JAX."""

    offset_dims: tuple[int, ...]  # dims of the result that a window has
    collapsed_slice_dims: tuple[int, ...]  # dims of the operand that go; windows have length 1
    start_index_map: tuple[int, ...]  # the dims of the operand that indices are along
    operand_batching_dims: tuple[int, ...] = ()  # dims of the operand that go with indices' dims
    start_indices_batching_dims: tuple[int, ...] = ()  # these


class ScatterDimensionNumbers(NamedTuple):
    """The roles of the dimensions in `scatter`; the fields have the same meaning as in JAX."""

    update_window_dims: tuple[int, ...]  # dims of the updates that a window has
    inserted_window_dims: tuple[int, ...]  # dims of the operand along which windows have length 1
    scatter_dims_to_operand_dims: tuple[int, ...]  # the dims of the operand that indices are along
    operand_batching_dims: tuple[int, ...] = ()  # dims of the operand that go with indices' dims
    scatter_indices_batching_dims: tuple[int, ...] = ()  # these


class GatherScatterMode(enum.Enum):
    """What `gather` and `scatter` do with windows that reach beyond the array."""

    CLIP = 0  # windows are moved into the array
    FILL_OR_DROP = 1  # a gathered window has one value, an update is dropped
    PROMISE_IN_BOUNDS = 2  # the caller promises that all windows are within the array
    ONE_HOT = 3  # the same as FILL_OR_DROP


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


def _numbers(name: str, numbers: Any, kind: Any, operand: Any, indices: Any) -> Any:
    """Check that dimension numbers name dims that exist, and none twice.

    Raises:
      ArgumentError: a dim does not exist, or is named twice.
      ArgumentTypeError: they are not dimension numbers, or indices are not integers.
    """
    if kind_of(indices.dtype) not in "iu" or not indices.ndim:
        argument = "start_indices" if kind is GatherDimensionNumbers else "scatter_indices"
        raise ArgumentTypeError(
            f"lax.{name}: {argument} of {indices.dtype} and shape {indices.shape} must be "
            "integers, with index vectors along the last axis",
            argument=argument,
            dtype=indices.dtype,
        )
    try:
        fields_read = kind(*numbers)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "dimension_numbers", numbers, f"must be {kind.__name__}(...)", f"lax.{name}"
        ) from None
    fields = [integers(name, *pair) for pair in zip(kind._fields, fields_read, strict=True)]
    batch, ndim = indices.ndim - 1, operand.ndim
    limits = (batch + len(fields[0]), ndim, ndim, ndim, batch)
    for at, (field, named_dims, limit) in enumerate(zip(kind._fields, fields, limits, strict=True)):
        ordered = at > 1 or list(named_dims) == sorted(named_dims)
        twice = len({*named_dims}) < len(named_dims)
        if not ordered or twice or any(not 0 <= dim < limit for dim in named_dims):
            rule = f"must name axes from 0 to {limit - 1}, each once" + ", in order" * (at < 2)
            raise ArgumentError.refusing(field, named_dims, rule, f"lax.{name}")
    _check_batched(name, kind, fields, operand, indices)
    return kind(*fields)


def _check_batched(
    name: str, kind: Any, fields: Sequence[tuple[int, ...]], operand: Any, indices: Any
) -> None:
    """Check the dims of operand and indices that go together, and that have no other role."""
    _, gone, along, batched, of_indices = fields
    sizes = [operand.shape[at] for at in batched], [indices.shape[at] for at in of_indices]
    if sizes[0] != sizes[1]:
        raise ArgumentError(
            f"lax.{name}: {kind._fields[3]}={batched} of lengths {sizes[0]} and "
            f"{kind._fields[4]}={of_indices} of lengths {sizes[1]} must be pairs of axes of "
            "equal length",
            argument=kind._fields[3],
            sizes=sizes,
        )
    for field, dims in ((kind._fields[1], gone), (kind._fields[2], along)):
        if twice := {*dims} & {*batched}:
            raise ArgumentError(
                f"lax.{name}: {field}={dims} and {kind._fields[3]}={batched} both name axes "
                f"{sorted(twice)}; name each in one of them",
                argument=field,
                dims=tuple(sorted(twice)),
            )


def _windows(
    name: str,
    operand: Any,
    indices: Any,
    numbers: GatherDimensionNumbers,
    sizes: Sequence[int],
    mode: GatherScatterMode,
) -> tuple[_Windows, tuple[int, ...]]:
    """Return the places of windows, and the shape of all."""
    batch = indices.shape[:-1]
    check_shape(
        name, "the last axis of indices", indices.shape[-1:], (len(numbers.start_index_map),)
    )
    ndim = len(batch) + len(numbers.offset_dims)
    outer = [at for at in range(ndim) if at not in numbers.offset_dims]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    if any(sizes[at] > 1 for at in gone):
        raise ArgumentError(
            f"lax.{name}: slice_sizes={tuple(sizes)} must be 1 for axes {sorted(gone)}, which are "
            "collapsed or batched",
            argument="slice_sizes",
            sizes=tuple(sizes),
        )
    windowed = [at for at in range(operand.ndim) if at not in gone]
    if len(outer) != len(batch) or len(windowed) != len(numbers.offset_dims):
        raise ArgumentError(
            f"lax.{name}: {numbers} do not fit an operand of shape {operand.shape} and indices of "
            f"shape {indices.shape}: each axis of the operand must be one of a window, "
            "collapsed, or batched",
            argument="dimension_numbers",
        )
    check_sizes(name, sizes, operand.shape)
    shape = [0] * ndim
    for at, n in zip(outer, batch, strict=True):
        shape[at] = n
    for at, place in zip(windowed, sorted(numbers.offset_dims), strict=True):
        shape[place] = sizes[at]
    lined = [shape[at] if at in outer else 1 for at in range(ndim)]
    places: list[Any] = [np.zeros((1,) * ndim, np.int64)] * operand.ndim
    within = None
    for number, at in enumerate(numbers.start_index_map):
        start = signed(indices[..., number].reshape(lined))
        last = operand.shape[at] - sizes[at]
        if mode not in (GatherScatterMode.CLIP, GatherScatterMode.PROMISE_IN_BOUNDS):
            fits = ew.logical_and(ew.greater_equal(start, 0), ew.less_equal(start, last))
            within = fits if within is None else ew.logical_and(within, fits)
        places[at] = clip(start, 0, last)
    for at, of in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        places[at] = line(batch[of], outer[of], ndim)
    for at, place in zip(windowed, sorted(numbers.offset_dims), strict=True):
        places[at] = places[at] + line(sizes[at], place, ndim)
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
    """Gather windows of an array, one for each vector of start positions.

    Args:
      operand: an array.
      start_indices: the start positions of the windows, integers. Each vector along the last axis
        is the start of one window.
      dimension_numbers: says which axes of `operand`, `start_indices` and the result belong
        together; see `GatherDimensionNumbers`.
      slice_sizes: the shape of a window, with one length for each axis of `operand`.
      unique_indices: ignored.
      indices_are_sorted: ignored.
      mode: what to do with windows that reach beyond the array. "clip" (the default) moves
        such windows into the array. "fill" replaces all their elements by `fill_value`. You can
        also pass a `GatherScatterMode`.
      fill_value: with mode "fill", the value of all elements of a window that reaches beyond the
        array. The default depends on the dtype: NaN for floats and complex numbers, the minimum
        for signed integers, the maximum for unsigned integers, True for booleans.

    Raises:
      ArgumentError: `dimension_numbers` or `slice_sizes` does not match the arrays.
      ArgumentTypeError: `start_indices` has no axis or no integer dtype, or `dimension_numbers`
        cannot be read as `GatherDimensionNumbers`.

    >>> import gpushard as gs
    >>> numbers = GatherDimensionNumbers((), (0,), (0,))
    >>> gather(gs.numpy.arange(5), gs.numpy.asarray([[3], [1]]), numbers, (1,))
    Array([3, 1], dtype=int64)
    """
    x, indices = as_value(operand, "gather"), as_value(start_indices, "gather")
    sizes = integers("gather", "slice_sizes", slice_sizes, x.ndim)
    numbers = _numbers("gather", dimension_numbers, GatherDimensionNumbers, x, indices)
    how = GatherScatterMode.CLIP if mode is None else _mode_of("gather", mode)
    windows, shape = _windows("gather", x, indices, numbers, sizes, how)
    taken: Array = x.at[tuple(windows.places)].get(mode="clip")
    taken = taken if taken.shape == shape else broadcast_to(taken, shape)
    if windows.within is None:
        return taken
    fill = np.frombuffer(fill_bytes(fill_value, x.dtype), x.dtype)[0]
    return where(windows.within, taken, fill)


_SCATTER = """

Args:
  operand: an array.
  scatter_indices: the start positions of the windows, integers. Each vector along the last axis is
    the start of one window.
  updates: the values for the windows, an array with the dtype of `operand`.
  dimension_numbers: says which axes of `operand`, `scatter_indices` and `updates` belong together;
    see `ScatterDimensionNumbers`.
  indices_are_sorted: ignored.
  unique_indices: ignored.
  mode: what to do with windows that reach beyond the array. "drop" (the default) leaves the
    array there unchanged. "clip" moves such windows into the array. You can also pass a
    `GatherScatterMode`.
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
    numbers = _numbers(name, dimension_numbers, ScatterDimensionNumbers, x, indices)
    ndim = indices.ndim - 1 + len(numbers.update_window_dims)
    if len(shape) != ndim:
        raise ArgumentError(
            f"lax.{name}: updates of shape {tuple(shape)} must have ndim={ndim}: the axes of "
            "indices but the last, and the axes of windows",
            argument="updates",
            shape=tuple(shape),
        )
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    lengths = iter([shape[at] for at in sorted(numbers.update_window_dims)])
    sizes = [1 if at in gone else next(lengths, 1) for at in range(x.ndim)]
    windows, whole = _windows(name, x, indices, GatherDimensionNumbers(*numbers), sizes, how)
    check_shape(name, "updates", shape, whole)
    places = windows.places
    if windows.within is not None:
        places[0] = where(windows.within, places[0], np.int64(x.shape[0]))
    places[0] = places[0] + np.zeros(whole, np.int64)
    return getattr(x.at[tuple(places)], method)(value, mode="drop")


scatter = _scatter("scatter", "set", "Replace windows of an array.")
scatter_add = _scatter("scatter_add", "add", "Add updates to windows of an array.")
scatter_sub = _scatter("scatter_sub", "subtract", "Subtract updates from windows of an array.")
scatter_mul = _scatter("scatter_mul", "multiply", "Multiply windows of an array by updates.")
scatter_min = _scatter(
    "scatter_min", "min", "Replace elements of windows by updates that are less."
)
scatter_max = _scatter(
    "scatter_max", "max", "Replace elements of windows by updates that are greater."
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
    """Apply a function to windows of an array.

    Args:
      operand: an array.
      scatter_indices: the start positions of the windows, integers. Each vector along the last axis
        is the start of one window.
      func: a function of an array that works element by element.
      dimension_numbers: says which axes of `operand`, `scatter_indices` and the updates belong
        together; see `ScatterDimensionNumbers`.
      update_shape: the shape that `updates` would have in `scatter`.
      indices_are_sorted: ignored.
      unique_indices: ignored.
      mode: what to do with windows that reach beyond the array. "drop" (the default) leaves
        the array there unchanged. "clip" moves such windows into the array. You can also pass a
        `GatherScatterMode`.

    >>> import gpushard as gs
    >>> numbers = ScatterDimensionNumbers((), (0,), (0,))
    >>> x, at = gs.numpy.arange(3), gs.numpy.asarray([[1]])
    >>> scatter_apply(x, at, lambda x: x + 7, numbers, update_shape=(1,))
    Array([0, 8, 2], dtype=int64)
    """
    x, of = as_value(operand, "scatter_apply"), dimension_numbers
    shape = integers("scatter_apply", "update_shape", update_shape)
    return _scattered("scatter_apply", x, scatter_indices, shape, of, mode, "apply", func)
