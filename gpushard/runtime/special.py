"""Where the special functions are that belong to a backend's arrays."""

from __future__ import annotations

import importlib
from typing import Any

from gpushard.errors import MissingLibraryError

_MODULES = {"numpy": "scipy.special", "cupy": "gpushard.runtime.cuda.special"}
"""For each namespace of arrays, by name."""


def special_functions(xp: Any) -> Any:
    """Return the module of special functions for the arrays of a namespace.

    Args:
      xp: NumPy or CuPy.

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
