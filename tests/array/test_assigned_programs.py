"""Random programs on the simulated backend, under the checker, which also assign to arrays."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from gpushard.placement.device_put import device_put
from gpushard.testing import actor, programs
from gpushard.testing.actor import Actor
from tests.stress.threads import SETTINGS, run_threads

PROGRAMS = 80


def assign(self: Actor) -> None:
    """Assign to an array of one's own, which others may share memory with."""
    own = [known for known in self._mine if not known.fails]
    if not own or self._random.random() < 0.3:
        known = self._pick()
        if known.fails:
            return
        known = self._keep(copy.copy(known.array), known.value)
        if not self._is_mine(known):
            return
    else:
        known = self._random.choice(own)
    index = tuple(self._index(n) for n in known.value.shape)
    changed = known.value.copy()
    part = self._value_of(changed[index].shape)
    value: Any = self._random.choice((7, part, None))
    changed[index] = part if value is None else value
    if value is None:
        value = device_put(part.copy(), self._sharding())
    known.array[index] = value
    known.value = changed  # not before: without room nothing has changed
    if isinstance(value, np.ndarray):
        value[...] = -1


@pytest.mark.parametrize("start", range(0, PROGRAMS, PROGRAMS // 4))
def test_programs_that_assign_are_right_whatever_the_schedule(
    start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "ACTIONS", (*actor.ACTIONS, *[assign] * 12))
    for seed in range(start, start + PROGRAMS // 4):
        programs.run(seed, steps=14)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_threads_that_assign_read_what_numpy_has_and_leak_nothing(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actor, "ACTIONS", (*actor.ACTIONS, *[assign] * 12))
    assert run_threads(settings, 500, seed=1) >= 500
