"""`KeyArray`: an array of random keys; each key is one element of 64 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gpushard._array.array import Array, ConcreteArray
from gpushard._array.data import Turned, handle
from gpushard._array.shape_dtype import KEY, KeyDType
from gpushard._functions.values import is_traced
from gpushard._geometry.sharding import Sharding
from gpushard._movement.buffer import ShardedBuffer
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._ops.table.packed_keys import UNPACK
from gpushard._typing import HostArray
from gpushard.errors import ArgumentTypeError

ELEMENT = np.dtype(np.uint64)
_COMPARES = ("equal", "not_equal")


class OfKeys:
    """The interpreter of keys: operations may move elements and compare them."""

    level = 1

    def bind(
        self, row: Row, args: Sequence[Any], params: Params, out_sharding: Sharding | None = None
    ) -> Any:
        """Run one operation."""
        compares = row.name in _COMPARES
        if not compares and row.beside_keys is None:
            refuse(row.name)
        for ufunc in params:
            if isinstance(ufunc, np.ufunc):
                refuse(ufunc.__name__)
        numbers = row.beside_keys or frozenset()
        if any(is_keys(x) == (n in numbers) for n, x in enumerate(args)):
            refuse(f"{row.name} of keys and numbers")
        elements = [x if n in numbers else elements_of(x) for n, x in enumerate(args)]
        result = bind(row, elements, params, out_sharding)
        return result if compares else keys_of(result)


OF_KEYS = OfKeys()


class KeyArray(ConcreteArray):
    """An array of random keys, as `random.key` and `random.split` return it.

    It has the attributes of an `Array` and is placed like one: a spec names the axes of the array
    of keys. Functions that need numbers, such as `np.asarray(keys)` and `keys + 1`, raise a
    TypeError.

    Args:
      buffer: the keys, as uint64.
      sharding: the sharding of the array.
      committed: whether you chose the devices.
      weak_type: must be False.

    >>> import gpushard as gs
    >>> from gpushard import random
    >>> mesh = gs.make_mesh((4,), "x")
    >>> keys = gs.device_put(random.split(random.key(0), 8), gs.NamedSharding(mesh, gs.P("x")))
    >>> keys.shape, keys.dtype, keys.sharding.spec
    ((8,), key<fry>, PartitionSpec('x'))
    """

    __slots__ = ()
    __array_ufunc__ = None  # type: ignore[assignment]
    interpreter = OF_KEYS

    def __init__(self, buffer: ShardedBuffer, sharding: Sharding, **how: bool) -> None:
        super().__init__(buffer, sharding, **how)
        self._dtype = KEY

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        refuse(why)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of a single key; it has no axes", argument="self")
        return self.shape[0]

    def __eq__(self, other: object) -> Any:
        return super().__eq__(other) if isinstance(other, KeyArray) else NotImplemented

    def __ne__(self, other: object) -> Any:
        return super().__ne__(other) if isinstance(other, KeyArray) else NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return keys_of, (elements_of(self),)

    def __repr__(self) -> str:
        if self.is_deleted():
            return super().__repr__()
        words = bind(UNPACK, (elements_of(self),))
        return f"KeyArray({self.shape}, dtype={self.dtype}) overlaying:\n{words}"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)


def is_keys(x: Any) -> bool:
    """Test for an array of keys, concrete or traced."""
    return isinstance(x, Array) and isinstance(x.dtype, KeyDType)


def elements_of(keys: Any) -> Any:
    """View keys as an array of elements of 64 bits, without a copy."""
    if is_traced(keys):
        return keys._of(elements_of)
    return _as(ConcreteArray, keys, ELEMENT)


def keys_of(elements: Any) -> Any:
    """View elements of 64 bits as keys, without a copy."""
    if is_traced(elements):
        return elements._of(keys_of)
    keys: Any = _as(KeyArray, elements, KEY)
    keys._data.runtime.register(keys)
    return keys


def _as(kind: type[ConcreteArray], x: Any, dtype: Any) -> Array:
    """Return an unregistered handle of another class on the data of an array."""
    data = x._data if isinstance(x._data, Turned) else x._held()
    return handle(kind, data, x._shape, dtype, x._sharding, x._committed, x._weak_type)


def refuse_keys(x: Any, what: str) -> None:
    """Check that an array has numbers, not keys."""
    if is_keys(x):
        refuse(what)


def refuse(what: str) -> NoReturn:
    """Raise the error for a function that needs numbers."""
    raise ArgumentTypeError(
        f"{what} is not defined: keys are not numbers; random.key_data(keys) has their integers",
        argument="self",
    )
