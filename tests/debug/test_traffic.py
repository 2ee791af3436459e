"""`debug.count_traffic`, beside what plans say, and where nothing counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.testing import deferred


@pytest.mark.parametrize("settings", [{}, {"inline_bytes": 0, "small_bytes": 0}])
@pytest.mark.parametrize("spec", [gs.P("y", "x"), gs.P(), gs.P(None, ("x", "y")), gs.P("x")])
def test_a_reshard_receives_what_its_plan_says(spec: gs.P, settings: dict[str, Any]) -> None:
    with testing.runtime(host_devices=8, host_domains=4, **settings):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(np.arange(4096.0).reshape(64, 64), gs.NamedSharding(mesh, gs.P("x", "y")))
        wanted = gs.NamedSharding(mesh, spec)
        plan = x.plan(wanted)
        with gs.debug.count_traffic() as traffic:
            gs.reshard(x, wanted)
        assert traffic.received == dict.fromkeys(range(4), 0) | plan.received
        assert traffic.bytes_received == plan.bytes_received


def test_it_waits_for_what_came_before_and_for_what_runs_late() -> None:
    with testing.simulated(1, host_devices=2, host_domains=2, inline_bytes=0) as runtime:
        runtime.sim.failing = 0
        one, two = gs.devices()
        x = deferred(gs.device_put(np.arange(100.0), one), lambda shard: shard + 1)
        y = gs.device_put(x, two)
        with gs.debug.count_traffic() as traffic:
            z = gs.device_put(y + 1, one)
        assert traffic.received == {0: 800, 1: 0}
        assert np.array_equal(z, np.arange(100.0) + 2)


def test_copies_within_a_domain_and_from_and_to_the_host_do_not_count() -> None:
    with testing.runtime(host_devices=4, host_domains=2):
        devices = gs.devices()
        with gs.debug.count_traffic() as traffic:
            x = gs.device_put(np.arange(100.0), devices[0])
            np.asarray(gs.device_put(x, devices[1]) + 1)
        assert traffic.received == {0: 0, 1: 0}
        assert repr(traffic) == "Traffic(bytes_received=0, received={0: 0, 1: 0})"
