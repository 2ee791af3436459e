"""Memory of GPUs, and arrays in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._runtime.cuda.memory.stores import GpuStore
from tests.runtime.cuda.fake_driver import FakeDriver


def test_views_say_up_to_where_their_block_goes() -> None:
    ends = []

    class Recording(FakeDriver):
        def array(self, gpu: int, start: int, nbytes: int, *rest: Any) -> Any:
            ends.append(start + nbytes)
            return super().array(gpu, start, nbytes, *rest)

    store = GpuStore(Recording(1, 4 << 20), 0, 1 << 20)
    block = store.allocate(4096)
    store.views(block, (0, 512, 1024), (((8,), np.dtype(float)),) * 3)
    assert ends == [block.address + block.nbytes] * 3
