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
from gpushard._movement.planning.rearrangements import extend
from gpushard._movement.rearrange import plan_of, rearrange
from gpushard._movement.reshard import Mover
from gpushard._ops.operand import placed
from gpushard._ops.steps import Draft, Runnable
from gpushard._runtime.runtime import Runtime
from gpushard._typing import Dtype, HostArray, IntArray, Shape


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

    @property
    def bytes_received(self) -> int:
        """Bytes that memory domains receive from others."""
        return self.mover.bytes_received

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives."""
        return lacking_bytes(self._source, self._to, self._itemsize)


class Extend(Runnable):
    """Copies boxes of a value that continues beyond its ends, where it begins again.

    Args:
      runtime: the runtime of its devices.
      source: the tiling of the value.
      to: the tiling of the result, whose shape has more elements.
      before: how many of them are ahead of the first element in each dim.
      itemsize: bytes of an element.
      name: the name of the operation, for errors.
    """

    def __init__(
        self, runtime: Runtime, source: Tiling, to: Tiling, before: Shape, itemsize: int, name: str
    ) -> None:
        self._source, self._to, self._before = source, to, before
        self._itemsize, self._name = itemsize, name
        shapes = zip(to.shape, source.shape, before, strict=True)
        self._how = extend(source.shape, before, tuple([m - n - low for m, n, low in shapes]))
        self._plan = plan_of(runtime, self._how, source, to, itemsize)
        self.writes = (self._plan.bytes_written,)

    @property
    def nbytes(self) -> int:
        """Approximate bytes of the plan."""
        return self._plan.nbytes

    @property
    def bytes_received(self) -> int:
        """Bytes that memory domains receive from others."""
        return self._plan.bytes_received

    def run(self, operands: Sequence[ShardedBuffer], numbers: Sequence[Any]) -> list[ShardedBuffer]:
        """Copy the data."""
        return [rearrange(operands, self._how, self._to, self._name)]

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        """Count the bytes that each device receives."""
        return lacking_bytes(self._source, self._to, self._itemsize, self._before)


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


def lacking_bytes(
    source: Tiling, to: Tiling, itemsize: int, before: Shape | None = None
) -> Counter[Any]:
    """Count for each device the bytes of a tiling that it does not have in another one."""
    nbytes = (lacking_each(source, to, before) * itemsize).tolist()
    return Counter(dict(zip(to.devices, nbytes, strict=True)))


@functools.lru_cache(maxsize=4096)
def lacking_each(source: Tiling, to: Tiling, before: Shape | None = None) -> IntArray:
    """Count for each device the elements of a tiling that it does not have in another one.

    Args:
      source: the other tiling.
      to: the tiling.
      before: how many elements of it are ahead of those of the other one, where it goes on beyond
        both ends as `Extend` does.
    """
    at = {device: n for n, device in enumerate(source.devices)}
    places = np.array([at.get(device, -1) for device in to.devices], np.int64)
    common: IntArray = np.asarray(places >= 0, np.int64)
    for dim, n in enumerate(source.shape):
        present = np.zeros(len(places), np.int64)
        for ahead in (0,) if before is None else (before[dim] - n, before[dim], before[dim] + n):
            low = np.maximum(source.starts[dim][places] + ahead, to.starts[dim])
            high = np.minimum(source.stops[dim][places] + ahead, to.stops[dim])
            present += np.maximum(high - low, 0)
        common = common * present
    return np.asarray(to.volumes - common)
