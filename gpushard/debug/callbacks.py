"""`debug.callback` and `debug.print`: what values are, from within mapped functions."""

from __future__ import annotations

import string
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.transforms.tracing.callbacks import Operands, check_callback, tap


def callback(
    callback: Callable[..., object] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a function with the values of arrays, some time soon, on a thread of its own.

    It gets NumPy arrays that cannot be written, of random keys their words; other arguments come as
    they are. In a function
    that `shard_map` or `pmap` maps, it is called for each device with its block, in one that `vmap`
    maps for each element. `gpushard.effects_barrier()` waits for all calls, and raises what one of
    them raised.

    Args:
      callback: the function; what it returns is dropped. Without it, the result takes it and its
        arguments.
      *args: its arguments.
      ordered: whether calls are made in the order of the program, as all are.
      partitioned: has no meaning here: the function gets whole arrays outside mapped functions.
      **kwargs: its keyword arguments.

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
    """Print values when they are there, by `str.format`; as often as `debug.callback` is called.

    Args:
      fmt: the format, such as "x is {x}". Without it, the result takes it and its arguments.
      *args: what its fields by position stand for.
      ordered: whether lines are printed in the order of the program, as all are.
      partitioned: has no meaning here: whole arrays are printed outside mapped functions.
      skip_format_check: whether to leave it to the time of printing to see if format and arguments
        fit.
      **kwargs: what its fields by name stand for.

    Raises:
      ArgumentError: a field stands for no argument, or an argument for no field.

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
    tap(lambda given, device: callback(*given[0], **given[1]), operands)


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

    def show(given: Any, device: Any) -> None:
        with np.printoptions(**options):
            sys.stdout.write(fmt.format(*given[0], **given[1]) + "\n")

    tap(show, Operands((args, kwargs), "debug.print", others=True))


class _Fields(string.Formatter):
    """Finds out whether fields and arguments fit."""

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
            raise ValueError(f"nothing stands for {unused}")


def _check_alone(name: str, args: Any, kwargs: Any) -> None:
    if args or kwargs:
        raise ArgumentTypeError(
            f"debug.{name}: {len(args)} arguments and {sorted(kwargs)} without what they are for; "
            "give it first",
            argument="callback" if name == "callback" else "fmt",
        )
