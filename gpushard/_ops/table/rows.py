"""All rows in one list: `python -m gpushard._ops.table.rows` prints it."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import numpy as np

from gpushard._ops import table
from gpushard._ops.row import Row
from gpushard._ops.table.elementwise import ufunc_row


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
"""All rows by section of the table and name; rows of ufuncs by the ufunc's name."""


def why_whole(row: Row) -> str:
    """Return the reason why a row needs split dims whole, in a line; empty if it does not.

    >>> why_whole(ROWS["cumulative.CUMSUM"])
    'each element needs all before it'
    """
    return row.strategies[-1].whole


def how_mapped(row: Row) -> str:
    """Describe how a row runs for all elements of named dims, as in `vmap`.

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
    """Yield a line for each row: place, name, rule, strategies, how it is mapped.

    The last entry is the reason why the row needs split dims whole, if it does.
    """
    for at, row in sorted(ROWS.items()):
        rule = getattr(row.rule, "func", row.rule)
        text = rule if isinstance(rule, str) else rule.__qualname__.partition(".")[0]
        ways = ", ".join(dict.fromkeys(type(strategy).__name__ for strategy in row.strategies))

        why = "; ".join(filter(None, (how_mapped(row), why_whole(row))))
        yield f"{at:37} {row.name:26} {text:17} {ways:14} {why}"


if __name__ == "__main__":
    print(*lines(), sep="\n")
