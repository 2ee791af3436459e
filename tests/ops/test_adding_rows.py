"""The examples of CONTRIBUTING are all that it takes to add an operation."""

from __future__ import annotations

import importlib
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing

PAGE = (Path(gs.__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Adding an operation\n")[2].partition("\n## ")[0]
EXAMPLES = re.findall(r"^\*\*(.+?)\.\*\*(.*?)(?=^\*\*|^A row)", SECTION, re.MULTILINE | re.DOTALL)

WANTED: dict[str, tuple[int, Any, list[dict[str, Any]]]] = {
    "ulp": (1, np.spacing, [{}]),
    "span": (2, np.ptp, [{}, {"axis": 0}, {"axis": -1, "keepdims": True}]),
    "swap_halves": (2, lambda x, axis=-1: np.roll(x, x.shape[axis] // 2, axis), [{}, {"axis": 0}]),
}
"""Of each example: in how many places it is written, the same on one array, and arguments."""


def _add(text: str, monkeypatch: pytest.MonkeyPatch) -> tuple[int, str, Any]:
    """Add what blocks of code define where they say; return how many they are, and the last."""
    name, value = "", None
    blocks = re.findall(r"```python\n# (\S+)\n(.*?)```", text, re.DOTALL)
    for path, code in blocks:
        module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
        names = dict(vars(module))
        exec(compile(code, path, "exec"), names)
        for name, value in names.items():
            if name not in vars(module):
                monkeypatch.setattr(module, name, value, raising=False)
    return len(blocks), name, value


@pytest.mark.parametrize(("title", "text"), EXAMPLES, ids=[title for title, _ in EXAMPLES])
def test_an_example_gives_what_numpy_does(
    title: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, name, function = _add(text, monkeypatch)
    wanted, oracle, ways = WANTED[name]
    assert places == wanted and f"in {('one', 'two')[places - 1]}" in title
    value = np.arange(35.0).reshape(5, 7) ** 2 % 11 - 4
    for domains, spec in itertools.product((1, 6), (("a",), (None, "a"), ("a", "b"), ())):
        with testing.runtime(host_devices=6, host_domains=domains):
            mesh = gs.make_mesh((3, 2), ("a", "b"))
            x = gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec)))
            for arguments in ways:
                made = function(x, **arguments)
                np.testing.assert_array_equal(np.asarray(made), oracle(value, **arguments))


def test_there_are_three_examples() -> None:
    assert len(EXAMPLES) == len(WANTED) == 3
