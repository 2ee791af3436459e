"""Running rows that make arrays of nothing, where their results go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError
from gpushard.geometry.format import Format
from gpushard.geometry.sharding import Sharding
from gpushard.ops.bind import bind
from gpushard.ops.row import Row
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import as_sharding, device_put
from gpushard.typing import Shape


def named_place(device: Any, out_sharding: Any) -> tuple[str, Any]:
    """Return which of two arguments for a place was given, and the place, or None."""
    if device is not None and out_sharding is not None:
        raise ArgumentError(
            "device= and out_sharding= are both given; they mean the same, give one",
            argument="out_sharding",
        )
    return ("device", device) if out_sharding is None else ("out_sharding", out_sharding)


def place_of(device: Any, out_sharding: Any) -> Sharding | Format | None:
    """Return where new data goes; None if neither of two arguments says so."""
    argument, place = named_place(device, out_sharding)
    if place is None or isinstance(place, Format):  # which fits some numbers of dims only
        return place
    return as_sharding(place, 0, argument)


def made(row: Row, shape: Shape, dtype: np.dtype[Any], numbers: Sequence[Any], place: Any) -> Array:
    """Run a row without operands where its result goes."""
    committed = place is not None
    sharding = as_sharding(place, len(shape)) if committed else default_sharding(shape)
    return made_on(row, shape, dtype, numbers, sharding, committed=committed)


def made_on(
    row: Row,
    shape: Shape,
    dtype: np.dtype[Any],
    numbers: Sequence[Any],
    sharding: Sharding,
    *,
    committed: bool,
) -> Array:
    """Run a row without operands on a sharding; arguments as for `made`."""
    return cast("Array", bind(row, numbers, (shape, dtype, committed), sharding))


def kept_at(x: Any, place: Any) -> Any:
    """Return what was computed from an array made at a place, at that place.

    Operations do not split dims of length 0 or 1.
    """
    return x if place is None else device_put(x, place)
