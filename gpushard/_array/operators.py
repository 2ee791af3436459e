"""Python's operators on arrays: each runs one operation where the operands lie."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, Self, TypeVar

import numpy as np

from gpushard._functions.linear_algebra import matmul
from gpushard._functions.values import Value, offered
from gpushard._ops.bind import bind
from gpushard._ops.scalars import KINDS
from gpushard._ops.table.elementwise import ASTYPE, ufunc_row
from gpushard._typing import Shape
from gpushard.dtypes import can_cast
from gpushard.errors import ArgumentTypeError

_A = TypeVar("_A", bound="Operators")

_DIVMOD = ufunc_row(np.divmod)
_EQUAL, _NOT_EQUAL = ufunc_row(np.equal), ufunc_row(np.not_equal)
_POWER, _SQUARE = ufunc_row(np.power), ufunc_row(np.square)


def _is_operand(x: Any) -> bool:
    """Test whether operators accept a value; otherwise Python asks the other operand."""
    return (
        type(x) in KINDS
        or isinstance(x, Operators | np.ndarray | np.generic | list | tuple)
        or hasattr(x, "interpreter")
    )


def _unary(ufunc: np.ufunc) -> Callable[[_A], _A]:
    row = ufunc_row(ufunc)

    def operator(self: _A) -> _A:
        return bind(row, (self,))

    return operator


def _binary(ufunc: np.ufunc) -> Callable[[_A, Any], _A]:
    row = ufunc_row(ufunc)

    def operator(self: _A, other: Any) -> _A:
        if type(other) is type(self) or _is_operand(other):
            return bind(row, (self, other))
        array = offered(other)
        return NotImplemented if array is other else bind(row, (self, array))

    return operator


def _reflected(ufunc: np.ufunc) -> Callable[[_A, Any], _A]:
    row = ufunc_row(ufunc)

    def operator(self: _A, other: Any) -> _A:
        if _is_operand(other):
            return bind(row, (other, self))
        array = offered(other)
        return NotImplemented if array is other else bind(row, (array, self))

    return operator


def _in_place(symbol: str, name: str) -> Callable[[_A, Any], _A]:
    """Make the operator `symbol`, which rebinds its left side to the result of method `name`."""

    def operator(self: _A, other: Any) -> _A:
        return self._rebound(symbol, getattr(self, name)(other))

    return operator


class Operators(Value):
    """The operators of arrays, as in NumPy.

    `x += y` assigns a new array to `x`, and raises if the dtype of `x` cannot hold the sum.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    @property
    @abc.abstractmethod
    def shape(self) -> Shape:
        """Lengths of the axes."""

    @property
    @abc.abstractmethod
    def dtype(self) -> np.dtype[Any]:
        """Type of the elements."""

    __neg__ = _unary(np.negative)
    __pos__ = _unary(np.positive)
    __abs__ = _unary(np.absolute)
    __invert__ = _unary(np.invert)

    __lt__ = _binary(np.less)
    __le__ = _binary(np.less_equal)
    __gt__ = _binary(np.greater)
    __ge__ = _binary(np.greater_equal)

    __add__ = _binary(np.add)
    __radd__ = _reflected(np.add)
    __iadd__ = _in_place("+=", "__add__")
    __sub__ = _binary(np.subtract)
    __rsub__ = _reflected(np.subtract)
    __isub__ = _in_place("-=", "__sub__")
    __mul__ = _binary(np.multiply)
    __rmul__ = _reflected(np.multiply)
    __imul__ = _in_place("*=", "__mul__")
    __truediv__ = _binary(np.divide)
    __rtruediv__ = _reflected(np.divide)
    __itruediv__ = _in_place("/=", "__truediv__")
    __floordiv__ = _binary(np.floor_divide)
    __rfloordiv__ = _reflected(np.floor_divide)
    __ifloordiv__ = _in_place("//=", "__floordiv__")
    __mod__ = _binary(np.remainder)
    __rmod__ = _reflected(np.remainder)
    __imod__ = _in_place("%=", "__mod__")
    __lshift__ = _binary(np.left_shift)
    __rlshift__ = _reflected(np.left_shift)
    __ilshift__ = _in_place("<<=", "__lshift__")
    __rshift__ = _binary(np.right_shift)
    __rrshift__ = _reflected(np.right_shift)
    __irshift__ = _in_place(">>=", "__rshift__")
    __and__ = _binary(np.bitwise_and)
    __rand__ = _reflected(np.bitwise_and)
    __iand__ = _in_place("&=", "__and__")
    __or__ = _binary(np.bitwise_or)
    __ror__ = _reflected(np.bitwise_or)
    __ior__ = _in_place("|=", "__or__")
    __xor__ = _binary(np.bitwise_xor)
    __rxor__ = _reflected(np.bitwise_xor)
    __ixor__ = _in_place("^=", "__xor__")
    __ipow__ = _in_place("**=", "__pow__")
    __imatmul__ = _in_place("@=", "__matmul__")

    def __eq__(self, other: Any) -> Self:  # type: ignore[override]
        return bind(_EQUAL, (self, other)) if _is_operand(other) else NotImplemented

    def __ne__(self, other: Any) -> Self:  # type: ignore[override]
        return bind(_NOT_EQUAL, (self, other)) if _is_operand(other) else NotImplemented

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __pow__(self, other: Any, modulo: Any = None) -> Self:
        if modulo is not None or not _is_operand(other):
            return NotImplemented
        kinds = {int: "iufc", float: "fc"}.get(type(other), "")
        if kinds and other == 2 and self.dtype.kind in kinds:  # square: vectorized, as in NumPy
            return bind(_SQUARE, (self,))
        return bind(_POWER, (self, other))

    def __rpow__(self, other: Any, modulo: Any = None) -> Self:
        if modulo is not None or not _is_operand(other):
            return NotImplemented
        return bind(_POWER, (other, self))

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return bind(_DIVMOD, (self, other)) if _is_operand(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return bind(_DIVMOD, (other, self)) if _is_operand(other) else NotImplemented

    def __matmul__(self, other: Any) -> Self:
        if type(other) is type(self) or _is_operand(other):
            return matmul(self, other)
        return NotImplemented

    def __rmatmul__(self, other: Any) -> Self:
        return matmul(other, self) if _is_operand(other) else NotImplemented

    def _rebound(self, symbol: str, result: Any) -> Any:
        """Return the new value of an array in `x += y`, with the dtype of the array.

        Python binds the name to the result, so the result may have a larger shape.

        Raises:
          ArgumentTypeError: the result has a wider kind than the array.
        """
        if result is NotImplemented or result.dtype == self.dtype:
            return result
        if not can_cast(result.dtype, self.dtype, "same_kind"):
            raise ArgumentTypeError(
                f"x {symbol} y gives {result.dtype}, which cannot be cast to dtype {self.dtype}, "
                f"that of x, without losing data; write x = x {symbol[:-1]} y",
                argument="y",
                dtype=result.dtype,
            )
        return bind(ASTYPE, (result,), (self.dtype,))
