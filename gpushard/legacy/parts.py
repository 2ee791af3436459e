"""`Parts`: the number of parts that each axis is cut into, and shapes that follow. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from gpushard import tree
from gpushard._array.shape_dtype import ShapeDtypeStruct
from gpushard.errors import ArgumentError, ArgumentTypeError


class Parts(tuple[int, ...]):
    """The numbers of parts into which `sharded_jit` cuts the axes of an array.

    Each part is on one device, so the product of the numbers is the number of devices.

    Args:
      *counts: the number of parts for each axis.

    Raises:
      ArgumentTypeError: a number is not an integer.
      ArgumentError: a number is not positive.

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
    """Compute the number of devices that `Parts` need: the product of their numbers.

    Args:
      *partitions: pytrees of `Parts` and None.

    Returns:
      The number of devices; None if there are no `Parts`.

    Raises:
      ArgumentTypeError: a leaf is neither `Parts` nor None.
      ArgumentError: the products of several `Parts` differ.

    >>> get_num_partitions((Parts(2, 1), None), Parts(1, 2))
    2
    """
    leaves = check_parts(partitions, "partitions", "get_num_partitions")
    numbers = {math.prod(leaf): leaf for leaf in leaves}
    if len(numbers) > 1:
        raise ArgumentError(
            f"partitions={leaves} are for {sorted(numbers)} devices, by their products. Try: use "
            "Parts with one product",
            argument="partitions",
            counts=tuple(sorted(numbers)),
        )
    return next(iter(numbers), None)


def reconcile_num_partitions(inner: Any, outer: int | None) -> int:
    """Compute the number of devices of a function from its constraints and its arguments.

    Args:
      inner: pytrees of `Parts` and None, from the calls of `with_sharding_constraint` in the
        function.
      outer: the number of devices from the arguments of `sharded_jit`; None if these have no
        `Parts`.

    Returns:
      The number of devices; 1 if there are no `Parts` at all.

    Raises:
      ArgumentError: the numbers differ.

    >>> reconcile_num_partitions([Parts(2, 2)], None), reconcile_num_partitions([], None)
    (4, 1)
    """
    from_constraints = get_num_partitions(inner)
    if outer is not None and from_constraints is not None and from_constraints != outer:
        raise ArgumentError(
            f"with_sharding_constraint with {inner} is for {from_constraints} devices, and the "
            f"function around it is partitioned over {outer}. Try: use Parts with that product",
            argument="parts",
            count=from_constraints,
            partitions=outer,
        )
    return from_constraints or outer or 1


def get_global_aval(
    local_aval: Any, global_parts: Parts | None, local_parts: Parts | None
) -> ShapeDtypeStruct:
    """Compute the shape of an array in all processes from its shape in one process.

    Args:
      local_aval: an object with the shape and dtype of the part in one process.
      global_parts: the `Parts` of the whole array; None if each process has the whole array.
      local_parts: how many of these parts one process has along each axis, as `Parts`.

    Raises:
      ArgumentError: a number in `local_parts` does not divide the number in `global_parts`.

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
    """Compute the shape of an array in one process from its shape in all processes.

    Args:
      global_aval: an object with the shape and dtype of the whole array.
      global_parts: the `Parts` of the whole array; None if each process has the whole array.
      local_parts: how many of these parts one process has along each axis, as `Parts`.

    Raises:
      ArgumentError: a number in `local_parts` does not divide the number in `global_parts`, or a
        number of parts does not divide an axis.

    >>> import gpushard as gs
    >>> get_local_aval(gs.ShapeDtypeStruct((8, 2), "int8"), Parts(4, 1), Parts(2, 1)).shape
    (4, 2)
    """
    factors = _factors(global_aval, global_parts, local_parts, "get_local_aval")
    for dim, (n, factor) in enumerate(zip(global_aval.shape, factors, strict=True)):
        if n % factor:
            raise ArgumentError(
                f"get_local_aval: axis {dim} of shape {tuple(global_aval.shape)} has {n} elements, "
                f"which do not come in {factor} equal parts. Try: pad it",
                argument="global_aval",
                dim=dim,
                size=n,
                parts=factor,
            )
    shape = [n // factor for n, factor in zip(global_aval.shape, factors, strict=True)]
    return ShapeDtypeStruct(tuple(shape), global_aval.dtype)


def _factors(aval: Any, whole: Parts | None, local: Parts | None, what: str) -> Sequence[int]:
    """Compute for each axis the size of the whole, divided by the size in one process."""
    if whole is None:
        return (1,) * len(aval.shape)
    if local is None or not len(whole) == len(local) == len(aval.shape):
        raise ArgumentError(
            f"{what}: global_parts={whole} and local_parts={local} for the shape "
            f"{tuple(aval.shape)}. Try: give one number for each axis in both",
            argument="local_parts",
        )
    for dim, (n, local_count) in enumerate(zip(whole, local, strict=True)):
        if n % local_count:
            raise ArgumentError(
                f"{what}: axis {dim} has {n} parts in all, and {local_count} in this process. Try: "
                f"give a number of local parts that divides {n}",
                argument="local_parts",
                dim=dim,
                parts=(n, local_count),
            )
    return [n // local_count for n, local_count in zip(whole, local, strict=True)]


def parts_in(partitions: Any) -> list[Any]:
    """List the leaves of a pytree of parts, without None."""
    return tree.leaves(partitions)


def check_parts(partitions: Any, argument: str, what: str) -> list[Parts]:
    """Check that all leaves of a pytree are `Parts`, and list them.

    Raises:
      ArgumentTypeError: a leaf is something else.
    """
    leaves = parts_in(partitions)
    for leaf in leaves:
        if not isinstance(leaf, Parts):
            raise ArgumentTypeError.refusing(
                argument, leaf, "must be Parts, such as Parts(2, 1), or None", what
            )
    return leaves
