"""Arrays in a user's own sharding: everything works on them, on the line of their devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from tests.geometry.test_sharding import FakeDevice

VALUE = np.random.default_rng(0).integers(-9, 9, (10, 6)).astype(float)


class Rows(gs.Sharding):
    """Some rows for each device, of unequal numbers.

    Args:
      devices: the devices.
      stops: where the rows of each end, but for the last one.
    """

    def __init__(self, devices: Any, *stops: int) -> None:
        self.devices, self.stops = tuple(devices), stops

    @property
    def device_set(self) -> set[Any]:
        return set(self.devices)

    def devices_indices_map(self, global_shape: Any) -> dict[Any, Any]:
        ends = (0, *self.stops, global_shape[0])
        rest = [slice(None)] * (len(global_shape) - 1)
        return {d: (slice(*ends[n : n + 2]), *rest) for n, d in enumerate(self.devices)}

    def __eq__(self, other: object) -> bool:
        return type(other) is Rows and (self.devices, self.stops) == (other.devices, other.stops)

    def __hash__(self) -> int:
        return hash((self.devices, self.stops))


CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "slice": lambda x, y: x[2:7:2, 1:],
    "row": lambda x, y: x[1],
    "element": lambda x, y: x[1, 2],
    "rows": lambda x, y: x[np.array([1, 9, 1])],
    "mask": lambda x, y: x[x > 2],
    "iteration": lambda x, y: list(x)[3],
    "reshape": lambda x, y: x.reshape(4, 15),
    "transpose": lambda x, y: x.T,
    "sum": lambda x, y: x.sum(),
    "sum of columns": lambda x, y: x.sum(axis=0),
    "sum of rows": lambda x, y: x.sum(axis=1),
    "argmax": lambda x, y: x.argmax(axis=0),
    "mean": lambda x, y: x.mean(),
    "product": lambda x, y: x.T @ y,
    "sum of two": lambda x, y: x + y,
    "broadcast": lambda x, y: x * y[3],
    "where": lambda x, y: np.where(x > 0, x, y),
    "sort": lambda x, y: np.sort(x, axis=0),
    "cumsum": lambda x, y: np.cumsum(x, axis=0),
    "concatenate": lambda x, y: np.concatenate([x, y]),
    "nonzero": lambda x, y: np.nonzero(x)[0],
}


@pytest.mark.parametrize("domains", [1, 4])
@pytest.mark.parametrize("name", CALLS)
def test_functions_of_two_shardings(name: str, domains: int) -> None:
    with testing.runtime(host_devices=4, host_domains=domains) as rt:
        x = gs.device_put(VALUE, Rows(rt.devices, 1, 5, 6))
        y = gs.device_put(VALUE[::-1].copy(), Rows(rt.devices, 0, 3, 9))
        result = CALLS[name](x, y)
        assert np.allclose(result, CALLS[name](VALUE, VALUE[::-1]), rtol=1e-14, atol=0)
        assert result.sharding.mesh == gs.Mesh(rt.devices, ("devices",))


def test_the_split_that_is_nearest_is_kept() -> None:
    with testing.runtime(host_devices=4) as rt:
        x = gs.device_put(VALUE, Rows(rt.devices, 2, 5, 8))
        assert x[1:9].sharding.spec == gs.P("devices")
        assert (x + x.T.reshape(10, 6)).sharding.spec == gs.P("devices")
        assert x.T.sharding.spec == gs.P(None, "devices")


def test_what_needs_no_other_sharding_keeps_its_own() -> None:
    with testing.runtime(host_devices=4) as rt:
        own = Rows(rt.devices, 1, 5, 6)
        x = gs.device_put(VALUE, own)
        results = (x + 1, gnp.sin(x), x * x, x.astype(np.float32))
        assert all(result.sharding is own for result in results)
        x[2:4] = 0
        x[[7, 9]] = 1
        x[x > 5] = 5
        expected = VALUE.copy()
        expected[2:4] = 0
        expected[[7, 9]] = 1
        expected[expected > 5] = 5
        assert x.sharding is own
        assert np.array_equal(x, expected)


def test_full_replication_is_told_of_the_boxes() -> None:
    with testing.runtime(host_devices=4) as rt:
        assert not gs.device_put(VALUE, Rows(rt.devices, 1, 5, 6)).is_fully_replicated
        assert not gs.device_put(VALUE, Rows(rt.devices[:2], 0)).is_fully_replicated
        assert gs.device_put(VALUE, Rows(rt.devices[:1])).is_fully_replicated
        assert gs.device_put(VALUE, Everywhere(rt.devices)).is_fully_replicated


def test_one_device_of_another_process_is_not_addressable() -> None:
    here, there = FakeDevice(0), FakeDevice(1, is_addressable=False)
    assert Rows([here, FakeDevice(2)], 3).is_fully_addressable
    assert not Rows([here, there], 3).is_fully_addressable


class Everywhere(Rows):
    """Replicas on all devices."""

    def devices_indices_map(self, global_shape: Any) -> dict[Any, Any]:
        return {d: (slice(None),) * len(global_shape) for d in self.devices}


def test_a_sharding_of_ones_own_stands_for_its_devices() -> None:
    x = gs.device_put(np.arange(8.0), Rows(gs.devices()[:2], 3))
    assert x.device is x.sharding
    assert np.array_equal(gs.numpy.zeros_like(x, device=x.device), np.zeros(8))


@pytest.mark.parametrize("devices", [1, 3])
def test_random_numbers_are_made_in_a_sharding_of_ones_own(devices: int) -> None:
    with testing.runtime(host_devices=4, host_domains=4) as rt:
        own = Rows(rt.devices[4 - devices :], *range(1, devices))
        key = gs.random.key(3)
        with gs.gather_guard("disallow"):
            made = gs.random.normal(key, (8, 3), out_sharding=own)
            rates = gs.device_put(np.arange(1.0, 9), own)
            beside = gs.random.poisson(key, rates)
        assert made.sharding is own and beside.sharding.device_set == own.device_set
        assert np.array_equal(made, gs.random.normal(key, (8, 3)))
        assert np.array_equal(beside, gs.random.poisson(key, np.arange(1.0, 9)))
