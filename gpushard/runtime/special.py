"""Where the special functions are that belong to a backend's arrays."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np

from gpushard.errors import MissingLibraryError

_MODULES = {
    "numpy": "scipy.special",
    "gpushard.runtime.cuda.kernels.namespace": "gpushard.runtime.cuda.kernels.special",
}
"""For each namespace of arrays, by name."""


def special_functions(xp: Any) -> Any:
    """Return the module of special functions for the arrays of a namespace.

    Args:
      xp: NumPy, or what stands for it on GPUs.

    Raises:
      MissingLibraryError: it is not installed.
    """
    name = _MODULES[xp.__name__]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise MissingLibraryError(
            f"special functions of {xp.__name__} arrays need {error.name}, which cannot be "
            f"imported ({error}); install it with pip install 'gpushard[special]'",
            library=error.name,
        ) from None


def special_ufunc(name: str) -> np.ufunc:
    """Return a ufunc of SciPy's, which it wraps in a function where SCIPY_ARRAY_API=1 is set.

    Args:
      name: what SciPy calls it.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    found: np.ufunc = inspect.unwrap(getattr(special_functions(np), name))
    return found
