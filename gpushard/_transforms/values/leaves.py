"""Leaves of the arguments and results of transformed functions: checks, and names in errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array.array import Array, ConcreteArray
from gpushard._transforms.values.mapped import Mapped
from gpushard._transforms.values.traced import user_line
from gpushard._transforms.values.user_functions import parameter_names
from gpushard.errors import ArgumentTypeError


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


def is_array(x: Any) -> bool:
    """Whether a value is an `Array`; quick for the most common kinds."""
    kind = type(x)
    return kind is ConcreteArray or kind is Mapped or isinstance(x, Array)


def is_leaf(x: Any) -> bool:
    """Whether a value is an array or a number."""
    return is_array(x) or isinstance(x, np.ndarray | np.generic | bool | int | float | complex)


def check_leaf(x: Any, what: str, arg: str) -> None:
    """Check that a leaf of the arguments or results is an array or a number.

    Raises:
      ArgumentTypeError: it is something else.
    """
    if not is_leaf(x) and not hasattr(x, "__array__"):
        raise ArgumentTypeError(
            f"{what}: {arg} is a {type(x).__name__} ({user_line()}); arguments and results must be "
            "arrays, numbers, or pytrees of them",
            argument=arg,
            type=type(x),
        )


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
