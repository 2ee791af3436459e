"""Random expressions, as many as a test run has time for; `python -m tests.ops.expressions` has all."""

from __future__ import annotations

import pytest

from tests.ops import expressions

COUNT = 5000
PARTS = 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_expressions_are_as_numpy_has_them(part: int) -> None:
    each = COUNT // PARTS
    assert expressions.run(part * each, each) >= each
