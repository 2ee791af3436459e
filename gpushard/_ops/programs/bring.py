"""Steps that bring values to other layouts."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.planning.holdings import held_elements
from gpushard._movement.reshard import Mover
from gpushard._ops.operand import placed
from gpushard._ops.steps import Draft, Runnable
from gpushard._runtime.runtime import Runtime
from gpushard._typing import Dtype, HostArray, IntArray


class Bring(Runnable):
    """Copies a value to another tiling.

    Args:
      runtime: the runtime of its devices.
      source: the tiling of the value.
      to: the tiling of the result.
      itemsize: bytes of an element.
      name: the name of the operation, for errors.
    """

    def __init__(
        self, runtime: Runtime, source: Tiling, to: Tiling, itemsize: int, name: str
    ) -> None:
        self._source, self._to, self._itemsize = source, to, itemsize
        self.mover = Mover(runtime, source, to, itemsize, name)
        self.run = self.mover.run
        self.writes = (self.mover.bytes_written,)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the plan."""
        return self.mover.nbytes

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives."""
        return lacking_bytes(self._source, self._to, self._itemsize)


class Place(Runnable):
    """Copies data of the host to devices."""

    def __init__(self, runtime: Runtime, tiling: Tiling, dtype: Dtype) -> None:
        self._runtime, self._tiling = runtime, tiling
        self.writes = (held_elements(tiling) * dtype.itemsize,)

    def run(self, operands: Sequence[HostArray], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Copy the data."""
        return [placed(self._runtime, operands[0], self._tiling)]


def bring(
    draft: Draft, value: int, runtime: Runtime, source: Tiling, to: Tiling, itemsize: int, name: str
) -> int:
    """Bring a value to a tiling, if it is in another one; return the number of the result."""
    if to is source:
        return value
    (value,) = draft.add(Bring(runtime, source, to, itemsize, name), [value])
    return value


def lacking(source: Tiling, to: Tiling) -> int:
    """Count the elements of a tiling that devices do not have in another one, `source`."""
    return 0 if source is to else int(lacking_each(source, to).sum())


def lacking_bytes(source: Tiling, to: Tiling, itemsize: int) -> Counter[Any]:
    """Count for each device the bytes of a tiling that it does not have in another one."""
    nbytes = (lacking_each(source, to) * itemsize).tolist()
    return Counter(dict(zip(to.devices, nbytes, strict=True)))


@functools.lru_cache(maxsize=4096)
def lacking_each(source: Tiling, to: Tiling) -> IntArray:
    """Count for each device the elements of a tiling that it does not have in another one."""
    at = {device: n for n, device in enumerate(source.devices)}
    places = np.array([at.get(device, -1) for device in to.devices], np.int64)
    common: IntArray = np.asarray(places >= 0, np.int64)
    for dim in range(len(source.shape)):
        low = np.maximum(source.starts[dim][places], to.starts[dim])
        high = np.minimum(source.stops[dim][places], to.stops[dim])
        common = common * np.maximum(high - low, 0)
    return np.asarray(to.volumes - common)
