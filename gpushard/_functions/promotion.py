"""The dtype that values, numbers and types have in common."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard import dtypes
from gpushard._functions.values import is_value
from gpushard._ops.scalars import is_number
from gpushard.errors import ArgumentTypeError

_EXAMPLES: dict[str, Any] = {"i": 0, "f": 0.0, "c": 0j}


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """Return the dtype that operands promote to, by the rules of NumPy 2.

    Args:
      *arrays_and_dtypes: arrays, dtypes and Python numbers.

    Raises:
      ArgumentTypeError: the operands have no common dtype.
    """
    try:
        return dtypes.result_type(*map(promoting, arrays_and_dtypes))
    except (TypeError, ValueError):
        names = ", ".join(str(getattr(x, "dtype", x)) for x in arrays_and_dtypes)
        raise ArgumentTypeError(
            f"result_type: {names or 'nothing'} has no common type; convert one with astype",
            argument="arrays_and_dtypes",
        ) from None


def promoting(x: Any) -> Any:
    """Return an example of a value for NumPy's promotion: its dtype, or a Python number."""
    if is_value(x):
        weak = getattr(x, "weak_type", False)
        return _EXAMPLES.get(x.dtype.kind, x.dtype) if weak else x.dtype
    return x if is_number(x) else np.dtype(x) if isinstance(x, type | str) else x
