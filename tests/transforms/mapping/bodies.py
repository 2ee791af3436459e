"""Random bodies of mapped functions: operations and collectives, for any of three interpreters.

A body works on one value. Its steps are pairs (name, what it takes), and an interpreter has a
function for each name. `Blocks` is the oracle: it has the blocks of all devices as one array with
the axes of the mesh in front, and says by NumPy, in loops, what each device gets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

Step: TypeAlias = tuple[str, tuple[Any, ...]]

LOCAL: dict[str, Callable[[Any, Any], Any]] = {
    "double": lambda xp, v: v * 2,
    "square": lambda xp, v: v * v % 11,
    "sum first": lambda xp, v: v.sum(axis=0),
    "sum last, keep": lambda xp, v: v - v.sum(axis=-1, keepdims=True),
    "reverse": lambda xp, v: v[::-1],
    "transpose": lambda xp, v: xp.transpose(v),
    "column": lambda xp, v: v + xp.arange(v.shape[-1]).astype(v.dtype),
    "sort": lambda xp, v: xp.sort(v, axis=0),
    "cumsum": lambda xp, v: xp.cumsum(v, axis=-1) % 13,
    "flatten": lambda xp, v: v.reshape(-1),
    "roll": lambda xp, v: xp.roll(v, 1, 0),
    "where": lambda xp, v: xp.where(v > 3, v, -v),
    "new dim": lambda xp, v: v[None],
    "concatenate": lambda xp, v: xp.concatenate([v, v + 1], axis=0),
    "matmul": lambda xp, v: v @ xp.transpose(v) % 17 if v.ndim == 2 else v,
    "max": lambda xp, v: v - v.max(),
}
"""Functions of one block."""

COLLECTIVES = (
    "psum", "pmean", "pmax", "pmin", "all_gather", "gather tiled", "scatter", "scatter tiled",
    "all_to_all", "all_to_all tiled", "ppermute", "axis_index", "broadcast", "size",
)  # fmt: skip


class Lax:
    """The steps by a module that has `jax.lax`'s functions."""

    def __init__(self, lax: Any, xp: Any) -> None:
        self.lax, self.xp = lax, xp

    def do(self, step: Step, v: Any) -> Any:
        """Do one step."""
        name, given = step
        lax = self.lax
        if name in LOCAL:
            return LOCAL[name](self.xp, v)
        axes, *rest = given
        table: dict[str, Callable[..., Any]] = {
            "psum": lambda groups: lax.psum(v, axes, axis_index_groups=groups),
            "pmean": lambda: lax.pmean(v, axes),
            "pmax": lambda groups: lax.pmax(v, axes, axis_index_groups=groups),
            "pmin": lambda: lax.pmin(v, axes),
            "all_gather": lambda dim, groups: lax.all_gather(
                v, axes, axis=dim, axis_index_groups=groups
            ),
            "gather tiled": lambda dim: lax.all_gather(v, axes, axis=dim, tiled=True),
            "scatter": lambda dim: lax.psum_scatter(v, axes, scatter_dimension=dim),
            "scatter tiled": lambda dim, groups: lax.psum_scatter(
                v, axes, scatter_dimension=dim, tiled=True, axis_index_groups=groups
            ),
            "all_to_all": lambda split, concat: lax.all_to_all(v, axes, split, concat),
            "all_to_all tiled": lambda split, concat, groups: lax.all_to_all(
                v, axes, split, concat, tiled=True, axis_index_groups=groups
            ),
            "ppermute": lambda pairs: lax.ppermute(v, axes, pairs),
            "axis_index": lambda: v + lax.axis_index(axes).astype(v.dtype),
            "broadcast": lambda source: lax.pbroadcast(v, axes, source),
            "size": lambda: v * lax.psum(1, axes),
        }
        return table[name](*rest)


