"""Collectives: communication between the calls of a function that is mapped over named axes.

`shard_map`, `pmap`, `soft_pmap` and `vmap` map a function over an axis by its name. A tuple names
several axes, whose elements are numbered in row-major order. Arguments are pytrees of arrays and
numbers, which have a value for every element of the axis.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._ops.row import Row
from gpushard._ops.scalars import is_number
from gpushard._ops.table import reductions
from gpushard._transforms.mapping import named_dims
from gpushard._transforms.mapping.groups import (
    Groups,
    in_groups,
    parse_groups,
    reduce_unequal_groups,
    sizes_of,
)
from gpushard._transforms.values.frames import Names, find_names, innermost
from gpushard._transforms.values.leaves import check_leaf
from gpushard._transforms.values.mapped import Mapped, as_mapped, mapped
from gpushard._transforms.values.mapped_axes import check_axis
from gpushard.errors import ArgumentError, ArgumentTypeError

__all__ = [
    "all_gather", "all_to_all", "axis_index", "axis_size", "pbroadcast", "pmax", "pmean", "pmin",
    "ppermute", "pshuffle", "psum", "psum_scatter", "pswapaxes",
]  # fmt: skip

AxisName: TypeAlias = Hashable
"""The name of an axis, or a tuple of names."""


def psum(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Sum a value over a mapped axis; every element of the axis gets the sum.

    A Python number, or a value that is equal along the axis, is multiplied by the size of the axis.
    Integers keep their dtype; booleans are counted in int32.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis_index_groups: lists of positions along the axis; each list is a group, and the sum is
        over each group. Groups may have different sizes.

    Raises:
      UnboundAxisError: no enclosing function is mapped over an axis of this name.
      ArgumentError: groups overlap, or do not contain all positions.

    >>> import gpushard as gs
    >>> f = gs.vmap(lambda x: x / gs.lax.psum(x, "i"), axis_name="i")
    >>> f(gs.numpy.asarray([1.0, 3.0]))
    Array([0.25, 0.75], dtype=float64)
    """
    names = find_names(axis_name, "psum")
    groups = parse_groups(axis_index_groups, names, "psum")

    def reduce_value(x: Any) -> Any:
        if type(x) is not Mapped and is_number(x):
            x = np.int32(x) if isinstance(x, np.bool_) else x
            return x * _size(names, groups)
        x = _value(x)
        x = x.astype(np.int32) if x._dtype.kind == "b" else x
        total = _reduced(reductions.SUM, x, names, groups, np.dtype(x._dtype))
        if groups is not None:
            return total
        more = math.prod(name.size for name in names if name not in x._names)
        return total if more == 1 else total * more

    return _each(reduce_value, x, names)


