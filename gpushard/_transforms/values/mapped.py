"""Values with named dims in front, and the interpreter of operations on them.

A mapped function does not see the mapped dim of its arguments. Each value that it sees is an array
with the named dims in front, and their names. An operation on such values is one operation on the
arrays, by a row that `derived` makes of its own row. So nothing here knows what an operation
computes. A value varies along a mapped dim if and only if it has the name.

An example: `vmap(f, in_axes=(0, None))(a, b)` with `f = lambda x, y: (x * y).sum()`. The shape of
`a` is (5, 8), that of `b` is (8,).

1. `x` holds the array `a`, and its first dim gets a name, say i. `f` sees shape (8,).
2. `y` holds `b` and has no name: it is the same for each i. `f` sees shape (8,).
3. `x * y` needs the names of both: i. It becomes a multiplication of arrays of shapes (5, 8) and
   (8,). Its derived row says that the first dim of `a` belongs to i, and that `b` lacks it. The
   result has shape (5, 8) and the name i; `f` sees shape (8,).
4. `sum` over all that `f` sees becomes a sum over the last dim. Its result has shape (5,) and the
   name i; `f` sees a scalar.
5. `vmap` returns that array: i is dim 0 of the result, which has shape (5,).
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.eager import EAGER
from gpushard._functions.values import is_value
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._geometry.sharding import Sharding
from gpushard._ops.axes import from_end
from gpushard._ops.bind import bind
from gpushard._ops.derived import derived
from gpushard._ops.programs.move import Replace
from gpushard._ops.row import Params, Row
from gpushard._ops.scalars import KINDS
from gpushard._ops.table.manipulation import BROADCAST_TO, RESHAPE, index, transposed
from gpushard._placement.device_put import implicitly_put
from gpushard._transforms.values.frames import (
    Frame,
    NamedDim,
    Names,
    Source,
    find_names,
    innermost,
    merge_names,
)
from gpushard._transforms.values.traced import TracedValue
from gpushard._typing import HostArray, Shape
from gpushard.errors import ArgumentError


class Mapped(TracedValue):
    """A value of a mapped function: an array, without the named dims in front.

    Args:
      value: the array.
      names: the names of its first dims, in their order.
      frame: the call that the value belongs to.
      source: the argument that the value comes from.
    """

    __slots__ = ("_frame", "_names", "_source", "_value")

    _value: Any
    _names: Names
    _frame: Frame
    _source: Source

    def _origin(self) -> tuple[str, str]:
        varies = ", ".join(
            f"an axis of {name.size} elements" if name.name is None else repr(name)
            for name in self._names
        )
        value = f"varies along {varies}" if varies else "has not been computed"
        if self._source is None:
            return "axis_index or a collective" if varies else "no argument", value
        frame, number = self._source
        return f"{frame.label(number)} of the {frame.what}", value

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        self._check_open()
        if self._names:
            raise self._refusal(why)
        data: HostArray = self._value._concrete(why, explicit)
        return data

    def _at_hand(self, why: str) -> HostArray | None:
        return self._concrete(why, None)

    def _check_open(self) -> None:
        if not self._frame.is_open:
            raise self._leak_error(self._frame.what)

    def _check_assigned(self, what: str) -> None:
        self._check_open()
        if self._frame is not innermost():
            raise self._nested_assignment_error(what, "mapped")

    def _become(self, new: Any) -> None:
        self._value = new._value
        self._names = new._names
        self._source = self._source or new._source
        self._weak_type = False

    def _reduced_over(self, row: Row, axis: Any, keepdims: bool, extra: Any) -> Any:
        """Reduce over axes that are given by number or by name."""
        axes = axis if isinstance(axis, tuple | list) else (axis,)
        names = find_names(tuple([each for each in axes if isinstance(each, str)]), row.name)
        check_has(self, names, row.name)
        x = expose_names(self, names)
        rest = tuple([each for each in axes if not isinstance(each, str)])
        dims = from_end(rest, len(self._shape), row.name)
        every = (*range(-x.ndim, len(names) - x.ndim), *dims)
        result = bind(row, (x,), (every, False, extra))
        if not keepdims:
            return result
        sizes = iter(result._shape)
        at = range(-len(self._shape), 0)
        return index(result, tuple([None if dim in dims else (0, 1, next(sizes)) for dim in at]))

    def _of(self, function: Callable[[Any], Any]) -> Mapped:
        """Apply a function to the array; the function must keep its dims."""
        return mapped(function(self._value), self._names, self._frame, self._source)

    def block_until_ready(self) -> Any:
        """Wait until the value is computed, and return this array."""
        self._value.block_until_ready()
        return self

    def __copy__(self) -> Mapped:
        return mapped(self._value, self._names, self._frame, self._source)

    def __repr__(self) -> str:
        over = f" for each of {', '.join(map(repr, self._names))}" if self._names else ""
        return f"Array(shape={self._shape}, dtype={self._dtype}{over})"


def mapped(value: Any, names: Names, frame: Frame, source: Source) -> Mapped:
    """Make a value of a call from an array and the names of its first dims."""
    value_seen: Mapped = _new(Mapped)
    value_seen._value = value
    value_seen._names = names
    value_seen._frame = frame
    value_seen._source = source
    shape = value._shape
    value_seen._shape = shape[len(names) :] if names else shape
    value_seen._dtype = value._dtype
    value_seen._weak_type = value._weak_type
    return value_seen


_new: Any = object.__new__


def check_has(x: Mapped, names: Names, function: str) -> None:
    """Check that a value varies along all of some named dims.

    Raises:
      ArgumentError: the value is the same along one of them.
    """
    for name in names:
        if name not in x._names:
            raise ArgumentError.refusing(
                "axis",
                name.name,
                f"is no named axis of the value; its named axes are {list(x._names)}. Try: leave "
                "it out, or use gpushard.lax.psum, which adds such a value for each element",
                function,
                axis=name.name,
            )


def expose_names(x: Mapped, names: Names) -> Mapped:
    """Make some named dims of a value visible: they become its first dims."""
    rest = tuple([name for name in x._names if name not in names])
    value = x._value
    order = [x._names.index(name) for name in (*rest, *names)]
    order += range(len(order), value.ndim)
    if order != list(range(value.ndim)):
        value = transposed(value, order)
    return mapped(value, rest, x._frame, x._source)


def _numbers(some: Names, names: Names) -> tuple[int, ...]:
    """Find the positions of some names among others."""
    if not some:
        return ()
    if len(names) == 1:
        return _FIRST
    return tuple([names.index(name) for name in some])


_FIRST = (0,)


class NamedDims:
    """The interpreter of values with named dims."""

    level = 10

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Run one operation for all elements along the named dims of its operands."""
        frame: Any = None
        source: Source = None
        names: Names = ()
        for arg in args:
            if type(arg) is Mapped:
                own_frame, own_names = arg._frame, arg._names
                if own_frame is not frame:
                    if not own_frame.is_open:
                        raise arg._leak_error(own_frame.what)
                    if frame is None or own_frame.depth > frame.depth:
                        frame = own_frame
                if own_names is not names and own_names != names:
                    names = merge_names(names, own_names) if names else own_names
                if source is None:
                    source = arg._source
        if frame is None:
            return self._create(row, args, params, out_sharding)
        if out_sharding is not None:
            raise ArgumentError(
                f"{row.name}: out_sharding={out_sharding!r} in a mapped function; vmap, pmap or "
                "shard_map says where its values lie. Try: leave out_sharding= out, and reshard "
                "the result of the mapped function",
                argument="out_sharding",
            )
        mesh = frame.mesh
        if frame.brings:
            args = [as_mapped(arg, frame) if type(arg) is Mapped else arg for arg in args]
        if names and row.strategies[0].complete:
            args = complete_operands(row, args, params, names, frame)
        values: list[Any] = []
        dims: list[tuple[int, ...]] = []
        plain = True
        for arg in args:
            own_names = ()
            if (kind := type(arg)) in KINDS:
                values.append(arg)
            else:
                if kind is Mapped:
                    arg, own_names = arg._value, arg._names
                elif is_value(arg):
                    arg = _lift(arg, mesh)
                values.append(arg)
                if type(arg) is not ConcreteArray:
                    plain = False  # a traced value or keys: their own interpreter does it
            dims.append(_numbers(own_names, names))
        if names:
            row = derived(row, tuple(dims), tuple([name.place for name in names]))
        result = (EAGER.bind if plain else bind)(row, values, params)
        if type(result) is tuple:
            return tuple([mapped(each, names, frame, source) for each in result])
        return mapped(result, names, frame, source)

    def _create(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None
    ) -> Mapped:
        """Run an operation without operands in the innermost call; its result has no names."""
        frame = innermost()
        assert frame is not None
        shape, dtype, _ = params
        if frame.mesh is not None:
            params, out_sharding = (shape, dtype, True), NamedSharding(frame.mesh, P())
        return mapped(EAGER.bind(row, args, params, out_sharding), (), frame, None)


