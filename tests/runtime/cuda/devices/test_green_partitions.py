"""How the multiprocessors of a GPU are divided."""

import itertools
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime import current_runtime
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.devices.green_partitions import (
    Partition,
    Split,
    check_driver,
    equal_groups,
    extra,
    too_few,
)
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Tick
from gpushard.config import Settings
from gpushard.errors import ConfigurationError
from gpushard.testing.conformance import give
from tests.runtime.cuda.fake_driver import FakeDriver


def clustered(clusters: Sequence[int], step: int) -> Split:
    """Return a CUDA whose groups are made of `step` neighbours, none of two clusters."""
    blocks = sum(cluster // step for cluster in clusters)

    def split(most: int, least: int) -> list[Partition]:
        each = -(-least // step)
        return [Partition(each * step)] * min(most, blocks // each)

    return split


gpus = st.tuples(
    st.lists(st.integers(2, 18), min_size=1, max_size=8), st.sampled_from([1, 2, 4, 8])
)


@given(gpu=gpus, parts=st.integers(2, 64))
def test_partitions_get_all_that_there_is_for_them(gpu: tuple[list[int], int], parts: int) -> None:
    """The groups are as many as wanted, of one size, and no larger ones could be had."""
    total, split = sum(gpu[0]), clustered(*gpu)
    possible = [size for size in range(1, total + 1) if len(split(parts, size)) == parts]
    if not possible:
        with pytest.raises(ConfigurationError) as caught:
            equal_groups(0, total, parts, split)
        error = caught.value
        assert error.facts["most"] == len(split(total, 1)) < parts
        return
    groups = equal_groups(0, total, parts, split)
    sizes = {group.multiprocessors for group in groups}
    assert (len(groups), len(sizes)) == (parts, 1)
    assert sizes == {split(1, possible[-1])[0].multiprocessors}
    assert parts * min(sizes) <= total


@given(gpu=gpus, parts=st.integers(2, 64))
def test_what_an_error_proposes_works(gpu: tuple[list[int], int], parts: int) -> None:
    total, split = sum(gpu[0]), clustered(*gpu)
    try:
        equal_groups(3, total, parts, split)
    except ConfigurationError as error:
        assert f"GPU 3 into {parts} partitions: it has {total} multiprocessors" in str(error)
        proposed = re.search(r"use partitions=(\d+) or fewer", str(error))
        if proposed:
            most = int(proposed[1])
            assert len(equal_groups(3, total, most, split)) == most
            with pytest.raises(ConfigurationError):
                equal_groups(3, total, most + 1, split)
        else:
            with pytest.raises(ConfigurationError):
                equal_groups(3, total, 2, split)
        assert "partition_mode='stream'" in str(error)


@pytest.mark.parametrize(("parts", "size"), [(2, 56), (3, 40), (4, 24), (7, 16), (15, 8)])
def test_132_multiprocessors_in_eights(parts: int, size: int) -> None:
    """In clusters of 12, 16 and 18: 15 groups of 8 lie together, where 16 would be 128."""
    split = clustered([18, 18, 18, 16, 16, 16, 18, 12], 8)
    groups = equal_groups(0, 132, parts, split)
    assert [group.multiprocessors for group in groups] == [size] * parts


def test_too_many_partitions_of_132() -> None:
    split = clustered([18, 18, 18, 16, 16, 16, 18, 12], 8)
    with pytest.raises(ConfigurationError) as caught:
        equal_groups(0, 132, 16, split)
    assert str(caught.value) == (
        "partition_mode='green' cannot divide GPU 0 into 16 partitions: it has 132 "
        "multiprocessors, and CUDA makes at most 15 groups, of at least 8, of them; those of a "
        "group have to lie together, which leaves some over; use partitions=15 or fewer for it, "
        "or partition_mode='stream'"
    )
    with pytest.raises(ConfigurationError, match=r"at least 8, of them; use partitions=15"):
        equal_groups(0, 132, 17, split)
    assert "of at least 8, of" in str(
        too_few(0, 132, 17, [Partition(16), Partition(8), Partition(12)])
    )


@pytest.mark.parametrize("version", [0, 11080, 12030, 12039])
def test_an_old_driver_has_no_green_contexts(version: int) -> None:
    with pytest.raises(ConfigurationError, match=r"driver for CUDA 12\.4 or newer"):
        check_driver(version)


def test_a_new_driver_has_green_contexts() -> None:
    check_driver(12040)
    check_driver(13020)
    assert [extra(version) for version in (11080, 12040, 13000)] == [
        "green12",
        "green12",
        "green13",
    ]


def made(driver: FakeDriver, **settings: object) -> Runtime:
    chosen = Settings(backend="cuda", slab_bytes=1 << 20, **settings)  # type: ignore[arg-type]
    return Runtime(chosen, CudaBackend(chosen, driver))


def handles_of(rt: Runtime) -> list[Any]:
    return [queue.handle for queue in rt.backend._queues.values()]  # type: ignore[attr-defined]


def test_only_streams_of_partitions_are_on_shares() -> None:
    driver = FakeDriver(2)
    rt = made(driver, partitions=(4, 1), partition_mode="green")
    assert [device.multiprocessors for device in rt.backend.describe()] == [32] * 4 + [132]
    of_shares = [stream.share for stream in driver._streams if stream.share is not None]
    assert len(of_shares) == len(set(of_shares)) == 4 == len(driver.shares)
    queues = rt.backend._queues  # type: ignore[attr-defined]
    for device in rt.devices:
        assert (queues[device.stream].handle.share is None) == (device.local_hardware_id == 1)
    for domain in rt.domains:
        for stream in domain.streams:
            assert stream not in queues or queues[stream].handle.share is None
    rt.close()


@pytest.mark.parametrize("separate", [False, True])
def test_without_green_contexts_nothing_is_divided(separate: bool) -> None:
    driver = FakeDriver(2)
    rt = made(driver, partitions=4, separate_domains=separate)
    assert [device.multiprocessors for device in rt.backend.describe()] == [132] * 8
    assert "divide" not in driver.calls
    rt.close()


def test_work_after_the_end_still_runs() -> None:
    """An array may outlive its runtime."""
    driver = FakeDriver(2)
    rt = made(driver, partitions=2, partition_mode="green")
    before = current_runtime.swap(rt)
    try:
        mesh = gs.make_mesh((4,), "x")
        value = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        gs.reshard(x, gs.NamedSharding(mesh, gs.P(None, "x")))
        rt.close()
        gs.reshard(x, gs.NamedSharding(mesh, gs.P(None, "x"))).block_until_ready()
        ran: list[int] = []
        waits: list[Tick] = []
        for n, device in enumerate([*rt.devices, *rt.devices]):
            waits = [give(rt, device.stream, lambda n=n: ran.append(n), waits)]  # type: ignore[misc]
        waits[0][0].synchronize(waits[0][1])
        assert ran == list(range(8))
        rt.close()
    finally:
        current_runtime.swap(before)


def test_a_gpu_that_cannot_be_divided_is_named() -> None:
    driver = FakeDriver(2, multiprocessors=24)
    settings = Settings(backend="cuda", partitions=(3, 4), partition_mode="green")
    with pytest.raises(ConfigurationError, match="GPU 1 into 4 partitions"):
        CudaBackend(settings, driver)
    assert driver.calls["divide"] == 2


def test_shares_of_fake_gpus_differ() -> None:
    shares = [FakeDriver().divide(0, 2), FakeDriver().divide(0, 2)]
    assert len(set(itertools.chain(*shares))) == 4
