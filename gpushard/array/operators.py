"""Python's operators on arrays: each is one operation, done where the operands lie."""

from __future__ import annotations

import abc
from typing import Any, Self

import numpy as np

from gpushard.array.views import Origin, View, is_called_by_library
from gpushard.dtypes import can_cast
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.scalars import KINDS
from gpushard.ops.table.contractions import MATMUL, matmul_subscripts
from gpushard.ops.table.elementwise import ASTYPE, ufunc_row
from gpushard.typing import Shape

_ADD = ufunc_row(np.add)
_SUBTRACT = ufunc_row(np.subtract)
_MULTIPLY = ufunc_row(np.multiply)
_DIVIDE = ufunc_row(np.divide)
_FLOOR_DIVIDE = ufunc_row(np.floor_divide)
_REMAINDER = ufunc_row(np.remainder)
_DIVMOD = ufunc_row(np.divmod)
_POWER = ufunc_row(np.power)
_SQUARE = ufunc_row(np.square)
_LEFT_SHIFT = ufunc_row(np.left_shift)
_RIGHT_SHIFT = ufunc_row(np.right_shift)
_AND = ufunc_row(np.bitwise_and)
_OR = ufunc_row(np.bitwise_or)
_XOR = ufunc_row(np.bitwise_xor)
_EQUAL = ufunc_row(np.equal)
_NOT_EQUAL = ufunc_row(np.not_equal)
_LESS = ufunc_row(np.less)
_LESS_EQUAL = ufunc_row(np.less_equal)
_GREATER = ufunc_row(np.greater)
_GREATER_EQUAL = ufunc_row(np.greater_equal)
_NEGATIVE = ufunc_row(np.negative)
_POSITIVE = ufunc_row(np.positive)
_ABSOLUTE = ufunc_row(np.absolute)
_INVERT = ufunc_row(np.invert)


def _is_operand(x: Any) -> bool:
    """Whether operators take it; for anything else Python asks the other side."""
    return (
        type(x) in KINDS
        or isinstance(x, Operators | np.ndarray | np.generic | list | tuple)
        or hasattr(x, "interpreter")
    )


