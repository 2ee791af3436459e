"""All rows in one list: `python -m gpushard.ops.table.rows` prints it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np

from gpushard.ops import table
from gpushard.ops.row import Row
from gpushard.ops.table.elementwise import ufunc_row


def _rows() -> Iterator[tuple[str, Row]]:
    for section in pkgutil.iter_modules(table.__path__):
        if section.name != "rows":
            names = vars(importlib.import_module(f"{table.__name__}.{section.name}"))
            rows = ((name, row) for name, row in names.items() if isinstance(row, Row))
            yield from ((f"{section.name}.{name}", row) for name, row in rows)
    for ufunc in vars(np).values():
        if isinstance(ufunc, np.ufunc) and ufunc.signature is None and ufunc.__name__ != "isnat":
            yield f"elementwise.{ufunc.__name__}", ufunc_row(ufunc)


ROWS: dict[str, Row] = dict(_rows())
"""By section of the table and name there; those of NumPy's ufuncs by theirs."""


def why_whole(row: Row) -> str:
    """Return why dims of a row's operands that are split come whole, in a line; empty if none do.

    >>> why_whole(ROWS["cumulative.CUMSUM"])
    'each element needs all before it'
    """
    return row.strategies[-1].whole


def how_mapped(row: Row) -> str:
    """Return how a row is done for all elements of dims that `vmap` and others name.

    >>> how_mapped(ROWS["searching.SEARCHSORTED"])
    'at once, or one by one: NumPy looks up in one vector'
    """
    if row.creates:
        return "never"
    if row.strategies[0].complete:
        return "moved at once"
    one_by_one = f"one by one: {row.each}"
    if row.stacked is None:
        return one_by_one
    return f"at once, or {one_by_one}" if row.each else "at once"


def lines() -> Iterator[str]:
    """Yield where each row stands, its name, rule, strategies, how it is mapped, why it is whole.

    What is said last is why it needs dims whole that are split, if it does.
    """
    for at, row in sorted(ROWS.items()):
        rule = getattr(row.rule, "func", row.rule)
        text = rule if isinstance(rule, str) else rule.__qualname__.partition(".")[0]
        ways = ", ".join(dict.fromkeys(type(strategy).__name__ for strategy in row.strategies))

        why = "; ".join(filter(None, (how_mapped(row), why_whole(row))))
        yield f"{at:37} {row.name:26} {text:17} {ways:14} {why}"


if __name__ == "__main__":
    print(*lines(), sep="\n")
