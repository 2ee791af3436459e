"""How much memory loading and saving a `.npy` file takes."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime

SHAPE = (1024, 8192)
NBYTES = 64 << 20
ROW = np.arange(8192.0)


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


@pytest.mark.one_of(2)
@pytest.mark.parametrize(
    ("dtype", "order", "entries"),
    [
        ("f8", "C", ("x", "y")),
        ("f8", "C", ()),
        (">f8", "C", (None, ("y", "x"))),
        ("f8", "F", (("x", "y"),)),
    ],
    ids=["grid", "one device", "big-endian", "fortran"],
)
@pytest.mark.parametrize("domains", [1, 8])
@pytest.mark.usefixtures("traced")
def test_the_host_never_holds_a_whole_copy(
    tmp_path: Path, dtype: str, order: str, entries: Any, domains: int
) -> None:
    mapped = np.lib.format.open_memmap(
        tmp_path / "in.npy", "w+", dtype, SHAPE, fortran_order=order == "F"
    )
    mapped[...] = ROW
    del mapped
    with runtime(host_domains=domains):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        place = gs.NamedSharding(mesh, gs.P(*entries)) if entries else gs.devices()[0]
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        x = gs.load(tmp_path / "in.npy", place)
        _, peak = tracemalloc.get_traced_memory()
        held = sum(device.memory_stats()["bytes_in_use"] or 0 for device in gs.devices())
        assert held == NBYTES
        assert peak - before < 1.25 * NBYTES
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        gs.save(tmp_path / "out.npy", x)
        _, peak = tracemalloc.get_traced_memory()
        assert peak - before < NBYTES // 4
    written = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert np.array_equal(written[::97], np.broadcast_to(ROW, SHAPE)[::97])
