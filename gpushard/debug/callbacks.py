"""`debug.callback` and `debug.print`: see values from within mapped functions."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._transforms.tracing.callbacks import Operands, call_later, check_callback
from gpushard.errors import ArgumentError, ArgumentTypeError


def callback(
    callback: Callable[..., object] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function with the values of arrays once they are computed, on another thread.

    The function gets read-only NumPy arrays. Random keys are passed as their integers, and other
    arguments unchanged. In a function that `shard_map` or `pmap` maps, the callback is called for
    each device with its block. In a function that `vmap` maps, it is called for each element.
    `gpushard.effects_barrier()` waits for all calls, and raises the error of a failed call.

    Args:
      callback: the function; its result is ignored. If you leave it out, `debug.callback` returns a
        function that takes the callback and its arguments.
      *args: the arguments of the callback.
      ordered: ignored: gpushard makes all calls in the order of the program.
      partitioned: ignored: outside mapped functions, the callback gets whole arrays.
      **kwargs: the keyword arguments of the callback.

    Raises:
      ArgumentTypeError: the callback cannot be called.

    >>> import gpushard as gs
    >>> seen = []
    >>> y = gs.vmap(lambda x: gs.debug.callback(seen.append, 2 * x))(gs.numpy.arange(3))
    >>> gs.effects_barrier()
    >>> seen
    [array(0), array(2), array(4)]
    """
    if callback is None:
        _check_alone("callback", args, kwargs)
        return _call
    return _call(callback, *args, **kwargs)


def print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    **kwargs: Any,
) -> Any:
    """Print values, formatted by `str.format`, once they are computed.

    Args:
      fmt: the format, such as "x is {x}". If you leave it out, `debug.print` returns a function
        that takes the format and the values. In mapped functions, it prints as often as
        `debug.callback` calls.
      *args: the values of fields such as {} and {0}.
      ordered: ignored: lines are printed in the order of the program.
      partitioned: ignored: outside mapped functions, whole arrays are printed.
      skip_format_check: whether to check that format and values match only when they are printed,
        rather than at the call.
      **kwargs: the values of fields such as {x}.

    Raises:
      ArgumentError: a field has no value, or a value has no field.

    >>> import gpushard as gs
    >>> gs.debug.print("x is {x}", x=gs.numpy.arange(3))
    >>> gs.effects_barrier()
    x is [0 1 2]
    """
    if fmt is None:
        _check_alone("print", args, kwargs)
        return _print
    if not skip_format_check:
        _check_format(fmt, args, kwargs)
    return _show(fmt, args, kwargs)


def _call(callback: Callable[..., object], *args: Any, **kwargs: Any) -> None:
    check_callback(callback, "debug.callback")
    operands = Operands((args, kwargs), "debug.callback", others=True)
    call_later(lambda values, device: callback(*values[0], **values[1]), operands)


def _print(fmt: str, *args: Any, **kwargs: Any) -> None:
    _check_format(fmt, args, kwargs)
    _show(fmt, args, kwargs)


def _check_format(fmt: str, args: Any, kwargs: Any) -> None:
    try:
        _Fields().format(fmt, *args, **kwargs)
    except (LookupError, ValueError, AttributeError, TypeError) as error:
        raise ArgumentError(
            f"debug.print: fmt={fmt!r} does not fit {len(args)} arguments and the names "
            f"{sorted(kwargs)}: {error}; fields are those of str.format, and each argument needs "
            "one. An f-string has none",
            argument="fmt",
            value=fmt,
        ) from None


def _show(fmt: str, args: Any, kwargs: Any) -> None:
    options = np.get_printoptions()

    def show(values: Any, device: Any) -> None:
        with np.printoptions(**options):
            sys.stdout.write(fmt.format(*values[0], **values[1]) + "\n")

    call_later(show, Operands((args, kwargs), "debug.print", others=True))


class _Fields(string.Formatter):
    """Checks that fields and arguments fit, without formatting them."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return ""

    def check_unused_args(self, used_args: Any, args: Sequence[Any], kwargs: Any) -> None:
        unused = [
            *set(range(len(args))) - used_args,
            *[name for name in kwargs if name not in used_args],
        ]
        if unused:
            raise ValueError(f"no field uses {unused}")


def _check_alone(name: str, args: Any, kwargs: Any) -> None:
    if args or kwargs:
        raise ArgumentTypeError(
            f"debug.{name}: {len(args)} arguments and {sorted(kwargs)} without a "
            f"{'function' if name == 'callback' else 'format'}; give it first",
            argument="callback" if name == "callback" else "fmt",
        )
