"""Read and write `.npy` files, shard by shard.

The format can name only NumPy's own types. bfloat16 is written as in NumPy and JAX, as two raw
bytes, and read back as bfloat16, as in JAX. Other types of `ml_dtypes` are written as a record with
one field, named after the type.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpushard._array.array import Array
from gpushard._array.guards import DEVICE_TO_HOST, check_transfer
from gpushard._array.key_array import refuse_keys
from gpushard._functions.element_types import check_dtype
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import fetch
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.device_put import as_host_array, as_sharding
from gpushard._placement.make_array import make_array_from_callback
from gpushard._typing import HostArray
from gpushard.errors import ArgumentTypeError, FileAccessError, FileFormatError, MissingLibraryError

_CHUNK = 1 << 20  # bytes written at once
PathLike: TypeAlias = str | os.PathLike[str]


def open_npy(file: PathLike) -> HostArray:
    """Map a `.npy` file into memory, read-only."""
    path = checked_path(file)
    try:
        data: HostArray = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise _file_error(
            f"{path} cannot be read as a .npy file: {error}. Write it with numpy.save or "
            "gpushard.save",
            path,
            error,
        ) from error
    try:
        data = data.view(_dtype_of_stored(data.dtype))
        check_dtype(data.dtype, str(path))
    except (ArgumentTypeError, MissingLibraryError) as error:
        raise FileFormatError(
            str(error), argument="file", file=str(path), dtype=data.dtype
        ) from None
    return data


def _file_error(message: str, path: Path, error: Exception) -> FileFormatError:
    """Return the error for a file that the system or NumPy cannot read or write."""
    if isinstance(error, OSError):
        return FileAccessError(message, argument="file", file=str(path), errno=error.errno)
    return FileFormatError(message, argument="file", file=str(path))


def _stored_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of a file for a type of elements."""
    if dtype.isbuiltin != 2:
        return dtype
    raw = np.dtype((np.void, dtype.itemsize))
    return raw if dtype.name == "bfloat16" else np.dtype([(dtype.name, raw)])


def _dtype_of_stored(stored: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type of elements for a type of a file."""
    if stored == np.dtype("V2"):
        name = "bfloat16"
    elif stored.names is not None and len(stored.names) == 1 and stored[0].kind == "V":
        name = stored.names[0]
    else:
        return stored
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise MissingLibraryError(
            f"the file holds {name}, which NumPy does not know by itself: import ml_dtypes first",
            library="ml_dtypes",
        ) from None
    return dtype if dtype.isbuiltin == 2 and dtype.itemsize == stored.itemsize else stored


def load(
    file: PathLike, sharding: Any = None, *, progress: Callable[[int], None] | None = None
) -> Array:
    """Read an array from a `.npy` file, shard by shard, without the whole array in host memory.

    Args:
      file: the path of the file.
      sharding: the place of the array: a sharding, a device, or a `PartitionSpec` in a `with mesh:`
        block. None puts the array where new arrays go.
      progress: a function that is called before each part of the file is read, with the size of the
        part in bytes.

    Returns:
      The array.

    Raises:
      FileAccessError: the file is missing, or cannot be read.
      FileFormatError: the file is not a `.npy` file, is cut short, or does not hold numbers.
      ShardingError: the sharding does not fit the shape.
    """
    data = open_npy(file)
    if sharding is None:
        target: Any = default_sharding(data.shape)
    else:
        target = as_sharding(sharding, data.ndim, "sharding")

    def read(index: Any) -> HostArray:
        box: HostArray = data[index]
        if progress is not None:
            progress(box.nbytes)
        return box

    return make_array_from_callback(data.shape, target, read)


def save(file: PathLike, arr: Any, allow_pickle: bool = True) -> None:
    """Write an array to a `.npy` file, shard by shard, without the whole array in host memory.

    The file gets its name only when it is complete, so readers never see a part of it.

    Args:
      file: its path.
      arr: the array, on devices or on the host.
      allow_pickle: ignored: numbers need no pickle.

    Raises:
      ArgumentTypeError: `arr` is not an array of numbers.
      FileAccessError: the file cannot be written, for example because the disk is full.
      ExecutionError: the work that computes the value failed.

    >>> import tempfile
    >>> import gpushard as gs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "x.npy", gs.device_put(np.arange(3)))
    ...     np.load(Path(folder) / "x.npy")
    array([0, 1, 2])
    """
    target = checked_path(file)
    if isinstance(arr, Array):
        refuse_keys(arr, "save(file, keys)")
        check_transfer(DEVICE_TO_HOST, "save(file, arr)", explicit=True)
        data: ShardedBuffer | HostArray = arr.block_until_ready()._live()
    else:
        data = arr = as_host_array(arr, "arr")[0]
    # Join to the parent, so a path without a name fails as a path that cannot be written.
    part = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        mapped = np.lib.format.open_memmap(
            part, mode="w+", dtype=_stored_dtype(arr.dtype), shape=arr.shape
        )
        _reserve(mapped, part)
        _write(data, mapped.view(arr.dtype))
        mapped.flush()
        del mapped
        os.replace(part, target)
    except (OSError, ValueError) as error:
        raise _file_error(f"{target} cannot be written: {error}", target, error) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()


def _reserve(mapped: np.memmap[Any, Any], path: Path) -> None:
    """Reserve the disk space of a new file.

    Memory mapped to a hole of a file takes space when it is first written. If there is none by
    then, the system ends the process.
    """
    with path.open("r+b", buffering=0) as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, mapped.offset + mapped.nbytes)
        else:
            file.seek(mapped.offset)
            for start in range(0, mapped.nbytes, _CHUNK):
                file.write(bytes(min(_CHUNK, mapped.nbytes - start)))


def _write(buffer: ShardedBuffer | HostArray, mapped: HostArray) -> None:
    """Write a computed value to mapped memory, on this thread if the host can read the value."""
    if isinstance(buffer, np.ndarray):
        mapped[...] = buffer
        return
    if not devices_of(buffer.tiling)[0].domain.readable:
        fetch(buffer, mapped)
        return
    blocks = blocks_of(buffer.tiling)
    for pair in blocks.distinct:
        home = blocks.homes[pair]
        mapped[blocks.indices[pair]] = buffer.runtime.backend.host_view(
            buffer.values[home], buffer.claims[home]
        )


def checked_path(file: Any) -> Path:
    """Check a path argument, and return it as a `Path`."""
    try:
        return Path(file)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "file", file, "must be a path: a str or a pathlib.Path"
        ) from None
