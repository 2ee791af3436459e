"""Search for layouts of the values of a graph so that few bytes move in total.

A graph comes laid out as dispatch lays out its operations one by one. Arguments, results,
constraints, and values of operations that have no rule keep their layouts. All others may change.
The search chooses where the result of each operation lies. Dispatch then chooses where the
operation takes its operands, by the same prices.

`jit` tries other layouts for each value, starting from the layouts that its users need. It then
tries the operands of that value, back to arguments and constraints. A layout is kept if fewer bytes
move in total. If several operations take a value in the same layout, it moves there once.

A layout that dispatch would not choose for one operation may pay for several. So operands are tried
where they must lie for a result that does not move, even if this one operation would move fewer
bytes otherwise. If another operation takes an operand there, it is there for nothing.

An example: `x.sum(2) + w` on 4 devices, each a memory domain. `x` has 8 x 8 x 8 numbers of 4 bytes
and its last axis is split; `w` has 8 x 8, and its columns are split.

1. Each device sums its part of `x`. As recorded, the parts are merged everywhere: an all-reduce, in
   which each device receives 384 bytes. The addition then reads columns, which moves nothing.
2. The addition takes the sum with its columns split. The search tries that layout for the sum.
   Each device then needs the merged columns of its own only: a reduce-scatter, in which each
   receives 192 bytes. Fewer bytes move, so the layout is kept.
3. The sum would take `x` as it lies, so there is nothing to try for its operand, and the search is
   over: 768 bytes move instead of 1,536.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.aval import Aval
from gpushard._ops.choose_split import Given, assignments, sharding_of
from gpushard._ops.gather_guard import watched
from gpushard._ops.operand import Literal, Sharded
from gpushard._ops.programs.bring import lacking
from gpushard._ops.rule import elementwise
from gpushard._ops.scalars import kind_of_number
from gpushard._transforms.graph.continued import continued
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.layouts import bound, case_of, closed, keeps, resharded
from gpushard._transforms.graph.ops import Reshard, RowOp
from gpushard._transforms.graph.priced import Laid, Place, brought, can_price, priced, sources
from gpushard._transforms.graph.simplify import simplified
from gpushard._transforms.graph.variances import by_strips

_PRICES = 200
"""Most operations that the search prices, next to those of the graph as recorded."""

_LAID = 2000
"""Most times that the search lays out an operation again, plus four for each operation."""

_TURNS = 16
"""Most times that the search goes through all values."""

_DEPTH = 24
"""Most operations through which a new layout is followed back to operands."""

_EVERY = 64
"""If a value has no more layouts than this, and there are few values, all are tried."""


def optimized(graph: Graph, *, results_follow: bool = False) -> Graph:
    """Simplify a graph and search for better layouts; the new graph moves no more bytes.

    Args:
      graph: the graph.
      results_follow: whether a result may lie as the argument that it continues.
    """
    graph = by_strips(simplified(graph))
    return simplified(propagated(graph, results_follow=results_follow))


def propagated(graph: Graph, *, results_follow: bool = False) -> Graph:
    """Lay out the values between arguments and results so that fewer bytes move."""
    steps = graph.needed()
    if not any(step.moved or _rearranges(step) for step in steps):
        return graph
    layout = Layout(graph, steps)
    layout.improve()
    if results_follow and layout.follow(continued(graph, steps)):
        layout.improve()
    return _Build(layout).graph


def _rearranges(step: Operation) -> bool:
    """Whether an operation may move elements that `Operation.moved` does not count."""
    if not isinstance(step.op, RowOp) or not step.op.only_moves or not can_price(step):
        return False
    return not all(x.tiling.assignment.is_replicated for x in (*step.arrays, *step.results))


@dataclass(frozen=True, eq=False)
class Aim:
    """The layouts of an operation that the search chose; dispatch chooses the others."""

    result: Sharding | None = None  # where its result lies
    operands: tuple[Place | None, ...] = ()  # where arrays are brought before dispatch sees them


class Layout:
    """The layouts of all values of a graph, and the bytes that move with them.

    Args:
      graph: the graph.
      steps: those of its operations that are needed.
    """

    def __init__(self, graph: Graph, steps: Sequence[Operation]) -> None:
        self.graph = graph
        self.steps = steps
        self.total = 0
        """Bytes that all devices receive, as if each were a memory domain."""
        self.place: dict[Var, Place] = {}
        self.aims: dict[int, Aim] = {}
        """The layouts that the search chose, by the number of an operation."""
        self.laid: dict[int, Laid] = {}
        self.maker: dict[Var, int] = {}
        self.users: dict[Var, list[int]] = {}
        self.asked: dict[Var, dict[Tiling, list[Any]]] = {}  # how often where, and the sharding
        self._journal: list[tuple[Any, ...]] = []
        self._known: dict[Any, Laid] = {}
        self._brought: dict[Any, Laid] = {}  # prices if operands are brought first
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
        self.ends: dict[Var, Place] = {x: (x.sharding, x.tiling) for x in graph.results}
        """Where results lie in the end."""
        for x, place in self.ends.items():
            self._ask(x, place, 1)
        self._most = len(self._known) + _PRICES
        self._left = _LAID + 4 * len(steps)

    def improve(self) -> None:
        """Try layouts until none is better, or the search has taken long enough."""
        few = sum(map(self.is_open, range(len(self.steps)))) <= 24
        for every in (False, True) if few else (False,):
            better, turns = True, 0
            while better and turns < _TURNS and not self._is_spent():
                better, turns = False, turns + 1
                for number in reversed(range(len(self.steps))):
                    if self.is_open(number):
                        for sharding in self._candidates(number, every=every):
                            better = self._pull(number, sharding, every=every) or better

    def follow(self, arguments: dict[Var, Var]) -> bool:
        """Let results lie as arguments do, unless more bytes move then.

        Args:
          arguments: the argument of each result that may follow one.

        Returns:
          Whether a result does.
        """
        follows = False
        for x, argument in arguments.items():
            total, end, to = self.total, self.ends[x], self.place[argument]
            self._journal = []
            self._end(x, to)
            if self.total > total and self.is_open(self.maker[x]):
                self._pull(self.maker[x], to[0], every=False)
            if self.total <= total:
                follows = True
            else:
                self._undo(0)
                self._end(x, end)
        return follows

    def _end(self, x: Var, place: Place) -> None:
        """Set where a result lies in the end."""
        self._ask(x, self.ends[x], -1)
        self._ask(x, place, 1)
        self.ends[x] = place

    def _is_spent(self) -> bool:
        """Whether the search has taken long enough. Steps are counted, so results do not vary."""
        return self._left < 0 or len(self._known) >= self._most

    def is_open(self, number: int) -> bool:
        """Whether the search may change the layout of the result of an operation."""
        step = self.steps[number]
        if isinstance(step.op, Reshard):
            wanted = step.op.wanted
            return isinstance(wanted, NamedSharding) and wanted.leaves_open
        return self.priced[number] and len(step.results) == 1

    def keeps(self, number: int, sharding: Sharding) -> bool:
        """Whether a sharding of the result of an operation agrees with what a user asked for."""
        op = self.steps[number].op
        return not isinstance(op, Reshard) or keeps(sharding, op.wanted)

    def _candidates(self, number: int, *, every: bool) -> Iterator[Sharding]:
        """Yield the shardings that the search tries for the result of an operation."""
        step = self.steps[number]
        (x,) = step.results
        own = self.place[x]
        asked = self.asked.get(x, {})
        alone = self.laid[number].total == 0 and all(tiling is own[1] for tiling in asked)
        if alone:
            return
        candidates = [places[1] for places in list(asked.values())]
        seen: set[Tiling] = set()
        if every or (number not in self.aims and self.laid[number].own):
            candidates.append(own[0])  # asked for by name, it may cost less than dispatch chose
        else:
            seen.add(own[1])
        if every:
            candidates += self._every(x)
        for sharding in candidates:
            if not isinstance(sharding, NamedSharding) or sharding.memory_kind != "device":
                continue
            if not self.keeps(number, sharding):
                continue
            tiling = sharding.tiling(x.shape)
            if tiling not in seen and set(tiling.devices) == set(own[1].devices):
                seen.add(tiling)
                yield sharding

    def _every(self, x: Var) -> list[Sharding]:
        """Return all shardings of a value over its mesh, if they are few; else none."""
        mesh = getattr(x.sharding, "mesh", None)
        if not isinstance(mesh, Mesh):
            return []
        rule = elementwise([x.shape], x.shape)
        ways = assignments(rule, mesh, [Given(None, None, 1)])
        if len(ways) > _EVERY:
            return []
        return [sharding_of(mesh, rule.results[0], splits) for splits in ways]

    def _pull(self, number: int, sharding: Sharding, *, every: bool) -> bool:
        """Try a sharding for a result, then for its operands; return whether any was better.

        Args:
          number: the operation of the result.
          sharding: the sharding.
          every: whether to go on to operands that lie where they must.
        """
        if self._is_spent():
            return False
        best, length = self.total, 0
        self._journal = []
        line = [(number, sharding)]
        pulled: list[int] = []
        for _ in range(_DEPTH):
            if not line:
                break
            number, sharding = line.pop(0)
            if number in pulled:
                continue
            laid, arrays = self.laid[number], self.steps[number].arrays
            stays = sharding.tiling(laid.results[0][1].shape) is laid.results[0][1]
            merges = not (every and stays and laid.own)  # else nothing new would be tried
            taken = self._sources(number, sharding, merges=merges)
            free = {x: self._asked_by_others(x, number) for x in arrays}
            aims = [Aim(sharding, taken)]
            if taken and not pulled:  # the first one may do better where its operands lie
                aims.insert(0, Aim(sharding))
            for aim in aims:
                self._aim(number, aim)
                if self.total < best:
                    best, length = self.total, len(self._journal)
            pulled.append(number)
            for x, want in zip(arrays, taken or self.laid[number].wants, strict=False):
                if want is None or want[1] in free[x]:
                    continue
                if want[1] is self.place[x][1] and not every:
                    continue
                maker = self.maker.get(x)
                if maker is None or maker in pulled or not self.is_open(maker):
                    continue
                same_devices = set(want[1].devices) == set(self.place[x][1].devices)
                if same_devices and self.keeps(maker, want[0]):
                    line.append((maker, want[0]))
        self._undo(length)
        if length:
            self._release(pulled)
        return length > 0

    def _asked_by_others(self, x: Var, number: int) -> set[Tiling]:
        """Return the layouts in which others than an operation take a value."""
        wants = zip(self.steps[number].arrays, self.laid[number].wants, strict=False)
        mine = Counter(want[1] for y, want in wants if y is x and want is not None)
        return {to for to, (count, _) in self.asked.get(x, {}).items() if count > mine[to]}

    def _sources(
        self, number: int, sharding: Sharding, *, merges: bool
    ) -> tuple[Place | None, ...]:
        """Return where operands must lie so that a result comes in a sharding; () if unknown."""
        step = self.steps[number]
        if not isinstance(step.op, RowOp):
            return ()
        operands = [at(x, self.place[x]) if isinstance(x, Var) else x for x in step.operands]
        taken = sources(case_of(step.op, operands, sharding), merges=merges)
        return taken if any(taken) else ()

    def _release(self, numbers: Sequence[int]) -> None:
        """Let dispatch choose again where operations take operands, unless more bytes move then."""
        for number in numbers:
            aim = self.aims.get(number)
            if aim is not None and aim.operands:
                total, length = self.total, len(self._journal)
                self._choose(number, Aim(aim.result))
                if self.total > total:
                    self._undo(length)

    def _aim(self, number: int, aim: Aim) -> None:
        """Fix the layouts of an operation. Others follow, or stay if fewer bytes move then."""
        total, length = self.total, len(self._journal)
        if self._choose(number, aim) and self.total > total:
            total = self.total
            self._undo(length)
            self._choose(number, aim, hold=True)
            if self.total >= total:
                self._undo(length)
                self._choose(number, aim)

    def _choose(self, number: int, aim: Aim, *, hold: bool = False) -> bool:
        """Fix the layouts of an operation, and lay out those that follow from it.

        Args:
          number: the operation.
          aim: its layouts.
          hold: whether the results of all others stay where they lie.

        Returns:
          Whether results of others lie elsewhere now.
        """
        self._set_aim(number, aim)
        waiting, first, others = [number], number, False
        while waiting:
            number = heapq.heappop(waiting)
            while waiting and waiting[0] == number:
                heapq.heappop(waiting)
            if hold and number not in self.aims and self.is_open(number):
                self._set_aim(number, Aim(self.laid[number].results[0][0]))
            for x in self._lay(number):
                others = others or number != first
                for user in self.users.get(x, ()):
                    heapq.heappush(waiting, user)
        return others

    def _set_aim(self, number: int, aim: Aim) -> None:
        self._journal.append(("aim", number, self.aims.get(number)))
        self.aims[number] = aim

    def _lay(self, number: int) -> list[Var]:
        """Lay out an operation again; return its results whose layouts have changed."""
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
        """Count one operation more (sign 1) or less (-1) that takes a value in a layout."""
        asked = self.asked.setdefault(x, {})
        count = asked.setdefault(place[1], [0, place[0]])
        if count[0] == (0 if sign > 0 else 1):
            self.total += sign * self.cost(x, place[1])
        count[0] += sign
        if not count[0]:
            del asked[place[1]]

    def cost(self, x: Var, tiling: Tiling) -> int:
        """Return the bytes that move to bring a value into a layout."""
        return lacking(self.place[x][1], tiling) * x.dtype.itemsize

    def _undo(self, length: int) -> None:
        """Undo all changes but the first `length`."""
        for kind, of, before in reversed(self._journal[length:]):
            if kind == "aim" and before is None:
                del self.aims[of]
            elif kind == "aim":
                self.aims[of] = before
            elif kind == "laid":
                self._set_laid(of, before)
            else:
                self._set_place(of, before)
        del self._journal[length:]

    def _laid(self, number: int) -> Laid:
        """Price an operation for the present layouts of its operands."""
        step, aim = self.steps[number], self.aims.get(number, Aim())
        op, arrays, out = step.op, step.arrays, aim.result
        lies = [self.place[x] for x in arrays]
        if isinstance(op, Reshard):
            key: Any = (number, lies[0][1], out)
            return self._price(key, lambda: _moved_to(step, op, lies[0], out))
        if not self.priced[number]:
            return self._price(number, lambda: _as_it_lies(step))
        assert isinstance(op, RowOp)
        taken = aim.operands
        places = [to or here for to, here in zip(taken, lies, strict=True)] if taken else lies
        tilings = [tiling for _, tiling in places]
        kinds = [(x.dtype, x.committed, x.weak) for x in arrays]
        hosted = [(x.shape, x.dtype, x.weak) for x in step.operands if isinstance(x, Literal)]
        numbers = map(kind_of_number, op.numbers)
        key = (
            op.row, op.params, op.scalars, out,
            *numbers, *hosted, *(isinstance(x, Var) for x in step.operands), *kinds, *tilings,
        )  # fmt: skip
        laid = self._price(key, lambda: _priced(step, op, places, out, key))
        if not taken:
            return laid
        known = key, *[tiling for _, tiling in lies]
        return self._brought.setdefault(known, brought(laid, lies, taken))

    def _price(self, key: Any, make: Callable[[], Laid]) -> Laid:
        """Return the price under a key, and compute it at first."""
        laid = self._known.get(key)
        if laid is None:
            laid = self._known[key] = make()
        return laid


def _as_it_lies(step: Operation) -> Laid:
    """Lay out an operation whose operands and results stay where they are."""
    ends = tuple((x.sharding, x.tiling) for x in step.results)
    return Laid(ends, tuple((x.sharding, x.tiling) for x in step.arrays), 0, 0)


def _moved_to(step: Operation, move: Reshard, lies: Place, out: Sharding | None) -> Laid:
    """Lay out a reshard of a value that lies somewhere."""
    (x,) = step.results
    to = x.sharding if move.wanted is None else out or closed(move.wanted, lies[0])
    place = to, to.tiling(x.shape)
    return Laid((place,), (place,), 0, 0)


def _priced(
    step: Operation, op: RowOp, places: Sequence[Place], out: Sharding | None, key: tuple[Any, ...]
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
    """Return a value with another layout."""
    if place[1] is x.tiling:
        return x
    return Var(x.dtype, place[1], place[0], x.committed, x.weak)


class _Build:
    """Builds the graph of a layout, with an operation for each value that moves."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._steps: list[Operation] = []
        self._now: dict[Var, Var] = {}
        self._copies: dict[tuple[Var, Tiling], Var] = {}
        own = layout.graph
        for number, step in enumerate(layout.steps):
            self._add(number, step)
        results = [self._result(x) for x in own.results]
        self.graph = dataclasses.replace(own, steps=self._steps, results=results)
        """The graph."""

    def _add(self, number: int, step: Operation) -> None:
        """Add an operation."""
        laid = self._layout.laid[number]
        if isinstance(step.op, Reshard):
            (x,), (to,) = step.arrays, laid.results
            now = self._now.get(x, x)
            reshard = resharded(self._copies.get((now, to[1]), now), to[0], step.op.wanted)
            self._steps.append(reshard)
            self._now[step.results[0]] = reshard.results[0]
            if now.committed:
                self._copies.setdefault((now, to[1]), reshard.results[0])
            return
        wants = iter(laid.wants)
        operands: list[Var | Literal] = [
            self._brought(x, next(wants), step.name, laid.total) if isinstance(x, Var) else x
            for x in step.operands
        ]
        ends = [tiling for _, tiling in laid.results]
        aim = self._layout.aims.get(number, Aim())
        same = [x.tiling for x in step.results] == ends and _alike(operands, step.operands)
        if aim.result is not None and laid.own:  # aimed at its place, a sum moves fewer bytes there
            same = False
        if same or not isinstance(step.op, RowOp):  # only rows can be laid out elsewhere
            moved = laid.own if self._layout.priced[number] else step.moved
            self._steps.append(dataclasses.replace(step, operands=tuple(operands), moved=moved))
            return
        new = bound(step, operands, aim.result, laid.own)
        if [x.tiling for x in new.results] != ends:
            new = bound(step, operands, laid.results[0][0], laid.own)
        self._steps += _with_move_apart(new)
        self._now.update(zip(step.results, self._steps[-1].results, strict=True))

    def _brought(self, x: Var, want: Place | None, name: str, total: int) -> Var:
        """Return a value in the layout in which an operation takes it."""
        now = self._now.get(x, x)
        if want is None or want[1] is now.tiling:
            return now
        copy = self._copies.get((now, want[1]))
        if copy is None:
            limit = devices_of(now.tiling)[0].runtime.settings.large_move_bytes
            lies = Sharded(Aval(now.shape, now.dtype), now.tiling, now.sharding, now.committed)
            watch = ""
            if want[1] is not x.tiling:  # else the place that it has if operations run one by one
                watch = watched(name, [lies], [want[1]], total, limit) or ""
            step = resharded(now, want[0], watch=watch)
            self._steps.append(step)
            copy = self._copies[now, want[1]] = step.results[0]
        return copy

    def _result(self, x: Var) -> Var:
        """Return a result of the graph where it lies in the end."""
        now, (sharding, tiling) = self._now.get(x, x), self._layout.ends[x]
        if now.tiling is tiling and now.sharding == sharding and now.committed == x.committed:
            return now
        step = resharded(now, sharding, sharding)
        step.results[0].committed = x.committed
        self._steps.append(step)
        return step.results[0]


def _with_move_apart(step: Operation) -> list[Operation]:
    """Let an operation that moves its result leave it where it is computed, and move it after that.

    So it may be in a kernel with the operations before it. Nothing changes if more bytes would
    move, or if the operation does not compute element by element.
    """
    op = step.op
    assert isinstance(op, RowOp)
    if not step.moved or op.row.loop is None or len(step.results) > 1:
        return [step]
    stays = bound(step, step.operands, None)
    move = resharded(stays.results[0], step.results[0].sharding)
    return [stays, move] if stays.moved + move.moved <= step.moved else [step]


def _alike(operands: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether the program of some operands is also that of others."""
    return all(
        x is y or (x.tiling is y.tiling and x.committed == y.committed)
        for x, y in zip(operands, others, strict=True)
    )
