"""`.npy` files, shard by shard."""

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpushard as gs
from gpushard._placement import npy
from gpushard.errors import ExecutionError, FileAccessError, FileFormatError
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


@pytest.mark.one_of(3)
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


@pytest.mark.parametrize("value", [np.arange(6).reshape(2, 3), np.ones((0, 3), ">f4"), 3])
def test_data_on_the_host_is_saved_too(tmp_path: Path, value: Any) -> None:
    gs.save(tmp_path / "x.npy", value)
    np.save(tmp_path / "numpys.npy", value)
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


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


@pytest.mark.parametrize("readable", [True, False])
def test_a_disk_that_fails_as_it_is_written_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, readable: bool
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("disk")

    path = tmp_path / "x.npy"
    gs.save(path, gs.device_put(np.arange(8)))
    if readable:
        monkeypatch.setattr(npy, "_read", fail)
    else:  # as on GPUs
        monkeypatch.setattr(npy, "_host_blocks", lambda data: None)
        monkeypatch.setattr(np.memmap, "flush", fail)
    with pytest.raises(FileFormatError, match="cannot be written: disk"):
        gs.save(path, gs.device_put(np.zeros(8)))
    assert np.load(path).tolist() == list(range(8))
    assert os.listdir(tmp_path) == ["x.npy"]


@pytest.mark.parametrize("shape", [(), (0, 3), (40,), (6, 8), (2, 3, 8), (1, 24)])
@pytest.mark.parametrize("chunk", [1, 48, 100, 4096])
def test_pieces_of_any_size_make_numpys_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], chunk: int
) -> None:
    """Also through mapped memory, as from GPUs."""
    value = np.random.default_rng(0).random(shape)
    np.save(tmp_path / "numpys.npy", value)
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    specs = [gs.P(), *(gs.P(*(None,) * dim, ("y", "x")) for dim in range(len(shape)))]
    if len(shape) > 1:
        specs.append(gs.P("y", "x"))
    monkeypatch.setattr(npy, "_CHUNK", chunk)
    for mapped in (False, True):
        if mapped:
            monkeypatch.setattr(npy, "_host_blocks", lambda data: None)
        for spec in specs:
            gs.save(tmp_path / "x.npy", gs.device_put(value, gs.NamedSharding(mesh, spec)))
            assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


def test_saving_waits_for_the_value(tmp_path: Path) -> None:
    x, gate = gated(gs.device_put(np.arange(8), named("x")))
    gate.open()
    gs.save(tmp_path / "x.npy", x)
    assert np.load(tmp_path / "x.npy").tolist() == list(range(8))


NOT_OF_NUMPY = [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4]


@pytest.mark.parametrize("dtype", NOT_OF_NUMPY, ids=lambda dtype: dtype.__name__)
@pytest.mark.parametrize("shape", [(), (0, 3), (7, 5)])
def test_types_that_numpy_cannot_name_come_back(
    tmp_path: Path, dtype: Any, shape: tuple[int, ...]
) -> None:
    value = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    for place in PLACES[1:4] if shape else PLACES[1:3]:
        gs.save(tmp_path / "x.npy", gs.device_put(value, place()))
        assert np.array_equal(np.load(tmp_path / "x.npy").view(dtype), value)
        check(gs.load(tmp_path / "x.npy", place()), value)


def test_bfloat16_is_what_numpy_and_jax_write_for_it(tmp_path: Path) -> None:
    value = np.arange(6).astype(ml_dtypes.bfloat16)
    np.save(tmp_path / "numpy.npy", value)
    check(gs.load(tmp_path / "numpy.npy", named("x")), value)
    gs.save(tmp_path / "own.npy", gs.device_put(value, named("x")))
    assert np.load(tmp_path / "own.npy").dtype == np.load(tmp_path / "numpy.npy").dtype


def test_a_record_that_only_looks_like_one_type_is_refused(tmp_path: Path) -> None:
    for name, size in ("f4", 4), ("bfloat16", 4), ("float8_of_the_future", 1):
        np.save(tmp_path / "x.npy", np.zeros(3, [(name, f"V{size}")]))
        with pytest.raises(FileFormatError):
            gs.load(tmp_path / "x.npy")


@pytest.mark.parametrize("call", ["posix_fallocate", "none"])
def test_room_is_taken_before_the_first_element_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """Up to the last byte, which is alone on its page; behind it there is nothing."""
    value, write, rooms = np.zeros(3 * 4096 - 128 + 1, np.int8), npy._write, []
    np.save(tmp_path / "numpys.npy", value)

    def measured(*arguments: Any) -> None:
        (part,) = tmp_path.glob(".*.part")
        rooms.append(part.stat().st_blocks * 512)
        write(*arguments)

    monkeypatch.setattr(npy, "_write", measured)
    monkeypatch.setattr(npy, "_CHUNK", 4096)
    if call == "none":  # as on macOS
        monkeypatch.delattr(os, "posix_fallocate")
    gs.save(tmp_path / "x.npy", gs.device_put(value))
    assert rooms[0] >= 3 * 4096 + 1
    assert (tmp_path / "x.npy").read_bytes() == (tmp_path / "numpys.npy").read_bytes()


def test_a_disk_that_refuses_leaves_nothing_but_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    gs.save(tmp_path / "x.npy", gs.device_put(np.arange(8)))
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left") as raised:
        gs.save(tmp_path / "x.npy", gs.device_put(np.zeros(8)))
    assert isinstance(raised.value, FileAccessError) and raised.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == ["x.npy"]
    assert np.load(tmp_path / "x.npy").tolist() == list(range(8))


_FILL = """
import errno, os, sys
import numpy as np
import gpushard as gs

try:
    gs.save(sys.argv[1] + "/x.npy", gs.device_put(np.ones(1 << 20)))
except OSError as error:
    assert error.errno == errno.ENOSPC and os.listdir(sys.argv[1]) == []
    print("refused")
"""


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=1m none "$0" && exec "$@"']
    if shutil.which("unshare") is None or subprocess.run([*mount, tmp_path, "true"]).returncode:
        pytest.skip("a small disk cannot be mounted here")
    command = [*mount, tmp_path, sys.executable, "-c", _FILL, tmp_path]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "refused\n"), done.stderr
