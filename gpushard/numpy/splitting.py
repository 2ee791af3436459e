"""Functions that split arrays into parts along an axis."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import integer
from gpushard._functions.host_reads import concrete
from gpushard._functions.shapes import check_dims
from gpushard._functions.values import is_value
from gpushard._ops.axes import one_from_end
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError
from gpushard.numpy.manipulation import part

__all__ = ["array_split", "dsplit", "hsplit", "split", "unstack", "vsplit"]


@public
def unstack(x: Any, /, *, axis: int = 0, out_sharding: Any = None) -> tuple[Array, ...]:
    """Split an array into its slices along an axis; the slices do not have this axis.

    Args:
      x: an array of at least one axis.
      axis: the axis.
    """
    at = one_from_end(axis, x.ndim, "unstack")
    lead = (slice(None),) * (x.ndim + at)
    return tuple(x[(*lead, i)] for i in range(x.shape[at]))


_splitting = public(
    arrays=1,
    axis="the axis.",
    indices_or_sections="the number of parts, or a sequence of positions at which to cut.",
)


_MOST_EMPTY = 1 << 20


"""The most empty parts: a greater number is taken for a mistake, as each part is an array."""


def _cut(name: str, x: Any, cuts: Any, axis: Any, *, even: bool) -> list[Any]:
    """Cut an array, at given positions or into a number of parts."""
    at = one_from_end(axis, x.ndim, name)
    n = x.shape[at]
    edges = _edges(name, cuts, n, even=even)
    return [part(x, at, slice(start, stop)) for start, stop in itertools.pairwise(edges)]


def _edges(name: str, cuts: Any, n: int, *, even: bool) -> list[int]:
    """Return the positions where parts of a dim of length n begin and end.

    >>> _edges("split", [2, 3], 7, even=True), _edges("array_split", 3, 7, even=False)
    ([0, 2, 3, 7], [0, 3, 5, 7])
    """
    if is_value(cuts) and cuts.ndim:
        cuts = concrete(cuts, name)
    if np.ndim(cuts):
        return [0, *(integer(cut, name, "indices_or_sections") for cut in cuts), n]
    parts = integer(cuts, name, "indices_or_sections")
    if parts < 1 or (even and n % parts):
        raise ArgumentError(
            f"{name}: an axis of length {n} cannot be cut into {parts} parts"
            + (" of one length; use array_split" if parts > 0 else "; give a positive number"),
            argument="indices_or_sections",
            value=parts,
            size=n,
        )
    if parts > n + _MOST_EMPTY:
        raise ArgumentError.refusing(
            "indices_or_sections",
            parts,
            f"leaves more than {_MOST_EMPTY} parts of an axis of length {n} empty; use fewer parts",
            name,
            size=n,
        )
    size, more = divmod(n, parts)
    return [i * size + min(i, more) for i in range(parts + 1)]


@_splitting
def array_split(
    ary: Any, indices_or_sections: Any, axis: int = 0, *, out_sharding: Any = None
) -> list[Array]:
    """Split an array along an axis into parts; the lengths differ by 1 at most.

    Args:
      axis: the axis.

    Raises:
      ArgumentError: the number of parts is not positive, or more than 2**20 parts would be empty.

    >>> array_split([1, 2, 3], 2)
    [Array([1, 2], dtype=int64), Array([3], dtype=int64)]
    """
    return _cut("array_split", ary, indices_or_sections, axis, even=False)


@_splitting
def split(
    ary: Any, indices_or_sections: Any, axis: int = 0, *, out_sharding: Any = None
) -> list[Array]:
    """Split an array along an axis, into parts of equal length or at given positions.

    Args:
      axis: the axis.

    Raises:
      ArgumentError: the number of parts is not positive, or does not divide the axis.
    """
    return _cut("split", ary, indices_or_sections, axis, even=True)


def _deep(name: str, x: Any, cuts: Any, axis: int, ndim: int) -> list[Any]:
    check_dims(name, x, ndim)
    return _cut(name, x, cuts, axis, even=True)


@_splitting
def vsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Split an array of at least two axes along the first."""
    return _deep("vsplit", ary, indices_or_sections, 0, 2)


@_splitting
def hsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Split an array along the second axis; a vector is split along its only axis."""
    return _deep("hsplit", ary, indices_or_sections, int(ary.ndim > 1), 1)


@_splitting
def dsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Split an array of at least three axes along the third."""
    return _deep("dsplit", ary, indices_or_sections, 2, 3)
