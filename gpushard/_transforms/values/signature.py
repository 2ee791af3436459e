"""Arguments and results of transformed functions: their leaves, checks, and names in errors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._functions.argument_checks import count
from gpushard._transforms.values.mapped import Mapped
from gpushard._transforms.values.traced import user_line
from gpushard.errors import ArgumentError, ArgumentTypeError


def check_function(f: Any, name: str, argument: str = "f") -> None:
    """Check that an object to transform is a function, and no generator or coroutine function.

    Raises:
      ArgumentTypeError: it is not.
    """
    if not callable(f):
        raise ArgumentTypeError.refusing(
            argument, f, "must be a function, or another object that can be called", name
        )
    if inspect.isgeneratorfunction(f) or inspect.iscoroutinefunction(f):
        raise ArgumentTypeError.refusing(
            argument,
            f,
            "must be no generator or coroutine function; return all results at once",
            name,
        )


def imitate(wrapper: Any, f: Any) -> None:
    """Give a wrapper the name, the docstring and the attributes of the wrapped function.

    Methods of the wrapper, such as `lower`, stay.
    """
    functools.update_wrapper(wrapper, f, updated=())
    theirs = getattr(f, "__dict__", {})
    vars(wrapper).update({k: v for k, v in theirs.items() if not hasattr(type(wrapper), k)})
    wrapper.__wrapped__ = f


def check_axis_name(axis_name: Hashable, axis_size: Any, what: str) -> int | None:
    """Check the name and the size of a mapped axis, and return the size as an integer or None.

    Raises:
      ArgumentTypeError: the name has no hash; the size is no integer.
      ArgumentError: the size is negative.
    """
    try:
        hash(axis_name)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "axis_name", axis_name, "must have a hash; give a string", what
        ) from None
    return None if axis_size is None else count(axis_size, what, "axis_size")


def title(name: str, f: Any) -> str:
    """Name a transformed function for errors: "vmap of f"."""
    return f"{name} of {getattr(f, '__name__', type(f).__name__)}"


def place_of(f: Any) -> str:
    """Return "file:line" of the definition of a function."""
    code = getattr(inspect.unwrap(f), "__code__", None)
    return "a function" if code is None else f"{code.co_filename}:{code.co_firstlineno}"


def label_arguments(
    f: Any, args: Sequence[Any], kwargs: dict[str, Any], static: Collection[Any] = ()
) -> Callable[[int], str]:
    """Make a function that names a leaf of arguments by number: "argument x['a'] of shape (3,)".

    Args:
      f: the function that gets the arguments.
      args: the positional arguments that are not static.
      kwargs: the keyword arguments that are not static.
      static: the numbers and names of static arguments.
    """

    def label(number: int) -> str:
        path, leaf = tree.leaves_with_path((tuple(args), kwargs))[number]
        first = path[1]
        skipped = {n for n in static if isinstance(n, int)}
        every = enumerate(parameter_names(f, len(args) + len(skipped)))
        names = [name for n, name in every if n not in skipped]
        name = names[first.idx] if hasattr(first, "idx") else str(first.key)
        rest = tree.keystr(path[2:])
        shape = f" of shape {np.shape(leaf)}" if hasattr(leaf, "shape") else ""
        return f"argument {name}{rest}{shape}"

    return label


def parameter_names(f: Any, count: int) -> list[str]:
    """List the names of positional parameters, or their numbers if the signature is unknown."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    named = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    others = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    beyond = range(count - len(named))
    return named[:count] + [
        str(len(named) + n) if others is None else f"{others}[{n}]" for n in beyond
    ]


def is_array(x: Any) -> bool:
    """Whether a value is an `Array`; quick for the most common kinds."""
    kind = type(x)
    return kind is ConcreteArray or kind is Mapped or isinstance(x, Array)


def check_leaf(x: Any, what: str, arg: str) -> None:
    """Check that a leaf of the arguments or results is an array or a number.

    Raises:
      ArgumentTypeError: it is something else.
    """
    if is_array(x) or isinstance(x, np.ndarray | np.generic | bool | int | float | complex):
        return
    if not hasattr(x, "__array__"):
        raise ArgumentTypeError(
            f"{what}: {arg} is a {type(x).__name__} ({user_line()}); arguments and results must be "
            "arrays, numbers, or pytrees of them",
            argument=arg,
            type=type(x),
        )


def check_axis(axis: Any, ndim: int, what: str, argument: str, arg: str) -> int:
    """Check an axis of a mapped array, and count it from the front.

    Raises:
      ArgumentTypeError: it is no integer.
      ArgumentError: the array has no such axis.
    """
    if not isinstance(axis, int | np.integer) or isinstance(axis, bool):
        raise ArgumentTypeError.refusing(
            argument, axis, f"for {arg} must be an integer or None", what
        )
    if not -ndim <= axis < ndim:
        hint = "pass None to not map it" if not ndim else "count from 0, or from -1 back"
        raise ArgumentError(
            f"{what}: {argument}={axis} is beyond {arg}, which has {ndim} dims. Try: {hint}",
            argument=argument,
            axis=int(axis),
            ndim=ndim,
        )
    return int(axis) % ndim


