"""The arguments of `xmap`: names of axes, their sizes, and the resources that they live on.

All checks are here, and run before the function is called.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._geometry.mesh import Mesh
from gpushard._transforms.values.frames import Frame
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.legacy.serial_loop import OwnLoop, SerialLoop, loops_here

Label: TypeAlias = Callable[[int], str]
"""Names an argument by its number."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """The named dims of one argument or result."""

    dims: dict[Hashable, int]  # the dim of each name
    rank: int | None  # the number of dims, unless any will do
    text: str  # the entry as users write it


def is_entry(x: Any) -> bool:
    """Whether a node of in_axes or out_axes is an entry, and no container of entries."""
    if isinstance(x, dict):
        return all(isinstance(key, int) for key in x)
    several = isinstance(x, list) or (isinstance(x, tuple) and len(x) > 0)
    return several and all(n is ... or n is None or isinstance(n, str) for n in x)


def parse_entries(axes: Any, argument: str, what: str) -> Any:
    """Parse `in_axes` or `out_axes` to a tree of entries.

    Raises:
      ArgumentTypeError: a leaf is neither a dict nor a list of names.
      ArgumentError: a name is used twice, a dim is negative, or ... is not last.
    """

    def one(x: Any) -> Entry:
        if not is_entry(x):
            raise ArgumentTypeError(
                f"{what}: {argument} has {x!r}. Try: use a dict from axes to names, as {{0: 'i'}}, "
                "or a list with a name or None for each axis, which may end in ...",
                argument=argument,
                value=x,
            )
        named = _of_dict(x) if isinstance(x, dict) else _of_list(x)
        if named is None:
            raise ArgumentError(
                f"{what}: {argument} has {x!r}; ... can only be last", argument=argument, value=x
            )
        pairs, rank = named
        twice = [name for name, n in Counter(name for name, _ in pairs).items() if n > 1]
        if twice:
            raise ArgumentError(
                f"{what}: {argument} has {x!r}, which names {twice[0]!r} twice. Try: give each "
                "name to one axis",
                argument=argument,
                axis=twice[0],
            )
        negative = [dim for _, dim in pairs if dim < 0]
        if negative:
            raise ArgumentError(
                f"{what}: {argument} has {x!r}, with axis {negative[0]}. Try: count axes from 0",
                argument=argument,
                dim=negative[0],
            )
        return Entry(dict(pairs), rank, repr(x))

    return tree.map(one, axes, is_leaf=lambda x: x is None or is_entry(x))


def _of_dict(entry: Any) -> tuple[list[tuple[Hashable, int]], None]:
    return [(name, dim) for dim, name in entry.items()], None


def _of_list(entry: Any) -> tuple[list[tuple[Hashable, int]], int | None] | None:
    names = list(entry)
    rank: int | None = len(names)
    if names and names[-1] is ...:
        names, rank = names[:-1], None
    if ... in names:
        return None
    return [(name, dim) for dim, name in enumerate(names) if name is not None], rank


@dataclasses.dataclass(frozen=True)
class Resources:
    """The mesh axes and loops of each name, and their sizes."""

    mesh: Mesh | None  # the mesh that has these axes; None if no name lives on axes
    places: dict[Hashable, tuple[str, ...]]  # the mesh axes of each
    loops: dict[Hashable, tuple[Hashable, ...]]  # the loops of each
    lengths: dict[Hashable, int]  # the sizes of mesh axes and loops

    def count(self, name: Hashable) -> int:
        """Count the parts that the elements of a name are divided into."""
        return math.prod(self.lengths[each] for each in (*self.places[name], *self.loops[name]))


def list_resources(resources: Mapping[Hashable, Any], what: str) -> dict[Hashable, tuple[Any, ...]]:
    """Make a tuple of the resources of each name.

    Raises:
      ArgumentError: a name has a resource twice.
    """
    resources_of = {}
    for name, listed in resources.items():
        several = tuple(listed) if isinstance(listed, tuple | list) else (listed,)
        # each SerialLoop is a loop of its own, even if it equals another one
        twice = [x for x, n in Counter(several).items() if n > 1 and type(x) is not SerialLoop]
        if twice:
            raise ArgumentError(
                f"{what}: axis_resources has {twice[0]!r} twice for {name!r}. Try: give each once",
                argument="axis_resources",
                axis=name,
                resource=twice[0],
            )
        resources_of[name] = several
    return resources_of


def find_resources(
    wanted: dict[Hashable, tuple[Any, ...]], names: Sequence[Hashable], frame: Frame, mesh: Any
) -> Resources:
    """Look up the resources of names: axes of the mesh, and active serial loops.

    Args:
      wanted: the resources of each name.
      names: all names.
      frame: the call.
      mesh: the current mesh, unless an enclosing call has one.

    Raises:
      ArgumentError: a resource is neither an axis nor a loop.
    """
    around = None if frame.outer is None else frame.outer.mesh
    loops = loops_here.get() or {}
    mesh = around if around is not None else mesh
    axes = {} if mesh is None else dict(mesh.shape)
    places: dict[Hashable, tuple[str, ...]] = {}
    loops_of: dict[Hashable, tuple[Hashable, ...]] = {}
    lengths: dict[Hashable, int] = {}
    missing = []
    for name in names:
        place, turns = [], []
        for number, resource in enumerate(wanted.get(name, ())):
            if isinstance(resource, SerialLoop):
                length = resource.length
                resource = OwnLoop(length, name, number)
                turns.append(resource)
            elif resource in loops:
                length = loops[resource]
                turns.append(resource)
            elif resource in axes:
                length = axes[resource]
                place.append(resource)
            else:
                missing.append(resource)
                continue
            lengths[resource] = length
        places[name], loops_of[name] = tuple(place), tuple(turns)
    if missing:
        raise ArgumentError(
            f"{frame.what}: axis_resources names {missing}, and there are the mesh axes {axes} and "
            f"the loops {loops}. Try: call it within `with mesh:`, or within "
            "`with serial_loop(name, length):`",
            argument="axis_resources",
            missing=tuple(missing),
        )
    used = mesh if any(places.values()) else None
    return Resources(used, places, loops_of, lengths)


def check_entries(
    entries: Sequence[Entry], argument: str, resources: Resources, what: str, label: Label
) -> None:
    """Check that no two named dims of one argument or result share a resource.

    Raises:
      ArgumentError: two share one.
    """
    for number, entry in enumerate(entries):
        taken: dict[Hashable, Hashable] = {}
        for name in entry.dims:
            for each in (*resources.places[name], *resources.loops[name]):
                other = taken.setdefault(each, name)
                if other != name:
                    raise ArgumentError(
                        f"{what}: {argument} has {entry.text} for {label(number)}, and {each!r} is "
                        f"a resource of both {other!r} and {name!r}. Try: give one of them others",
                        argument="axis_resources",
                        resource=each,
                        axes=(other, name),
                    )


def sizes_of(
    shapes: Sequence[tuple[int, ...]],
    entries: Sequence[Entry],
    given_sizes: Mapping[Hashable, int],
    names: Sequence[Hashable],
    what: str,
    label: Label,
) -> dict[Hashable, int]:
    """Find the number of elements of each name.

    Raises:
      ArgumentError: an argument has another rank than its list says, or a dim is beyond the rank.
        Or sizes of a name differ, or the size of a name is unknown.
    """
    sizes: dict[Hashable, tuple[int, str]] = {
        name: (n, "axis_sizes") for name, n in given_sizes.items()
    }
    for number, (shape, entry) in enumerate(zip(shapes, entries, strict=True)):
        check_rank(len(shape), entry, "in_axes", what, label(number))
        for name, dim in entry.dims.items():
            here = shape[dim], f"axis {dim} of {label(number)}"
            size, where = sizes.setdefault(name, here)
            if size != here[0]:
                raise ArgumentError(
                    f"{what}: the named axis {name!r} has size {size} in {where}, and "
                    f"size {here[0]} in {here[1]}. Try: give all of them one size",
                    argument="axis_sizes" if where == "axis_sizes" else "in_axes",
                    axis=name,
                    sizes=(size, here[0]),
                )
    unknown = [name for name in names if name not in sizes]
    if unknown:
        raise ArgumentError(
            f"{what}: the sizes of {unknown} follow from no argument, as the entries that name "
            "them are for empty containers. Try: give axis_sizes=",
            argument="axis_sizes",
            axes=tuple(unknown),
        )
    return {name: sizes[name][0] for name in names}


def check_rank(ndim: int, entry: Entry, argument: str, what: str, arg: str) -> None:
    """Check the rank of an argument, or of a result with its named dims, against an entry.

    Raises:
      ArgumentError: the rank differs, or a dim is beyond it.
    """
    if entry.rank is not None and entry.rank != ndim:
        raise ArgumentError(
            f"{what}: {argument} has {entry.text} for {arg} with ndim={ndim}, and this "
            f"entry is for ndim={entry.rank}. Try: end the list in ... for any ndim",
            argument=argument,
            rank=entry.rank,
            ndim=ndim,
        )
    beyond = [(name, dim) for name, dim in entry.dims.items() if dim >= ndim]
    if beyond:
        raise ArgumentError(
            f"{what}: {argument} has {entry.text} for {arg}: {beyond[0][0]!r} is axis "
            f"{beyond[0][1]}, and ndim is {ndim}. Try: use 0 to {ndim - 1}"
            if ndim
            else f"{what}: {argument} has {entry.text} for {arg}, which has no axes. Try: use {{}}",
            argument=argument,
            axis=beyond[0][0],
            dim=beyond[0][1],
            ndim=ndim,
        )


def check_divided(sizes: Mapping[Hashable, int], resources: Resources, what: str) -> None:
    """Check that the resources of each name divide its elements.

    Raises:
      ArgumentError: they do not.
    """
    for name, size in sizes.items():
        count = resources.count(name)
        if size % count:
            used = (*resources.places[name], *resources.loops[name])
            shown = ", ".join(
                f"{each!r}" if isinstance(each, OwnLoop) else f"{each!r}: {resources.lengths[each]}"
                for each in used
            )
            raise ArgumentError(
                f"{what}: the named axis {name!r} has {size} elements, which its resources "
                f"({shown}) do not divide into {count} parts. Try: pad it to a multiple, or use "
                "others",
                argument="axis_resources",
                axis=name,
                size=size,
                count=count,
            )


def check_names(
    ins: Sequence[Entry],
    outs: Sequence[Entry],
    axis_sizes: Mapping[Hashable, Any],
    axis_resources: Mapping[Hashable, Any],
    what: str,
) -> tuple[Hashable, ...]:
    """List all names, of arguments first, and check the names that results and resources use.

    Raises:
      ArgumentTypeError: a size is no integer.
      ArgumentError: a size is negative, or results or resources use an unknown name.
    """
    for name, size in axis_sizes.items():
        if not isinstance(size, int | np.integer) or isinstance(size, bool):
            raise ArgumentTypeError.refusing(
                "axis_sizes", size, f"for {name!r} must be an integer", what
            )
        if size < 0:
            raise ArgumentError.refusing("axis_sizes", size, f"for {name!r} is negative", what)
    names = dict.fromkeys(name for entry in ins for name in entry.dims) | dict.fromkeys(axis_sizes)
    placed = [name for entry in outs for name in entry.dims]
    for argument, used in (("out_axes", placed), ("axis_resources", list(axis_resources))):
        unknown = [name for name in used if name not in names]
        if unknown:
            raise ArgumentError(
                f"{what}: {argument} names {unknown}, and in_axes and axis_sizes name "
                f"{list(names)}. Try: use these names, or give axis_sizes= for more",
                argument=argument,
                axes=tuple(unknown),
            )
    return tuple(names)
