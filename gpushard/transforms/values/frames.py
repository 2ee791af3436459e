"""Frames: the calls of mapped functions that code runs in, and the dims that have names there.

`vmap`, `pmap`, `shard_map` and others differ only in where named dims live: on mesh axes, or
wherever arrays have them. The values that have them are in `mapped`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias

from gpushard.errors import ArgumentError, UnboundAxisError
from gpushard.geometry.mesh import Mesh
from gpushard.ops.bind import Interpreter, creating
from gpushard.transforms.values.captured import Guard, innermost_guard
from gpushard.transforms.values.traced import user_line

Names: TypeAlias = "tuple[NamedDim, ...]"
Source: TypeAlias = "tuple[Frame, int] | None"
"""The argument that a value comes from: of which call, and its number."""


class NamedDim:
    """A named dim.

    Args:
      name: by which collectives find it; None if they do not.
      size: how many elements it has.
      order: where it stands among others: outer ones first.
      axes: the mesh axes whose positions are its elements; None for any other dim.
      mesh: whose axes these are.
      place: the mesh axes that split it; where there are none it is split as any dim is.
      loops: the loops whose turns have a part of the elements each.
    """

    __slots__ = ("_where", "axes", "loops", "name", "order", "place", "size")

    def __init__(
        self,
        name: Hashable,
        size: int,
        order: float,
        axes: tuple[str, ...] | None = None,
        mesh: Mesh | None = None,
        place: tuple[str, ...] | None = None,
        loops: tuple[Hashable, ...] = (),
    ) -> None:
        self.name = name
        self.size = size
        self.order = order
        self.axes = axes
        self.loops = loops
        self.place: tuple[str, ...] | None = None
        """The axes of more than one device that it lives on; None where it may lie anyhow."""
        self._where = axes if place is None else place
        if mesh is not None:
            self.settle(mesh)

    @property
    def is_settled(self) -> bool:
        """Whether it is known where it lives."""
        return self._where is None

    def settle(self, mesh: Mesh) -> None:
        """Say on which mesh it lives, if that has the axes.

        Axes of one device say nothing of a dim of several elements: it stays where it is.
        """
        if self._where is not None and set(self._where) <= set(mesh.axis_names):
            place = tuple([axis for axis in self._where if mesh.shape[axis] > 1])
            self.place = place if place or self.axes is not None else None
            self._where = None

    def __repr__(self) -> str:
        return f"{self.size} elements" if self.name is None else f"{self.name!r}: {self.size}"


class Frame(Guard):
    """One call of a function that is mapped. It watches the containers that the function captures.

    Args:
      what: the function, for errors: "shard_map of f".
      mesh: the mesh that values lie on; None for that of the call around this one, if any.
      label: gives the name of an argument by its number, for errors.
    """

    __slots__ = (
        "_before", "auto", "bound", "brings", "depth", "dims", "has_devices", "is_open", "label",
        "mesh", "not_returned", "outer", "what",
    )  # fmt: skip

    interpreter: ClassVar[Interpreter]
    """What does operations without operands in it: that of mapped values."""

    brings: bool
    depth: int
    mesh: Mesh | None

    def __init__(self, what: str, mesh: Mesh | None, label: Callable[[int], str]) -> None:
        self.outer = _innermost.get()
        self.depth = 0 if self.outer is None else self.outer.depth + 1
        self.what = what
        self.mesh = mesh if mesh is not None or self.outer is None else self.outer.mesh
        self.label = label
        self.bound: dict[Hashable, Names] = {}
        """The named dims that collectives find: one for a name, or several, major to minor."""
        self.dims: Names = ()
        """All named dims of this call."""
        self.auto: tuple[str, ...] = ()
        """Axes of the mesh that it is not mapped over, which operations use as they do outside."""
        self.is_open = True
        self.brings = self.outer is not None and self.outer.brings
        """Whether values may lie on another mesh than that of the call, and have to be brought."""
        self.has_devices = False
        """Whether functions in it may not be mapped over devices of their own."""
        self.not_returned: set[int] = set()
        """The identities of arrays that are no results, but in copies: its arguments, and results
        that the code around it has already."""
        if mesh is not None and self.outer is not None and settle(self.outer, mesh):
            self.brings = True

    def name(
        self,
        name: Hashable,
        size: int,
        axes: tuple[str, ...] | None = None,
        place: tuple[str, ...] | None = None,
        loops: tuple[Hashable, ...] = (),
    ) -> NamedDim:
        """Make a named dim of this call, which collectives find; the last one of several."""
        made = NamedDim(name, size, next(_orders), axes, self.mesh, place, loops)
        self.dims = (*self.dims, made)
        if name is not None:
            self.bound[name] = (*self.bound.get(name, ()), made)
        return made

    def __enter__(self) -> None:
        """Have operations without operands, and collectives, in this call."""
        self.seen = None
        self._before: Any = (
            _innermost.set(self), creating.set(self.interpreter), innermost_guard.set(self)
        )  # fmt: skip

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        self.is_open = False
        inside, around, guard = self._before
        innermost_guard.reset(guard)
        creating.reset(around)
        _innermost.reset(inside)
        if self.seen is not None:
            self.undo(kind)


_orders = itertools.count()

_innermost: ContextVar[Frame | None] = ContextVar("innermost", default=None)


def settle(frame: Frame | None, mesh: Mesh) -> bool:
    """Have dims live on a mesh that were to be split before it was known, and say if there are any.

    Args:
      frame: the innermost call that may have them.
      mesh: the mesh.
    """
    around = [each for each in outwards(frame) if each.mesh is None]
    if all(name.is_settled for each in around for name in each.dims):
        return False
    for each in around:
        each.mesh, each.brings = mesh, True
        for name in each.dims:
            name.settle(mesh)
    return True


def innermost() -> Frame | None:
    """Return the call of a mapped function that this code runs in."""
    return _innermost.get()


def frames() -> Iterator[Frame]:
    """Return the calls of mapped functions that this code runs in, the innermost first."""
    return outwards(_innermost.get())


def outwards(frame: Frame | None) -> Iterator[Frame]:
    """Yield a call of a mapped function, and those around it."""
    while frame is not None:
        yield frame
        frame = frame.outer


_conditions: ContextVar[tuple[Callable[[], Any], ...]] = ContextVar("conditions", default=())


@contextmanager
def only_where(condition: Callable[[], Any]) -> Iterator[None]:
    """Have this code call functions of the host only for the elements that take it.

    Args:
      condition: returns a boolean without dims, which may differ between what is mapped. It is
        called where a callback needs it.
    """
    around = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(around)


def conditions() -> list[Any]:
    """Return the conditions that all hold of the elements that take the code of this call."""
    return [condition() for condition in _conditions.get()]


def find(axis: Any, function: str) -> Names:
    """Return the named dims that a collective means.

    Args:
      axis: a name, or several in a tuple or list.
      function: the collective, for errors.

    Raises:
      UnboundAxisError: there is no such name.
      ArgumentError: one is given twice.
    """
    wanted = axis if isinstance(axis, tuple | list) else (axis,)
    found: list[NamedDim] = []
    for name in wanted:
        own = next((frame.bound[name] for frame in frames() if name in frame.bound), None)
        if own is None:
            names = [each for frame in frames() for each in frame.bound]
            there = f"the names here are {', '.join(map(repr, names))}" if names else "none is here"
            auto = next((frame for frame in frames() if name in frame.auto), None)
            if auto is not None:
                raise UnboundAxisError(
                    f"{function}: axis_name={name!r} is unbound: it is an auto axis of the "
                    f"{auto.what}, whose values are whole along it; leave it out of auto, or name "
                    "it in axis_names",
                    argument="axis_name",
                    axis=name,
                )
            raise UnboundAxisError(
                f"{function}: axis_name={name!r} is unbound; {there}. Call it in a function that "
                "shard_map, pmap or vmap maps over that name",
                argument="axis_name",
                axis=name,
            )
        if own[0] in found:
            raise ArgumentError.refusing(
                "axis_name", axis, f"names {name!r} twice; give each once", function, axis=name
            )
        if own[0].loops:
            raise ArgumentError.refusing(
                "axis_name",
                axis,
                f"names {name!r}, a part of which each turn of the loop {own[0].loops[0]!r} has; "
                "give that axis mesh axes, or no resource",
                function,
                axis=name,
            )
        found += own
    return tuple(found)


def merged(*each: Names) -> Names:
    """Return all names of several values, outer ones first."""
    names = {name for names in each for name in names}
    whole = tuple(sorted(names, key=lambda name: name.order))
    check_apart(whole)
    return whole


def check_apart(names: Names) -> None:
    """Check that named dims of one value share no mesh axis, and no loop.

    Raises:
      ArgumentError: two of them do.
    """
    taken: dict[Hashable, NamedDim] = {}
    for name in names:
        for resource in (*(name.place or ()), *name.loops):
            other = taken.setdefault(resource, name)
            if other is not name:
                raise ArgumentError(
                    f"a value ({user_line()}) has the named dims {other!r} and {name!r}, and "
                    f"{resource!r} has both; give one of them other resources, or none",
                    argument="axis_resources",
                    resource=resource,
                    axes=(other.name, name.name),
                )
