"""CuPy's Fourier transforms, with plans that belong to streams.

CuPy keeps plans for each thread and GPU, and a plan owns memory that its transform works in. Two
streams that one thread gives transforms of the same size would share it, and overwrite what the
other one has there.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import cupy
from cupy.fft import config

from gpushard.runtime.cuda.driver.cupy_scope import current_stream


def with_plans_of_stream(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of CuPy's that finds the plans of the current stream, and no others.

    Those that the thread has for its own use are set aside meanwhile, within CuPy's cache and its
    limits; outside of a scope it uses these.

    Args:
      function: makes Fourier transforms.
    """

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        stream = current_stream()
        if stream is None:
            return function(*args, **options)
        cache = config.get_plan_cache()
        outer = _exchange(cache, stream.plans)
        try:
            return function(*args, **options)
        finally:
            stream.plans = _exchange(cache, outer)

    return call


def _exchange(cache: Any, plans: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Put plans with their keys into a cache, the oldest first, and return those it had."""
    before = [(key, node.plan) for key, node in cache][::-1]
    for key, _ in before:  # not clear(), which collects garbage
        del cache[key]
    for key, plan in plans:
        with contextlib.suppress(RuntimeError):  # too large by now, if the limits have changed
            cache[key] = plan
    return before


fft = with_plans_of_stream(cupy.fft.fft)
ifft = with_plans_of_stream(cupy.fft.ifft)
rfft = with_plans_of_stream(cupy.fft.rfft)
irfft = with_plans_of_stream(cupy.fft.irfft)
hfft = with_plans_of_stream(cupy.fft.hfft)
ihfft = with_plans_of_stream(cupy.fft.ihfft)
