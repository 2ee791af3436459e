"""Groups of the elements of an axis, within which collectives work (`axis_index_groups`).

Groups of one size turn the named dim of the axis into two. One numbers the groups, the other one
the members of a group. A mesh of the same devices, ordered by group and member, has an axis
for each. So no element moves.

An example: `psum(x, "x", axis_index_groups=[[0, 2], [1, 3]])` on 4 devices, where device n has the
number n. The value is an array [0, 1, 2, 3] with the named dim 'x'.

1. The new mesh has the devices [[0, 2], [1, 3]]. On it, the array is [[0, 2], [1, 3]], and each
   device still has its number.
2. The collective sums over the dim of members: [2, 4], one number for each group.
3. Each member gets the sum of its group: [[2, 2], [4, 4]].
4. Back on the old mesh, in the order of devices: [2, 4, 2, 4].

Groups of different sizes are reduced member by member (`reduce_unequal_groups`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._ops.bind import bind
from gpushard._ops.row import Row
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._ops.table.manipulation import PERMUTE, RESHAPE
from gpushard._ops.table.reductions import MAX, MIN, SUM
from gpushard._transforms.mapping.named_dims import divide_dim, join_into_dim, numbers, permute
from gpushard._transforms.values.frames import NamedDim, Names, innermost, merge_names
from gpushard._transforms.values.mapped import Mapped, as_mapped, broadcast_along, mapped
from gpushard.errors import ArgumentError, ArgumentTypeError

_TWO = {
    SUM: ufunc_row(np.add),
    MAX: ufunc_row(np.maximum),
    MIN: ufunc_row(np.minimum),
}
"""The operation that combines two parts of a reduction."""


@dataclass(frozen=True)
class Groups:
    """The elements of an axis in groups; each element is in one group."""

    members: tuple[tuple[int, ...], ...]  # the elements of each group

    @property
    def size(self) -> int | None:
        """The number of members of each group; None if it differs."""
        sizes = {len(group) for group in self.members}
        return sizes.pop() if len(sizes) == 1 else None

    @functools.cached_property
    def of_element(self) -> dict[int, tuple[int, ...]]:
        """The group that each element is in."""
        return {element: group for group in self.members for element in group}


def parse_groups(groups: Any, names: Names, function: str, *, equal: bool = False) -> Groups | None:
    """Read `axis_index_groups`, and check that each element is in one group; None stays None.

    Elements of several axes are numbered in row-major order.

    Args:
      groups: the argument.
      names: the axes.
      function: the collective, for errors.
      equal: whether all groups must have one size.

    Raises:
      ArgumentTypeError: groups are no lists of integers.
      ArgumentError: groups overlap, leave an element out, or differ in size if they must not.
    """
    if groups is None:
        return None
    what = f"{function}: axis_index_groups={groups!r}"
    try:
        members = tuple(tuple(operator.index(n) for n in group) for group in groups)
    except TypeError:
        raise ArgumentTypeError(
            f"{what} must be lists of integers. Try: axis_index_groups=[[0, 1], [2, 3]]",
            argument="axis_index_groups",
            value=groups,
        ) from None
    size = math.prod(name.size for name in names)
    every = [element for group in members for element in group]
    twice = sorted({element for element in every if every.count(element) > 1})
    lacking = sorted(set(range(size)) - set(every))
    beyond = sorted(set(every) - set(range(size)))
    if twice or lacking or beyond:
        axes = " and ".join(dict.fromkeys(repr(name.name) for name in names))
        why = f"overlap in {twice}" if twice else f"lack {lacking}" if lacking else f"have {beyond}"
        raise ArgumentError(
            f"{what} {why}; the named axis {axes} has {size} elements. Try: put each of 0 to "
            f"{size - 1} in one group",
            argument="axis_index_groups",
            size=size,
        )
    parsed = Groups(members)
    if equal and parsed.size is None:
        raise ArgumentError(
            f"{what} have different sizes, which {function} can't have: all results have one "
            "shape. Try: make groups of one size",
            argument="axis_index_groups",
            sizes=tuple(map(len, members)),
        )
    return parsed


def in_groups(x: Mapped, names: Names, groups: Groups, function: Callable[..., Mapped]) -> Mapped:
    """Call a collective within each of several groups of one size.

    Args:
      x: the value.
      names: the axis: one named dim, two if devices have chunks of its elements, or several axes.
      groups: groups of its elements.
      function: the collective: it takes a value, and the named dim of members.
    """
    if len(names) > 1:
        return _in_groups_of_several(x, names, groups, function)
    (name,) = names
    x = broadcast_along(x, merge_names(x._names, names))
    parts = len(groups.members), groups.size or 0
    at = x._names.index(name)
    value, mesh = x._value, None
    axes: Sequence[str | None] = (None, None)
    order = tuple(element for group in groups.members for element in group)
    if name.axes is not None:
        mesh, *axes = _group_mesh(value._sharding.mesh, name.axes[0], groups.members)
    two = tuple(
        NamedDim(None, n, name.order + number / 4, None if axis is None else (axis,), mesh)
        for number, (n, axis) in enumerate(zip(parts, axes, strict=True))
    )
    names = (*x._names[:at], *two, *x._names[at + 1 :])
    shape = (*value.shape[:at], *parts, *value.shape[at + 1 :])
    if mesh is None:
        value = _reorder(value, at, order)
        value = bind(RESHAPE, (value,), (shape,))
    else:
        value = _relabel_on(value, mesh, shape, at, [each.place or () for each in two])
    result = function(mapped(value, names, x._frame, x._source), two[1])
    result = broadcast_along(result, merge_names(result._names, two))
    at, value = result._names.index(two[0]), result._value
    names = (*result._names[:at], name, *result._names[at + 2 :])
    shape = (*value.shape[:at], name.size, *value.shape[at + 2 :])
    if mesh is None:
        value = bind(RESHAPE, (value,), (shape,))
        value = _reorder(value, at, tuple(np.argsort(order).tolist()))
    else:
        value = _relabel_on(value, x._value._sharding.mesh, shape, at, [name.place or ()], gone=2)
    return mapped(value, names, result._frame, result._source)


def _in_groups_of_several(
    x: Mapped, names: Names, groups: Groups, function: Callable[..., Mapped]
) -> Mapped:
    """Call a collective within groups of several named dims, which it joins to one."""
    x = join_into_dim(x, names, 0, tiled=False)
    last = max(name.order for name in (*x._names, *names))
    whole = NamedDim(None, len(groups.of_element), last + 0.25)
    joined = mapped(x._value, (*x._names, whole), x._frame, x._source)
    result = in_groups(joined, (whole,), groups, function)
    rest = tuple([name for name in result._names if name is not whole])
    back = mapped(result._value, rest, result._frame, result._source)
    return divide_dim(back, names, 0, tiled=False)


def reduce_unequal_groups(row: Row, x: Mapped, names: Names, groups: Groups) -> Mapped:
    """Reduce a value within groups that may differ in size.

    Round n sends member n of each group to all members of its group, and combines. A group with
    fewer members is done: each of its elements combines with its own value again, which changes no
    minimum or maximum. In a sum it adds 0.
    """
    x = broadcast_along(x, merge_names(x._names, names))
    total: Any = None
    for number in range(max(map(len, groups.members))):
        pairs = [
            (group[number] if number < len(group) else to, to)
            for to, group in sorted(groups.of_element.items())
            if number < len(group) or row is not SUM
        ]
        part = permute(x, names, tuple(pairs))
        total = part if total is None else bind(_TWO[row], (total, part))
    return cast("Mapped", total)


def sizes_of(names: Names, groups: Groups) -> Mapped:
    """Count for each element of an axis the members of its group."""
    sizes = [len(groups.of_element[element]) for element in range(len(groups.of_element))]
    frame = innermost()
    assert frame is not None
    return cast("Mapped", as_mapped(np.array(sizes), frame)[numbers(names)])


def _reorder(value: Any, dim: int, order: Sequence[int]) -> Any:
    """Reorder the elements of an array along a dim."""
    pairs = tuple((of, to) for to, of in enumerate(order))
    return bind(PERMUTE, (value,), ((dim - value.ndim,), pairs))


@functools.lru_cache(maxsize=256)
def _group_mesh(
    mesh: Mesh, axis: str, members: tuple[tuple[int, ...], ...]
) -> tuple[Mesh, str, str]:
    """Replace a mesh axis by an axis of groups and one of members, of the same devices."""
    at = mesh.axis_names.index(axis)
    order = [element for group in members for element in group]
    grid = np.take(mesh.devices, order, at)
    sizes = (*grid.shape[:at], len(members), len(members[0]), *grid.shape[at + 1 :])
    group, member = f"{axis}: group", f"{axis}: member"
    names = (*mesh.axis_names[:at], group, member, *mesh.axis_names[at + 1 :])
    return Mesh(grid.reshape(sizes), names), group, member


def _relabel_on(
    value: Any, mesh: Mesh, shape: tuple[int, ...], at: int, places: list[Any], gone: int = 1
) -> Any:
    """View an array over another mesh of its devices; dims of `places` replace `gone` dims."""
    entries = [value._sharding.spec.axes(dim) for dim in range(value.ndim)]
    entries[at : at + gone] = places
    sharding = NamedSharding(mesh, P(*entries))
    return value._relabel(sharding.tiling(shape), sharding)
