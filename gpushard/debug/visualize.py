"""Look at shardings: print them as pictures, or pass them to a function."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any

from gpushard._array import Array
from gpushard._geometry.colors import ColorMap
from gpushard._geometry.pictures import picture
from gpushard._geometry.sharding import Sharding
from gpushard._transforms.tracing.trace import Tracer
from gpushard._transforms.values.mapped import Mapped, sharding_within
from gpushard.config import is_colorless
from gpushard.debug.terminal_picture import lines_of
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.tree import leaves

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]


def visualize_sharding(
    shape: Sequence[int],
    sharding: Sharding,
    *,
    use_color: bool = True,
    scale: float = 1.0,
    min_width: int = 9,
    max_width: int = 80,
    color_map: ColorMap | None = None,
) -> None:
    """Draw which devices hold which block of an array with a shape and a sharding.

    The picture is to scale if the text of the smallest block fits into it. The numbers at the lines
    are the positions where blocks begin and end. If an array has more than two axes, each picture
    shows the last two. There is one picture for each block along the first axes. If not all blocks
    fit, the picture omits some in the middle and marks the gap.

    Args:
      shape: the shape of the array.
      sharding: the sharding of the array.
      use_color: whether to draw in colours, if the output is a terminal and `NO_COLOR` is not set.
        Each device has its own colour, or each memory domain if there are several.
      scale: the size of the picture; 1 means 10 lines.
      min_width: the least width of a block in characters, if all blocks then fit.
      max_width: the greatest width of the picture in characters.
      color_map: a function that returns the colour for a number between 0 and 1, such as a color
        map of matplotlib. A colour is red, green and blue, each between 0 and 1, or a string
        "#rrggbb".

    Raises:
      ShardingError: the sharding does not fit the shape.
      ArgumentTypeError: `sharding` is not a sharding, or a size in `shape` is not an integer.
      ArgumentError: a size or width is invalid.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((2, 2), ("x", "y"))
    >>> visualize_sharding((5, 8), gs.NamedSharding(mesh, gs.P("x")), scale=0.5)
      0                    8
    0 ┌────────────────────┐
      │                    │
      │      CPU 0-1       │
      │                    │
    3 ├────────────────────┤
      │      CPU 2-3       │
      │                    │
    5 └────────────────────┘
    """
    sizes = _check_picture(shape, sharding, scale, min_width, max_width)
    out = sys.stdout
    lines = lines_of(
        picture(sharding, sizes),
        colored=use_color and out.isatty() and not is_colorless(),
        unicode=_has_lines(out.encoding),
        scale=scale,
        min_width=min_width,
        max_width=max_width,
        color_map=color_map,
    )
    print("\n".join(lines))


def visualize_array_sharding(arr: Array, **kw: Any) -> None:
    """Draw which devices hold which block of an array, without reading its elements.

    Args:
      arr: an array.
      **kw: keyword arguments of `visualize_sharding`.

    Raises:
      ArgumentTypeError: `arr` is not an array.
    """
    if not isinstance(arr, Array):
        raise ArgumentTypeError.refusing(
            "arr", arr, "must be a gpushard.Array; place it with gpushard.device_put"
        )
    visualize_sharding(arr.shape, _sharding(arr), **kw)


def inspect_array_sharding(value: Any, *, callback: Callable[[Sharding], Any]) -> None:
    """Call a function with the sharding of each array of a pytree.

    In a mapped function, the sharding describes the axes that the function sees. A block is whole
    on each device, except along mesh axes that `shard_map` does not map over. In a traced function,
    the callback is called while tracing, with the sharding that the value will have when the
    function runs.

    Args:
      value: a pytree of arrays.
      callback: the function, called immediately.

    Raises:
      ArgumentTypeError: a leaf is not an array, or `callback` is not callable. The callback was not
        called.

    >>> import gpushard as gs
    >>> inspect_array_sharding(gs.device_put(1.0, gs.devices()[2]), callback=print)
    SingleDeviceSharding(device=CpuDevice(id=2))
    """
    arrays = leaves(value)
    for leaf in arrays:
        if not isinstance(leaf, Array):
            raise ArgumentTypeError(
                f"value has {leaf!r}, which is not a gpushard.Array and has no sharding; place it "
                "with gpushard.device_put",
                argument="value",
                type=type(leaf),
            )
    if not callable(callback):
        raise ArgumentTypeError.refusing(
            "callback", callback, "must be a function that takes a sharding"
        )
    for array in arrays:
        callback(_sharding(array))


def _sharding(x: Array) -> Sharding:
    if isinstance(x, Mapped):
        return sharding_within(x)
    return x._sharding if isinstance(x, Tracer) else x.sharding


def _check_picture(
    shape: Any, sharding: Any, scale: float, min_width: int, max_width: int
) -> tuple[int, ...]:
    if not isinstance(sharding, Sharding):
        raise ArgumentTypeError.refusing(
            "sharding", sharding, "must be a Sharding, such as NamedSharding(mesh, P('x'))"
        )
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise ArgumentTypeError.refusing("shape", shape, "must be a tuple of integers") from None
    if min(sizes, default=0) < 0:
        raise ArgumentError.refusing("shape", shape, "has a negative size; use sizes of 0 and more")
    for name, value in (("scale", scale), ("min_width", min_width), ("max_width", max_width)):
        if not value > 0:
            raise ArgumentError.refusing(name, value, "must be greater than 0")
    return sizes


def _has_lines(encoding: str | None) -> bool:
    """Test whether an encoding has the characters of lines."""
    try:
        "┼".encode(encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
