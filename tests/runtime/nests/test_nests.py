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
from hypothesis import example, given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._runtime import kernel_checks
from gpushard._runtime.host.nests import block_kernels, c_kernels, numpy_tiles
from gpushard._runtime.host.nests.c_kernels import c_kernel
from gpushard._runtime.host.nests.c_source import c_source
from gpushard._runtime.host.nests.numpy_tiles import straight_kernel, tile_kernel
from gpushard._runtime.kernel_checks import BrokenKernelError, Program, check
from gpushard._runtime.kernel_tree import (
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
from gpushard._runtime.nests import Load, Nest, Op, Result, merged
from tests.runtime.cuda.kernels.test_thread_nests import nest as nest_of_sums
from tests.runtime.nests import nest_definition, nest_emitters, nest_families
from tests.share import examples, some

P = gs.P
HOST = {"backend": "host", "host_devices": 8}


@pytest.mark.parametrize("emitter", ["numpy", "c"])
def test_a_share_of_all_small_nests(emitter: str) -> None:
    """`python -m tests.runtime.nests.nest_emitters` takes all of them."""
    cases = nest_emitters.chosen(some(1499, 40))
    cases += [nest_families.every_case()[n] for n in nest_emitters.RARE]
    report = nest_emitters.compare(cases, [emitter])
    assert not report.problems, report.problems[0]
    assert report.counts.total() > 140


def test_there_are_as_many_small_nests_as_there_were() -> None:
    assert len(nest_families.every_case()) == 209_577


Loops = tuple[int, ...]


@pytest.mark.parametrize(
    ("loads", "ops", "groups"),
    [
        ([(0, 1, 2)], [((0, 2.0), (0, 1, 2), ())], [[0, 1, 2]]),
        ([(0, 1, 2)], [((0,), (0,), (1, 2))], [[0], [1, 2]]),
        ([(0, 1, 2)], [((0,), (2,), (0, 1)), ((1, 2.0), (2,), ())], [[0, 1], [2]]),
        ([(0, 1, 2)], [((0,), (0, 1), (2,)), ((1, 2.0), (0, 1), ())], [[0, 1], [2]]),
        ([(0, 1, 2), (0, 2)], [((0, 1), (0, 1, 2), ())], [[0], [1], [2]]),
        ([(0, 2, 1)], [((0, 2.0), (0, 1, 2), ())], [[0], [1], [2]]),
        ([(0, 1), (2,)], [((0,), (0,), (1,)), ((2, 1), (0, 2), ())], [[0], [1], [2]]),
        ([(0, 1, 2), (1, 2)], [((0, 1), (0, 1, 2), ()), ((2,), (0,), (1, 2))], [[0], [1, 2]]),
    ],
)
def test_loops_that_all_have_alike_are_one(
    loads: list[Loops], ops: list[tuple[Any, Loops, Loops]], groups: list[list[int]]
) -> None:
    last = len(loads) + len(ops) - 1
    assert merged(nest_of_sums((2, 3, 4), loads, ops, last))[1] == groups


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_positions_have_their_loops_alone(name: str) -> None:
    made = nest_of_sums((2, 3, 4, 5), [(0, 1, 2, 3)], [((0,), (0, 1), (2, 3))], 1)
    of_positions = dataclasses.replace(made.ops[0], name=name)
    assert merged(made)[1] == [[0, 1], [2, 3]]
    assert merged(dataclasses.replace(made, ops=[of_positions]))[1] == [[0, 1], [2], [3]]


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


@pytest.mark.one_of(2)
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


FLOAT = np.dtype(np.float64)
Loops = Sequence[int]


def nest(
    sizes: Sequence[int],
    loads: Sequence[Loops],
    ops: Sequence[tuple[str, Loops, Loops, Loops]],
    results: Sequence[int],
    *,
    short: Loops = (),
    inner: Loops = (),
    more: Sequence[int] = (),
) -> Nest:
    """Return a nest.

    Args:
      sizes: lengths of the loops.
      loads: the loops of each operand, in the order of its dims.
      ops: of each the name, places of its operands, its loops and those that it reduces.
      results: places of the results.
      short: loops of few elements.
      inner: long loops that are reduced for what is in the nest.
      more: operands that have an element more along their last dim.
    """
    read = tuple(
        Load(n, FLOAT, tuple(dims), (0,) * len(dims), (*(0,) * len(dims), int(n in more))[1:])
        if dims
        else Load(n, FLOAT, (), (), ())
        for n, dims in enumerate(loads)
    )
    made = tuple(
        Op(
            name, tuple((at, None) for at in operands), FLOAT, frozenset(loops),
            (FLOAT,) * len(operands), None if reduced else getattr(np, name),
            reduced=tuple(reduced),
        )
        for name, operands, loops, reduced in ops
    )  # fmt: skip
    ends = tuple(Result(at, tuple(sorted(made[at - len(read)].loops))) for at in results)
    return Nest(tuple(sizes), len(read), read, made, ends, frozenset(short), frozenset(inner))


def check_values(kernel: Any, meant: Nest, lengths: Sequence[int] | None = None) -> None:
    """Check that a kernel gives what its nest means, for operands of integers, and dense results.

    Args:
      kernel: the kernel.
      meant: its nest.
      lengths: lengths of the loops; by default those of the nest.
    """
    rng = np.random.default_rng(0)
    blocks = []
    for load in meant.loads:
        own = [1 if loop is None else (lengths or meant.sizes)[loop] for loop in load.dims]
        blocks.append(rng.integers(-4, 5, np.add(own, load.more)).astype(load.dtype))
    found = kernel(*blocks)
    wanted = nest_definition.compute(meant, blocks, lengths or meant.sizes)
    for got, want in zip(found if len(wanted) > 1 else (found,), wanted, strict=True):
        np.testing.assert_array_equal(got, want)
        assert np.shape(got) == np.shape(want)
        assert np.asarray(got).flags.c_contiguous


@st.composite
def long_nests(draw: st.DrawFn) -> Nest:
    """Draw a nest of up to ten operations, each of any values before it."""
    loads, ops = [(0, 1), (0,), (1,)], list[tuple[str, Loops, Loops, Loops]]()
    loops_of = [frozenset(loops) for loops in loads]
    for place in range(3, 3 + draw(st.integers(2, 10))):
        operands = draw(st.lists(st.integers(0, place - 1), min_size=1, max_size=2))
        loops = frozenset[int]().union(*[loops_of[at] for at in operands])
        reduced: Loops = ()
        if len(operands) == 1 and 1 in loops and draw(st.booleans()):
            loops, reduced = loops - {1}, (1,)
            name = draw(st.sampled_from(["sum", "max"]))
        else:
            name = ("negative", "minimum")[len(operands) - 1]
        ops.append((name, operands, sorted(loops), reduced))
        loops_of.append(loops)
    needed = {at for _, operands, _, _ in ops for at in operands}
    more = draw(st.sets(st.sampled_from(range(3, 3 + len(ops)))))
    results = [place for place in range(3, 3 + len(ops)) if place not in needed or place in more]
    return nest((3, 4), loads, ops, results, short=(1,))


NORMED = nest(
    (3, 4), [(0, 1)],
    [("negative", (0,), (0, 1), ()), ("max", (1,), (0,), (1,)), ("minimum", (2, 0), (0, 1), ()),
     ("sum", (3,), (0,), (1,)), ("minimum", (4, 0), (0, 1), ())],
    [5], short=(1,),
)  # fmt: skip
"""A nest of two passes: values of the second one lie where those of the first did."""


@examples(60)
@given(long_nests())
@example(NORMED)
def test_tiles_keep_values_where_nothing_lies_that_is_needed(meant: Nest) -> None:
    """Each value has a place, and there are no more places than values that are needed at once."""
    slots, homes = numpy_tiles._homes(meant)
    first = len(meant.loads)
    results = {result.place for result in meant.results}
    assert results <= homes.keys()
    assert {*slots, *homes} == {*range(first, first + len(meant.ops))}
    assert slots.keys().isdisjoint(homes)
    last = {at: n for n, op in enumerate(meant.ops) for at, _ in op.operands}
    at_once = [
        sum(place not in results and last[place] >= n for place in range(first, first + n))
        + (first + n not in results)
        for n in range(len(meant.ops))
    ]
    assert len({*slots.values()}) <= max(at_once)
    check_values(tile_kernel(meant), meant)


@pytest.mark.parametrize(
    ("short", "inner", "largest"),
    [((1,), (0,), 300), ((), (0,), 300), ((), (), 4), ((0, 1), (), 4), ((0,), (), 300)],
)
def test_tiles_are_no_larger_than_they_need_be(short: Loops, inner: Loops, largest: int) -> None:
    """Long loops are cut, or short ones if there are none; not those reduced for what follows."""
    over = (0,) if inner else ()
    ops: list[tuple[str, Loops, Loops, Loops]]
    ops = [("negative", (0,), (0, 1), ()), ("multiply", (1, 1), (0, 1), ())]
    ops += [("sum", (2,), (1,), over)] if over else [("negative", (2,), (0, 1), ())]
    meant = nest((300, 7), [(0, 1)], [*ops, ("subtract", (1, 3), (0, 1), ())], [4],
                 short=short, inner=inner)  # fmt: skip
    memory = block_kernels.Scratch()
    with (
        mock.patch.object(numpy_tiles, "scratch", memory),
        mock.patch.object(numpy_tiles, "_TILE", 4),
    ):
        check_values(tile_kernel(meant), meant)
    assert max(slot.nbytes for slot in memory.slots) == largest * FLOAT.itemsize


def test_sums_over_loops_that_are_cut() -> None:
    """The parts of several tiles are put together, once where a sum has not all loops."""
    ops: list[tuple[str, Loops, Loops, Loops]] = [
        ("add", (0, 1), (0, 1), ()), ("sum", (1,), (), (0,)), ("sum", (2,), (0,), (1,)),
        ("sum", (2,), (1,), (0,)), ("max", (2,), (), (0, 1)), ("min", (0,), (), (1, 0)),
    ]  # fmt: skip
    for count in range(1, len(ops) + 1):
        meant = nest((9, 5), [(0, 1), (0,)], ops[:count], range(2, 2 + count))
        for size in (1, 4, 12, 45):
            with mock.patch.object(numpy_tiles, "_TILE", size):
                check_values(tile_kernel(meant), meant)


def test_the_widest_operation_says_how_large_tiles_are() -> None:
    ops: list[tuple[str, Loops, Loops, Loops]] = [
        ("negative", (1,), (0,), ()), ("add", (0, 2), (0, 1), ()), ("sum", (3,), (0,), (1,)),
    ]  # fmt: skip
    meant, memory = nest((300, 7), [(0, 1), (0,)], ops, [4], short=(1,)), block_kernels.Scratch()
    with (
        mock.patch.object(numpy_tiles, "scratch", memory),
        mock.patch.object(numpy_tiles, "_TILE", 28),
    ):
        check_values(tile_kernel(meant), meant)
    assert max(slot.nbytes for slot in memory.slots) == 28 * FLOAT.itemsize


ADDED = nest((64, 64), [(0, 1), (0, 1)], [("add", (0, 1), (0, 1), ())], [2])
"""The sum of two arrays whose dims are the same loops."""

STRAIGHT: dict[str, tuple[Nest, Sequence[tuple[int, ...]], bool]] = {
    # the nest, the shape of each operand's block, and whether its operations are lines
    "small blocks": (ADDED, [(64, 64)] * 2, True),
    "as many elements as a small nest may have": (
        nest((128, 127), [(0, 1), (0, 1)], [("add", (0, 1), (0, 1), ())], [2]),
        [(128, 127)] * 2, True,
    ),
    "a small part of a large nest": (
        nest((128, 128), [(0, 1), (0, 1)], [("add", (0, 1), (0, 1), ())], [2]),
        [(32, 128)] * 2, True,
    ),
    "a part that is an element too large": (
        nest((17, 2000), [(0, 1), (0, 1)], [("add", (0, 1), (0, 1), ())], [2]),
        [(17, 241)] * 2, False,
    ),
    "a block of nothing": (ADDED, [(64, 0)] * 2, False),
    "a number beside": (
        nest((9, 7), [(0, 1), ()], [("add", (0, 1), (0, 1), ())], [2]), [(9, 7), ()], True
    ),
    "numbers alone": (nest((), [(), ()], [("add", (0, 1), (), ())], [2]), [(), ()], True),
    "dims in another order": (
        nest((9, 7), [(0, 1), (1, 0)], [("add", (0, 1), (0, 1), ())], [2]), [(9, 7), (7, 9)], True
    ),
    "a result in another order": (
        nest((9, 7), [(0, 1), (1, 0)], [("negative", (1,), (0, 1), ())], [2]),
        [(9, 7), (7, 9)], True,
    ),
    "sums": (nest((9, 7), [(0, 1)], [("sum", (0,), (0,), (1,))], [1]), [(9, 7)], True),
    "sums of a large nest": (
        nest((9000, 7), [(0, 1)], [("sum", (0,), (0,), (1,))], [1]), [(9, 7)], False
    ),
    "a part of a block": (
        nest((9, 7), [(0, 1)], [("negative", (0,), (0, 1), ())], [1], more=(0,)), [(9, 8)], True
    ),
    "two results": (
        nest((9, 7), [(0, 1)], [("negative", (0,), (0, 1), ()), ("square", (1,), (0, 1), ())],
             [1, 2]),
        [(9, 7)], True,
    ),
    "two results in other orders": (
        dataclasses.replace(
            nest((9, 7), [(1, 0)], [("negative", (0,), (0, 1), ()), ("square", (1,), (0, 1), ())],
                 [1, 2]),
            results=(Result(1, (0, 1)), Result(2, (1, 0))),
        ),
        [(7, 9)], True,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STRAIGHT)
def test_small_blocks_are_done_without_tiles(name: str) -> None:
    meant, shapes, are_lines = STRAIGHT[name]
    kernel = straight_kernel(meant, shapes)
    assert (kernel is not None) == are_lines
    if kernel is not None:
        check_values(kernel, meant, meant.lengths(shapes))


@pytest.mark.parametrize("shape", [(9, 150), (3, 9, 150), (150, 1), (3, 50, 1), (3, 50, 4, 1)])
def test_in_which_order_tiles_add(shape: tuple[int, ...]) -> None:
    """Rows along the last dims pairwise, each by itself; dims in front one after the other."""
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    dims = range(len(shape))
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(dims, count):
            found = np.empty([1 if dim in axes else n for dim, n in enumerate(shape)], x.dtype)
            numpy_tiles._reduction(np.add, x.dtype, axes)(x, found)
            ahead = [dim for dim in axes if not {*dims[dim:]} <= {*axes}]
            kept = shape[: len(shape) - count + len(ahead)]
            rows = x.reshape(*kept, -1) if count > len(ahead) else x[..., None]
            sums = np.array([np.add.reduce(row) for row in rows.reshape(-1, rows.shape[-1])])
            sums = np.moveaxis(sums.reshape(rows.shape[:-1]), ahead, range(len(ahead)))
            total, *others = sums.reshape(-1, *sums.shape[len(ahead) :])
            for other in others:
                total = total + other
            np.testing.assert_array_equal(found.ravel(), total.ravel(), f"axes {axes}")


def test_sums_of_products_in_a_tile() -> None:
    """Dims that are reduced, and those that one factor has, the other, both or none."""
    rng, sizes = np.random.default_rng(0), (2, 3, 4, 5)
    for kinds in itertools.product(["reduced", "one", "other", "both", "none"], repeat=4):
        axes = tuple(dim for dim, kind in enumerate(kinds) if kind == "reduced")
        shapes = [
            [n if kinds[dim] in ("reduced", own, "both") else 1 for dim, n in enumerate(sizes)]
            for own in ("one", "other")
        ]
        x, y = (rng.integers(-4, 5, shape).astype(float) for shape in shapes)
        if axes:
            want = (x * y).sum(axes, keepdims=True)
            found = numpy_tiles._product(x, y, axes, np.full(want.shape, np.nan))
            np.testing.assert_array_equal(found, want, str(kinds))
    zero, infinite = np.zeros((1, 1)), np.full((1, 1), np.inf)
    with np.errstate(invalid="ignore"):
        assert np.isnan(numpy_tiles._product(zero, infinite, (1,), np.zeros((1, 1)))).all()


@pytest.mark.parametrize("name", ["argmin", "argmax"])
@pytest.mark.parametrize(
    "dtype", [np.int8, np.uint16, np.float32, np.float64, np.complex64, np.bool_]
)
def test_positions_in_a_tile(name: str, dtype: Any) -> None:
    """The first ones, of several axes in the order that is said, and of NaN where there is one."""
    rng, op = np.random.default_rng(0), mock.Mock(spec=["name"])
    op.name = name
    for shape, every in (
        ((4, 3, 5), [(0,), (1,), (2,), (0, 1), (0, 2), (2, 0), (1, 2), (2, 1, 0)]),
        ((3, 2, 4096), [(0,), (1,), (0, 1), (1, 0)]),
        ((64, 4097), [(0,)]),
        ((65, 4096), [(0,)]),
    ):
        x = rng.integers(0, 4, shape).astype(dtype)
        if dtype == np.float32:
            x[rng.random(shape) < 0.1] = np.nan
        if dtype == np.float64:
            x[1] = np.nan
        for axes in every:
            rows = np.moveaxis(x, axes, range(-len(axes), 0))
            want = getattr(np, name)(rows.reshape(*rows.shape[: -len(axes)], -1), -1)
            want = np.expand_dims(want, tuple(sorted(axes)))
            found = np.full(want.shape, -1)
            numpy_tiles._positions(op, axes)(x, found)
            np.testing.assert_array_equal(found, want, f"{shape} {axes}")


def multiplied(
    x: Loops, y: Loops, over: int, *before: tuple[str, Loops, Loops, Loops], **others: Any
) -> Nest:
    """Return twice the sums of products of two arrays, or of the two last values `before`."""
    loops, ahead = sorted({*x, *y} - {over}), 2 + len(before)
    factors = (ahead - 2, ahead - 1)
    ops = [*before, ("product", factors, loops, (over,)), ("add", (ahead, ahead), loops, ())]
    return nest((300, 3, 4), [x, y], ops, [ahead + 1], short=(1, 2), **others)


PRODUCTS: dict[str, tuple[Nest, bool]] = {
    "over lanes, both packed": (multiplied((0, 1), (0, 2), 0, inner=(0,)), True),
    "over lanes, one behind": (multiplied((0, 1), (2, 0), 0, inner=(0,)), False),
    "over lanes, the other behind": (multiplied((1, 0), (0, 2), 0, inner=(0,)), False),
    "over lanes, both made in strips": (
        multiplied((0, 1), (2, 0), 0, ("negative", (0,), (0, 1), ()),
                   ("negative", (1,), (0, 2), ()), inner=(0,)),
        True,
    ),
    "over lanes, one kept from another pass": (
        multiplied((0, 1), (0, 2), 0, ("max", (0,), (1,), (0,)), ("minimum", (0, 2), (0, 1), ()),
                   ("negative", (1,), (0, 2), ()), inner=(0,)),
        False,
    ),
    "of lanes": (multiplied((0, 1), (2, 1), 1), True),
    "of lanes, the other first": (multiplied((2, 1), (0, 1), 1), True),
    "of lanes, and what is no block": (multiplied((0, 1), (2, 1), 1, more=(1,)), False),
    "of lanes that lie behind": (multiplied((1, 0), (2, 1), 1), False),
}  # fmt: skip
"""Sums of products over loop 0, which is long, or short ones; whether a function adds them."""


@pytest.mark.parametrize("name", PRODUCTS)
def test_which_products_are_functions(name: str) -> None:
    meant, is_function = PRODUCTS[name]
    source = c_source(merged(meant)[0])
    assert source is not None
    assert ("GS_PRODUCT product" in source.text) == is_function
    check(source.program)
    check_values(c_kernel("cc", meant), meant)
