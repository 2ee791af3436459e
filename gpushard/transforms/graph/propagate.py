"""Where the values of a graph lie: so that as few bytes move as can be found, all together.

A graph comes laid out as its operations do it one by one. What users say stays: arguments, results,
constraints, and what operations without a rule take and give. Everything else may lie elsewhere.
Where an operation's result goes is what is searched for; where it takes its operands then,
dispatch chooses, by the same prices.

A value is *pulled*: it is tried where one that needs it takes it. Then what makes it takes its own
operands elsewhere, which are pulled in turn, back to arguments and constraints; of all of these the
first ones are kept that lower the sum of all bytes. The sum counts a value that several operations
take in the same place once. Of what the result of a sum is split by, a part for each device is
enough: then an all-reduce becomes a reduce-scatter.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.sharding import Sharding
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import devices_of
from gpushard.ops.aval import Aval
from gpushard.ops.choose import Given, assignments, sharding_of
from gpushard.ops.gather_guard import watched
from gpushard.ops.operand import Literal, Sharded
from gpushard.ops.rule import elementwise
from gpushard.ops.scalars import kind_of_number
from gpushard.transforms.graph.graph import Graph, Step, Var
from gpushard.transforms.graph.ops import Move, RowOp
from gpushard.transforms.graph.priced import Laid, Place, can_price, priced
from gpushard.transforms.graph.simplify import simplified
from gpushard.transforms.graph.steps import bound, case_of, closed, keeps, lacking, resharded

_PRICES = 200
"""So many operations are priced at most beyond those of the graph as it comes."""

_LAID = 2000
"""So often, and four times for each of the graph, an operation is laid out anew at most."""

_TURNS = 16
"""So often all values are gone through at most."""

_DEPTH = 24
"""So far a value's new place is pulled back to what it is made of."""

_EVERY = 64
"""Up to so many ways to lie a value is tried in all of them, if there are few values."""


def optimized(graph: Graph) -> Graph:
    """Return a graph that does the same, and moves no more bytes than the one given."""
    return simplified(propagated(simplified(graph)))


def propagated(graph: Graph) -> Graph:
    """Return a graph whose values lie so that fewer bytes move; of arguments and results none."""
    steps = graph.needed()
    if not any(step.moved or _rearranges(step) for step in steps):
        return graph
    layout = Layout(graph, steps)
    layout.improve()
    return _Build(layout).graph


def _rearranges(step: Step) -> bool:
    """Whether an operation may move elements that it does not count."""
    if not isinstance(step.op, RowOp) or not step.op.only_moves or not can_price(step):
        return False
    return not all(x.tiling.assignment.is_replicated for x in (*step.arrays, *step.results))


