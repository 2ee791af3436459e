"""What tracing, lowering and compiling take for functions of 100, 1,000 and 10,000 operations."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from bench.case import FLOOR, JAX, OURS, Case, Config, Goal, Result, Side
from bench.measure import timed
from gpushard.testing import runtime

P = gs.P

SIDE = 40
"""Rows and columns of the arrays: what operations compute takes no time."""

ROWS, COLUMNS = P("x"), P(None, "x")


def chain(x: Any, y: Any, count: int) -> Any:
    """Operations on elements in a row."""
    for _ in range(count // 2):
        x = x * 0.999 + 0.001
    return x


def wide(x: Any, y: Any, count: int) -> Any:
    """Chains that a sum joins at the end."""
    parts = []
    for n in range(count // 10):
        part = x + n / count
        for _ in range(8):
            part = gnp.tanh(part)
        parts.append(part)
    return functools.reduce(lambda a, b: a + b, parts)


def ladder(x: Any, y: Any, count: int) -> Any:
    """Operations that each take the two values before."""
    for _ in range(count // 2):
        x, y = y, (x + y) * 0.5
    return y


def reach(x: Any, y: Any, count: int) -> Any:
    """Operations that take the value before, and one from the first half."""
    values = [x]
    for n in range(count // 2):
        values.append(gnp.tanh(values[-1] + values[n // 2]))
    return values[-1]


def reductions(x: Any, y: Any, count: int) -> Any:
    """Sums along rows, which are whole, and what needs them."""
    for _ in range(count // 3):
        x = x - x.mean(-1, keepdims=True) * 0.5
    return x


def merged(x: Any, y: Any, count: int) -> Any:
    """Sums along columns, which are split."""
    for _ in range(count // 3):
        x = x - x.mean(0) * 0.5
    return x


def views(x: Any, y: Any, count: int) -> Any:
    """Parts of rows, added up."""
    total = x[0, 1:]
    for n in range(count // 3):
        total = (total + x[n % SIDE, : SIDE - 1])[::1]
    return total


def turns(x: Any, y: Any, count: int) -> Any:
    """Views of views."""
    for _ in range(count // 4):
        x = (x[None].reshape(SIDE, SIDE).T + 1) * 0.5
    return x


def shapes(x: Any, y: Any, count: int) -> Any:
    """Operations on arrays of different shapes, which have no loop in common."""
    most = SIDE - 2
    sizes = [(2 + n % most, 2 + n // most % most) for n in range(count // 3)]
    return [gnp.tanh(y[:rows, :columns]) * 0.5 for rows, columns in sizes]


def sorts(x: Any, y: Any, count: int) -> Any:
    """Operations that are no loops, and some that are."""
    for _ in range(count // 2):
        x = gnp.sort(x, axis=-1) * 0.5
    return x


def layouts(x: Any, y: Any, count: int) -> Any:
    """A chain of values that lie in two ways."""
    for _ in range(count // 4):
        x = gnp.tanh(x + y)
        y = (y + x) * 0.5
    return y


def transposes(x: Any, y: Any, count: int) -> Any:
    """A chain in which each value meets its transpose."""
    for _ in range(count // 3):
        x = (x + x.T) * 0.5
    return x


def products(x: Any, y: Any, count: int) -> Any:
    """Products of matrices, with operations on elements between them."""
    for _ in range(count // 2):
        x = gnp.tanh(x @ y)
    return x


def results(x: Any, y: Any, count: int) -> Any:
    """Values that are all returned."""
    return [x * float(n) for n in range(count)]


FORMS: dict[str, tuple[Callable[..., Any], gs.P]] = {
    form.__name__: (form, COLUMNS if form is layouts else ROWS)
    for form in (
        chain, wide, ladder, reach, reductions, merged, views, turns, shapes, sorts, layouts,
        transposes, products, results,
    )
}  # fmt: skip
"""Functions of two arrays and a number of operations; where the second array lies."""


def arrays(spec: gs.P) -> list[Any]:
    """Return the two arrays on 8 devices, the second one where a spec says."""
    mesh = gs.make_mesh((8,), ("x",))
    values = np.random.default_rng(0).random((2, SIDE, SIDE))
    specs = (ROWS, spec)
    return [gs.device_put(v, gs.NamedSharding(mesh, s)) for v, s in zip(values, specs, strict=True)]


def compiled(form: Callable[..., Any], count: int, given: list[Any]) -> Any:
    """Trace a function, lower and compile it, and say how much memory it takes."""
    made = gs.jit(lambda x, y: form(x, y, count)).lower(*given).compile()
    made.memory_analysis()
    return made


def cases(config: Config) -> Iterator[Case]:
    """Every form in three sizes."""
    for name, (form, spec) in FORMS.items():
        for count in config.pick((100, 1000, 10_000), (10, 20, 40)):
            yield _case(name, form, spec, count)


def _case(name: str, form: Callable[..., Any], spec: gs.P, count: int) -> Case:
    def setup() -> tuple[contextlib.ExitStack, list[Any]]:
        stack = contextlib.ExitStack()  # a runtime of its own: nothing is planned yet
        stack.enter_context(runtime(host_devices=8, compiler=""))
        return stack, arrays(spec)

    def check() -> None:
        stack, given = setup()
        with stack:
            pairs = compiled(form, count, given)(*given), form(*given, count)
            for got, want in zip(*map(gs.tree.leaves, pairs), strict=True):
                np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-6, atol=1e-9)

    def discard(argument: tuple[contextlib.ExitStack, list[Any]], made: Any) -> None:
        argument[0].close()

    def run(argument: tuple[contextlib.ExitStack, list[Any]]) -> Any:
        return compiled(form, count, argument[1])

    return Case(
        name=f"{name}, {count:,}",
        table="seconds to compile functions without a C compiler",
        sides=[Side(OURS, timed(run, setup, discard)), Side(JAX, None), Side(FLOOR, None)],
        check=check,
        facts={"form": name, "operations": count},
    )


def goals(results: list[Result]) -> list[Goal]:
    """Say how time grows with the operations: the exponent from each size to the next."""
    found = []
    for name in FORMS:
        own = [each for each in results if each.case.facts["form"] == name]
        own.sort(key=lambda each: int(each.case.facts["operations"]))
        for first, second in itertools.pairwise(own):
            sizes = [int(each.case.facts["operations"]) for each in (first, second)]
            times = second.timings[OURS].median / first.timings[OURS].median
            value = math.log(times) / math.log(sizes[1] / sizes[0])
            found.append(Goal(f"exponent of {name}, {sizes[0]:,} to {sizes[1]:,}", value))
    return found
