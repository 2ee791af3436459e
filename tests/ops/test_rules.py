"""Every row of the table with every factor split, against its own kernel on whole arrays."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops.aval import Aval
from gpushard._ops.basic_index import open_index
from gpushard._ops.dispatch import create
from gpushard._ops.programs.move import Move
from gpushard._ops.programs.owners import FromOwners
from gpushard._ops.row import Row, Site
from gpushard._ops.rule import Rule
from gpushard._ops.table import contractions, linalg
from gpushard._ops.table.scatter import UPDATE
from gpushard._ops.table.windows import REDUCE_WINDOW
from tests.late import late_devices
from tests.ops.cases import (
    AXES,
    FORMS,
    MADE,
    SAMPLE,
    Case,
    cases,
    moves,
    reduce_of,
)

WAYS: dict[str, dict[str, Any]] = {
    "inline": {},
    "streams": {"inline_bytes": 0, "small_bytes": 0},
    "domains": {"inline_bytes": 0, "host_domains": 6},
    "pairs": {"host_domains": 3},
}


def mesh() -> gs.Mesh:
    return gs.make_mesh(tuple(AXES.values()), tuple(AXES))


@pytest.mark.one_of(4)
@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("row", FORMS, ids=lambda row: row.name)
def test_splits_do_not_change_results(row: Row, how: str) -> None:
    splits = 0
    with testing.runtime(host_devices=6, **WAYS[how]):
        for case in cases(row):
            case.check(mesh())
            splits += any(axes for spec in case.specs for axes in spec)
    assert splits


@pytest.mark.one_of(3)
@pytest.mark.parametrize("row", SAMPLE, ids=lambda row: row.name)
def test_splits_do_not_change_results_in_odd_orders(row: Row) -> None:
    for seed, case in enumerate(cases(row)):
        if seed % 3 == 0:
            domains = (1, 3, 6)[seed % 9 // 3]
            with late_devices(seed, host_devices=6, host_domains=domains):
                case.check(mesh())


def made_everywhere(row: Row, forms: Any = None) -> None:
    """Make what a row without operands gives, with every dim split in every way."""
    for letters, dtype, numbers in forms or MADE[row]:
        kernel = row.kernel(np, (), (None, np.dtype(dtype)))
        for dim, length in itertools.product(range(len(letters)), (6, 5, 4)):
            shape = tuple(length if n == dim else 3 for n in range(len(letters)))
            want = np.asarray(kernel(Site((), (0,) * len(shape), shape), *numbers))
            spec = gs.P(*("a" if n == dim else None for n in range(len(letters))))
            sharding = gs.NamedSharding(mesh(), spec)
            buffer = create(row, sharding.tiling(shape), np.dtype(dtype), numbers)
            made = gs.Array(buffer, sharding)
            np.testing.assert_array_equal(np.asarray(made), want)
            for shard in made.addressable_shards:
                np.testing.assert_array_equal(np.asarray(shard.data), want[shard.index])


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("row", MADE, ids=lambda row: row.name)
def test_what_is_made_of_numbers_does_not_depend_on_splits(row: Row, how: str) -> None:
    with testing.runtime(host_devices=6, **WAYS[how]):
        made_everywhere(row)


@pytest.mark.parametrize("row", MADE, ids=lambda row: row.name)
def test_what_is_made_of_numbers_does_not_depend_on_the_order(row: Row) -> None:
    for seed in range(6):
        domains = (1, 3, 6)[seed % 3]
        with late_devices(seed, host_devices=6, host_domains=domains):
            made_everywhere(row)


@pytest.mark.parametrize("row", [r for r in MADE if r.name != "full"], ids=lambda row: row.name)
def test_a_block_that_does_not_know_where_it_is_is_caught(row: Row) -> None:
    def lost(xp: Any, avals: Any, params: Any) -> Any:
        kernel = row.kernel(xp, avals, params)

        def at_the_start(site: Site, *numbers: Any, **out: Any) -> Any:
            return kernel(dataclasses.replace(site, result=(0,) * len(site.shape)), *numbers, **out)

        return at_the_start

    with testing.runtime(host_devices=6), pytest.raises(AssertionError):
        made_everywhere(_broken(row, kernel=lost), MADE[row])


def _broken(row: Row, **changes: Any) -> Row:
    return dataclasses.replace(row, **changes)


def _is_caught(row: Row, original: Row, **settings: int) -> bool:
    """Whether some case of the original shows, on the host, that a row is wrong."""
    with testing.runtime(backend="host", host_devices=6, **settings):
        for case in cases(original):
            expected = case.expected()
            try:
                made = dataclasses.replace(case, row=row).run(mesh())
                for want, got in zip(expected, made, strict=True):
                    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-9, atol=1e-9)
            except Exception:
                return True
    return False


OWNED = [row for row in FORMS if isinstance(row.strategies[0], FromOwners)]
MERGING = [row for row in FORMS if reduce_of(row) and row is not contractions.OUTER]


@pytest.mark.one_of(6)
@pytest.mark.parametrize("row", MERGING, ids=lambda row: row.name)
def test_a_wrong_merge_is_caught(row: Row) -> None:
    reduce = reduce_of(row)
    assert reduce is not None

    def forgets(xp: Any, avals: Any, params: Any) -> Any:
        return lambda a, b, m, n: a

    broken = dataclasses.replace(reduce, merge=forgets), row.strategies[-1]
    domains = 3 if row in OWNED else 1  # within one, nothing is merged
    assert not _is_caught(_broken(row), row, host_domains=domains)
    assert _is_caught(_broken(row, strategies=broken), row, host_domains=domains)


@pytest.mark.parametrize("row", OWNED, ids=lambda row: row.name)
def test_a_call_that_leaves_out_an_owner_is_caught(row: Row) -> None:
    owners = row.strategies[0]
    assert isinstance(owners, FromOwners)

    def forgets(xp: Any, avals: Any, params: Any) -> Any:
        kernel = owners.kernel(xp, avals, params)

        def without_the_last(owners: Any, *arrays: Any, **out: Any) -> Any:
            last = math.prod(owners.counts) - 1
            zeros = np.zeros_like(arrays[last])
            return kernel(owners, *arrays[:last], zeros, *arrays[last + 1 :], **out)

        return without_the_last

    broken = tuple(dataclasses.replace(strategy, kernel=forgets) for strategy in row.strategies)
    assert _is_caught(
        _broken(row, strategies=broken), row, small_bytes=0
    )  # or they are moved first


def avals_of(case: Case) -> list[Aval]:
    arrays = (*case.arrays, *map(np.asarray, case.form.scalars))
    return [Aval(a.shape, a.dtype) for a in arrays]


def rules_of(row: Row) -> Iterator[Rule]:
    """Yield the rules of a row's cases, if it does more than move data."""
    for case in () if moves(row) else cases(row):
        yield row.rule_for(avals_of(case), case.params)


