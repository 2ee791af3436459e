"""Price an operation: the bytes that it moves for given layouts of operands and results. Pure.

Prices are those of dispatch: bytes that all devices receive, as if each were a memory domain. They
depend on shapes and shardings only, never on the machine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, TypeAlias

from gpushard._frozen import dataclass
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.sharding import Sharding
from gpushard._geometry.tiling import Tiling
from gpushard._ops.operand import Sharded, given, in_memory
from gpushard._ops.programs.bring import lacking
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.move import Move
from gpushard._ops.programs.owners import FromOwners
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Case, Strategy
from gpushard._ops.shardings import places_of, sharded_call, splits_as
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import RowOp

Place: TypeAlias = tuple[Sharding, Tiling]
"""A layout of a value: its sharding, and the tiling of its shape."""


@dataclass(frozen=True, eq=False)
class Laid:
    """The layouts of an operation, and the bytes that it moves."""

    results: tuple[Place, ...]  # layouts of its results
    wants: tuple[Place | None, ...]  # layout in which it takes each array; None for any
    own: int  # bytes that it moves itself, without bringing arrays into these layouts
    total: int  # all bytes that it moves


def priced(case: Case) -> Laid:
    """Lay out an operation as dispatch does, and count the bytes that move."""
    strategy, call = sharded_call(case)
    if call is None:
        return _moved(strategy, case)
    arrays = [
        (x, place)
        for x, place in zip(case.operands, call.operands, strict=True)
        if isinstance(x, Sharded)
    ]
    wants: list[Place | None] = [None] * len(arrays)
    nbytes = 0 if call.choice is None else call.choice.nbytes
    before = brought = 0
    for n, (x, place) in enumerate(arrays):
        if place is None or place[1] is x.tiling:
            continue
        wants[n] = place
        inside = in_memory(x, "device")
        assert isinstance(inside, Sharded)
        before += lacking(x.tiling, place[1]) * x.aval.dtype.itemsize
        if call.choice is not None and _has_a_say(inside, call.choice.mesh.assignment):
            brought += lacking(inside.tiling, place[1]) * x.aval.dtype.itemsize
    ends = tuple((end.sharding, end.tiling) for end in call.ends)
    own = nbytes - brought
    if case.out is None and call.choice is not None and not call.choice.aimed:
        own += sum(
            lacking(x.tiling, end.tiling) * x.aval.dtype.itemsize
            for x, end in zip(call.results, call.ends, strict=True)
        )
    if len(ends) > 1 or type(strategy) not in (Local, Reduce):  # which bring operands themselves
        return Laid(ends, (None,) * len(arrays), own + before, own + before)
    return Laid(ends, tuple(wants), own, own + before)


def sources(case: Case, *, merges: bool = True) -> tuple[Place | None, ...]:
    """Return where arrays must lie so that the result comes in `case.out` and need not move.

    Without such places, return None for each array.

    Args:
      case: the operation.
      merges: whether parts of sums may be merged. Then dims that are in no result stay split, if
        all operands split them alike and the result leaves their axes.
    """
    arrays = [n for n, x in enumerate(case.operands) if isinstance(x, Sharded)]
    out, rule, splits = case.out, case.rule, None
    if isinstance(out, NamedSharding) and isinstance(out.mesh, Mesh):
        splits = splits_as(rule, out.mesh, out)
    if splits is None:
        return (None,) * len(arrays)
    assert isinstance(out, NamedSharding) and isinstance(out.mesh, Mesh)
    now: dict[int | None, set[tuple[str, ...]]] = {}
    for dims, x in zip(rule.operands, case.operands, strict=True):
        for factor, axes in zip(dims, given(x, out.mesh, 1).axes or (), strict=False):
            now.setdefault(factor, set()).add(axes)
    free = set(out.mesh.axis_names).difference(*splits)
    of_factors = list(splits)
    for factor in rule.reduced if merges else ():
        if len(now.get(factor, ())) == 1 and free.issuperset(*now[factor]):
            (of_factors[factor],) = now[factor]
            free.difference_update(of_factors[factor])
    places = places_of(rule, out.mesh, tuple(of_factors), case.operands)
    return tuple(places[n] for n in arrays)


def brought(laid: Laid, lies: Sequence[Place], taken: Sequence[Place | None]) -> Laid:
    """Return the price of an operation that first brings its arrays to the places in `taken`.

    Args:
      laid: its price, if the arrays already lie there.
      lies: where they lie.
      taken: where they are brought; None for an array that stays.
    """
    wants = tuple(
        want or (place if place is not None and place[1] is not here[1] else None)
        for want, place, here in zip(laid.wants, taken, lies, strict=True)
    )
    return dataclasses.replace(laid, wants=wants)


def _has_a_say(x: Sharded, devices: Sequence[Any]) -> bool:
    """Whether dispatch counts the bytes that an operand moves."""
    return x.committed or set(x.tiling.devices) == set(devices)


def can_price(step: Operation) -> bool:
    """Whether an operation has other layouts whose prices are known."""
    op = step.op
    if not isinstance(op, RowOp) or op.row.creates or not step.operands:
        return False
    places = [x.sharding for x in (*step.operands, *step.results) if isinstance(x, Var)]
    if any(place.memory_kind != "device" for place in places):
        return False
    last = op.row.strategies[-1]
    if isinstance(last, Move):
        fixed = last.starts is None or not last.starts(op.params)
        return fixed and all(isinstance(x, Var) for x in step.operands)
    return type(last) in (Local, Reduce, FromOwners)


def _moved(strategy: Strategy, case: Case) -> Laid:
    """Price an operation that only moves elements."""
    program = strategy.compile(case, None)
    (result,) = program.results
    nbytes = sum(program.received().values())
    arrays = [x for x in case.operands if isinstance(x, Sharded)]
    return Laid(((result.sharding, result.tiling),), (None,) * len(arrays), nbytes, nbytes)
