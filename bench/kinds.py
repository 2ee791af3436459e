"""Kinds of operation for the group `survey`: what users write, in the words of each library."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gpushard._ops.host_remainder import remainder
from gpushard._ops.host_where import select
from gpushard._ops.searchsorted import search

ROWS = (4, 2)
"""The mesh; its axes are x and y."""


@dataclasses.dataclass(frozen=True)
class Library:
    """A library, and the operands of all kinds in it."""

    wait: Callable[[Any], Any]
    """Waits until all arrays of a result are there."""
    np: ModuleType
    """Its functions of NumPy's names."""
    random: Any
    """Its random numbers: a module, or NumPy's generator."""
    place: dict[str, Any]
    """The keyword that has a new matrix spread as the others are; empty for NumPy."""
    spread: dict[str, Any]
    """The same for random numbers."""
    key: Any
    """A random key; None for NumPy."""
    spread_key: Any
    """The same, for numbers that are spread."""
    x: Any
    """Float32, n x n, of both signs, no value twice; split P("x", "y") like all matrices."""
    y: Any
    """The same, other values, none near 0."""
    z: Any
    """The same as `y`, to be assigned to."""
    f: Any
    """The values of `y`, positive and in one dim; split over all devices."""
    i: Any
    """Int32, n x n, from 0 to 99."""
    j: Any
    """The values of `i` in one dim."""
    m: Any
    """Bool, n x n, every third one true."""
    v: Any
    """Float32, n."""
    r: Any
    """Int32, n / 2 numbers of rows, in no order, some of them twice."""
    tall: Any
    """Float32, n x n/8."""
    spd: Any
    """Float32, n/2 x n/2, symmetric and positive definite."""
    edges: Any
    """Float32, 64 rising values over the range of `y`."""
    few: Any
    """Int32, three of the values of `i`."""
    n: int
    """The rows of a matrix."""


