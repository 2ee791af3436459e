"""Read the sources of kernels, from the package or from the repository."""

from __future__ import annotations

import functools
import re
from pathlib import Path

_PACKAGE = Path(__file__).parents[3]
_INCLUDE = re.compile(r'^#include "(\w+\.cuh)"$', re.MULTILINE)


@functools.lru_cache(maxsize=64)
def kernel_source(name: str) -> str:
    """Read a source such as "box_copy" and insert its includes, as compilers know no folders.

    Raises:
      FileNotFoundError: the source is missing; the installation is incomplete.

    >>> "#include" in kernel_source("box_copy")
    False
    """
    text = _find(f"{name}.cu").read_text(encoding="utf-8")
    return _INCLUDE.sub(lambda match: _read_header(match[1]), text)


@functools.lru_cache(maxsize=64)
def kernel_header(name: str) -> str:
    """Read a file of functions that kernels call, such as "random"."""
    return _read_header(f"{name}.cuh")


def _read_header(name: str) -> str:
    return _find(name).read_text(encoding="utf-8").replace("#pragma once\n", "")


def _find(name: str) -> Path:
    for folder in (_PACKAGE / "kernels", _PACKAGE.parent / "kernels"):
        if (folder / name).exists():
            return folder / name
    raise FileNotFoundError(
        f"the kernel {name} is not there; gpushard is not installed completely, install it again"
    )
