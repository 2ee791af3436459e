"""Frames: the active calls of mapped functions, and their named dims.

`vmap`, `pmap`, `shard_map` and others differ only in where named dims live. The dims of `shard_map`
and `pmap` live on mesh axes. The dims of `vmap` lie as the arrays do. `mapped` has the values with
named dims.

An example, on a mesh of 4 devices with the axis "x":

1. `shard_map(f, mesh, P("x"), P("x"))(v)` opens a frame with the named dim 'x' of 4 elements, one
   for each device. If `v` has shape (8, 6), `f` sees a block of shape (2, 6).
2. `f` calls `vmap(g, axis_name="i")` on its block. That opens a second frame, with the first as its
   `outer` and the named dim 'i' of 2 elements. `g` sees shape (6,).
3. `psum(y, ("x", "i"))` in `g` looks for each name from the innermost frame outwards. It finds 'i'
   in the second frame and 'x' in the first.
4. When a call returns, its frame closes: a value of the call that is used later raises an error.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, TypeAlias

from gpushard._geometry.mesh import Mesh
from gpushard._ops.bind import Interpreter, creating
from gpushard._transforms.values.captured import Guard, innermost_guard
from gpushard._transforms.values.traced import user_line
from gpushard.errors import ArgumentError, UnboundAxisError

Names: TypeAlias = "tuple[NamedDim, ...]"
Source: TypeAlias = "tuple[Frame, int] | None"
"""The argument that a value comes from: the call and the number of the argument."""


class NamedDim:
    """A dim that a mapped function does not see, and that collectives find by its name.

    Args:
      name: the name; None if collectives cannot find the dim.
      size: the number of elements.
      order: its position among the named dims of a value: outer dims have lower numbers.
      axes: the mesh axes with its elements as their positions, as for `shard_map`; None for `vmap`.
      mesh: the mesh that has these axes; None if it is not known yet.
      place: the mesh axes that split the dim, by default `axes`. Without either, the dim may be
        split in any way.
      loops: the serial loops of `xmap` that take a part of the elements each turn.
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
        """Mesh axes that it lives on, without axes of one device; None if any layout will do."""
        self._where = axes if place is None else place
        if mesh is not None:
            self.place_on(mesh)

    @property
    def is_placed(self) -> bool:
        """Whether the place of the dim is known."""
        return self._where is None

    def place_on(self, mesh: Mesh) -> None:
        """Place the dim on a mesh, if the mesh has its axes.

        Mesh axes of one device do not split a dim of `vmap`, so it may keep any layout.
        """
        if self._where is not None and set(self._where) <= set(mesh.axis_names):
            place = tuple([axis for axis in self._where if mesh.shape[axis] > 1])
            self.place = place if place or self.axes is not None else None
            self._where = None

    def __repr__(self) -> str:
        return f"{self.size} elements" if self.name is None else f"{self.name!r}: {self.size}"


class Frame(Guard):
    """One active call of a mapped function (`vmap`, `shard_map`, ...), as a context manager.

    A frame has the named dims of the call, its mesh, and its position among enclosing calls. It
    also watches the containers that the function captures. Values of the call must not outlive it:
    an operation on one afterwards raises `TracedValueError`.

    Args:
      what: the function as errors call it: "shard_map of f".
      mesh: the mesh that values lie on; None for the mesh of the enclosing call, if there is one.
      label: names an argument by its number, for errors.
    """

    __slots__ = (
        "_before", "auto", "bound", "brings", "depth", "dims", "has_devices", "is_open", "label",
        "mesh", "not_returned", "outer", "what",
    )  # fmt: skip

    interpreter: ClassVar[Interpreter]
    """The interpreter of operations without operands, such as `arange`: that of mapped values."""

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
        """The named dims that collectives find by a name: one, or several from major to minor."""
        self.dims: Names = ()
        """All named dims of this call."""
        self.auto: tuple[str, ...] = ()
        """Axes of the mesh that the call does not map over; operations split arrays along them."""
        self.is_open = True
        self.brings = self.outer is not None and self.outer.brings
        """Whether values may lie on another mesh than that of the call and have to move to it."""
        self.has_devices = False
        """Whether `pmap` is refused within the call, as its named dims use the devices."""
        self.not_returned: set[int] = set()
        """Identities of arrays that must be copied before they are returned: arguments, and results
        that were returned already."""
        if mesh is not None and self.outer is not None and place_pending_dims(self.outer, mesh):
            self.brings = True

    def name(
        self,
        name: Hashable,
        size: int,
        axes: tuple[str, ...] | None = None,
        place: tuple[str, ...] | None = None,
        loops: tuple[Hashable, ...] = (),
    ) -> NamedDim:
        """Add a named dim to this call; it is the minor one of several dims with this name."""
        dim = NamedDim(name, size, next(_orders), axes, self.mesh, place, loops)
        self.dims = (*self.dims, dim)
        if name is not None:
            self.bound[name] = (*self.bound.get(name, ()), dim)
        return dim

    def __enter__(self) -> None:
        """Make this the innermost call, for operations without operands and for collectives."""
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


