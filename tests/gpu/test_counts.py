"""No row launches more, and none waits, than the table says: see `counts`."""

from __future__ import annotations

import pytest

from tests.gpu.counts import Counts, measure, named_rows, read_table, software_gpu
from tests.gpu.device import FOUND

pytestmark = pytest.mark.skipif(
    not FOUND.usable or software_gpu() is None, reason="only the software GPU counts launches"
)

ROWS = named_rows()


@pytest.mark.parametrize("name", sorted(read_table()))
def test_a_row_costs_no_more_than_the_table_says(name: str) -> None:
    most, found = read_table()[name], measure(ROWS[name])
    assert isinstance(found, Counts)
    assert found.launches <= most.launches and found.waits <= most.waits, (found, most)
