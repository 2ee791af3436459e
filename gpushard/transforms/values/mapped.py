"""Values with named dims in front, and what does operations on them.

A function that is mapped over a dim sees values without it. Each is an array with further dims in
front, and the names of these. An operation on such values is that of arrays, by a row derived from
its own: nothing here knows what it computes. A value varies along what is mapped if and only if it
has the name: others are the same everywhere.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gpushard.array.array import Array, ConcreteArray
from gpushard.errors import ArgumentError
from gpushard.functions.values import is_value
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.geometry.sharding import Sharding
from gpushard.ops.axes import from_end
from gpushard.ops.bind import bind, bind_plain
from gpushard.ops.derived import derived
from gpushard.ops.programs.move import Replace
from gpushard.ops.row import Params, Row
from gpushard.ops.scalars import KINDS
from gpushard.ops.table.movement import BROADCAST_TO, RESHAPE, index, transposed
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.values.frames import (
    Frame,
    NamedDim,
    Names,
    Source,
    find,
    innermost,
    merged,
)
from gpushard.transforms.values.traced import Traced
from gpushard.typing import HostArray, Shape


class Mapped(Traced):
    """What a mapped function sees of an array: without the named dims in front.

    Args:
      value: the array.
      names: of its first dims, in their order.
      frame: the call that it belongs to.
      source: the argument that it comes from.
    """

    __slots__ = ("_frame", "_names", "_source", "_value")

    _value: Any
    _names: Names
    _frame: Frame
    _source: Source

    def _origin(self) -> tuple[str, str]:
        varies = ", ".join(map(repr, self._names))
        value = f"is one for each of {varies}" if varies else "has not been computed"
        if self._source is None:
            return "axis_index or a collective" if varies else "no argument", value
        frame, number = self._source
        return f"{frame.label(number)} of the {frame.what}", value

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        self._check_open()
        if self._names:
            raise self._refusal(why)
        found: HostArray = self._value._concrete(why, explicit)
        return found

    def _at_hand(self, why: str) -> HostArray | None:
        return self._concrete(why, None)

    def _check_open(self) -> None:
        if not self._frame.is_open:
            raise self._leaked(self._frame.what)

    def _check_assigned(self, what: str) -> None:
        self._check_open()
        if self._frame is not innermost():
            raise self._assigned_within(what, "mapped")

    def _become(self, new: Any) -> None:
        self._value = new._value
        self._names = new._names
        self._source = self._source or new._source
        self._weak_type = False

    def _reduced_over(self, row: Row, axis: Any, keepdims: bool, extra: Any) -> Any:
        """Reduce over dims of which some are given by their names."""
        axes = axis if isinstance(axis, tuple | list) else (axis,)
        names = find(tuple([each for each in axes if isinstance(each, str)]), row.name)
        check_has(self, names, row.name)
        own = exposed(self, names)
        rest = tuple([each for each in axes if not isinstance(each, str)])
        dims = from_end(rest, len(self._shape), row.name)
        every = (*range(-own.ndim, len(names) - own.ndim), *dims)
        made = bind(row, (own,), (every, False, extra))
        if not keepdims:
            return made
        sizes = iter(made._shape)
        at = range(-len(self._shape), 0)
        return index(made, tuple([None if dim in dims else (0, 1, next(sizes)) for dim in at]))

    def _of(self, function: Callable[[Any], Any]) -> Mapped:
        """Return what a function makes of the array, whose dims it keeps."""
        return mapped(function(self._value), self._names, self._frame, self._source)

    def block_until_ready(self) -> Any:
        """Wait until the value is there, and return this array."""
        self._value.block_until_ready()
        return self

    def __copy__(self) -> Mapped:
        return mapped(self._value, self._names, self._frame, self._source)

    def __repr__(self) -> str:
        over = f" for each of {', '.join(map(repr, self._names))}" if self._names else ""
        return f"Array(shape={self._shape}, dtype={self._dtype}{over})"


def mapped(value: Any, names: Names, frame: Frame, source: Source) -> Mapped:
    """Return what a mapped function sees of an array."""
    made: Mapped = _new(Mapped)
    made._value = value
    made._names = names
    made._frame = frame
    made._source = source
    shape = value._shape
    made._shape = shape[len(names) :] if names else shape
    made._dtype = value._dtype
    made._weak_type = value._weak_type
    return made


_new: Any = object.__new__


def check_has(x: Mapped, names: Names, function: str) -> None:
    """Check that a value has all of some named dims.

    Raises:
      ArgumentError: it is the same along one of them.
    """
    for name in names:
        if name not in x._names:
            raise ArgumentError.refusing(
                "axis",
                name.name,
                f"is no dim of the value, which is the same along it and has {list(x._names)}; "
                "leave it out, or use gpushard.lax.psum, which counts such values, too",
                function,
                axis=name.name,
            )


def exposed(x: Mapped, names: Names) -> Mapped:
    """Return a value with some of its named dims as dims of its own, in front of the others."""
    rest = tuple([name for name in x._names if name not in names])
    value = x._value
    order = [x._names.index(name) for name in (*rest, *names)]
    order += range(len(order), value.ndim)
    if order != list(range(value.ndim)):
        value = transposed(value, order)
    return mapped(value, rest, x._frame, x._source)


def _numbers(mine: Names, names: Names) -> tuple[int, ...]:
    """Return where some names are among others."""
    if not mine:
        return ()
    if len(names) == 1:
        return _FIRST
    return tuple([names.index(name) for name in mine])


_FIRST = (0,)


class NamedDims:
    """The interpreter of values with named dims."""

    level = 10

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Do one operation, on the elements that each of the values has for each named dim."""
        frame: Any = None
        source: Source = None
        names: Names = ()
        for arg in args:
            if type(arg) is Mapped:
                own, mine = arg._frame, arg._names
                if own is not frame:
                    if not own.is_open:
                        raise arg._leaked(own.what)
                    if frame is None or own.depth > frame.depth:
                        frame = own
                if mine is not names and mine != names:
                    names = merged(names, mine) if names else mine
                if source is None:
                    source = arg._source
        if frame is None:
            return self._create(row, args, params, out_sharding)
        if out_sharding is not None:
            raise ArgumentError(
                f"{row.name}: out_sharding={out_sharding!r} in a function that is mapped; where "
                "values lie is what maps it to say. Leave it out, or lay out what it returns",
                argument="out_sharding",
            )
        mesh = frame.mesh
        if frame.brings:
            args = [as_mapped(arg, frame) if type(arg) is Mapped else arg for arg in args]
        if names and row.strategies[0].complete:
            args = completed(row, args, params, names, frame)
        values: list[Any] = []
        dims: list[tuple[int, ...]] = []
        plain = True
        for arg in args:
            mine = ()
            if (kind := type(arg)) in KINDS:
                values.append(arg)
            else:
                if kind is Mapped:
                    arg, mine = arg._value, arg._names
                elif is_value(arg):
                    arg = _lifted(arg, mesh)
                values.append(arg)
                if type(arg) is not ConcreteArray:
                    plain = False  # what is traced, or keys: they know what it means
            dims.append(_numbers(mine, names))
        if names:
            row = derived(row, tuple(dims), tuple([name.place for name in names]))
        made = (bind_plain if plain else bind)(row, values, params)
        if type(made) is tuple:
            return tuple([mapped(each, names, frame, source) for each in made])
        return mapped(made, names, frame, source)

    def _create(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None
    ) -> Mapped:
        """Make an array of numbers, the same everywhere, in the innermost call."""
        frame = innermost()
        assert frame is not None
        shape, dtype, _ = params
        if frame.mesh is not None:
            params, out_sharding = (shape, dtype, True), NamedSharding(frame.mesh, P())
        return mapped(bind_plain(row, args, params, out_sharding), (), frame, None)


