"""Random programs on the CUDA backend, whose streams run late and in any order."""

from __future__ import annotations

import random
from typing import Any

import pytest

from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.programs import check_nothing_left, run_on
from gpushard.testing.runtime import using
from tests.runtime.cuda.fake_driver import FakeDriver
from tests.share import seeds

PROGRAMS = 40


def random_runtime(seed: int) -> Runtime:
    """GPUs, partitions, limits and choices between kernels and engines as the seed says."""
    source = random.Random(seed)
    gpus = source.choice((1, 1, 2, 4))
    settings = Settings(
        backend="cuda",
        partitions=source.choice((1, 2, 4)),
        separate_domains=source.random() < 0.4,
        slab_bytes=1 << 20,
        engine_bytes=source.choice((0, 16, 64, 1 << 20)),
        pinned_bytes=source.choice((64, 256, 4096, 1 << 20)),
        inline_bytes=source.choice((0, 0, 300, 1 << 20)),
        queue_limit=source.choice((1, 5, 1024)),
        memory_limit=source.choice((None, None, 260, 1500)),
        relay_bytes=source.choice((0, 1 << 20)),
    )
    driver = FakeDriver(gpus, nbytes=64 << 20, seed=seed, peers=source.random() < 0.7)
    backend = CudaBackend(settings, driver)
    return Runtime(settings, Checker(backend) if source.random() < 0.5 else backend)


def run(seed: int) -> dict[str, int]:
    """Run one program, and return how often the driver was called for what."""
    runtime = random_runtime(seed)
    backend: Any = runtime.backend
    with using(runtime):
        run_on(runtime, seed, steps=12, threads=1 + seed % 2)
        check_nothing_left(runtime)
        assert not getattr(backend, "races", []), backend.races
        calls: dict[str, int] = getattr(backend, "backend", backend)._driver.calls
    return calls


@pytest.mark.parametrize("seed", seeds(PROGRAMS))
def test_programs_read_what_numpy_says(seed: int) -> None:
    run(seed)


def test_programs_use_kernels_and_engines_and_wait_for_one_another() -> None:
    calls = [run(seed) for seed in range(PROGRAMS, PROGRAMS + 10)]
    assert all(sum(c.get(name, 0) for c in calls) for name in ("launch", "copy", "wait"))
