"""Forms of the rows of what slides: reductions of windows, convolutions."""

from __future__ import annotations

from gpushard._ops.row import Row
from gpushard._ops.table import windows
from tests.ops.forms.form import Form

FORMS: dict[Row, list[Form]] = {
    windows.REDUCE_WINDOW: [
        Form(("ij", ""), ("add", (1, 2), (1, 1), ((0, 0), (1, 0)), (1, 1), (1, 1))),
        Form(("ij", ""), ("maximum", (2, 1), (2, 1), ((-1, 2), (0, 0)), (2, 1), (1, 1)), "b"),
    ],
    windows.CONVOLUTION: [
        Form(("ngci", "g2c2"), ((1,), ((1, 0),), (1,), (1,))),
        Form(("n1ci", "1oc2"), ((2,), ((-1, 2),), (2,), (2,)), "f"),
        Form(("11c4", "11c4"), ((1,), ((0, 0),), (1,), (1,))),  # features are worth merging
    ],
}
