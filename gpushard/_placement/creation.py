"""Functions that create arrays.

`device` and `out_sharding` mean the same place: a device, a sharding, or a `PartitionSpec` within
`with mesh:` or `use_mesh`. Without a place arrays are uncommitted: they lie like the array that
they are modelled on, or where new data goes by default. Every shard is computed on its device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard._array import Array
from gpushard._array.key_array import ELEMENT, keys_of, refuse
from gpushard._array.library_protocols import provided
from gpushard._array.shape_dtype import KEY, KeyDType
from gpushard._functions.argument_checks import check_order
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype, check_dtype, number_of
from gpushard._functions.manipulation import broadcast_to
from gpushard._functions.shapes import as_shape, dim_count
from gpushard._functions.values import is_committed, is_value, offered, sharding_of
from gpushard._geometry.memory_layout import Format
from gpushard._geometry.sharding import GridSharding, Sharding
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.scalars import is_number
from gpushard._ops.table import creation as rows
from gpushard._placement.arguments import as_list, as_value, holds_value, host_data, settle
from gpushard._placement.default_placement import default_sharding, everywhere
from gpushard._placement.device_put import as_sharding, device_put
from gpushard._placement.joining import stack
from gpushard._placement.public_functions import public
from gpushard._typing import Shape
from gpushard.errors import ArgumentError

__all__ = [
    "array", "asarray", "copy", "empty", "empty_like", "from_dlpack", "full", "full_like",
    "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip


_creating = described(
    shape="the shape.",
    dtype="the dtype; float64 by default. With `key.dtype`, the elements are random keys with\n"
    "    this number in both words.",
    order='must be "C" or None.',
    device="a device or a sharding for the array; by default the one for new arrays.",
    out_sharding="another name of `device`.",
)

_like = described(
    a="the other array.",
    dtype="the dtype; by default that of `a`.",
    shape="the shape; by default that of `a`. If the number of axes differs from that of `a`,\n"
    "    every device of `a` gets the whole array.",
    order='must be "C" or None.',
    device="a device or a sharding for the array; by default the sharding of `a`.",
    out_sharding="another name of `device`.",
)


@_creating
def asarray(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Array:
    """Convert data to an array.

    Args:
      a: an array, a number, or a (nested) sequence of numbers or arrays. Also an object with
        `__array__`, with `__dlpack__` on the CPU, or with the buffer protocol.
      dtype: the dtype; by default the one that NumPy would choose.
      device: a device or a sharding for the array. By default arrays stay where they are, and other
        data goes where new arrays go.
      copy: True copies the data to new memory. False returns the array itself, or raises if the
        data has to be copied. None returns a new `Array` that shares memory if possible.
      out_sharding: another name of `device`.

    Raises:
      ArgumentTypeError: the data is not numeric.
      ArgumentError: `copy` is False, and the data has to be copied.

    >>> asarray([1, 2], dtype="float32")
    Array([1., 2.], dtype=float32)
    """
    check_order(order)
    argument, place = named_place(device, out_sharding)
    target = None if dtype is None else _element_type(dtype)
    a = offered(a)
    if is_value(a):
        same = place is None and target in (None, a.dtype)
        if copy is False:
            if not same:
                raise _needs_copy()
            return cast("Array", a)  # who forbids a copy wants to see what is assigned to either
        x = as_value(a, "asarray") if target is None else a.astype(target)
        return x.copy() if copy and same else settle(x, place, argument)
    if copy is False:
        raise _needs_copy()
    a = as_list(a)
    if isinstance(a, list | tuple) and holds_value(a):
        x = stack([asarray(entry) for entry in a])
        return settle(x if target is None else x.astype(target), place, argument)
    if target is KEY:
        refuse("asarray of numbers as keys")
    place = place_of(device, out_sharding)
    if is_number(a) and target is not None:
        return device_put(np.asarray(number_of(a, target, "asarray", "a"), target), place)
    data = host_data(a, "asarray")
    return device_put(data if target is None else data.astype(target, copy=False), place)


def _needs_copy() -> ArgumentError:
    return ArgumentError(
        "copy=False: data has to be copied to its place or to another dtype; leave copy out, or "
        "share memory with device_put(x, may_alias=True)",
        argument="copy",
    )


@_creating
def array(
    object: Any,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: Any = None,
    ndmin: int = 0,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Convert data to a new array with a copy of the data; see `asarray`.

    Args:
      object: the data, as for `asarray`.
      dtype: the dtype; by default the one that NumPy would choose.
      copy: whether to copy data that is an array already.
      ndmin: the least number of axes of the result; missing axes are added in front.
      device: a device or a sharding for the array. By default arrays stay where they are, and other
        data goes where new arrays go.
      out_sharding: another name of `device`.
    """
    if not ndmin:
        return asarray(
            object, dtype, order, device=device, copy=copy or None, out_sharding=out_sharding
        )
    x = asarray(object, dtype, order, copy=copy or None)
    new = (1,) * max(dim_count(ndmin, "array", "ndmin") - x.ndim, 0)
    return asarray(x.reshape(new + x.shape), device=device, out_sharding=out_sharding)


