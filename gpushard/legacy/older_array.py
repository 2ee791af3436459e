"""Faces: older array classes over the data of an `Array`, with their older attributes."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import Data, Turned, handle
from gpushard._array.multiprocess_array import PartialArray
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard.errors import ArgumentTypeError


class Kind(abc.ABCMeta):
    """The metaclass of older array classes: an `Array` is an instance if its sharding fits."""

    def __instancecheck__(cls, x: Any) -> bool:
        """Whether `x` is of the class, or an `Array` that would have been of it."""
        arrays = ConcreteArray | PartialArray
        if type(x) is not cls and isinstance(x, arrays) and not isinstance(type(x), Kind):
            return bool(cls._matches(x))  # type: ignore[attr-defined]
        return super().__instancecheck__(x)


class _OfFaces:
    """The interpreter of operations on faces: it runs them on the arrays behind."""

    level = 1

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Run one operation on arrays in place of faces."""
        arrays = [plain(x) if isinstance(x, Face) else x for x in args]
        return bind(row, arrays, params, out_sharding)


class Face(ConcreteArray):
    """Base of arrays with older attributes; operations and indexing return an `Array`."""

    __slots__ = ()

    interpreter = _OfFaces()
    pmap_takes = True

    def _adopt(self, array: Array) -> None:
        """Share the data of an array."""
        if type(array) is not ConcreteArray:
            raise ArgumentTypeError(
                f"{type(self).__name__} cannot be made of {type(array).__name__}s. Try: use Arrays "
                "of numbers",
                argument="device_buffers",
                type=type(array),
            )
        held = array._held()
        self._data = Data(held.buffer, held.runtime)
        self._shape, self._dtype, self._sharding = array._shape, array._dtype, array._sharding
        self._committed, self._weak_type = array._committed, array._weak_type
        self._view = self._origin = None
        held.runtime.register(self)

    def _handle(self, data: Data | Turned, sharding: Sharding, *, registered: bool = True) -> Any:
        return plain(self)._handle(data, sharding, registered=registered)

    def _moved(self, sharding: Sharding, what: str) -> Array:
        return plain(self)._moved(sharding, what)

    def __repr__(self) -> str:
        return type(self).__name__ + super().__repr__().removeprefix("Array")


def plain(x: Face) -> ConcreteArray:
    """Make an `Array` of the data of a face; `live_arrays` does not list it."""
    data = x._data if isinstance(x._data, Turned) else x._held()
    return handle(ConcreteArray, data, x._shape, x._dtype, x._sharding, x._committed, x._weak_type)
