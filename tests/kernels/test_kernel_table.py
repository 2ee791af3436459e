"""Generated kernels are no worse for a GPU than the table in kernels/README.md says."""

from __future__ import annotations

import dataclasses

import pytest

from bench import kernel_table

MISSING = kernel_table.missing()

pytestmark = pytest.mark.skipif(MISSING is not None, reason=f"needs {MISSING}")


@pytest.fixture(scope="module")
def cases() -> dict[str, kernel_table.Case]:
    """Return the kernels by their names."""
    return {case.name: case for case in kernel_table.cases()}


def test_the_table_has_all_kernels(cases: dict[str, kernel_table.Case]) -> None:
    assert list(kernel_table.estimates()) == list(cases)


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", kernel_table.estimates())
def test_a_kernel_is_no_worse_than_the_table_says(
    name: str, cases: dict[str, kernel_table.Case]
) -> None:
    row = kernel_table.judged(cases[name])
    assert 100 * row.share > kernel_table.estimates()[name] - 1, row


def test_rows_that_threads_keep_are_in_registers(cases: dict[str, kernel_table.Case]) -> None:
    """An index that is no constant would put them in local memory."""
    kept = [case for case in cases.values() if case.unrolled or case.shares]
    assert len(kept) == 4 + 3
    for case in kept:
        names = {one.name.split(".")[0] for one in kernel_table.compiled(case)[1]}
        assert names >= {"LDG", "STG"} and not names & {"LDL", "STL"}, case.name


def test_the_longest_way_has_all_that_is_marked_and_nothing_closed() -> None:
    after = [[1, 4], [2, 3], [3], [4, 1], [5, 6], [7], [7], []]  # 3 leads back to 1
    assert kernel_table._longest(after, set(), set()) == [0, 1, 2, 3, 4, 5, 7]
    assert kernel_table._longest(after, {6}, set()) == [0, 1, 2, 3, 4, 6, 7]
    assert kernel_table._longest(after, set(), {1}) == [0, 4, 5, 7]
    with pytest.raises(kernel_table.NoWayError):
        kernel_table._longest(after, set(), {4})


def test_more_instructions_make_it_worse(cases: dict[str, kernel_table.Case]) -> None:
    case = cases["elementwise float32"]
    slow = case.text.replace("in0 + in1", "in0 + in1 / in0")
    assert slow != case.text
    kept = kernel_table.judged(case)
    worse = kernel_table.judged(dataclasses.replace(case, text=slow))
    assert worse.instructions > kept.instructions and worse.shares["issue"] < kept.shares["issue"]