@_creating
def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array with all elements equal to a value.

    Args:
      fill_value: the value, a number, or an array that broadcasts to the shape.
      dtype: the dtype; by default that of `fill_value`.

    Raises:
      ArgumentError: a size is negative, or `fill_value` does not broadcast to the shape.
      ArgumentTypeError: sizes are not integers, or the value is not a number.
    """
    check_order(order)
    sizes = as_shape(shape)
    if not is_number(fill_value):
        argument, place = named_place(device, out_sharding)
        x = asarray(fill_value, dtype)
        return settle(broadcast_to(x, sizes), place, argument)
    target = _type_of(fill_value, dtype)
    place = place_of(device, out_sharding)
    if target is KEY:
        return cast(
            "Array",
            keys_of(create(rows.FULL, sizes, ELEMENT, (_words(fill_value, "full"),), place)),
        )
    value = number_of(fill_value, target, "full", "fill_value")
    return create(rows.FULL, sizes, target, (value,), place)


def _element_type(dtype: Any) -> Any:
    """Return a dtype of numbers, or that of keys."""
    return KEY if isinstance(dtype, KeyDType) else as_dtype(dtype)


def _type_of(value: Any, dtype: Any) -> Any:
    if dtype is not None:
        return _element_type(dtype)
    return check_dtype(np.asarray(value).dtype, "fill_value")


def _words(number: Any, name: str) -> Any:
    """Return the element of the key that has a number as both words."""
    word = int(number_of(number, np.dtype(np.uint32), name, "fill_value"))
    return ELEMENT.type(word << 32 | word)


@_creating
def zeros(
    shape: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of zeros.

    >>> import gpushard as gs
    >>> with gs.use_mesh(gs.make_mesh((4,), "x"), gs.P("x")):
    ...     [shard.data.shape for shard in zeros(6).addressable_shards]
    [(2,), (2,), (2,), (0,)]
    """
    return full(
        shape,
        0,
        np.float64 if dtype is None else dtype,
        order,
        device=device,
        out_sharding=out_sharding,
    )


