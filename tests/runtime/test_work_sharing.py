"""Work inside a kernel that idle workers help with."""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard._ops.prng import blocks
from gpushard._runtime.host.workers import Workers
from gpushard._runtime.work_sharing import share
from gpushard.testing import runtime


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each piece of shared work has."""
    seen: list[int] = []
    original = Workers.share

    def counted(self: Workers, parts: Sequence[Callable[[], None]]) -> None:
        seen.append(len(parts))
        original(self, parts)

    monkeypatch.setattr(Workers, "share", counted)
    return seen


def test_blocks_of_random_numbers_are_shared(shared: list[int]) -> None:
    count = 3 * blocks.ELEMENTS + 1
    with runtime(host_devices=2, small_bytes=0, inline_bytes=0):
        made = np.asarray(random.normal(random.key(0), (count,), "float32"))
        assert shared == [4]
        shared.clear()
        order = np.asarray(random.permutation(random.key(0), count))
        assert shared == [2, 4, 4]  # two rounds, and the bits of each
    with runtime(host_devices=2):
        small = random.normal(random.key(0), (5,), "float32")
        np.testing.assert_array_equal(small, made[:5])
    assert shared == [2, 4, 4] and np.array_equal(np.sort(order), np.arange(count))


def test_parts_run_once_each_in_the_callers_context() -> None:
    seen: list[int] = []
    with runtime(host_devices=2):
        done = threading.Event()

        def part(number: int) -> None:
            np.log(np.zeros(9))
            seen.append(number)

        def kernel() -> None:
            with np.errstate(all="ignore"):
                share([lambda n=n: part(n) for n in range(20)])  # type: ignore[misc]
            done.set()

        device = gs.devices()[0]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            submit = functools.partial(
                device.runtime.submit, device.stream, "a kernel", kernel, (), ()
            )
            device.runtime.commit(submit, [device.stream])
            assert done.wait(20)
    assert sorted(seen) == list(range(20))


def test_what_a_part_raises_is_raised() -> None:
    def bad() -> None:
        raise ValueError("bad")

    with pytest.raises(ValueError, match="bad"):
        share([bad, lambda: None])