class Layout:
    """Where all values of a graph lie, and what that costs.

    Args:
      graph: it.
      steps: its operations that are needed.
    """

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self.graph = graph
        self.steps = steps
        self.total = 0
        """Bytes that all devices receive, if each were a memory domain."""
        self.place: dict[Var, Place] = {}
        self.out: dict[int, Sharding] = {}
        """By the number of an operation, where its result is to lie, unless dispatch chooses."""
        self.laid: dict[int, Laid] = {}
        self.maker: dict[Var, int] = {}
        self.users: dict[Var, list[int]] = {}
        self.asked: dict[Var, dict[Tiling, list[Any]]] = {}  # how often where, and the sharding
        self._journal: list[tuple[Any, ...]] = []
        self._known: dict[Any, Laid] = {}
        self.priced = [can_price(step) for step in steps]
        for x in (*graph.inputs, *graph.constants):
            self.place[x] = x.sharding, x.tiling
        for number, step in enumerate(steps):
            for x in dict.fromkeys(step.arrays):
                self.users.setdefault(x, []).append(number)
            for x in step.results:
                self.maker[x] = number
                self.place[x] = x.sharding, x.tiling
        self._left = 0
        for number in range(len(steps)):
            self._lay(number)
        for x in graph.results:
            self._ask(x, (x.sharding, x.tiling), 1)
        self._most = len(self._known) + _PRICES
        self._left = _LAID + 4 * len(steps)

    def improve(self) -> None:
        """Search."""
        few = sum(map(self.is_open, range(len(self.steps)))) <= 24
        for every in (False, True) if few else (False,):
            better, turns = True, 0
            while better and turns < _TURNS and not self._is_spent():
                better, turns = False, turns + 1
                for number in reversed(range(len(self.steps))):
                    if self.is_open(number):
                        for sharding in self._candidates(number, every=every):
                            better = self._pull(number, sharding) or better

    def _is_spent(self) -> bool:
        """Whether the search has taken long enough; it is counted, not timed."""
        return self._left < 0 or len(self._known) >= self._most

    def is_open(self, number: int) -> bool:
        """Whether the result of an operation may lie elsewhere."""
        step = self.steps[number]
        if isinstance(step.op, Move):
            wanted = step.op.wanted
            return isinstance(wanted, NamedSharding) and wanted.leaves_open
        return self.priced[number] and len(step.results) == 1

    def keeps(self, number: int, sharding: Sharding) -> bool:
        """Whether the result of an operation may lie so: a user may have said how it has to."""
        op = self.steps[number].op
        return not isinstance(op, Move) or keeps(sharding, op.wanted)

    def _candidates(self, number: int, *, every: bool) -> Iterator[Sharding]:
        """Yield where the result of an operation may better lie."""
        step = self.steps[number]
        (x,) = step.results
        own = self.place[x]
        asked = self.asked.get(x, {})
        alone = self.laid[number].total == 0 and all(tiling is own[1] for tiling in asked)
        if alone:
            return
        found = [places[1] for places in list(asked.values())]
        seen: set[Tiling] = set()
        if number in self.out or not self.laid[number].own:
            seen.add(own[1])
        else:  # asked for, it may come to where it lies for fewer bytes than dispatch chose
            found.append(own[0])
        if every:
            found += self._every(x)
        for sharding in found:
            if not isinstance(sharding, NamedSharding) or sharding.memory_kind != "device":
                continue
            if not self.keeps(number, sharding):
                continue
            tiling = sharding.tiling(x.shape)
            if tiling not in seen and set(tiling.devices) == set(own[1].devices):
                seen.add(tiling)
                yield sharding

    def _every(self, x: Var) -> list[Sharding]:
        """Return all ways to lay out a value over its mesh, if there are few."""
        mesh = getattr(x.sharding, "mesh", None)
        if not isinstance(mesh, Mesh):
            return []
        rule = elementwise([x.shape], x.shape)
        found = assignments(rule, mesh, [Given(None, None, 1)])
        if len(found) > _EVERY:
            return []
        return [sharding_of(mesh, rule.results[0], splits) for splits in found]

    def _pull(self, number: int, sharding: Sharding) -> bool:
        """Lay out a result elsewhere, and what it is made of; return whether that is better."""
        if self._is_spent():
            return False
        best, kept = self.total, 0
        self._journal = []
        line = [(number, sharding)]
        pulled = set()
        for _ in range(_DEPTH):
            if not line:
                break
            number, sharding = line.pop(0)
            pulled.add(number)
            self._choose(number, sharding)
            if self.total < best:
                best, kept = self.total, len(self._journal)
            arrays = self.steps[number].arrays
            for x, want in zip(arrays, self.laid[number].wants, strict=False):
                if want is None or want[1] is self.place[x][1]:
                    continue
                maker = self.maker.get(x)
                if maker is None or maker in pulled or not self.is_open(maker):
                    continue
                same_devices = set(want[1].devices) == set(self.place[x][1].devices)
                if same_devices and self.keeps(maker, want[0]):
                    line.append((maker, want[0]))
        self._undo(kept)
        return kept > 0

    def _choose(self, number: int, sharding: Sharding | None) -> None:
        """Say where a result is to lie, and lay out all that follows from it."""
        self._journal.append(("out", number, self.out.get(number)))
        self._set_out(number, sharding)
        waiting = [number]
        while waiting:
            number = heapq.heappop(waiting)
            while waiting and waiting[0] == number:
                heapq.heappop(waiting)
            for x in self._lay(number):
                for user in self.users.get(x, ()):
                    heapq.heappush(waiting, user)

    def _set_out(self, number: int, sharding: Sharding | None) -> None:
        if sharding is None:
            self.out.pop(number, None)
        else:
            self.out[number] = sharding

    def _lay(self, number: int) -> list[Var]:
        """Lay out an operation anew; return the results that lie elsewhere than before."""
        step, laid = self.steps[number], self._laid(number)
        self._left -= 1
        before = self.laid.get(number)
        if before is laid:
            return []
        self._journal.append(("laid", number, before))
        self._set_laid(number, laid)
        changed = []
        for x, place in zip(step.results, laid.results, strict=True):
            if place[1] is not self.place[x][1]:
                self._journal.append(("place", x, self.place[x]))
                self._set_place(x, place)
                changed.append(x)
        return changed

    def _set_laid(self, number: int, laid: Laid | None) -> None:
        arrays = self.steps[number].arrays
        for sign, each in ((-1, self.laid.get(number)), (1, laid)):
            if each is not None:
                self.total += sign * each.own
                for x, want in zip(arrays, each.wants, strict=False):
                    if want is not None:
                        self._ask(x, want, sign)
        if laid is None:
            del self.laid[number]
        else:
            self.laid[number] = laid

    def _set_place(self, x: Var, place: Place) -> None:
        asked = self.asked.get(x, {})
        self.total -= sum(self.cost(x, tiling) for tiling in asked)
        self.place[x] = place
        self.total += sum(self.cost(x, tiling) for tiling in asked)

    def _ask(self, x: Var, place: Place, sign: int) -> None:
        """Count an operation more, or less, that takes a value somewhere."""
        asked = self.asked.setdefault(x, {})
        count = asked.setdefault(place[1], [0, place[0]])
        if count[0] == (0 if sign > 0 else 1):
            self.total += sign * self.cost(x, place[1])
        count[0] += sign
        if not count[0]:
            del asked[place[1]]

    def cost(self, x: Var, tiling: Tiling) -> int:
        """Return the bytes that move to bring a value somewhere."""
        return lacking(self.place[x][1], tiling) * x.dtype.itemsize

    def _undo(self, kept: int) -> None:
        """Take back all but the first changes."""
        for kind, of, before in reversed(self._journal[kept:]):
            if kind == "out":
                self._set_out(of, before)
            elif kind == "laid":
                self._set_laid(of, before)
            else:
                self._set_place(of, before)

    def _laid(self, number: int) -> Laid:
        """Return an operation as it is laid out for its operands as they lie."""
        step, out = self.steps[number], self.out.get(number)
        op, arrays = step.op, step.arrays
        places = [self.place[x] for x in arrays]
        tilings = [tiling for _, tiling in places]
        if isinstance(op, Move):
            key: Any = (number, *tilings, out)
            return self._price(key, lambda: _moved_to(step, op, places[0], out))
        if not self.priced[number]:
            return self._price(number, lambda: _as_it_lies(step))
        assert isinstance(op, RowOp)
        kinds = [(x.dtype, x.committed, x.weak) for x in arrays]
        hosted = [(x.shape, x.dtype, x.weak) for x in step.operands if isinstance(x, Literal)]
        numbers = map(kind_of_number, op.numbers)
        key = (
            op.row, op.params, op.scalars, out,
            *numbers, *hosted, *(isinstance(x, Var) for x in step.operands), *kinds, *tilings,
        )  # fmt: skip
        return self._price(key, lambda: _priced(step, op, places, out, key))

    def _price(self, key: Any, make: Callable[[], Laid]) -> Laid:
        """Return what is known under a key, worked out if it is asked for the first time."""
        laid = self._known.get(key)
        if laid is None:
            laid = self._known[key] = make()
        return laid


