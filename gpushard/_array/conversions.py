"""Convert arrays to NumPy arrays and Python values; all conversions read `host_value`."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from gpushard._array.guards import DEVICE_TO_HOST, check_transfer
from gpushard._array.text import array_text
from gpushard._functions.host_reads import concrete
from gpushard._movement.buffer import ShardedBuffer
from gpushard._typing import HostArray
from gpushard.errors import ArgumentError, ArrayIndexError, ExportError

_WRITABLE = 1  # `inspect.BufferFlags.WRITABLE` of Python 3.12


class Conversions(abc.ABC):
    """Convert arrays to Python scalars, lists and bytes, with NumPy's rules and errors."""

    __slots__ = ()

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    @abc.abstractmethod
    def _live(self) -> ShardedBuffer:
        """Return the data, unless the array was deleted."""

    def __array__(
        self, dtype: Any = None, context: None = None, copy: bool | None = None
    ) -> HostArray:
        value = concrete(self, "numpy.asarray(x)", explicit=False)
        if copy:
            return np.array(value, dtype=dtype)
        return np.asarray(value, dtype=dtype, copy=copy)

    def item(self, *args: int) -> Any:
        """Return one element as a Python scalar, as `numpy.ndarray.item` does.

        Args:
          *args: the position of the element: one index in row-major order, or an index per axis.
            For an array of one element you may leave it out.

        Raises:
          ArrayIndexError: there is no such element.
        """
        value = concrete(self, "x.item()", explicit=False)
        try:
            return value.item(*args)
        except IndexError as error:
            raise ArrayIndexError(
                f"x.item{args}: {error}; the shape is {value.shape}: give a position in C order, "
                f"from {-value.size} to {value.size - 1}, or for each axis of length n a position "
                "from -n to n - 1",
                argument="args",
                position=args,
                shape=value.shape,
            ) from None

    def tolist(self) -> Any:
        """Return the values as nested lists of Python scalars."""
        return concrete(self, "x.tolist()", explicit=False).tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return the bytes of the elements.

        Args:
          order: the order of the elements: "C" (row-major), "F" (column-major), "A" or "K".

        Raises:
          ArgumentError: NumPy has no such order.
        """
        if order not in ("C", "F", "A", "K", None):
            raise ArgumentError.refusing("order", order, 'is unknown; use "C" or "F"', "tobytes")
        return concrete(self, "x.tobytes()", explicit=False).tobytes(order)

    def __buffer__(self, flags: int, /) -> memoryview:
        """Return the value on the host for Python's buffer protocol, read-only.

        From Python 3.12 on `memoryview(x)` and other functions on buffers call this. Like
        `numpy.asarray(x)` it gathers an array of several shards once. It does not copy an array on
        one device that the host can read. Arrays are values: later assignments to `x` do not change
        the buffer.

        Args:
          flags: the request of the consumer; see `inspect.BufferFlags`.

        Raises:
          ExportError: the consumer asks for writable memory, or buffers have no such dtype.
          TransferGuardError: a guard forbids the transfer.
        """
        if flags & _WRITABLE:
            raise ExportError(
                "memoryview(x) is read-only, since arrays are values; write to numpy.array(x)",
                argument="flags",
                flags=flags,
            )
        # NumPy calls this too.
        value: Any = concrete(self, "numpy.asarray(x) or memoryview(x)", explicit=False)
        try:
            return memoryview(value)
        except ValueError:
            raise ExportError(
                f"Python's buffers know no dtype {self.dtype}; convert the array first, to float32 "
                "for example",
                argument="self",
                dtype=self.dtype,
            ) from None

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __bool__(self) -> bool:
        return bool(concrete(self, "bool(x)", explicit=False))

    def __int__(self) -> int:
        return int(concrete(self, "int(x)", explicit=False))

    def __float__(self) -> float:
        return float(concrete(self, "float(x)", explicit=False))

    def __complex__(self) -> complex:
        return complex(concrete(self, "complex(x)", explicit=False))

    def __index__(self) -> int:
        return concrete(self, "operator.index(x)", explicit=False).__index__()

    def __format__(self, spec: str) -> str:
        value = concrete(self, "format(x)", explicit=False)
        return format(value[()] if value.ndim == 0 else value, spec)

    def __str__(self) -> str:
        check_transfer(DEVICE_TO_HOST, "str(x)", explicit=False)
        return array_text(self._live())
