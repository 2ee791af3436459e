"""Assignments on the CUDA backend, whose streams run late and in any order."""

from __future__ import annotations

import contextlib
import copy
import random
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import OutOfMemoryError
from gpushard.testing.programs import check_nothing_left, random_shardings
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import array_at
from tests.runtime.cuda.test_backend import VALUE, cuda, named
from tests.runtime.cuda.test_programs import random_runtime
from tests.share import seeds


def test_a_number_is_one_launch_and_takes_no_memory() -> None:
    with cuda() as (_, driver):
        x = gs.device_put(VALUE, named("x")).block_until_ready()
        x[3] = 1
        x.block_until_ready()
        driver.calls.clear()
        x[5:40, ::2] = 2
        x.block_until_ready()
        assert driver.calls["launch"] == 1 and "malloc" not in driver.calls, driver.calls
        expected = VALUE.copy()
        expected[3], expected[5:40, ::2] = 1, 2
        assert np.array_equal(np.asarray(x), expected)


def test_memory_whose_address_others_have_keeps_the_old_value_as_long_as_the_array() -> None:
    with cuda() as (runtime, _):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        consumer = Consumer(x)
        start = consumer.interface["data"][0]
        for n in range(3):
            x[n] = n
        assert x.unsafe_buffer_pointer() != start
        taken = {gs.device_put(VALUE, gs.devices()[0]).unsafe_buffer_pointer() for _ in range(4)}
        runtime.empty_cache()
        assert start not in taken
        claimed = runtime.claimed_bytes()
        assert claimed == 2 * VALUE.nbytes
        where = x.unsafe_buffer_pointer()
        x[5] = 1  # what it has now nobody else has
        assert x.unsafe_buffer_pointer() == where
        assert np.asarray(x)[:6, 0].tolist() == [0, 1, 2, *VALUE[3:5, 0], 1]
        assert consumer.producer is x


def test_memory_whose_address_nobody_has_any_more_comes_back() -> None:
    with cuda(memory_limit=4 * VALUE.nbytes):
        x = gs.device_put(VALUE, gs.devices()[0])
        for n in range(20):
            x[0] = n
            assert Consumer(x).interface["shape"] == x.shape
        assert np.asarray(x)[0, 0] == 19


def test_memory_is_what_consumers_hold_and_comes_back_when_they_let_go() -> None:
    with cuda(partitions=1) as (runtime, _):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        held = []
        for n in range(5):
            held.append(Consumer(x))
            x[0] = n
            x.block_until_ready()
            runtime.backend.recall()
            assert runtime.claimed_bytes() == (len(held) + 1) * VALUE.nbytes
        for n, consumer in enumerate(held):  # each still sees what it was given
            start = consumer.interface["data"][0]
            seen = array_at(start, x.shape, x.dtype)
            assert np.array_equal(seen[0], np.full_like(seen[0], n - 1) if n else VALUE[0])
        del consumer, seen
        held.clear()
        x[0] = -1
        x.block_until_ready()
        runtime.backend.recall()
        assert runtime.claimed_bytes() == VALUE.nbytes


def test_dlpack_holds_only_what_its_consumers_hold() -> None:
    with cuda(partitions=1) as (runtime, _):
        x = gs.device_put(VALUE, gs.devices()[0]).block_until_ready()
        for n in range(5):
            held = x.__dlpack__(stream=1)  # the one of the round before is let go
            x[0] = n
            x.block_until_ready()
            runtime.backend.recall()
            assert runtime.claimed_bytes() <= 2 * VALUE.nbytes
        del held


class Consumer:
    """What other libraries do with the interface: they keep the array, and nothing else."""

    def __init__(self, producer: gs.Array) -> None:
        self.producer, self.interface = producer, producer.__cuda_array_interface__


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "f4", "i8", "c16"])
def test_values_of_every_kind(dtype: str) -> None:
    with cuda(gpus=2, partitions=2):
        data = np.arange(64 * 9).reshape(64, 9).astype(dtype)
        x, expected = gs.device_put(data, named("x")), data.copy()
        pairs: list[tuple[Any, Any]] = [
            ((slice(1, 60, 7), 3), 1),
            (slice(None, None, -5), np.arange(9)),
            ((..., None, 4), data[::-1, :1]),
            ((slice(20, 44), slice(2, 5)), gs.device_put(data[7, 7], gs.devices()[3])),
            (17, gs.device_put(data[40], gs.devices()[0])),
        ]
        for index, value in pairs:
            x[index] = value
            expected[index] = np.asarray(value)
            assert np.array_equal(np.asarray(x), expected), index


@pytest.mark.parametrize("seed", seeds(24))
def test_random_assignments(seed: int) -> None:
    source, runtime = random.Random(seed), random_runtime(seed)
    with using(runtime):
        shardings = random_shardings(runtime, source)
        expected = np.arange(63, dtype=np.int32).reshape(7, 9)
        x: Any = gs.device_put(expected, source.choice(shardings))
        expected, known, far = expected.copy(), [], None
        for _ in range(12):
            index = (slice(source.randrange(7), None, source.choice((1, 2, -1))), ...)
            part, kind = -expected[index], source.randrange(6)
            with contextlib.suppress(OutOfMemoryError):  # then nothing has changed
                if kind == 0:
                    known.append((copy.copy(x), expected.copy()))
                elif kind == 1:
                    new = expected.copy()
                    new[index] = 4
                    known.append((x.at[index].set(4), new))
                else:
                    far = gs.device_put(part, source.choice(shardings))
                    x[index] = value = [5, part, far, part[:1, :1].item()][kind - 2]
                    expected[index] = np.asarray(value)
        for array, value in (*known, (x, expected)):
            assert np.array_equal(np.asarray(array), value)
        del x, far, array, known, value
        check_nothing_left(runtime)
        assert not getattr(runtime.backend, "races", [])
