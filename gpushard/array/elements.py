"""The methods that pick elements by position, as `numpy.ndarray` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from gpushard.array import picking
from gpushard.functions.checks import refuse_out
from gpushard.geometry.sharding import Sharding

if TYPE_CHECKING:
    from gpushard.array.array import Array


class Elements:
    """Elements by position; `gpushard.numpy` has the same as functions."""

    __slots__ = ()

    def take(
        self,
        indices: Any,
        axis: int | None = None,
        out: Any = None,
        mode: str = "raise",
        *,
        fill_value: Any = None,
        out_sharding: Sharding | None = None,
    ) -> Array:
        """Return elements, or slices along a dim, by their positions.

        Args:
          indices: the positions, on the host or on devices.
          axis: along which dim; by default in row-major order of all elements.
          out: must be None; results are values.
          mode: what happens to positions out of bounds: "raise", "clip" (which knows no negative
            ones), "wrap" or "fill". With "raise" the host reads a number if positions are on
            devices.
          fill_value: what they give with "fill"; NaN, or the extreme of integers, by default.
          out_sharding: how the result is laid out; by default as it comes.

        Raises:
          ArrayIndexError: a position is out of bounds.
        """
        refuse_out("take", out)
        return picking.take(cast("Array", self), indices, axis, mode, out_sharding, fill_value)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Replace elements, numbered in row-major order: `x.ravel()[indices] = values`.

        Args:
          indices: their numbers.
          values: the new elements; from the first again where they are too few.
          mode: as for `take`.

        Raises:
          ArrayIndexError: a position is out of bounds.
        """
        picking.put(cast("Array", self), indices, values, mode)

    def fill(self, value: Any) -> None:
        """Replace all elements by a number: `x[...] = value`.

        Args:
          value: the number.
        """
        cast("Array", self)[...] = value

    def nonzero(self) -> tuple[Array, ...]:
        """Return where elements are not 0: for each dim an array of positions.

        The host reads how many there are. The positions are split over the mesh axes that split
        the array.

        Raises:
          ArgumentError: the array has no dims.
        """
        return picking.nonzero(cast("Array", self))

    def compress(
        self, condition: Any, axis: int | None = None, *, out_sharding: Sharding | None = None
    ) -> Array:
        """Return those slices along a dim for which a condition holds.

        Args:
          condition: a vector, which may be shorter than the dim.
          axis: which dim; by default all elements in row-major order.
          out_sharding: how the result is laid out; by default as it comes.

        Raises:
          ArgumentError: the condition has other than one dim.
          ArrayIndexError: it holds beyond the end of the dim.
        """
        return picking.compress(cast("Array", self), condition, axis, out_sharding)

    def choose(
        self, choices: Any, mode: str = "raise", *, out_sharding: Sharding | None = None
    ) -> Array:
        """Return elements of several arrays: of which one, the elements of this array say.

        Args:
          choices: a sequence of arrays; all are broadcast with this one.
          mode: what happens to numbers of none: "raise", "clip" or "wrap". With "raise" the host
            reads a number.
          out_sharding: how the result is laid out; by default as it comes.

        Raises:
          ArgumentError: there are no choices, or an element is the number of none.
        """
        return picking.choose(cast("Array", self), choices, mode, out_sharding)
