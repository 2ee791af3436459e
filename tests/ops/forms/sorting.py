"""Forms of the rows that sort, search and tell the different elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.row import Row
from gpushard._ops.table import searching, sets, sorting
from gpushard._ops.table.sets import COUNTS, INDICES, INVERSE, Wish
from tests.ops.forms.form import Form


def _sorted(x1: Any, x2: Any) -> tuple[Any, ...]:
    return np.sort(x1), x2


def _with_sorter(x1: Any, x2: Any, _: Any) -> tuple[Any, ...]:
    return x1, x2, np.argsort(x1)


_ORDERS = [
    Form(("ij",), (-1, False, True)),
    Form(("ij",), (-2, True, True), "B"),
    Form(("kij",), (-2, True, False), "D"),
    Form(("i",), (-1, False, True), "b"),
]
_PARTITIONS = [  # at all places, without ties: the only ones that all backends do alike
    Form(("ij",), lambda shapes: (-2, tuple(range(shapes[0][-2])))),
    Form(("i",), lambda shapes: (-1, tuple(range(shapes[0][-1])))),
]
_ALL = (INDICES, INVERSE, COUNTS)

FORMS: dict[Row, list[Form]] = {
    sorting.SORT: _ORDERS,
    sorting.ARGSORT: _ORDERS,
    sorting.PARTITION: _PARTITIONS,
    sorting.ARGPARTITION: _PARTITIONS,
    sorting.LEXSORT: [
        Form(("ij", "ij"), (-2,), "db"),
        Form(("i", "i", "i"), (-1,), "b"),
    ],
    sorting.TOPK: [
        Form(("ij",), (-1, 2, True)),
        Form(("ij",), (-2, 3, False), "b"),
        Form(("i",), (-1, 3, True), "?"),
    ],
    searching.SEARCHSORTED: [
        Form(("i", "jk"), ("left",), "b", prepare=_sorted),
        Form(("i", "1"), ("right",), "?d", prepare=_sorted),
        Form(("i", "1"), ("left",), prepare=_sorted),
        Form(("i", "j", "i"), ("right",), "b", prepare=_with_sorter),
    ],
    searching.ISIN: [
        Form(("ij", "k"), (False,), "b"),
        Form(("5", "k"), (True,), "bh"),
    ],
    sets.UNIQUE: [
        Form(("i",), (Wish(_ALL),), "b"),
        Form(("i",), (Wish(_ALL, equal_nan=False, size=3),), "d"),
        Form(("i",), (Wish((INVERSE,), size=7, filled=True),), "?", (1,)),
        Form(("i", "i"), (Wish((INDICES,), masked=True),), "b?"),
        Form(("i", "i"), (Wish(distinct=True, masked=True, size=4),), "d?"),
        Form(("ij",), (Wish(_ALL, equal_nan=False),), "?"),
    ],
}
