"""List the arrays that are in use."""

from __future__ import annotations

from gpushard._array.array import Array
from gpushard._runtime import current_runtime


def live_arrays(platform: str | None = None) -> list[Array]:
    """List all arrays that the program still holds and has not deleted.

    Args:
      platform: "cpu" or "gpu" lists only arrays on devices of that platform; None lists all.
    """
    arrays = [a for a in current_runtime.current().live_arrays() if not a.is_deleted()]
    return [array for array in arrays if platform in (None, array.platform())]
