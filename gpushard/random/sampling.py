"""What all distributions do with their arguments, and how they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_dtype, as_shape
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.placement.device_put import as_host_array
from gpushard.random.keys import single_key
from gpushard.random.placing import beside, result_place
from gpushard.typing import Shape


def sample(
    row: Row,
    key: Any,
    shape: Any,
    dtype: np.dtype[Any],
    parameters: tuple[Any, ...] = (),
    out_sharding: Any = None,
    tail: Shape = (),
) -> Any:
    """Run the row of a distribution.

    Args:
      row: which; its parameters are (shape, dtype).
      key: a key.
      shape: of the result without `tail`; None for that of the parameters.
      dtype: of the result.
      parameters: of the distribution, as `parameter` returns them.
      out_sharding: as users give it.
      tail: dims of the result that do not come from `shape`; parameters then say their own shapes
        by `shape`, which must not be None.

    Raises:
      ArgumentError: the parameters do not broadcast to the shape.
      ArgumentTypeError: the key is no key.
    """
    name = row.name.removeprefix("random.")
    data = single_key(key, name)
    if shape is None:
        sizes = common_shape(name, *(np.shape(p) for p in parameters))
    else:
        sizes = as_shape(shape)
    whole = (*sizes, *tail)
    place = result_place(out_sharding, whole, data, *parameters)
    words = beside(data, place, *parameters)
    return place.finish(bind(row, (words, *parameters), (whole, dtype), place.sharding))


def common_shape(name: str, *shapes: Shape) -> Shape:
    """Return the shape that parameters broadcast to.

    Raises:
      ArgumentError: they do not.
    """
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ArgumentError(
            f"{name}: parameters of shapes {', '.join(map(str, shapes))} do not broadcast; dims "
            "must be equal or 1, counted from the last",
            argument="shape",
            shapes=shapes,
        ) from None


def float_dtype(dtype: Any, name: str, *, kinds: str = "f") -> np.dtype[Any]:
    """Return the type of floats that users ask for; float64 for None.

    Raises:
      ArgumentTypeError: it is none, or wider than float64.
    """
    found = np.dtype(np.float64) if dtype is None else as_dtype(dtype)
    if found.isbuiltin == 1:
        fits = found.kind in kinds and np.finfo(found).bits <= 64
    else:  # of ml_dtypes: bfloat16 and float8, but not int4
        fits = np.can_cast(found, np.float32) and not np.can_cast(found, np.int64)
    if not fits:
        names = "float16, float32, float64" + (", complex64, complex128" if "c" in kinds else "")
        raise ArgumentTypeError(
            f"{name}: dtype={found} must be one of {names}, or a type of floats of ml_dtypes",
            argument="dtype",
            dtype=found,
        )
    return found


def int_dtype(dtype: Any, name: str, kinds: str = "iu", default: Any = np.int64) -> np.dtype[Any]:
    """Return the type of integers that users ask for.

    Raises:
      ArgumentTypeError: it is none.
    """
    found = np.dtype(default) if dtype is None else as_dtype(dtype)
    if found.kind not in kinds:
        wanted = "an unsigned integer type" if kinds == "u" else "a type of integers"
        raise ArgumentTypeError(
            f"{name}: dtype={found} must be {wanted}, such as {np.dtype(default)}",
            argument="dtype",
            dtype=found,
        )
    return found


def check_mode(mode: Any, name: str) -> bool:
    """Return whether numbers are made of twice as many bits.

    Args:
      mode: "low", or None for that; or "high".
      name: of the function.

    Raises:
      ArgumentError: it is none of these.
    """
    if mode not in (None, "low", "high"):
        raise ArgumentError(
            f'{name}: mode={mode!r} must be "low" or "high"', argument="mode", value=mode
        )
    return bool(mode == "high")


def parameter(
    x: Any,
    name: str,
    argument: str,
    valid: Callable[[Any], Any] | None = None,
    wanted: str = "",
    dtype: Any = None,
) -> Any:
    """Return a parameter of a distribution: an array on devices as it is, host data checked.

    Args:
      x: an array, a number, or data on the host.
      name: of the distribution.
      argument: what errors call it.
      valid: whether numbers are possible; those on devices are not read, where they are not the
        result is NaN, -1 for integers.
      wanted: what is possible, in words.
      dtype: of host data; what it has for None.

    Raises:
      ArgumentTypeError: it is not numeric, or complex.
      ArgumentError: a number is impossible.
    """
    if isinstance(x, Array) or hasattr(x, "interpreter"):
        own = x.dtype
    else:
        x = as_host_array(np.array(x) if isinstance(x, list | tuple) else x, argument)[0]
        own = x.dtype
    if own.kind == "c":
        raise ArgumentTypeError(
            f"{name}: {argument} has dtype {own}; it must be real", argument=argument, dtype=own
        )
    if not isinstance(x, np.ndarray):
        return x
    if valid is not None and not np.all(valid(x)):
        wrong = x[~np.asarray(valid(x))].ravel()[0] if x.ndim else x[()]
        raise ArgumentError(
            f"{name}: {argument}={wrong} is impossible; it must be {wanted}",
            argument=argument,
            value=wrong.item(),
        )
    cast = x if dtype is None else x.astype(dtype, copy=False)
    return cast if cast.ndim else cast[()]
