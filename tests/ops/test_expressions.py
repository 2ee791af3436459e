"""Random expressions; `python -m tests.ops.expressions` runs as many as one likes."""

from __future__ import annotations

import pytest

from tests.ops import expressions
from tests.share import some

COUNT = some(300, 5000)
PARTS = 10


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("part", range(PARTS))
def test_expressions_are_as_numpy_has_them(part: int) -> None:
    each = COUNT // PARTS
    assert expressions.run(part * each, each) >= each
