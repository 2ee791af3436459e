"""Random programs of what users write: traced they give what NumPy gives."""

from __future__ import annotations

import pytest

from tests.share import some
from tests.transforms.jit import everyday


@pytest.mark.parametrize("first", range(0, some(24, 2000), 24))
def test_programs_of_users(first: int) -> None:
    """`python -m tests.transforms.jit.everyday` runs as many as it is asked for."""
    assert not everyday.failures(range(first, first + 24))
