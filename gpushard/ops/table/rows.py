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


def lines() -> Iterator[str]:
    """Yield where each row stands, its name, rule and strategies, and why it needs dims whole."""
    for at, row in sorted(ROWS.items()):
        rule = getattr(row.rule, "func", row.rule)
        text = rule if isinstance(rule, str) else rule.__qualname__.partition(".")[0]
        ways = ", ".join(dict.fromkeys(type(strategy).__name__ for strategy in row.strategies))
        yield f"{at:37} {row.name:26} {text:17} {ways:14} {why_whole(row)}".rstrip()


if __name__ == "__main__":
    print(*lines(), sep="\n")
