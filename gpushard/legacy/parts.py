"""`Parts`: into how many parts dims are cut, and what follows from it. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpushard import tree
from gpushard.array.aval import ShapeDtypeStruct
from gpushard.errors import ArgumentError, ArgumentTypeError


class Parts(tuple[int, ...]):
    """Into how many parts each dim is cut; the parts of all dims are one for each device.

    Args:
      *counts: a number for each dim.

    Raises:
      ArgumentTypeError: a number is no integer.
      ArgumentError: one is not positive.

    >>> Parts(2, 1)
    Parts(2, 1)
    """

    __slots__ = ()

    def __new__(cls, *counts: int) -> Self:
        """Check the numbers."""
        for count in counts:
            if not isinstance(count, int | np.integer) or isinstance(count, bool):
                raise ArgumentTypeError.refusing("counts", count, "must be an integer", "Parts")
            if count < 1:
                raise ArgumentError.refusing("counts", count, "must be positive", "Parts")
        return super().__new__(cls, map(int, counts))

    def __reduce__(self) -> Any:
        return Parts, tuple(self)

    def __repr__(self) -> str:
        return f"Parts({', '.join(map(str, self))})"


def get_num_partitions(*partitions: Any) -> int | None:
    """Return into how many parts arrays are cut: the product of each of several `Parts`.

    Args:
      *partitions: pytrees of `Parts` and None.

    Returns:
      The number; None where there are no `Parts`.

    Raises:
      ArgumentTypeError: a leaf is neither.
      ArgumentError: products differ.

    >>> get_num_partitions((Parts(2, 1), None), Parts(1, 2))
    2
    """
    leaves = checked_parts(partitions, "partitions", "get_num_partitions")
    numbers = {math.prod(leaf): leaf for leaf in leaves}
    if len(numbers) > 1:
        raise ArgumentError(
            f"partitions={leaves} are for {sorted(numbers)} devices, by their products; all must "
            "be for as many",
            argument="partitions",
            counts=tuple(sorted(numbers)),
        )
    return next(iter(numbers), None)


def reconcile_num_partitions(inner: Any, outer: int | None) -> int:
    """Return the number of parts in a function, from what is said in it and outside.

    Args:
      inner: pytrees of `Parts` and None: those of `with_sharding_constraint` in the function.
      outer: the number that is said of the function; None if nothing is.

    Returns:
      The number; 1 where nothing is said anywhere.

    Raises:
      ArgumentError: they differ.

    >>> reconcile_num_partitions([Parts(2, 2)], None), reconcile_num_partitions([], None)
    (4, 1)
    """
    own = get_num_partitions(inner)
    if outer is not None and own is not None and own != outer:
        raise ArgumentError(
            f"with_sharding_constraint with {inner} is for {own} devices, and the function around "
            f"it is partitioned over {outer}; use Parts whose product is {outer}",
            argument="parts",
            count=own,
            partitions=outer,
        )
    return own or outer or 1


def get_global_aval(
    local_aval: Any, global_parts: Parts | None, local_parts: Parts | None
) -> ShapeDtypeStruct:
    """Return the shape that all processes together have, from that of one.

    Args:
      local_aval: has the shape and dtype of what a process has.
      global_parts: into how many parts the whole is cut; None where all processes have it.
      local_parts: how many of these the process has.

    Raises:
      ArgumentError: numbers do not divide each other.

    >>> import gpushard as gs
    >>> get_global_aval(gs.ShapeDtypeStruct((4, 2), "int8"), Parts(4, 1), Parts(2, 1)).shape
    (8, 2)
    """
    factors = _factors(local_aval, global_parts, local_parts, "get_global_aval")
    shape = [n * factor for n, factor in zip(local_aval.shape, factors, strict=True)]
    return ShapeDtypeStruct(tuple(shape), local_aval.dtype)


def get_local_aval(
    global_aval: Any, global_parts: Parts | None, local_parts: Parts | None
) -> ShapeDtypeStruct:
    """Return the shape that one process has, from that of all together.

    Args:
      global_aval: has the shape and dtype of the whole.
      global_parts: into how many parts the whole is cut; None where all processes have it.
      local_parts: how many of these the process has.

    Raises:
      ArgumentError: numbers do not divide each other, or the shape.

    >>> import gpushard as gs
    >>> get_local_aval(gs.ShapeDtypeStruct((8, 2), "int8"), Parts(4, 1), Parts(2, 1)).shape
    (4, 2)
    """
    factors = _factors(global_aval, global_parts, local_parts, "get_local_aval")
    for dim, (n, factor) in enumerate(zip(global_aval.shape, factors, strict=True)):
        if n % factor:
            raise ArgumentError(
                f"get_local_aval: dim {dim} of shape {tuple(global_aval.shape)} has {n} elements, "
                f"which do not come in {factor} equal parts; pad it",
                argument="global_aval",
                dim=dim,
                size=n,
                parts=factor,
            )
    shape = [n // factor for n, factor in zip(global_aval.shape, factors, strict=True)]
    return ShapeDtypeStruct(tuple(shape), global_aval.dtype)


def _factors(aval: Any, whole: Parts | None, local: Parts | None, what: str) -> Sequence[int]:
    """Return how many times as long as that of a process each dim of the whole is."""
    if whole is None:
        return (1,) * len(aval.shape)
    if local is None or not len(whole) == len(local) == len(aval.shape):
        raise ArgumentError(
            f"{what}: global_parts={whole} and local_parts={local} for the shape "
            f"{tuple(aval.shape)}; give one number for each dim in both",
            argument="local_parts",
        )
    for dim, (n, own) in enumerate(zip(whole, local, strict=True)):
        if n % own:
            raise ArgumentError(
                f"{what}: dim {dim} has {n} parts in all, and {own} in this process, which does "
                "not divide that",
                argument="local_parts",
                dim=dim,
                parts=(n, own),
            )
    return [n // own for n, own in zip(whole, local, strict=True)]


def parts_in(partitions: Any) -> list[Any]:
    """Return the leaves of a pytree of parts, without None."""
    return tree.leaves(partitions)


def checked_parts(partitions: Any, argument: str, what: str) -> list[Parts]:
    """Return the leaves of a pytree of parts, which all must be `Parts`.

    Raises:
      ArgumentTypeError: one is something else.
    """
    leaves = parts_in(partitions)
    for leaf in leaves:
        if not isinstance(leaf, Parts):
            raise ArgumentTypeError.refusing(
                argument, leaf, "must be Parts, such as Parts(2, 1), or None", what
            )
    return leaves
