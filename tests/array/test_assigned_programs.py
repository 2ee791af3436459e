"""Random programs on the simulated backend, under the checker, which also assign to arrays."""

from __future__ import annotations

from typing import Any

import pytest

from gpushard.testing import actor, programs
from gpushard.testing.actor import Actor
from tests.share import some
from tests.stress.threads import SETTINGS, run_threads

PROGRAMS = some(20, 80)


@pytest.mark.parametrize("start", range(0, PROGRAMS, PROGRAMS // 4))
def test_programs_that_assign_are_right_whatever_the_schedule(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "ACTIONS", (*actor.ACTIONS, *[Actor._assign] * 12))
    for seed in range(start, start + PROGRAMS // 4):
        programs.run(seed, steps=14)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_threads_that_assign_read_what_numpy_has_and_leak_nothing(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "ACTIONS", (*actor.ACTIONS, *[Actor._assign] * 12))
    assert run_threads(settings, 500, seed=1) >= 500
