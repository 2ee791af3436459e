"""Find and import the optional libraries of the CUDA backend."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from gpushard._frozen import dataclass


def installed_version(package: str) -> str | None:
    """Return the version of an installed package without importing it, or None.

    >>> installed_version("no such package") is None
    True
    """
    metadata = importlib.import_module("importlib.metadata")  # takes 20 ms, so only on demand
    try:
        version: str = metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
    return version


@dataclass(frozen=True)
class Libraries:
    """Functions that find and import optional libraries, or fakes of them in tests."""

    # Returns the version of a package by its name on PyPI; None if it is not installed.
    version: Callable[[str], str | None] = installed_version
    load: Callable[[str], Any] = importlib.import_module  # imports a module by its name


INSTALLED = Libraries()


def one_line(error: BaseException) -> str:
    r"""Return the class and the message of an error, short and without line breaks.

    >>> one_line(ValueError("first\n\n  second"))
    'ValueError: first second'
    """
    text = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return text if len(text) <= 300 else f"{text[:297]}..."
