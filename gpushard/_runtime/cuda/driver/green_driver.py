"""Make calls of CUDA's green contexts, through cuda-bindings.

A green context belongs to the primary context of its GPU and shares its memory, events and modules.
The primary context stays current. Work on a stream gets its multiprocessors from the context in
which the stream was made, not from the current one ("APIs Operating on Context Resources",
https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EXECUTION__CONTEXT.html). Waiting for
the primary context waits for its green contexts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from gpushard._runtime.cuda.devices.green_partitions import (
    Partition,
    check_driver,
    equal_groups,
    no_library,
    refused,
)
from gpushard._runtime.cuda.driver.driver import Share
from gpushard._runtime.cuda.driver.libraries import INSTALLED, Libraries, one_line

_MODULE = "cuda.bindings.driver"
_NOT_THERE = ("cuda", "cuda.bindings", _MODULE)


class _CallError(RuntimeError):
    """A call of CUDA failed."""


@dataclasses.dataclass(frozen=True)
class _GreenContext:
    gpu: int
    handle: Any
    streams: list[Any] = dataclasses.field(default_factory=list)


class GreenDriver:
    """Makes green contexts; `driver` and `runtime` are CUDA versions of the driver and of CuPy.

    Raises:
      ConfigurationError: the driver is too old, or cuda-bindings cannot be used.
    """

    def __init__(self, driver: int, runtime: int, libraries: Libraries = INSTALLED) -> None:
        check_driver(driver)
        try:
            self._cuda = libraries.load(_MODULE)
        except Exception as error:  # a broken installation can raise anything
            missing = isinstance(error, ModuleNotFoundError) and error.name in _NOT_THERE
            problem = "is not installed" if missing else f"does not import ({one_line(error)})"
            raise no_library(runtime, problem) from error

    def divide(self, gpu: int, parts: int) -> list[Share]:
        """Divide a GPU into shares of one size; each share is a green context."""
        cuda, shares = self._cuda, list[Share]()
        try:
            self._call("cuInit", 0)
            device = self._call("cuDeviceGet", gpu)
            kind = cuda.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
            whole = self._call("cuDeviceGetDevResource", device, kind)

            def split(most: int, least: int) -> list[Partition]:
                return self._split(whole, most, least)

            for group in equal_groups(gpu, int(whole.sm.smCount), parts, split):
                described = self._call("cuDevResourceGenerateDesc", [group.resource], 1)
                flag = cuda.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM  # must be, before 13
                handle = self._call("cuGreenCtxCreate", described, device, flag)
                shares.append(Share(group.multiprocessors, _GreenContext(gpu, handle)))
        except BaseException as error:
            self.unite(shares)
            if isinstance(error, _CallError):
                raise refused(gpu, str(error)) from None
            raise
        return shares

    def _split(self, whole: Any, most: int, least: int) -> list[Partition]:
        name = "cuDevSmResourceSplitByCount"
        status, groups, count, _ = self._ask(name, most, whole, 0, least)
        if status == self._cuda.CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION:
            return []  # CUDA can make none
        _check(name, status)
        return [Partition(int(group.sm.smCount), group) for group in groups[:count]]

    def stream(self, share: Share) -> int:
        """Make a stream on the multiprocessors of a share, and return its address."""
        context: _GreenContext = share.handle
        flag = self._cuda.CUstream_flags.CU_STREAM_NON_BLOCKING
        try:
            stream = self._call("cuGreenCtxStreamCreate", context.handle, flag, 0)
        except _CallError as error:
            raise refused(context.gpu, str(error)) from None
        context.streams.append(stream)
        return int(stream)

    def unite(self, shares: Sequence[Share]) -> None:
        """Destroy idle shares, after their streams: a context does not destroy its streams."""
        for share in shares:
            context: _GreenContext = share.handle
            while context.streams:
                self._call("cuStreamDestroy", context.streams.pop())
            self._call("cuGreenCtxDestroy", context.handle)

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *values = self._ask(name, *arguments)
        _check(name, status)
        return values[0] if values else None

    def _ask(self, name: str, *arguments: Any) -> Any:
        try:
            return getattr(self._cuda, name)(*arguments)
        except RuntimeError as error:  # the driver's library lacks this function
            raise _CallError(f"{name} failed ({one_line(error)})") from error


def _check(name: str, status: Any) -> None:
    if status != 0:
        raise _CallError(f"{name} failed with {getattr(status, 'name', status)}")
