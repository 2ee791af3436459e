"""What `jax.experimental.host_callback` had: taps, and calls of the host."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any, TextIO

import numpy as np

from gpushard.transforms.tracing.callbacks import (
    Operands,
    call_later,
    call_now,
    check_callback,
    effects_barrier,
)
from gpushard.transforms.values.frames import merged


def id_tap(
    tap_func: Callable[..., object],
    arg: Any,
    *,
    result: Any = None,
    tap_with_device: bool = False,
) -> Any:
    """Call a function with a value, some time soon, and return the value.

    It is called as `tap_func(arg, transforms)`, for each device with its block in a function that
    `shard_map` or `pmap` maps. In one that `vmap` maps it gets all elements at once, with the
    mapped dim in front, and `transforms` says so: `("batch", {"batch_dims": dims})`, with 0 or None
    for each leaf of `arg`, for each `vmap`, the innermost first.

    Args:
      tap_func: the function.
      arg: a pytree of arrays and numbers; the function gets NumPy arrays.
      result: what is returned instead of `arg`.
      tap_with_device: whether the function also gets `device=`: that of the block, or the first one
        of those where an array lies.

    Raises:
      ArgumentTypeError: what cannot be called, or a leaf that is no array.

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
    """Print a value when it is there, as often as `id_tap` would call a function, and return it.

    Args:
      arg: a pytree of arrays and numbers.
      result: what is returned instead of `arg`.
      tap_with_device: whether the device is printed.
      output_stream: where to, if not to the standard output.
      threshold: how many elements an array may have that is printed in full; 1024 by default.
      **kwargs: what is printed in a line before, in the order of the names.

    >>> import gpushard as gs
    >>> x = id_print((gs.numpy.arange(3), 1.5), what="x")
    >>> barrier_wait()
    what: x
    ( [0 1 2] 1.5 )
    """

    def show(value: Any, transforms: Any, device: Any = None) -> None:
        said = {**kwargs, **({"transforms": transforms} if transforms else {})}
        said |= {} if device is None else {"device": device}
        lines = [" ".join(f"{key}: {said[key]}" for key in sorted(said))] if said else []
        lines.append(_text(value, 1024 if threshold is None else threshold))
        (output_stream or sys.stdout).write("\n".join(lines) + "\n")

    _tap(show, arg, "id_print", tap_with_device)
    return arg if result is None else result


def barrier_wait(logging_name: str | None = None) -> None:
    """Wait until all taps have been called.

    Args:
      logging_name: has no effect.

    Raises:
      CallbackError: one of them failed since the last barrier; the last one, if several did.
    """
    effects_barrier()


def call(
    callback_func: Callable[..., Any],
    arg: Any,
    *,
    result_shape: Any = None,
    call_with_device: bool = False,
) -> Any:
    """Call a function of the host, and return what it gives as arrays: `io_callback` today.

    Args:
      callback_func: the function, which gets `arg` as NumPy arrays.
      arg: a pytree of arrays and numbers.
      result_shape: what has the shape and the dtype of each array that it returns; a pytree. None
        for a function that returns None.
      call_with_device: whether the function also gets `device=`, as with `id_tap`.

    Returns:
      An array for each leaf of `result_shape`.

    Raises:
      CallbackError: the function raised something, or gave something else.

    >>> import gpushard as gs
    >>> call(np.linalg.det, gs.numpy.eye(2), result_shape=gs.ShapeDtypeStruct((), "float64"))
    Array(1., dtype=float64)
    """
    check_callback(callback_func, "call")
    operands = Operands(arg, "call")
    over = merged(operands.placed, operands.varying)
    return call_now(
        lambda given, device: _with_device(callback_func, device, call_with_device)(given),
        result_shape,
        operands,
        over,
    )


def _tap(tap_func: Callable[..., object], arg: Any, what: str, tap_with_device: bool) -> None:
    operands = Operands(arg, what)
    dims = tuple([name for name in operands.varying if name.axes is None])
    each = operands.names[: operands.count]
    transforms = [
        ("batch", {"batch_dims": tuple([0 if name in own else None for own in each])})
        for name in reversed(dims)
        if any(name in own for own in each)
    ]
    call_later(
        lambda given, device: _with_device(tap_func, device, tap_with_device)(given, transforms),
        operands,
        dims,
    )


def _with_device(f: Callable[..., Any], device: Any, wanted: bool) -> Callable[..., Any]:
    return functools.partial(f, device=device) if wanted else f


def _text(value: Any, threshold: int) -> str:
    if isinstance(value, dict):
        inside = " ".join(f"{key}={_text(one, threshold)}" for key, one in sorted(value.items()))
        return f"{{ {inside} }}"
    if isinstance(value, tuple | list):
        inside = " ".join(_text(one, threshold) for one in value)
        return f"( {inside} )" if isinstance(value, tuple) else f"[ {inside} ]"
    return (
        np.array2string(value, threshold=threshold) if isinstance(value, np.ndarray) else str(value)
    )
