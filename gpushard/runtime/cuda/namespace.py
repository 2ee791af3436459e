"""NumPy's functions for arrays on GPUs: CuPy's, but for those that are written again here."""

from __future__ import annotations

from typing import Any

import cupy

from gpushard.runtime.cuda import fft as fft
from gpushard.runtime.cuda.fft import with_plans_of_stream

convolve = with_plans_of_stream(cupy.convolve)
correlate = with_plans_of_stream(cupy.correlate)


def __getattr__(name: str) -> Any:
    return getattr(cupy, name)
