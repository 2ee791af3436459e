"""Match mapped axes (`in_axes`) with the leaves of arguments, and check that they have one size."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard import tree
from gpushard._array.array import ConcreteArray
from gpushard._functions.argument_checks import count
from gpushard._transforms.values.leaves import check_leaf, is_array
from gpushard._transforms.values.mapped import Mapped
from gpushard.errors import ArgumentError, ArgumentTypeError


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
            f"{what}: {argument}={axis} is out of range for {arg}, with ndim={ndim}. Try: {hint}",
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
            f"{n} along axis {axis} of {label(number)}"
            for n, (number, axis) in zip(sizes, mapped, strict=True)
        )
        raise ArgumentError(
            f"{where[0]}: mapped axes must have one size"
            + f"{'' if size == sizes[0] else f', and axis_size={size}'}: {each}",
            argument=where[1],
            sizes=tuple(sizes),
        )
    return leaves, counted, size


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
