"""Rows of ufuncs on backends that lack some of them."""

import types

import numpy as np
import pytest

from gpushard.errors import ArgumentTypeError
from gpushard.ops.aval import Aval
from gpushard.ops.table.elementwise import ufunc_row


def test_a_ufunc_that_a_backend_lacks_is_named() -> None:
    xp = types.ModuleType("cupy")
    xp.sin = np.sin  # type: ignore[attr-defined]
    operand = [Aval((3,), np.dtype("d"))]
    assert ufunc_row(np.sin).kernel(xp, operand, ()) is np.sin
    with pytest.raises(ArgumentTypeError, match="spacing is not available"):
        ufunc_row(np.spacing).kernel(xp, operand, ())
