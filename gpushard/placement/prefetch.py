"""Batches on their way to devices before they are asked for, and memory given back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.placement.device_put import device_put
from gpushard.runtime import current


def prefetch(batches: Iterable[Any], sharding: Any = None, *, size: int = 2) -> Iterator[Any]:
    """Yield batches placed on devices, with the next ones on their way already.

    When a batch is asked for, the one `size` after the last is placed, so that copies to the
    devices run while those compute. No more than `size` batches are held beside the last one,
    which is in use until then.

    Args:
      batches: pytrees of arrays on the host.
      sharding: where to: what `device_put` takes as `device`, for every batch.
      size: how many batches are placed ahead, at least 1.

    Yields:
      The batches, in order, as `device_put` returns them.

    Raises:
      ArgumentError: `size` is less than 1.
      ArgumentTypeError: `batches` cannot be iterated over.
      ShardingError: the sharding does not fit a batch; the batches before it come first.

    >>> import numpy as np
    >>> batches = ({"x": np.full(2, i)} for i in range(3))
    >>> [batch["x"].tolist() for batch in prefetch(batches)]
    [[0, 0], [1, 1], [2, 2]]
    """
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise ArgumentError.refusing(
            "size", size, "must be an integer of at least 1: how many batches are placed ahead"
        )
    try:
        return _put_ahead(iter(batches), sharding, size)
    except TypeError:
        raise ArgumentTypeError(
            f"batches is a {type(batches).__name__}; give something to iterate over, such as a "
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
                except Exception as raised:  # told when it is its turn
                    error, ended = raised, True
            if not waiting:
                break
            yield waiting.popleft()
        if error is not None:
            raise error
    finally:
        del error  # it has this frame, which has the source: a cycle


def empty_cache() -> int:
    """Give memory that no array uses back to the system, for others on the same device.

    Memory of deleted arrays is kept for new ones. This gives up what nothing uses at this moment;
    what is still being read or written stays.

    Returns:
      The bytes given back.

    >>> import numpy as np
    >>> from gpushard.testing import runtime
    >>> with runtime(small_bytes=0):
    ...     device_put(np.zeros(1024)).delete()
    ...     empty_cache()
    8192
    """
    return current.current().empty_cache()
