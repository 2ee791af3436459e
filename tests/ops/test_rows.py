"""All rows are in one list, which says of each why it needs dims whole, if it does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpushard._ops.aval import Aval
from gpushard._ops.row import Row
from gpushard._ops.table import creation
from gpushard._ops.table.rows import ROWS, lines, why_whole
from tests.ops.cases import FORMS, MADE
from tests.ops.test_rules import rules_of

WHOLE = Path(__file__).with_name("whole.txt")


def test_every_row_has_cases() -> None:
    assert [name for name, row in ROWS.items() if row not in FORMS and row not in MADE] == []


def test_the_rows_that_need_dims_whole_are_these_and_no_more() -> None:
    """To the list nothing is added without need: a distributed algorithm takes rows off it."""
    reasons = [f"{name}: {why_whole(row)}" for name, row in sorted(ROWS.items()) if why_whole(row)]
    assert reasons == WHOLE.read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("row", [row for row in FORMS if row in set(ROWS.values())], ids=str)
def test_a_row_says_why_if_and_only_if_a_dim_of_an_operand_must_be_whole(row: Row) -> None:
    needs = any(rule.whole.intersection(dims) for rule in rules_of(row) for dims in rule.operands)
    assert needs == bool(why_whole(row))


def test_the_list_says_how_a_row_runs() -> None:
    (text,) = [line for line in lines() if line.startswith("sorting.SORT ")]
    assert text.split()[:4] == ["sorting.SORT", "sort", "_rule", "Local"]


@pytest.mark.parametrize("row", [creation.FULL, creation.ARANGE, creation.LINSPACE, creation.EYE])
def test_what_is_created_has_the_shape_and_type_that_parameters_say(row: Row) -> None:
    shape, dtype = (2, 3), np.dtype(np.float32)
    assert row.infer((), (shape, dtype)) == (Aval(shape, dtype),)