class Blocks:
    """The steps on the blocks of all devices: the oracle."""

    def __init__(self, axes: dict[str, int]) -> None:
        self.axes = axes

    def do(self, step: Step, v: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Do one step."""
        name, given = step
        every = list(np.ndindex(*self.axes.values()))
        if name in LOCAL:
            made = [LOCAL[name](np, v[at]) for at in every]
            return self._stacked(made)
        axes, *rest = given
        names = (axes,) if isinstance(axes, str) else axes
        size = math.prod(self.axes[axis] for axis in names)
        groups = rest[-1] if name in WITH_GROUPS and rest[-1] is not None else [range(size)]
        of = {n: list(group) for group in groups for n in group}
        made = []
        for at in every:
            mine = self._number(at, names)
            group = of[mine]
            there = [v[self._at(at, names, n)] for n in group]
            made.append(_of_member(name, there, group.index(mine), mine, v[at], rest))
            if name == "ppermute":
                of_me = [source for source, to in rest[0] if to == mine]
                made[-1] = v[self._at(at, names, of_me[0])] if of_me else np.zeros_like(v[at])
            if name == "broadcast":
                made[-1] = v[self._at(at, names, rest[0])]
        return self._stacked(made)

    def _stacked(self, made: Sequence[Any]) -> np.ndarray[Any, Any]:
        first = np.asarray(made[0])
        return np.stack(made).reshape((*self.axes.values(), *first.shape))

    def _number(self, at: Sequence[int], names: Sequence[str]) -> int:
        number = 0
        for axis in names:
            number = number * self.axes[axis] + at[list(self.axes).index(axis)]
        return number

    def _at(self, at: Sequence[int], names: Sequence[str], number: int) -> tuple[int, ...]:
        place = dict(zip(self.axes, at, strict=True))
        for axis in reversed(names):
            number, place[axis] = divmod(number, self.axes[axis])
        return tuple(place.values())


def _of_member(
    name: str, there: list[Any], member: int, mine: int, own: Any, rest: Sequence[Any]
) -> Any:
    """Return what a member of a group gets, where `there` are the values of all of them."""
    parts = len(there)
    if name == "psum":
        return sum(there)
    if name == "pmean":
        return sum(there) / parts
    if name == "pmax":
        return np.maximum.reduce(there)
    if name == "pmin":
        return np.minimum.reduce(there)
    if name == "all_gather":
        return np.stack(there, axis=rest[0])
    if name == "gather tiled":
        return np.concatenate(there, axis=rest[0])
    if name == "scatter":
        return np.take(sum(there), member, axis=rest[0])
    if name == "scatter tiled":
        return np.split(sum(there), parts, axis=rest[0])[member]
    if name == "all_to_all":
        return np.stack([np.take(x, member, axis=rest[0]) for x in there], axis=rest[1])
    if name == "all_to_all tiled":
        pieces = [np.split(x, parts, axis=rest[0])[member] for x in there]
        return np.concatenate(pieces, axis=rest[1])
    if name == "axis_index":
        return own + np.asarray(mine).astype(own.dtype)
    return own * parts


WITH_GROUPS = ("psum", "pmax", "all_gather", "scatter tiled", "all_to_all tiled")


def random_body(
    rng: np.random.Generator, axes: dict[str, int], shape: Sequence[int], count: int
) -> list[Step]:
    """Return steps that fit a block of some shape, which stays small."""
    oracle = Blocks(axes)
    value = np.zeros((*axes.values(), *shape))
    steps: list[Step] = []
    while len(steps) < count:
        step = _random_step(rng, axes, value.shape[len(axes) :])
        if step is None:
            continue
        try:
            made = oracle.do(step, value)
        except (ValueError, IndexError):
            continue
        block = made.shape[len(axes) :]
        if math.prod(block) <= 200 and 0 < len(block) <= 4 and 0 not in block:
            value = made
            steps.append(step)
    return steps


def _random_step(
    rng: np.random.Generator, axes: dict[str, int], shape: Sequence[int]
) -> Step | None:
    if rng.random() < 0.4:
        return str(rng.choice(list(LOCAL))), ()
    return random_collective(rng, str(rng.choice(COLLECTIVES)), axes, shape)


def random_collective(
    rng: np.random.Generator, name: str, axes: dict[str, int], shape: Sequence[int]
) -> Step | None:
    """Return a collective of a block of some shape; None if what was drawn does not fit it."""
    many = rng.permutation(list(axes))[: rng.integers(1, len(axes) + 1)].tolist()
    chosen: Any = many[0] if len(many) == 1 or rng.random() < 0.6 else tuple(many)
    names = (chosen,) if isinstance(chosen, str) else chosen
    size = math.prod(axes[axis] for axis in names)
    ndim = len(shape)
    groups = None
    if name in WITH_GROUPS and rng.random() < 0.4:
        groups = _random_groups(rng, size, equal=name not in ("psum", "pmax"))
    parts = size if groups is None else len(groups[0])
    dim = int(rng.integers(ndim)) if ndim else 0
    if name in ("psum", "pmax"):
        return name, (chosen, groups)
    if name in ("pmean", "pmin", "axis_index", "size"):
        return name, (chosen,)
    if name == "all_gather":
        return name, (chosen, int(rng.integers(ndim + 1)), groups)
    if name == "broadcast":
        return name, (chosen, int(rng.integers(size)))
    if name == "ppermute":
        count = int(rng.integers(size + 1))
        sources, targets = (rng.permutation(size)[:count].tolist() for _ in range(2))
        return name, (chosen, list(zip(sources, targets, strict=True)))
    if not ndim:
        return None
    if name == "gather tiled":
        return name, (chosen, dim)
    if name == "scatter":
        return (name, (chosen, dim)) if shape[dim] == size else None
    if name == "all_to_all":
        return (name, (chosen, dim, int(rng.integers(ndim)))) if shape[dim] == size else None
    if shape[dim] % parts:
        return None
    if name == "scatter tiled":
        return name, (chosen, dim, groups)
    return name, (chosen, dim, int(rng.integers(ndim)), groups)


def _random_groups(rng: np.random.Generator, size: int, *, equal: bool) -> list[list[int]]:
    order = rng.permutation(size).tolist()
    if equal:
        divisors = [n for n in range(1, size + 1) if size % n == 0]
        parts = int(rng.choice(divisors))
        return [order[n : n + parts] for n in range(0, size, parts)]
    cuts = sorted({0, size, *rng.integers(0, size + 1, 2).tolist()})
    return [order[a:b] for a, b in itertools.pairwise(cuts)]
