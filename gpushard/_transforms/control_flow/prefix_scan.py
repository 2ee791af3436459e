"""Compute all prefixes of an associative function in few steps: `associative_scan`.

Blelloch's method (Prefix sums and their applications, 1990). An example with addition, of the 5
elements `a b c d e`:

1. Add neighbours: `a+b`, `c+d`.
2. Scan these 2 elements in the same way: `a+b`, `a+b+c+d`. These are results 1 and 3.
3. Add to `c` and `e` the results ahead of them: results 2 and 4. Result 0 is `a`.

Each level calls the function twice, for half of the elements at once. n elements take about
2 log2(n) calls and 2n additions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard import tree
from gpushard._array.array import Array
from gpushard._functions.argument_checks import integer
from gpushard._ops.bind import bind
from gpushard._ops.table.manipulation import CONCATENATE, RESHAPE, STACK
from gpushard._transforms.control_flow.bodies import as_array, value_of
from gpushard._transforms.values.frames import innermost
from gpushard._transforms.values.user_functions import check_function
from gpushard.errors import ArgumentError

__all__ = ["associative_scan"]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Combine each element with all elements before it, by an associative function.

    For n elements, `fn` is called about 2 log2(n) times, each time for many elements at once.

    Args:
      fn: an associative function of two pytrees with the structure of `elems`. It combines them
        element by element along `axis`. The length of `axis` differs from call to call.
      elems: a pytree of arrays that have the same length along `axis`.
      reverse: if True, each element is combined with all elements after it instead.
      axis: the axis along which to scan.

    Returns:
      A pytree like `elems`. Element i combines elements 0 to i. If `reverse`, it combines elements
      i to the last.

    Raises:
      ArgumentError: arrays have different lengths along `axis`, or do not have this axis.

    >>> import gpushard as gs
    >>> gs.lax.associative_scan(gs.numpy.add, gs.numpy.arange(6)).tolist()
    [0, 1, 3, 6, 10, 15]
    """
    check_function(fn, "associative_scan")
    axis = integer(axis, "associative_scan", "axis")
    leaves, form = tree.flatten(elems)
    frame = innermost()
    arrays = [
        as_array(value_of(x, "associative_scan: elems", frame), frame)
        if not isinstance(x, Array)
        else x
        for x in leaves
    ]
    lengths = {x.shape[axis] if -x.ndim <= axis < x.ndim else None for x in arrays}
    if len(lengths) != 1 or None in lengths:
        raise ArgumentError(
            f"associative_scan: elems has the shapes {[x.shape for x in arrays]}; all need the "
            f"same length along axis={axis}",
            argument="elems",
        )
    dims = [axis % x.ndim for x in arrays]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.leaves(fn(tree.unflatten(form, a), tree.unflatten(form, b)))

    if reverse:
        arrays = [
            _take_every(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(arrays, dims, strict=True)
        ]
    results = _scan_pairs(combine, arrays, dims) if arrays[0].shape[dims[0]] else arrays
    if reverse:
        results = [
            _take_every(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(results, dims, strict=True)
        ]
    return tree.unflatten(form, results)


def _scan_pairs(
    combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], dims: list[int]
) -> list[Any]:
    """Scan arrays along a dim each: combine pairs, scan those, and fill in between."""
    n = xs[0].shape[dims[0]]
    if n < 2:
        return xs
    even, odd = (
        [_take_every(x, dim, start, 2) for x, dim in zip(xs, dims, strict=True)] for start in (0, 1)
    )
    halves = combine([_take_first(x, d, n // 2) for x, d in zip(even, dims, strict=True)], odd)
    pairs = _scan_pairs(combine, halves, dims)
    rest = [_take_every(x, dim, 1, 1) for x, dim in zip(even, dims, strict=True)]
    results = []
    if rest[0].shape[dims[0]]:
        ahead = [_take_first(x, d, rest[0].shape[d]) for x, d in zip(pairs, dims, strict=True)]
        rest = combine(ahead, rest)
    for x, between, pair, dim in zip(even, rest, pairs, dims, strict=True):
        first = _take_first(x, dim, 1)
        evens = (
            bind(CONCATENATE, (first, between), (dim - x.ndim,)) if between.shape[dim] else first
        )
        results.append(_interleave(evens, pair, dim))
    return results


def _take_every(x: Any, dim: int, start: int, step: int) -> Any:
    """Take elements along a dim, from a first one, in steps; a negative step goes backwards."""
    n = x.shape[dim]
    return x[(*(slice(None),) * dim, slice(min(start, n) if step > 0 else None, None, step))]


def _take_first(x: Any, dim: int, count: int) -> Any:
    return x[(*(slice(None),) * dim, slice(0, count))]


def _interleave(even: Any, odd: Any, dim: int) -> Any:
    """Take the elements of two arrays in turn; the first may have one more."""
    n = odd.shape[dim]
    both = bind(STACK, (_take_first(even, dim, n), odd), (dim - even.ndim,))
    shape = (*odd.shape[:dim], 2 * n, *odd.shape[dim + 1 :])
    result = bind(RESHAPE, (both,), (shape,))
    if even.shape[dim] == n:
        return result
    return bind(CONCATENATE, (result, _take_every(even, dim, n, 1)), (dim - even.ndim,))
