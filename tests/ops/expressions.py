"""Random expressions on sharded arrays, every step of which NumPy checks.

Run many: `python -m tests.ops.expressions --count 100000 --first 0`.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gpushard as gs
from gpushard import testing
from gpushard._ops.bind import bind
from gpushard._ops.table import elementwise, manipulation, moments, reductions
from gpushard._ops.table.elementwise import ufunc_row

MESHES = (((4, 2), ("x", "y")), ((3, 2), ("x", "y")), ((2, 2, 2), ("x", "y", "z")), ((7,), ("x",)))
DTYPES = ("?", "i1", "u1", "i4", "i8", "f2", "f4", "f8", "c8", "c16")
WAYS: tuple[dict[str, Any], ...] = (
    {},
    {"inline_bytes": 0, "small_bytes": 0},
    {"host_domains": 2},
    {"host_domains": 8, "inline_bytes": 0},
)
LONGEST = 30

HostArray = np.ndarray[Any, Any]


@dataclasses.dataclass
class Pair:
    """An array and what it should hold."""

    array: gs.Array
    value: HostArray


class Expression:
    """One random expression.

    Args:
      seed: decides it.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        sizes, names = self.rng.choice(MESHES)
        self.mesh = gs.make_mesh(sizes, names)
        self.generator = np.random.default_rng(seed)
        self.pairs = [self.fresh(self.shape()) for _ in range(2)]

    def run(self) -> int:
        """Do some steps and return how many."""
        steps = min(LONGEST, 1 + int(self.rng.expovariate(0.22)))
        for _ in range(steps):
            self.step()
        return steps

    def step(self) -> None:
        """Do one operation on both sides and compare."""
        name = self.rng.choice(sorted(STEPS))
        x = self.rng.choice(self.pairs[-4:])
        with np.errstate(all="ignore"):
            made = STEPS[name](self, x)
        if made is None:
            return
        array, want, slack = made
        value = np.asarray(array)
        want = np.asarray(want)
        assert value.shape == want.shape and value.dtype == want.dtype, (name, value, want)
        if slack is None:
            np.testing.assert_array_equal(value, want, err_msg=name)
        else:
            assert_close(value, want, slack, name)
        if array.size < 5000:
            self.pairs.append(Pair(array, value))

    def shape(self, most: int = 3) -> tuple[int, ...]:
        return tuple(self.rng.choice((0, 1, 2, 3, 5, 8)) for _ in range(self.rng.randint(0, most)))

    def spec(self, ndim: int) -> gs.P:
        dims: list[list[str]] = [[] for _ in range(ndim)]
        for axis in self.rng.sample(self.mesh.axis_names, len(self.mesh.axis_names)):
            at = self.rng.randint(0, ndim)
            if at < ndim:
                dims[at].append(axis)
        return gs.P(*(tuple(axes) or None for axes in dims))

    def fresh(self, shape: tuple[int, ...], dtype: str | None = None) -> Pair:
        """Place random numbers."""
        value = self.numbers(shape, np.dtype(dtype or self.rng.choice(DTYPES)))
        sharding = gs.NamedSharding(self.mesh, self.spec(len(shape)))
        return Pair(gs.device_put(value, sharding), value)

    def numbers(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> HostArray:
        numbers: Any = self.generator.integers(-5, 6, shape)
        if dtype.kind == "u":
            numbers = abs(numbers)
        if dtype.kind in "fc":
            numbers = numbers + self.generator.integers(0, 8, shape) / 8
        if dtype.kind == "c":
            numbers = numbers + 1j * self.generator.integers(-3, 4, shape)
        return np.asarray(numbers).astype(dtype)

    def fitting(self, x: Pair) -> Pair | complex:
        """Return an operand that broadcasts with another one, or a number."""
        known = [p for p in self.pairs if _broadcasts(p.value.shape, x.value.shape)]
        if self.rng.random() < 0.3:
            return self.rng.choice((2, 3.5, True))
        if known and self.rng.random() < 0.5:
            return self.rng.choice(known)
        shape = x.value.shape[self.rng.randint(0, x.value.ndim) :]
        return self.fresh(tuple(1 if self.rng.random() < 0.2 else n for n in shape))

    def axes(self, ndim: int) -> tuple[int, ...]:
        return tuple(sorted(self.rng.sample(range(-ndim, 0), self.rng.randint(0, ndim))))

    def index(self, shape: tuple[int, ...]) -> tuple[Any, ...]:
        entries: list[Any] = []
        for n in shape[: self.rng.randint(0, len(shape))]:
            if n and self.rng.random() < 0.3:
                entries.append(self.rng.randrange(-n, n))
            else:
                low, high = self.rng.randint(-n - 1, n + 1), self.rng.randint(-n - 1, n + 1)
                entries.append(slice(low, high, self.rng.choice((None, 1, 2, -1, -2))))
        if self.rng.random() < 0.3:
            entries.insert(self.rng.randint(0, len(entries)), None)
        return tuple(entries)


Made = tuple[gs.Array, Any, Any] | None


def _broadcasts(one: tuple[int, ...], two: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(one, two)
    except ValueError:
        return False
    return True


def assert_close(value: HostArray, want: HostArray, slack: Any, name: str) -> None:
    """Compare sums: within `slack`, and where that is not finite in kind only."""
    apart = np.asarray(abs(value.astype("c16") - want.astype("c16")))
    bound = np.broadcast_to(np.asarray(slack, "f8"), apart.shape)
    bad = np.isfinite(want) & np.isfinite(bound) & ~(apart <= bound)
    assert not bad.any(), (name, value[bad], want[bad], bound[bad])


def slack_of(value: HostArray, axes: tuple[int, ...], dtype: Any) -> Any:
    """c * eps * log2(n) * sum|x| for the sums over some dims."""
    count = math.prod(value.shape[a] for a in axes) or 1
    eps = np.finfo(dtype).eps if np.dtype(dtype).kind in "fc" else 0
    return 16 * eps * (1 + math.log2(count)) * (abs(value.astype("c16")).sum(axes) + 1)


def unary(ufunc: np.ufunc, kinds: str) -> Callable[[Expression, Pair], Made]:
    def step(e: Expression, x: Pair) -> Made:
        if x.value.dtype.kind not in kinds:
            return None
        return bind(ufunc_row(ufunc), (x.array,)), ufunc(x.value), None

    return step


def binary(ufunc: np.ufunc, kinds: str) -> Callable[[Expression, Pair], Made]:
    def step(e: Expression, x: Pair) -> Made:
        y = e.fitting(x)
        mine, other = (y.array, y.value) if isinstance(y, Pair) else (y, y)
        try:
            want = ufunc(x.value, other)
        except TypeError:
            return None
        if np.asarray(other).dtype.kind not in kinds or x.value.dtype.kind not in kinds:
            return None
        return bind(ufunc_row(ufunc), (x.array, mine)), want, None

    return step


def reduced(row: Any, function: Any, kinds: str = "?iufc", extra: Any = None) -> Any:
    def step(e: Expression, x: Pair) -> Made:
        if x.value.dtype.kind not in kinds:
            return None
        axes, keepdims = e.axes(x.value.ndim), e.rng.random() < 0.3
        try:
            want = function(x.value, axis=axes, keepdims=keepdims)
        except ValueError:
            return None
        slack = None
        if want.dtype.kind in "fc" and row not in (reductions.MIN, reductions.MAX):
            slack = slack_of(x.value, axes, want.dtype)
            if row in (moments.VAR, moments.STD, reductions.PROD):
                slack = 1e-2 * (1 + abs(np.asarray(want, "c16")))
            slack = np.reshape(slack, want.shape)
        if slack is None:
            return bind(row, (x.array,), (axes, keepdims, extra)), want, None
        return bind(row, (x.array,), (axes, keepdims, extra)), want, slack

    return step


def position(name: str) -> Any:
    def step(e: Expression, x: Pair) -> Made:
        axis = e.rng.choice((None, *range(x.value.ndim)))
        if x.value.dtype.kind == "c" or not x.value.size or (axis is None and not x.value.ndim):
            return None
        return getattr(x.array, name)(axis), getattr(x.value, name)(axis), None

    return step


def matmul(e: Expression, x: Pair) -> Made:
    if not x.value.ndim or x.value.dtype.kind == "?":
        return None
    shape = (x.value.shape[-1], e.rng.choice((1, 3, 4)))
    y = e.fresh(shape, x.value.dtype.str)
    want = x.value @ y.value
    slack = None
    if want.dtype.kind in "fc":
        total = abs(x.value.astype("c16")) @ abs(y.value.astype("c16"))
        slack = 32 * np.finfo(want.dtype).eps * (abs(total) + 1) * (2 + math.log2(shape[0] + 1))
    return x.array @ y.array, want, slack


def where(e: Expression, x: Pair) -> Made:
    condition = e.fresh(x.value.shape, "?")
    y = e.fresh(x.value.shape)
    made = bind(elementwise.WHERE, (condition.array, x.array, y.array))
    return made, np.where(condition.value, x.value, y.value), None


def astype(e: Expression, x: Pair) -> Made:
    dtype = np.dtype(e.rng.choice(("f4", "f8", "c16")))
    if x.value.dtype.kind == "c" and dtype.kind != "c":
        return None
    return x.array.astype(dtype), x.value.astype(dtype), None


def clip(e: Expression, x: Pair) -> Made:
    if x.value.dtype.kind in "?cu":
        return None
    return x.array.clip(-2, 3), x.value.clip(-2, 3), None


def indexed(e: Expression, x: Pair) -> Made:
    index = e.index(x.value.shape)
    return x.array[index], x.value[index], None


def transposed(e: Expression, x: Pair) -> Made:
    order = e.rng.sample(range(x.value.ndim), x.value.ndim)
    return x.array.transpose(order), x.value.transpose(order), None


def reshaped(e: Expression, x: Pair) -> Made:
    rest, shape = x.value.size, []
    for _ in range(e.rng.randint(0, 2)):
        divisors = [d for d in (1, 2, 3, 4, 5, 8) if rest and rest % d == 0] or [1]
        shape.append(e.rng.choice(divisors))
        rest //= shape[-1]
    shape.insert(e.rng.randint(0, len(shape)), rest)
    return x.array.reshape(shape), x.value.reshape(shape), None


def concatenated(e: Expression, x: Pair) -> Made:
    if not x.value.ndim:
        return None
    axis = e.rng.randrange(-x.value.ndim, 0)
    shape = list(x.value.shape)
    shape[axis] = e.rng.choice((0, 1, 4))
    y = e.fresh(tuple(shape), x.value.dtype.str)
    order = [x, y, x] if e.rng.random() < 0.5 else [y, x]
    made = bind(manipulation.CONCATENATE, [p.array for p in order], (axis,))
    return made, np.concatenate([p.value for p in order], axis), None


def stacked(e: Expression, x: Pair) -> Made:
    axis = e.rng.randrange(-x.value.ndim - 1, 0)
    y = e.fresh(x.value.shape, x.value.dtype.str)
    made = bind(manipulation.STACK, (x.array, y.array), (axis,))
    return made, np.stack([x.value, y.value], axis), None


def padded(e: Expression, x: Pair) -> Made:
    widths = tuple((e.rng.randint(0, 2), e.rng.randint(0, 2)) for _ in x.value.shape)
    made = bind(manipulation.PAD, (x.array, 1), (widths,))
    return made, np.pad(x.value, widths, constant_values=1) if widths else x.value, None


def rolled(e: Expression, x: Pair) -> Made:
    axes = e.axes(x.value.ndim)
    if not axes:
        return None
    shifts = tuple(e.rng.randint(-9, 9) for _ in axes)
    return bind(manipulation.ROLL, (x.array,), (shifts, axes)), np.roll(x.value, shifts, axes), None


def tiled(e: Expression, x: Pair) -> Made:
    if x.value.size > 500:
        return None
    reps = tuple(e.rng.randint(0, 2) for _ in range(e.rng.randint(0, x.value.ndim + 1)))
    return bind(manipulation.TILE, (x.array,), (reps,)), np.tile(x.value, reps), None


def repeated(e: Expression, x: Pair) -> Made:
    if not x.value.ndim:
        return None
    count, axis = e.rng.randint(0, 3), e.rng.randrange(-x.value.ndim, 0)
    return x.array.repeat(count, axis), x.value.repeat(count, axis), None


def broadcast(e: Expression, x: Pair) -> Made:
    shape = tuple(e.rng.choice((1, 3)) if n == 1 else n for n in x.value.shape)
    shape = (*e.shape(1), *shape)
    made = bind(manipulation.BROADCAST_TO, (x.array,), (shape,))
    return made, np.broadcast_to(x.value, shape), None


def diagonal(e: Expression, x: Pair) -> Made:
    if x.value.ndim < 2:
        return None
    axes = e.rng.sample(range(x.value.ndim), 2)
    offset = e.rng.randint(-2, 2)
    return x.array.diagonal(offset, *axes), x.value.diagonal(offset, *axes), None


def resharded(e: Expression, x: Pair) -> Made:
    sharding = gs.NamedSharding(e.mesh, e.spec(x.value.ndim))
    return gs.reshard(x.array, sharding), x.value, None


STEPS: dict[str, Callable[[Expression, Pair], Made]] = {
    "add": binary(np.add, "?iufc"),
    "subtract": binary(np.subtract, "iufc"),
    "multiply": binary(np.multiply, "?iufc"),
    "maximum": binary(np.maximum, "?iuf"),
    "less": binary(np.less, "?iuf"),
    "equal": binary(np.equal, "?iufc"),
    "bitwise_xor": binary(np.bitwise_xor, "?iu"),
    "logical_and": binary(np.logical_and, "?iufc"),
    "negative": unary(np.negative, "iufc"),
    "absolute": unary(np.absolute, "iuf"),
    "floor": unary(np.floor, "f"),
    "conjugate": unary(np.conjugate, "c"),
    "sign": unary(np.sign, "iuf"),
    "isfinite": unary(np.isfinite, "fc"),
    "sum": reduced(reductions.SUM, np.sum),
    "prod": reduced(reductions.PROD, np.prod, "iu"),
    "min": reduced(reductions.MIN, np.min, "?iuf"),
    "max": reduced(reductions.MAX, np.max, "?iuf"),
    "any": reduced(reductions.ANY, np.any),
    "all": reduced(reductions.ALL, np.all),
    "count_nonzero": reduced(reductions.COUNT_NONZERO, np.count_nonzero),
    "mean": reduced(moments.MEAN, np.mean),
    "var": reduced(moments.VAR, np.var, "?iuf", 0),
    "std": reduced(moments.STD, np.std, "?iuf", 0),
    "argmin": position("argmin"),
    "argmax": position("argmax"),
    "matmul": matmul,
    "where": where,
    "astype": astype,
    "clip": clip,
    "index": indexed,
    "transpose": transposed,
    "reshape": reshaped,
    "concatenate": concatenated,
    "stack": stacked,
    "pad": padded,
    "roll": rolled,
    "tile": tiled,
    "repeat": repeated,
    "broadcast_to": broadcast,
    "diagonal": diagonal,
    "reshard": resharded,
}


def run(first: int, count: int) -> int:
    """Run expressions on a runtime each hundred, and return the number of steps."""
    steps = 0
    for begin in range(first, first + count, 100):
        with testing.runtime(host_devices=8, **WAYS[begin // 100 % len(WAYS)]):
            for seed in range(begin, min(begin + 100, first + count)):
                try:
                    steps += Expression(seed).run()
                except BaseException as error:
                    error.add_note(f"expression {seed}")
                    raise
    return steps


def main() -> None:
    """Run as many as asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    start = time.monotonic()
    steps = run(options.first, options.count)
    seconds = time.monotonic() - start
    print(f"{options.count:,} expressions, {steps:,} operations, {seconds:,.0f} s")


if __name__ == "__main__":
    main()
