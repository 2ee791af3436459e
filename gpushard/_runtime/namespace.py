"""Functions for the arrays of a backend beyond those of NumPy: kernels and special functions."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import numpy as np

from gpushard.errors import MissingLibraryError

_MODULES = {
    "numpy": "scipy.special",
    "gpushard._runtime.cuda.kernels.namespace": "gpushard._runtime.cuda.kernels.special",
}
"""The module of special functions for each array namespace, by name."""


def own_kernels(xp: Any) -> Any:
    """Return this package's kernels for an array namespace; None if there are none.

    Such a kernel is one launch where the library needs many. A row looks for them when it builds
    its kernel, and uses functions of the library if there are none.

    >>> import numpy
    >>> own_kernels(numpy) is None
    True
    """
    return getattr(xp, "own_kernels", None)


def special_functions(xp: Any) -> Any:
    """Return the module of special functions for the arrays of a namespace.

    Raises:
      MissingLibraryError: the library is not installed.
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
    """Return a ufunc of SciPy, also if SCIPY_ARRAY_API=1 has wrapped it in a function.

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    ufunc: np.ufunc = inspect.unwrap(getattr(special_functions(np), name))
    return ufunc
