"""No row launches more, and none waits, than the table says: see `counts`."""

from __future__ import annotations

import os

import pytest

from tests.gpu.counts import REASONS, Counts, measure, most, named_rows, read_table
from tests.softgpu.run import ACTIVE

ROWS = named_rows()


def test_rows_that_launch_much_have_a_reason_and_none_waits() -> None:
    table = read_table()
    above = {name for name, found in table.items() if found.launches > most(ROWS[name])}
    assert above <= REASONS.keys() <= ROWS.keys()
    assert not any(found.waits for found in table.values())


@pytest.mark.skipif(ACTIVE not in os.environ, reason="only the software GPU counts")
@pytest.mark.parametrize("name", sorted(read_table()))
def test_a_row_costs_no_more_than_the_table_says(name: str) -> None:
    entry, found = read_table()[name], measure(ROWS[name])
    assert isinstance(found, Counts)
    assert found.launches <= entry.launches and found.waits <= entry.waits, (found, entry)
