"""Kernels that merge states."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._ops.programs.reduce import as_state, finished, merged_rows


def add(a: Any, b: Any, m: int, n: int) -> Any:
    return (a[0] + b[0],)


def test_what_is_merged_with_nothing_is_copied() -> None:
    part = np.arange(12.0).reshape(3, 4)[:, 1:3]
    for made in (
        finished(1, add, lambda state, count: state[0], (5,), part),
        as_state(1, add, (5,), part),
        merged_rows(add, (5,), part[None]),
    ):
        assert np.array_equal(made, part) and not np.shares_memory(made, part)
        assert made.flags.c_contiguous


def test_parts_are_merged_in_order_with_their_counts() -> None:
    seen = []

    def merge(a: Any, b: Any, m: int, n: int) -> Any:
        seen.append((m, n))
        return (a[0] * 10 + b[0],)

    parts = [np.array([n]) for n in (1, 2, 3)]
    out = np.zeros(1)
    finished(1, merge, lambda state, count: state[0] + count, (4, 5, 6), *parts, out=out)
    assert out.tolist() == [123 + 15] and seen == [(4, 5), (9, 6)]
