"""Move batches to devices in advance."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from gpushard._placement.device_put import device_put
from gpushard.errors import ArgumentError, ArgumentTypeError


def prefetch(batches: Iterable[Any], sharding: Any = None, *, size: int = 2) -> Iterator[Any]:
    """Yield batches on devices, and copy the next batches there in advance.

    `prefetch` keeps up to `size` batches on the devices: the last one that you took, and the next
    ones. When you take a batch, it starts to copy another one, so copies run while the devices
    compute. With a `size` of 1, it copies nothing in advance.

    Args:
      batches: pytrees of arrays on the host.
      sharding: the place of every batch, as `device_put` takes it.
      size: the number of batches on the devices, with the one that you took; at least 1.

    Yields:
      The batches, in order, as `device_put` returns them.

    Raises:
      ArgumentError: `size` is less than 1.
      ArgumentTypeError: `batches` cannot be iterated over.
      ShardingError: the sharding does not fit a batch. The error is raised after all earlier
        batches were yielded.

    >>> import numpy as np
    >>> batches = ({"x": np.full(2, i)} for i in range(3))
    >>> [batch["x"].tolist() for batch in prefetch(batches)]
    [[0, 0], [1, 1], [2, 2]]
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ArgumentError.refusing(
            "size",
            size,
            "must be an integer of at least 1: the number of batches on the devices",
        )
    try:
        return _put_ahead(iter(batches), sharding, size)
    except TypeError:
        raise ArgumentTypeError(
            f"batches is a {type(batches).__name__}; give an iterable, such as a "
            "generator of arrays",
            argument="batches",
            type=type(batches),
        ) from None


def _put_ahead(batches: Iterator[Any], sharding: Any, size: int) -> Iterator[Any]:
    waiting: deque[Any] = deque()
    error: Exception | None = None
    ended = False
    try:
        while True:
            while not ended and len(waiting) < size:
                try:
                    waiting.append(device_put(next(batches), sharding))
                except StopIteration:
                    ended = True
                except Exception as raised:  # raised when its batch is due
                    error, ended = raised, True
            if not waiting:
                break
            yield waiting.popleft()
        if error is not None:
            raise error
    finally:
        del error  # breaks a cycle: the error refers to this frame, which refers to the source
