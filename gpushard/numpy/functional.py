"""Functions that apply a function of yours to parts of arrays."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._array import Array
from gpushard._functions.argument_checks import listed
from gpushard._functions.docstrings import described
from gpushard._functions.element_types import as_dtype, check_dtype, number_of
from gpushard._functions.shapes import as_shape
from gpushard._functions.values import is_value
from gpushard._ops.axes import from_end, one_from_end
from gpushard._ops.bind import bind
from gpushard._ops.scalars import is_number
from gpushard._ops.table import elementwise as rows
from gpushard._placement.arguments import as_value, settle
from gpushard._placement.creation import asarray
from gpushard._placement.public_functions import public
from gpushard._transforms.mapping.vmap import vmap
from gpushard._transforms.values.user_functions import check_function
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy.grids import meshgrid
from gpushard.numpy.joining import stack
from gpushard.numpy.manipulation import expand_dims, moveaxis, squeeze
from gpushard.numpy.ranges import arange

__all__ = ["apply_along_axis", "apply_over_axes", "fromfunction", "piecewise", "vectorize"]


@described()
def apply_along_axis(
    func1d: Callable[..., Any],
    axis: int,
    arr: Any,
    *args: Any,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Array:
    """Call a function for each vector along an axis, one after the other, and join the results.

    As in NumPy, each vector takes a call. A function with an argument `axis` is much faster.

    Args:
      func1d: a function that takes a vector, an `Array`, and returns an array or a number.
      axis: the axis.
      arr: the array.
      *args: more arguments of the function.
      **kwargs: more keyword arguments of the function.

    Raises:
      ArgumentError: the array has no vectors along the axis, or the axis does not exist.

    >>> import gpushard as gs
    >>> apply_along_axis(gs.numpy.sum, 1, [[1, 2], [3, 4]])
    Array([3, 7], dtype=int64)
    """
    check_function(func1d, "apply_along_axis", "func1d")
    x = as_value(arr, "apply_along_axis")
    at = one_from_end(axis, x.ndim, "apply_along_axis")
    lines = moveaxis(x, at, -1)
    lead = lines.shape[:-1]
    if 0 in lead:
        raise ArgumentError(
            f"apply_along_axis: the array of shape {x.shape} has no vectors along axis={axis}, "
            "so that nothing says what the function gives",
            argument="x",
            shape=x.shape,
        )
    places = itertools.product(*(range(n) for n in lead))
    results = [asarray(func1d(lines[place], *args, **kwargs)) for place in places]
    joined = stack(results).reshape((*lead, *results[0].shape))
    if results[0].ndim:  # the dims of results are where the dim was
        new = tuple(range(len(lead), joined.ndim))
        start = x.ndim + at
        joined = moveaxis(joined, new, tuple(range(start, start + len(new))))
    return settle(joined, out_sharding)


@described()
def apply_over_axes(
    func: Callable[[Any, int], Any], a: Any, axes: Any, *, out_sharding: Any = None
) -> Array:
    """Apply a reduction along several axes, one after the other; reduced axes stay, with length 1.

    Args:
      func: a function of an array and an axis. It returns an array that has this axis with length
        1, or does not have it.
      a: the array.
      axes: the axes.

    Raises:
      ArgumentError: the function returns an array with another number of axes.
    """
    check_function(func, "apply_over_axes", "func")
    x = as_value(a, "apply_over_axes")
    for at in from_end(axes, x.ndim, "apply_over_axes", "axes"):
        result = asarray(func(x, x.ndim + at))
        if result.ndim == x.ndim - 1:
            result = expand_dims(result, x.ndim + at)
        if result.ndim != x.ndim:
            raise ArgumentError(
                f"apply_over_axes: the function gives an array with ndim={result.ndim} for "
                f"ndim={x.ndim}; it may remove the axis that it gets, or leave it with length 1",
                argument="func",
                ndim=result.ndim,
                expected=x.ndim,
            )
        x = result
    return settle(x, out_sharding)


@public
def piecewise(
    x: Any,
    condlist: Any,
    funclist: Sequence[Any],
    *args: Any,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Array:
    """Evaluate a function that is defined by cases; the last condition that is true decides.

    Args:
      condlist: the conditions, a sequence of arrays of booleans with the shape of `x`.
      funclist: for each condition a number, or a function of an array. You may add one more entry
        for all other elements, which are 0 by default. Each function is called with the whole array
        `x`. NumPy calls it with the chosen elements only.
      *args: more arguments of the functions.
      **kwargs: more keyword arguments of the functions.

    Raises:
      ArgumentError: the number of entries in `funclist` is neither the number of conditions nor one
        more.
      ArgumentTypeError: a case is neither a number nor a function.

    >>> piecewise([-2.0, 3.0], [[True, False]], [-1.0, lambda x: x * 2])
    Array([-1.,  6.], dtype=float64)
    """
    conditions = _conditions(condlist, x)
    funclist = listed(funclist, "piecewise", "funclist", "a sequence of functions and numbers")
    if len(funclist) not in (len(conditions), len(conditions) + 1):
        raise ArgumentError(
            f"piecewise: {len(funclist)} functions are given for {len(conditions)} conditions; "
            "give one for each, and at most one more",
            argument="funclist",
            functions=len(funclist),
            conditions=len(conditions),
        )
    has_default = len(funclist) > len(conditions)
    result = _case(funclist[-1] if has_default else 0, x, args, kwargs)
    for condition, function in zip(conditions, funclist, strict=False):
        result = bind(rows.WHERE, (condition, _case(function, x, args, kwargs), result))
    return result


def _conditions(condlist: Any, x: Any) -> list[Any]:
    """Return conditions as a list; a single condition need not be in one."""
    single = is_value(condlist) and condlist.ndim == x.ndim
    if not is_value(condlist):
        is_list = isinstance(condlist, list | tuple) or np.ndim(condlist)
        first = condlist[:1] if is_list else ()
        nested = all(
            isinstance(condition, list | tuple | np.ndarray) or is_value(condition)
            for condition in first
        )
        single = not is_list or (not nested and x.ndim != 0)
    each = [condlist] if single else list(condlist)
    return [as_value(condition, "piecewise").astype(np.bool_) for condition in each]


def _case(function: Any, x: Any, args: Any, kwargs: Any) -> Any:
    """Return the values of one case, in the type of the array."""
    if callable(function):
        return asarray(function(x, *args, **kwargs)).astype(x.dtype)
    if not is_number(function):
        raise ArgumentTypeError(
            f"piecewise: {function!r} must be a function or a number",
            argument="funclist",
            type=type(function),
        )
    value = number_of(function, check_dtype(x.dtype, "x"), "piecewise", "funclist")
    return as_value(value, "piecewise")


def fromfunction(
    function: Callable[..., Any],
    shape: Any,
    *,
    dtype: Any = float,
    out_sharding: Any = None,
    **kwargs: Any,
) -> Any:
    """Call a function with arrays of the positions of a grid.

    Args:
      function: a function that takes for each axis an array of the positions along it. It returns
        an array, usually with the shape of the grid.
      shape: the shape of the grid.
      dtype: the dtype of the positions.
      out_sharding: a sharding or `PartitionSpec` for the arrays of positions.
      **kwargs: keyword arguments of the function.

    >>> fromfunction(lambda i, j: 10 * i + j, (2, 3), dtype=int)
    Array([[ 0,  1,  2],
           [10, 11, 12]], dtype=int64)
    """
    check_function(function, "fromfunction", "function")
    sizes = as_shape(shape, "shape")
    lines = meshgrid(*(arange(n, dtype=dtype) for n in sizes), indexing="ij")
    return function(*(settle(line, out_sharding) for line in lines), **kwargs)


def vectorize(
    pyfunc: Callable[..., Any],
    otypes: Any = None,
    doc: str | None = None,
    excluded: Collection[int | str] = (),
    *,
    signature: str | None = None,
) -> Callable[..., Any]:
    """Map a function of numbers, or of small arrays, over arrays that broadcast.

    The function is called once and sees one element of each array, as in `vmap`. Write `where(x >
    0, ...)` instead of `if x > 0`. If there is a signature, the function sees the last axes of each
    array, which the signature names.

    Args:
      pyfunc: the function.
      otypes: the dtype of the result, or a sequence of dtypes for several results. None keeps the
        dtypes that the function returns.
      doc: the docstring of the mapped function.
      excluded: positions and names of arguments that the function gets unchanged.
      signature: the axes of the function's arguments and results, such as "(n),(n)->()". Without a
        signature, arguments and results are numbers.

    Raises:
      ArgumentError: the signature is malformed. In a call of the mapped function: arguments or
        results do not match the signature or the number of `otypes`.

    >>> import gpushard as gs
    >>> vectorize(lambda a, b: gs.numpy.where(a > b, a - b, a + b))([1, 2, 3, 4], 2)
    Array([3, 4, 1, 2], dtype=int64)
    >>> vectorize(lambda v: v @ v, signature="(n)->()")([[1, 2], [3, 4]])
    Array([ 5, 25], dtype=int64)
    """
    ins, outs = (None, None) if signature is None else _signature(signature)
    types = None if otypes is None else _types(otypes)

    @functools.wraps(pyfunc)
    def call(*args: Any, **kwargs: Any) -> Any:
        positionals = {at: x for at, x in enumerate(args) if at not in excluded}
        named = {key: x for key, x in kwargs.items() if key not in excluded}
        arrays = [as_value(x, "vectorize") for x in (*positionals.values(), *named.values())]
        fronts, sizes = _fitted(arrays, [()] * len(arrays) if ins is None else ins)
        several: list[bool] = []

        @functools.wraps(pyfunc)
        def run(*values: Any) -> tuple[Any, ...]:
            parts = iter(values)
            positional = [next(parts) if at in positionals else x for at, x in enumerate(args)]
            result = pyfunc(*positional, **(kwargs | {key: next(parts) for key in named}))
            several.append(isinstance(result, tuple))
            results = [as_value(x, "vectorize") for x in (result if several[-1] else (result,))]
            _check_results(results, outs, sizes, types)
            return tuple(results)

        results = _mapped(run, arrays, fronts)
        if types is not None:
            results = tuple([x.astype(kind) for x, kind in zip(results, types, strict=True)])
        return results if several[0] else results[0]

    if doc is not None:
        call.__doc__ = doc
    return call


def _types(otypes: Any) -> list[np.dtype[Any]]:
    """Return the types of results; one type stands for one result."""
    several = isinstance(otypes, Iterable) and not isinstance(otypes, type)
    return [as_dtype(otype, "otypes") for otype in (otypes if several else (otypes,))]


_CORE = re.compile(r"\((\w+(?:,\w+)*)?\)")

_Cores: TypeAlias = "list[tuple[str, ...]]"
"""The names of the dims that a function sees of each argument, or that each result has."""


def _signature(text: str) -> tuple[_Cores, _Cores]:
    """Return the names of the dims of arguments, and of results.

    >>> _signature("(m,n),(n)->(m)")
    ([('m', 'n'), ('n',)], [('m',)])
    """
    if not isinstance(text, str):
        raise ArgumentTypeError.refusing(
            "signature", text, 'must be a string, such as "(m,n),(n)->(m)"', "vectorize"
        )
    bare = text.replace(" ", "")
    core = _CORE.pattern
    if not re.fullmatch(rf"(?:{core}(?:,{core})*)?->{core}(?:,{core})*", bare):
        raise ArgumentError(
            f'vectorize: signature={text!r} must read as "(m,n),(n)->(m)": axes of every argument, '
            "and of every result",
            argument="signature",
            signature=text,
        )
    ins, outs = (
        [tuple(names.split(",")) if names else () for names in _CORE.findall(side)]
        for side in bare.split("->")
    )
    return ins, outs


def _fits(shapes: Sequence[Shape], cores: _Cores, sizes: dict[str, int]) -> bool:
    """Whether shapes have the dims that names stand for; notes the sizes of these."""
    return len(shapes) == len(cores) and all(
        len(shape) == len(core)
        and all(sizes.setdefault(name, n) == n for name, n in zip(core, shape, strict=True))
        for shape, core in zip(shapes, cores, strict=True)
    )


def _fitted(arrays: Sequence[Any], cores: _Cores) -> tuple[list[Shape], dict[str, int]]:
    """Return the dims of each array that a function does not see, and the sizes of the others."""
    sizes: dict[str, int] = {}
    rests = [max(x.ndim - len(core), 0) for x, core in zip(arrays, cores, strict=False)]
    seen = [x.shape[rest:] for x, rest in zip(arrays, rests, strict=False)]
    if len(arrays) != len(cores) or not _fits(seen, cores, sizes):
        raise ArgumentError(
            f"vectorize: arguments of shapes {[x.shape for x in arrays]} do not fit the signature, "
            f"which names the axes {cores}; give an array for each, with these axes last",
            argument="signature",
            shapes=tuple(x.shape for x in arrays),
        )
    return [x.shape[:rest] for x, rest in zip(arrays, rests, strict=True)], sizes


def _check_results(
    results: Sequence[Any], cores: _Cores | None, sizes: dict[str, int], types: Any
) -> None:
    """Check that the result of a function for one element has the dims of a signature."""
    shapes = [x.shape for x in results]
    if not _fits(shapes, [()] * len(shapes) if cores is None else cores, dict(sizes)):
        wanted = (
            "it must give a number for each element; name the axes of results by signature="
            if cores is None
            else f"its signature says {cores}, of sizes {sizes}; change one of them"
        )
        raise ArgumentError(
            f"vectorize: the function gives results of shapes {shapes}, and {wanted}",
            argument="pyfunc",
            shapes=tuple(shapes),
            expected=cores,
        )
    if types is not None and len(types) != len(results):
        raise ArgumentError(
            f"vectorize: otypes= has {len(types)} types, and the function gives {len(results)} "
            "results; give a type for each",
            argument="otypes",
            types=len(types),
            results=len(results),
        )


def _mapped(
    run: Callable[..., tuple[Any, ...]], arrays: Sequence[Any], fronts: Sequence[Shape]
) -> tuple[Any, ...]:
    """Map a function over the first dims of arrays, along which they are broadcast."""
    lead = rows.broadcast("vectorize", fronts)
    function = run if lead else vmap(run, None, None, axis_size=1)
    inputs = list(arrays)
    for at, n in reversed(list(enumerate(lead, -len(lead)))):
        has = [len(front) >= -at and front[at] == n for front in fronts]
        function = vmap(
            function, tuple([0 if is_mapped else None for is_mapped in has]), axis_size=n
        )
        for number, front in enumerate(fronts):
            if len(front) >= -at and not has[number]:
                inputs[number] = squeeze(inputs[number], len(front) + at)
    return function(*inputs)
