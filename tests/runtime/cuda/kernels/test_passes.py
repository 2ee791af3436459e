"""What threads keep between passes along a row, and what the checks refuse of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels import passes
from gpushard._runtime.cuda.kernels.passes import Passes
from gpushard._runtime.kernel_checks import BrokenKernelError, Program, check
from gpushard._runtime.kernel_tree import (
    PARTS,
    Along,
    Array,
    Declare,
    Element,
    Expr,
    Rows,
    Set,
    Step,
    element,
    lines_of,
    number,
)
from tests.gpu import rows
from tests.gpu.rows import Kernel

# Places of softmax: 0 the load, 1 the maximum, 2 the difference, 3 the sum, 4 the result. Those of
# layer norm: 0 to 2 the loads, 3 the mean, 4 what is apart from it, 6 the variance, 9 the result.


@pytest.mark.parametrize(
    ("kernel", "spans"),
    [(rows.softmax(), {0: (0, 1), 2: (1, 2)}), (rows.layer_norm(), {0: (0, 1), 4: (1, 2)}),
     (rows.softmax(across=True), {0: (0, 1), 2: (1, 2)})],
)  # fmt: skip
def test_what_threads_keep(kernel: Kernel, spans: Any) -> None:
    assert Passes(kernel.function).spans(4) == spans


def test_what_threads_keep_is_bounded() -> None:
    build = rows.Builder(np.random.default_rng(0), 1, 1, across=False)
    x = build.load("d")
    most, least = build.reduce("max", x), build.reduce("min", x)
    halves = [build.op(np.subtract, x, at) for at in (most, least)]
    totals = [build.reduce("sum", at) for at in halves]
    ends = [build.op(np.multiply, *pair) for pair in zip(halves, totals, strict=True)]
    made = Passes(build.function(*ends))
    loads = {x: (0, 2)}
    for elements, spans in (
        (1, {x: (0, 1), halves[0]: (1, 2), halves[1]: (1, 2)}),
        (16, {x: (0, 1), halves[0]: (1, 2), halves[1]: (1, 2)}), (32, loads), (64, {}),
    ):  # fmt: skip
        assert made.spans(elements) == spans
    with mock.patch.object(passes, "MOST_UNROLLED", 16 * 8 - 1):
        assert made.spans(16) == {} and made.spans(8) != {}


def test_one_pass_keeps_nothing() -> None:
    build = rows.Builder(np.random.default_rng(0), 1, 1, across=False)
    x = build.load("f")
    doubled = build.op(np.add, x, x)
    kernel = Kernel(build.function(doubled, build.reduce("sum", doubled)))
    assert Passes(kernel.function).spans(4) == {}
    assert kernel.way((64, 1024)).kept == 0


@pytest.mark.parametrize(
    ("letter", "length", "width", "kept", "unit"),
    [("f", 0, 1, 4, 4), ("f", 1, 1, 1, 1), ("f", 4, 1, 4, 4), ("f", 32, 8, 4, 4),
     ("f", 128, 32, 4, 4), ("f", 132, 32, 8, 4), ("f", 1023, 32, 32, 1), ("f", 1024, 32, 32, 4),
     ("f", 1026, 256, 8, 2), ("f", 8192, 256, 32, 4), ("f", 8193, 256, 0, 1),
     ("d", 1024, 32, 32, 2), ("e", 256, 32, 8, 8), ("b", 1024, 32, 32, 16)],
)  # fmt: skip
def test_how_many_threads_have_a_row(
    letter: str, length: int, width: int, kept: int, unit: int
) -> None:
    way = rows.softmax(letter).way((64, length))
    assert (way.width, way.kept, way.unit) == (width, kept, unit)


def test_kernels_are_for_the_longest_row_of_their_calls() -> None:
    kernel = rows.softmax()
    assert kernel.way((64, 20), (64, 4096)) == kernel.way((3, 4096))
    assert kernel.way((64, 21), (64, 4096)).unit == 1
    assert kernel.text((64, 4096)) != kernel.text((64, 2048))


def loads_of(kernel: Kernel) -> int:
    program = kernel.program((64, 1024))
    return "\n".join(lines_of(program.body)).count("] = from")


def test_each_element_is_loaded_in_one_place() -> None:
    """The other one is for blocks that are not aligned."""
    assert loads_of(rows.softmax()) == 2


# What the checks refuse.


def alongs(program: Program) -> list[Along]:
    """Return the passes of a kernel: those of loads, those of operations."""
    body = program.body[-1]
    assert isinstance(body, Rows)
    return [x for x in body.body if isinstance(x, Along)]


def changed(program: Program, change: Callable[[Any], Any]) -> Program:
    """Return a kernel with each statement of its rows as a function says."""

    def of(statement: Any) -> Any:
        statement = change(statement)
        if hasattr(statement, "body"):
            return dataclasses.replace(statement, body=tuple(map(of, statement.body)))
        return statement

    return dataclasses.replace(program, body=tuple(map(of, program.body)))


def with_along(program: Program, n: int, **fields: Any) -> Program:
    """Return a kernel of which one pass is another one."""
    wanted = alongs(program)[n]
    return changed(program, lambda x: dataclasses.replace(x, **fields) if x is wanted else x)


def refused(program: Program, why: str) -> None:
    with pytest.raises(BrokenKernelError, match=why):
        check(program)


@pytest.fixture
def softmax() -> Program:
    program = rows.softmax().program((64, 1024))
    check(program)
    assert len(alongs(program)) == 4  # one loads
    return program


@pytest.mark.parametrize("at", range(4))
@pytest.mark.parametrize(
    "other", [{"width": 64}, {"each": 64}, {"each": 16}, {"unit": 8}, {"unit": 1}]
)
def test_threads_keep_what_they_read_themselves(softmax: Program, at: int, other: Any) -> None:
    along = alongs(softmax)[at]
    deal = dataclasses.replace(along.deal, **other)
    units = along.units and dataclasses.replace(along.units, count=deal.unit)
    refused(with_along(softmax, at, deal=deal, units=units), "is dealt out otherwise")


def test_passes_deal_out_each_element_once(softmax: Program) -> None:
    deal = alongs(softmax)[0].deal
    for other in {"each": 30}, {"unit": 0}, {"each": 0}:
        why = "does not deal out each element once"
        refused(with_along(softmax, 0, deal=dataclasses.replace(deal, **other)), why)
    again = alongs(softmax)[0]

    def in_parts(x: Any) -> Any:
        return dataclasses.replace(x, again=(*x.again, PARTS)) if isinstance(x, Rows) else x

    assert again.deal.each
    refused(changed(softmax, in_parts), "does not deal out each element once")


def arrays(program: Program, change: Callable[[Array], Array], *, declared: bool) -> Program:
    """Return a kernel with other arrays, where they are declared or where they are used."""

    def of(expr: Any) -> Any:
        if isinstance(expr, Element):
            return element(change(expr.array))
        if isinstance(expr, Expr) and expr.operands:
            return dataclasses.replace(expr, operands=tuple(map(of, expr.operands)))
        return expr

    def change_of(x: Any) -> Any:
        if isinstance(x, Declare):
            return Declare(change(x.array)) if declared else x
        if declared or not hasattr(x, "target"):
            return x
        fields = {"target": of(x.target)}
        if hasattr(x, "arguments"):
            fields["arguments"] = tuple(
                dataclasses.replace(one, value=of(one.value)) for one in x.arguments
            )
        else:
            fields["value"] = of(x.value)
        return dataclasses.replace(x, **fields)

    return changed(program, change_of)


@pytest.mark.parametrize("name", ["b0", "b2"])
def test_kept_values_have_an_element_for_each_that_a_thread_has(
    softmax: Program, name: str
) -> None:
    def short(array: Array) -> Array:
        dims = [dataclasses.replace(dim, length=number(16)) for dim in array.dims]
        return dataclasses.replace(array, dims=tuple(dims)) if array.name == name else array

    def next_to(array: Array) -> Array:
        dims = [dataclasses.replace(dim, start=1) for dim in array.dims]
        return dataclasses.replace(array, dims=tuple(dims)) if array.name == name else array

    def strided(array: Array) -> Array:
        return dataclasses.replace(array, strides=(number(2),)) if array.name == name else array

    def of_memory(array: Array) -> Array:
        return dataclasses.replace(array, memory="scratch") if array.name == name else array

    refused(arrays(softmax, short, declared=True), "declared otherwise")
    for change in short, next_to, strided, of_memory:
        refused(arrays(softmax, change, declared=False), "not one element for each|stack")


def test_kept_values_are_read_in_passes_that_have_their_elements(softmax: Program) -> None:
    def later(x: Any) -> Any:  # the sum starts as the first element
        starts = isinstance(x, Set) and x.step == Step("start", 3)
        return dataclasses.replace(x, value=element(kept("b0", softmax))) if starts else x

    refused(changed(softmax, later), "is indexed by")


def kept(name: str, program: Program) -> Array:
    body = program.body[-1]
    assert isinstance(body, Rows)
    (array,) = [x.array for x in body.body if isinstance(x, Declare) and x.array.name == name]
    return array


def test_kept_values_are_what_they_are_read_as() -> None:
    program = rows.layer_norm().program((64, 1024))
    check(program)
    last = alongs(program)[-1].units
    assert last is not None
    scale = next(x for x in last.loads if x.name == "from1")

    def other_load(x: Any) -> Any:
        same = isinstance(x, Set) and x.step == Step("keep", 0)
        return dataclasses.replace(x, value=element(scale)) if same else x

    def other_value(x: Any) -> Any:
        same = isinstance(x, Set) and x.step == Step("keep", 4)
        return dataclasses.replace(x, value=element(kept("b0", program))) if same else x

    def other_array(x: Any) -> Any:
        same = isinstance(x, Set) and x.step == Step("keep", 4)
        return dataclasses.replace(x, target=element(kept("b0", program))) if same else x

    for change in other_load, other_value:
        refused(changed(program, change), "something else is kept")
    refused(changed(program, other_array), "b0 is written 2 times")


def units(program: Program) -> Iterator[tuple[int, Along]]:
    yield from ((n, x) for n, x in enumerate(alongs(program)) if x.units is not None)


def test_units_of_a_row_are_of_the_elements_that_a_thread_has(softmax: Program) -> None:
    (first, load), (last, store) = units(softmax)
    assert load.units and store.units
    for at, along in (first, load), (last, store):
        wrong = dataclasses.replace(along.units, count=2)
        refused(with_along(softmax, at, units=wrong), "units of other lengths")
    (array,) = load.units.loads
    turned = dataclasses.replace(array, dims=array.dims[::-1])
    other = dataclasses.replace(array, dims=(dataclasses.replace(array.dims[0], start=4),
                                             array.dims[1]))  # fmt: skip
    for moved, why in (turned, "is not dense"), (other, "no element of its units"):
        wrong = dataclasses.replace(load.units, loads=(moved,))
        refused(with_along(softmax, first, units=wrong), why)
    nowhere = dataclasses.replace(load.units, results=store.units.results)
    refused(with_along(softmax, first, units=nowhere), "stored where none is made")
    (result,) = store.units.results
    short = dataclasses.replace(result, dims=result.dims[1:])
    wrong = dataclasses.replace(store.units, results=(short,))
    refused(with_along(softmax, last, units=wrong), "stored more than once")
    looped = dataclasses.replace(load.deal, each=0, unit=1)
    free = Along(looped, (), dataclasses.replace(load.units, count=1))
    refused(changed(softmax, lambda x: free if x is load else x), "units of other lengths")
