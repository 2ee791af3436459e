"""Random programs with control flow, which NumPy's functions and Python's statements also run.

Numbers are small integers, whatever their type: results are the same to the bit, however sums are
ordered, and conditions never depend on rounding.
`python -m tests.transforms.control_flow.programs --first 7 --count 1` runs those of some seeds, and
prints the one that fails.
"""

from __future__ import annotations

import argparse
import functools
import pprint
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

import gpushard as gs
from gpushard import lax, testing

P = gs.P

Statement: TypeAlias = tuple[Any, ...]
"""What is done, the numbers of two values that it takes, and what else it needs."""

Program: TypeAlias = list[Statement]

SHAPES = ((4, 6), (5, 3), (3, 3))
SPECS = (P(), P("x"), P(None, "y"), P("x", "y"), P(("x", "y")))
DTYPES = ("float64", "float32", "int64")


class Plain:
    """NumPy and Python."""

    xp: Any = np

    def cond(self, holds: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return (yes if holds else no)(*operands)

    def switch(self, number: Any, branches: Sequence[Any], *operands: Any) -> Any:
        return branches[min(max(int(number), 0), len(branches) - 1)](*operands)

    def fori_loop(self, lower: Any, upper: Any, body: Any, value: Any) -> Any:
        for i in range(int(lower), int(upper)):
            value = body(i, value)
        return value

    def while_loop(self, holds: Any, body: Any, value: Any) -> Any:
        while holds(value):
            value = body(value)
        return value

    def scan(self, body: Any, carry: Any, xs: Any, reverse: bool) -> Any:
        made = []
        for x in xs[::-1] if reverse else xs:
            carry, out = body(carry, x)
            made.append(out)
        return carry, np.stack(made[::-1] if reverse else made)

    def map(self, body: Any, xs: Any) -> Any:
        return np.stack([body(x) for x in xs])

    vmap = map

    def prefixes(self, name: str, x: Any, axis: int, reverse: bool) -> Any:
        turned = np.flip(x, axis) if reverse else x
        made = getattr(np, name).accumulate(turned, axis, dtype=x.dtype)
        return np.flip(made, axis) if reverse else made

    def jit(self, function: Any) -> Any:
        return function

    def reshard(self, x: Any, spec: Any) -> Any:
        return x

    def draw(self, key: Any, number: int, x: Any) -> Any:
        return np.asarray(_draw(key, number, x.shape)).astype(x.dtype)


class Ours(Plain):
    """gpushard."""

    xp = gs.numpy

    def __init__(self, mesh: gs.Mesh) -> None:
        self.mesh = mesh
        self.cond: Any = lax.cond
        self.switch: Any = lax.switch
        self.fori_loop: Any = lax.fori_loop
        self.while_loop: Any = lax.while_loop
        self.map: Any = lax.map
        self.jit: Any = gs.jit

    def scan(self, body: Any, carry: Any, xs: Any, reverse: bool) -> Any:
        return lax.scan(body, carry, xs, reverse=reverse)

    def vmap(self, body: Any, xs: Any) -> Any:
        return gs.vmap(body)(xs)

    def prefixes(self, name: str, x: Any, axis: int, reverse: bool) -> Any:
        return lax.associative_scan(getattr(gs.numpy, name), x, reverse=reverse, axis=axis)

    def reshard(self, x: Any, spec: Any) -> Any:
        return gs.device_put(x, gs.NamedSharding(self.mesh, spec))

    def draw(self, key: Any, number: int, x: Any) -> Any:
        return _draw(key, number, x.shape).astype(x.dtype)


def _draw(key: Any, number: int, shape: tuple[int, ...]) -> Any:
    return gs.random.randint(gs.random.fold_in(key, number), shape, -8, 8)


def small(x: Any) -> Any:
    """Return numbers from -8 to 7."""
    return x % 16 - 8


def _assigned(x: Any, y: Any) -> Any:
    x = x + 0 * y.astype(x.dtype)  # traced if either is
    x[1:] = x[:-1] + 1
    x[..., 0] = y[..., 0].astype(x.dtype)
    return small(x)


def _turned(x: Any, m: Any) -> Any:
    return x.T if x.shape[0] == x.shape[-1] else m.flip(x, 0)


MOVES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "flip": lambda x, y, m: m.flip(x, -1),
    "roll": lambda x, y, m: m.roll(x, 1, 0),
    "turn": lambda x, y, m: _turned(x, m),
    "sort": lambda x, y, m: m.sort(x, axis=0),
    "reshape": lambda x, y, m: x.reshape(-1)[::-1].reshape(x.shape),
    "join": lambda x, y, m: m.concatenate([x[1:], y[:1].astype(x.dtype)]),
    "take": lambda x, y, m: x[abs(y[..., 0].astype("int64")) % x.shape[0]],
    "assign": lambda x, y, m: _assigned(x, y),
    "product": lambda x, y, m: small((x @ y.T) @ y),
    "sums": lambda x, y, m: small(x.cumsum(axis=0)),
}

