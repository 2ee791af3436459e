"""Arrays cut into parts along a dim."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.arguments import as_source, integer, is_value, settle
from gpushard.numpy.public import public
from gpushard.numpy.slicing import part
from gpushard.ops.axes import one_from_end


def _cut(name: str, x: Any, cuts: Any, axis: Any, to: Any, *, even: bool) -> list[Any]:
    """Cut an array, at given positions or into a number of parts."""
    x = as_source(x, name)
    at = one_from_end(axis, x.ndim, name)
    n = x.shape[at]
    edges = _edges(name, cuts, n, even=even)
    return [
        settle(part(x, at, slice(start, stop)), to) for start, stop in itertools.pairwise(edges)
    ]


def _edges(name: str, cuts: Any, n: int, *, even: bool) -> list[int]:
    """Return where parts of a dim of length n begin and end.

    >>> _edges("split", [2, 3], 7, even=True), _edges("array_split", 3, 7, even=False)
    ([0, 2, 3, 7], [0, 3, 5, 7])
    """
    if is_value(cuts) and cuts.ndim:
        raise ArgumentTypeError(
            f"{name}: positions on devices cannot say how large results are; give those of "
            "numpy.asarray(indices_or_sections)",
            argument="indices_or_sections",
        )
    if np.ndim(cuts):
        return [0, *(integer(cut, name, "indices_or_sections") for cut in cuts), n]
    many = integer(cuts, name, "indices_or_sections")
    if many < 1 or (even and n % many):
        raise ArgumentError(
            f"{name}: a dim of length {n} cannot be cut into {many} parts"
            + (" of one length; use array_split" if many > 0 else "; give a positive number"),
            argument="indices_or_sections",
            value=many,
            size=n,
        )
    size, more = divmod(n, many)
    return [i * size + min(i, more) for i in range(many + 1)]


def array_split(
    ary: Any, indices_or_sections: Any, axis: int = 0, *, out_sharding: Any = None
) -> list[Array]:
    """Return the parts of an array along a dim, of nearly one length.

    Args:
      ary: an array.
      indices_or_sections: how many parts; or where to cut, a sequence of positions.
      axis: along which dim.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: the number is not positive.

    >>> array_split([1, 2, 3], 2)
    [Array([1, 2], dtype=int64), Array([3], dtype=int64)]
    """
    return _cut("array_split", ary, indices_or_sections, axis, out_sharding, even=False)


def split(
    ary: Any, indices_or_sections: Any, axis: int = 0, *, out_sharding: Any = None
) -> list[Array]:
    """Return the parts of an array along a dim, of one length if only their number is given.

    Args:
      ary: an array.
      indices_or_sections: how many parts; or where to cut, a sequence of positions.
      axis: along which dim.
      out_sharding: where the results go; by default they stay where they were made.

    Raises:
      ArgumentError: the number is not positive, or parts would have different lengths.
    """
    return _cut("split", ary, indices_or_sections, axis, out_sharding, even=True)


def _deep(name: str, x: Any, cuts: Any, axis: int, ndim: int, to: Any) -> list[Any]:
    x = as_source(x, name)
    if x.ndim < ndim:
        raise ArgumentError(
            f"{name} needs at least {ndim} dims, the shape is {x.shape}",
            argument="x",
            shape=x.shape,
        )
    return _cut(name, x, cuts, axis, to, even=True)


def vsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Return the parts of an array of at least two dims along the first.

    Args:
      ary: an array.
      indices_or_sections: how many parts; or where to cut, a sequence of positions.
      out_sharding: where the results go; by default they stay where they were made.
    """
    return _deep("vsplit", ary, indices_or_sections, 0, 2, out_sharding)


@public
def hsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Return the parts of an array along the second dim; of a vector along its only one.

    Args:
      indices_or_sections: how many parts; or where to cut, a sequence of positions.
      out_sharding: where the results go; by default they stay where they were made.
    """
    return _deep("hsplit", ary, indices_or_sections, int(ary.ndim > 1), 1, out_sharding)


def dsplit(ary: Any, indices_or_sections: Any, *, out_sharding: Any = None) -> list[Array]:
    """Return the parts of an array of at least three dims along the third.

    Args:
      ary: an array.
      indices_or_sections: how many parts; or where to cut, a sequence of positions.
      out_sharding: where the results go; by default they stay where they were made.
    """
    return _deep("dsplit", ary, indices_or_sections, 2, 3, out_sharding)
