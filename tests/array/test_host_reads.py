"""There is one way to a value on the host."""

from __future__ import annotations

import ast
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._array.array import ConcreteArray
from gpushard._functions.host_reads import concrete
from gpushard.errors import ArgumentTypeError
from tests.right_calls import right

PACKAGE = Path(gs.__file__).parent

READERS = {
    "_array/host_value.py": "what `concrete` does",
    "_array/text.py": "reads the edges of what is printed",
    "_ops/ragged_selection.py": "counts, of an operation's own buffers",
    "_transforms/tracing/executable.py": "conditions and counts: what control flow runs next",
}
"""Files above `movement` that read buffers, and why."""

PROTOCOLS = (
    "__array__",
    "__bool__",
    "__int__",
    "__float__",
    "__complex__",
    "__index__",
    "__buffer__",
    "item",
    "tolist",
    "tobytes",
)
"""What programs convert arrays by."""


ASKING = {
    ("gpushard._functions.argument_checks", "__index__"): "an argument that has to be an integer",
    ("gpushard._functions.shapes", "__index__"): "a size that has to be an integer",
    ("gpushard._array.conversions", "tobytes"): "what `bytes(x)` is",
}
"""Who asks as programs do, and why."""


def test_buffers_are_read_in_few_places() -> None:
    readers = set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if name.startswith(("_movement/", "testing/")):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Name) and node.id in ("read_host", "start_read"):
                readers.add(name)
    assert readers == READERS.keys()


def test_functions_read_values_by_no_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    ways = set()

    def noting(name: str) -> Any:
        original = getattr(ConcreteArray, name)

        def note(self: gs.Array, *args: Any, **named: Any) -> Any:
            caller = sys._getframe(1).f_globals["__name__"]
            if caller.startswith("gpushard.") and (caller, name) not in ASKING:
                ways.add((caller, name))
            return original(self, *args, **named)

        return note

    for name in PROTOCOLS:
        monkeypatch.setattr(ConcreteArray, name, noting(name), raising=True)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for function, (args, named), _ in right().values():
            function(*args, **named)
    assert ways == set()


class Unknown(gs.Array):
    """What an interpreter made."""

    __slots__ = ()


def test_what_has_no_data_says_so() -> None:
    x = object.__new__(Unknown)
    assert isinstance(x, gs.Array) and isinstance(gs.random.key(0), gs.Array)
    assert isinstance(gs.Array(gs.numpy.ones(2)._live(), gs.numpy.ones(2).sharding), ConcreteArray)
    for read in (
        lambda: concrete(x, "repeat"),
        lambda: bool(x),
        lambda: int(x),
        lambda: np.asarray(x),
        lambda: x.item(),
        lambda: x.sharding,
        lambda: x.committed,
        lambda: x.addressable_shards,
        lambda: x.devices(),
        lambda: x.block_until_ready(),
        lambda: gs.device_get(x),
        lambda: x.to_device(gs.devices()[0]),
        lambda: x.__setitem__(0, 1),
        lambda: x.delete(),
    ):
        with pytest.raises(ArgumentTypeError, match="Unknown"):
            read()
