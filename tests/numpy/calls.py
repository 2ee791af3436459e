"""Calls of functions, as a function of the namespace, so that ours and NumPy's read alike."""

from collections.abc import Callable
from typing import Any

import numpy as np

import gpushard as gs
from tests.numpy.compare import agree, put, value

Call = Callable[[Any, Any], Any]
"""Takes `gpushard.numpy` or NumPy, and an array of it."""

KINDS = ["?", "b", "B", "l", "f", "d", "D"]
"""A type of each kind."""


def with_nans(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray:
    """Return numbers, some of them NaN, a whole first line if there is one, and infinities."""
    data = value(shape, dtype)
    flat = data.reshape(-1)
    flat[::3] = np.nan
    if data.ndim > 1:
        data[0] = np.nan
        flat[-1] = np.inf
        flat[-2] = -np.inf
    return data


def alike(call: Call, data: np.ndarray, x: gs.Array, *, exact: bool = False) -> None:
    """Check that a call gives for an array what NumPy gives for its value."""
    agree(lambda: call(gs.numpy, x), lambda: call(np, data), exact=exact)


def everywhere(call: Call, data: np.ndarray, *, exact: bool = False) -> None:
    """Check a call for an array split along each dim, over all devices, and on one."""
    entries: list[tuple[Any, ...]] = [(None,) * dim + ("x",) for dim in range(data.ndim)]
    for entry in (*entries, (("y", "x"),)):
        alike(call, data, put(data, *entry), exact=exact)
    alike(call, data, gs.device_put(data, gs.devices()[1]), exact=exact)
