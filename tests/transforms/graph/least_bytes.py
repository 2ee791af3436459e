"""Bytes that traced programs move, compared with the least of all ways to lay out their values.

`python -m tests.transforms.graph.least_bytes` prints the table of docs/jit.md: what a program moves
whose operations run one by one, what it moves traced, and the least that is found by trying, for
every value between arguments and results, all ways to split it over the mesh.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, testing
from gpushard._ops.choose_split import Given, assignments, sharding_of
from gpushard._ops.programs.bring import lacking
from gpushard._ops.rule import elementwise
from gpushard._transforms.graph.costs import received as moved_by
from gpushard._transforms.graph.graph import Graph, Operation, Var
from gpushard._transforms.graph.layout_search import at
from gpushard._transforms.graph.layouts import case_of
from gpushard._transforms.graph.ops import Reshard, RowOp
from gpushard._transforms.graph.priced import brought, can_price, priced, sources
from gpushard._transforms.graph.simplify import simplified
from tests.traffic import received

P = gs.P

Program = tuple[Callable[..., Any], list[tuple[tuple[int, ...], gs.P]]]
"""A function that takes a mesh first, and the shapes and specs of its arguments."""


def mlp(mesh: Any, x: Any, w1: Any, w2: Any) -> Any:
    """Two layers, the hidden one split."""
    return gnp.tanh(x @ w1) @ w2


def mlp_step(mesh: Any, x: Any, y: Any, w1: Any, w2: Any) -> Any:
    """One step of training it, with gradients by hand."""
    hidden = gnp.tanh(x @ w1)
    error = hidden @ w2 - y
    back = (error @ w2.T) * (1 - hidden * hidden)
    return w1 - 0.1 * (x.T @ back), w2 - 0.1 * (hidden.T @ error)


def late_broadcast(mesh: Any, x: Any, row: Any) -> Any:
    """A row that is split in another way than what it is added to."""
    return x * gnp.exp(row) + gnp.exp(row)


def scattered_sum(mesh: Any, x: Any, w: Any, y: Any) -> Any:
    """A product over a split dim, of which each device needs a part."""
    return gnp.tanh((x @ w) * 2) + y


def layer_norm(mesh: Any, x: Any, scale: Any) -> Any:
    """Rows that are split, normalised."""
    apart = x - x.mean(axis=-1, keepdims=True)
    return apart / gnp.sqrt((apart * apart).mean(axis=-1, keepdims=True) + 1e-5) * scale


def attention(mesh: Any, q: Any, k: Any, v: Any) -> Any:
    """Scores of all pairs, shares, and what they weigh."""
    scores = gnp.exp(q @ k.T / 8)
    return (scores / scores.sum(axis=-1, keepdims=True)) @ v


def turned(mesh: Any, x: Any, y: Any) -> Any:
    """Transposes that meet what is not transposed."""
    return ((x.T + y) * 2 + y).T + x


def there_and_back(mesh: Any, x: Any) -> Any:
    """A value that a user moves, and moves back."""
    there = lax.with_sharding_constraint(x + 1, gs.NamedSharding(mesh, P(None, "x")))
    return lax.with_sharding_constraint(there, gs.NamedSharding(mesh, P("x"))) * 2


def chain(mesh: Any, x: Any) -> Any:
    """Work on elements, wanted elsewhere in a smaller type."""
    small = gnp.tanh(x * 2 + 1).astype("float32").sum(axis=-1)
    return lax.with_sharding_constraint(small, gs.NamedSharding(mesh, P()))


def k_means(mesh: Any, points: Any, centres: Any) -> Any:
    """Sums of points by their nearest centre."""
    apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
    near = (apart == apart.min(axis=1, keepdims=True)).astype(float)
    return (near.T @ points) / near.sum(0)[:, None]


def powers(mesh: Any, a: Any, v: Any) -> Any:
    """Two steps of the power iteration."""
    for _ in range(2):
        v = a @ v
        v = v / gnp.sqrt((v * v).sum())
    return v


def shared(mesh: Any, x: Any, y: Any, z: Any) -> Any:
    """A value that two others take in the same place."""
    a = gnp.exp(x)
    return a + y, a * z


NUMBERS = np.arange(32) * 7 % 16


def embedding(mesh: Any, table: Any, w: Any) -> Any:
    """Rows of a table that is split, and a layer of weights that are."""
    return gnp.tanh(table[NUMBERS]) @ w


def embedding_step(mesh: Any, table: Any, slopes: Any) -> Any:
    """One step of training the table: what rows get, they get where they lie."""
    return table.at[NUMBERS].add(-0.1 * (table[NUMBERS] * slopes))


def taken(mesh: Any, x: Any, y: Any) -> Any:
    """Elements chosen along each dim, next to what lies in another way."""
    chosen = gnp.take(x, NUMBERS[:16], axis=1) + y
    return gnp.take_along_axis(chosen, NUMBERS[:16, None] + 0 * NUMBERS[:16], axis=1) * 2


def replaced(mesh: Any, x: Any, y: Any) -> Any:
    """Rows and columns replaced by those of an array that is split in another way."""
    return gnp.tanh(x.at[NUMBERS[:4]].set(y[:4])) + x.at[:, NUMBERS[:4]].set(y[:, :4])


CHOSEN: dict[str, Program] = {
    "embedding": (embedding, [((16, 8), P("x")), ((8, 16), P(None, "x"))]),
    "embedding, one training step": (embedding_step, [((16, 8), P("x")), ((32, 8), P("x"))]),
    "`take` along a split axis": (taken, [((16, 16), P(None, "x")), ((16, 16), P("x"))]),
    "assign rows and columns of another array": (
        replaced,
        [((16, 16), P("x")), ((16, 16), P(None, "x"))],
    ),
}
"""Programs that take elements by their positions, or replace them."""

PROGRAMS: dict[str, Program] = {
    "MLP": (mlp, [((8, 16), P()), ((16, 32), P(None, "x")), ((32, 16), P("x"))]),
    "MLP, one training step": (
        mlp_step,
        [((8, 16), P()), ((8, 16), P()), ((16, 32), P(None, "x")), ((32, 16), P("x"))],
    ),
    "matrix and row with different shardings": (
        late_broadcast, [((16, 16), P("x")), ((16,), P("x"))]
    ),
    "matrix product, then reduce-scatter": (
        scattered_sum, [((16, 32), P(None, "x")), ((32, 16), P("x")), ((16, 16), P("x"))]
    ),
    "layer norm, features split": (layer_norm, [((16, 64), P(None, "x")), ((64,), P())]),
    "attention": (attention, [((16, 8), P("x")), ((16, 8), P("x")), ((16, 8), P("x"))]),
    "sums of transposed matrices": (turned, [((16, 16), P("x")), ((16, 16), P("x"))]),
    "move to another sharding and back": (there_and_back, [((16, 16), P("x"))]),
    "elementwise operations, then row sums": (chain, [((16, 16), P("x"))]),
    "k-means, features split": (k_means, [((32, 8), P(None, "x")), ((4, 8), P())]),
    "power iteration": (powers, [((16, 16), P(None, "x")), ((16,), P())]),
    "one value, read twice": (
        shared, [((16, 16), P("x")), ((16, 16), P(None, "x")), ((16, 16), P(None, "x"))]
    ),
}  # fmt: skip

TWO: dict[str, Program] = {
    "MLP, one training step": (
        mlp_step,
        [((8, 16), P("x")), ((8, 16), P("x")), ((16, 32), P(None, "y")), ((32, 16), P("y"))],
    ),
    "attention": (attention, [((16, 8), P("x")), ((16, 8), P("y")), ((16, 8), P("y"))]),
    "matrix product, then reduce-scatter": (
        scattered_sum, [((16, 32), P("y", "x")), ((32, 16), P("x", "y")), ((16, 16), P("x"))]
    ),
    "sums of transposed matrices": (turned, [((16, 16), P("x", "y")), ((16, 16), P("y"))]),
    "layer norm, features split": (layer_norm, [((16, 64), P("y", "x")), ((64,), P())]),
}  # fmt: skip
"""Programs on a mesh of two dims."""


def least(graph: Graph, most: int) -> int:
    """Return the fewest bytes of all ways to lay out the values of a graph.

    A value that several operations take in the same place is brought there once. Ways are followed
    operation by operation, those that have moved least first, so the first one at the end is best.

    Args:
      graph: it.
      most: bytes of a way that is known.
    """
    graph = simplified(graph)
    steps = graph.needed()
    last = {x: n for n, step in enumerate(steps) for x in step.arrays}
    last |= dict.fromkeys(graph.results, len(steps))
    known: dict[Any, Any] = {}
    given = {x: (x.sharding, x.tiling) for x in (*graph.inputs, *graph.constants)}
    count = itertools.count()
    waiting: list[Any] = [(0, 0, next(count), given, frozenset())]
    seen: set[Any] = set()
    while waiting:
        cost, minus, _, lies, asked = heapq.heappop(waiting)
        number = -minus
        if number > len(steps):
            return int(cost)
        state = number, frozenset((x, place[1]) for x, place in lies.items()), asked
        if state in seen:
            continue
        seen.add(state)
        if number == len(steps):
            cost += sum(arrivals(lies, asked, {(x, x.tiling) for x in graph.results}))
            heapq.heappush(waiting, (cost, -number - 1, next(count), lies, asked))
            continue
        step = steps[number]
        arrays = step.arrays
        here = number, tuple(lies[x][1] for x in arrays)
        if here not in known:
            known[here] = {way for out in outs(step) for way in ways(step, lies, out)}
        for ends, wants, own in known[here]:
            new = {(x, want[1]) for x, want in zip(arrays, wants, strict=False) if want}
            total = cost + own + sum(arrivals(lies, asked, new))
            if total <= most:
                after = lies | dict(zip(step.results, ends, strict=True))
                live = {x: place for x, place in after.items() if last.get(x, -1) > number}
                kept = frozenset(each for each in asked | new if each[0] in live)
                heapq.heappush(waiting, (total, -number - 1, next(count), live, kept))
    raise AssertionError("no way is as good as the one that is known")


def arrivals(lies: dict[Var, Any], asked: frozenset[Any], new: set[Any]) -> Iterator[int]:
    """Yield the bytes of values that are brought somewhere for the first time."""
    for x, tiling in new - asked:
        yield lacking(lies[x][1], tiling) * x.dtype.itemsize


def outs(step: Operation) -> Iterator[Any]:
    """Yield where the result of an operation may lie: all ways over its mesh."""
    yield None
    if can_price(step) and len(step.results) == 1:
        shape, mesh = step.results[0].shape, step.results[0].sharding.mesh
        rule = elementwise([shape], shape)
        for splits in assignments(rule, mesh, [Given(None, None, 1)]):
            yield sharding_of(mesh, rule.results[0], splits)


def ways(step: Operation, lies: dict[Var, Any], out: Any) -> Iterator[tuple[Any, Any, int]]:
    """Yield where results lie, where operands are taken, and what else moves.

    Dispatch says it of operands as they lie, and as they must lie for a result that does not move.
    """
    if isinstance(step.op, Reshard):
        place = step.results[0].sharding, step.results[0].tiling
        yield (place,), (place,), 0
    elif not can_price(step):  # stays where it is
        ends = tuple((x.sharding, x.tiling) for x in step.results)
        own = sum(moved_by(step).values())
        yield ends, tuple((x.sharding, x.tiling) for x in step.arrays), own
    else:
        assert isinstance(step.op, RowOp)
        here = [lies[x] for x in step.arrays]
        found = priced(case_of(step.op, placed(step, here), out))
        yield found.results, found.wants, found.own
        taken = sources(case_of(step.op, placed(step, here), out))
        places = [to or own for to, own in zip(taken, here, strict=True)]
        found = brought(priced(case_of(step.op, placed(step, places), out)), here, taken)
        yield found.results, found.wants, found.own


def placed(step: Operation, places: list[Any]) -> list[Any]:
    """Return the operands of an operation in other places."""
    each = iter(places)
    return [at(x, next(each)) if isinstance(x, Var) else x for x in step.operands]


def measured(program: Program, sizes: tuple[int, ...]) -> tuple[int, int, int, int]:
    """Return bytes moved one by one, traced, as traced says beforehand, and the least."""
    function, given = program
    with testing.runtime(host_devices=int(np.prod(sizes)), host_domains=int(np.prod(sizes))) as own:
        mesh = gs.make_mesh(sizes, ("x", "y")[: len(sizes)])
        rng = np.random.default_rng(0)
        arrays = [
            gs.device_put(rng.standard_normal(shape), gs.NamedSharding(mesh, spec))
            for shape, spec in given
        ]
        plain = [np.asarray(x) for x in arrays]

        def f(*arrays: Any) -> Any:
            return function(mesh, *arrays)

        compiled = gs.jit(f)
        moved = []
        results = []
        for way in (f, compiled):
            way(*arrays)
            before = dict(own.backend.traffic)
            results.append(gs.tree.leaves(way(*arrays)))
            moved.append(received(own, before))
        for one, other in zip(*results, strict=True):
            assert other.sharding in (one.sharding, *(x.sharding for x in arrays))
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-6, atol=1e-9)
        del plain
        traced = compiled.trace(*arrays)
        said = int(traced.lower().cost_analysis()["bytes moved"])
        return moved[0], moved[1], said, least(traced._signature.graph, said)


def main() -> None:
    """Print the table."""
    print(
        "| program | mesh | one by one | traced | said before | least |\n|---|---|---|---|---|---|"
    )
    for sizes, programs in (((2,), PROGRAMS), ((2, 2), TWO), ((2, 1), CHOSEN)):
        for name, program in programs.items():
            numbers = " | ".join(f"{n:,}" for n in measured(program, sizes))
            print(f"| {name} | {sizes} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
