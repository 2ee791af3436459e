"""The methods of ufuncs: `reduce`, `accumulate`, `outer`, `at` and `reduceat`.

Ufuncs such as `add` use the reductions that exist, such as `sum`. An associative ufunc reduces
elements in log2(n) rounds, in pairs of neighbours; any other ufunc one element after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._frozen import dataclass
from gpushard._functions import cumulative, reductions, sorting
from gpushard._functions.argument_checks import refuse_out
from gpushard._functions.element_types import as_dtype
from gpushard._functions.host_reads import concrete
from gpushard._functions.index_bounds import as_integers
from gpushard._functions.index_parsing import parse
from gpushard._functions.indexing import read_at
from gpushard._functions.provided_loops import fori_loop, while_loop
from gpushard._functions.put_and_place import finished, target
from gpushard._functions.take_elements import take
from gpushard._functions.updating import updated
from gpushard._functions.values import is_traced, is_value
from gpushard._functions.x_at import At
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.table.elementwise import WHERE
from gpushard._placement.arguments import as_value
from gpushard.errors import ArgumentError, ArrayIndexError
from gpushard.numpy.joining import concat, stack
from gpushard.numpy.manipulation import broadcast_to, moveaxis

_OF_NUMBERS: dict[np.ufunc, Callable[..., Any]] = {
    np.add: reductions.sum,
    np.multiply: reductions.prod,
    np.minimum: reductions.min,
    np.maximum: reductions.max,
}
_OF_BOOLEANS: dict[np.ufunc, Callable[..., Any]] = {
    np.logical_and: reductions.all,
    np.logical_or: reductions.any,
}
_ASSOCIATIVE = frozenset(
    (
        np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.fmax, np.fmin, np.gcd, np.hypot, np.lcm,
        np.logaddexp, np.logaddexp2, np.logical_xor, *_OF_BOOLEANS, *_OF_NUMBERS,
    )
)  # fmt: skip
_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor)


@dataclass(frozen=True, eq=False)
class UfuncMethods:
    """The methods of a ufunc.

    Args:
      name: the name of the ufunc.
      call: the function that applies it to arrays.
      nin: the number of its operands.
      identity: the operand that leaves the other one unchanged; None if there is none.
      ufunc: the ufunc of NumPy, if it is one.
    """

    name: str
    call: Callable[..., Any]
    nin: int
    identity: Any = None
    ufunc: np.ufunc | None = None

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Array:
        """Combine the elements along axes, from the first to the last.

        Args:
          a: an array.
          axis: the axes; all for None.
          dtype: the dtype of the result, to which elements are converted first.
          out: must be None: the result is always a new array.
          keepdims: whether the axes stay, with length 1.
          initial: a number to put before the elements.
          where: the elements to include, booleans that broadcast to the array.

        Raises:
          ArgumentError: the ufunc does not take two operands, or there is neither an element nor an
            identity.
        """
        self._check_binary("reduce")
        refuse_out(f"{self.name}.reduce", out)
        x = as_value(a, self.name)
        where = None if where is True else where
        reduction = _OF_NUMBERS.get(self.ufunc) if self.ufunc else None
        if reduction is not None:
            kind = {} if dtype is None else {"dtype": as_dtype(dtype)}
            if self.ufunc in (np.minimum, np.maximum):
                x, kind = x.astype(as_dtype(dtype)) if kind else x, {}
            return reduction(x, axis, keepdims=keepdims, initial=initial, where=where, **kind)
        if self.ufunc in _OF_BOOLEANS and initial is None:
            return _OF_BOOLEANS[self.ufunc](x, axis, keepdims=keepdims, where=where)
        dims = from_end(axis, x.ndim, f"{self.name}.reduce")
        shape = tuple(1 if n - x.ndim in dims else size for n, size in enumerate(x.shape))
        lines = self._typed(_first(x, dims), dtype)
        mask = None
        if where is not None:
            mask = _first(broadcast_to(as_value(where, self.name), x.shape), dims)
        combined = self._reduced(lines, mask, initial)
        return combined.reshape(shape) if keepdims else combined

    def _check_binary(self, method: str) -> None:
        if self.nin != 2:
            raise ArgumentError(
                f"{self.name}.{method}: {self.name} takes {self.nin}, and only functions of two "
                "operands have this method",
                argument="self",
                nin=self.nin,
            )

    def _typed(self, lines: Any, dtype: Any) -> Any:
        """Convert elements to the dtype to combine them in."""
        if self.ufunc in _LOGICAL:
            return lines != 0
        if dtype is not None:
            return lines.astype(as_dtype(dtype))
        if self.ufunc in (np.add, np.multiply):
            return lines.astype(self.reduce(lines[:0]).dtype)
        return lines.astype(self.call(lines[:1], lines[:1]).dtype)

    def _reduced(self, lines: Any, mask: Any, initial: Any) -> Any:
        """Combine lines along their first dim."""
        start = self.identity if initial is None else initial
        if start is None and (mask is not None or not lines.shape[0]):
            raise ArgumentError(
                f"{self.name}.reduce: there is no identity for "
                f"{'where=' if mask is not None else 'no elements'}; give initial=",
                argument="initial",
                shape=lines.shape,
            )
        if mask is not None and self.identity is not None:
            neutral = np.asarray(self.identity).astype(lines.dtype)[()]
            lines, mask = bind(WHERE, (mask, lines, neutral)), None
        few = 1 if self.ufunc is None else 2  # of one element gcd and hypot are its size
        if start is not None and (initial is not None or lines.shape[0] < few):
            first = broadcast_to(as_value(start, self.name).astype(lines.dtype), lines.shape[1:])
            if mask is None:
                lines = concat([first[None], lines])
        if mask is None:
            return self._by_pairs(lines) if self.ufunc in _ASSOCIATIVE else self._in_order(lines)

        def one_more(at: Any, total: Any) -> Any:
            return bind(WHERE, (mask[at], self._combined(total, lines[at]), total))

        return fori_loop(0, lines.shape[0], one_more, first)

    def _combined(self, total: Any, line: Any) -> Any:
        return self.call(total, line).astype(total.dtype)

    def _by_pairs(self, lines: Any) -> Any:
        while (n := lines.shape[0]) > 1:
            even = n - n % 2
            pairs = self._combined(lines[0:even:2], lines[1:even:2])
            lines = concat([pairs, lines[even:]]) if n % 2 else pairs
        return lines[0]

    def _in_order(self, lines: Any) -> Any:
        return fori_loop(
            1, lines.shape[0], lambda at, total: self._combined(total, lines[at]), lines[0]
        )

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
        """Combine each element with all elements before it along an axis.

        Args:
          a: an array.
          axis: the axis.
          dtype: the dtype of the result, to which elements are converted first.
          out: must be None; results are values.

        Raises:
          ArgumentError: the ufunc does not take two operands.
        """
        self._check_binary("accumulate")
        refuse_out(f"{self.name}.accumulate", out)
        x = as_value(a, self.name)
        if self.ufunc in cumulative.ACCUMULATE:
            return cumulative.accumulate(self.ufunc, x, axis, dtype)
        dim = one_from_end(axis, x.ndim, f"{self.name}.accumulate")
        lines = moveaxis(x, dim, 0)
        if not x.size:
            return x if dtype is None else x.astype(as_dtype(dtype))
        lines = self._typed(lines, dtype)
        step, n = 1, lines.shape[0]
        if self.ufunc in _ASSOCIATIVE:  # Hillis and Steele, Data parallel algorithms, 1986
            while step < n:
                lines = concat([lines[:step], self._combined(lines[:-step], lines[step:])])
                step *= 2
            return moveaxis(lines, 0, dim)

        def one_more(at: Any, total: Any) -> Any:
            return At(total, at).set(self._combined(total[at - 1], lines[at]))

        return moveaxis(fori_loop(1, n, one_more, lines), 0, dim)

    def outer(self, A: Any, B: Any, /) -> Array:
        """Combine each element of one array with each element of another.

        Args:
          A: an array, whose axes come first.
          B: an array.

        Raises:
          ArgumentError: the ufunc does not take two operands.
        """
        self._check_binary("outer")
        a, b = as_value(A, self.name), as_value(B, self.name)
        return self.call(a.reshape(a.shape + (1,) * b.ndim), b)

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """Replace elements by their combination with others, as often as an index selects them.

        Args:
          a: an array, which gets a new value.
          indices: an index, as in `a[indices]`.
          b: the second operand, which broadcasts to the part; only for ufuncs of two operands.
          inplace: False returns a new array and leaves `a` unchanged; `a` may be on the host.

        Raises:
          ArgumentError: the number of operands is not that of the ufunc.
        """
        x = target(a if inplace else as_value(a, self.name), f"{self.name}.at", "a")
        if (b is None) != (self.nin == 1):
            raise ArgumentError(
                f"{self.name}.at: {self.name} takes {self.nin} operand{'s' * (self.nin > 1)}; give "
                "b if these are two, and only then",
                argument="b",
                nin=self.nin,
            )
        if b is None:
            new = At(x, indices).apply(self.call)
        elif self.ufunc is not None:
            new = updated(x, *parse(x.shape, indices), b, self.ufunc)
        else:
            new = self._updated(x, indices, as_value(b, self.name))
        return finished(x, new, inplace)

    def _updated(self, x: Any, indices: Any, b: Any) -> Any:
        """Combine elements in rounds: the first that an index selects, the second, and so on."""
        numbers = read_at(as_value(np.arange(x.size).reshape(x.shape), self.name), indices)
        places, values = numbers.ravel(), broadcast_to(b, numbers.shape).ravel()
        if not places.size:
            return x
        order = sorting.argsort(places)
        sorted_places = take(places, order)
        before = sorting.searchsorted(sorted_places, sorted_places)
        turn = At(before * 0, order).set(np.arange(places.size) - before)

        def one_round(carry: Any) -> Any:
            number, flat = carry
            mine = bind(WHERE, (turn == number, places, x.size))
            new = self._combined(At(flat, places).get(mode="clip"), values)
            return number + 1, At(flat, mine).set(new, mode="drop")

        _, flat = while_loop(lambda carry: turn.max() >= carry[0], one_round, (0, x.ravel()))
        return flat.reshape(x.shape)

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None
    ) -> Array:
        """Combine the elements of slices along an axis.

        A slice goes from one position to the next. If the next position is not greater, the slice
        has one element. The last slice goes to the end. The host reads positions on devices.

        Args:
          a: an array.
          indices: the starts of the slices, a vector of integers.
          axis: the axis.
          dtype: the dtype of the result, to which elements are converted first.
          out: must be None; results are values.

        Raises:
          ArrayIndexError: a position is out of bounds.
          ArgumentError: the ufunc does not take two operands.
        """
        self._check_binary("reduceat")
        refuse_out(f"{self.name}.reduceat", out)
        x = as_value(a, self.name)
        dim = one_from_end(axis, x.ndim, f"{self.name}.reduceat")
        lines, at = moveaxis(x, dim, 0), as_integers(indices, f"{self.name}.reduceat")
        if is_traced(at):
            return moveaxis(self._of_traced_slices(self._typed(lines, dtype), at), 0, dim)
        starts = (concrete(at, f"{self.name}.reduceat") if is_value(at) else at).tolist()
        n = lines.shape[0]
        for start in starts:
            if not 0 <= start < n:
                raise ArrayIndexError(
                    f"{self.name}.reduceat: position {start} is out of bounds for length {n}; use "
                    f"0 to {n - 1}",
                    argument="indices",
                    size=n,
                )
        if not starts:
            return moveaxis(self._typed(lines, dtype)[:0], 0, dim)
        ends = [max(end, start + 1) for start, end in zip(starts, [*starts[1:], n], strict=True)]
        parts = [
            self.reduce(lines[start:end], 0, dtype)
            if end - start > 1
            else self._typed(lines[start:end], dtype)[0]
            for start, end in zip(starts, ends, strict=True)
        ]
        return moveaxis(stack(parts), 0, dim)

    def _of_traced_slices(self, lines: Any, at: Any) -> Any:
        """Go through all lines, and combine each with the slices that it belongs to."""
        n = lines.shape[0]
        ends = concat([at[1:], at[:1] * 0 + n])
        shape = (-1,) + (1,) * (lines.ndim - 1)

        def one_more(number: Any, total: Any) -> Any:
            inside = (at < number) & (ends > number)
            return bind(WHERE, (inside.reshape(shape), self._combined(total, lines[number]), total))

        return fori_loop(0, n, one_more, take(lines, at, 0))


def _first(x: Any, dims: tuple[int, ...]) -> Any:
    """Bring dims to the front, merged into one."""
    others = [size for n, size in enumerate(x.shape) if n - x.ndim not in dims]
    moved = moveaxis(x, dims, tuple(range(len(dims))))
    return moved.reshape((int(np.prod([x.shape[dim] for dim in dims], dtype=int)), *others))
