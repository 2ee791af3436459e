"""Numbers of arrays that the host needs, where the size of a result depends on them."""

from __future__ import annotations

from typing import Any

from gpushard.numpy.arguments import is_value
from gpushard.placement.device_put import device_get


def read(x: Any) -> Any:
    """Return an array without dims as a number of Python's.

    A transfer guard takes it for a transfer that was asked for: the caller's result cannot be made
    without it.
    """
    return device_get(x).item() if is_value(x) else x.item()
