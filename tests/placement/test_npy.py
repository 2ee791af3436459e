"""`.npy` files, shard by shard."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ExecutionError, FileFormatError
from gpushard.testing import gated

pytestmark = pytest.mark.usefixtures("rt")


def named(*entries: Any, mesh: tuple[int, ...] = (4, 2)) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh(mesh, tuple("xyz"[: len(mesh)])), gs.P(*entries))


def check(x: gs.Array, value: np.ndarray) -> None:
    """Compare an array and each of its shards with a value."""
    assert (x.shape, x.dtype) == (value.shape, value.dtype.newbyteorder("="))
    assert np.array_equal(x, value)
    for shard in x.addressable_shards:
        assert np.array_equal(shard.data, value[shard.index])


PLACES = [
    lambda: None,
    lambda: gs.devices()[3],
    lambda: named(),
    lambda: named("x"),
    lambda: named("y", "x"),
    lambda: named(None, ("x", "y")),
    lambda: named("x", "y", mesh=(3, 2)),
]


@pytest.mark.parametrize("shape", [(8, 6), (7, 5), (0, 3), (3, 0), (1, 1), (260, 130)])
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_numpy_are_loaded(tmp_path: Path, shape: tuple[int, ...], order: Any) -> None:
    for dtype in ("f4", ">f8", ">i2", "?", "c16", "f2", "u8"):
        value = np.random.default_rng(0).integers(0, 100, shape).astype(dtype, order=order)
        np.save(tmp_path / "in.npy", value)
        for place in PLACES:
            check(gs.load(tmp_path / "in.npy", place()), value)


@pytest.mark.parametrize("shape", [(8, 6), (7, 5), (0, 3), (260, 130)])
@pytest.mark.parametrize("dtype", ["f4", "?", "c16"])
def test_numpy_reads_what_was_saved(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    value = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    for place in PLACES[1:]:
        gs.save(tmp_path / "x.npy", gs.device_put(value, place()))
        written = np.load(tmp_path / "x.npy")
        assert (written.dtype, written.shape) == (value.dtype, shape)
        assert np.array_equal(written, value)
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("value", [3.5, True, 7])
def test_0d_files(tmp_path: Path, value: Any) -> None:
    np.save(tmp_path / "in.npy", value)
    for place in (None, gs.devices()[3], named()):
        x = gs.load(tmp_path / "in.npy", place)
        check(x, np.array(value))
        gs.save(tmp_path / "out.npy", x)
        assert np.load(tmp_path / "out.npy").tolist() == value
    gs.save(tmp_path / "weak.npy", gs.device_put(value))
    assert np.load(tmp_path / "weak.npy").shape == ()


def test_paths_placements_and_commitment(tmp_path: Path) -> None:
    value = np.arange(8)
    gs.save(os.fspath(tmp_path / "x.npy"), gs.device_put(value))
    x = gs.load(os.fspath(tmp_path / "x.npy"))
    assert x.device is gs.devices()[0]
    with gs.default_device(gs.devices()[1]):
        assert gs.load(tmp_path / "x.npy").device is gs.devices()[1]
    with named().mesh:
        assert gs.load(tmp_path / "x.npy", gs.P("x")).sharding == named("x")
    assert gs.load(tmp_path / "x.npy", named("x")).committed


def test_progress_adds_up_to_the_bytes(tmp_path: Path) -> None:
    value = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    np.save(tmp_path / "x.npy", value)
    seen: list[int] = []
    gs.load(tmp_path / "x.npy", named("x", "y"), progress=seen.append)
    assert seen == [value.nbytes // 8] * 8
    seen.clear()
    gs.load(tmp_path / "x.npy", named(), progress=seen.append)
    assert seen == [value.nbytes]


def test_the_loaded_array_does_not_depend_on_the_file(tmp_path: Path) -> None:
    value = np.arange(100_000)
    np.save(tmp_path / "x.npy", value)
    arrays = [gs.load(tmp_path / "x.npy", place()) for place in PLACES[:4]]
    np.lib.format.open_memmap(tmp_path / "x.npy", mode="r+")[:] = -1
    os.remove(tmp_path / "x.npy")
    for x in arrays:
        check(x, value)


def test_saving_replaces_a_file_that_is_in_use(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    gs.save(path, gs.device_put(np.arange(8)))
    mapped = np.load(path, mmap_mode="r")
    gs.save(path, gs.device_put(np.full(8, -1), named("x")))
    assert mapped.tolist() == list(range(8))
    assert np.load(path).tolist() == [-1] * 8


def test_a_failed_save_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    gs.save(path, gs.device_put(np.arange(8)))
    lost, gate = gated(gs.device_put(np.zeros(8), named("x")), error=OSError("disk"))
    gate.open()
    with pytest.raises(ExecutionError):
        gs.save(path, lost)
    with pytest.raises(FileFormatError, match="missing"):
        gs.save(tmp_path / "missing" / "x.npy", gs.device_put(np.arange(8)))
    assert np.load(path).tolist() == list(range(8))
    assert os.listdir(tmp_path) == ["x.npy"]


def test_saving_waits_for_the_value(tmp_path: Path) -> None:
    x, gate = gated(gs.device_put(np.arange(8), named("x")))
    gate.open()
    gs.save(tmp_path / "x.npy", x)
    assert np.load(tmp_path / "x.npy").tolist() == list(range(8))
