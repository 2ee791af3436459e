"""Random programs of what users write: norms, softmax and losses beside penalties, attention, ...

A program is a list of blocks. Each block takes values of the shapes that it needs, by any module
that has NumPy's functions, so the same program runs by NumPy, which is the oracle, and traced.
`python -m tests.transforms.jit.everyday --first 0 --count 1000` runs the programs of some seeds,
and prints those that fail. Kernels in C of many programs are compiled together, without
optimization. With `--compilers launched` kernels are those of a GPU, each done by NumPy.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import functools
import itertools
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, testing
from gpushard._runtime.cuda.kernels import thread_nests
from gpushard._runtime.host.nests import c_schedule, choose_kernel, numpy_tiles
from gpushard._runtime.runtime import Runtime
from gpushard._transforms.fusion import layout
from tests.runtime.nests.c_batches import compiled_together
from tests.runtime.nests.fused_loops import launching

P = gs.P

MOST_ROWS = 300
"""Rows that are taken in pairs, or one after the other, at most."""

Value = Any
Block = Callable[[Any, "Draw"], Value]


class Draw:
    """What a program is drawn from: a generator of numbers, and values by their shapes.

    The same seed draws the same program, whatever module it runs by: shapes alone decide.
    """

    def __init__(self, xp: Any, seed: int, inputs: list[Value]) -> None:
        self.xp = xp
        self.rng = np.random.default_rng(seed)
        self.values = list(inputs)
        self.results: list[Value] = []
        self.inputs = inputs

    def one(self, options: Any) -> Any:
        """Choose one of several."""
        return options[int(self.rng.integers(len(options)))]

    def value(self, ndim: int | tuple[int, ...] = (1, 2, 3, 4)) -> Value:
        """Choose a value, late ones rather than early ones; the first input if none fits."""
        wanted = (ndim,) if isinstance(ndim, int) else ndim
        fit = [x for x in self.values if x.ndim in wanted and x.dtype.kind == "f"]
        if not fit:
            return self.shaped(self.inputs[0], max(wanted))
        return fit[min(int(self.rng.exponential(2.0)), len(fit) - 1) * -1 - 1]

    def shaped(self, x: Value, ndim: int) -> Value:
        """Return a value with so many dims."""
        while x.ndim > ndim:
            x = x.reshape(-1, *x.shape[2:])
        while x.ndim < ndim:
            x = x[..., None]
        return x

    def vector(self, n: int) -> Value:
        """Return a parameter of some length."""
        for x in self.values:
            if x.shape == (n,) and x.dtype.kind == "f" and self.one([0, 1]):
                return x
        return self.xp.asarray(self.rng.uniform(0.5, 1.5, n))

    def axes(self, x: Value) -> tuple[int, ...]:
        """Choose some dims."""
        subsets = [
            s for n in range(1, x.ndim + 1) for s in itertools.combinations(range(x.ndim), n)
        ]
        return self.one(subsets)


def _calm(xp: Any, x: Value) -> Value:
    """Keep values within bounds, whatever came before."""
    return xp.clip(x, -4, 4)


def normalize(xp: Any, d: Draw) -> Value:
    x = d.value()
    axes = d.axes(x)
    mean = x.mean(axis=axes, keepdims=True)
    how = d.one(["var", "moments", "rms", "std", "centered"])
    if how == "var":
        return (x - mean) / xp.sqrt(x.var(axis=axes, keepdims=True) + 1e-2)
    if how == "moments":
        square = ((x - mean) ** 2).mean(axis=axes, keepdims=True)
        return (x - mean) * (square + 1e-2) ** -0.5
    if how == "rms":
        return x / xp.sqrt((x * x).mean(axis=axes, keepdims=True) + 1e-2)
    if how == "std":
        return (x - mean) / (x.std(axis=axes, keepdims=True) + 0.1)
    return x - mean


def scaled(xp: Any, d: Draw) -> Value:
    x = normalize(xp, d)
    at = d.one(range(x.ndim))
    shape = [1] * x.ndim
    shape[at] = x.shape[at]
    return x * d.vector(x.shape[at]).reshape(shape) + d.vector(x.shape[at]).reshape(shape)


def softmax(xp: Any, d: Draw) -> Value:
    x = d.value((2, 3, 4))
    axis = d.one(range(x.ndim))
    if d.one([0, 0, 1]):  # beside a bias of fewer dims, and its penalty
        bias = d.value(2)
        if x.ndim > 2 and bias.shape == x.shape[-2:]:
            x = x + bias
            d.results.append((bias * bias).sum())
    if d.one([0, 0, 1]):
        x = xp.where(x > -1.1, x, -1e9)
    e = xp.exp(x - x.max(axis=axis, keepdims=True))
    if d.one([0, 1]):
        return e / e.sum(axis=axis, keepdims=True)
    return x - x.max(axis=axis, keepdims=True) - xp.log(e.sum(axis=axis, keepdims=True))


def loss(xp: Any, d: Draw) -> Value:
    x, y = d.value(2), d.value(2)
    y = y if y.shape == x.shape else xp.tanh(x)
    how = d.one(["squares", "huber", "logistic", "entropy", "hinge"])
    if how == "squares":
        value = ((x - y) ** 2).mean()
    elif how == "huber":
        apart = xp.abs(x - y)
        value = xp.where(apart < 1, 0.5 * apart * apart, apart - 0.5).sum() / 16
    elif how == "logistic":
        value = (xp.log(1 + xp.exp(-xp.abs(x))) + xp.maximum(x, 0) - x * (y > 0.05)).mean()
    elif how == "entropy":
        top = x.max(axis=1, keepdims=True)
        logs = x - top - xp.log(xp.exp(x - top).sum(axis=1, keepdims=True))
        value = -(logs * (y > 0.05)).sum(axis=1).mean()
    else:
        value = xp.maximum(0, 1 - x * y).mean(axis=0)
    penalty = 0.01 * (d.value() ** 2).sum() if d.one([0, 1]) else 0.01 * xp.abs(d.value()).max()
    d.results.append(value + penalty)
    return (x - y) * 0.5


def attention(xp: Any, d: Draw) -> Value:
    q = d.value((2, 3))[..., :MOST_ROWS, :]
    k = d.value(q.ndim)
    k = k if k.shape == q.shape else xp.tanh(q)
    scores = q @ xp.swapaxes(k, -1, -2) / q.shape[-1] ** 0.5
    if d.one([0, 1]):
        n = scores.shape[-1]
        mask = xp.arange(n)[:, None] >= xp.arange(n)
        scores = xp.where(mask, scores, -1e9)
    e = xp.exp(scores - scores.max(axis=-1, keepdims=True))
    return (e / e.sum(axis=-1, keepdims=True)) @ k


def sinkhorn(xp: Any, d: Draw) -> Value:
    x = xp.exp(_calm(xp, d.value((2, 3))))
    for _ in range(d.one([1, 2, 3])):
        x = x / x.sum(axis=-1, keepdims=True)
        x = x / x.sum(axis=-2, keepdims=True)
    return x


def power_iteration(xp: Any, d: Draw) -> Value:
    x = d.value(2)
    v = d.vector(x.shape[1])
    for _ in range(d.one([1, 2])):
        v = x.T @ (x @ v)
        v = v / (xp.sqrt((v * v).sum()) + 1e-3)
    return v


def stencil(xp: Any, d: Draw) -> Value:
    x = d.value((1, 2, 3))
    how = d.one(["slices", "roll", "gradient", "set"])
    axis = d.one(range(x.ndim))
    if how == "roll" or x.shape[axis] < 4:
        return (xp.roll(x, 1, axis) + xp.roll(x, -1, axis) - 2 * x) / 4
    head = (slice(None),) * axis
    left, right = x[(*head, slice(None, -2))], x[(*head, slice(2, None))]
    middle = x[(*head, slice(1, -1))]
    if how == "gradient":
        return (right - left) / 2 * middle
    if how == "slices":
        return (left + right - 2 * middle) / 4
    first, last = x[(*head, slice(0, 1))], x[(*head, slice(-1, None))]
    return xp.concatenate([first, (left + right) / 2, last], axis=axis)


def convolution(xp: Any, d: Draw) -> Value:
    x = d.value((1, 2, 3))
    taps = d.one([2, 3])
    n = x.shape[-1]
    if n <= taps:
        return x
    weights = d.rng.uniform(-1, 1, taps)
    return sum(float(w) * x[..., i : n - taps + 1 + i] for i, w in enumerate(weights))


def k_means(xp: Any, d: Draw) -> Value:
    x = d.value(2)
    centres = x[: d.one([2, 3, 4])] + 0.01
    if d.one([0, 1]):
        apart = ((x[:, None, :] - centres[None]) ** 2).sum(axis=-1)
    else:
        apart = (x * x).sum(1)[:, None] - 2 * x @ centres.T + (centres * centres).sum(1)
    if d.one([0, 1]):
        return xp.sqrt(xp.maximum(apart.min(axis=1), 0) + 0.1)
    # Centres that are as near but for rounding, even that of float32, are all taken.
    near = (apart <= apart.min(axis=1, keepdims=True) + 1e-3).astype(x.dtype)
    return (near.T @ x) / xp.maximum(near.sum(axis=0), 1)[:, None]


def pairwise(xp: Any, d: Draw) -> Value:
    x = d.value((1, 2))[:MOST_ROWS]
    apart = x[:, None] - x[None]
    if x.ndim == 1:
        return xp.exp(-apart * apart).sum(axis=d.one([0, 1]))
    square = (apart * apart).sum(axis=-1) + 0.1
    return (apart / square[..., None]).sum(axis=d.one([0, 1])) / x.shape[0]


def scanned(xp: Any, d: Draw) -> Value:
    x = d.value((1, 2, 3))[:MOST_ROWS]
    rate = d.one([0.5, 0.9])

    def body(carry: Value, row: Value) -> tuple[Value, Value]:
        carry = rate * carry + (1 - rate) * row
        return carry, xp.tanh(carry) - carry.mean()

    start = xp.zeros_like(x[0])
    if xp is gnp:
        return lax.scan(body, start, x)[1]
    rows = []
    for row in x:
        start, out = body(start, row)
        rows.append(out)
    return np.stack(rows)


def elementwise(xp: Any, d: Draw) -> Value:
    x = d.value()
    for _ in range(d.one([1, 2, 4])):
        x = d.one([
            lambda x: xp.tanh(x), lambda x: xp.exp(-xp.abs(x)), lambda x: 1 / (1 + xp.exp(-x)),
            lambda x: xp.maximum(x, 0.1), lambda x: xp.where(x > 0, x, 0.1 * x),
            lambda x: x * x - x, lambda x: xp.sqrt(xp.abs(x) + 1), lambda x: xp.clip(x, -1, 1),
            lambda x: x / 3 + 0.5, lambda x: xp.sign(x) * xp.abs(x) ** 2,
            lambda x: xp.log(x * x + 1), lambda x: xp.minimum(x, 2 - x),
        ])(x)  # fmt: skip
    return x


def combined(xp: Any, d: Draw) -> Value:
    x, y = d.value(), d.value()
    if y.shape != x.shape:
        y = d.vector(x.shape[-1])
    return d.one([
        lambda: x + y, lambda: x * y - x, lambda: xp.where(x > y, x, y),
        lambda: xp.maximum(x, y) - xp.minimum(x, y), lambda: (x - y) / (1 + xp.abs(y)),
    ])()  # fmt: skip


def reduced(xp: Any, d: Draw) -> Value:
    x = d.value()
    axes = d.axes(x)
    keep = d.one([True, False])
    name = d.one(["sum", "mean", "max", "min", "var", "std"])
    y = getattr(x, name)(axis=axes, keepdims=keep)
    if name == "sum":
        y = y / 16
    if keep and d.one([0, 1]):
        return x - y
    if d.one([0, 0, 1]):
        finite = xp.isfinite(x)
        d.results += [finite, finite.all(axis=axes), (x > 0.05).any(axis=axes)]
    if y.ndim == 0:
        d.results.append(y)
        return x + y
    return y


def moved(xp: Any, d: Draw) -> Value:
    x = d.value()
    how = d.one(["transpose", "merge", "new dim", "flip", "part", "join"])
    if how == "transpose":
        return xp.transpose(x, d.one(list(itertools.permutations(range(x.ndim)))))
    if how == "merge" and x.ndim > 1:
        return x.reshape(-1, *x.shape[2:])
    if how == "new dim" and x.ndim < 4:
        return xp.expand_dims(x, d.one(range(x.ndim + 1)))
    if how == "flip":
        return x[::-1]
    if how == "part" and x.shape[0] > 2:
        return x[1:] * x[:-1]
    return xp.concatenate([x, xp.tanh(x)], axis=d.one(range(x.ndim)))


BLOCKS: list[tuple[int, Block]] = [
    (5, normalize), (4, scaled), (5, softmax), (4, loss), (2, attention), (2, sinkhorn),
    (1, power_iteration), (3, stencil), (2, convolution), (2, k_means), (2, pairwise), (1, scanned),
    (5, elementwise), (3, combined), (4, reduced), (4, moved),
]  # fmt: skip
_WEIGHTS = np.array([weight for weight, _ in BLOCKS]) / sum(weight for weight, _ in BLOCKS)

SHAPES = (
    (6, 5), (3, 4, 5), (2, 3, 4, 4), (40,), (12, 3), (2, 9, 9), (4, 6, 3, 3), (33, 2), (1, 17),
    (5, 1, 6), (70, 8), (3, 70), (2, 65, 6), (2, 66, 3, 2),
)  # fmt: skip
LARGE_SHAPES = ((130, 140), (2000, 9), (3, 80, 90), (8, 24, 10, 10), (20_000,), (16, 32, 40))
MOST = 60_000
"""Elements that values of a program have at most."""

TOGETHER = 100
"""Programs whose kernels the compiler is given at once."""


def inputs_of(seed: int) -> list[Any]:
    """Return the arrays that a program takes."""
    rng = np.random.default_rng([seed, 1])
    shapes = LARGE_SHAPES if seed % 8 == 0 else SHAPES
    dtype = np.float32 if seed % 4 == 1 else np.float64
    first = shapes[int(rng.integers(len(shapes)))]
    every = [first, first[-2:], first[-1:], shapes[int(rng.integers(len(shapes)))]]
    count = int(rng.integers(2, 5))
    return [rng.uniform(-2, 2, shape).astype(dtype) for shape in every[:count]]


def program(xp: Any, seed: int, inputs: list[Any]) -> list[Any]:
    """Run the program of a seed."""
    d = Draw(xp, seed, inputs)
    for _ in range(int(d.rng.integers(1, 7))):
        block = BLOCKS[int(d.rng.choice(len(BLOCKS), p=_WEIGHTS))][1]
        x = block(xp, d)
        size = int(np.prod(x.shape))
        if x.ndim > 4 or size > MOST:
            x = x.reshape(-1)[:97]
        if size:
            d.values.append(_calm(xp, x))
    fresh = d.values[len(inputs) :]
    kept = [x for x in fresh if d.one([0, 1])] or fresh[-1:]
    return [*d.results, *kept]


@contextlib.contextmanager
def thresholds(seed: int) -> Iterator[None]:
    """Lower the thresholds of kernels for most programs, so that small arrays take every path."""
    if seed % 8 == 0:
        yield
        return
    strip = (32, 128)[seed % 3 == 0]
    with (
        mock.patch.object(layout, "LARGE", 1),
        mock.patch.object(choose_kernel, "LARGE", 1),
        mock.patch.object(c_schedule, "_LANES", strip),
        mock.patch.object(c_schedule, "_STRIP", strip),
        mock.patch.object(c_schedule, "MOST_STACK", (64 << 10, 3000)[seed % 5 == 0]),
        mock.patch.object(numpy_tiles, "_TILE", (7, 50, 1 << 18)[seed % 3]),
        mock.patch.object(numpy_tiles, "_ROW", (2, 16)[seed % 2]),
        mock.patch.object(numpy_tiles, "_SMALL", (1, 1 << 12)[seed % 2]),
        mock.patch.object(thread_nests, "_MOST_KEPT", (1, 2, 128)[seed % 3]),
        mock.patch.object(thread_nests, "_PART", (2, 7, 1 << 10)[seed // 3 % 3]),
        mock.patch.object(thread_nests, "_MOST_PARTS", (3, 128)[seed // 2 % 2]),
        mock.patch.object(thread_nests, "_MOST_SLOTS", 1 << 20),
    ):
        yield


COMPILERS = ("cc", "")
"""Kernels are written by the emitter of C, and by that of NumPy's functions."""

