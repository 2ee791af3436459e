"""Random programs with control flow give the same called, traced, and in NumPy."""

from __future__ import annotations

import pytest

import gpushard as gs
from gpushard import testing
from tests.late import late_devices
from tests.share import some
from tests.transforms.control_flow import programs

CHUNKS = 8
"""Tests, which run beside one another."""


@pytest.mark.one_of(2)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_are_what_numpy_makes_of_them(chunk: int) -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        for seed in range(chunk, some(48, 3000), CHUNKS):
            programs.check(seed, mesh)


@pytest.mark.parametrize("domains", [1, 4])
def test_devices_that_do_their_work_late(domains: int) -> None:
    for seed in range(some(8, 200)):
        with late_devices(seed, host_devices=4, host_domains=domains):
            programs.check(20_000 + seed, gs.make_mesh((2, 2), ("x", "y")))
