"""Functions that make arrays.

Where they go: to `device` or `out_sharding`, which mean the same: a device, a sharding, or a
`PartitionSpec` within `with mesh:` or `use_mesh`. Otherwise they are uncommitted: beside the array
that they are like, or where new data goes by default. Every shard is computed where it will live.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.array.checks import as_dtype, as_shape, check_dtype, place_tiling
from gpushard.array.methods import check_order
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.numpy.arguments import (
    as_value,
    holds_value,
    host_data,
    integer,
    is_number,
    is_value,
    number_of,
    settle,
)
from gpushard.numpy.manipulation import broadcast_to, expand_dims, stack
from gpushard.ops.bind import bind
from gpushard.ops.create import create
from gpushard.ops.row import Row
from gpushard.ops.table import creation as rows
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import as_sharding, device_put
from gpushard.typing import Shape


def _place(device: Any, out_sharding: Any) -> Any:
    if device is not None and out_sharding is not None:
        raise ArgumentError(
            "device= and out_sharding= are both given; they mean the same, give one",
            argument="out_sharding",
        )
    return device if out_sharding is None else out_sharding


def _made(
    row: Row, shape: Shape, dtype: np.dtype[Any], numbers: Sequence[Any], place: Any
) -> Array:
    """Run a row without operands where its result goes; a place of None is the default."""
    committed = place is not None
    sharding = as_sharding(place, len(shape)) if committed else default_sharding(shape)
    return _made_on(row, shape, dtype, numbers, sharding, committed=committed)


def _made_on(
    row: Row,
    shape: Shape,
    dtype: np.dtype[Any],
    numbers: Sequence[Any],
    sharding: Sharding,
    *,
    committed: bool,
) -> Array:
    place_tiling(sharding, shape)
    if sharding.memory_kind == "device":
        buffer = create(row, sharding, shape, dtype, numbers)
        return Array(buffer, sharding, committed=committed)
    computed = create(row, sharding.with_memory_kind("device"), shape, dtype, numbers)
    result: Array = device_put(Array(computed, sharding.with_memory_kind("device")), sharding)
    return result


def asarray(
    obj: Any,
    /,
    dtype: Any = None,
    order: Any = None,
    *,
    device: Any = None,
    copy: bool | None = None,
    out_sharding: Any = None,
) -> Any:
    """Return data as an array.

    Args:
      obj: an array, a number, nested lists of numbers or of arrays, or what offers `__array__` or
        `__dlpack__` on the CPU.
      dtype: type of the elements; by default what NumPy takes.
      order: must be "C" or None.
      device: where it goes; arrays stay where they are by default.
      copy: True for memory of its own; False for an error where data has to be copied.
      out_sharding: the same as `device`.

    Raises:
      ArgumentTypeError: it is not numeric.
      ArgumentError: it would have to be copied, and `copy` is False.

    >>> asarray([1, 2], dtype="float32")
    Array([1., 2.], dtype=float32)
    """
    check_order(order)
    place = _place(device, out_sharding)
    target = None if dtype is None else as_dtype(dtype)
    if is_value(obj):
        x = obj if target is None else obj.astype(target)
        moved = settle(x, place)
        if copy is False and moved is not obj:
            raise _needs_copy()
        return moved.copy() if copy and moved is obj else moved
    if copy is False:
        raise _needs_copy()
    if isinstance(obj, list | tuple) and holds_value(obj):
        x = stack([asarray(entry) for entry in obj])
        return settle(x if target is None else x.astype(target), place)
    if is_number(obj) and target is not None:
        return device_put(np.asarray(number_of(obj, target, "asarray", "obj"), target), place)
    data = host_data(obj, "asarray")
    return device_put(data if target is None else data.astype(target, copy=False), place)


def _needs_copy() -> ArgumentError:
    return ArgumentError(
        "copy=False: data has to be copied to its place or to another dtype; leave copy out, or "
        "share memory with device_put(x, may_alias=True)",
        argument="copy",
    )


def array(
    obj: Any,
    /,
    dtype: Any = None,
    *,
    copy: bool | None = True,
    order: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return data as an array with memory of its own; arguments as for `asarray`.

    Args:
      obj: the data.
      dtype: type of the elements; by default what NumPy takes.
      copy: whether an array is copied.
      order: must be "C" or None.
      device: where it goes; arrays stay where they are by default.
      out_sharding: the same as `device`.
    """
    return asarray(obj, dtype, order, device=device, copy=copy or None, out_sharding=out_sharding)


