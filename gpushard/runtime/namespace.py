"""What a backend's arrays have besides the functions of NumPy."""

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


def own_kernels(xp: Any) -> Any:
    """Return the kernels that a namespace of arrays has besides its functions, or None.

    They take one launch for what takes many of the library's. A row asks for them when it makes its
    kernel, and does without where there are none.

    >>> import numpy
    >>> own_kernels(numpy) is None
    True
    """
    return getattr(xp, "own_kernels", None)


def special_functions(xp: Any) -> Any:
    """Return the module of special functions for the arrays of a namespace.

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

    Raises:
      MissingLibraryError: SciPy is not installed.
    """
    ufunc: np.ufunc = inspect.unwrap(getattr(special_functions(np), name))
    return ufunc
