"""Choose the mesh axes that split each factor, by exact bytes. Pure.

Every consistent assignment of mesh axes to factors has a price. It is the bytes that devices
receive of operands, as if every device were a memory domain, plus the bytes of merging. So the
choice depends only on shardings and shapes, never on the machine.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.tiling import Tiling, block_edges
from gpushard._ops.rule import Dims, Rule, Splits
from gpushard._typing import IntArray, Shape

MOST = 4096  # the most assignments to price


@dataclass(frozen=True, eq=False)
class Given:
    """The layout of an operand."""

    tiling: Tiling | None  # its boxes; None for data with the same cost in every place
    # The axes of the candidate mesh that split each dim; None if it is on another mesh.
    axes: tuple[tuple[str, ...], ...] | None
    itemsize: int  # bytes of an element


@dataclass(frozen=True)
class Target:
    """The layout of the result that the caller asks for."""

    axes: Splits  # the axes of the mesh that split each dim
    itemsize: int  # bytes of an element


def agreed(rule: Rule, operands: Sequence[Given]) -> Splits | None:
    """Return the splits of all factors if every operand can stay in its layout.

    Return None if two operands split a factor differently, or one axis would split two factors, or
    a factor that must stay whole is split.
    """
    axes_of_factors = dict(rule.pinned)
    for dims, operand in zip(rule.operands, operands, strict=True):
        if operand.tiling is None:
            continue
        if operand.axes is None:
            return None
        for factor, axes in zip(dims, operand.axes, strict=True):
            if axes and factor not in rule.splittable and not _may_stay(rule, factor):
                return None
            if factor is not None and axes_of_factors.setdefault(factor, axes) != axes:
                return None
    used = [axis for axes in axes_of_factors.values() for axis in axes]
    if len(set(used)) != len(used):
        return None
    return tuple(axes_of_factors.get(factor, ()) for factor in range(len(rule.sizes)))


def _may_stay(rule: Rule, factor: int | None) -> bool:
    """Test whether a factor that is not splittable may stay split: pinned, or short in results."""
    if factor in rule.pins:
        return True
    return factor is not None and factor not in rule.whole and factor not in rule.reduced


def assignments(rule: Rule, mesh: Mesh, operands: Sequence[Given]) -> list[Splits]:
    """List the consistent assignments of mesh axes to factors.

    List all of them, if there are at most `MOST`. Else list those of the axes that an operand uses.
    Else list those that put every axis where an operand has it, or nowhere.
    """
    axes_in_use = [
        (dims, operand.axes)
        for dims, operand in zip(rule.operands, operands, strict=True)
        if operand.axes is not None
    ]
    used = {axis for _, dims in axes_in_use for axes in dims for axis in axes}
    every = [axis for axis, size in mesh.shape.items() if size > 1 and axis not in rule.taken]
    for axes in (every, [axis for axis in every if axis in used]):
        if _count(len(axes), len(rule.splittable)) <= MOST:
            return list(_all(rule, axes))
    places: dict[str, set[int]] = {axis: set() for axis in every if axis in used}
    for dims, split in axes_in_use:
        for factor, names in zip(dims, split, strict=True):
            for axis in names:
                if factor in rule.splittable and axis in places:
                    places[axis].add(factor)
    return list(itertools.islice(_possible_splits(rule, places), MOST))


def _count(axes: int, factors: int) -> int:
    """Count the ways to put axes, in order, on factors or nowhere.

    >>> [_count(2, 1), _count(2, 2), _count(2, 0)]
    [5, 11, 1]
    """
    return 1 + sum(
        math.comb(axes, k) * math.comb(k + factors - 1, k) * math.factorial(k)
        for k in range(1, axes + 1)
        if factors
    )


def _all(rule: Rule, axes: Sequence[str]) -> Iterator[Splits]:
    choices = [(*rule.splittable, None)] * len(axes)
    for chosen in itertools.product(*choices):
        groups = {f: [a for a, at in zip(axes, chosen, strict=True) if at == f] for f in chosen}
        groups.pop(None, None)
        orders = [itertools.permutations(names) for names in groups.values()]
        for order in itertools.product(*orders):
            splits = rule.pins | dict(zip(groups, order, strict=True))
            yield tuple(splits.get(f, ()) for f in range(len(rule.sizes)))


def _possible_splits(rule: Rule, places: dict[str, set[int]]) -> Iterator[Splits]:
    choices: Iterable[Sequence[int | None]] = [(*sorted(at), None) for at in places.values()]
    for chosen in itertools.product(*choices):
        yield tuple(
            rule.pins.get(f)
            or tuple(axis for axis, at in zip(places, chosen, strict=True) if at == f)
            for f in range(len(rule.sizes))
        )


class Prices:
    """Prices of assignments on one mesh; every part of a price is computed once."""

    def __init__(
        self, rule: Rule, mesh: Mesh, operands: Sequence[Given], target: Target | None = None
    ) -> None:
        self._target = target
        self._rule = rule
        self._mesh = mesh
        self._operands = operands
        self._at = [_positions(operand.tiling, mesh) for operand in operands]
        self._coordinates = dict(zip(mesh.axis_names, np.indices(mesh.axis_sizes), strict=True))
        self._received = functools.cache(self._price_operand)
        self._bounds = functools.cache(self._bounds_of)
        self._common = functools.cache(self._common_of)
        self._shared = functools.cache(self._shared_of)

    def merges(self, splits: Splits) -> bool:
        """Test whether a split factor is in no result, so parts must be merged."""
        return any(splits[factor] for factor in self._rule.reduced)

    def operand_bytes(self, splits: Splits) -> int:
        """Return the bytes of operands that all devices together receive before they compute."""
        return sum(
            self._received(n, of_dims(dims, splits)) for n, dims in enumerate(self._rule.operands)
        )

    def changed(self, splits: Splits) -> tuple[bool, ...]:
        """Return for each operand whether its boxes would change."""
        return tuple(
            operand.tiling is not None and operand.axes != of_dims(dims, splits)
            for operand, dims in zip(self._operands, self._rule.operands, strict=True)
        )

    def parallel(self, splits: Splits) -> int:
        """Return the number of parts of the work."""
        return math.prod(self._mesh.shape[axis] for axes in splits for axis in axes)

    def _price_operand(self, n: int, axes: Splits) -> int:
        operand = self._operands[n]
        if operand.tiling is None or axes == operand.axes:
            return 0
        held = np.asarray(self._at[n] >= 0, np.int64)
        for dim, names in enumerate(axes):
            held = held * self._common(n, dim, names)
        return (self._wanted(operand.tiling.shape, axes) - int(held.sum())) * operand.itemsize

    def _wanted(self, shape: Shape, axes: Splits) -> int:
        """Return the elements of all devices' blocks, if no axis splits two dims.

        Each block has as many replicas as the other axes have devices.
        """
        return math.prod(shape) * (self._mesh.size // self._size(axes))

    def _common_of(self, n: int, dim: int, names: tuple[str, ...]) -> IntArray:
        tiling = self._operands[n].tiling
        assert tiling is not None
        start, stop = self._bounds(tiling.shape[dim], names)
        low, high = tiling.starts[dim][self._at[n]], tiling.stops[dim][self._at[n]]
        return _overlap(start, stop, low, high)

    def _bounds_of(self, size: int, names: tuple[str, ...]) -> tuple[IntArray, IntArray]:
        number = np.zeros(self._mesh.axis_sizes, np.int64)
        for name in names:
            number = number * self._mesh.shape[name] + self._coordinates[name]
        edges = block_edges(size, math.prod(self._mesh.shape[name] for name in names))
        number = number.ravel()
        return edges[number], edges[number + 1]

    def target_bytes(self, splits: Splits) -> int:
        """Return the bytes to move the result from its natural layout to the target.

        Zero if the target is a finer split.
        """
        target, dims = self._target, self._rule.results[0]
        if target is None or self._is_finer(splits):
            return 0
        shape = tuple(1 if f is None else self._rule.sizes[f] for f in dims)
        return self._between(shape, of_dims(dims, splits), target.axes) * target.itemsize

    def merge_bytes(self, splits: Splits, state_bytes: int) -> int:
        """Return the bytes to merge parts, and to move the result to the target.

        Merging moves each part once to the device that merges, and the whole to the others that
        need it: (g - 1) + (n - 1) times the state of a block, if g devices have parts and n devices
        need it. If each of them needs a different part, each merges its own part, for (g - 1) times
        the state.
        """
        rule, target, dims = self._rule, self._target, self._rule.results[0]
        groups = self._size(splits[f] for f in rule.reduced)
        state = math.prod(1 if f is None else rule.sizes[f] for f in dims) * state_bytes
        apart = target is not None and self._size(target.axes) == self._mesh.size
        if apart and self._is_finer(splits):
            return (groups - 1) * state
        wanting = self._mesh.size // self._size(of_dims(dims, splits))
        return (groups + wanting - 2) * state + self.target_bytes(splits)

    def _is_finer(self, splits: Splits) -> bool:
        """Test whether the target splits the result as its natural layout does, or finer."""
        comes = of_dims(self._rule.results[0], splits)
        return self._target is not None and all(
            wide == fine[: len(wide)] for wide, fine in zip(comes, self._target.axes, strict=True)
        )

    def _size(self, axes: Iterable[tuple[str, ...]]) -> int:
        return math.prod(self._mesh.shape[name] for names in axes for name in names)

    def _between(self, shape: Shape, have: Splits, want: Splits) -> int:
        """Return the elements that devices receive when a result moves to another layout."""
        held = np.ones(self._mesh.size, np.int64)
        for n, old, new in zip(shape, have, want, strict=True):
            held = held * self._shared(n, old, new)
        return self._wanted(shape, want) - int(held.sum())

    def _shared_of(self, size: int, old: tuple[str, ...], new: tuple[str, ...]) -> IntArray:
        (low, high), (start, stop) = self._bounds(size, old), self._bounds(size, new)
        return _overlap(start, stop, low, high)


def _overlap(start: IntArray, stop: IntArray, low: IntArray, high: IntArray) -> IntArray:
    """Count the integers in both [start, stop) and [low, high), pair by pair."""
    return np.asarray(np.maximum(np.minimum(stop, high) - np.maximum(start, low), 0))


def _positions(tiling: Tiling | None, mesh: Mesh) -> IntArray:
    """Return the position of each device of a mesh in a tiling, or -1."""
    if tiling is None:
        return np.zeros(0, np.int64)
    at = {device: position for position, device in enumerate(tiling.devices)}
    return np.array([at.get(device, -1) for device in mesh.assignment], np.int64)


@dataclass(frozen=True, eq=False)
class Choice:
    """The chosen assignment, and the way to run it."""

    mesh: Mesh
    splits: Splits  # the axes that split each factor
    nbytes: int  # bytes that all devices receive, if each were a memory domain
    way: int  # the number of the way to run it
    aimed: bool = False  # whether `nbytes` includes the move of the result to the target


Price: TypeAlias = Callable[[Prices, Splits], int | None]
"""Price an assignment: the bytes that all devices receive, if each were a memory domain. None if
it cannot run."""


def local(prices: Prices, splits: Splits) -> int | None:
    """Price kernel calls that need only blocks of operands: a `Price`."""
    if prices.merges(splits):
        return None
    return prices.operand_bytes(splits) + prices.target_bytes(splits)


def choose(
    rule: Rule,
    candidates: Sequence[tuple[Mesh, Sequence[Given]]],
    ways: Sequence[Price] = (local,),
    target: Target | None = None,
) -> Choice:
    """Return the cheapest assignment and way, over several meshes of the same devices.

    Ties go to the assignment that changes the fewest operands, then to the one with the most parts.
    Then they go to the one that keeps earlier operands, then to the first way. The last way runs
    operands that are not split.
    """
    for mesh, operands in candidates:
        splits = agreed(rule, operands)
        if splits is None or any(splits[factor] for factor in rule.reduced):
            continue
        if target is None or target.axes == of_dims(rule.results[0], splits):
            return Choice(mesh, splits, 0, len(ways) - 1, target is not None)
    best: tuple[tuple[int, int, int, tuple[bool, ...], int], Choice] | None = None
    for mesh, operands in candidates:
        prices = Prices(rule, mesh, operands, target)
        for splits in (*assignments(rule, mesh, operands), *_as_wanted(rule, target)):
            for way, price in enumerate(ways):
                nbytes = price(prices, splits)
                if nbytes is None or (best is not None and nbytes > best[0][0]):
                    continue
                changed = prices.changed(splits)
                rank = nbytes, sum(changed), -prices.parallel(splits), changed, way
                if best is None or rank < best[0]:
                    best = rank, Choice(mesh, splits, nbytes, way, target is not None)
    assert best is not None  # the candidates always include no split
    return best[1]


def _as_wanted(rule: Rule, target: Target | None) -> Iterator[Splits]:
    """Yield the assignment of the target, which the limit `MOST` may have dropped."""
    if target is not None:
        axes = dict(zip(rule.results[0], target.axes, strict=True))
        free = {f: n for f, n in axes.items() if f in rule.splittable and not rule.taken & set(n)}
        yield tuple((free | rule.pins).get(f, ()) for f in range(len(rule.sizes)))


def of_dims(dims: Dims, splits: Splits) -> Splits:
    """Return the axes that split each dim of an operand or result under an assignment."""
    return tuple([() if factor is None else splits[factor] for factor in dims])


def sharding_of(
    mesh: Mesh, dims: Dims, splits: Splits, memory_kind: str = "device"
) -> NamedSharding:
    """Return the sharding of an operand or result under an assignment."""
    entries = list(of_dims(dims, splits))
    while entries and not entries[-1]:
        entries.pop()
    spec = PartitionSpec(*(None if not e else e[0] if len(e) == 1 else e for e in entries))
    return NamedSharding(mesh, spec, memory_kind=memory_kind)
