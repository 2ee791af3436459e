"""Numbers that the host must know, because the size of a result depends on them, or an error.

These are the only reads of the host that nobody asks for by name. They fetch a number, or a few
positions, and no transfer guard forbids them; but they wait for whatever has to be computed first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.movement.host import read_host
from gpushard.typing import HostArray


def known(x: Any) -> Any:
    """Return an array without dims, or of one element, as a number of Python's.

    Raises:
      ExecutionError: the work that should have made it failed.
    """
    return read_host(x._live()).item()


def known_array(x: Any) -> HostArray:
    """Return the value of a small array, fetched once.

    Raises:
      ExecutionError: the work that should have made it failed.
    """
    data = x._held()
    if not isinstance(data.host, np.ndarray):
        data.host = read_host(data.buffer)
    return data.host
