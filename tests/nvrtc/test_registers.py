"""Kernels take the registers that the table says, and none spills without a reason."""

from __future__ import annotations

import pytest

from tests.nvrtc.registers import Use, differences, of_texts, read_table, texts
from tests.nvrtc.toolkits import is_made

SPILLS: dict[str, str] = {}
"""Why kernels spill."""


def test_kernels_that_spill_have_a_reason() -> None:
    assert {name for name, use in read_table().items() if use.spilled} == SPILLS.keys()


def test_all_kinds_of_kernels_are_in_the_table() -> None:
    table = read_table()
    assert {name for name, _ in texts()} == {n for n in table if not n.startswith("CuPy's loops")}
    assert sum(name.startswith("CuPy's loops") for name in table) > 40


def test_what_is_not_as_the_table_says_is_found() -> None:
    one, other = Use(32, 0, 0), Use(33, 8, 0)
    assert not [*differences({"f": one}, {"f": one, "g": other})]
    assert len([*differences({"f": other, "h": one}, {"f": one})]) == 2


@pytest.mark.skipif(not is_made("13.0"), reason="`python -m tests.nvrtc.toolkits` brings NVRTC")
@pytest.mark.one_of(20)
@pytest.mark.parametrize("name", [name for name, _ in texts()])
def test_a_kernel_uses_what_the_table_says(name: str) -> None:
    """After a change that is meant, `python -m tests.nvrtc.registers --write` writes the table."""
    found = of_texts({name: dict(texts())[name]}, 1)
    assert not [*differences(found, read_table())]
