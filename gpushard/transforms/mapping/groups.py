"""Groups of the elements of an axis, within which collectives work.

Groups of one size are two named dims where there was one, which of them an element is in and which
of that it is: over a mesh whose devices are in that order, so that nothing moves.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.frozen import dataclass
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.ops.table.elementwise import ufunc_row
from gpushard.ops.table.movement import PERMUTE, RESHAPE
from gpushard.ops.table.reductions import MAX, MIN, SUM
from gpushard.transforms.mapping.collectives import divided, joined, numbers, permuted
from gpushard.transforms.values.frames import NamedDim, Names, innermost, merged
from gpushard.transforms.values.mapped import Mapped, as_mapped, mapped, spread
from gpushard.transforms.values.relabel import relabel

_TWO = {
    SUM: ufunc_row(np.add),
    MAX: ufunc_row(np.maximum),
    MIN: ufunc_row(np.minimum),
}
"""What combines two parts of a reduction."""


@dataclass(frozen=True)
class Groups:
    """The elements of an axis in groups."""

    members: tuple[tuple[int, ...], ...]  # of each group

    @property
    def size(self) -> int | None:
        """How many members each of them has; None if that differs."""
        sizes = {len(group) for group in self.members}
        return sizes.pop() if len(sizes) == 1 else None

    @functools.cached_property
    def of_element(self) -> dict[int, tuple[int, ...]]:
        """The group that each element is in."""
        return {element: group for group in self.members for element in group}


def checked_groups(
    groups: Any, names: Names, function: str, *, equal: bool = False
) -> Groups | None:
    """Return groups of the elements of an axis, each of which is in one; None if there are none.

    Elements of several axes are counted in the order of these, the last one fastest.

    Raises:
      ArgumentTypeError: they are no lists of integers.
      ArgumentError: they overlap, leave an element out, or must be `equal`.
    """
    if groups is None:
        return None
    what = f"{function}: axis_index_groups={groups!r}"
    try:
        members = tuple(tuple(operator.index(n) for n in group) for group in groups)
    except TypeError:
        raise ArgumentTypeError(
            f"{what} must be lists of integers, such as [[0, 1], [2, 3]]",
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
            f"{what} {why}; the axis {axes} has {size} elements, each of which must be in one "
            "group",
            argument="axis_index_groups",
            size=size,
        )
    found = Groups(members)
    if equal and found.size is None:
        raise ArgumentError(
            f"{what} have different sizes, which {function} can't have: all results have one "
            "shape. Make groups of one size",
            argument="axis_index_groups",
            sizes=tuple(map(len, members)),
        )
    return found


def in_groups(x: Mapped, names: Names, groups: Groups, function: Callable[..., Mapped]) -> Mapped:
    """Do what a function does with a value and a named dim, in each of several groups of one size.

    Args:
      x: the value.
      names: of the axis: one; two where its elements are in chunks on devices; or of several axes.
      groups: of its elements.
      function: takes a value, and the named dim of the members of groups.
    """
    if len(names) > 1:
        return _in_groups_of_several(x, names, groups, function)
    (name,) = names
    x = spread(x, merged(x._names, names))
    parts = len(groups.members), groups.size or 0
    at = x._names.index(name)
    value, mesh = x._value, None
    axes: Sequence[str | None] = (None, None)
    order = tuple(element for group in groups.members for element in group)
    if name.axes is not None:
        mesh, *axes = _regrouped(value._sharding.mesh, name.axes[0], groups.members)
    two = tuple(
        NamedDim(None, n, name.order + number / 4, None if axis is None else (axis,), mesh)
        for number, (n, axis) in enumerate(zip(parts, axes, strict=True))
    )
    names = (*x._names[:at], *two, *x._names[at + 1 :])
    shape = (*value.shape[:at], *parts, *value.shape[at + 1 :])
    if mesh is None:
        value = _reordered(value, at, order)
        value = bind(RESHAPE, (value,), (shape,))
    else:
        value = _on(value, mesh, shape, at, [each.place or () for each in two])
    made = function(mapped(value, names, x._frame, x._source), two[1])
    made = spread(made, merged(made._names, two))
    at, value = made._names.index(two[0]), made._value
    names = (*made._names[:at], name, *made._names[at + 2 :])
    shape = (*value.shape[:at], name.size, *value.shape[at + 2 :])
    if mesh is None:
        value = bind(RESHAPE, (value,), (shape,))
        value = _reordered(value, at, tuple(np.argsort(order).tolist()))
    else:
        value = _on(value, x._value._sharding.mesh, shape, at, [name.place or ()], gone=2)
    return mapped(value, names, made._frame, made._source)


def _in_groups_of_several(
    x: Mapped, names: Names, groups: Groups, function: Callable[..., Mapped]
) -> Mapped:
    """Do so where groups have elements along several dims: these become one for as long."""
    x = joined(x, names, 0, tiled=False)
    last = max(name.order for name in (*x._names, *names))
    whole = NamedDim(None, len(groups.of_element), last + 0.25)
    own = mapped(x._value, (*x._names, whole), x._frame, x._source)
    made = in_groups(own, (whole,), groups, function)
    rest = tuple([name for name in made._names if name is not whole])
    back = mapped(made._value, rest, made._frame, made._source)
    return divided(back, names, 0, tiled=False)


def unequal(row: Row, x: Mapped, names: Names, groups: Groups) -> Mapped:
    """Reduce a value over each of several groups, which may differ in size.

    Members are taken in their order, each from where it is to all of its group. An element whose
    group has no more of them takes its own value again, which only a sum can tell: there it is 0.
    """
    x = spread(x, merged(x._names, names))
    total: Any = None
    for number in range(max(map(len, groups.members))):
        pairs = [
            (group[number] if number < len(group) else to, to)
            for to, group in sorted(groups.of_element.items())
            if number < len(group) or row is not SUM
        ]
        part = permuted(x, names, tuple(pairs))
        total = part if total is None else bind(_TWO[row], (total, part))
    return cast("Mapped", total)


def sizes_of(names: Names, groups: Groups) -> Mapped:
    """Return for each element of an axis how many members its group has."""
    sizes = [len(groups.of_element[element]) for element in range(len(groups.of_element))]
    frame = innermost()
    assert frame is not None
    return cast("Mapped", as_mapped(np.array(sizes), frame)[numbers(names)])


def _reordered(value: Any, dim: int, order: Sequence[int]) -> Any:
    """Return an array with its elements along a dim in another order."""
    pairs = tuple((of, to) for to, of in enumerate(order))
    return bind(PERMUTE, (value,), ((dim - value.ndim,), pairs))


@functools.lru_cache(maxsize=256)
def _regrouped(
    mesh: Mesh, axis: str, members: tuple[tuple[int, ...], ...]
) -> tuple[Mesh, str, str]:
    """Return a mesh of the same devices with an axis of groups and one of members for an axis."""
    at = mesh.axis_names.index(axis)
    order = [element for group in members for element in group]
    grid = np.take(mesh.devices, order, at)
    sizes = (*grid.shape[:at], len(members), len(members[0]), *grid.shape[at + 1 :])
    group, member = f"{axis}: group", f"{axis}: member"
    names = (*mesh.axis_names[:at], group, member, *mesh.axis_names[at + 1 :])
    return Mesh(grid.reshape(sizes), names), group, member


def _on(
    value: Any, mesh: Mesh, shape: tuple[int, ...], at: int, places: list[Any], gone: int = 1
) -> Any:
    """Return an array over another mesh of its devices, with other dims for one or two of its."""
    own = [value._sharding.spec.axes(dim) for dim in range(value.ndim)]
    own[at : at + gone] = places
    sharding = NamedSharding(mesh, P(*own))
    return relabel(value, sharding.tiling(shape), sharding)
