"""Tests of arrays on a backend: everything above the backend, run on it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array.array import Array
from gpushard.errors import DeletedArrayError, ExecutionError, OutOfMemoryError
from gpushard.geometry.mesh import Mesh
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import PartitionSpec
from gpushard.placement.device_put import device_put, reshard
from gpushard.runtime.runtime import Runtime
from gpushard.testing.conformance.base import Conformance, raises
from gpushard.testing.deferred import deferred
from gpushard.testing.programs import check_nothing_left, run_on

_SPECS: tuple[tuple[Any, ...], ...] = ((), ("x",), (None, "y"), ("y", "x"), (("x", "y"),))
_QUEUED = {"host_devices": 4, "host_domains": 2, "small_bytes": 0, "inline_bytes": 0}


def _named(runtime: Runtime, *spec: Any) -> NamedSharding:
    """Return a sharding over four devices, or two or one where there are no more."""
    count = max(n for n in (1, 2, 4) if n <= len(runtime.devices))
    grid = np.empty(count, object)
    grid[:] = runtime.devices[:count]
    return NamedSharding(
        Mesh(grid.reshape(-1, 2 if count == 4 else 1), ("x", "y")), PartitionSpec(*spec)
    )


def _holds(array: Array, value: Any) -> bool:
    return bool(np.array_equal(np.asarray(array), value))


class ArrayConformance(Conformance):
    """Arrays on every backend pass these; derive and define `make_runtime`, of four devices."""

    def test_place_and_reshard(self) -> None:
        """Any layout becomes any other, also where shards are uneven or empty."""
        for settings in ({"host_devices": 4}, _QUEUED):
            with self.runtime(**settings) as rt:
                for shape in ((5, 7), (1, 3), (0, 4)):
                    value = np.arange(float(np.prod(shape))).reshape(shape)
                    for start in _SPECS:
                        x = device_put(value, _named(rt, *start))
                        assert all(_holds(reshard(x, _named(rt, *s)), value) for s in _SPECS)
                del x
                check_nothing_left(rt)

    def test_slices(self) -> None:
        """Parts, also with negative steps, are those of NumPy."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(35).reshape(5, 7)
            x = device_put(value, _named(rt, "x", "y"))
            assert _holds(x[1:4, ::2], value[1:4, ::2]) and _holds(x[::-1, -2], value[::-1, -2])
            assert _holds(x.T, value.T) and _holds(x[2:2], value[2:2])

    def test_donate_and_delete(self) -> None:
        """What was given up cannot be read, and its memory comes back."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(32.0).reshape(4, 8)
            x = device_put(value, _named(rt, "x"))
            y = reshard(x, _named(rt, None, "y"), donate=True)
            assert x.is_deleted() and _holds(y, value)
            raises(DeletedArrayError, lambda: np.asarray(x))
            y.delete()
            check_nothing_left_but_deleted(rt)

    def test_replicas_hold_the_value(self) -> None:
        """Every replica can be read, and is placed with equal content."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(6)
            x = device_put(value, _named(rt))
            assert all(
                _holds(shard.data, value)
                for shard in x.addressable_shards
                if shard.data is not None
            )

    def test_read_async(self) -> None:
        """A fetch that was started gives the value, read-only."""
        with self.runtime(**_QUEUED) as rt:
            value = np.arange(40.0).reshape(8, 5)
            x = deferred(device_put(value, _named(rt, "x")), lambda shard: shard * 2)
            x.copy_to_host_async()
            read = np.asarray(x)
            assert np.array_equal(read, value * 2) and not read.flags.writeable

    def test_failures_reach_readers(self) -> None:
        """What depends on failed work fails with its cause; other work does not."""
        with self.runtime(**_QUEUED) as rt:
            x = device_put(np.arange(8.0), _named(rt, "x"))
            cause = ValueError("planned")
            moved = reshard(deferred(x, lambda shard: shard, error=cause), _named(rt, "y"))
            other = deferred(x, lambda shard: shard + 1)
            for _ in range(2):
                assert raises(ExecutionError, moved.block_until_ready).__cause__ is cause
            assert _holds(other, np.arange(8.0) + 1)

    def test_out_of_memory_and_recovery(self) -> None:
        """A refused call changes nothing, and the next smaller one works."""
        with self.runtime(**_QUEUED, memory_limit=1000) as rt:
            device = rt.devices[0]
            x = device_put(np.arange(100.0), device)
            error = raises(OutOfMemoryError, lambda: device_put(np.arange(50.0), device))
            assert isinstance(error, OutOfMemoryError) and error.limit == 1000
            assert error.nbytes == 400 and error.in_use == 800
            assert _holds(device_put(np.arange(20.0), device), np.arange(20.0))
            assert _holds(x, np.arange(100.0))

    def test_random_programs(self) -> None:
        """Programs of several threads read what NumPy says."""
        for seed in range(4):
            with self.runtime(**_QUEUED) as rt:
                run_on(rt, seed, steps=15, threads=self.threads)


def check_nothing_left_but_deleted(runtime: Runtime) -> None:
    """Check that no memory is claimed, though deleted arrays are still referred to."""
    assert runtime.claimed_bytes() == 0, "deleted arrays hold memory"
