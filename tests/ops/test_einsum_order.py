"""Products of two operands: any order of dims, as one call of `matmul` where BLAS can do it."""

from __future__ import annotations

import itertools
from typing import Any
from unittest import mock

import numpy as np
import pytest

from gpushard._ops.aval import Aval
from gpushard._ops.table import contractions

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1}


def subscripts(letters: str) -> list[tuple[str, str, str]]:
    """List all products of operands that have some of the letters, up to three each."""
    orders = ["".join(x) for n in (1, 2, 3) for x in itertools.permutations(letters, n)]
    products = []
    for a, b in itertools.product(orders, orders):
        every = sorted(set(a + b))
        kept = [c for c in every if not (c in a and c in b)]  # other dims are not summed alone
        shared = [c for c in every if c in a and c in b]
        for count in range(len(shared)):
            for batch in itertools.combinations(shared, count):
                products += [(a, b, "".join(x)) for x in itertools.permutations([*kept, *batch])]
    return products


def check(a: str, b: str, right: str, dtype: Any) -> None:
    """Compare a kernel with NumPy's sum, with and without memory for the result."""
    rng = np.random.default_rng(len(a + b + right))
    x, y = (rng.integers(-4, 5, [SIZES[c] for c in own]).astype(dtype) for own in (a, b))
    text = f"{a},{b}->{right}"
    wanted = np.einsum(text, x, y)
    kernel = contractions._kernel(np, text, [Aval(x.shape, x.dtype), Aval(y.shape, y.dtype)])
    found = kernel(x, y)
    np.testing.assert_array_equal(found, wanted, text)
    assert np.asarray(found).flags.c_contiguous, text
    out = np.full(wanted.shape, 99, dtype)
    kernel(x, y, out=out)
    np.testing.assert_array_equal(out, wanted, text)


def test_every_order_of_few_letters() -> None:
    every = subscripts("abc") + subscripts("abe")
    assert len(every) > 1000
    for a, b, right in every:
        check(a, b, right, np.float32)


def test_random_orders_of_many_letters() -> None:
    rng = np.random.default_rng(0)
    for _ in range(2000):
        a, b = ("".join(rng.permutation(list("abcd"))[: rng.integers(2, 5)]) for _ in range(2))
        shared = [c for c in "abcd" if c in a and c in b]
        if not shared:
            continue
        summed = rng.choice(shared, rng.integers(1, len(shared) + 1), replace=False)
        right = "".join(rng.permutation([c for c in sorted(set(a + b)) if c not in summed]))
        check(a, b, right, np.float64)


PRODUCTS = [
    ("bo,bi->io", 0), ("bi,bo->io", 0), ("ob,ib->io", 0), ("ab,bc->ac", 0), ("ab,bc->ca", 0),
    ("bhts,bhsk->bthk", 0), ("bthk,bshk->bhts", 0), ("btd,dhk->bthk", 0), ("bthk,hkd->btd", 0),
    ("abc,bcd->ad", 0), ("abc,cbd->ad", 1), ("btd,dhk->bhtk", 1), ("tbk,kbs->tsb", 1),
]  # fmt: skip
"""Products, and how many arrays are copied."""


@pytest.mark.parametrize(("text", "copies"), PRODUCTS)
def test_matrices_that_blas_takes_are_not_copied(text: str, copies: int) -> None:
    left, right = text.split("->")
    a, b = left.split(",")
    sizes = {letter: n for n, letter in enumerate("abcdhikost", 8)}
    shapes = tuple(tuple(sizes[c] for c in own) for own in (a, b))
    plan = contractions._matrices(a, b, right, shapes)
    assert [plan.dense.count(False), bool(plan.copied)] == [copies, bool(copies)]
    x, y = (np.random.default_rng(0).random(shape) for shape in shapes)
    kernel = contractions._kernel(np, text, [Aval(z.shape, z.dtype) for z in (x, y)])
    out = np.empty([sizes[c] for c in right])
    with mock.patch.object(np, "ascontiguousarray", wraps=np.ascontiguousarray) as copied:
        kernel(x, y, out=out)
    np.testing.assert_allclose(out, np.einsum(text, x, y))
    assert copied.call_count <= copies
