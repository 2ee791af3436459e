"""Random programs on the simulated backend, and programs that catch what is disabled on purpose."""

from __future__ import annotations

import os
import random

import pytest

from gpushard.testing import programs
from tests.share import some
from tests.stress import mutations
from tests.stress.programs import run_many

COUNT = some(200, 20_000)

SHARE = 15
"""Of how many disabled places one is taken."""


@pytest.mark.minutes
@pytest.mark.timeout(900)
def test_random_programs_are_right_whatever_the_schedule():
    total = run_many(0, COUNT, jobs=os.cpu_count() or 1)
    assert total.failed is None, total.failed
    assert total.totals["programs"] == COUNT
    assert total.totals["items"] > 5 * COUNT  # most of the work goes through streams


@pytest.mark.parametrize("seed", [3, 77, 1234])
def test_a_seed_gives_the_same_run_every_time(seed):
    runs = []
    for _ in range(2):
        outcome = programs.run(seed)
        drawn = programs.random_settings(random.Random(seed))
        runtime, _ = programs.simulated_runtime(drawn.host_devices, drawn.host_domains)
        runs.append((outcome, runtime.sim.random.getstate()))
    assert runs[0] == runs[1]


@pytest.mark.minutes
@pytest.mark.timeout(900)
def test_every_wait_and_every_claim_that_is_disabled_is_caught():
    assert mutations.survivors(os.cpu_count() or 1, some(2 * SHARE, 1)) == []