@_creating
def ones(
    shape: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of ones."""
    return full(shape, 1, dtype or np.float64, order, device=device, out_sharding=out_sharding)


@_creating
def empty(
    shape: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of zeros, for code that will assign all elements."""
    return zeros(shape, dtype, order, device=device, out_sharding=out_sharding)


@_like
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array with all elements equal to a value, like another array.

    Args:
      fill_value: the value, a number, or an array that broadcasts to the shape.
    """
    check_order(order)
    a = offered(a)
    _, place = named_place(device, out_sharding)
    source_shape = a.shape if hasattr(a, "shape") else np.shape(a)
    kind = a.dtype if hasattr(a, "dtype") else np.asarray(a).dtype
    sizes = source_shape if shape is None else as_shape(shape)
    target = _element_type(kind if dtype is None else dtype)
    like = sharding_of(a)
    if place is not None or like is None:
        return full(sizes, fill_value, target, device=device, out_sharding=out_sharding)
    if not _fits(like, source_shape, sizes):
        like = everywhere(like).with_memory_kind(like.memory_kind)
    if not is_number(fill_value):
        x = full(sizes, fill_value, target)
        return x if sharding_of(x) == like else settle(x, like)
    if target is KEY:
        words = (_words(fill_value, "full_like"),)
        keys = create_on(rows.FULL, sizes, ELEMENT, words, like, committed=is_committed(a))
        return cast("Array", keys_of(keys))
    value = number_of(fill_value, target, "full_like", "fill_value")
    return create_on(rows.FULL, sizes, target, (value,), like, committed=is_committed(a))


def _fits(sharding: Sharding, source_shape: Shape, shape: Shape) -> bool:
    """Whether the sharding of an array lays out another shape, too."""
    grid = isinstance(sharding, GridSharding) and not sharding.unstacked
    return shape == source_shape or (grid and len(shape) == len(source_shape))


@_like
def zeros_like(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of zeros, with the shape, dtype and sharding of another array."""
    return full_like(a, 0, dtype, order, shape=shape, device=device, out_sharding=out_sharding)


@_like
def ones_like(
    a: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of ones, with the shape, dtype and sharding of another array."""
    return full_like(a, 1, dtype, order, shape=shape, device=device, out_sharding=out_sharding)


@_creating
def empty_like(
    prototype: Any,
    dtype: Any = None,
    order: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Create an array of zeros like another array, for code that will assign all elements.

    Args:
      prototype: the other array.
      dtype: the dtype; by default that of `prototype`.
      shape: the shape; by default that of `prototype`. If the number of axes differs from that of
        `prototype`, every device of it gets the whole array.
      device: a device or a sharding for the array; by default the sharding of `prototype`.
    """
    return full_like(
        prototype, 0, dtype, order, shape=shape, device=device, out_sharding=out_sharding
    )


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """Create an array that shares the memory of an array of another library, if possible.

    Args:
      x: an object with `__dlpack__` and `__dlpack_device__`; an array of gpushard is returned
        unchanged.
      device: a device for the array; by default one that can share the memory.
      copy: True always copies; False raises if a copy is needed; None copies only if needed.

    >>> import numpy as np
    >>> from_dlpack(np.arange(3))
    Array([0, 1, 2], dtype=int64)
    """
    return provided("from_dlpack")(x, device=device, copy=copy)


@public
def copy(a: Any, order: Any = None, *, out_sharding: Any = None) -> Array:
    """Copy an array.

    Args:
      order: "C", "A", "K" or None, which all mean row-major here.
    """
    check_order(order)
    return a.copy()


def named_place(device: Any, out_sharding: Any) -> tuple[str, Any]:
    """Return the name of the argument that the caller used for a place, and the place or None."""
    if device is not None and out_sharding is not None:
        raise ArgumentError(
            "device= and out_sharding= are both given; they mean the same, give one",
            argument="out_sharding",
        )
    return ("device", device) if out_sharding is None else ("out_sharding", out_sharding)


def place_of(device: Any, out_sharding: Any) -> Sharding | Format | None:
    """Return the place for new data; None if the caller named no place."""
    argument, place = named_place(device, out_sharding)
    if place is None or isinstance(place, Format):  # which fits some numbers of dims only
        return place
    return as_sharding(place, 0, argument)


def create(
    row: Row, shape: Shape, dtype: np.dtype[Any], numbers: Sequence[Any], place: Any
) -> Array:
    """Run a row without operands where its result goes."""
    committed = place is not None
    sharding = as_sharding(place, len(shape)) if committed else default_sharding(shape)
    return create_on(row, shape, dtype, numbers, sharding, committed=committed)


def create_on(
    row: Row,
    shape: Shape,
    dtype: np.dtype[Any],
    numbers: Sequence[Any],
    sharding: Sharding,
    *,
    committed: bool,
) -> Array:
    """Run a row without operands on a sharding; arguments as for `made`."""
    return cast("Array", bind(row, numbers, (shape, dtype, committed), sharding))


def kept_at(x: Any, place: Any) -> Any:
    """Move a result that was computed from an array at a place to that place.

    Operations do not split dims of length 0 or 1.
    """
    return x if place is None else device_put(x, place)
