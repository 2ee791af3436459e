"""The values that a loop carries: change the first ones until the body returns values like them.

A loop calls its body with the values that the body returned last. One graph serves all calls if the
body returns values of the same types, named dims and layouts as it takes. `settle_loop` changes the
first values until this is so. An example, where `w` holds one float32 number on each of 4 devices:

    fori_loop(0, 3, lambda i, x: x * w, 1)

1. The body is traced for `x = 1`, a weak int64 on one device, and returns a float32. The type of a
   Python number gives way to that, so the loop begins with a float32.
2. The body is traced for a float32 on one device. It returns one on the 4 devices of `w`, so the
   first value moves there.
3. The body is traced for a float32 on 4 devices and returns the same. The loop runs this graph.

Results may still lack what the first values have: a strong type, a named dim, a layout. Then, and
after four traces in any case, the body is traced once more with its results converted to these. A
result of another shape or type is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from gpushard._array.key_array import is_keys
from gpushard._transforms.control_flow.bodies import (
    TracedControl,
    Value,
    add_names,
    fits,
    lie_alike,
    make_all_like,
    make_strong,
)
from gpushard._transforms.control_flow.body_cache import BodyCache
from gpushard._transforms.values.frames import merge_names
from gpushard.dtypes import result_type


def _widen(results: Sequence[Value], values: Sequence[Value]) -> list[Value]:
    """Change the first values of a loop to the types, named dims and layouts of its results.

    A value that needs no change is returned itself.
    """
    numbers = [*map(_gives_way, values, results)]
    if any(numbers):
        return [
            Value(old.array.astype(new.array.dtype), old.names) if number else old
            for new, old, number in zip(results, values, numbers, strict=True)
        ]
    wider = []
    for new, old in zip(results, values, strict=True):
        names = merge_names(new.names, old.names)
        array = add_names(old, names)
        if array._weak_type and not new.array._weak_type:
            array = make_strong(array)
        follows = new.array._committed or not array._committed
        if names == new.names and follows and not lie_alike(new.array, array):
            array = array._moved(new.array._sharding, "control flow")
        wider.append(old if array is old.array else Value(array, names))
    return wider


_NUMBERS = {"i": int, "f": float, "c": complex}


def _gives_way(old: Value, new: Value) -> bool:
    """Whether a value came from a Python number and takes the type of another value."""
    number = _NUMBERS.get(old.array.dtype.kind) if old.array._weak_type else None
    dtype = new.array.dtype
    if number is None or dtype == old.array.dtype or is_keys(new.array):
        return False
    return bool(old.shape == new.shape and result_type(number, dtype) == dtype)


class Loop(TracedControl, Protocol):
    """A loop with its functions traced."""

    def check(self, values: Sequence[Value]) -> None:
        """Check that the body returns the structure, shapes and types of `values`."""

    @property
    def carried(self) -> Sequence[Value]:
        """Results of the body that the next call of it takes."""


_L = TypeVar("_L", bound=Loop)


def settle_loop(
    cache: BodyCache, trace_loop: Callable[[Sequence[Value], Any], _L], values: list[Value]
) -> tuple[list[Value], _L]:
    """Change the first values of a loop until its body returns values like the ones it takes.

    The opening of this file has an example.

    Args:
      cache: traced bodies of the same functions.
      trace_loop: traces the loop for some values; the second argument is `finish` of `trace_body`.
      values: the first values, as the user gave them.

    Returns:
      The first values to run with, and the traced loop.
    """
    initial, cached = values, cache.get(values)
    if cached is not None:
        loop, rounds = cached
        for returned in rounds:
            values = _widen(returned, values)
        return values, loop
    fitting = False
    rounds = []  # results of each trace that widened the values, to widen others alike
    for _ in range(4):
        loop = trace_loop(values, None)
        if len(values) != len(loop.carried) or not any(map(_gives_way, values, loop.carried)):
            loop.check(values)
        wider = _widen(loop.carried, values)
        if all(new is old for new, old in zip(wider, values, strict=True)):
            fitting = all(map(fits, loop.carried, values))
            break
        rounds.append(loop.carried)
        values = wider
    if not fitting:
        loop = trace_loop(values, functools.partial(make_all_like, values))
        loop.check(values)
    cache.put(initial, (loop, rounds), loop)
    return values, loop
