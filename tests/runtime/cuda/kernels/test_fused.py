"""Kernels of nests in CUDA C: the checks prove them, and find each defect. No GPU is needed."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
from collections.abc import Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels import fused, nesting, reduction, thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Signature
from gpushard._runtime.cuda.kernels.thread_nests import thread_nest
from gpushard._runtime.kernel_checks import BrokenKernelError, Program, check
from gpushard._runtime.kernel_tree import (
    EVERY_THREAD,
    ROW_THREADS,
    SPARE,
    Along,
    Apply,
    Atom,
    Deal,
    Declare,
    Dim,
    EachPart,
    EachRow,
    Element,
    First,
    For,
    LastBlock,
    Let,
    Meet,
    Patch,
    Point,
    Rows,
    Scope,
    Set,
    Shared,
    element,
    lines_of,
    statements_of,
    without_units,
)
from gpushard._runtime.nests import Load, Nest
from tests.gpu import nest_emitter, rows
from tests.runtime.cuda.kernels.test_thread_nests import nest as nest_of_sums
from tests.runtime.nests import nest_emitters, nest_families
from tests.runtime.nests.dealt_nests import dealt, dealt_out, op, statements
from tests.share import some


def program_of(nest: Nest) -> Program | None:
    """Return the kernel of a nest; the text of its operations says nothing."""
    if thread_nest(nest) is None:
        return None
    one, way = dealt_out(nest)
    return fused.program(one, one.signature(8), statements(one), way)


def programs(share: int, offset: int = 3) -> Iterator[Program]:
    """Yield the kernels in CUDA C of some nests."""
    for case in nest_emitters.chosen(share, offset):
        nest = nest_families.nest_of(case)
        if nest is not None:
            nest = nest_emitter.with_positions(nest) if case.number // 7 % 2 else nest
            with nest_emitter.small_steps(case):
                program = program_of(nest_emitter.for_gpus(nest, np))
            if program is not None:
                yield program


def programs_of_rows(seeds: range) -> Iterator[Program]:
    """Yield kernels whose threads keep rows, and such with short loops."""
    for seed in seeds:
        short = rows.drawn_short(seed)
        with mock.patch.object(thread_layout, "FEWEST_BLOCKS", 0):
            yield short.program(rows.lengths_of(short, 50, 0))
        kernel = rows.drawn(seed)
        lengths = rows.lengths_of(kernel, 5, (8, 24, 33, 64)[seed % 4])
        if kernel.way(lengths).kept:
            yield kernel.program(lengths)


def broken(body: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str, Any]]:
    """Yield a body with one defect after the other, what it is, and of which statement.

    Each statement is left out, done twice, moved behind what stands around it, or loses what it
    puts around others. A guard loses each of its conditions. Threads meet where only one comes to.
    """
    for n, statement in enumerate(body):
        before, after = body[:n], body[n + 1 :]
        if isinstance(statement, Point):
            continue
        yield (*before, *after), "left out", statement
        yield (*before, statement, statement, *after), "twice", statement
        if isinstance(statement, Meet | LastBlock):
            for apart in First((ROW_THREADS,), (statement,)), Along(Deal((9,), 8), (statement,)):
                yield (*before, apart, *after), "not all threads come to", statement
        if isinstance(statement, LastBlock):
            again = dataclasses.replace(statement, body=())
            yield (*before, again, statement, *after), "two of", statement
            own = dataclasses.replace(statement, body=(Along(Deal((9,), 8), statement.body),))
            yield (*before, own, *after), "a part of a row for", statement
        if isinstance(statement, First) and len(statement.loops) > 1:
            for loop in statement.loops:
                rest = tuple(x for x in statement.loops if x != loop)
                guard = dataclasses.replace(statement, loops=rest)
                yield (*before, guard, *after), f"not only in the first of {loop}", statement
        if hasattr(statement, "body"):
            inside = statement.body
            for at, moved in enumerate(inside):
                left = dataclasses.replace(statement, body=(*inside[:at], *inside[at + 1 :]))
                if not isinstance(moved, Point):
                    yield (*before, left, moved, *after), "moved", moved
            yield (*before, *inside, *after), "nothing around it", statement
            for other, *what in broken(inside):
                yield (*before, dataclasses.replace(statement, body=other), *after), *what


@pytest.fixture(scope="module")
def kernels() -> list[Program]:
    """Kernels of many nests."""
    return [*programs(some(1499, 99)), *programs_of_rows(range(some(16, 160)))]


def test_checks_find_each_defect(kernels: list[Program]) -> None:
    defects = 0
    for program in kernels:
        check(program)
        for body, what, statement in broken(tuple(program.body)):
            defects += 1
            with pytest.raises(BrokenKernelError):
                check(dataclasses.replace(program, body=body))
                pytest.fail(f"{what}: {statement} in {program.body}")
    assert len(kernels) > 100 and defects > 3000, (len(kernels), defects)


def swapped(body: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    """Yield a body with two neighbours the other way round, and these."""
    for n, statement in enumerate(body):
        before, after = body[:n], body[n + 1 :]
        if after and not {type(statement), type(after[0])} & {Point}:
            yield (*before, after[0], statement, *after[1:]), statement, after[0]
        for inside, *pair in swapped(getattr(statement, "body", ())):
            yield (*before, dataclasses.replace(statement, body=inside), *after), *pair


def names(statement: Any) -> tuple[set[str], set[str]]:
    """Return the names that a statement needs, and those that it defines or changes."""
    needed, changed = set[str](), set[str]()
    if isinstance(statement, Declare):
        changed.add(statement.array.name)
    if isinstance(statement, Set | Let | Apply | Meet):
        leaves = [*statement.value.leaves(), statement.target]
        *needs, target = [x.array.name if isinstance(x, Element) else str(x) for x in leaves]
        needed.update(needs)
        changed.add(target)
    body = getattr(statement, "body", ())
    own = {x.array.name for x in body if isinstance(x, Declare)}
    for inside in map(names, body):
        needed |= inside[0] - own
        changed |= inside[1] - own
    return needed, changed


def test_checks_know_which_statement_comes_first(kernels: list[Program]) -> None:
    """The checks refuse a wrong order, and no other one."""
    count = {True: 0, False: 0}
    for program in kernels:
        for body, first, second in swapped(tuple(program.body)):
            (needs, changes), (others, changed) = names(first), names(second)
            wrong = not changes.isdisjoint(others | changed) or not needs.isdisjoint(changed)
            count[wrong] += 1
            try:
                check(dataclasses.replace(program, body=body))
            except BrokenKernelError as error:
                assert wrong, (error, first, second)
            else:
                assert not wrong, (first, second, program.body)
    assert min(count.values()) > 200, count


def in_units(loads: list[Load], *results: tuple[int | None, ...]) -> Program:
    """Return a kernel that copies loads, along loops 0 and 1, in units."""
    first = len(loads)
    ops = [op("copy", (n % first,), (BYTE,), BYTE, {0, 1}) for n in range(len(results))]
    one = dealt(loads, ops, [(first + n, dims) for n, dims in enumerate(results)], 2)
    way = dataclasses.replace(thread_layout.threads(one, [(3, 32)]), each=16)
    return fused.program(one, one.signature(8), statements(one), way)


BYTE = np.dtype(np.int8)
WHOLE = Load(0, BYTE, (0, 1), (0, 0), (0, 0))


def test_units_are_of_arrays_that_have_an_element_for_each_row() -> None:
    check(in_units([WHOLE, Load(1, BYTE, (None, 1), (2, 0), (5, 3))], (0, 1), (0, None)))
    check(in_units([WHOLE, Load(1, BYTE, (1, None), (16, 0), (0, 0))], (0, 1)))
    for load in (
        Load(1, BYTE, (1, None), (0, 3), (0, 4)), Load(1, BYTE, (1, 0), (0, 0), (0, 0)),
        Load(1, BYTE, (1, 1), (0, 0), (0, 0)),
    ):  # fmt: skip
        with pytest.raises(BrokenKernelError, match=r"is not dense|no unit of its own"):
            check(in_units([WHOLE, load], (0, 1)))
    with pytest.raises(BrokenKernelError, match="stored more than once"):
        check(in_units([WHOLE], (0, 1), (1,)))
    program = in_units([WHOLE], (0, 1))
    rows = program.body[-1]
    assert isinstance(rows, Rows) and rows.units is not None
    again = dataclasses.replace(rows, again=(SPARE,))
    with pytest.raises(BrokenKernelError, match="do a row again"):
        check(dataclasses.replace(program, body=(*program.body[:-1], again)))
    inside = Dim(2, Atom("n2"))
    array = rows.units.loads[0]
    array = dataclasses.replace(array, dims=(inside, *array.dims))
    wrong = dataclasses.replace(rows, units=dataclasses.replace(rows.units, loads=(array,)))
    with pytest.raises(BrokenKernelError, match="no unit of its own"):
        check(dataclasses.replace(program, body=(*program.body[:-1], wrong)))


@pytest.mark.parametrize(
    ("load", "length", "each"),
    [(WHOLE, 32, 16), (WHOLE, 40, 1), (Load(0, BYTE, (0, 1), (0, 16), (0, 16)), 32, 16),
     (Load(0, BYTE, (0, 1), (0, 1), (0, 31)), 32, 1),
     (Load(0, BYTE, (1, 0), (0, 0), (0, 0)), 32, 1),
     (Load(0, BYTE, (0, 1, None), (0,) * 3, (0,) * 3), 32, 16),
     (Load(0, BYTE, (0, 1, None), (0,) * 3, (0, 0, 1)), 32, 1),
     (Load(0, BYTE, (0,), (3,), (0,)), 32, 16), (Load(0, BYTE, (1, 1), (0, 0), (0, 0)), 32, 1)],
)  # fmt: skip
def test_threads_have_units_where_all_arrays_have(load: Load, length: int, each: int) -> None:
    copy = op("copy", (0,), (BYTE,), BYTE, {0, 1})
    one = dealt([load], [copy], [(1, (0, 1))], 2)
    assert thread_layout.threads(one, [(5, 32), (7, length)]).each == each
    lacks = dealt([load], [copy], [(1, (0, 1)), (1, (1,))], 2)
    assert thread_layout.threads(lacks, [(5, 32), (7, length)]).each == 1
    many = dealt([load], [copy] * 9, [(1, (0, 1))], 2)
    assert each == 1 or thread_layout.threads(many, [(5, 32), (7, length)]).each == 4
    sums = op("sum", (0,), (BYTE,), BYTE, {0}, (1,))
    rows = dealt([load], [copy, sums], [(1, (0, 1))], 2, along={1})
    assert thread_layout.threads(rows, [(5, 32), (7, length)]).each == 1


def test_patches_are_of_rows_that_threads_have_for_themselves() -> None:
    program = in_units([WHOLE], (0, 1))
    *before, rows = program.body
    assert isinstance(rows, Rows)
    for patch, again, right in (
        (Patch(0, (8, 32)), (), True), (Patch(1, (8, 32)), (), False),
        (Patch(2, (8, 32)), (), False), (Patch(0, (8, 32)), (SPARE,), False),
    ):  # fmt: skip
        other = dataclasses.replace(rows, units=None, patch=patch, again=again)
        changed = dataclasses.replace(program, body=(*before, other))
        if right:
            check(changed)
            continue
        with pytest.raises(BrokenKernelError, match="a patch has other loops"):
            check(changed)


@pytest.mark.parametrize(
    ("read", "written", "lengths", "loop"),
    [((1, 0), (0, 1), (16, 16), 0), ((0, 1), (0, 1), (16, 16), None),
     ((1, 0), (0, 1), (15, 16), None), ((1, 0), (0, 1), (16, 15), None),
     ((0,), (0, 1), (16, 16), None),
     ((2, None, 1), (0, 1, 2), (16, 16, 16), 1), ((2, None, 1), (0, 1, 2), (16, 15, 16), None),
     ((2, None, 1), (0, 1, 2), (16, 16, 15), None), ((2, None, 1), (0, 1, 2), (1, 16, 16), 1),
     ((1, 0, 2), (0, 1, 2), (16, 16, 16), None)],
)  # fmt: skip
def test_threads_have_patches_where_an_array_is_dense_across_others(
    read: tuple[int | None, ...],
    written: tuple[int, ...],
    lengths: tuple[int, ...],
    loop: int | None,
) -> None:
    double, none = np.dtype(complex), (0,) * len(read)
    copy = op("copy", (0,), (double,), double, written)
    one = dealt([Load(0, double, read, none, none)], [copy], [(1, written)], len(written))
    way = thread_layout.threads(one, [lengths, (64,) * len(lengths)])
    assert way.patched == loop
    sides = [1, 1, 1][: len(lengths)]
    if loop is not None:
        sides[loop], sides[-1] = way.sides
    blocks = math.prod(-(-n // side) for n, side in zip(lengths, sides, strict=True))
    assert way.blocks_of(lengths) == (blocks if loop is not None else -(-blocks // 256))
    assert math.prod(way.sides) == 256


@pytest.mark.parametrize(("reduction", "wanted"), [("min", np.minimum), ("max", np.maximum)])
def test_extremes_of_two_floats_are_numpys(reduction: str, wanted: Any) -> None:
    """Of which the first one stays where both are equal, and what is no number wins."""
    double = np.dtype(float)
    reducing = op(reduction, (0,), (double,), double, {0}, (1,))
    text, _, choice = fused._combined(reducing).partition(" ? ")
    assert choice == "a : b"
    holds = text.replace("||", "or").replace("!(", "not (")
    values = (1.0, 2.0, -0.0, np.nan, -np.inf)
    for a, b in itertools.product(values, repeat=2):
        made = a if eval(holds, {"a": a, "b": b}) else b
        np.testing.assert_equal(made, wanted(a, b))
    assert eval(holds, {"a": 0.0, "b": -0.0})


@pytest.mark.parametrize(
    ("letter", "centres", "features", "points", "each"),
    [("f", 32, 16, 1 << 17, 4), ("f", 32, 16, (1 << 17) - 1, 2), ("f", 32, 16, 1 << 12, 1),
     ("f", 32, 32, 1 << 17, 4), ("f", 16, 64, 1 << 17, 2), ("d", 32, 16, 1 << 17, 4),
     ("d", 16, 64, 1 << 17, 1), ("e", 16, 64, 1 << 17, 2)],
)  # fmt: skip
def test_threads_have_several_rows_that_read_the_same(
    letter: str, centres: int, features: int, points: int, each: int
) -> None:
    way = rows.nearest(letter, centres, features).way((points, centres, features), (1, 1, 1))
    assert way.at_once == each
    assert way.blocks_of((points, centres, features)) == -(-points // (256 * each))


def test_loads_are_kept_where_loops_are_unrolled_only() -> None:
    """Elsewhere they would be in local memory."""
    kernel = rows.nearest("f", 32, 16)
    for most, kept in (512, True), (10, False):
        with mock.patch.object(nesting, "MOST_UNROLLED", most):
            text = kernel.text((1 << 17, 32, 16))
        assert ("Unit<float" in text, " b0[" in text) == (kept, kept)


def replaced(body: tuple[Any, ...], one: Any, other: Any) -> tuple[Any, ...]:
    """Return a body with another statement in the place of one."""
    new: list[Any] = []
    for statement in body:
        inside = getattr(statement, "body", None)
        if statement is one:
            new.append(other)
        elif inside is not None:
            new.append(dataclasses.replace(statement, body=replaced(inside, one, other)))
        else:
            new.append(statement)
    return tuple(new)


def test_rows_of_a_thread_and_what_a_block_has_for_them() -> None:
    """Each defect is found: of the rows, of what they share, and of units along short loops."""
    program = rows.nearest("f", 32, 16).program((1 << 17, 32, 16))
    check(program)
    every: list[Any] = list(statements_of(program.body))
    (whole,) = [x for x in every if isinstance(x, Rows)]
    (shared,) = [x for x in every if isinstance(x, Shared)]
    (kept,) = [x for x in every if isinstance(x, Declare) and x.array.memory == "shared"]
    each = next(x for x in every if isinstance(x, EachRow))
    units = next(x for x in every if isinstance(x, For) and x.units is not None)
    other = dataclasses.replace(each.deal, each=2)
    first = dataclasses.replace(units.units, results=units.units.loads)
    for one, wrong, message in [
        (whole, dataclasses.replace(whole, loops=(0,)), "rows of its own, too"),
        (whole, dataclasses.replace(whole, again=(EVERY_THREAD, SPARE)), "rows of its own, too"),
        (shared, For(shared.loop, shared.length, shared.body), "all threads write"),
        (shared, First((EVERY_THREAD,), (shared,)), "come to where they share a loop"),
        (each, dataclasses.replace(each, deal=other), "dealt out otherwise"),
        (each, dataclasses.replace(each, deal=Deal((0,), 256, 4)), "of no rows"),
        (each, dataclasses.replace(each, deal=dataclasses.replace(each.deal, unit=2)), "no rows"),
        (each, Along(each.deal, each.body), "does not deal out each element once"),
        (units, dataclasses.replace(units, length=Atom("15")), "no units of a loop"),
        (units, dataclasses.replace(units, units=first), "no units of a loop"),
    ]:
        with pytest.raises(BrokenKernelError, match=message):
            check(dataclasses.replace(program, body=replaced(tuple(program.body), one, wrong)))
    array = kept.array

    def other_array(body: tuple[Any, ...], new: Any) -> tuple[Any, ...]:
        made: list[Any] = []
        for x in body:
            changes: dict[str, Any] = {}
            if isinstance(x, Declare) and x.array == array:
                changes = {"array": new}
            elif isinstance(x, Set) and x.target.array == array:
                changes = {"target": element(new)}
            elif isinstance(x, Apply):
                arguments = [
                    dataclasses.replace(a, value=element(new)) if a.value == element(array) else a
                    for a in x.arguments
                ]
                changes = {"arguments": tuple(arguments)}
            elif hasattr(x, "body"):
                changes = {"body": other_array(x.body, new)}
            made.append(dataclasses.replace(x, **changes))
        return tuple(made)

    for new, message in (
        (dataclasses.replace(array, memory="stack"), "one element for all indices of"),
        (dataclasses.replace(array, itemsize=1 << 10), "bytes of shared memory"),
    ):
        with pytest.raises(BrokenKernelError, match=message):
            check(dataclasses.replace(program, body=other_array(tuple(program.body), new)))


def test_parts_of_rows_and_the_last_block() -> None:
    """It is said what is wrong where threads or blocks bring together what each has added up."""
    ops = [((0, 2.0), (0, 1), ()), ((1,), (0,), (1,))]
    program = program_of(nest_of_sums((2, 1 << 20), [(0, 1)], ops, 2))
    assert program is not None
    check(program)
    every: list[Any] = list(statements_of(program.body))
    (whole,) = [x for x in every if isinstance(x, Rows)]
    (last,) = [x for x in every if isinstance(x, LastBlock)]
    (parts,) = [x for x in every if isinstance(x, EachPart)]
    along = next(x for x in every if isinstance(x, Along))
    ours, all_parts = [x for x in every if isinstance(x, Meet)]
    *_, start = [x for x in every if isinstance(x, Set) and x.step.kind == "start"]
    (keep,) = [x for x in every if isinstance(x, Set) and x.step.kind == "keep"]
    guard = next(x for x in every if isinstance(x, First))
    assert guard.body[0].step.kind == "put"
    everywhere = dataclasses.replace(parts, body=(First((SPARE,), guard.body), *parts.body))
    for one, wrong, message in [
        (whole, dataclasses.replace(whole, body=(*whole.body, last)), "which one is the last"),
        (last, Scope((last,)), "blocks come more than once"),
        (last, dataclasses.replace(last, body=(along, *last.body)), "its own part of a row only"),
        (last, Scope(replaced(last.body, parts, Scope(parts.body))), "before all parts have been"),
        (last, First((SPARE,), (last,)), "not all threads come to where they meet"),
        (ours, First((SPARE,), (ours,)), "not all threads come to where they meet"),
        (ours, Along(Deal((9,), 8), (ours,)), "not all threads come to where they meet"),
        (along, Along(along.deal, (along,)), "share work in a loop and are not all around it"),
        (guard, dataclasses.replace(guard, loops=(0, *guard.loops)), "is put over"),
        (parts, everywhere, "is put over"),
        (parts, dataclasses.replace(parts, body=(start, *parts.body)), "as there are parts"),
        (keep, First((ROW_THREADS,), (keep,)), "is done in the first turn of"),
        (keep, dataclasses.replace(keep, value=all_parts.value), "threads have to meet, once"),
        (keep, dataclasses.replace(keep, value=ours.target), "have been brought together"),
    ]:
        with pytest.raises(BrokenKernelError, match=message):
            check(dataclasses.replace(program, body=replaced(tuple(program.body), one, wrong)))


SIZES = {
    "bool": 1,
    "signed char": 1,
    "float16": 2,
    "complex<float>": 8,
    "int": 4,
    "float": 4,
    "long long": 8,
    "double": 8,
}
SIZES |= {f"Position<{kind}>": 16 for kind in ("int", "float", "double")}


def test_bytes_of_arrays_are_counted(kernels: list[Program]) -> None:
    arrays = 0
    for program in kernels:
        text = "\n".join(lines_of(without_units(program.body)))
        found = re.findall(r"^([\w <>]+) [abt]\d+\[([\d *]+)\];", text, re.MULTILINE)
        sizes = [SIZES[kind] * math.prod(map(int, size.split(" * "))) for kind, size in found]
        assert sum(sizes) <= program.array_bytes <= 4 * sum(sizes), (found, program.body)
        arrays += len(found)
    assert arrays > 5, arrays


_NAME = r"\b(?:[abptvi]|all|from|part|to)\d+\b"


def names_not_known(text: str) -> set[str]:
    """Return the names of values and indices that a text uses outside of where they are declared.

    A text that is not whole uses "{".
    """
    scopes: list[set[str]] = [set()]
    wrong: set[str] = set()
    token = re.compile(rf"[{{}}]|(?:[\w>] |[*] const )({_NAME})(?= ?[=;[])|({_NAME})")
    for found in token.finditer(re.sub(r"in\d+_type", "", text)):
        declared, used = found.groups()
        if found[0] == "{":
            scopes.append(set())
        elif found[0] == "}":
            scopes.pop()
        elif declared:
            scopes[-1].add(declared)
        elif not any(used in scope for scope in scopes):
            wrong.add(used)
    return wrong | ({"{"} if len(scopes) != 1 else set())


def test_texts_use_names_where_they_are_declared() -> None:
    count, scalars = 0, re.compile(r"v\d+")  # of which some are numbers that a kernel is given
    for program in [*programs(some(499, 97)), *programs_of_rows(range(some(16, 160)))]:
        body = "\n".join(lines_of(program.body))
        given = {name for name in names_not_known(body) if scalars.fullmatch(name)}
        assert not names_not_known(body) - given, body
        assert not {f"v{place}" for place in program.tasks} & given, body
        lines = body.splitlines()
        for n, line in enumerate(lines):
            declared = re.match(rf"(?:const )?[\w<> ]+ ({_NAME})(?: = .*)?;$", line)
            if declared:
                count += 1
                without = "\n".join([*lines[:n], *lines[n + 1 :]])
                hides = "Held<" in line or "= ahead" in line  # of a row what is there of a unit
                # A thread of several rows has all indices of a row in each step.
                hides |= "rows - 1;" in body and line.endswith(("row;", "row);"))
                assert hides or declared[1] in names_not_known(without), line
    assert count > 100


def test_what_is_made_of_values_and_of_their_sum_comes_when_the_sum_is_complete() -> None:
    """Values, their sums over one short loop, products of both, and the sum of these."""
    ops = [((0, 2.0), (0, 1, 2), ()), ((1,), (0, 1), (2,)), ((1, 2), (0, 1, 2), ())]
    program = program_of(nest_of_sums((300, 5, 7), [(0, 1, 2)], [*ops, ((3,), (0,), (1, 2))], 4))
    assert program is not None
    check(program)


def test_numbers_are_read_where_the_argument_has_them() -> None:
    ops = [((0, 2.0), (0, 1), ()), ((1, 3.0), (0, 1), ())]
    program = program_of(nest_of_sums((300, 500), [(0, 1)], ops, 2))
    assert program is not None
    text = "\n".join(lines_of(program.body))
    assert [int(n) for n in re.findall(r"batch\.scalar\[(\d+)\]", text)] == [0, 1]


def test_threads_go_across_sums_of_columns() -> None:
    """As the largest array lies, whatever smaller ones do."""
    ops = [((0, 1), (0, 1), ()), ((2,), (1,), (0,)), ((2, 3), (0, 1), ())]
    _, way = dealt_out(nest_of_sums((300, 500), [(0, 1), (0,)], ops, 4))
    assert way.along and way.across


@pytest.mark.parametrize(("arrays", "calls", "loops", "scalars"), [(3, 8, 1, 0), (2, 5, 3, 2)])
def test_the_argument_lies_as_its_struct_does(
    arrays: int, calls: int, loops: int, scalars: int
) -> None:
    double = np.dtype(np.float64)
    operands = (double,) * (arrays - 1 + scalars)
    numbers = tuple(range(arrays - 1, len(operands)))
    found = Signature(operands, numbers, (double,), calls, False, loops)
    ends = 8 * arrays * calls, 8 * (arrays + loops) * calls
    aligned = -(-ends[1] // 16) * 16
    assert (found.at_counts, found.at_scalars) == (ends[0], aligned)
    assert found.nbytes == aligned + 16 * max(1, scalars)


def test_complex_numbers_are_summed_and_have_no_extremes() -> None:
    given = np.dtype(np.complex64)
    signature = Signature((given,), (), (given,), 8, False)
    extremes = {name: reduction.source(name, signature) for name in reduction._WHOLE}
    assert len(extremes) > 1 and {*extremes.values()} == {None}
    assert reduction.source("sum", signature) is not None
