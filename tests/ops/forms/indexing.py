"""Forms of the rows of indexing: reading and writing by index arrays, positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.basic_index import open_index, parse_index
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.row import Row
from gpushard._ops.table import furthest, gather, nonzero, scatter
from tests.ops.forms.form import Form


def _index(*entries: Any) -> Any:
    return lambda shapes: (open_index(parse_index(shapes[0], entries), shapes[0])[0],)


_FIRST = Indexed((-2,), 1)
_BOTH = Indexed((-2, -1), 0)
_PAIRED = Indexed((-1,), 0, ((-2, -2),))
_FILL = np.float64(-7.5).tobytes()

FORMS: dict[Row, list[Form]] = {
    gather.GATHER: [
        Form(("ij", "k"), (_FIRST, _FILL), "dl"),
        Form(("ij", "k"), (Indexed((-1,), 1), b""), "?h"),
        Form(("ij", "k", "lk"), (_BOTH, b""), "Dlb"),
        Form(("ij", "ik"), (_PAIRED, _FILL), "dl"),
        Form(("1j", "ik"), (_PAIRED, b""), "dl"),
    ],
    scatter.SCATTER: [
        Form(("ij", "kj", "k"), (_FIRST, None), "ddl"),
        Form(("ij", "j", "k"), (_FIRST, np.add), "bbi"),
        Form(("ij", "ik", "ik"), (_PAIRED, np.multiply), "ddl"),
        Form(("ij", "lk", "k", "lk"), (_BOTH, np.subtract), "ddll"),
        Form(("ij", "i1", "ik"), (_PAIRED, None), "ddl"),
    ],
    scatter.UPDATE: [
        Form(("ij", "j"), _index(1), "d", (1,)),
        Form(("ij", "11"), _index(slice(2, None, -2), slice(1, None)), "l", (2, 1)),
        Form(("ij",), _index(slice(1, 3), None), "d", (2.5, 1)),
        Form(("ij", "ij"), _index(), "b"),
    ],
    nonzero.NONZERO: [
        Form(("ij",), (7, (-1, -2)), "?", density=0.3),
        Form(("i",), lambda shapes: (shapes[0][0], (0,)), "?"),
    ],
    furthest.FURTHEST: [
        Form(("ij",), ((-1,), False), "l"),
        Form(("ij",), ((-2, -1), True), "Q"),
        Form(("ij",), ((-2,), False), "b"),
    ],
}