class Operators(abc.ABC):
    """Operators, with NumPy's meaning; `x += y` rebinds `x`, and refuses to lose data."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    _view: View | None
    _origin: Origin | None

    @property
    @abc.abstractmethod
    def shape(self) -> Shape:
        """Sizes of the dims."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    def _binary(self, row: Any, other: Any) -> Any:
        if type(other) is type(self) or _is_operand(other):
            return bind(row, (self, other))
        return NotImplemented

    def _reflected(self, row: Any, other: Any) -> Any:
        return bind(row, (other, self)) if _is_operand(other) else NotImplemented

    def _in_place(self, symbol: str, result: Any) -> Any:
        """Return the new value of an array in `x += y` and the like: as its old one in type.

        Raises:
          ArgumentTypeError: the result is of a wider kind.
          ArgumentError: it has another shape.
        """
        if result is NotImplemented:
            return result
        made = self._like_before(symbol, result)
        if (self._view is None and self._origin is None) or not is_called_by_library():
            return made
        self[...] = made  # type: ignore[index]
        return self

    def _like_before(self, symbol: str, result: Any) -> Any:
        """Return the new value of an array in its old type."""
        if result.dtype == self.dtype and result.shape == self.shape:
            return result
        if not can_cast(result.dtype, self.dtype, "same_kind"):
            raise ArgumentTypeError(
                f"x {symbol} y gives {result.dtype}, which cannot be cast to dtype {self.dtype}, "
                f"that of x, without losing data; write x = x {symbol[:-1]} y",
                argument="y",
                dtype=result.dtype,
            )
        if result.shape != self.shape:
            raise ArgumentError(
                f"x {symbol} y gives shape {result.shape}, x has {self.shape}; write "
                f"x = x {symbol[:-1]} y",
                argument="y",
                shape=result.shape,
            )
        return bind(ASTYPE, (result,), (self.dtype,))

    def __add__(self, other: Any) -> Self:
        return self._binary(_ADD, other)

    def __radd__(self, other: Any) -> Self:
        return self._reflected(_ADD, other)

    def __iadd__(self, other: Any) -> Self:
        return self._in_place("+=", self._binary(_ADD, other))

    def __sub__(self, other: Any) -> Self:
        return self._binary(_SUBTRACT, other)

    def __rsub__(self, other: Any) -> Self:
        return self._reflected(_SUBTRACT, other)

    def __isub__(self, other: Any) -> Self:
        return self._in_place("-=", self._binary(_SUBTRACT, other))

    def __mul__(self, other: Any) -> Self:
        return self._binary(_MULTIPLY, other)

    def __rmul__(self, other: Any) -> Self:
        return self._reflected(_MULTIPLY, other)

    def __imul__(self, other: Any) -> Self:
        return self._in_place("*=", self._binary(_MULTIPLY, other))

    def __truediv__(self, other: Any) -> Self:
        return self._binary(_DIVIDE, other)

    def __rtruediv__(self, other: Any) -> Self:
        return self._reflected(_DIVIDE, other)

    def __itruediv__(self, other: Any) -> Self:
        return self._in_place("/=", self._binary(_DIVIDE, other))

    def __floordiv__(self, other: Any) -> Self:
        return self._binary(_FLOOR_DIVIDE, other)

    def __rfloordiv__(self, other: Any) -> Self:
        return self._reflected(_FLOOR_DIVIDE, other)

    def __ifloordiv__(self, other: Any) -> Self:
        return self._in_place("//=", self._binary(_FLOOR_DIVIDE, other))

    def __mod__(self, other: Any) -> Self:
        return self._binary(_REMAINDER, other)

    def __rmod__(self, other: Any) -> Self:
        return self._reflected(_REMAINDER, other)

    def __imod__(self, other: Any) -> Self:
        return self._in_place("%=", self._binary(_REMAINDER, other))

    def __lshift__(self, other: Any) -> Self:
        return self._binary(_LEFT_SHIFT, other)

    def __rlshift__(self, other: Any) -> Self:
        return self._reflected(_LEFT_SHIFT, other)

    def __ilshift__(self, other: Any) -> Self:
        return self._in_place("<<=", self._binary(_LEFT_SHIFT, other))

    def __rshift__(self, other: Any) -> Self:
        return self._binary(_RIGHT_SHIFT, other)

    def __rrshift__(self, other: Any) -> Self:
        return self._reflected(_RIGHT_SHIFT, other)

    def __irshift__(self, other: Any) -> Self:
        return self._in_place(">>=", self._binary(_RIGHT_SHIFT, other))

    def __and__(self, other: Any) -> Self:
        return self._binary(_AND, other)

    def __rand__(self, other: Any) -> Self:
        return self._reflected(_AND, other)

    def __iand__(self, other: Any) -> Self:
        return self._in_place("&=", self._binary(_AND, other))

    def __or__(self, other: Any) -> Self:
        return self._binary(_OR, other)

    def __ror__(self, other: Any) -> Self:
        return self._reflected(_OR, other)

    def __ior__(self, other: Any) -> Self:
        return self._in_place("|=", self._binary(_OR, other))

    def __xor__(self, other: Any) -> Self:
        return self._binary(_XOR, other)

    def __rxor__(self, other: Any) -> Self:
        return self._reflected(_XOR, other)

    def __ixor__(self, other: Any) -> Self:
        return self._in_place("^=", self._binary(_XOR, other))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __pow__(self, other: Any, modulo: Any = None) -> Self:
        if modulo is not None:
            return NotImplemented
        kinds = {int: "iufc", float: "fc"}.get(type(other), "")
        if kinds and other == 2 and self.dtype.kind in kinds:  # the same, on vectors, as in NumPy
            return bind(_SQUARE, (self,))
        return self._binary(_POWER, other)

    def __rpow__(self, other: Any, modulo: Any = None) -> Self:
        return NotImplemented if modulo is not None else self._reflected(_POWER, other)

    def __ipow__(self, other: Any) -> Self:  # type: ignore[misc]
        return self._in_place("**=", self**other)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self._binary(_DIVMOD, other)

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return self._reflected(_DIVMOD, other)

    def __matmul__(self, other: Any) -> Self:
        return matmul(self, other) if _is_operand(other) else NotImplemented

    def __rmatmul__(self, other: Any) -> Self:
        return matmul(other, self) if _is_operand(other) else NotImplemented

    def __imatmul__(self, other: Any) -> Self:
        return self._in_place("@=", self.__matmul__(other))

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return self._binary(_EQUAL, other)

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return self._binary(_NOT_EQUAL, other)

    def __lt__(self, other: Any) -> Self:
        return self._binary(_LESS, other)

    def __le__(self, other: Any) -> Self:
        return self._binary(_LESS_EQUAL, other)

    def __gt__(self, other: Any) -> Self:
        return self._binary(_GREATER, other)

    def __ge__(self, other: Any) -> Self:
        return self._binary(_GREATER_EQUAL, other)

    def __neg__(self) -> Self:
        return bind(_NEGATIVE, (self,))

    def __pos__(self) -> Self:
        return bind(_POSITIVE, (self,))

    def __abs__(self) -> Self:
        return bind(_ABSOLUTE, (self,))

    def __invert__(self) -> Self:
        return bind(_INVERT, (self,))


def shape_of(x: Any) -> Shape:
    """Return the shape of an operand: an array, or what NumPy makes one of."""
    shape: Shape = x.shape if hasattr(x, "shape") else np.shape(x)
    return shape


def matmul(x: Any, y: Any, out_sharding: Sharding | None = None) -> Any:
    """Return the matrix product of two operands, as `numpy.matmul` does.

    Args:
      x: the left operand.
      y: the right one.
      out_sharding: how the result is laid out; None for as it comes.

    Raises:
      ArgumentError: an operand has no dims, or lengths do not fit.
    """
    subscripts = matmul_subscripts(shape_of(x), shape_of(y))
    return bind(MATMUL, (x, y), (subscripts,), out_sharding)