def full(
    shape: Any,
    fill_value: Any,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return an array whose elements are all the same.

    Args:
      shape: its shape.
      fill_value: the element; an array is broadcast.
      dtype: type of the elements; that of `fill_value` by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: a size is negative, or an array does not broadcast.
      ArgumentTypeError: sizes are no integers, or the value no number.
    """
    sizes, place = as_shape(shape), _place(device, out_sharding)
    if not is_number(fill_value):
        x = asarray(fill_value, dtype)
        return settle(broadcast_to(x, sizes), place)
    target = _type_of(fill_value, dtype)
    value = number_of(fill_value, target, "full", "fill_value")
    return _made(rows.FULL, sizes, target, (value,), place)


def _type_of(value: Any, dtype: Any) -> np.dtype[Any]:
    return check_dtype(np.asarray(value).dtype, "fill_value") if dtype is None else as_dtype(dtype)


def zeros(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Return an array of zeros.

    Args:
      shape: its shape.
      dtype: type of the elements; float64 by default.
      device: where it goes.
      out_sharding: the same.

    >>> import gpushard as gs
    >>> with gs.use_mesh(gs.make_mesh((4,), "x"), gs.P("x")):
    ...     [shard.data.shape for shard in zeros(6).addressable_shards]
    [(2,), (2,), (2,), (0,)]
    """
    return full(shape, 0, dtype or np.float64, device=device, out_sharding=out_sharding)


def ones(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Return an array of ones.

    Args:
      shape: its shape.
      dtype: type of the elements; float64 by default.
      device: where it goes.
      out_sharding: the same.
    """
    return full(shape, 1, dtype or np.float64, device=device, out_sharding=out_sharding)


def empty(shape: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Return an array whose elements do not matter; they are zeros.

    Args:
      shape: its shape.
      dtype: type of the elements; float64 by default.
      device: where it goes.
      out_sharding: the same.
    """
    return zeros(shape, dtype, device=device, out_sharding=out_sharding)


def full_like(
    x: Any,
    /,
    fill_value: Any,
    dtype: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return an array whose elements are all the same, laid out like another.

    Args:
      x: the other one.
      fill_value: the element; an array is broadcast.
      dtype: type of the elements; that of `x` by default.
      shape: the shape; that of `x` by default. One of another rank is laid out by default.
      device: where it goes; by default as `x` lies.
      out_sharding: the same.
    """
    place = _place(device, out_sharding)
    own = x.shape if hasattr(x, "shape") else np.shape(x)
    kind = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    sizes = own if shape is None else as_shape(shape)
    target = as_dtype(kind if dtype is None else dtype)
    if place is not None or not isinstance(x, Array) or len(sizes) != len(own):
        return full(sizes, fill_value, target, out_sharding=place)
    if not is_number(fill_value):
        found = full(sizes, fill_value, target)
        return found if found.sharding == x.sharding else settle(found, x.sharding)
    value = number_of(fill_value, target, "full_like", "fill_value")
    return _made_on(rows.FULL, sizes, target, (value,), x.sharding, committed=x.committed)


def zeros_like(
    x: Any,
    /,
    dtype: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return an array of zeros, laid out like another.

    Args:
      x: the other one.
      dtype: type of the elements; that of `x` by default.
      shape: the shape; that of `x` by default. One of another rank is laid out by default.
      device: where it goes; by default as `x` lies.
      out_sharding: the same.
    """
    return full_like(x, 0, dtype, shape=shape, device=device, out_sharding=out_sharding)


def ones_like(
    x: Any,
    /,
    dtype: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return an array of ones, laid out like another.

    Args:
      x: the other one.
      dtype: type of the elements; that of `x` by default.
      shape: the shape; that of `x` by default. One of another rank is laid out by default.
      device: where it goes; by default as `x` lies.
      out_sharding: the same.
    """
    return full_like(x, 1, dtype, shape=shape, device=device, out_sharding=out_sharding)


def empty_like(
    x: Any,
    /,
    dtype: Any = None,
    *,
    shape: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return an array whose elements do not matter, laid out like another; they are zeros.

    Args:
      x: the other one.
      dtype: type of the elements; that of `x` by default.
      shape: the shape; that of `x` by default. One of another rank is laid out by default.
      device: where it goes; by default as `x` lies.
      out_sharding: the same.
    """
    return full_like(x, 0, dtype, shape=shape, device=device, out_sharding=out_sharding)


def arange(
    start: Any,
    /,
    stop: Any = None,
    step: Any = 1,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return evenly spaced numbers from `start` up to, not including, `stop`.

    Elements are NumPy's to the bit.

    Args:
      start: the first number; without `stop` numbers start at 0 and end before this.
      stop: where they end.
      step: the distance.
      dtype: type of the elements; what the arguments promote to by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: the step is 0, or the numbers do not end.
      ArgumentTypeError: an argument is no number.

    >>> arange(3), arange(1, 2, 0.25)
    (Array([0, 1, 2], dtype=int64), Array([1.  , 1.25, 1.5 , 1.75], dtype=float64))
    """
    place = _place(device, out_sharding)
    if stop is None:
        start, stop = 0, start
    start, stop, step = (
        _number(x, "arange", argument)
        for x, argument in ((start, "start"), (stop, "stop"), (step, "step"))
    )
    length = _length(start, stop, step)
    if dtype is None:
        target = np.result_type(*(np.asarray(x).dtype for x in (start, stop, step)), np.int64)
    else:
        target = as_dtype(dtype)
    first = number_of(start, target, "arange", "start")
    second = number_of(start + step, target, "arange", "step") if length > 1 else first
    if length > 1:  # the last one must fit too
        number_of(start + (length - 1) * step, target, "arange", "stop")
    return _made(rows.ARANGE, (length,), target, (first, second), place)


def _number(x: Any, name: str, argument: str) -> Any:
    """Return a number; arrays without dims on the host count too."""
    if isinstance(x, np.ndarray) and not x.ndim:
        x = x[()]
    if not is_number(x) or np.asarray(x).dtype.kind not in "?biufc":
        raise ArgumentTypeError(
            f"{name}: {argument}={x!r} must be a number; of an array take float(x) or int(x)",
            argument=argument,
            value=x,
        )
    return x


def _length(start: Any, stop: Any, step: Any) -> int:
    """Return how many numbers there are, as NumPy counts them.

    Raises:
      ArgumentError: the step is 0, or the numbers do not end.
    """
    try:
        with np.errstate(all="ignore"):
            apart = stop - start
            many = apart / step
        if isinstance(many, complex | np.complexfloating):
            return max(0, min(math.ceil(many.real), math.ceil(many.imag)))
        if many == 0 and apart != 0:  # too small for a float
            return 0 if math.copysign(1, many) < 0 else 1
        found: int = max(0, math.ceil(many))
        return found
    except (ZeroDivisionError, OverflowError, ValueError, TypeError):
        raise ArgumentError(
            f"arange: from {start} to {stop} in steps of {step} there is no finite number of "
            "elements; use a step other than 0 and finite bounds",
            argument="step",
            start=start,
            stop=stop,
            step=step,
        ) from None


def linspace(
    start: Any,
    stop: Any,
    /,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: Any = None,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Elements are NumPy's to the bit.

    Args:
      start: the first number.
      stop: the last one.
      num: how many.
      endpoint: whether `stop` is among them.
      dtype: type of the elements; floats or complex numbers by default.
      device: where it goes.
      out_sharding: the same.

    Raises:
      ArgumentError: `num` is negative.
      ArgumentTypeError: an argument is no number.

    >>> linspace(0, 1, 3)
    Array([0. , 0.5, 1. ], dtype=float64)
    """
    place = _place(device, out_sharding)
    start, stop = _number(start, "linspace", "start"), _number(stop, "linspace", "stop")
    count = integer(num, "linspace", "num")
    if count < 0:
        raise ArgumentError(
            f"linspace: num={count} must not be negative", argument="num", value=count
        )
    work = np.result_type(start, stop, 0.0)
    target = work if dtype is None else as_dtype(dtype)
    div = count - 1 if endpoint else count
    low, high = (
        number_of(x, work, "linspace", name) for x, name in ((start, "start"), (stop, "stop"))
    )
    with np.errstate(all="ignore"):
        delta = np.subtract(stop, start, dtype=work)
        step = delta / div if div > 0 else work.type(np.nan)
    last = div if endpoint and count > 1 else -1
    numbers = low, high, work.type(delta), work.type(step), div, last
    return _made(rows.LINSPACE, (count,), target, numbers, place)


def eye(
    n_rows: Any,
    n_cols: Any = None,
    /,
    k: Any = 0,
    dtype: Any = None,
    *,
    device: Any = None,
    out_sharding: Any = None,
) -> Any:
    """Return a matrix with ones on a diagonal and zeros elsewhere.

    Args:
      n_rows: how many rows.
      n_cols: how many columns; as many by default.
      k: which diagonal: 0 for the main one, positive for one above it.
      dtype: type of the elements; float64 by default.
      device: where it goes.
      out_sharding: the same.
    """
    place = _place(device, out_sharding)
    shape = as_shape((n_rows, n_rows if n_cols is None else n_cols), "n_rows, n_cols")
    target = as_dtype(dtype or np.float64)
    # Beyond the matrix all diagonals are alike.
    diagonal = max(-shape[0], min(integer(k, "eye", "k"), shape[1]))
    return _made(rows.EYE, shape, target, (diagonal,), place)


def identity(n: Any, dtype: Any = None, *, device: Any = None, out_sharding: Any = None) -> Any:
    """Return a square matrix with ones on its diagonal and zeros elsewhere.

    Args:
      n: how many rows and columns.
      dtype: type of the elements; float64 by default.
      device: where it goes.
      out_sharding: the same.
    """
    return eye(n, dtype=dtype, device=device, out_sharding=out_sharding)


def tril(x: Any, /, k: int = 0, *, out_sharding: Any = None) -> Any:
    """Return matrices with zeros above a diagonal.

    Args:
      x: an array of at least two dims.
      k: which diagonal: 0 for the main one, positive for one above it.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are fewer dims.
    """
    return settle(_part(rows.TRIL, x, k), out_sharding)


def triu(x: Any, /, k: int = 0, *, out_sharding: Any = None) -> Any:
    """Return matrices with zeros below a diagonal.

    Args:
      x: an array of at least two dims.
      k: which diagonal: 0 for the main one, positive for one above it.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are fewer dims.
    """
    return settle(_part(rows.TRIU, x, k), out_sharding)


def _part(row: Row, x: Any, k: Any) -> Any:
    x = as_value(x, row.name)
    if x.ndim < 2:
        raise ArgumentError(
            f"{row.name} needs at least two dims, the shape is {x.shape}",
            argument="x",
            shape=x.shape,
        )
    diagonal = max(-x.shape[-2], min(integer(k, row.name, "k"), x.shape[-1]))
    return bind(row, (x,), (diagonal,))


def meshgrid(
    *xs: Any,
    copy: bool = True,
    sparse: bool = False,
    indexing: str = "xy",
    out_sharding: Any = None,
) -> Any:
    """Return the coordinates of a grid: one array for each vector of coordinates.

    Args:
      *xs: the vectors.
      copy: arrays are values, so this makes no difference.
      sparse: whether dims that a coordinate does not depend on have length 1.
      indexing: "xy" for the first vector along the second dim, "ij" for it along the first.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: one of them is no vector, or `indexing` is unknown.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(
            f'meshgrid: indexing={indexing!r} must be "xy" or "ij"',
            argument="indexing",
            value=indexing,
        )
    vectors = [as_value(x, "meshgrid") for x in xs]
    for x in vectors:
        if x.ndim > 1:
            raise ArgumentError(
                f"meshgrid: an operand has shape {x.shape}; give vectors, such as x.ravel()",
                argument="xs",
                shape=x.shape,
            )
    many = len(vectors)
    order = list(range(many))
    if indexing == "xy" and many > 1:
        order[:2] = 1, 0
    lines = []
    for number, x in enumerate(vectors):
        others = tuple(dim for dim in range(many) if dim != order[number])
        lines.append(expand_dims(x.ravel(), others))
    if not sparse:
        shape = np.broadcast_shapes(*(x.shape for x in lines))
        lines = [broadcast_to(x, shape) for x in lines]
    return tuple(settle(x, out_sharding) for x in lines)