def check_mapped_axes(
    leaves: list[Any],
    axes: list[Any],
    size: int | None,
    label: Callable[[int], str],
    where: tuple[str, str],
) -> tuple[list[Any], list[int | None], int]:
    """Check the mapped axes of arguments, and count them from the front.

    Args:
      leaves: the arguments.
      axes: the mapped axis of each, or None.
      size: the size of the mapped axes, if the caller gave it.
      label: names an argument by its number.
      where: the function, and its argument that has the axes, for errors.

    Returns:
      The arguments, the mapped axis of each or None, and the size of these axes.
    """
    counted: list[int | None] = []
    sizes: list[int] = []
    for number, axis in enumerate(axes):
        if axis is not None:
            leaf = leaves[number]
            if not is_array(leaf):
                check_leaf(leaf, where[0], label(number))
                leaf = leaves[number] = np.asarray(leaf)
            shape = leaf.shape
            if type(axis) is not int or not 0 <= axis < len(shape):
                axis = check_axis(axis, len(shape), *where, label(number))
            sizes.append(shape[axis])
        counted.append(axis)
    if size is None:
        if not sizes:
            raise ArgumentError(
                f"{where[0]}: no argument is mapped, as {where[1]} is None for all. Try: map one, "
                "or give axis_size=",
                argument=where[1],
            )
        size = sizes[0]
    if sizes.count(size) != len(sizes):
        mapped = [(number, axis) for number, axis in enumerate(counted) if axis is not None]
        each = "; ".join(
            f"{n} in dim {axis} of {label(number)}"
            for n, (number, axis) in zip(sizes, mapped, strict=True)
        )
        raise ArgumentError(
            f"{where[0]}: mapped axes must have one size"
            + f"{'' if size == sizes[0] else f', and axis_size={size}'}: {each}",
            argument=where[1],
            sizes=tuple(sizes),
        )
    return leaves, counted, size


def flatten_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[list[Any], Any]:
    """Flatten arguments to leaves and a structure; quick for arrays by position."""
    if not kwargs:
        for x in args:
            if type(x) is not ConcreteArray:
                break
        else:
            return list(args), _positional(len(args))
    return tree.flatten((args, kwargs))


@functools.lru_cache
def _positional(count: int) -> Any:
    return tree.structure(((0,) * count, {}))


Arguments: TypeAlias = tuple[Sequence[Any], dict[str, Any]]
"""Positional and keyword arguments."""


def mapped_leaves(
    args: Any, kwargs: Any, in_axes: Any
) -> tuple[list[Any], list[Any], Callable[[list[Any]], Arguments]]:
    """Flatten arguments, and match `in_axes` with the leaves.

    Returns:
      The leaves, the mapped axis of each or None, and a function that makes arguments of new
      leaves. Keyword arguments are mapped over axis 0.
    """
    leaves, structure = tree.flatten((args, kwargs))
    axes = tree.broadcast_prefix(in_axes, args, lambda x: x is None, names=("in_axes", "args"))
    axes += [0] * (len(leaves) - len(axes))
    return leaves, axes, lambda inside: tree.unflatten(structure, inside)


def mapped_arguments(
    args: Any,
    kwargs: Any,
    in_axes: Any,
    size: int | None,
    label: Callable[[int], str],
    where: tuple[str, str],
) -> tuple[Sequence[Any], Sequence[int | None], int, Callable[[list[Any]], Arguments]]:
    """Flatten arguments, and check their mapped axes.

    This is `mapped_leaves` and `check_mapped_axes`; the most common arguments pass in one loop.

    Returns:
      The leaves, the mapped axis of each or None, the size of these axes, and a function that makes
      arguments of new leaves.
    """
    axes = (in_axes,) * len(args) if type(in_axes) is int else in_axes
    if not kwargs and (type(axes) is tuple or type(axes) is list) and len(axes) == len(args):
        length = size
        for x, axis in zip(args, axes):  # noqa: B905, of one length
            kind = type(x)
            if kind is not ConcreteArray and kind is not Mapped:
                break
            if axis is not None:
                shape = x._shape
                if type(axis) is not int or not 0 <= axis < len(shape):
                    break
                if length is None:
                    length = shape[axis]
                elif shape[axis] != length:
                    break
        else:
            if length is not None:
                return args, axes, length, _alone
    leaves, leaf_axes, together = mapped_leaves(args, kwargs, in_axes)
    return *check_mapped_axes(leaves, leaf_axes, size, label, where), together


def _alone(inside: list[Any]) -> Arguments:
    return inside, {}


def by_position(prefix: Any) -> Any:
    """Make a tuple of a list that is a prefix of positional arguments."""
    return tuple(prefix) if isinstance(prefix, list) else prefix


def match_container(prefix: Any, full: Any) -> Any:
    """Convert a prefix between list and tuple, so that it matches the result of a function."""
    kind = type(full)
    if kind in (list, tuple) and type(prefix) in (list, tuple):
        return kind(prefix)
    return prefix


def result_names(structure: Any) -> list[str]:
    """Name the leaves of the result of a function, for errors."""
    return ["the result" + tree.keystr(path) for path in structure.leaf_paths()]


def each_result(
    out: Any, places: Any, outside: Callable[..., Any], *more: Any, argument: str = "out_axes"
) -> Any:
    """Replace each leaf of a result by `outside(leaf, place, name, *more)`.

    Args:
      out: the result, a pytree.
      places: the places of leaves, such as `out_axes`: a prefix of the result.
      outside: makes the new leaf.
      *more: further arguments of `outside`.
      argument: the argument that has the places, for errors.
    """
    if type(places) is int and is_array(out):
        return outside(out, places, "the result", *more)
    leaves, structure = tree.flatten(out)
    places = match_container(places, out)
    each = tree.broadcast_prefix(places, out, lambda x: x is None, names=(argument, "the result"))
    results = [
        outside(leaf, place, name, *more)
        for leaf, place, name in zip(leaves, each, result_names(structure), strict=True)
    ]
    return tree.unflatten(structure, results)
