"""Forms of special functions, and of some that are SciPy's ufuncs."""

from __future__ import annotations

from gpushard._ops.row import Row
from gpushard._ops.table import special
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._runtime.namespace import special_ufunc
from tests.ops.forms.form import Form

FORMS: dict[Row, list[Form]] = {
    special.ZETA: [Form(("ij", "j"), (), "d", suit=lambda x: abs(x) + 1.5)],
    special.LOGSUMEXP: [
        Form(("ij",), ((-2,), False, False)),
        Form(("ij",), ((-2, -1), True, False), "D"),
        Form(("ij", "ij"), ((-1,), False, True)),
    ],
    ufunc_row(special_ufunc("erf")): [Form(("ij",), (), "D")],
    ufunc_row(special_ufunc("betainc")): [
        Form(("ij", "j", "ij"), suit=lambda x: 0.5 + 0.4 * (abs(x) % 1))
    ],
}