LAUNCHED = "launched"
"""In place of a compiler: kernels are those of a GPU."""


class Prepared:
    """A program of a seed, compiled by `jit` for arrays on some devices, and what NumPy gives."""

    def __init__(self, runtime: Runtime, seed: int, compilers: Sequence[str]) -> None:
        self._seed = seed
        inputs = inputs_of(seed)
        with np.errstate(all="ignore"):
            self._wanted = [np.asarray(x) for x in program(np, seed, inputs)]
        rng = np.random.default_rng([seed, 2])
        self._rough = 2e-3 if inputs[0].dtype == np.float32 else 1e-7
        count = (1, 2, 6, 8)[seed % 4] if seed % 5 else 1
        mesh = gs.Mesh(np.array(gs.devices()[:count]), ("x",))
        self._arrays = []
        for x in inputs:
            at = int(rng.integers(x.ndim + 1))
            spec = P(*[None] * at, "x") if at < x.ndim else P()
            self._arrays.append(gs.device_put(x, gs.NamedSharding(mesh, spec)))
        traced = gs.jit(lambda *xs: program(gnp, seed, list(xs)))
        self._compiled = {}
        with thresholds(seed):
            lowered = traced.lower(*self._arrays)
            for compiler in compilers:
                settings = dataclasses.replace(runtime.settings, compiler=compiler)
                with (
                    mock.patch.object(runtime, "settings", settings),
                    mock.patch.object(runtime.backend, "_compiler", compiler),
                ):
                    self._compiled[compiler] = lowered.compile()

    def check(self, compiler: str) -> None:
        """Run the program, and compare what it gives with what NumPy gives.

        Raises:
          AssertionError: it is something else.
        """
        with np.errstate(all="ignore"), thresholds(self._seed):
            results = [np.asarray(x) for x in self._compiled[compiler](*self._arrays)]
        assert len(results) == len(self._wanted)
        for n, (got, want) in enumerate(zip(results, self._wanted, strict=True)):
            assert got.shape == want.shape, f"result {n}: shape {got.shape}, not {want.shape}"
            if got.dtype.kind == "b" and self._rough > 1e-5:
                continue
            bound = self._rough * max(1.0, float(np.abs(want).max(initial=0)))
            np.testing.assert_allclose(got, want, self._rough, bound, err_msg=f"result {n}")


