"""Loops in the text of kernels reach every element once, whichever thread does."""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections import Counter
from typing import Any

import pytest

from gpushard._runtime.kernel_tree import (
    SPARE,
    Along,
    Array,
    Atom,
    Deal,
    Dim,
    EachPart,
    EachRow,
    For,
    Patch,
    Point,
    Rows,
    Shared,
    Units,
    element,
    number,
)

TYPES = r"(?:const )?(?:Index|bool|unsigned int|int64_t) "
SKIPPED = r"#|Unit<.*> unit_|const Held<|unit_\w+\.(load|store)|__syncthreads"


def expression(text: str) -> str:
    """Write an expression of integers in Python."""
    text = re.sub(r"Unit<[^>]*>::begins_at\(\w+\)", "aligned", text)
    for c, python in (
        ("threadIdx.x", "tid"), ("Index(", "("), ("/", "//"), ("&&", " and "), ("||", " or "),
        ("!", " not "),
    ):  # fmt: skip
        text = text.replace(c, python)
    holds, found, values = text.partition(" ? ")
    return f"{values.replace(' : ', f' if {holds} else ', 1)}" if found else text


def run(statement: Any, hits: list[Any], **names: Any) -> None:
    """Run the text of a statement, whose body says where it is."""
    in_python(statement, tuple(names))(lambda *at: hits.append(at), **names)


@functools.cache
def in_python(statement: Any, names: tuple[str, ...]) -> Any:
    """Return the text of a statement as a function of names that are known to it."""
    python, ends = [f"def kernel(hit, {', '.join(names)}):", " pass"], list[str]()

    def say(line: str) -> None:
        python.append(" " * (1 + len(ends)) + line)

    for line in statement.lines():
        if re.match(SKIPPED, line):
            continue
        if line in ("}", "} else {"):
            end = ends[-1]
            if end:
                say(end)
            ends.pop()
            if line != "}":
                say("else:")
                ends.append("")
        elif found := re.fullmatch(r"for \((.*); (.*); (.*)\) \{", line):
            start, holds, step = found.groups()
            say(re.sub(TYPES, "", expression(start)) or "pass")
            say(f"while {expression(holds)}:")
            ends.append(step.replace("++", " += 1"))
        elif found := re.fullmatch(r"if \((.*)\) \{", line):
            say(f"if {expression(found[1])}:")
            ends.append("")
        elif found := re.fullmatch(r"if \((.*)\) (\w.*);", line):
            say(f"if {expression(found[1])}: {found[2]}")
        elif found := re.fullmatch(rf"{TYPES}(\w+) = by(\d+)\.take\((\w+)\);", line):
            say(f"{found[1]} = {found[3]} % n{found[2]}; {found[3]} //= n{found[2]}")
        else:
            left, equals, right = re.sub(f"^{TYPES}", "", line.rstrip(";")).partition("= ")
            say(f"{left.replace('/', '//')}{equals}{expression(right)}" if equals else left)
            continue
        say("pass")
    scope: dict[str, Any] = {}
    exec("\n".join(python), scope)
    return scope["kernel"]


def here(*names: str) -> tuple[Point]:
    return (Point((f"hit({', '.join(names)});",)),)


def every(*lengths: int) -> Counter[Any]:
    return Counter(itertools.product(*map(range, lengths)))


def array(name: str, *loops: int) -> Array:
    return Array(name, "double", tuple(Dim(n, Atom(f"n{n}")) for n in loops), "operand")


