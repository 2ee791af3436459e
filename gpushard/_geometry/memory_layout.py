"""The order of the elements of a shard in memory."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

from gpushard._geometry.sharding import Sharding
from gpushard.errors import ArgumentError, ArgumentTypeError


class AutoLayout:
    """The type of `Layout.AUTO`."""

    def __repr__(self) -> str:
        return "AUTO"

    def __reduce__(self) -> Any:
        return _auto, ()


@dataclasses.dataclass(frozen=True)
class Layout:
    """The order of the dims of a shard in memory.

    Args:
      major_to_minor: all dims, from the largest stride to the smallest. (0, 1, ...) is row-major.

    Raises:
      ArgumentError: a dim is missing or repeated.

    >>> Layout((0, 1))
    Layout(major_to_minor=(0, 1))
    """

    AUTO: ClassVar[AutoLayout] = AutoLayout()
    """Leaves the order to gpushard; not all functions accept it."""

    major_to_minor: tuple[int, ...]

    def __post_init__(self) -> None:
        """Reject an order that is not a permutation."""
        if sorted(self.major_to_minor) != list(range(len(self.major_to_minor))):
            raise ArgumentError.refusing(
                "major_to_minor", self.major_to_minor, "must name each axis once, counted from 0"
            )


@dataclasses.dataclass(frozen=True)
class Format:
    """A sharding together with the order of the dims in memory.

    Args:
      layout: a `Layout`; None means row-major. `jit` and `lax.with_sharding_constraint` also accept
        `Layout.AUTO`, which means row-major here.
      sharding: the sharding. Some functions accept None.

    Raises:
      ArgumentTypeError: the layout is not a `Layout`.
    """

    layout: Layout | AutoLayout | None = None
    sharding: Sharding | None = None

    def __post_init__(self) -> None:
        """Reject a layout without an order."""
        if self.layout is not None and not isinstance(self.layout, Layout | AutoLayout):
            raise self._no_order()

    def _no_order(self) -> ArgumentTypeError:
        return ArgumentTypeError(
            f"layout={self.layout!r} must be a Layout with a concrete order, such as "
            "Layout((0, 1)), or None",
            argument="layout",
        )

    def row_major_sharding(self, ndim: int, *, auto: bool = False) -> Any:
        """Return the sharding; raise an error if the layout is not row-major.

        Args:
          ndim: the number of dims of the array.
          auto: whether `Layout.AUTO` is allowed, too.

        Raises:
          ArgumentError: the layout has another order.
          ArgumentTypeError: the layout is `Layout.AUTO`, and `auto` is False.
        """
        if isinstance(self.layout, AutoLayout):
            if not auto:
                raise self._no_order()
        elif self.layout is not None and self.layout.major_to_minor != tuple(range(ndim)):
            raise ArgumentError(
                f"layout={self.layout} for an array with ndim={ndim}: shards are stored row-major; "
                f"use Layout({tuple(range(ndim))}) or None",
                argument="layout",
                layout=self.layout,
                ndim=ndim,
            )
        return self.sharding


def _auto() -> AutoLayout:
    return Layout.AUTO
