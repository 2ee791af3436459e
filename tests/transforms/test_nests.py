"""Loop nests: every emitter against the definition, and what is checked of each kernel."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard.runtime import kernel_checks
from gpushard.runtime.kernel_checks import BrokenKernelError, Program, check
from gpushard.runtime.kernel_tree import (
    Atom,
    Declare,
    Expr,
    FullStrip,
    Lanes,
    Let,
    Point,
    Register,
    Scope,
    Set,
    Step,
    product,
    total,
)
from gpushard.transforms import c_kernels
from gpushard.transforms.c_source import c_source
from gpushard.transforms.nests import merged
from tests.share import some
from tests.transforms import nest_emitters, nest_families

P = gs.P
HOST = {"backend": "host", "host_devices": 8}


@pytest.mark.parametrize("emitter", ["numpy", "c"])
def test_a_share_of_all_small_nests(emitter: str) -> None:
    """`python -m tests.transforms.nest_emitters` takes all of them."""
    cases = nest_emitters.chosen(some(499, 40))
    cases += [nest_families.every_case()[n] for n in nest_emitters.RARE]
    report = nest_emitters.compare(cases, [emitter])
    assert not report.problems, report.problems[0]
    assert report.counts.total() > 400


def test_there_are_as_many_small_nests_as_there_were() -> None:
    assert len(nest_families.every_case()) == 209_577


def programs(share: int) -> Iterator[Program]:
    """Yield the kernels in C of some nests."""
    for case in nest_emitters.chosen(share, offset=3):
        nest = nest_families.nest_of(case)
        if nest is not None:
            with nest_emitters.small_steps(case, nest):
                source = c_source(merged(nest)[0])
            if source is not None:
                yield source.program


def broken(body: tuple[Any, ...]) -> Iterator[tuple[tuple[Any, ...], str]]:
    """Yield a body with one defect after the other: what is left out, done twice, or in no loop."""
    for n, statement in enumerate(body):
        before, after = body[:n], body[n + 1 :]
        if isinstance(statement, Point | Declare):
            continue
        if not isinstance(statement, Scope):
            yield (*before, *after), f"without {statement.lines()}"
            yield (*before, statement, statement, *after), f"twice {statement.lines()}"
        for field in ("body", "rest"):
            if not hasattr(statement, field):
                continue
            inside = getattr(statement, field)
            if not isinstance(statement, Scope | FullStrip):
                yield (*before, *inside, *after), f"{type(statement).__name__}: {inside}"
            for other, what in broken(inside):
                changed = dataclasses.replace(statement, **{field: other})
                yield (*before, changed, *after), what


def lanes_of(body: Sequence[Any]) -> Iterator[Lanes]:
    """Yield the lanes of a kernel."""
    for statement in body:
        if isinstance(statement, Lanes):
            yield statement
        yield from lanes_of((*getattr(statement, "body", ()), *getattr(statement, "rest", ())))


def sums_over_lanes(program: Program) -> Iterator[tuple[Set, Lanes]]:
    """Yield what adds up the lanes of a strip."""
    across = {n for n, task in program.tasks.items() if program.lanes in task.reduced}
    for lanes in lanes_of(program.body):
        for add in lanes.body:
            if isinstance(add, Set) and add.step.kind == "add" and add.step.place in across:
                yield add, lanes


def test_checks_find_each_defect() -> None:
    """What lanes add up must be said to be a sum, too: else each lane may have its own."""
    count = sums = 0
    for program in programs(some(2999, 199)):
        check(program)
        for add, lanes in sums_over_lanes(program):
            sums += 1
            assert any(f":{add.target})" in clause for clause in lanes.clauses or ())
        for body, what in broken(tuple(program.body)):
            count += 1
            with pytest.raises(BrokenKernelError):
                check(dataclasses.replace(program, body=body))
                pytest.fail(f"{what} in {program.body}")
    assert count > 800
    assert sums > 10


def test_lanes_stand_in_a_strip() -> None:
    program = next(programs(2999))
    name = Register("v9", place=9)
    alone = Lanes(program.lanes, (Let(name, "int", Atom("0"), Step("compute", 9)),))
    with pytest.raises(BrokenKernelError, match="lanes stand in no strip"):
        check(dataclasses.replace(program, body=(*program.body, alone)))


def test_a_broken_kernel_is_not_used() -> None:
    x = gs.device_put(np.ones((130, 140)))
    with (
        testing.runtime(**HOST),
        mock.patch.object(c_kernels, "check", side_effect=BrokenKernelError("v3 is done twice")),
        pytest.warns(RuntimeWarning, match="v3 is done twice"),
    ):
        x = gs.device_put(np.ones((130, 140)))
        assert np.asarray(gs.jit(lambda x: x * 2 + 1)(x)).tolist() == [[3.0] * 140] * 130


def test_operands_of_an_expression_are_in_parentheses() -> None:
    a, b, c = Atom("a"), Atom("b"), Atom("c")
    values = {"a": 7, "b": 3, "c": 2}
    forms = ["{} - {}", "{} * {}", "{} + {}"]
    for outer, inner in itertools.product(forms, forms):
        left, right = Expr(outer, (Expr(inner, (a, b)), c)), Expr(outer, (a, Expr(inner, (b, c))))
        inside = eval(inner.format(7, 3)), eval(inner.format(3, 2))
        assert eval(str(left), values) == eval(outer.format(inside[0], 2))
        assert eval(str(right), values) == eval(outer.format(7, f"({inside[1]})"))
    assert str(product([total([a, b]), Atom("1"), c])) == "(a + b) * c"


def test_kernels_take_a_bounded_part_of_the_stack() -> None:
    """Sinkhorn's iterations: many strips of 32 x 32 values, each for all lanes."""

    def sinkhorn(x: Any) -> Any:
        for _ in range(5):
            x = x / x.sum(axis=2, keepdims=True)
            x = x / x.sum(axis=1, keepdims=True)
        return x

    made: list[Program] = []
    keep = mock.patch.object(c_kernels, "check", side_effect=made.append)
    with testing.runtime(**HOST), keep:
        x = gs.device_put(np.random.default_rng(0).random((200, 32, 32)))
        np.testing.assert_allclose(np.asarray(gs.jit(sinkhorn)(x)).sum(1), 1)
    assert made
    for program in made:
        check(program)
        arrays = sum(array.stack_bytes for array in program.stack)
        assert arrays <= kernel_checks.MOST_STACK


