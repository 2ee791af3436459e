"""`x[index] = value` and `x.at[index]` as functions of values, and functions such as `put`.

https://docs.jax.dev/en/latest/_autosummary/jax.numpy.ndarray.at.html

One operation replaces the part that a basic index selects; the rest is shared with the array.
Another operation replaces the elements that index arrays select, or combines them with values.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, cast

import numpy as np

from gpushard._functions import indexing
from gpushard._functions.assigned_values import (
    as_element,
    as_part,
    check_broadcasts,
    check_replaced,
)
from gpushard._functions.cumulative import cumsum
from gpushard._functions.docstrings import described
from gpushard._functions.host_reads import Concrete
from gpushard._functions.index_bounds import (
    MODES,
    Positions,
    as_int64,
    as_integers,
    bounded,
    unravelled,
)
from gpushard._functions.index_parsing import ParsedIndex, parse
from gpushard._functions.loops import while_loop
from gpushard._functions.values import Array, is_traced, is_value
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding, SingleDeviceSharding
from gpushard._ops.aval import Aval
from gpushard._ops.basic_index import Entry, open_index
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.scalars import KINDS, converter
from gpushard._ops.table.elementwise import ASTYPE, WHERE, ufunc_row
from gpushard._ops.table.manipulation import BROADCAST_TO, RESHAPE
from gpushard._ops.table.manipulation import index as index_part
from gpushard._ops.table.scatter import SCATTER, UPDATE
from gpushard._typing import Shape, shown_as
from gpushard.errors import ArgumentError, ArgumentTypeError

_AND = ufunc_row(np.logical_and)


def updated(
    x: Any,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    value: Any,
    ufunc: np.ufunc | None = None,
    mode: str | None = None,
) -> Any:
    """Replace elements of an array, or combine them with values.

    Args:
      x: the array, which stays as it is.
      parsed: the index of the elements.
      arrays: its arrays.
      value: a number or an array; it is broadcast.
      ufunc: the ufunc that combines elements with values, as its `at` does; None to replace them.
      mode: one of `MODES`, or None to raise where positions are out of bounds.

    Returns:
      The new array, laid out like `x` unless that follows others.
    """
    if arrays:
        value = part_updated(x, parsed, arrays, value, ufunc, mode)
        if parsed.everything and not (is_plain(x) and is_plain(value)):
            return value
        if parsed.everything:  # what was laid out like `x` is no more committed than that
            x = copy.copy(x)
            x._renew(value)
            return x
    elif ufunc is not None:
        value = bind(ufunc_row(ufunc), (indexing.part_of(x, parsed), value))
    return with_part(x, parsed.entries, parsed.shape, value)


def with_part(x: Any, entries: tuple[Entry, ...], shape: Shape, value: Any) -> Any:
    """Replace the part that a basic index selects."""
    if follows(x, value):
        x = x.to_device(beside(x, entries, value))
    form, starts = open_index(entries, x.shape)
    return bind(UPDATE, (x, as_new_part(value, shape, x), *starts), (form,))


def as_new_part(value: Any, shape: Shape, x: Any) -> Any:
    """Convert new values of a part: an element, or data of its shape, or an array of size 1."""
    if not is_value(value):
        element = as_element(value, x.dtype)
        return as_part(value, shape, x.dtype) if element is None else element
    if is_plain(value):
        value._live()  # one that was deleted has a shape still
    value_shape = value.shape
    more = check_broadcasts(value_shape, shape)
    value = converted(value, x.dtype)
    if value_shape != shape and math.prod(value_shape) != 1:
        if more:
            value = bind(RESHAPE, (value,), (value_shape[more:],))
        value = bind(BROADCAST_TO, (value,), (shape,))
    return value


def part_updated(
    x: Any,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    value: Any,
    ufunc: np.ufunc | None = None,
    mode: str | None = None,
) -> Any:
    """Replace elements of the part that the basic index selects first, as `updated` does."""
    mask = None
    if parsed.everything and parsed.only_mask and not parsed.dims[0]:
        mask = arrays[0] if arrays[0].shape == x.shape[: arrays[0].ndim] else None
    if mask is not None:
        rest = x.shape[mask.ndim :]
        alike = _same_for_all(value, rest)
        if alike is not None:
            return _where(x, mask, alike, rest, ufunc)
    at, indexed = indexing.positions(parsed, arrays, mode, "drop")
    shape = indexing.selected_shape(indexed, parsed.shape, at)
    out = mask.sharding if mask is not None and follows(x, mask) else None
    return scattered(indexing.part_of(x, parsed), indexed, at, value, shape, ufunc, out)


def scattered(
    x: Any,
    indexed: Indexed,
    at: Sequence[Positions],
    value: Any,
    shape: Shape,
    ufunc: np.ufunc | None = None,
    out: Sharding | None = None,
) -> Any:
    """Replace elements of an array, or combine them with values, where index arrays say."""
    new, out = as_operand(value, shape, x, ufunc), out or stays(x, value, *at)
    return bind(SCATTER, (x, new, *at), (indexed, ufunc), out)


def is_plain(x: Any) -> bool:
    """Whether a value is an array that has data."""
    return isinstance(x, Concrete)


def follows(x: Any, *others: Any) -> bool:
    """Whether an array goes to where others lie that are assigned to it, or that index it.

    It does if nobody chose its devices, and somebody chose theirs, which are not the same. What has
    no dims has no say, as in other operations.
    """
    return any(
        is_plain(other)
        and is_plain(x)
        and not x.committed
        and other.committed
        and other.ndim > 0
        and other.sharding.device_set != x.sharding.device_set
        for other in others
    )


def stays(x: Any, *others: Any) -> Sharding | None:
    """Say how an array is laid out that is assigned to; None if it follows others."""
    if not is_plain(x) or any(map(is_traced, others)) or follows(x, *others):
        return None
    return cast("Sharding", x.sharding)


def beside(x: Any, entries: Sequence[Entry], value: Any) -> Sharding:
    """Say where an array goes that follows a value: dims that it fills are split like its own."""
    value_sharding = value.sharding
    if isinstance(value_sharding, SingleDeviceSharding):
        return value_sharding
    if not isinstance(value_sharding, NamedSharding):
        value_sharding = NamedSharding(
            Mesh(np.array(value_sharding.tiling(value.shape).devices), "devices"), P()
        )
    dim = value.ndim - sum(not isinstance(entry, int) for entry in entries)
    axes: list[tuple[str, ...]] = []
    for entry in entries:
        if isinstance(entry, tuple):
            fills = dim >= 0 and value.shape[dim] == entry[2]
            axes.append(value_sharding.spec.axes(dim) if fills else ())
        elif entry is not None:
            axes.append(())
        dim += not isinstance(entry, int)
    return value_sharding.with_spec(P(*axes))


def _same_for_all(value: Any, rest: Shape) -> Any:
    """Take first dims off a value if it is the same for all that a mask selects.

    Otherwise None: how many these are has to be known.
    """
    try:
        check_broadcasts(value.shape if hasattr(value, "shape") else np.shape(value), rest)
    except ValueError:  # or lists of different lengths
        return None
    return _without_lead(value, len(rest))


def _where(x: Any, mask: Any, value: Any, rest: Shape, ufunc: np.ufunc | None) -> Any:
    """Replace the elements that a mask selects, in place; no position is known."""
    if ufunc is None:
        new = as_operand(value, rest, x, None)
    else:
        if isinstance(value, list | tuple):
            value = _without_lead(np.asarray(value), len(rest))
        new = converted(bind(ufunc_row(ufunc), (x, value)), x.dtype)
    if is_value(mask):
        entries = tuple((0, 1, n) for n in mask.shape) + (None,) * len(rest)
        mask = index_part(mask, entries) if rest else mask
    else:
        mask = mask.reshape(mask.shape + (1,) * len(rest))
    return bind(WHERE, (mask, new, x), (), stays(x, mask, value))


def converted(value: Any, dtype: np.dtype[Any]) -> Any:
    """Convert new values on devices to elements of a dtype."""
    if value.dtype.kind == "c" and dtype.kind != "c":
        raise ArgumentTypeError(
            f"value has dtype {value.dtype} and the array {dtype}: imaginary parts would be lost; "
            "give value.real",
            argument="value",
            dtype=value.dtype,
            expected=dtype,
        )
    if value.dtype == dtype:
        return value
    check_replaced(value, dtype)
    return bind(ASTYPE, (value,), (dtype,))


def as_operand(value: Any, shape: Shape, x: Any, ufunc: np.ufunc | None) -> Any:
    """Convert new values to an operand: not yet broadcast to the part."""
    if is_value(value):
        if is_plain(x) and is_plain(value) and x.committed:
            devices = x.sharding.device_set
            value = value if value.sharding.device_set == devices else value.to_device(x.device)
        value = value if ufunc is not None else converted(value, x.dtype)
        return _without_lead(value, len(shape))
    if ufunc is not None:
        return _number_for(ufunc, x, value, len(shape))
    element = as_element(value, x.dtype)
    if element is not None:
        return element
    data = as_part(value, shape, x.dtype)  # of which one element stays where it only repeats
    return data[tuple(slice(0, 1) if step == 0 else slice(None) for step in data.strides)]


def _number_for(ufunc: np.ufunc, x: Any, value: Any, ndim: int) -> Any:
    """Convert numbers on the host as a ufunc takes them beside an array."""
    if type(value) not in KINDS:
        return _without_lead(np.asarray(value), ndim)
    row, avals = ufunc_row(ufunc), (Aval(x.shape, x.dtype), KINDS[type(value)])
    return np.asarray(converter(row, row.infer(avals, ()), avals, 1)(value))


def _without_lead(value: Any, ndim: int) -> Any:
    """Take first dims of length 1 off an array that are more than a part has."""
    value_shape = getattr(value, "shape", ())
    more = len(value_shape) - ndim
    if more <= 0 or math.prod(value_shape[:more]) != 1:
        return value
    if is_value(value):
        return bind(RESHAPE, (value,), (value_shape[more:],))
    return np.asarray(value).reshape(value_shape[more:])


class Indexer(Generic[Array]):
    """The attribute `x.at`: takes an index, and gives an `At`.

    Args:
      x: the array.
    """

    __slots__ = ("_x",)

    def __init__(self, x: Array) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> At[Array]:
        return At(self._x, index)

    def __repr__(self) -> str:
        return "x.at; use x.at[index].set(value)"


class At(Generic[Array]):
    """A part of an array; its methods return new arrays.

    Methods take the arguments of JAX's. `mode` decides on positions out of bounds: None (the
    default) raises, as NumPy does; "drop" or "fill" omits them; "clip" takes the nearest position,
    "wrap" the remainder; "promise_in_bounds" checks nothing. The host reads positions on devices
    only for None. `indices_are_sorted` and `unique_indices` are hints that make no difference. With
    `wrap_negative_indices=False` negative positions are out of bounds. Reads then clip by default,
    and updates drop, as in JAX. Slices are not affected.

    Args:
      x: the array, which stays as it is.
      index: as NumPy takes it.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Array, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"x.at[{self._index!r}]; use its methods, such as set(value) and add(value)"

    @described()
    def get(
        self,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        fill_value: Any = None,
        out_sharding: Sharding | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Read the part: `x[index]`.

        Args:
          mode: the treatment of positions out of bounds.
          fill_value: the element for positions out of bounds with "fill"; by default NaN, or the
            extreme of integers.
          wrap_negative_indices: whether negative positions count from the end.
          out_sharding: the sharding of the result; by default as it is computed.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[np.array([3, 9])].get(mode="fill", fill_value=-1)
        Array([ 3, -1], dtype=int64)
        """
        if not wrap_negative_indices and mode in (None, "promise_in_bounds"):
            mode = "clip"
        parsed, arrays = self._parsed(mode, wrap_negative_indices)
        if not arrays:
            return index_part(self._x, parsed.entries, out_sharding)
        return indexing.read(self._x, parsed, arrays, mode, fill_value, out_sharding)

    @described()
    def set(
        self,
        value: Any,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | None = None,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Replace the part; the result shares the elements that a basic index does not select.

        Args:
          value: a number or an array, as in `x[index] = value`.
          mode: the treatment of positions out of bounds.
          wrap_negative_indices: whether negative positions count from the end.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].set(7)
        Array([0, 7, 7, 3], dtype=int64)
        """
        return self._updated(None, value, mode, wrap_negative_indices)

    def add(self, value: Any, **hints: Any) -> Array:
        """Add `value` to the part; an element that is selected twice is increased twice.

        Args:
          value: a number or an array; it is broadcast to the part.
          **hints: `mode`, `wrap_negative_indices`, `indices_are_sorted` and `unique_indices`, the
            arguments of `set`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.arange(4)).at[1:3].add(10)
        Array([ 0, 11, 12,  3], dtype=int64)
        >>> gs.device_put(np.zeros(3)).at[np.array([1, 1, 2])].add(1)
        Array([0., 2., 1.], dtype=float64)
        """
        return self._combined(np.add, value, hints)

    def subtract(self, value: Any, **hints: Any) -> Array:
        """Subtract `value` from the part; arguments as for `add`."""
        return self._combined(np.subtract, value, hints)

    def multiply(self, value: Any, **hints: Any) -> Array:
        """Multiply the part by `value`; arguments as for `add`."""
        return self._combined(np.multiply, value, hints)

    mul = multiply

    def divide(self, value: Any, **hints: Any) -> Array:
        """Divide the part by `value`; arguments as for `add`."""
        return self._combined(np.divide, value, hints)

    def power(self, value: Any, **hints: Any) -> Array:
        """Raise the part to the power of `value`; arguments as for `add`."""
        return self._combined(np.power, value, hints)

    def min(self, value: Any, **hints: Any) -> Array:
        """Replace the part by the minimum of it and `value`; arguments as for `add`."""
        return self._combined(np.minimum, value, hints)

    def max(self, value: Any, **hints: Any) -> Array:
        """Replace the part by the maximum of it and `value`; arguments as for `add`."""
        return self._combined(np.maximum, value, hints)

    def apply(self, function: Callable[[Array], Any], **hints: Any) -> Array:
        """Apply a function to the part.

        The function is applied to an element as often as the index selects it, as `numpy.ufunc.at`
        does. The host reads how often that is at most, unless a single position is selected. In a
        traced or mapped function a loop on the devices replaces this read.

        Args:
          function: a function of an array, the part; its result is broadcast and converted. For
            index arrays it must be an elementwise function.
          **hints: the arguments of `add`.

        >>> import gpushard as gs
        >>> import numpy as np
        >>> gs.device_put(np.ones(3)).at[np.array([1, 1, 2])].apply(lambda part: part * 10)
        Array([  1., 100.,  10.], dtype=float64)
        """
        mode, wrap = _modes(hints)
        mode = mode if wrap or mode is not None else "drop"
        parsed, arrays = self._parsed(mode, wrap)
        if all(parsed.masks) and any(map(is_traced, arrays)):  # nobody knows how much is selected
            chosen = At(bind(_AND, (self._x, False)), self._index).set(True, mode=mode)
            new = as_operand(function(self._x), self._x.shape, self._x, None)
            return cast("Array", bind(WHERE, (chosen, new, self._x)))
        part = self.get(mode=mode, wrap_negative_indices=wrap)
        single = all(math.prod(at.shape) == 1 for at in arrays)
        if not part.size or single or all(parsed.masks):
            part = function(part)  # no element is selected twice
        else:
            part = self._applied(function, part, mode, wrap)
        return self.set(part, mode=mode, wrap_negative_indices=wrap)

    def _applied(self, function: Callable[[Array], Any], part: Any, mode: Any, wrap: bool) -> Any:
        """Apply a function to each element of a part as often as the index selects it."""
        none = bind(ASTYPE, (bind(_AND, (self._x, False)),), (np.dtype(np.int64),))
        times: Any = At(none, self._index).add(1, mode=mode, wrap_negative_indices=wrap)
        times = At(times, self._index)
        times = times.get(mode=mode, fill_value=0, wrap_negative_indices=wrap)

        def again(carry: tuple[Any, Any]) -> tuple[Any, Any]:
            time, part = carry
            new = bind(WHERE, (times > time, function(part), part))
            return time + 1, converted(new, self._x.dtype)

        return while_loop(lambda carry: times.max() > carry[0], again, (0, part))[1]

    def _parsed(self, mode: Any, wrap: bool) -> tuple[ParsedIndex, Sequence[Positions]]:
        if mode not in (None, *MODES):
            raise ArgumentError(
                f"x.at[index]: mode={mode!r} is unknown; use one of {', '.join(map(repr, MODES))}, "
                "or None to raise",
                argument="mode",
                mode=mode,
            )
        parsed, arrays = parse(self._x.shape, self._index, mode)
        return parsed, arrays if wrap or not arrays else indexing.unwrapped(parsed, arrays, mode)

    def _combined(self, ufunc: np.ufunc, value: Any, hints: dict[str, Any]) -> Array:
        return self._updated(ufunc, value, *_modes(hints))

    def _updated(self, ufunc: np.ufunc | None, value: Any, mode: Any, wrap: bool) -> Array:
        mode = mode if wrap or mode is not None else "drop"
        return updated(self._x, *self._parsed(mode, wrap), value, ufunc, mode)


shown_as("x.at[index]", At)

_HINTS = ("mode", "indices_are_sorted", "unique_indices", "wrap_negative_indices")


def _modes(hints: dict[str, Any]) -> tuple[Any, bool]:
    """Find the mode, and whether negative positions count from the end, among keywords."""
    for keyword in hints:
        if keyword not in _HINTS:
            raise ArgumentTypeError(
                f"x.at[index] takes no {keyword}=; use {', '.join(f'{hint}=' for hint in _HINTS)}",
                argument=keyword,
            )
    return hints.get("mode"), hints.get("wrap_negative_indices", True)


def target(x: Array, name: str, argument: str) -> Array:
    """Check the array that a function changes, or makes a changed copy of."""
    if not hasattr(x, "_renew"):
        raise ArgumentTypeError(
            f"{name} changes a gpushard array, {argument} is a {type(x).__name__}; use "
            f"numpy.{name} for data on the host, or inplace=False for a new array",
            argument=argument,
            type=type(x),
        )
    return x


def finished(x: Array, new: Array, inplace: bool) -> Array | None:
    """Give an array a new value, or return that; `new` may be the array itself."""
    if inplace:
        if new is not x:
            x._renew(new)
        return None
    return new if new is not x else copy.copy(x)


def _repeated(values: Any, length: int) -> Any:
    """Repeat values to a vector of some length.

    Returns:
      An array on the host or on devices; None if there are no values, or none are wanted.
    """
    array: Any = values if is_value(values) else np.asarray(values)
    if not array.size or not length:
        return None
    if array.size == 1:
        return array.reshape(1)
    flat = array.ravel()
    if array.size >= length:
        return flat[:length]
    at = np.arange(length) % array.size
    return indexing.take(flat, at) if is_value(flat) else flat[at]


def _mask_for(x: Any, mask: Any, name: str, alike: str) -> Any:
    """Check a mask: `alike` says what it has in common with the array, "shape" or "size"."""
    array = indexing.as_mask(mask, "mask")
    if getattr(array, alike) != getattr(x, alike):
        raise ArgumentError(
            f"{name}: mask has shape {array.shape} and the array {x.shape}: different "
            f"{'shapes' if alike == 'shape' else 'numbers of elements'}; make them equal",
            argument="mask",
            shape=array.shape,
            expected=x.shape,
        )
    return array


_changing = described(
    a="the array, which gets a new value.",
    arr="the array, which gets a new value.",
    mode='the treatment of positions out of bounds: "raise", "clip" or "wrap"; None for "raise".',
    inplace="False returns a new array and leaves the array unchanged; it may be on the host.",
)


@_changing
def put(
    a: Array, ind: Any, v: Any, mode: str | None = "raise", *, inplace: bool = True
) -> Array | None:
    """Replace elements of an array at positions in row-major order.

    Args:
      ind: the positions.
      v: the new elements, which are repeated if they are too few.

    Raises:
      ArrayIndexError: a position is out of bounds.
    """
    x = target(a, "put", "a")
    at = as_integers(ind, "put").ravel()
    new = _repeated(v, at.shape[0])
    if new is not None or not x.size:  # NumPy does not look at the positions otherwise
        at = bounded(at, x.size, mode, "put")
    changed = x
    if new is not None and not x.shape:
        changed = At(x, ...).set(new[-1])
    elif new is not None:
        indexed = Indexed(tuple(range(-x.ndim, 0)), 0, (), True)
        dims = unravelled(as_int64(at) % x.size, x.shape)
        changed = scattered(x, indexed, dims, new, at.shape)
    return finished(x, changed, inplace)


@_changing
def put_along_axis(
    arr: Array,
    indices: Any,
    values: Any,
    axis: int | None = -1,
    *,
    inplace: bool = True,
    mode: str | None = "raise",
) -> Array | None:
    """Replace elements of an array at positions along an axis.

    Args:
      indices: the positions, an array with as many axes; the other axes are broadcast.
      values: the new elements; they are broadcast to the positions.
      axis: the axis; None takes the array in row-major order.

    Raises:
      ArrayIndexError: a position is out of bounds.
      ArgumentError: the other axes, or the values, do not fit.
    """
    x = target(arr, "put_along_axis", "arr")
    flat, along = (x.ravel(), 0) if axis is None else (x, axis)
    indexed, at, shape = indexing.along_axis(flat, indices, along, "put_along_axis", mode)
    new = scattered(flat, indexed, (at,), values, shape)
    if axis is None:
        new = At(x, ...).set(new.reshape(x.shape))
    return finished(x, new, inplace)


@_changing
def place(arr: Array, mask: Any, vals: Any, *, inplace: bool = True) -> Array | None:
    """Replace the elements where a mask is true by values in their order.

    Args:
      mask: booleans, as many as the array has elements.
      vals: the values, which are repeated if they are too few.

    Raises:
      ArgumentError: the mask does not fit, or there are no values.
    """
    x = target(arr, "place", "arr")
    chosen = _mask_for(x, mask, "place", "size").reshape(x.shape) != 0
    changed = x
    if is_traced(chosen) or is_traced(x):  # nobody knows how many are chosen
        new = _repeated(vals, x.size)
        if new is None and x.size:
            raise _no_values()
        if new is not None:
            new = as_operand(new, new.shape, x, None)
            if math.prod(new.shape) > 1:
                at = cumsum(chosen.ravel(), dtype=np.int64) - 1
                new = indexing.take(new, at)
            new = new.reshape(x.shape if math.prod(new.shape) > 1 else ())
            changed = bind(WHERE, (chosen, new, x), ())
        return finished(x, changed, inplace)
    number = indexing.count_true(chosen)
    new = _repeated(vals, number)
    if new is None and number:
        raise _no_values()
    if new is not None and inplace:
        x[chosen] = new
    elif new is not None:
        changed = At(x, chosen).set(new)
    return finished(x, changed, inplace)


def _no_values() -> ArgumentError:
    return ArgumentError("place: there are no values; give at least one", argument="vals")


@_changing
def putmask(a: Any, mask: Any, values: Any) -> None:
    """Replace the elements where a mask is true by the values at the same positions.

    Args:
      mask: booleans, of the shape of the array.
      values: the values, which are repeated if they are fewer than the elements of the array.

    Raises:
      ArgumentError: the mask does not fit.
    """
    x = target(a, "putmask", "a")
    array = _mask_for(x, mask, "putmask", "shape")
    new = _repeated(values, x.size)
    if new is not None:
        new = as_operand(new if new.size == 1 else new.reshape(x.shape), x.shape, x, None)
        x._renew(bind(WHERE, (array, new, x), (), stays(x, array, new)))


@_changing
def fill_diagonal(a: Array, val: Any, wrap: bool = False, *, inplace: bool = True) -> Array | None:
    """Replace the elements of the main diagonal.

    Args:
      a: the array, of at least two axes, which gets a new value.
      val: a number, or values for the elements in their order.
      wrap: whether the diagonal of a tall matrix starts again below its end.

    Raises:
      ArgumentError: the array has fewer than two axes, or more than two of different lengths.
    """
    x = target(a, "fill_diagonal", "a")
    if x.ndim < 2 or (x.ndim > 2 and len(set(x.shape)) > 1):
        raise ArgumentError(
            f"fill_diagonal: a has shape {x.shape}; it needs two dims, or more of one length",
            argument="a",
            shape=x.shape,
        )
    step = 1 + int(np.cumprod(x.shape[:0:-1]).sum())
    end = x.size if wrap or x.ndim > 2 else min(x.size, x.shape[1] ** 2)
    return put(x, np.arange(0, end, step), val, inplace=inplace)