def failures(seeds: Sequence[int], compilers: Sequence[str] = COMPILERS) -> list[str]:
    """Check the programs of some seeds; return a text about each that fails.

    All programs are prepared before the first one runs, so that their kernels are compiled at once.
    """
    failed: list[str] = []
    on_host = [compiler for compiler in compilers if compiler != LAUNCHED]
    for n, domains in enumerate(DOMAINS):
        own = [seed for seed in seeds if seed // 7 % len(DOMAINS) == n]
        if own and LAUNCHED in compilers:
            with launching(host_devices=8, host_domains=domains) as runtime:
                failed += _failures(runtime, own, [LAUNCHED])
        if own and on_host:
            with testing.runtime(backend="host", host_devices=8, host_domains=domains) as runtime:
                failed += _failures(runtime, own, on_host)
    return failed


DOMAINS = (1, 2, 8)
"""Domains of memory that the devices of a program have; its seed says which."""


def _failures(runtime: Runtime, seeds: Iterable[int], compilers: Sequence[str]) -> list[str]:
    failed: list[str] = []
    with compiled_together(), warnings.catch_warnings():
        warnings.filterwarnings("error", "a kernel in C is wrong")
        prepared = []
        for seed in seeds:
            try:
                prepared.append((seed, Prepared(runtime, seed, compilers)))
            except Exception:
                failed.append(f"seed {seed}:\n{traceback.format_exc(limit=-3)}")
        for (seed, each), compiler in itertools.product(prepared, compilers):
            try:
                each.check(compiler)
            except Exception:
                text = traceback.format_exc(limit=-3)
                failed.append(f"seed {seed}, compiler {compiler!r}:\n{text}")
    return failed


def main() -> None:
    """Run the programs of some seeds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--compilers", nargs="+", default=COMPILERS)
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    start, stop = time.monotonic(), options.first + options.count
    chunks = [
        range(first, min(first + TOGETHER, stop)) for first in range(options.first, stop, TOGETHER)
    ]
    count, failed = 0, 0
    with concurrent.futures.ProcessPoolExecutor(options.processes) as pool:
        reports = pool.map(functools.partial(failures, compilers=options.compilers), chunks)
        for chunk, report in zip(chunks, reports, strict=True):
            print(*report, sep="\n", end="", flush=True)
            count, failed = count + len(chunk), failed + len(report)
            if count % 5000 == 0 or count == options.count:
                print(f"{count} programs from seed {options.first}, {failed} failures, "
                      f"{time.monotonic() - start:.0f} s", flush=True)  # fmt: skip
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
