"""All partial results of an associative function, in few steps that are done for many at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpushard import tree
from gpushard.array.array import Array
from gpushard.errors import ArgumentError
from gpushard.functions.checks import integer
from gpushard.ops.bind import bind
from gpushard.ops.table.movement import CONCATENATE, RESHAPE, STACK
from gpushard.transforms.control_flow.bodies import outside, value_of
from gpushard.transforms.values.frames import innermost
from gpushard.transforms.values.signature import check_function

__all__ = ["associative_scan"]


def associative_scan(
    fn: Callable[[Any, Any], Any], elems: Any, reverse: bool = False, axis: int = 0
) -> Any:
    """Combine the elements before each one, in few steps that are done for many at once.

    Blelloch's way (Prefix sums and their applications, 1990): pairs are combined, the results
    scanned, and those between are combined with the ones before them.

    Args:
      fn: associative; takes and returns parts of the arrays along the axis, all at once.
      elems: a pytree of arrays that have the same length along it.
      reverse: whether to begin at the end.
      axis: the dim.

    Returns:
      The same structure; element i is made of those up to i.

    >>> import gpushard as gs
    >>> gs.lax.associative_scan(gs.numpy.add, gs.numpy.arange(6)).tolist()
    [0, 1, 3, 6, 10, 15]
    """
    check_function(fn, "associative_scan")
    axis = integer(axis, "associative_scan", "axis")
    leaves, form = tree.flatten(elems)
    frame = innermost()
    arrays = [
        outside(value_of(x, "associative_scan: elems", frame), frame)
        if not isinstance(x, Array)
        else x
        for x in leaves
    ]
    lengths = {x.shape[axis] if -x.ndim <= axis < x.ndim else None for x in arrays}
    if len(lengths) != 1 or None in lengths:
        raise ArgumentError(
            f"associative_scan: elems has the shapes {[x.shape for x in arrays]}; all need one "
            f"length along axis={axis}",
            argument="elems",
        )
    dims = [axis % x.ndim for x in arrays]

    def combine(a: list[Any], b: list[Any]) -> list[Any]:
        return tree.leaves(fn(tree.unflatten(form, a), tree.unflatten(form, b)))

    if reverse:
        arrays = [
            _strided(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(arrays, dims, strict=True)
        ]
    made = _scanned(combine, arrays, dims) if arrays[0].shape[dims[0]] else arrays
    if reverse:
        made = [_strided(x, dim, x.shape[dim] - 1, -1) for x, dim in zip(made, dims, strict=True)]
    return tree.unflatten(form, made)


def _scanned(
    combine: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], dims: list[int]
) -> list[Any]:
    """Return arrays of all results along their dims."""
    n = xs[0].shape[dims[0]]
    if n < 2:
        return xs
    even, odd = (
        [_strided(x, dim, start, 2) for x, dim in zip(xs, dims, strict=True)] for start in (0, 1)
    )
    halves = combine([_first(x, d, n // 2) for x, d in zip(even, dims, strict=True)], odd)
    pairs = _scanned(combine, halves, dims)
    rest = [_strided(x, dim, 1, 1) for x, dim in zip(even, dims, strict=True)]
    results = []
    if rest[0].shape[dims[0]]:
        ahead = [_first(x, d, rest[0].shape[d]) for x, d in zip(pairs, dims, strict=True)]
        rest = combine(ahead, rest)
    for x, own, pair, dim in zip(even, rest, pairs, dims, strict=True):
        first = _first(x, dim, 1)
        evens = bind(CONCATENATE, (first, own), (dim - x.ndim,)) if own.shape[dim] else first
        results.append(_interleaved(evens, pair, dim))
    return results


def _strided(x: Any, dim: int, start: int, step: int) -> Any:
    """Return every so many elements along a dim."""
    n = x.shape[dim]
    return x[(*(slice(None),) * dim, slice(min(start, n) if step > 0 else None, None, step))]


def _first(x: Any, dim: int, count: int) -> Any:
    return x[(*(slice(None),) * dim, slice(0, count))]


def _interleaved(even: Any, odd: Any, dim: int) -> Any:
    """Return the elements of two arrays in turn; the first may have one more."""
    n = odd.shape[dim]
    both = bind(STACK, (_first(even, dim, n), odd), (dim - even.ndim,))
    shape = (*odd.shape[:dim], 2 * n, *odd.shape[dim + 1 :])
    made = bind(RESHAPE, (both,), (shape,))
    if even.shape[dim] == n:
        return made
    return bind(CONCATENATE, (made, _strided(even, dim, n, 1)), (dim - even.ndim,))