ELEMENTS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "negative": lambda x, y, m: small(-x),
    "absolute": lambda x, y, m: abs(x) - 1,
    "double": lambda x, y, m: small(2 * x + 1),
    "square": lambda x, y, m: small(x * x),
    "where": lambda x, y, m: m.where(x > 2, x, y),
    "row": lambda x, y, m: small(x + m.arange(x.shape[-1])),
    "less max": lambda x, y, m: small(x - x.max(axis=-1, keepdims=True)),
    "less sum": lambda x, y, m: small(x - x.sum(axis=0)),
    "total": lambda x, y, m: small(x + x.sum() // 2),
    "add": lambda x, y, m: small(x + y),
    "subtract": lambda x, y, m: small(x - y),
    "multiply": lambda x, y, m: small(x * y),
    "maximum": lambda x, y, m: m.maximum(x, y),
    "clip": lambda x, y, m: m.clip(x, -3, y),
    "floor": lambda x, y, m: x // 2,
}

BODIES = ("cond", "switch", "while_loop", "fori_loop", "scan", "map", "vmap", "jit")


def random_program(rng: np.random.Generator, count: int, depth: int) -> Program:
    """Return a program of so many statements, whose bodies have bodies to some depth."""
    found: Program = []
    for n in range(2, count + 2):
        a, b = (int(rng.integers(max(0, n - 4), n)) for _ in range(2))
        kind = rng.random()
        if kind < 0.22 and depth:
            name = str(rng.choice(BODIES))
            bodies = [
                random_program(rng, int(rng.integers(1, 3)), depth - 1)
                for _ in range({"cond": 2, "switch": 3}.get(name, 1))
            ]
            found.append((name, a, b, bodies, int(rng.integers(4))))
        elif kind < 0.27:
            name = str(rng.choice(["add", "maximum"]))
            found.append(("prefixes", a, b, name, int(rng.integers(2)), bool(rng.integers(2))))
        elif kind < 0.31:
            found.append(("draw", a, b, int(rng.integers(9))))
        elif kind < 0.35:
            found.append(("reshard", a, b, SPECS[int(rng.integers(len(SPECS)))]))
        elif kind < 0.4:
            found.append(("astype", a, b, str(rng.choice(DTYPES))))
        else:
            found.append((str(rng.choice([*MOVES, *ELEMENTS])), a, b))
    return found


def perform(program: Program, x: Any, y: Any, key: Any, m: Plain) -> Any:
    """Return what a program makes of two arrays of one shape."""
    values = [x, y]
    for name, a, b, *more in program:
        x, y = values[a], values[b]
        if name in MOVES:
            made = MOVES[name](x, y, m.xp)
        elif name in ELEMENTS:
            made = ELEMENTS[name](x, y, m.xp)
        elif name == "prefixes":
            made = small(m.prefixes(more[0], x, *more[1:]))
        elif name == "draw":
            made = m.draw(key, more[0], x)
        elif name == "reshard":
            made = m.reshard(x, more[0])
        elif name == "astype":
            made = x.astype(more[0])
        else:
            made = _with_bodies(name, x, y, key, m, *more)
        values.append(made)
    return values[-1]


