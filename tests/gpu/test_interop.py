"""What CuPy makes of the memory of arrays, and what it does not."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import deferred
from gpushard.testing.runtime import using
from tests.gpu.device import Split, make_driver, make_gpu_runtime, needs_gpu

pytestmark = needs_gpu


class Producer:
    """Hands on what CuPy would not ask for."""

    def __init__(self, x: gs.Array, **options: Any) -> None:
        self.x, self.options = x, options

    def __dlpack_device__(self) -> Any:
        return self.x.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.x.__dlpack__(**{**options, **self.options})


@pytest.mark.parametrize("options", [{}, {"max_version": None}, {"stream": -1}], ids=str)
def test_a_copy_is_the_consumers_own(options: dict[str, Any]) -> None:
    cupy = importlib.import_module("cupy")
    with using(make_gpu_runtime(make_driver("cupy"), Split(2, False))):
        x = deferred(gs.device_put(np.arange(64.0), gs.devices()[1]), lambda v: v + 1)
        copied = cupy.from_dlpack(Producer(x, copy=True, **options))
        shared = cupy.from_dlpack(Producer(x, copy=False))
        assert shared.data.ptr == x.unsafe_buffer_pointer() != copied.data.ptr
        copied += 1
        assert np.array_equal(cupy.asnumpy(copied), np.arange(64.0) + 2)
        assert np.array_equal(x, np.arange(64.0) + 1)


def test_libraries_take_the_cuda_array_interface() -> None:
    cupy = importlib.import_module("cupy")
    with using(make_gpu_runtime(make_driver("cupy"), Split(2, False))):
        x = deferred(gs.device_put(np.arange(64.0), gs.devices()[1]), lambda v: v + 1)
        shared = cupy.asarray(x)
        assert shared.data.ptr == x.unsafe_buffer_pointer()
        assert np.array_equal(cupy.asnumpy(shared), np.arange(64.0) + 1)
        assert x.__cuda_array_interface__["data"] == (shared.data.ptr, False)