@dataclasses.dataclass(frozen=True)
class Block(Library):
    """What one device has, as NumPy arrays, and what floors write to: memory that is in use."""

    made: Any
    """Like `x`."""
    line: Any
    """Float32, as many as `x` has, in one dim."""
    counts: Any
    """Int32, the same."""
    found: Any
    """NumPy's integers for positions, the same."""
    numbers: Any
    """Float64, a few of which stay in cache."""
    rows: Any
    """All columns of the rows of `x`, of some values."""
    columns: Any
    """All rows of the columns of `x`, of some values."""
    all: list[Block]
    """What all devices have, in order."""

    @classmethod
    def of(cls, numpy: Library, arrays: dict[str, Any], all: list[Block]) -> Block:
        """Return the block of one device and add it to the others.

        Args:
          numpy: the library of NumPy.
          arrays: operands by the names in `Library`.
          all: those before.
        """
        own = {f.name: getattr(numpy, f.name) for f in dataclasses.fields(numpy)} | arrays
        x = arrays["x"]
        height, width = (numpy.n // size for size in x.shape)
        made = cls(
            **own,
            made=x.copy(),
            line=x.ravel().copy(),
            counts=x.ravel().astype(np.int32),
            found=x.ravel().astype(np.intp),
            numbers=np.arange(float(_PIECE)),
            rows=np.tile(x, (1, width)),
            columns=np.tile(arrays["y"], (height, 1)),
            all=all,
        )
        all.append(made)
        return made


Run = Callable[[Any], Any]
"""Takes a `Library`, or for a floor a `Block`."""

_PIECE = 1 << 15
_ROW = 1 << 12


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of operation."""

    name: str
    run: Run
    """In the words that all libraries have, unless one of the following says them."""
    numpy: Run | None = None
    jax: Run | None = None
    view: bool = False
    """Whether NumPy's result is a view, which takes no time."""
    blocks: bool | Run = False
    """Whether NumPy on all blocks does the work, but for what merges their results; or what it has
    to do there instead, given a `Block`, where it is not the same call or not the fastest one."""
    alone: bool = False
    """Whether one thread does that sooner than several."""
    same: Callable[[Any], Any] | None = lambda value: value
    """What of a result is the same in every library; None if only shapes are."""


def host_operands(n: int) -> dict[str, Any]:
    """Return the operands as NumPy arrays, by the names in `Library`."""
    generator = np.random.default_rng(0)
    x = generator.permutation(n * n).reshape(n, n).astype(np.float32) - n * n / 2 + 0.5
    y = generator.random((n, n), np.float32) + np.float32(0.5)
    half = generator.standard_normal((n // 2, n // 2), np.float32)
    i = generator.integers(0, 100, (n, n), np.int32)
    return {
        "x": x.astype(np.float32) / np.float32(n),
        "y": y,
        "z": y.copy(),
        "f": y.ravel(),
        "i": i,
        "j": i.ravel(),
        "m": np.arange(n * n).reshape(n, n) % 3 == 0,
        "v": y[0],
        "r": generator.integers(0, n, n // 2, np.int32),
        "tall": generator.standard_normal((n, n // 8), np.float32),
        "spd": half @ half.T / np.float32(n) + np.eye(n // 2, dtype=np.float32),
        "few": np.array([3, 5, 7], np.int32),
        "edges": np.linspace(0.5, 1.5, 64, dtype=np.float32),
    }


def _assigned(library: Library) -> Any:
    library.z[2:5] = 1
    return library.z


def _copied(change: Callable[[Any, Library], Any]) -> Run:
    """Return a function that changes a copy of `y`, as `y.at[...]` does elsewhere."""

    def run(library: Library) -> Any:
        copy = library.y.copy()
        change(copy, library)
        return copy

    return run


def _set_rows(y: Any, library: Library) -> None:
    y[library.r] = 1


def _add_rows(y: Any, library: Library) -> None:
    np.add.at(y, library.r, 1)


def _own_rows(library: Library) -> Any:
    """Return as many rows of a block as fall to it when all take a half."""
    return np.tile(library.r, 2) % len(library.x)


def _set_own_rows(y: Any, library: Library) -> None:
    y[_own_rows(library)] = 1


def _into(function: Callable[..., Any], *names: str) -> Run:
    """Return a ufunc of operands that writes into memory which is in use."""
    return lambda o: function(*(getattr(o, name) for name in names), out=o.made)


def _filled(block: Block) -> Any:
    block.made.fill(0)
    return block.made


def _counted(block: Block) -> Any:
    """Count in one call: a row of numbers, to which each row adds its first."""
    width = min(_ROW, block.counts.size)
    begins = np.arange(0, block.counts.size, width, dtype=np.int32)
    first = np.arange(width, dtype=np.int32)
    return np.add(begins[:, None], first, out=block.counts.reshape(-1, width))


def _spaced(block: Block) -> Any:
    """Multiply positions by a step in double precision, in pieces that stay in cache, and round."""
    size = min(_PIECE, block.line.size)
    at = np.empty(size)
    for low in range(0, block.line.size, size):
        np.add(block.numbers[:size], float(low), out=at)
        np.multiply(at, 1e-6, out=at)
        block.line[low : low + size] = at
    return block.line


def _on_one(function: Callable[[Any], Any], name: str) -> Run:
    """Return a function of a matrix that one device has all of, and copies to it and back."""

    def run(block: Block) -> Any:
        if block is not block.all[0]:
            return None
        height, width = getattr(block, name).shape
        parts = iter(block.all)
        rows = [[getattr(next(parts), name) for _ in range(ROWS[1])] for _ in range(ROWS[0])]
        made = function(np.block(rows))
        return [
            made[i : i + height, j : j + width].copy()
            for i in range(0, len(made), height)
            for j in range(0, len(made), width)
        ]

    return run


def _in_rows(function: Callable[[Any], Any]) -> Run:
    """Return what a block is for a function of whole rows: copied to them, and back."""
    return lambda library: function(library.x.copy().reshape(-1, library.n)).copy()


KINDS = [
    # creation
    Kind("zeros", lambda o: o.np.zeros((o.n, o.n), np.float32, **o.place), blocks=_filled),
    Kind("full", lambda o: o.np.full((o.n, o.n), 2, np.float32, **o.place), blocks=_filled),
    Kind("eye", lambda o: o.np.eye(o.n, dtype=np.float32, **o.place), blocks=_filled),
    Kind(
        "arange(n * n)",
        lambda o: o.np.arange(o.n * o.n, dtype=np.int32),
        blocks=_counted,
        alone=True,
    ),
    Kind(
        "linspace, n * n",
        lambda o: o.np.linspace(0.0, 1.0, o.n * o.n, dtype=np.float32),
        blocks=_spaced,
        alone=True,
    ),
    Kind("tril", lambda o: o.np.tril(o.x), blocks=_into(np.positive, "x")),
    # one operand
    Kind("-x", lambda o: -o.x, blocks=_into(np.negative, "x")),
    Kind("abs", lambda o: o.np.abs(o.x), blocks=_into(np.abs, "x")),
    Kind("sqrt", lambda o: o.np.sqrt(o.y), blocks=_into(np.sqrt, "y")),
    Kind("exp", lambda o: o.np.exp(o.y), blocks=_into(np.exp, "y")),
    Kind("sin", lambda o: o.np.sin(o.y), blocks=_into(np.sin, "y")),
    Kind("isnan", lambda o: o.np.isnan(o.x), blocks=True),
    Kind("astype(int32)", lambda o: o.x.astype(np.int32), blocks=True),
    Kind("clip", lambda o: o.np.clip(o.x, -1, 1), blocks=True),
    # two and three
    Kind("x + y", lambda o: o.x + o.y, blocks=_into(np.add, "x", "y")),
    Kind("x * 2", lambda o: o.x * 2, blocks=lambda o: np.multiply(o.x, 2, out=o.made)),
    Kind("x / y", lambda o: o.x / o.y, blocks=_into(np.divide, "x", "y")),
    Kind("y ** 2", lambda o: o.y**2, blocks=True),
    Kind("maximum", lambda o: o.np.maximum(o.x, o.y), blocks=_into(np.maximum, "x", "y")),
    Kind("x - v, rows", lambda o: o.x - o.v),
    Kind("x < y", lambda o: o.x < o.y, blocks=True),
    Kind("i == 7", lambda o: o.i == 7, blocks=True),
    Kind("i % 7", lambda o: o.i % 7, blocks=lambda o: remainder(o.i, np.int32(7))),
    Kind("i & 12", lambda o: o.i & 12, blocks=True),
    Kind(
        "where",
        lambda o: o.np.where(o.m, o.x, o.y),
        blocks=lambda o: select(o.m, o.x, o.y, o.made),
    ),
    # reductions
    Kind("sum", lambda o: o.y.sum(), blocks=True),
    Kind("sum(axis=0)", lambda o: o.y.sum(axis=0), blocks=True),
    Kind("sum(axis=1)", lambda o: o.y.sum(axis=1), blocks=True),
    Kind("max(axis=0)", lambda o: o.x.max(axis=0), blocks=True),
    Kind("mean(axis=1)", lambda o: o.y.mean(axis=1), blocks=True),
    Kind("std", lambda o: o.y.std(), blocks=True),
    Kind("any", lambda o: o.m.any(), blocks=True),
    Kind("count_nonzero", lambda o: o.np.count_nonzero(o.m), blocks=True),
    Kind("argmax", lambda o: o.x.argmax(), blocks=True),
    Kind("argmin(axis=0)", lambda o: o.x.argmin(axis=0), blocks=True),
    Kind("argmin(axis=1)", lambda o: o.x.argmin(axis=1), blocks=True),
    Kind("cumsum(axis=0)", lambda o: o.np.cumsum(o.y, axis=0)),
    Kind("cumsum(axis=1)", lambda o: o.np.cumsum(o.y, axis=1)),
    Kind("cumprod of a vector", lambda o: o.np.cumprod(o.f)),
    # order
    Kind("sort(axis=0)", lambda o: o.np.sort(o.x, axis=0)),
    Kind(
        "sort(axis=1)",
        lambda o: o.np.sort(o.x, axis=1),
        blocks=_in_rows(lambda x: np.sort(x, axis=1)),
    ),
    Kind("argsort(axis=1)", lambda o: o.np.argsort(o.x, axis=1)),
    Kind("sort of a vector", lambda o: o.np.sort(o.f), blocks=True),
    Kind(
        "partition",
        lambda o: o.np.partition(o.x, 5, axis=1),
        blocks=_in_rows(lambda x: np.partition(x, 5, axis=1)),
        same=lambda x: x[:, 5],
    ),
    Kind("median", lambda o: o.np.median(o.x)),
    Kind("median(axis=1)", lambda o: o.np.median(o.x, axis=1)),
    Kind("percentile", lambda o: o.np.percentile(o.x, 30)),
    Kind(
        "searchsorted",
        lambda o: o.np.searchsorted(o.edges, o.f),
        blocks=lambda o: search(np, o.edges, o.f, "left", o.found),
    ),
    Kind("nonzero", lambda o: o.np.nonzero(o.m), blocks=True),
    # sets and counts
    Kind("unique", lambda o: o.np.unique(o.i)),
    Kind("isin", lambda o: o.np.isin(o.i, o.few), blocks=True),
    Kind("histogram", lambda o: o.np.histogram(o.f, 20)),
    Kind("histogram, range=", lambda o: o.np.histogram(o.f, 20, range=(0.0, 2.0)), blocks=True),
    Kind("bincount", lambda o: o.np.bincount(o.j), blocks=True),
    # linear algebra
    Kind("x @ y", lambda o: o.x @ o.y, blocks=_into(np.matmul, "rows", "columns")),
    Kind("x @ v", lambda o: o.x @ o.v, blocks=lambda o: o.x @ o.x[0]),
    Kind("vdot", lambda o: o.np.vdot(o.y, o.y), blocks=True),
    Kind("norm", lambda o: o.np.linalg.norm(o.y), blocks=True),
    Kind("norm(axis=1)", lambda o: o.np.linalg.norm(o.y, axis=1), blocks=True),
    Kind("einsum ij,ij->i", lambda o: o.np.einsum("ij,ij->i", o.y, o.y), blocks=True),
    Kind("outer", lambda o: o.np.outer(o.v, o.v)),
    Kind("trace", lambda o: o.np.trace(o.y), blocks=True),
    Kind("qr, n x n/8", lambda o: o.np.linalg.qr(o.tall), same=lambda x: abs(x[1])),
    Kind("svd, n x n/8", lambda o: o.np.linalg.svd(o.tall, False), same=lambda x: x[1]),
    Kind("solve, n/2", lambda o: o.np.linalg.solve(o.spd, o.spd[:, :3])),
    Kind(
        "cholesky, n/2",
        lambda o: o.np.linalg.cholesky(o.spd),
        blocks=_on_one(np.linalg.cholesky, "spd"),
        alone=True,
    ),
    Kind("inv, n/2", lambda o: o.np.linalg.inv(o.spd)),
    Kind("eigvalsh, n/2", lambda o: o.np.linalg.eigvalsh(o.spd)),
    Kind("fft", lambda o: o.np.fft.fft(o.y)),
    Kind("fft2", lambda o: o.np.fft.fft2(o.y)),
    # shapes
    Kind("concatenate", lambda o: o.np.concatenate([o.x, o.y])),
    Kind("stack", lambda o: o.np.stack([o.x, o.y])),
    Kind("roll", lambda o: o.np.roll(o.x, 5, axis=0)),
    Kind("pad", lambda o: o.np.pad(o.x, 1), blocks=lambda o: o.x.copy()),
    Kind(
        "tile",
        lambda o: o.np.tile(o.v, (o.n, 1)),
        blocks=lambda o: np.tile(o.x[0], (len(o.x), 1)),
    ),
    Kind("repeat", lambda o: o.np.repeat(o.v, o.n), blocks=True),
    Kind("diff", lambda o: o.np.diff(o.x, axis=0), blocks=lambda o: o.x.copy() - o.y),
    Kind("x.T", lambda o: o.x.T, view=True),
    Kind("reshape", lambda o: o.x.reshape(-1, 2 * o.n), view=True),
    Kind("ravel", lambda o: o.x.ravel(), view=True),
    Kind("x[:, None]", lambda o: o.x[:, None], view=True),
    Kind("flip", lambda o: o.np.flip(o.x, 0), view=True),
    Kind("split", lambda o: o.np.split(o.x, 4), view=True),
    Kind("broadcast_to", lambda o: o.np.broadcast_to(o.v, (o.n, o.n)), view=True),
    Kind("x[2:-2, 1:]", lambda o: o.x[2:-2, 1:], view=True),
    Kind("x[3]", lambda o: o.x[3], view=True),
    Kind("x[3, 4]", lambda o: o.x[3, 4], blocks=True, alone=True),
    Kind("list(x)", lambda o: list(o.x), view=True),
    # indexing
    Kind("x[rows]", lambda o: o.x[o.r], blocks=lambda o: o.x[_own_rows(o)]),
    Kind("take(axis=1)", lambda o: o.np.take(o.x, o.r, axis=1)),
    Kind("x[mask]", lambda o: o.x[o.m], blocks=True),
    Kind(
        "x.at[rows].set(1)",
        lambda o: o.y.at[o.r].set(1),
        numpy=_copied(_set_rows),
        blocks=_copied(_set_own_rows),
    ),
    Kind("x.at[rows].add(1)", lambda o: o.y.at[o.r].add(1), numpy=_copied(_add_rows)),
    Kind("z[2:5] = 1", _assigned, jax=lambda o: o.z.at[2:5].set(1), blocks=True, alone=True),
    # random numbers
    Kind(
        "random.bits",
        lambda o: o.random.bits(o.spread_key, (o.n, o.n), **o.spread),
        numpy=lambda o: o.random.integers(0, 1 << 32, (o.n, o.n), np.uint32),
        same=None,
    ),
    Kind(
        "random.uniform",
        lambda o: o.random.uniform(o.spread_key, (o.n, o.n), np.float32, **o.spread),
        numpy=lambda o: o.random.random((o.n, o.n), np.float32),
        same=None,
    ),
    Kind(
        "random.normal",
        lambda o: o.random.normal(o.spread_key, (o.n, o.n), np.float32, **o.spread),
        numpy=lambda o: o.random.standard_normal((o.n, o.n), np.float32),
        same=None,
    ),
    Kind(
        "random.randint",
        lambda o: o.random.randint(o.spread_key, (o.n, o.n), 0, 100, np.int32, **o.spread),
        numpy=lambda o: o.random.integers(0, 100, (o.n, o.n), np.int32),
        same=None,
    ),
    Kind(
        "random.permutation",
        lambda o: o.random.permutation(o.key, o.f),
        numpy=lambda o: o.random.permutation(o.f),
        same=None,
    ),
    Kind(
        "random.choice",
        lambda o: o.random.choice(o.key, o.f, (o.n * o.n,)),
        numpy=lambda o: o.random.choice(o.f, o.n * o.n),
        same=None,
    ),
    Kind(
        "random.gamma",
        lambda o: o.random.gamma(o.spread_key, 2.5, (o.n, o.n), np.float32, **o.spread),
        numpy=lambda o: o.random.standard_gamma(2.5, (o.n, o.n), np.float32),
        same=None,
    ),
]