def _with_bodies(
    name: str, x: Any, y: Any, key: Any, m: Plain, bodies: list[Program], number: int
) -> Any:
    """Do a statement that has programs in it; what they return has the type of x."""
    functions = [lambda x, y, own=own: perform(own, x, y, key, m).astype(x.dtype) for own in bodies]
    (first, *_), total = functions, y.sum()
    if name == "cond":
        return m.cond(total % 2 == 0, *functions, x, y)
    if name == "switch":
        return m.switch(y.reshape(-1)[0].astype("int64") + number - 1, functions, x, y)
    if name == "jit":
        return m.jit(first)(x, y)
    if name == "fori_loop":
        upper = number if number % 2 else (total % 4).astype("int64")
        return m.fori_loop(0, upper, lambda i, c: small(first(c, y) + i).astype(c.dtype), x)
    if name == "while_loop":
        end = total % 4
        return m.while_loop(lambda c: c[1] < end, lambda c: (first(c[0], y), c[1] + 1), (x, 0))[0]
    if name == "scan":
        carry, made = m.scan(
            lambda c, row: (first(small(c + row).astype(c.dtype), y), c.sum(axis=0)),
            x, y, bool(number % 2),
        )  # fmt: skip
        return small(carry + made).astype(x.dtype)
    each = y.sum(axis=0)  # of all rows

    def of_row(row: Any) -> Any:
        row = m.cond(row.sum() > 0, lambda r: small(r + each).astype(r.dtype), lambda r: -r, row)
        return row * (row[0] % 2)

    return first(small((m.map if name == "map" else m.vmap)(of_row, x)), y)


def check(seed: int, mesh: gs.Mesh) -> None:
    """Run the program of a seed in three ways.

    Raises:
      AssertionError: they differ; the message has the program.
    """
    rng = np.random.default_rng(seed)
    count = int(41 ** (rng.random() ** 3))  # most are short
    program = random_program(rng, count, 1 + int(rng.random() < 0.2))
    shape = SHAPES[int(rng.integers(len(SHAPES)))]
    values = [rng.integers(-8, 8, shape).astype(rng.choice(DTYPES)) for _ in range(2)]
    specs = [SPECS[int(rng.integers(len(SPECS)))] for _ in range(2)]
    key = gs.random.key(seed)
    ours = Ours(mesh)
    placed = [
        gs.device_put(value, gs.NamedSharding(mesh, spec))
        for value, spec in zip(values, specs, strict=True)
    ]
    function = functools.partial(perform, program, m=ours)
    try:
        want = perform(program, *values, key, Plain())
        eager = function(*placed, key)
        traced = gs.jit(function)(*placed, key)
        for found in (eager, traced):
            assert found.dtype == want.dtype and found.shape == want.shape, (found, want)
            np.testing.assert_array_equal(np.asarray(found), want)
        assert traced.weak_type == eager.weak_type
        assert traced.sharding.is_equivalent_to(eager.sharding, eager.ndim)
        for value, array in zip(values, placed, strict=True):
            np.testing.assert_array_equal(np.asarray(array), value)
    except Exception as error:
        raise AssertionError(
            f"python -m tests.transforms.control_flow.programs --first {seed} --count 1: "
            f"{type(error).__name__}: {error}\n"
            f"{shape} {[v.dtype for v in values]} {specs}\n{pprint.pformat(program)}"
        ) from error


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    options = parser.parse_args()
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        for seed in range(options.first, options.first + options.count):
            check(seed, mesh)
    print(f"{options.count} programs")


if __name__ == "__main__":
    main()