def pmean(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Average a value over a mapped axis; every element of the axis gets the mean.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis_index_groups: lists of positions along the axis; the reduction is over each list.
    """
    names = find_names(axis_name, "pmean")
    groups = parse_groups(axis_index_groups, names, "pmean")
    total = psum(x, axis_name, axis_index_groups=axis_index_groups)
    return tree.map(lambda x: x / _size(names, groups), total)


def pmax(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Find the maximum of a value over a mapped axis; every element of the axis gets the maximum.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis_index_groups: lists of positions along the axis; the reduction is over each list.
    """
    return _extreme(reductions.MAX, "pmax", x, axis_name, axis_index_groups)


def pmin(
    x: Any, axis_name: AxisName, *, axis_index_groups: Sequence[Sequence[int]] | None = None
) -> Any:
    """Find the minimum of a value over a mapped axis; every element of the axis gets the minimum.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis_index_groups: lists of positions along the axis; the reduction is over each list.
    """
    return _extreme(reductions.MIN, "pmin", x, axis_name, axis_index_groups)


def _extreme(row: Row, function: str, x: Any, axis_name: AxisName, index_groups: Any) -> Any:
    names = find_names(axis_name, function)
    groups = parse_groups(index_groups, names, function)
    return _each(lambda x: _reduced(row, _value(x), names, groups, None), x, names)


def _reduced(row: Row, x: Mapped, names: Names, groups: Groups | None, extra: Any) -> Mapped:
    """Reduce a value over an axis, or over each of its groups."""
    if groups is not None and groups.size is None:
        return reduce_unequal_groups(row, x, names, groups)
    return _apply(lambda x, names: named_dims.reduce_names(row, x, names, extra), x, names, groups)


def all_gather(
    x: Any,
    axis_name: AxisName,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    axis: int = 0,
    tiled: bool = False,
) -> Any:
    """Gather a value from all elements of a mapped axis; every element gets all values.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis_index_groups: lists of positions along the axis, of equal length; each list gathers its
        own values.
      axis: the position of the gathered axis in the result.
      tiled: whether to concatenate the values along the existing axis `axis`, rather than to stack
        them along a new one.

    Raises:
      UnboundAxisError: no enclosing function is mapped over an axis of this name.
      ArgumentError: `axis` is out of range.
    """
    names = find_names(axis_name, "all_gather")
    groups = parse_groups(axis_index_groups, names, "all_gather", equal=True)

    def gather_value(x: Any) -> Any:
        x = _value(x)
        dim = _dim(axis, x.ndim + (not tiled), "all_gather", "axis")
        return _apply(
            lambda x, names: named_dims.gather_into_dim(x, names, dim, tiled=tiled),
            x,
            names,
            groups,
        )

    return _each(gather_value, x, names)


def psum_scatter(
    x: Any,
    axis_name: AxisName,
    *,
    scatter_dimension: int = 0,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Sum a value over a mapped axis; each element of the axis gets one part of the sum.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      scatter_dimension: the dimension of the sum to split. Its length is the size of the mapped
        axis, and the result does not have this dimension.
      axis_index_groups: lists of positions along the axis, of equal length; the sum is over each
        list.
      tiled: whether the result keeps the dimension. Its length may then be any multiple of the size
        of the axis.

    Raises:
      UnboundAxisError: no enclosing function is mapped over an axis of this name.
      ArgumentError: the dimension to split has another length.
    """
    names = find_names(axis_name, "psum_scatter")
    groups = parse_groups(axis_index_groups, names, "psum_scatter", equal=True)
    size = _size(names, groups)

    def scatter_value(x: Any) -> Any:
        x = _value(x)
        x = x.astype(np.int32) if x.dtype.kind == "b" else x
        dim = _dim(scatter_dimension, x.ndim, "psum_scatter", "scatter_dimension")
        _check_parts(x, dim, size, "psum_scatter", "scatter_dimension", tiled)
        return _apply(
            lambda x, names: named_dims.scatter_sum(x, names, dim, tiled=tiled), x, names, groups
        )

    return _each(scatter_value, x, names)


def all_to_all(
    x: Any,
    axis_name: AxisName,
    split_axis: int,
    concat_axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
    tiled: bool = False,
) -> Any:
    """Split a value into parts, send part i to element i of a mapped axis, and join received parts.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      split_axis: the dimension to split. Its length is the size of the mapped axis, and the result
        does not have this dimension.
      concat_axis: the new dimension of the result along which received parts are stacked, in the
        order of the elements that sent them.
      axis_index_groups: lists of positions along the axis, of equal length; parts are exchanged
        within each list.
      tiled: whether the result keeps `split_axis`, and parts are concatenated along the existing
        dimension `concat_axis`. The length of `split_axis` may then be any multiple of the size of
        the axis.

    Raises:
      UnboundAxisError: no enclosing function is mapped over an axis of this name.
      ArgumentError: the dimension to split has another length.
    """
    names = find_names(axis_name, "all_to_all")
    groups = parse_groups(axis_index_groups, names, "all_to_all", equal=True)
    size = _size(names, groups)

    def exchange_value(x: Any) -> Any:
        x = _value(x)
        split = _dim(split_axis, x.ndim, "all_to_all", "split_axis")
        concat = _dim(concat_axis, x.ndim, "all_to_all", "concat_axis")
        _check_parts(x, split, size, "all_to_all", "split_axis", tiled)
        return _apply(
            lambda x, names: named_dims.exchange(x, names, split, concat, tiled=tiled),
            x,
            names,
            groups,
        )

    return _each(exchange_value, x, names)


def pswapaxes(
    x: Any,
    axis_name: AxisName,
    axis: int,
    *,
    axis_index_groups: Sequence[Sequence[int]] | None = None,
) -> Any:
    """Exchange a dimension of a value with a mapped axis of the same length.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      axis: the dimension of the value.
      axis_index_groups: lists of positions along the axis, of equal length; the exchange is within
        each list.
    """
    return all_to_all(x, axis_name, axis, axis, axis_index_groups=axis_index_groups)


def ppermute(x: Any, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> Any:
    """Send the value of each element of a mapped axis to another element.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      perm: pairs (source, destination) of positions along the axis. A position may be a source once
        and a destination once. An element that is not a destination gets zeros.

    Raises:
      UnboundAxisError: no enclosing function is mapped over an axis of this name.
      ArgumentError: a position is a source or a destination twice, or out of range.
    """
    names = find_names(axis_name, "ppermute")
    pairs = _pairs(perm, math.prod(name.size for name in names))
    return _each(lambda x: named_dims.permute(_value(x), names, pairs), x, names)


def pshuffle(x: Any, axis_name: AxisName, perm: Sequence[int]) -> Any:
    """Permute the values of the elements of a mapped axis.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      perm: for each position along the axis, the position from which its value comes.

    Raises:
      ArgumentError: `perm` is not a permutation of the positions.
      ArgumentTypeError: `perm` has entries that are not integers.
    """
    names = find_names(axis_name, "pshuffle")
    size = math.prod(name.size for name in names)
    try:
        order = sorted(map(operator.index, perm))
    except TypeError:
        raise ArgumentTypeError.refusing(
            "perm", perm, "must be integers, such as [1, 0]", "pshuffle"
        ) from None
    if order != list(range(size)):
        raise ArgumentError(
            f"pshuffle: perm={list(perm)} is no permutation of the {size} elements of the named "
            "axis; give each once, or use ppermute",
            argument="perm",
            size=size,
        )
    return ppermute(x, axis_name, [(of, to) for to, of in enumerate(perm)])


def pbroadcast(x: Any, axis_name: AxisName, source: int) -> Any:
    """Send the value of one element of a mapped axis to all elements.

    Args:
      x: a pytree of values.
      axis_name: the name of the mapped axis, or a tuple of names.
      source: the position of that element along the axis.

    Raises:
      ArgumentError: the position is out of range.
    """
    names = find_names(axis_name, "pbroadcast")
    size = math.prod(name.size for name in names)
    if not 0 <= operator.index(source) < size:
        raise ArgumentError(
            f"pbroadcast: source={source} is none of the {size} elements of the named axis; count "
            "from 0",
            argument="source",
            source=source,
            size=size,
        )
    return _each(lambda x: named_dims.broadcast(_value(x), names, source), x, names)


def axis_index(axis_name: AxisName) -> Any:
    """Return the position of the current element along a mapped axis, as int32.

    Args:
      axis_name: the name of the axis, or a tuple of names.

    Raises:
      UnboundAxisError: no enclosing function is mapped over that name.
    """
    return named_dims.numbers(find_names(axis_name, "axis_index"))


def axis_size(axis_name: AxisName) -> int:
    """Return the size of a mapped axis; for a tuple of names, the product of the sizes.

    Args:
      axis_name: the name of the axis, or a tuple of names.

    Raises:
      UnboundAxisError: no enclosing function is mapped over that name.
    """
    return math.prod(name.size for name in find_names(axis_name, "axis_size"))


def _each(function: Callable[[Any], Any], x: Any, names: Names) -> Any:
    """Apply a function to each value of a pytree, or none if no axis is named."""
    if not names:
        return x
    return function(x) if type(x) is Mapped else tree.map(function, x)


def _value(x: Any) -> Mapped:
    """Convert a value to one of the innermost mapped function."""
    frame = innermost()
    assert frame is not None
    check_leaf(x, "a collective", "x")
    value = as_mapped(x, frame)
    return mapped(value._value, value._names, frame, value._source)


def _apply(
    function: Callable[..., Mapped], x: Mapped, names: Names, groups: Groups | None
) -> Mapped:
    """Apply a function to a value along an axis, or within each of its groups."""
    if groups is None:
        return function(x, names)
    return in_groups(x, names, groups, lambda x, member: function(x, (member,)))


def _size(names: Names, groups: Groups | None) -> Any:
    """Return the size of an axis or of its groups; one for each element if groups differ."""
    if groups is None:
        return math.prod(name.size for name in names)
    return groups.size or sizes_of(names, groups)


def _dim(axis: Any, ndim: int, function: str, argument: str) -> int:
    return check_axis(axis, ndim, function, argument, "x")


def _check_parts(x: Any, dim: int, size: int, function: str, argument: str, tiled: bool) -> None:
    length = x.shape[dim]
    if length % size if tiled else length != size:
        wanted = f"a multiple of {size}" if tiled else f"{size}; with tiled=True a multiple of it"
        raise ArgumentError(
            f"{function}: axis {argument}={dim} of x has length {length}, and the named axis has "
            f"{size} elements; make the length {wanted}",
            argument=argument,
            length=length,
            size=size,
        )


def _pairs(perm: Any, size: int) -> tuple[tuple[int, int], ...]:
    """Read pairs of elements, and check that each is there at most once on either side."""
    try:
        pairs = tuple((operator.index(of), operator.index(to)) for of, to in perm)
    except (TypeError, ValueError):
        raise ArgumentTypeError.refusing(
            "perm", perm, "must be pairs of integers, such as [(0, 1), (1, 0)]", "ppermute"
        ) from None
    for side, what in enumerate(("sends", "receives")):
        elements = [pair[side] for pair in pairs]
        twice = [n for n in elements if elements.count(n) > 1]
        if twice or not set(elements) <= set(range(size)):
            why = f"{twice[0]} {what} twice" if twice else f"there are {size} elements"
            raise ArgumentError(
                f"ppermute: perm={list(pairs)}: {why}; name elements from 0 to {size - 1}, each "
                "at most once on either side",
                argument="perm",
                size=size,
            )
    return pairs