@pytest.mark.parametrize("sides", [(8, 32), (32, 8), (4, 64)])
@pytest.mark.parametrize(("across", "lengths"), [(0, (9, 3, 33)), (1, (2, 33, 8)), (0, (40, 65))])
def test_patches_cover_all_rows_once(
    across: int, lengths: tuple[int, ...], sides: tuple[int, int]
) -> None:
    loops = tuple(range(len(lengths)))
    rows = Rows(loops, (), here(*[f"i{n}" for n in loops]), patch=Patch(across, sides))
    own = {across: sides[0], loops[-1]: sides[1]}
    pieces = math.prod(-(-n // own.get(loop, 1)) for loop, n in enumerate(lengths))
    hits: list[Any] = []
    known = {f"n{loop}": n for loop, n in enumerate(lengths)}
    for piece, tid in itertools.product(range(pieces), range(256)):
        run(rows, hits, piece=piece, tid=tid, **known)
    assert Counter(hits) == every(*lengths)


def test_a_thread_beyond_the_last_row_returns_unless_others_need_it() -> None:
    for again, count in (((), 6), ((SPARE,), 9)):
        hits: list[Any] = []
        for row in range(9):
            known = {"row": min(row, 5), "there": row < 6, "n0": 2, "n1": 3}
            run(Rows((0, 1), again, here("i0", "i1")), hits, **known)
        assert set(hits) == set(every(2, 3)) and len(hits) == count


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("lengths", [(5, 8), (42,), (3, 6), (2, 3, 4)])
def test_units_of_rows_leave_out_none(lengths: tuple[int, ...], aligned: bool) -> None:
    """Also the last ones, which are no whole unit, and rows whose units would be of two."""
    loops, threads = tuple(range(len(lengths))), 3
    units = Units(4, (array("a0", *loops),), ())
    statement = Rows(loops, (), here(*[f"i{n}" for n in loops]), units)
    known = {f"n{loop}": n for loop, n in enumerate(lengths)}
    rows, hits = math.prod(lengths), list[Any]()
    for piece, tid in itertools.product(range(-(-rows // (threads * 4))), range(threads)):
        run(
            statement, hits, piece=piece, tid=tid, threads=threads, rows=rows, aligned=aligned,
            **known,
        )  # fmt: skip
    assert Counter(hits) == every(*lengths)


@pytest.mark.parametrize("parts", [1, 3])
def test_elements_of_a_row_go_to_its_threads_and_parts(parts: int) -> None:
    hits: list[Any] = []
    along = Along(Deal((1, 2), 4), here("i1", "i2"))
    for part, lane in itertools.product(range(parts), range(4)):
        run(along, hits, part=part, parts=parts, lane=lane, length=35, n1=5, n2=7)
    assert Counter(hits) == every(5, 7)
    merged: list[Any] = []
    for lane in range(4):
        run(EachPart(4, here("part")), merged, lane=lane, parts=11)
    assert Counter(merged) == every(11)


@pytest.mark.parametrize("units", [False, True])
@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize(
    ("length", "each", "unit"), [(36, 12, 4), (48, 12, 4), (10, 4, 2), (7, 3, 1)]
)
def test_a_thread_keeps_each_element_that_it_has_under_a_number_of_its_own(
    length: int, each: int, unit: int, aligned: bool, units: bool
) -> None:
    deal, elements = Deal((1,), 4, each, unit), list[Any]()
    along = Along(deal, here("i1", "k"), Units(unit, (array("a0", 1),), ()) if units else None)
    for lane in range(4):
        own: list[Any] = []
        run(along, own, lane=lane, length=length, aligned=aligned, n1=length)
        kept = [k for _, k in own]
        assert len(set(kept)) == len(kept) and set(kept) <= {*range(each)}
        elements += [at for at, _ in own]
    assert Counter(elements) == Counter(range(length))


def test_a_thread_has_several_rows_and_does_the_last_one_again() -> None:
    hits: list[Any] = []
    rows = EachRow(Deal((0, 1), 4, 3, rows=True), here("i0", "i1", "k", "there"))
    for piece, tid in itertools.product(range(2), range(4)):
        run(rows, hits, first=piece * 12, tid=tid, rows=20, n0=4, n1=5)
    assert Counter(at[:2] for at in hits if at[3]) == every(4, 5)
    assert len(hits) == 24 and {at[:2] for at in hits if not at[3]} == {(3, 4)}
    assert {at[2] for at in hits} == {0, 1, 2}


def test_what_a_block_of_threads_shares_and_what_a_thread_does_alone() -> None:
    hits: list[Any] = []
    for tid in range(4):
        run(Shared(2, number(11), here("i2")), hits, tid=tid, threads=4)
    assert Counter(hits) == every(11)
    for units in (None, Units(2, (array("a0", 3),), ())):
        alone: list[Any] = []
        run(For(3, number(6), here("i3"), units=units), alone)
        assert alone == [(n,) for n in range(6)]


def test_elements_are_named_by_the_indices_of_their_loops() -> None:
    """A dim of one element has index 0 alone, and a loop that the pointer has counts no more."""
    whole = Array("a0", "double", (*array("", 0, 1).dims, Dim(None, number(1))), "operand")
    for of, wanted in (
        (whole, "a0[(i0*n1) + i1]"),
        (Array("a0", "double", whole.dims, "operand", ahead=frozenset({0})), "a0[i1]"),
        (Array("a0", "double", (), "stack"), "a0"),
        (Array("a0", "double", (Dim(None, number(1)),), "operand"), "a0[0]"),
        (Array("a0", "double", whole.dims[:2], "operand", strides=(number(1), Atom("s"))),
         "a0[i0 + (i1*s)]"),
    ):  # fmt: skip
        assert str(element(of)).replace(" * ", "*") == wanted
    sized = Array("c0", "double", (Dim(0, number(3)), Dim(1, number(4))), "stack")
    assert sized.stack_bytes == 96 and str(sized.size).replace(" ", "") == "3*4"
