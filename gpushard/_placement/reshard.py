"""Move arrays between shardings, from shard to shard."""

from __future__ import annotations

from typing import Any, TypeVar

from gpushard import tree
from gpushard._array.array import Array
from gpushard._array.key_array import KeyArray
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._movement.sharding_devices import place_tiling
from gpushard._placement.device_put import as_sharding, places_of_leaves
from gpushard._placement.donation import donated_arrays, give_up
from gpushard.errors import ArgumentTypeError

_T = TypeVar("_T")


def reshard(x: _T, sharding: Any, *, donate: bool = False) -> _T:
    """Move arrays to other shardings, without assembling them on the host.

    Args:
      x: an `Array` or a pytree of arrays.
      sharding: a `Sharding`, or a `PartitionSpec` over the mesh of each array; or a pytree of these
        that is a prefix of `x`.
      donate: whether the arrays in `x` are deleted once all of them have moved. This frees memory
        that no other array shares. If one cannot move, none is deleted.

    Returns:
      Arrays in the structure of `x`.

    Raises:
      ArgumentTypeError: a leaf is not an `Array`.
      ArgumentError: a donated array is in `x` twice.
      ShardingError: a sharding does not fit a shape.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((4, 2), ("x", "y"))
    >>> x = gs.device_put(gs.numpy.arange(16).reshape(4, 4), gs.NamedSharding(mesh, gs.P("x")))
    >>> reshard(x, gs.P("y")).addressable_data(0).shape
    (2, 4)
    """
    return resharded(x, sharding, "sharding", donate=donate)


def resharded(x: _T, sharding: Any, argument: str, *, donate: bool = False) -> _T:
    """Move arrays as `reshard` does; errors name the sharding `argument`."""
    if isinstance(x, Array | KeyArray) and isinstance(sharding, Sharding):  # no trees
        moved: Any = x._moved(sharding, "reshard(x, sharding)")
        if donate:
            give_up(donated_arrays([x], "reshard", "donate"))
        alone: _T = moved
        return alone
    leaves, structure = tree.flatten(x)
    places = places_of_leaves(sharding, x, argument)
    for leaf in leaves:
        if not isinstance(leaf, Array):
            raise ArgumentTypeError(
                f"x holds a {type(leaf).__name__}; reshard moves gpushard arrays, use device_put "
                "for other data",
                argument="x",
                type=type(leaf),
            )
    targets = [_target(*each, argument) for each in zip(leaves, places, strict=True)]
    for leaf, target in zip(leaves, targets, strict=True):
        place_tiling(target, leaf.shape)
    given_up = donated_arrays(leaves, "reshard", "donate") if donate else []
    results = [x._moved(to, "reshard(x, sharding)") for x, to in zip(leaves, targets, strict=True)]
    give_up(given_up)
    result: _T = tree.unflatten(structure, results)
    return result


def _target(x: Array, place: Any, argument: str) -> Sharding:
    if isinstance(place, PartitionSpec) and isinstance(x.sharding, NamedSharding):
        return x.sharding.with_spec(place)
    return as_sharding(place, x.ndim, argument)