NAMED_DIMS = NamedDims()

Mapped.interpreter = NAMED_DIMS  # type: ignore[attr-defined]
Frame.interpreter = NAMED_DIMS
Mapped.__name__ = "Array"  # in messages of Python's own


def _lifted(x: Any, mesh: Mesh | None) -> Any:
    """Return an array of outside on all devices of a mesh, unless it is there or follows others."""
    if mesh is None or not x._committed:
        return x
    sharding = x._sharding
    if type(sharding) is NamedSharding and sharding.mesh == mesh:
        return x
    return x._moved(NamedSharding(mesh, P()), "an array of outside in a mapped function")


def as_mapped(x: Any, frame: Frame) -> Mapped:
    """Return a value of a call: numbers and arrays of outside are the same everywhere."""
    if type(x) is Mapped:
        x._check_open()
        return brought(x, frame.mesh) if frame.brings else x
    if type(x) is not ConcreteArray and not isinstance(x, Array):
        place = None if frame.mesh is None else NamedSharding(frame.mesh, P())
        x = implicitly_put(x, frame.what, place)
    return mapped(copy.copy(_lifted(x, frame.mesh)), (), frame, None)


def as_result(value: Any, names: Names, frame: Frame, source: Source) -> Any:
    """Return a result of a call to the code around it: an array that nothing else changes.

    Operations make arrays that nobody else has. Only arguments, and what is returned twice, are
    copied.

    Args:
      value: the array.
      names: the named dims of the calls around this one that it has.
      frame: the call.
      source: the argument that it comes from.
    """
    if frame.outer is not None:
        return mapped(value, names, frame.outer, source)
    key = id(value)
    if key in frame.not_returned:
        return copy.copy(value)
    frame.not_returned.add(key)
    return value