def _as_it_lies(step: Step) -> Laid:
    """Lay out an operation whose operands and results stay where they are."""
    ends = tuple((x.sharding, x.tiling) for x in step.results)
    return Laid(ends, tuple((x.sharding, x.tiling) for x in step.arrays), 0, 0)


def _moved_to(step: Step, move: Move, lies: Place, out: Sharding | None) -> Laid:
    """Lay out a reshard of a value that lies somewhere."""
    (x,) = step.results
    to = x.sharding if move.wanted is None else out or closed(move.wanted, lies[0])
    place = to, to.tiling(x.shape)
    return Laid((place,), (place,), 0, 0)


def _priced(
    step: Step, op: RowOp, places: Sequence[Place], out: Sharding | None, key: tuple[Any, ...]
) -> Laid:
    """Lay out an operation of the table on values that lie somewhere, as dispatch would."""
    plans = devices_of(step.results[0].tiling)[0].runtime.plans
    laid: Laid | None = plans.get(("price", *key))
    if laid is None:
        lies = dict(zip(step.arrays, places, strict=True))
        operands = [at(x, lies[x]) if isinstance(x, Var) else x for x in step.operands]
        laid = priced(case_of(op, operands, out))
        plans.put(("price", *key), laid, 500 + 300 * len(places))
    return laid


