"""`id_tap`, `id_print` and `call`: the functions of `jax.experimental.host_callback`."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from gpushard._transforms.tracing.callbacks import (
    Operands,
    call_later,
    call_now,
    check_callback,
    effects_barrier,
)
from gpushard._transforms.values.frames import merge_names


def id_tap(
    tap_func: Callable[..., object],
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
) -> Any:
    """Call a host function with a value once it is computed, and return the value immediately.

    The call is `tap_func(arg, transforms)`. In functions of `shard_map` or `pmap` there is one call
    for each device, with its block. In functions of `vmap` there is one call for all elements, with
    the mapped axis in front. Then `transforms` has an entry `("batch", {"batch_dims": dims})` for
    each `vmap`, innermost first. `dims` is 0 for each leaf of `arg` that has the mapped axis, and
    None for other leaves.

    Args:
      tap_func: the function; its result is ignored.
      arg: a pytree of arrays and numbers, which the function gets as NumPy arrays.
      result: a value to return instead of `arg`.
      tap_with_device: whether the function also gets a keyword argument `device`: the device of the
        block, or the first device of an array.

    Raises:
      ArgumentTypeError: `tap_func` is not a function, or a leaf of `arg` is neither an array nor a
        number.

    >>> import gpushard as gs
    >>> seen = []
    >>> x = id_tap(lambda value, transforms: seen.append(int(value)), gs.numpy.asarray(3))
    >>> barrier_wait()
    >>> x, seen
    (Array(3, dtype=int64), [3])
    """
    check_callback(tap_func, "id_tap")
    _tap(tap_func, arg, "id_tap", tap_with_device)
    return arg if result is None else result


def id_print(
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
    output_stream: TextIO | None = None,
    threshold: int | None = None,
    **kwargs: Any,
) -> Any:
    """Print a value once it is computed, and return the value immediately.

    In mapped functions, `id_print` prints as often as `id_tap` would call its function.

    Args:
      arg: a pytree of arrays and numbers.
      result: a value to return instead of `arg`.
      tap_with_device: whether to print the device, too.
      output_stream: the stream to print to; by default the standard output.
      threshold: arrays with more elements than this are abbreviated; 1024 by default.
      **kwargs: values to print with their names in the line before, sorted by name.

    >>> import gpushard as gs
    >>> x = id_print((gs.numpy.arange(3), 1.5), what="x")
    >>> barrier_wait()
    what: x
    ( [0 1 2] 1.5 )
    """

    def show(value: Any, transforms: Any, device: Any = None) -> None:
        entries = {**kwargs, **({"transforms": transforms} if transforms else {})}
        entries |= {} if device is None else {"device": device}
        lines = [" ".join(f"{key}: {entries[key]}" for key in sorted(entries))] if entries else []
        lines.append(_text(value, 1024 if threshold is None else threshold))
        (output_stream or sys.stdout).write("\n".join(lines) + "\n")

    _tap(show, arg, "id_print", tap_with_device)
    return arg if result is None else result


def barrier_wait(logging_name: str | None = None) -> None:
    """Wait until the functions of all pending `id_tap` and `id_print` calls have run.

    Args:
      logging_name: ignored.

    Raises:
      CallbackError: a function of `id_tap` has failed since the last barrier. If several have
        failed, the error is that of the last one.
    """
    effects_barrier()


def call(
    callback_func: Callable[..., Any],
    arg: Any,
    *,
    result_shape: Any = None,
    call_with_device: bool = False,
) -> Any:
    """Call a host function, and return its results as arrays; new programs use `io_callback`.

    Args:
      callback_func: the function; its argument is `arg` with NumPy arrays.
      arg: a pytree of arrays and numbers.
      result_shape: a pytree of objects with a shape and a dtype, one for each result. None for a
        function that returns None.
      call_with_device: whether the function also gets a keyword argument `device`, as in `id_tap`.

    Returns:
      An array for each leaf of `result_shape`.

    Raises:
      CallbackError: the function raised an error, or its results have other shapes or dtypes.

    >>> import gpushard as gs
    >>> call(np.linalg.det, gs.numpy.eye(2), result_shape=gs.ShapeDtypeStruct((), "float64"))
    Array(1., dtype=float64)
    """
    check_callback(callback_func, "call")
    operands = Operands(arg, "call")
    over = merge_names(operands.placed, operands.varying)
    return call_now(
        lambda values, device: _with_device(callback_func, device, call_with_device)(values),
        result_shape,
        operands,
        over,
    )


def _tap(tap_func: Callable[..., object], arg: Any, what: str, tap_with_device: bool) -> None:
    operands = Operands(arg, what)
    dims = tuple([name for name in operands.varying if name.axes is None])
    each = operands.names[: operands.count]
    transforms = [
        ("batch", {"batch_dims": tuple([0 if name in names else None for names in each])})
        for name in reversed(dims)
        if any(name in names for names in each)
    ]
    call_later(
        lambda values, device: _with_device(tap_func, device, tap_with_device)(values, transforms),
        operands,
        dims,
    )


def _with_device(f: Callable[..., Any], device: Any, wanted: bool) -> Callable[..., Any]:
    return functools.partial(f, device=device) if wanted else f


def _text(value: Any, threshold: int) -> str:
    if isinstance(value, dict):
        inside = " ".join(f"{key}={_text(item, threshold)}" for key, item in sorted(value.items()))
        return f"{{ {inside} }}"
    if isinstance(value, tuple | list):
        inside = " ".join(_text(item, threshold) for item in value)
        return f"( {inside} )" if isinstance(value, tuple) else f"[ {inside} ]"
    return (
        np.array2string(value, threshold=threshold) if isinstance(value, np.ndarray) else str(value)
    )
