"""Batches come in order, a fixed number of them ahead."""

from __future__ import annotations

import contextlib
import gc
import weakref
from collections.abc import Iterator

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime, simulated
from tests.share import seeds


def counted(log: list[int], count: int = 6) -> Iterator[dict[str, np.ndarray]]:
    for n in range(count):
        log.append(n)
        yield {"x": np.full((4, 2), n)}


@pytest.mark.parametrize("size", [1, 2, 10])
def test_batches_are_taken_ahead_and_come_in_order(size: int) -> None:
    with runtime(host_devices=2):
        sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        log: list[int] = []
        batches = gs.prefetch(counted(log), sharding, size=size)
        assert log == []
        for n, batch in enumerate(batches):
            assert log == list(range(min(6, n + size)))
            assert batch["x"].sharding == sharding
            assert np.array_equal(np.asarray(batch["x"]), np.full((4, 2), n))


def test_two_are_taken_ahead_by_default() -> None:
    with runtime():
        log: list[int] = []
        next(gs.prefetch(counted(log)))
        assert log == [0, 1]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_no_more_are_held_than_promised_beside_the_one_in_use(size: int) -> None:
    with runtime() as rt:
        source = (np.full(4, n) for n in range(8))
        for n, batch in enumerate(gs.prefetch(source, size=size)):
            assert batch[0] == n
        assert rt.devices[0].memory_stats()["peak_bytes_in_use"] <= (size + 1) * batch.nbytes + 8


@pytest.mark.parametrize("end", [StopIteration, OSError])
def test_the_source_goes_with_the_last_batch(end: type[Exception]) -> None:
    class Source:
        def __init__(self) -> None:
            self.left = 3

        def __iter__(self) -> Source:
            return self

        def __next__(self) -> np.ndarray:
            if not self.left:
                raise end
            self.left -= 1
            return np.zeros(2)

    with runtime():
        source = Source()
        watch = weakref.ref(source)
        gc.collect()
        gc.disable()
        try:
            batches = gs.prefetch(source)
            del source
            with contextlib.suppress(OSError):
                for _ in batches:
                    pass
            assert list(batches) == []
            assert watch() is None
        finally:
            gc.enable()


def test_errors_come_after_the_batches_before_them() -> None:
    def fails() -> Iterator[np.ndarray]:
        yield np.arange(3)
        yield np.arange(2)
        raise OSError("the disk is gone")

    with runtime():
        batches = gs.prefetch(fails(), size=4)
        assert [next(batches).shape, next(batches).shape] == [(3,), (2,)]
        with pytest.raises(OSError, match="disk"):
            next(batches)


@pytest.mark.parametrize("seed", seeds(10))
def test_on_any_schedule(seed: int) -> None:
    with simulated(seed, host_devices=2, inline_bytes=0, small_bytes=0) as rt:
        rt.sim.failing = 0
        read = [np.asarray(batch["x"]) for batch in gs.prefetch(counted([]))]
        assert all(np.array_equal(value, np.full((4, 2), n)) for n, value in enumerate(read))