def _free(rule: Rule) -> bool:
    """Whether some dim of an operand may be split, so that it matters what factors are called."""
    return any(factor not in rule.whole for dims in rule.operands for factor in dims)


def _splits_whole(case: Case) -> bool:
    """Whether a dim is split that must be whole, and that nothing else keeps from being split."""
    rule = case.row.rule_for(avals_of(case), case.params)
    free = rule.whole if reduce_of(case.row) else rule.whole.difference(rule.reduced)
    return any(
        axis is not None and factor in free
        for spec, dims in zip(case.specs, rule.operands, strict=False)
        for axis, factor in zip(spec, dims, strict=False)
    )


COMPUTING = [row for row in FORMS if any(map(_free, rules_of(row)))]
WHOLE = [row for row in FORMS if not moves(row) and any(map(_splits_whole, cases(row)))]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("row", COMPUTING, ids=lambda row: row.name)
def test_wrong_factors_are_caught(row: Row) -> None:
    def wrong(avals: Any, params: Any) -> Rule:
        rule = row.rule_for(avals, params)
        operands = [tuple(reversed(dims)) if len(dims) > 1 else dims for dims in rule.operands[:1]]
        operands += rule.operands[1:]
        results = rule.results
        if len(rule.operands[0]) < 2:  # nothing to reverse: what is summed is said to be kept
            results = tuple((0,) * len(dims) for dims in results)
        sizes = [1] * len(rule.sizes)
        for dims, aval in zip(operands, avals, strict=True):
            for factor, n in zip(dims, aval.shape, strict=True):
                if factor is not None:
                    sizes[factor] = max(n, sizes[factor])
        return Rule(tuple(operands), results, tuple(sizes), rule.whole)

    assert _is_caught(_broken(row, rule=wrong), row)


