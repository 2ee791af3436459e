"""Ctrl-C at any place: no stuck stream, no wrong value, no memory lost.

`python -m tests.stress interrupts --everywhere` takes every place; here a seed takes some.
"""

from __future__ import annotations

import random

import pytest

from tests.stress.cases import CASES, bench_of, interrupt, places
from tests.stress.interrupts import interrupt_for_real

PLACES = 25


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
def test_an_interrupt_anywhere_leaves_everything_right(case, twice):
    chosen = random.Random(case.name)
    struck = 0
    with bench_of(case) as bench:
        count = places(case, bench)
        for _ in range(PLACES):
            again = chosen.choice((1, 2, 3, 5, 8, 20, 60)) if twice else None
            interrupter = interrupt(case, bench, chosen.randint(1, count), again)
            struck += len(interrupter.raised)
    assert struck >= PLACES // 2


def test_signals_at_random_moments():
    assert interrupt_for_real(count=300, seed=1).interrupts == 300
