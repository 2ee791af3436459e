"""`.npy` files, read and written shard by shard."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from gpushard.array.array import Array
from gpushard.array.checks import check_dtype
from gpushard.array.guards import DEVICE_TO_HOST, check_transfer
from gpushard.errors import ArgumentTypeError, FileFormatError
from gpushard.movement.blocks import blocks_of
from gpushard.movement.buffer import ShardedBuffer, devices_of
from gpushard.movement.host_copies import fetch
from gpushard.placement.defaults import default_sharding
from gpushard.placement.device_put import as_sharding
from gpushard.placement.make_array import make_array_from_callback
from gpushard.typing import HostArray

PathLike: TypeAlias = str | os.PathLike[str]


def open_npy(file: PathLike) -> HostArray:
    """Map a `.npy` file into memory, read-only.

    Args:
      file: its path.

    Raises:
      FileFormatError: it cannot be read, is no `.npy` file, is shorter than it says, or holds
        elements that are not numbers.
    """
    path = _checked_path(file)
    try:
        data: HostArray = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise FileFormatError(
            f"{path} cannot be read as a .npy file: {error}. Write it with numpy.save or "
            "gpushard.save",
            argument="file",
            file=str(path),
        ) from error
    try:
        check_dtype(data.dtype, str(path))
    except ArgumentTypeError as error:
        raise FileFormatError(
            str(error), argument="file", file=str(path), dtype=data.dtype
        ) from None
    return data


def load(
    file: PathLike, sharding: Any = None, *, progress: Callable[[int], None] | None = None
) -> Array:
    """Read an array from a `.npy` file, shard by shard; the host never holds a whole copy.

    Args:
      file: its path.
      sharding: how to lay it out: a sharding, a device, or a spec within `with mesh:`; where new
        data goes by default if None.
      progress: called with the bytes of each box before it is read.

    Returns:
      The array.

    Raises:
      FileFormatError: the file cannot be read, is cut short, or does not hold numbers.
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


def save(file: PathLike, x: Array) -> None:
    """Write an array to a `.npy` file, shard by shard; the host never holds a whole copy.

    The file appears under its name only when it is complete.

    Args:
      file: its path.
      x: the array.

    Raises:
      ArgumentTypeError: `x` is no `Array`.
      FileFormatError: the file cannot be written.
      ExecutionError: the work that should have made the value failed.

    >>> import tempfile
    >>> import gpushard as gs
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder) / "x.npy", gs.device_put(np.arange(3)))
    ...     np.load(Path(folder) / "x.npy")
    array([0, 1, 2])
    """
    if not isinstance(x, Array):
        raise ArgumentTypeError(
            f"x is a {type(x).__name__}; save writes gpushard arrays, use numpy.save for others",
            argument="x",
        )
    target = _checked_path(file)
    check_transfer(DEVICE_TO_HOST, "save(file, x)", explicit=True)
    buffer = x.block_until_ready()._live()
    # Joined to the parent: a path without a name must fail as one that cannot be written.
    part = target.parent / f".{target.name}.{os.getpid()}.{threading.get_ident()}.part"
    try:
        mapped = np.lib.format.open_memmap(part, mode="w+", dtype=x.dtype, shape=x.shape)
        _write(buffer, mapped)
        mapped.flush()
        del mapped
        os.replace(part, target)
    except (OSError, ValueError) as error:
        raise FileFormatError(
            f"{target} cannot be written: {error}", argument="file", file=str(target)
        ) from error
    finally:
        with contextlib.suppress(OSError, ValueError):
            part.unlink()


def _write(buffer: ShardedBuffer, mapped: HostArray) -> None:
    """Write a value that is there to mapped memory, on this thread if the host can read it."""
    if not devices_of(buffer.tiling)[0].domain.readable:
        fetch(buffer, mapped)
        return
    blocks = blocks_of(buffer.tiling)
    for pair in blocks.distinct:
        home = blocks.homes[pair]
        mapped[blocks.indices[pair]] = buffer.runtime.backend.host_view(
            buffer.values[home], buffer.claims[home]
        )


def _checked_path(file: Any) -> Path:
    try:
        return Path(file)
    except TypeError:
        raise ArgumentTypeError(
            f"file={file!r} must be a path: a str or a pathlib.Path",
            argument="file",
            type=type(file),
        ) from None
