"""Norms against NumPy's, within 400 eps of the greatest value."""

from typing import Any

import numpy as np
import pytest

from tests.numpy.matrices import ONE_RUNTIME, agree, numbers

pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

VECTOR_ORDS = [2, 1, 0, 3, -1, 0.5, np.inf, -np.inf, "fro", None, "x"]
MATRIX_ORDS = ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf, 3, 0, "x"]


@pytest.mark.parametrize("ord", VECTOR_ORDS)
def test_vector_norms(ord: Any) -> None:
    for dtype in "lfD":
        data = numbers((5, 3, 4), dtype)
        for axis in (None, 0, -1, (0, 2)):
            agree(
                lambda m, x: m.vector_norm(x, axis=axis, ord=ord, keepdims=True),  # noqa: B023
                data,
            ) if ord is not None and not isinstance(ord, str) else None
            agree(lambda m, x: m.norm(x, ord, axis), data)  # noqa: B023
        agree(lambda m, x: m.norm(x, ord), data[0, 0])
        agree(lambda m, x: m.norm(x, ord, 0), data[:0])
        if ord == np.inf:
            agree(lambda m, x: m.vector_norm(x, ord=ord), data[0, :0])


@pytest.mark.parametrize("ord", MATRIX_ORDS)
def test_matrix_norms(ord: Any) -> None:
    for dtype in "lfD":
        data = numbers((3, 5, 4), dtype)
        agree(lambda m, x: m.matrix_norm(x, ord=ord), data)
        agree(lambda m, x: m.matrix_norm(x, ord=ord, keepdims=True), data[0], specs=[("x", "y")])
        for axis in ((0, 2), (-1, 0)):
            agree(lambda m, x: m.norm(x, ord, axis, keepdims=True), data)  # noqa: B023
            agree(lambda m, x: m.norm(x, ord, axis), data)  # noqa: B023
        agree(lambda m, x: m.norm(x, ord), data[0])
    agree(lambda m, x: m.norm(x, ord), data[0, :0])
    agree(lambda m, x: m.norm(x, ord), data[0, :, :0])


def test_norms_of_all_dims() -> None:
    data = numbers((3, 4, 2))
    agree(lambda m, x: m.norm(x), data)
    agree(lambda m, x: m.norm(x, keepdims=True), data)
    agree(lambda m, x: m.norm(x, 2), data)
    agree(lambda m, x: m.norm(x, axis=(0, 1, 2)), data)
    agree(lambda m, x: m.norm(x), data[0, 0, 0])
