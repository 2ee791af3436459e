"""Random programs of what users write: traced they give what NumPy gives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.share import some
from tests.transforms import everyday


@pytest.fixture(scope="module", autouse=True)
def quickly() -> Iterator[None]:
    with everyday.quick_compiler():
        yield


@pytest.mark.parametrize("first", range(0, some(80, 2000), 40))
def test_programs_of_users(first: int) -> None:
    """`python -m tests.transforms.everyday` runs as many as it is asked for."""
    for seed in range(first, first + 40):
        everyday.check(seed, ("cc", "")[seed // 2 % 2])