def brought(x: Mapped, mesh: Any) -> Mapped:
    """Return a value on the mesh of a call; other dims than named ones are whole there."""
    value = x._value
    if not value._committed or getattr(value._sharding, "mesh", None) is mesh:
        return x
    places = [name.place for name in x._names]
    if any(axis not in mesh.axis_names for place in places for axis in place or ()):
        return x  # in groups of elements, which only a collective sees
    value = value._moved(NamedSharding(mesh, P(*places)), "a value of the function around this one")
    return mapped(value, x._names, x._frame, x._source)


def completed(
    row: Row, args: Sequence[Any], params: Params, names: Names, frame: Frame
) -> list[Any]:
    """Return operands of what moves elements, arrays among them with all names."""
    strategy = row.strategies[0]
    found = []
    for number, arg in enumerate(args):
        if is_value(arg) or isinstance(arg, np.ndarray):
            arg = as_mapped(arg, frame)
            if number and isinstance(strategy, Replace) and math.prod(arg.shape) == 1:
                shape = strategy.how([args[0].shape, arg.shape], params).shape
                arg = bind(BROADCAST_TO, (bind(RESHAPE, (arg,), ((),)),), (shape,))
            arg = spread(arg, names)
        found.append(arg)
    return found


def spread(x: Mapped, names: Names) -> Mapped:
    """Return a value with all these names, which is the same along those that it lacks."""
    if x._names == names:
        return x
    value, mesh = x._value, cast("Any", x._frame.mesh)
    if isinstance(value._sharding, NamedSharding) and x._names:
        mesh = value._sharding.mesh
    lead: Shape = tuple([name.size if name in x._names else 1 for name in names])
    if len(x._names) < len(names):
        entries: list[Any] = [(0, 1, n) for n in value.shape]
        for dim, name in enumerate(names):
            if name not in x._names:
                entries.insert(dim, None)
        value = index(value, tuple(entries))
    full = (*[name.size for name in names], *x.shape)
    if lead != full[: len(lead)]:
        value = bind(BROADCAST_TO, (value,), (full,), sharding_of(value, names, mesh))
    return mapped(value, names, x._frame, x._source)


def element_along(x: Mapped, names: Sequence[NamedDim], number: int = 0) -> Mapped:
    """Return what a value is for one element of some of its named dims, everywhere."""
    if not names:
        return x
    entries: list[Any] = [(0, 1, n) for n in x._value.shape]
    for name in reversed(names):
        number, entries[x._names.index(name)] = divmod(number, name.size)
    rest = tuple([name for name in x._names if name not in names])
    value = index(x._value, tuple(entries), sharding_without(x, names))
    return mapped(value, rest, x._frame, x._source)


def sharding_without(x: Mapped, names: Sequence[NamedDim]) -> NamedSharding | None:
    """Return how a value lies that has lost some names: as it does, whole along their axes."""
    own = x._value._sharding
    if not isinstance(own, NamedSharding) or not any(name.place for name in names):
        return None
    gone = tuple([x._names.index(name) for name in names])
    return _without(own, gone, len(x._value._shape))


@functools.lru_cache(maxsize=1024)
def _without(sharding: NamedSharding, gone: tuple[int, ...], ndim: int) -> NamedSharding:
    """Return how an array lies that has lost some of its dims. Pure."""
    return sharding.with_spec(P(*[sharding.spec.axes(n) for n in range(ndim) if n not in gone]))


def sharding_within(x: Mapped) -> Sharding:
    """Return how the dims that a function sees of a value are laid out."""
    x._check_open()
    own, lead = x._value._sharding, len(x._names)
    if not lead:
        return cast("Sharding", own)
    if isinstance(own, NamedSharding):
        axes = [own.spec.axes(dim) for dim in range(lead, x._value.ndim)]
        return own.with_spec(P(*axes))
    return cast("Sharding", own.beside)


def sharding_of(value: Any, names: Names, mesh: Mesh | None) -> NamedSharding | None:
    """Return how a value lies whose first dims get these names: each where it lives.

    Args:
      value: an array with as many dims more; those, and what lives nowhere, keep the axes that they
        have.
      names: of the first dims.
      mesh: of the call; None if nothing is to be said.
    """
    if mesh is None or not any(name.place for name in names):
        return None
    own = value._sharding
    taken = {axis for name in names for axis in name.place or ()}
    entries: list[Any] = []
    for dim in range(value.ndim):
        place = names[dim].place if dim < len(names) else None
        if place is not None:
            entries.append(place)
            continue
        axes = own.spec.axes(dim) if isinstance(own, NamedSharding) and own.mesh == mesh else ()
        entries.append(tuple(axis for axis in axes if axis not in taken))
    return NamedSharding(mesh, P(*entries))
