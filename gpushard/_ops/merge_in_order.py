"""Merge the parts of a reduction by a ufunc, in order; on a GPU up to eight in one launch."""

from __future__ import annotations

import functools
from collections import deque
from typing import Any

import numpy as np

from gpushard._ops.row import State
from gpushard._runtime.work_sharing import share
from gpushard._typing import Dtype, LocalArray, LocalArrays
from gpushard.dtypes import kind_of

_AT_ONCE = 8
"""The most arrays of a launch; more might not fit the kernel's arguments."""

_STRIP = 1 << 15  # elements per strip on the host: they stay in cache
_STRIPS = 4  # the least strips per thread
_MOST_THREADS = 8  # the most threads that merge one block
_STEPS = {
    "add": "s + a",
    "multiply": "s * a",
    "logical_and": "s && a",
    "logical_or": "s || a",
    "minimum": "isnan(s) || !(isnan(a) || a < s) ? s : a",
    "maximum": "isnan(s) || !(isnan(a) || s < a) ? s : a",
}
"""The C++ expression of a ufunc on two elements. The first of several NaNs stays."""

_WHOLE = {"minimum": "a < s ? a : s", "maximum": "s < a ? a : s"}  # for types without NaNs


class InOrder:
    """Merges states of one array by a ufunc."""

    def __init__(self, xp: Any, name: str) -> None:
        self._function = getattr(xp, name)
        self._xp, self._name = xp, name

    def __call__(self, a: State, b: State, m: int, n: int) -> State:
        """Merge two states."""
        return (self._function(a[0], b[0]),)

    def elementwise(self, dtype: Dtype, count: int) -> Any:
        """Return a function that merges `count` arrays of a type at once; None if there is none."""
        step = _STEPS.get(self._name, "")
        if kind_of(dtype) != "f":
            step = _WHOLE.get(self._name, step)
        if not hasattr(self._xp, "ElementwiseKernel") or not step or _unordered(dtype, self._name):
            return None
        return _kernel(self._xp, step, count)

    def at_once(self, arrays: LocalArrays, out: Any = None) -> LocalArray | None:
        """Merge two or more arrays of one type and shape; None if that takes a call for each.

        `out` is memory for the result that shares nothing with the parts.
        """
        dtype = arrays[0].dtype
        if self._xp is np:
            return self._in_strips(arrays, out)
        if self.elementwise(dtype, 2) is None:
            return None
        if out is None or out.dtype != dtype or out.shape != arrays[0].shape:
            out = self._xp.empty_like(arrays[0], order="C")
        result = arrays[0]
        for start in range(1, len(arrays), _AT_ONCE - 1):
            more = arrays[start : start + _AT_ONCE - 1]
            self.elementwise(dtype, 1 + len(more))(result, *more, out)
            result = out
        return result

    def _in_strips(self, arrays: LocalArrays, out: Any) -> LocalArray | None:
        """Merge long arrays piece by piece, so intermediate results stay in cache."""
        first = arrays[0]
        dense = all(array.flags.c_contiguous for array in arrays)
        if first.size <= _STRIP or not dense or first.dtype.isbuiltin != 1:
            return None
        if out is None or out.dtype != first.dtype or out.shape != first.shape:
            out = np.empty_like(first)
        if not out.flags.c_contiguous:
            return None
        lines, target, function = (
            [array.reshape(-1) for array in arrays],
            out.reshape(-1),
            self._function,
        )
        left = deque(range(0, first.size, _STRIP))

        def work() -> None:
            while left:
                try:
                    start = left.popleft()
                except IndexError:  # another thread took the last one
                    return
                part = slice(start, start + _STRIP)
                function(lines[0][part], lines[1][part], out=target[part])
                for line in lines[2:]:
                    function(target[part], line[part], out=target[part])

        share([work] * min(_MOST_THREADS, max(1, len(left) // _STRIPS)))
        return out


def _unordered(dtype: Any, name: str) -> bool:
    return dtype.kind == "c" and name in _WHOLE


@functools.lru_cache(maxsize=64)
def _kernel(xp: Any, step: str, count: int) -> Any:
    names = [f"in{n}" for n in range(count)]
    body = [f"T s = {names[0]};"]
    body += [f"{{ const T a = {name}; s = {step}; }}" for name in names[1:]]
    return xp.ElementwiseKernel(
        ", ".join(f"T {name}" for name in names),
        "T out0",
        "".join([*body, "out0 = s"]),
        f"gpushard_merge_{count}",
        options=("--fmad=false",),
    )