def at(x: Var, place: Place) -> Var:
    """Return a value as it would be elsewhere."""
    if place[1] is x.tiling:
        return x
    return Var(x.dtype, place[1], place[0], x.committed, x.weak)


class _Build:
    """The graph of a layout, in which everything that moves is an operation of its own."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._steps: list[Step] = []
        self._now: dict[Var, Var] = {}
        self._copies: dict[tuple[Var, Tiling], Var] = {}
        own = layout.graph
        for number, step in enumerate(layout.steps):
            self._add(number, step)
        results = [self._result(x) for x in own.results]
        self.graph = dataclasses.replace(own, steps=self._steps, results=results)
        """It."""

    def _add(self, number: int, step: Step) -> None:
        """Add an operation."""
        laid = self._layout.laid[number]
        if isinstance(step.op, Move):
            (x,), (to,) = step.arrays, laid.results
            now = self._now.get(x, x)
            made = resharded(self._copies.get((now, to[1]), now), to[0], step.op.wanted)
            self._steps.append(made)
            self._now[step.results[0]] = made.results[0]
            if now.committed:
                self._copies.setdefault((now, to[1]), made.results[0])
            return
        wants = iter(laid.wants)
        operands: list[Var | Literal] = [
            self._brought(x, next(wants), step.name, laid.total) if isinstance(x, Var) else x
            for x in step.operands
        ]
        ends = [tiling for _, tiling in laid.results]
        same = [x.tiling for x in step.results] == ends and _alike(operands, step.operands)
        if same or not isinstance(step.op, RowOp):  # only rows can be laid out elsewhere
            moved = laid.own if self._layout.priced[number] else step.moved
            self._steps.append(dataclasses.replace(step, operands=tuple(operands), moved=moved))
            return
        made = bound(step, operands, self._layout.out.get(number), laid.own)
        if [x.tiling for x in made.results] != ends:
            made = bound(step, operands, laid.results[0][0], laid.own)
        self._steps.append(made)
        self._now.update(zip(step.results, made.results, strict=True))

    def _brought(self, x: Var, want: Place | None, name: str, total: int) -> Var:
        """Return a value where an operation takes it."""
        now = self._now.get(x, x)
        if want is None or want[1] is now.tiling:
            return now
        found = self._copies.get((now, want[1]))
        if found is None:
            limit = devices_of(now.tiling)[0].runtime.settings.large_move_bytes
            lies = Sharded(Aval(now.shape, now.dtype), now.tiling, now.sharding, now.committed)
            watch = ""
            if want[1] is not x.tiling:  # else the place that it has if operations run one by one
                watch = watched(name, [lies], [want[1]], total, limit) or ""
            step = resharded(now, want[0], watch=watch)
            self._steps.append(step)
            found = self._copies[now, want[1]] = step.results[0]
        return found

    def _result(self, x: Var) -> Var:
        """Return a result where the operations one by one have it."""
        now = self._now.get(x, x)
        if now is x or (
            now.tiling is x.tiling and now.sharding == x.sharding and now.committed == x.committed
        ):
            return now
        step = resharded(now, x.sharding, x.sharding)
        step.results[0].committed = x.committed
        self._steps.append(step)
        return step.results[0]


def _alike(operands: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether a program for some operands is one for others."""
    return all(
        x is y or (x.tiling is y.tiling and x.committed == y.committed)
        for x, y in zip(operands, others, strict=True)
    )