@pytest.mark.parametrize("row", WHOLE, ids=lambda row: row.name)
def test_a_factor_that_is_split_though_it_must_be_whole_is_caught(row: Row) -> None:
    def free(avals: Any, params: Any) -> Rule:
        return dataclasses.replace(row.rule_for(avals, params), whole=frozenset())

    assert _is_caught(_broken(row, rule=free), row)


FACTORED = [row for row in FORMS if not isinstance(row.strategies[0], Move)]
"""Rows whose rules decide; where elements of the others come from says more than factors."""


@pytest.mark.parametrize("row", FACTORED, ids=lambda row: row.name)
def test_factors_are_as_long_as_the_dims_that_have_them(row: Row) -> None:
    def pairs(factors: Any, avals: Any) -> Iterator[tuple[int, int]]:
        for own, aval in zip(factors, avals, strict=True):
            for factor, n in zip(own, aval.shape, strict=True):
                assert factor is not None or n == 1
                if factor is not None:
                    yield factor, n

    for case in cases(row):
        avals = avals_of(case)
        rule = row.rule_for(avals, case.params)
        given = dict(pairs(rule.operands, avals))
        assert all(rule.sizes[factor] == n for factor, n in pairs(rule.operands, avals))
        for factor, n in pairs(rule.results, row.infer(avals, case.params)):
            whole = factor in rule.whole
            known = rule.sizes[factor] in ((n, 1) if whole else (n,))  # 1 where it does not matter
            assert known or (factor in given and whole)
            assert factor in given or whole or row.positional  # which knows what it makes
        assert rule.whole.issubset(range(len(rule.sizes)))


def test_columns_of_right_sides_need_not_be_whole() -> None:
    matrices, right = Aval((2, 4, 4), np.dtype("d")), Aval((2, 4, 8), np.dtype("d"))
    rule = linalg.SOLVE.rule_for([matrices, right], ())
    columns = rule.operands[1][-1]
    assert rule.results == ((*rule.operands[0][:1], rule.results[0][1], columns),)
    assert columns not in rule.whole and rule.whole.issuperset(rule.operands[0][1:])


def test_dims_in_which_windows_do_nothing_need_not_be_whole() -> None:
    window, strides = (2, 1, 1, 1, 1, 1), (1, 2, 1, 1, 1, 1)
    pads, base = ((0, 0), (0, 0), (1, 0), (0, 1), (0, 0), (0, 0)), (1, 1, 1, 1, 2, 1)
    avals = [Aval((8,) * 6, np.dtype("d")), Aval((), np.dtype("d"))]
    rule = REDUCE_WINDOW.rule_for(avals, ("add", window, strides, pads, base, (1,) * 6))
    assert rule.whole == frozenset(range(5))


def test_dims_that_an_update_replaces_as_a_whole_pass_through() -> None:
    form, starts = open_index(((0, 1, 8), (1, 1, 2)), (8, 4))
    double, whole = np.dtype("float64"), np.dtype("int64")
    values = [Aval((8, 4), double), Aval((1, 2), double), *(Aval((), whole) for _ in starts)]
    rule = UPDATE.rule_for(values, (form,))
    assert rule == Rule(((0, 1), (None, 1), ()), ((0, 1),), (8, 4), frozenset({1}))
    form, starts = open_index((2, None, (0, 1, 4)), (8, 4))
    values[1:] = [Aval((1, 4), double), *(Aval((), whole) for _ in starts)]
    rule = UPDATE.rule_for(values, (form,))
    assert rule.operands[:2] == ((0, 1), (None, 1)) and rule.whole == frozenset({0})
