"""What is found wrong with kernels, defect by defect; test_nests.py breaks those of real nests."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from gpushard._runtime.kernel_checks import MOST_STACK, BrokenKernelError, Program, Task, check
from gpushard._runtime.kernel_tree import (
    Array,
    Atom,
    Call,
    Declare,
    Dim,
    Element,
    Expr,
    First,
    For,
    FullStrip,
    Index,
    Lanes,
    Let,
    Register,
    Scope,
    Set,
    Statement,
    Step,
    Strips,
    element,
    number,
)

WIDTH = 4
N = Atom("n")
ROWS, LANES = 0, 1
"""The loops: rows are around strips of lanes."""

IN_ROWS, IN_LANES, IN_STRIP = Dim(ROWS, N), Dim(LANES, N, "whole"), Dim(LANES, number(4), "strip")


def array(name: str, *dims: Dim, memory: str = "stack") -> Array:
    """Return an array of doubles."""
    return Array(name, "double", dims, memory)


X = array("a0", IN_ROWS, IN_LANES, memory="operand")
W = array("a1", IN_ROWS, IN_LANES, memory="operand")
RESULT = array("r0", IN_ROWS, IN_LANES, memory="result")
SUM, TOTAL, KEPT = array("c2"), array("t2"), array("b2")
PACKED = array("b0", IN_STRIP)


def rows(*body: Statement) -> For:
    return For(ROWS, N, body)


def strips(*body: Statement) -> Strips:
    return Strips(LANES, WIDTH, body, False)


def lanes(*body: Statement) -> Lanes:
    return Lanes(LANES, body)


def let(place: int, *operands: Any, name: str = "v") -> Let:
    """Return an operation on some values."""
    value = Expr(" + ".join(["{}"] * len(operands)), tuple(map(read, operands)))
    return Let(Register(f"{name}{place}", place=place), "double", value, Step("compute", place))


def put(to: Array, value: Any, kind: str, place: int) -> Set:
    """Return a statement that writes to an array."""
    return Set(element(to), read(value), Step(kind, place))


def read(value: Any) -> Expr:
    """Return the value at a place, or an element."""
    if isinstance(value, Expr):
        return value
    return Register(f"v{value}", place=value) if isinstance(value, int) else element(value)


def program(
    body: Sequence[Statement],
    tasks: dict[int, Task],
    results: Sequence[tuple[int, frozenset[int]]] = (),
    stack: Sequence[Array] = (),
) -> Program:
    """Return a kernel; arrays hold the value whose place their names end with.

    Arrays that no statement declares are known everywhere.
    """
    used = [leaf.array for leaf in elements(body) if leaf.array.memory == "stack"]
    stack = stack or list({x.name: x for x in used}.values())
    names = [f"{kind}{n}" for kind in "abcmt" for n in range(9)]
    values = {name: int(name[1:]) for name in names} | {"r0": max(tasks)}
    loops = {f"r{n}": own for n, (_, own) in enumerate(results)}
    return Program(tasks, loops, LANES, stack, values, body)


def elements(body: Sequence[Statement]) -> Iterator[Element]:
    """Yield the elements that statements read and write."""
    for statement in body:
        if isinstance(statement, Let | Set | Call):
            yield from (x for x in statement.value.leaves() if isinstance(x, Element))
            if isinstance(statement.target, Element):
                yield statement.target
        elif isinstance(statement, FullStrip):
            yield from elements((statement.full, *statement.rest))
        else:
            yield from elements(getattr(statement, "body", ()))


BOTH, NONE = frozenset({ROWS, LANES}), frozenset[int]()
ROW, LANE = frozenset({ROWS}), frozenset({LANES})

SQUARE = {2: Task(BOTH, NONE, frozenset({0}))}
"""r0 = a0 + a0, element by element."""

NORMALIZED = {2: Task(ROW, LANE, frozenset({0})), 3: Task(BOTH, NONE, frozenset({0, 2}))}
"""Each row is summed, and the sum is added to its elements."""

ZERO = Atom("0")
START, END = put(TOTAL, ZERO, "start", 2), put(KEPT, TOTAL, "keep", 2)
START_STRIP, ADD_STRIP = put(SUM, ZERO, "start", 2), put(TOTAL, SUM, "add", 2)
ADD = put(SUM, X, "add", 2)
USE = (let(3, X, KEPT), put(RESULT, 3, "write", 3))


def square(*body: Statement) -> Program:
    return program(body, SQUARE, [(2, BOTH)])


def normalized(*body: Statement) -> Program:
    return program(body, NORMALIZED, [(3, BOTH)])


def of_sums(*body: Statement) -> Program:
    """Return a kernel of sums of rows, of which there is no result."""
    return program(body, {2: NORMALIZED[2]})


SQUARED = rows(strips(lanes(let(2, X), put(RESULT, 2, "write", 2))))
SUMMED = (START, strips(START_STRIP, lanes(ADD), ADD_STRIP), END)


PACK = put(PACKED, X, "pack", 0)
OF_PACKED = (let(2, PACKED), put(RESULT, 2, "write", 2))

PRODUCT = {2: Task(ROW, LANE, frozenset({0, 1}))}
CALL = Call("f(a0, a1, t2)", 2, LANE, (element(X), element(W)), element(TOTAL), True)
SLOWLY = (START_STRIP, lanes(put(SUM, Expr("{} * {}", (read(X), read(W))), "add", 2)), ADD_STRIP)


def multiplied(*body: Statement, call: Call = CALL) -> Program:
    """Return a kernel of products of rows, added by a function where strips are full."""
    return program([rows(START, strips(FullStrip(WIDTH, call, (Scope(body),))), END)], PRODUCT)


BEST = array("m2")
LARGER = "{0} > {1} ? {0} : {1}"
BETTER = let(2, Expr("{} > {}", (Register("x2", place=2), read(BEST))), name="y")


def largest(to: Array, value: Expr) -> Set:
    return put(to, Expr(LARGER, (value, read(to))), "add", 2)


def chosen(to: Array, value: Expr) -> Set:
    """Return a statement that keeps a value where it is better."""
    return put(to, Expr("{} ? {} : {}", (BETTER.target, value, read(to))), "add", 2)


def test_kernels_that_are_right() -> None:
    check(square(SQUARED))
    check(normalized(rows(*SUMMED, strips(lanes(*USE)))))
    check(square(rows(strips(lanes(PACK), lanes(*OF_PACKED)))))
    check(multiplied(*SLOWLY))
    lane = lanes(let(2, X, name="x"), largest(SUM, Register("x2", place=2)))
    check(of_sums(rows(START, strips(START_STRIP, lane, largest(TOTAL, read(SUM))), END)))
    better = chosen(BEST, Register("x2", place=2)), chosen(SUM, Atom("i0"))
    row = rows(let(2, X, name="x"), BETTER, *better)
    start = put(BEST, ZERO, "start", 2), START_STRIP
    position = strips(lanes(*start, row, put(LANE_RESULT, SUM, "write", 2)))
    check(program([position], {2: Task(LANE, ROW, frozenset({0}))}, [(2, LANE)]))


def changed(kernel: Program, **fields: Any) -> Program:
    return dataclasses.replace(kernel, **fields)


TWO = {2: Task(BOTH, NONE, frozenset({0})), 3: Task(BOTH, NONE, frozenset({2}))}
ROW_RESULT = array("r0", IN_ROWS, memory="result")
LANE_RESULT = array("r0", IN_LANES, memory="result")
TO_KEEP = array("b2", IN_ROWS, IN_LANES, memory="scratch")
ONE_KEPT, OTHER_KEPT = array("b2", IN_STRIP), array("b3", IN_STRIP)

DEFECTS: dict[str, tuple[Program, str]] = {
    "defined twice": (
        square(rows(strips(lanes(let(2, X), let(2, X), put(RESULT, 2, "write", 2))))),
        "v2 is defined twice",
    ),
    "not written": (square(rows(strips(lanes(let(2, X))))), "r0 is written 0 times"),
    "written twice": (
        square(rows(strips(lanes(let(2, X), *[put(RESULT, 2, "write", 2)] * 2)))),
        "r0 is written 2 times",
    ),
    "written in a first turn": (
        square(rows(strips(lanes(let(2, X), First((ROWS,), (put(RESULT, 2, "write", 2),)))))),
        "r0 of 2 is written over",
    ),
    "written for too few": (
        changed(square(SQUARED), results={"r0": ROW}),
        "r0 of 2 is written over",
    ),
    "first turn of no loop": (
        square(rows(strips(lanes(First((2,), SQUARED.body))))),
        "a first turn of no loop around it",
    ),
    "loops in one another": (
        square(rows(SQUARED)),
        "stand in one another",
    ),
    "strips in one another": (
        square(rows(strips(strips(lanes(*OF_PACKED))))),
        "stand in one another",
    ),
    "whole lanes in strips": (
        square(rows(strips(dataclasses.replace(lanes(*OF_PACKED), whole=True)))),
        "stand in one another",
    ),
    "lanes in no strip": (square(rows(lanes(*OF_PACKED))), "lanes stand in no strip"),
    "read by no index": (
        square(strips(lanes(let(2, X)))),
        "a0 is indexed by",
    ),
    "packed by no index": (
        square(rows(strips(put(PACKED, ZERO, "pack", 0)))),
        "b0 is indexed by",
    ),
    "read before it is defined": (
        square(rows(strips(lanes(put(RESULT, 2, "write", 2), let(2, X))))),
        "v2 is not known where it is read",
    ),
    "read where it is defined": (
        square(rows(strips(lanes(let(2, X, 2), put(RESULT, 2, "write", 2))))),
        "v2 is not known where it is read",
    ),
    "read outside its scope": (
        square(rows(strips(lanes(let(2, X)), lanes(put(RESULT, 2, "write", 2))))),
        "v2 is not known where it is read",
    ),
    "read, never defined": (
        square(rows(strips(lanes(put(RESULT, 2, "write", 2))))),
        "v2 is not known where it is read",
    ),
    "packed twice": (
        square(rows(strips(lanes(PACK), lanes(PACK), lanes(*OF_PACKED)))),
        "b0 is packed twice",
    ),
    "packed behind": (
        square(rows(strips(lanes(*OF_PACKED), lanes(PACK)))),
        "b0 is written 0 times",
    ),
    "packed from itself": (
        square(rows(strips(lanes(put(PACKED, PACKED, "pack", 0)), lanes(*OF_PACKED)))),
        "b0 is written 0 times",
    ),
    "packed in other strips": (
        square(rows(strips(lanes(PACK)), strips(lanes(*OF_PACKED)))),
        "b0 has one element for all indices of",
    ),
    "kept twice": (
        program([rows(strips(
            lanes(let(2, X), *[put(ONE_KEPT, 2, "keep", 2)] * 2),
            lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "b2 is written 2 times",
    ),
    "kept nowhere": (
        program([rows(strips(
            lanes(let(2, X)), lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "b2 is written 0 times",
    ),
    "read before it is kept": (
        program([rows(strips(
            lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
            lanes(let(2, X), put(ONE_KEPT, 2, "keep", 2)),
        ))], TWO, [(3, BOTH)]),
        "b2 is read before it is written",
    ),
    "kept of another strip": (
        program([rows(
            strips(lanes(let(2, X), put(ONE_KEPT, 2, "keep", 2))),
            strips(lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3))),
        )], TWO, [(3, BOTH)]),
        "b2 has one element for all indices of",
    ),
    "kept in the first row": (
        program([rows(strips(
            lanes(let(2, X), First((ROWS,), (put(TO_KEEP, 2, "keep", 2),))),
            lanes(let(3, TO_KEEP), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "b2 is written in frozenset.* only",
    ),
    "kept in a first turn": (
        program([rows(strips(
            lanes(let(2, X), First((ROWS,), (put(ONE_KEPT, 2, "keep", 2),))),
            lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "b2 is written in a first turn only",
    ),
    "kept over too few": (
        changed(
            normalized(rows(*SUMMED, strips(lanes(*USE)))),
            tasks={**NORMALIZED, 2: Task(ROW | {2}, LANE, frozenset({0}))},
        ),
        "2 is kept over",
    ),
    "computed in a first turn": (
        square(rows(strips(lanes(First((ROWS,), (let(2, X), put(RESULT, 2, "write", 2))))))),
        "2 is computed over",
    ),
    "never done": (
        program(
            [SQUARED],
            {2: SQUARE[2], 3: Task(BOTH, NONE, frozenset({2}))}, [(2, BOTH)],
        ),
        "3 is never done",
    ),
    "computed twice": (
        square(rows(strips(lanes(let(2, X), let(2, X, name="u"), put(RESULT, 2, "write", 2))))),
        "2 is done 2 times",
    ),
    "reads something else": (
        square(rows(strips(lanes(let(2, X, W), put(RESULT, 2, "write", 2))))),
        "2 reads",
    ),
    "reads too little": (
        changed(square(SQUARED), tasks={2: Task(BOTH, NONE, frozenset({0, 1}))}),
        "2 reads",
    ),
    "a function reads too little": (
        multiplied(*SLOWLY, call=dataclasses.replace(CALL, reads=(element(X),) * 2)),
        "reads",
    ),
    "a function goes over too little": (
        multiplied(*SLOWLY, call=dataclasses.replace(CALL, loops=NONE)),
        "a function goes over",
    ),
    "a function and no loops": (
        program([rows(START, strips(CALL), END)], PRODUCT),
        "no loops instead of f",
    ),
    "a function reads what is not kept": (
        multiplied(*SLOWLY, call=dataclasses.replace(
            CALL, reads=(element(array("b0", IN_STRIP)), element(W)))),
        "b0 is written 0 times",
    ),
    "a function reads beyond its loops": (
        program([START, strips(FullStrip(WIDTH, CALL, SLOWLY)), END],
                {2: Task(NONE, LANE, frozenset({0, 1}))}),
        "a0.* in a function",
    ),
    "added before it is started": (
        of_sums(rows(START, strips(lanes(ADD), START_STRIP, ADD_STRIP), END)),
        "c2 is added to before it is started",
    ),
    "added to before it is started": (
        of_sums(rows(strips(START_STRIP, lanes(ADD), ADD_STRIP), START, END)),
        "t2 is added to before it is started",
    ),
    "started in a first turn": (
        of_sums(rows(First((ROWS,), (START,)), *SUMMED[1:])),
        "t2 is started over",
    ),
    "added in a first turn": (
        of_sums(rows(START, strips(START_STRIP, lanes(First((ROWS,), (ADD,))), ADD_STRIP), END)),
        "t2 is added to over",
    ),
    "adds up too much": (
        of_sums(START, rows(strips(START_STRIP, lanes(ADD), ADD_STRIP), END)),
        "t2 adds up over",
    ),
    "adjusted twice": (
        of_sums(rows(START, strips(
            START_STRIP, lanes(ADD), *[put(SUM, SUM, "adjust", 2)] * 2, ADD_STRIP), END)),
        "c2 is adjusted twice",
    ),
    "adjusted too early": (
        of_sums(rows(START, strips(
            START_STRIP, put(SUM, SUM, "adjust", 2), lanes(ADD), ADD_STRIP), END)),
        "c2 is adjusted before all has been added",
    ),
    "adjusted in a first turn": (
        of_sums(rows(START, strips(
            START_STRIP, lanes(ADD), First((ROWS,), (put(SUM, SUM, "adjust", 2),)), ADD_STRIP),
            END)),
        "c2 is adjusted before all has been added",
    ),
    "never read": (
        of_sums(rows(START, strips(START_STRIP, lanes(ADD), ADD_STRIP))),
        "t2 is never read",
    ),
    "strips never read": (
        of_sums(rows(strips(START_STRIP, lanes(ADD)))),
        "c2 is never read",
    ),
    "read before it is added to": (
        of_sums(rows(START, END, strips(START_STRIP, lanes(ADD), ADD_STRIP))),
        "t2 is read before it is added to",
    ),
    "read in each strip": (
        of_sums(rows(START, strips(START_STRIP, lanes(ADD), ADD_STRIP, END))),
        "2 is kept over",
    ),
    "read in each lane": (
        normalized(rows(*SUMMED[:2], strips(lanes(let(3, X, TOTAL), put(RESULT, 3, "write", 3))))),
        "t2 is read over",
    ),
    "written strip by strip": (
        of_sums(rows(strips(START_STRIP, lanes(ADD), put(ROW_RESULT, SUM, "write", 2)))),
        "c2 has not been added up over",
    ),
    "read in a first turn": (
        of_sums(rows(*SUMMED[:2], First((ROWS,), (END,)))),
        "2 is kept over",
    ),
    "read where it is started again": (
        of_sums(rows(*SUMMED[:2]), rows(END)),
        "t2 is read where it is started again",
    ),
    "started twice": (
        of_sums(rows(START, *SUMMED)),
        "t2: started 2 times, added to 1 times",
    ),
    "added twice": (
        of_sums(rows(START, strips(START_STRIP, lanes(ADD, ADD), ADD_STRIP), END)),
        "c2: started 1 times, added to 2 times",
    ),
    "not started": (
        of_sums(rows(strips(lanes(ADD)))),
        "c2: started 0 times, added to 1 times",
    ),
    "never added to": (
        of_sums(rows(START, strips(START_STRIP, lanes(ADD)), END)),
        "t2: started 1 times, added to 0 times",
    ),
    "kept in another's array": (
        program([rows(strips(
            lanes(let(2, X), put(OTHER_KEPT, 2, "keep", 2)),
            lanes(let(3, OTHER_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "something else is kept for 2",
    ),
    "kept for another": (
        program([rows(strips(
            lanes(let(2, X), put(ONE_KEPT, 2, "keep", 3)),
            lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "something else is kept for 3",
    ),
    "kept of another": (
        program([rows(strips(
            lanes(let(2, X), put(ONE_KEPT, X, "keep", 2)),
            lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
        ))], TWO, [(3, BOTH)]),
        "something else is kept for 2",
    ),
    "written of another": (
        square(rows(strips(lanes(let(2, X), put(RESULT, X, "write", 2))))),
        "something else is kept for 2",
    ),
    "written for another": (
        changed(
            program([rows(strips(lanes(let(2, X), let(3, 2), put(RESULT, 3, "write", 3))))],
                    TWO, [(3, BOTH)]),
            values={"a0": 0, "r0": 2},
        ),
        "r0 is 3, not 2",
    ),
    "not declared": (
        changed(
            program([rows(strips(
                Scope((Declare(ONE_KEPT), lanes(let(2, X), put(ONE_KEPT, 2, "keep", 2)))),
                lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
            ))], TWO, [(3, BOTH)]),
            stack=(),
        ),
        "b2 is not declared where it is used",
    ),
    "declared behind": (
        changed(
            program([rows(strips(
                lanes(let(2, X), put(ONE_KEPT, 2, "keep", 2)),
                Declare(ONE_KEPT),
                lanes(let(3, ONE_KEPT), put(RESULT, 3, "write", 3)),
            ))], TWO, [(3, BOTH)]),
            stack=(),
        ),
        "b2 is not declared where it is used",
    ),
    "an index of no loop": (
        square(rows(strips(lanes(let(2, X, Index("i2", loop=2)), put(RESULT, 2, "write", 2))))),
        "i2 is the index of no loop around",
    ),
    "along what it reduces": (
        changed(square(SQUARED), tasks={2: Task(BOTH, LANE, frozenset({0}))}),
        "2 reduces some of what it goes along",
    ),
    "no row of a thread": (changed(square(SQUARED), rows=True), "2 is done for no row"),
}  # fmt: skip
"""What is wrong with kernels, and what is said of it."""


@pytest.mark.parametrize("name", DEFECTS)
def test_each_defect_is_told(name: str) -> None:
    kernel, message = DEFECTS[name]
    broken(kernel, message)


def broken(kernel: Program, message: str) -> None:
    """Check that a kernel is broken, and how that is said."""
    with pytest.raises(BrokenKernelError, match=message):
        check(kernel)


def test_more_stack_than_there_is() -> None:
    exact = array("b0", Dim(LANES, number(MOST_STACK // 8 - 5), "strip"))
    others = array("b1", Dim(LANES, number(5), "strip"))
    more = array("b2", Dim(LANES, number(6), "strip"))
    scalar = array("b4")
    here = [exact, scalar]
    body = rows(strips(Declare(others), *SQUARED.body[0].body))
    check(program([body], SQUARE, [(2, BOTH)], here))
    kernel = program([rows(Declare(more), *SQUARED.body)], SQUARE, [(2, BOTH)], here)
    broken(kernel, f"{MOST_STACK + 8} bytes of arrays")
    broken(dataclasses.replace(kernel, stack=[*here, others]), f"{MOST_STACK + 48} bytes of arrays")
