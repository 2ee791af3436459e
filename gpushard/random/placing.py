"""Place random numbers: each device draws its own shard, and only the key moves."""

from __future__ import annotations

from typing import Any

from gpushard._array.array import Array, ConcreteArray
from gpushard._functions.values import is_traced, is_value, wanted
from gpushard._geometry.sharding import Sharding
from gpushard._ops.bind import bind
from gpushard._ops.row import Params, Row
from gpushard._placement.default_placement import default_sharding, everywhere
from gpushard._placement.device_put import as_sharding, device_put
from gpushard._typing import Shape


def bind_at(
    row: Row, operands: tuple[Any, ...], params: Params, shape: Shape, out_sharding: Any = None
) -> Any:
    """Run an operation on a key and parameters.

    The result goes to the first of these: `out_sharding`, the devices of parameters with dims, the
    devices of a committed key, the default placement of new data.
    """
    key, *others = operands
    if out_sharding is not None:
        to = _sharding_of(out_sharding, len(shape), *others)
        return committed(bind(row, operands, params, to), True)
    if not _has_place(key) or key.committed or any(is_value(x) and x.shape for x in others):
        return bind(row, operands, params)
    default = default_sharding(shape)
    if default == key.sharding:
        return bind(row, operands, params)
    return committed(bind(row, operands, params, default), False)


def _has_place(x: Any) -> bool:
    return isinstance(x, Array) and not is_traced(x)


def moved_to(out_sharding: Any, x: Any) -> Any:
    """Move a result to `out_sharding`, if it is not None."""
    if out_sharding is None:
        return x
    return device_put(x, _sharding_of(out_sharding, x.ndim, x))


def _sharding_of(out_sharding: Any, ndim: int, *operands: Any) -> Sharding:
    return wanted(out_sharding, *operands) or as_sharding(out_sharding, ndim, "out_sharding")


def new_data(x: Any) -> Array:
    """Replicate host data on the default devices of new data."""
    placed: Array = device_put(x, everywhere(default_sharding(x.shape)))
    return committed(placed, False)


def committed(x: Any, chosen: bool) -> Any:
    """Return an array as committed or uncommitted."""
    if not _has_place(x) or x.committed == chosen:
        return x
    return ConcreteArray(x._live(), x.sharding, committed=chosen)


def beside(key: Any, x: Any) -> Any:
    """Replicate an uncommitted key on all devices of an array."""
    if not _has_place(key) or not _has_place(x) or key.committed:
        return key
    return committed(device_put(key, everywhere(x.sharding)), False)
