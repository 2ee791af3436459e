"""Ufuncs made from your functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard._functions.argument_checks import count, refuse_out
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.functional import vectorize
from gpushard.numpy.ufunc_methods import UfuncMethods

__all__ = ["frompyfunc", "ufunc"]


class ufunc:
    """A function that applies your function element by element; `frompyfunc` creates it.

    Its operands broadcast. Like `add`, it has the methods `reduce`, `accumulate`, `outer`, `at` and
    `reduceat`.

    Args:
      func: a function that takes `nin` elements and returns `nout` elements.
      nin: the number of operands.
      nout: the number of results.
      name: the name of the ufunc; by default that of the function.
      identity: the first value of reductions: an operand that leaves the other operand unchanged.
    """

    def __init__(
        self,
        func: Callable[..., Any],
        /,
        nin: int,
        nout: int,
        *,
        name: str | None = None,
        identity: Any = None,
    ) -> None:
        if not callable(func):
            raise ArgumentTypeError.refusing("func", func, "must be a function", "frompyfunc")
        self._nin, self._nout = count(nin, "frompyfunc", "nin"), count(nout, "frompyfunc", "nout")
        self.__name__: str = name or str(getattr(func, "__name__", "ufunc"))
        self.__doc__ = func.__doc__
        self._call = vectorize(func)
        methods = UfuncMethods(self.__name__, self._called, self._nin, identity)
        self._methods = methods
        self.reduce, self.accumulate, self.outer = methods.reduce, methods.accumulate, methods.outer
        self.at, self.reduceat = methods.at, methods.reduceat

    def _called(self, *args: Any) -> Any:
        if self._nout != 1:
            raise ArgumentError(
                f"{self.__name__} has {self._nout} results; methods are of ufuncs of one",
                argument="self",
                nout=self._nout,
            )
        return self(*args)

    nin = property(lambda self: self._nin, doc="How many operands there are.")
    nout = property(lambda self: self._nout, doc="How many results there are.")
    nargs = property(lambda self: self._nin, doc="How many arguments a call takes.")
    identity = property(
        lambda self: self._methods.identity, doc="It leaves the other operand as it is; or None."
    )

    def __call__(self, *args: Any, out: Any = None, where: Any = None) -> Any:
        """Call the function for each element.

        Args:
          *args: the operands, arrays that broadcast.
          out: must be None: the result is always a new array.
          where: must be None.

        Raises:
          ArgumentTypeError: the number of operands is not `nin`, or `where` is not None.
        """
        refuse_out(self.__name__, out)
        if where is not None:
            raise ArgumentTypeError.refusing(
                "where", where, "must be None; use gpushard.numpy.where", self.__name__
            )
        if len(args) != self._nin:
            raise ArgumentTypeError(
                f"{self.__name__} takes {self._nin} operands, got {len(args)}",
                argument="args",
                nin=self._nin,
            )
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<gpushard.numpy.ufunc {self.__name__!r}>"


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Make a ufunc from a function that works on single elements.

    The function may use only operations of arrays. It cannot test elements with `if`; see
    `vectorize`.

    Args:
      func: a function that takes `nin` elements and returns `nout` elements.
      nin: the number of operands.
      nout: the number of results.
      identity: an operand that leaves the other operand unchanged. `reduce` needs it if there are
        no elements.

    Raises:
      ArgumentTypeError: `func` is not a function.

    >>> less_twice = frompyfunc(lambda a, b: a - 2 * b, 2, 1)
    >>> less_twice([5, 6], 1)
    Array([3, 4], dtype=int64)
    >>> less_twice.reduce([5, 1, 1])
    Array(1, dtype=int64)
    """
    return ufunc(func, nin, nout, identity=identity)
