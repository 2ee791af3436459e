"""Which of many sources to compile: few, that have each template with each type.

Most sources differ in types and numbers alone. What a source is made from shows in the name of its
kernel, which CuPy extends by two underscores and types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from gpushard._runtime.cuda.kernels.elementwise import NAMES

_KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?void\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+?)(?:__\w*)?\s*\("
)
_TYPES = re.compile(
    r"\b(?:" + "|".join(map(re.escape, sorted(NAMES.values(), key=len, reverse=True))) + r")(?!\w)"
)

Feature = tuple[str, str]
"""A template, and a type that it is used with."""


def templates(text: str) -> set[str]:
    """Return what a source is made from.

    >>> text = 'extern "C" __global__ void cupy_add__int_int_int(int* x)'
    >>> templates(text)
    {'cupy_add'}
    """
    return {match[1] for match in _KERNEL.finditer(text)}


def features(text: str) -> set[Feature]:
    """Return what a source shows of the compiler.

    >>> sorted(features("__global__ void f(const unsigned int* x, complex<float> y)"))
    [('f', ''), ('f', 'complex<float>'), ('f', 'unsigned int')]
    """
    types = {"", *_TYPES.findall(text)}
    return {(template, each) for template in templates(text) for each in types}


def covering(sources: Mapping[str, Iterable[Feature]]) -> list[str]:
    """Return names of sources that have all features together.

    Each is the one that has most features that those before it lack, then the one of the least
    name.

    >>> covering({"a": [("f", "int")], "b": [("f", "int"), ("f", "float")], "c": [("g", "")]})
    ['b', 'c']
    """
    left = {name: set(each) for name, each in sorted(sources.items())}
    chosen = []
    while any(left.values()):
        best = max(left, key=lambda name: len(left[name]))
        chosen.append(best)
        covered = left.pop(best)
        for each in left.values():
            each -= covered
    return chosen
