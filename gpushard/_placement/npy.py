"""Read and write `.npy` files, shard by shard.

The format can name only NumPy's own types. bfloat16 is written as in NumPy and JAX, as two raw
bytes, and read back as bfloat16, as in JAX. Other types of `ml_dtypes` are written as a record with
one field, named after the type.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpushard._array.array import Array
from gpushard._array.guards import DEVICE_TO_HOST, check_transfer
from gpushard._array.key_array import refuse_keys
from gpushard._functions.element_types import check_dtype
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.distinct_blocks import blocks_of, box_of
from gpushard._movement.sharding_devices import devices_of
from gpushard._movement.to_host import fetch
from gpushard._placement.default_placement import default_sharding
from gpushard._placement.device_put import as_host_array, as_sharding
from gpushard._placement.make_array import make_array_from_callback
from gpushard._typing import HostArray, Index, Shape
from gpushard.errors import ArgumentTypeError, FileAccessError, FileFormatError, MissingLibraryError

_CHUNK = 2 << 20  # bytes written at once
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
      allow_pickle: has no effect, since arrays of numbers need no pickle.

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
        start = _create(part, arr.shape, arr.dtype)
        _write(data, part, start)
        os.replace(part, target)
    except (OSError, ValueError) as error:
        raise _file_error(f"{target} cannot be written: {error}", target, error) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()


def _create(path: Path, shape: Shape, dtype: np.dtype[Any]) -> int:
    """Write the header of a new file, and reserve the disk space of its elements.

    Return the position of the first element in the file.

    Memory mapped to a hole of a file takes space when it is first written. If there is none by
    then, the system ends the process.
    """
    nbytes = math.prod(shape) * dtype.itemsize
    descr = np.lib.format.dtype_to_descr(_stored_dtype(dtype))
    with path.open("wb") as file:
        header = {"descr": descr, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        start = file.tell()
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, start + nbytes)
        else:
            for at in range(0, nbytes, _CHUNK):
                file.write(bytes(min(_CHUNK, nbytes - at)))
    return start


def _host_blocks(data: ShardedBuffer | HostArray) -> list[tuple[Index, HostArray]] | None:
    """Return the blocks of a computed value with their indices; None if the host cannot read it."""
    if isinstance(data, np.ndarray):
        return [(tuple(slice(0, n) for n in data.shape), data)]
    if not devices_of(data.tiling)[0].domain.readable:
        return None
    blocks, view = blocks_of(data.tiling), data.runtime.backend.host_view
    return [
        (
            _in_numbers(blocks.indices[pair], data.tiling.shape),
            view(data.values[at], data.claims[at]),
        )
        for pair, at in ((pair, blocks.homes[pair]) for pair in blocks.distinct)
    ]


def _in_numbers(index: Index, shape: Shape) -> Index:
    """Return an index with a number for each start and stop."""
    return tuple(slice(*at.indices(n)[:2]) for at, n in zip(index, shape, strict=True))


def _write(data: ShardedBuffer | HostArray, path: Path, start: int) -> None:
    """Write a computed value behind the header of a file.

    This thread writes a value that the host can read. Others are copied to mapped memory.
    """
    if (blocks := _host_blocks(data)) is None:
        assert isinstance(data, ShardedBuffer)
        mapped = np.lib.format.open_memmap(path, mode="r+")
        fetch(data, mapped.view(data.dtype))
        mapped.flush()
        return
    shape: Shape = data.shape if isinstance(data, np.ndarray) else data.tiling.shape
    with path.open("r+b") as file:
        file.seek(start)
        room = np.empty(_CHUNK // data.dtype.itemsize + 1, data.dtype)
        for piece in _pieces(shape, data.dtype.itemsize, [index for index, _ in blocks]):
            elements = np.ascontiguousarray(_read(blocks, piece, room))
            raw: Any = elements.reshape(-1).view(np.uint8)
            file.write(raw)


def _pieces(shape: Shape, itemsize: int, boxes: Sequence[Index]) -> Iterator[Index]:
    """Yield the indices of pieces of an array that follow each other in a file.

    Pieces have at most `_CHUNK` bytes, or one element. They end where boxes of the array end.

    >>> list(_pieces((2, 300_000), 8, [(slice(0, 1), slice(0, 300_000))]))[2]
    (slice(1, 2, None), slice(0, 262144, None))
    """
    if not shape or 0 in shape:
        yield tuple(slice(0, n) for n in shape)
        return
    nbytes = [math.prod(shape[dim + 1 :]) * itemsize for dim in range(len(shape))]
    cut = next((dim for dim, of_row in enumerate(nbytes) if of_row <= _CHUNK), len(shape) - 1)
    rows, size = max(1, _CHUNK // nbytes[cut]), shape[cut]
    edges = sorted({size, *range(0, size, rows), *(box[cut].start for box in boxes)})
    rest = tuple(slice(0, n) for n in shape[cut + 1 :])
    for first in np.ndindex(shape[:cut]):
        lead = tuple(slice(n, n + 1) for n in first)
        for start, stop in itertools.pairwise(edges):
            yield (*lead, slice(start, stop), *rest)


def _read(blocks: list[tuple[Index, HostArray]], piece: Index, room: HostArray) -> HostArray:
    """Return the elements of a piece: a view of the only block that has some, or of `room`."""
    shape = [at.stop - at.start for at in piece]
    elements: HostArray = room[: math.prod(shape)].reshape(shape)
    for index, block in blocks:
        both = [
            slice(max(at.start, of.start), min(at.stop, of.stop))
            for at, of in zip(piece, index, strict=True)
        ]
        if all(at.start < at.stop for at in both):
            part = box_of(block, _within(both, index))
            if part.shape == elements.shape:
                return part
            elements[_within(both, piece)] = part
    return elements


def _within(box: Sequence[slice], around: Index) -> Index:
    """Return the index of a box in an array that begins elsewhere."""
    return tuple(
        slice(at.start - of.start, at.stop - of.start) for at, of in zip(box, around, strict=True)
    )


def checked_path(file: Any) -> Path:
    """Check a path argument, and return it as a `Path`."""
    try:
        return Path(file)
    except TypeError:
        raise ArgumentTypeError.refusing(
            "file", file, "must be a path: a str or a pathlib.Path"
        ) from None