NAMED_DIMS = NamedDims()

Mapped.interpreter = NAMED_DIMS  # type: ignore[attr-defined]
Frame.interpreter = NAMED_DIMS
Mapped.__name__ = "Array"  # in messages of Python's own


def _lift(x: Any, mesh: Mesh | None) -> Any:
    """Copy a captured array to all devices of a mesh, unless it lies there or is uncommitted."""
    if mesh is None or not x._committed:
        return x
    sharding = x._sharding
    if type(sharding) is NamedSharding and sharding.mesh == mesh:
        return x
    return x._moved(NamedSharding(mesh, P()), "an array from outside a mapped function")


def as_mapped(x: Any, frame: Frame) -> Mapped:
    """Make a value of a call of any operand; numbers and captured arrays get no names."""
    if type(x) is Mapped:
        x._check_open()
        return move_to_mesh(x, frame.mesh) if frame.brings else x
    if type(x) is not ConcreteArray and not isinstance(x, Array):
        place = None if frame.mesh is None else NamedSharding(frame.mesh, P())
        x = implicitly_put(x, frame.what, place)
    return mapped(copy.copy(_lift(x, frame.mesh)), (), frame, None)


def as_result(value: Any, names: Names, frame: Frame, source: Source) -> Any:
    """Hand a result of a call to the enclosing code.

    Outside of all calls the result is an array that no other variable changes. Operations make such
    arrays; only arguments, and arrays that are returned twice, are copied.

    Args:
      value: the array.
      names: the named dims of enclosing calls that it has.
      frame: the call.
      source: the argument that the value comes from.
    """
    if frame.outer is not None:
        return mapped(value, names, frame.outer, source)
    key = id(value)
    if key in frame.not_returned:
        return copy.copy(value)
    frame.not_returned.add(key)
    return value


