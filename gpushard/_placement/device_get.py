"""Copy the values of arrays to the host."""

from __future__ import annotations

from typing import Any, overload

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.key_array import KeyArray
from gpushard._functions.host_reads import concrete
from gpushard._typing import HostArray


@overload
def device_get(x: Array) -> HostArray: ...


@overload
def device_get(x: Any) -> Any: ...


def device_get(x: Any) -> Any:
    """Copy the values of arrays to the host.

    Args:
      x: an array, or a pytree of arrays. Random keys, and leaves that are not `Array`s, are
        returned unchanged.

    Returns:
      Read-only NumPy arrays in the structure of `x`.

    Raises:
      ExecutionError: the work that computes a value failed.
      TransferGuardError: a guard forbids even explicit transfers.

    >>> import gpushard as gs
    >>> device_get({"a": gs.numpy.arange(3)})
    {'a': array([0, 1, 2])}
    """
    for leaf in tree.leaves(x):
        if _has_host_value(leaf):
            leaf.copy_to_host_async()
    return tree.map(
        lambda leaf: (
            concrete(leaf, "device_get(x)", explicit=True) if _has_host_value(leaf) else leaf
        ),
        x,
    )


def _has_host_value(x: Any) -> bool:
    return isinstance(x, Array) and not isinstance(x, KeyArray)