def place_pending_dims(frame: Frame | None, mesh: Mesh) -> bool:
    """Place named dims that wait for a mesh, and say whether there are any.

    `vmap(f, spmd_axis_name="x")` can be called before a mesh is known. The first constraint in `f`,
    or the first `shard_map`, says which mesh it is.

    Args:
      frame: the innermost call that may have such dims.
      mesh: the mesh.
    """
    around = [each for each in outwards(frame) if each.mesh is None]
    if all(name.is_placed for each in around for name in each.dims):
        return False
    for each in around:
        each.mesh, each.brings = mesh, True
        for name in each.dims:
            name.place_on(mesh)
    return True


def innermost() -> Frame | None:
    """Return the innermost active call of a mapped function; None outside."""
    return _innermost.get()


def frames() -> Iterator[Frame]:
    """Yield the active calls of mapped functions, innermost first."""
    return outwards(_innermost.get())


def outwards(frame: Frame | None) -> Iterator[Frame]:
    """Yield a call of a mapped function, and then the calls around it."""
    while frame is not None:
        yield frame
        frame = frame.outer


_conditions: ContextVar[tuple[Callable[[], Any], ...]] = ContextVar("conditions", default=())


@contextmanager
def only_where(condition: Callable[[], Any]) -> Iterator[None]:
    """Restrict callbacks in a `with` block to the mapped elements for which a condition holds.

    A branch of `cond` runs for all elements if the predicate is mapped. Its callbacks must run only
    for the elements that take the branch.

    Args:
      condition: returns a boolean scalar, which may vary along named dims. It is called only if a
        callback needs it.
    """
    around = _conditions.set((*_conditions.get(), condition))
    try:
        yield
    finally:
        _conditions.reset(around)


def conditions() -> list[Any]:
    """Compute the conditions of all `only_where` blocks around this code."""
    return [condition() for condition in _conditions.get()]


def find_names(axis: Any, function: str) -> Names:
    """Find the named dims that the `axis_name` of a collective names, innermost call first.

    Args:
      axis: a name, or several in a tuple or list.
      function: the collective, for errors.

    Raises:
      UnboundAxisError: no call around this code has such a name.
      ArgumentError: a name is given twice, or its elements are taken in turns by a serial loop.
    """
    wanted_names = axis if isinstance(axis, tuple | list) else (axis,)
    named_dims: list[NamedDim] = []
    for name in wanted_names:
        candidates = next((frame.bound[name] for frame in frames() if name in frame.bound), None)
        if candidates is None:
            names = [each for frame in frames() for each in frame.bound]
            hint = f"the names here are {', '.join(map(repr, names))}" if names else "none is here"
            auto = next((frame for frame in frames() if name in frame.auto), None)
            if auto is not None:
                raise UnboundAxisError(
                    f"{function}: axis_name={name!r} is unbound: it is an auto mesh axis of the "
                    f"{auto.what}, which does not map over it. Try: leave it out of auto=, or name "
                    "it in axis_names=",
                    argument="axis_name",
                    axis=name,
                )
            raise UnboundAxisError(
                f"{function}: axis_name={name!r} is unbound; {hint}. Try: call it in a function "
                f"that shard_map, pmap or vmap maps over that name, as vmap(f, axis_name={name!r})",
                argument="axis_name",
                axis=name,
            )
        if candidates[0] in named_dims:
            raise ArgumentError.refusing(
                "axis_name", axis, f"names {name!r} twice; give each once", function, axis=name
            )
        if candidates[0].loops:
            raise ArgumentError.refusing(
                "axis_name",
                axis,
                f"names {name!r}, and each turn of the loop {candidates[0].loops[0]!r} has only a "
                "part of its elements. Try: give that axis mesh axes as resources, or none",
                function,
                axis=name,
            )
        named_dims += candidates
    return tuple(named_dims)


def merge_names(*each: Names) -> Names:
    """Merge the named dims of several values, outer ones first."""
    names = {name for names in each for name in names}
    whole = tuple(sorted(names, key=lambda name: name.order))
    check_apart(whole)
    return whole


def places_of_names(names: Names) -> tuple[tuple[str, ...], ...]:
    """List for each named dim the mesh axes that it lives on."""
    return tuple([name.place or () for name in names])


def check_apart(names: Names) -> None:
    """Check that the named dims of one value share no mesh axis and no serial loop.

    Raises:
      ArgumentError: two of them share one.
    """
    taken: dict[Hashable, NamedDim] = {}
    for name in names:
        for resource in (*(name.place or ()), *name.loops):
            other = taken.setdefault(resource, name)
            if other is not name:
                raise ArgumentError(
                    f"a value ({user_line()}) has the named axes {other!r} and {name!r}, which "
                    f"share {resource!r}. Try: give one of them other resources, or none",
                    argument="axis_resources",
                    resource=resource,
                    axes=(other.name, name.name),
                )