def move_to_mesh(x: Mapped, mesh: Any) -> Mapped:
    """Move a value to the mesh of a call; named dims keep their axes, other dims become whole."""
    value = x._value
    if not value._committed or getattr(value._sharding, "mesh", None) is mesh:
        return x
    places = [name.place for name in x._names]
    if any(axis not in mesh.axis_names for place in places for axis in place or ()):
        return x  # inside `in_groups`: its mesh has other axes
    value = value._moved(NamedSharding(mesh, P(*places)), "a value of the enclosing function")
    return mapped(value, x._names, x._frame, x._source)


def complete_operands(
    row: Row, args: Sequence[Any], params: Params, names: Names, frame: Frame
) -> list[Any]:
    """Give all names to the array operands of an operation that moves elements."""
    strategy = row.strategies[0]
    operands = []
    for number, arg in enumerate(args):
        if is_value(arg) or isinstance(arg, np.ndarray):
            arg = as_mapped(arg, frame)
            if number and isinstance(strategy, Replace) and math.prod(arg.shape) == 1:
                shape = strategy.how([args[0].shape, arg.shape], params).shape
                arg = bind(BROADCAST_TO, (bind(RESHAPE, (arg,), ((),)),), (shape,))
            arg = broadcast_along(arg, names)
        operands.append(arg)
    return operands


def broadcast_along(x: Mapped, names: Names) -> Mapped:
    """Broadcast a value along the named dims that it lacks."""
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
    """Select one element along some named dims; all devices get it."""
    if not names:
        return x
    entries: list[Any] = [(0, 1, n) for n in x._value.shape]
    for name in reversed(names):
        number, entries[x._names.index(name)] = divmod(number, name.size)
    rest = tuple([name for name in x._names if name not in names])
    value = index(x._value, tuple(entries), sharding_without(x, names))
    return mapped(value, rest, x._frame, x._source)


def sharding_without(x: Mapped, names: Sequence[NamedDim]) -> NamedSharding | None:
    """Choose the sharding of a value without some names: as now, and whole along their axes."""
    sharding = x._value._sharding
    if not isinstance(sharding, NamedSharding) or not any(name.place for name in names):
        return None
    gone = tuple([x._names.index(name) for name in names])
    return _without(sharding, gone, len(x._value._shape))


@functools.lru_cache(maxsize=1024)
def _without(sharding: NamedSharding, gone: tuple[int, ...], ndim: int) -> NamedSharding:
    """Drop some dims from a sharding. Pure."""
    return sharding.with_spec(P(*[sharding.spec.axes(n) for n in range(ndim) if n not in gone]))


def sharding_within(x: Mapped) -> Sharding:
    """Get the sharding of the dims of a value that the function sees."""
    x._check_open()
    sharding, lead = x._value._sharding, len(x._names)
    if not lead:
        return cast("Sharding", sharding)
    if isinstance(sharding, NamedSharding):
        axes = [sharding.spec.axes(dim) for dim in range(lead, x._value.ndim)]
        return sharding.with_spec(P(*axes))
    return cast("Sharding", sharding.beside)


def sharding_of(value: Any, names: Names, mesh: Mesh | None) -> NamedSharding | None:
    """Choose the sharding of an array by the names of its first dims: each name at its place.

    Args:
      value: an array. Dims without a name, and names without a place, keep their axes.
      names: the names of the first dims.
      mesh: the mesh of the call.

    Returns:
      The sharding; None without a mesh or if no name has a place.
    """
    if mesh is None or not any(name.place for name in names):
        return None
    sharding = value._sharding
    taken = {axis for name in names for axis in name.place or ()}
    entries: list[Any] = []
    for dim in range(value.ndim):
        place = names[dim].place if dim < len(names) else None
        if place is not None:
            entries.append(place)
            continue
        on_mesh = isinstance(sharding, NamedSharding) and sharding.mesh == mesh
        axes = sharding.spec.axes(dim) if on_mesh else ()
        entries.append(tuple(axis for axis in axes if axis not in taken))
    return NamedSharding(mesh, P(*entries))