SUMS = {
    "distances": lambda x, w: ((x[:, None, :] - w[None, :5, None] * x[:, None, :]) ** 2).sum(-1),
    "softmax": lambda x, w: (
        gnp.exp(x - x.max(-1, keepdims=True))
        / gnp.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)
    ),
    "centered": lambda x, w: (x - x.mean(-1, keepdims=True)) * 2,
    "moments": lambda x, w: (x.mean(-1), ((x - 1) * (x - 1)).sum(-1)),
    "penalty": lambda x, w: (x * w[: x.shape[-1]], (w * w).sum()),
}
"""Functions of rows; sums are along other dims than rows."""


def operations(compiled: Any) -> list[str]:
    """Return the names of the operations of a compiled function, kernels among them."""
    return re.findall(r"^ .* = (\w+) ", compiled.as_text(), re.MULTILINE)


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.parametrize("shape", [(5, 8), (30, 7), (64, 300), (301, 70), (3, 9001)])
def test_splits_of_rows_give_equal_bits(name: str, shape: Any, compiler: str) -> None:
    """Where the kernels are the same, as docs/jit.md says: no devices without rows, or one sum."""
    rng = np.random.default_rng(1)
    x, w = rng.standard_normal(shape), rng.standard_normal(max(shape[-1], 16))
    function = gs.jit(SUMS[name])
    with testing.runtime(**HOST, compiler=compiler):
        arrays = gs.device_put(x), gs.device_put(w)
        kernels = operations(function.lower(*arrays).compile())
        wanted = [np.asarray(v) for v in gs.tree_util.tree_leaves(function(*arrays))]
        for count in (2, 3, 5, 8):
            mesh = gs.Mesh(np.array(gs.devices()[:count]), ("rows",))
            split = gs.device_put(x, gs.NamedSharding(mesh, P("rows")))
            whole = gs.device_put(w, gs.NamedSharding(mesh, P()))
            alike = kernels == operations(function.lower(split, whole).compile())
            assert alike or (name == "penalty" and -(-shape[0] // count) * (count - 1) >= shape[0])
            for got, want in zip(
                gs.tree_util.tree_leaves(function(split, whole)), wanted, strict=True
            ):
                if alike:
                    assert np.asarray(got).tobytes() == want.tobytes(), count
                else:
                    np.testing.assert_allclose(got, want, 1e-12)
