"""A module `cuda.bindings.driver` without a GPU, as far as green contexts go.

`test_green_driver.py` compares its functions with those of the real module where there is one.
"""

from __future__ import annotations

import enum
from typing import Any

TOTAL = 132


class CUresult(enum.IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NOT_SUPPORTED = 801
    CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION = 915


class CUdevResourceType(enum.IntEnum):
    CU_DEV_RESOURCE_TYPE_SM = 1


class CUgreenCtxCreate_flags(enum.IntEnum):
    CU_GREEN_CTX_DEFAULT_STREAM = 1


class CUstream_flags(enum.IntEnum):
    CU_STREAM_NON_BLOCKING = 1


class CUdevSmResource:
    def __init__(self, count: int) -> None:
        self.smCount = count


class CUdevResource:
    def __init__(self, members: range) -> None:
        self.members = members
        self.sm = CUdevSmResource(len(members))


class CUdevice:
    def __init__(self, ordinal: int) -> None:
        self.ordinal = ordinal


class CUdevResourceDesc:
    def __init__(self, resources: list[CUdevResource]) -> None:
        self.resources = resources


class CUgreenCtx:
    def __init__(self, device: CUdevice, members: range) -> None:
        self.device = device
        self.members = members


class CUstream:
    def __init__(self, context: CUgreenCtx, address: int) -> None:
        self.context = context
        self._address = address

    def __int__(self) -> int:
        return self._address


class Bindings:
    """The module.

    Args:
      total: multiprocessors of each GPU.
      step: groups have a multiple of so many.
      spans: the multiprocessors lie together in clusters of so many; no group of the least size
        reaches over their ends, so that what does not fill a group is left over.
      fail: what calls of this name return, after this many that work.
      raises: raised by calls of this name.
    """

    CUresult = CUresult
    CUdevResourceType = CUdevResourceType
    CUgreenCtxCreate_flags = CUgreenCtxCreate_flags
    CUstream_flags = CUstream_flags

    def __init__(
        self,
        total: int = TOTAL,
        step: int = 8,
        spans: int | None = None,
        fail: tuple[str, CUresult, int] | None = None,
        raises: tuple[str, Exception] | None = None,
    ) -> None:
        self._total = total
        self._step = step
        self._usable = total if spans is None else total // spans * (spans // step * step)
        self._fail = fail
        self._raises = raises
        self._addresses = 0x1000
        self.contexts: list[CUgreenCtx] = []
        """Those that are not destroyed."""
        self.streams: list[CUstream] = []
        """Those that are not destroyed."""
        self.log: list[str] = []
        """The calls."""

    def _status(self, name: str) -> CUresult:
        self.log.append(name)
        if self._raises is not None and self._raises[0] == name:
            raise self._raises[1]
        if self._fail is not None and self._fail[0] == name:
            name, status, working = self._fail
            self._fail = name, status, working - 1
            if working <= 0:
                return status
        return CUresult.CUDA_SUCCESS

    def cuInit(self, Flags: int) -> Any:
        assert Flags == 0
        return (self._status("cuInit"),)

    def cuDeviceGet(self, ordinal: int) -> Any:
        return self._status("cuDeviceGet"), CUdevice(ordinal)

    def cuDeviceGetDevResource(self, device: CUdevice, typename: CUdevResourceType) -> Any:
        assert isinstance(device, CUdevice)
        assert typename is CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
        return self._status("cuDeviceGetDevResource"), CUdevResource(range(self._total))

    def cuDevSmResourceSplitByCount(
        self, nbGroups: int, input_: CUdevResource, flags: int, minCount: int
    ) -> Any:
        assert flags == 0 and 0 <= minCount <= input_.sm.smCount and nbGroups > 0
        status = self._status("cuDevSmResourceSplitByCount")
        size = -(-minCount // self._step) * self._step
        count = min(nbGroups, self._usable // size)
        if status == CUresult.CUDA_SUCCESS and not count:
            status = CUresult.CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION
        groups = [CUdevResource(range(n * size, (n + 1) * size)) for n in range(count)]
        groups += [CUdevResource(range(0))] * (nbGroups - count)  # the list is as long as asked
        rest = CUdevResource(range(count * size, input_.sm.smCount))
        return status, groups, count, rest

    def cuDevResourceGenerateDesc(self, resources: list[CUdevResource], nbResources: int) -> Any:
        assert len(resources) == nbResources == 1 and resources[0].sm.smCount
        return self._status("cuDevResourceGenerateDesc"), CUdevResourceDesc(resources)

    def cuGreenCtxCreate(self, desc: CUdevResourceDesc, dev: CUdevice, flags: int) -> Any:
        assert flags == CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        status = self._status("cuGreenCtxCreate")
        context = CUgreenCtx(dev, desc.resources[0].members)
        if status == CUresult.CUDA_SUCCESS:
            self.contexts.append(context)
        return status, context

    def cuGreenCtxStreamCreate(self, greenCtx: CUgreenCtx, flags: int, priority: int) -> Any:
        assert greenCtx in self.contexts and priority == 0
        assert flags == CUstream_flags.CU_STREAM_NON_BLOCKING
        status = self._status("cuGreenCtxStreamCreate")
        self._addresses += 0x10
        stream = CUstream(greenCtx, self._addresses)
        if status == CUresult.CUDA_SUCCESS:
            self.streams.append(stream)
        return status, stream

    def cuStreamDestroy(self, hStream: CUstream) -> Any:
        self.streams.remove(hStream)
        return (self._status("cuStreamDestroy"),)

    def cuGreenCtxDestroy(self, hCtx: CUgreenCtx) -> Any:
        assert not any(stream.context is hCtx for stream in self.streams), "streams are left"
        self.contexts.remove(hCtx)
        return (self._status("cuGreenCtxDestroy"),)


FUNCTIONS = sorted(name for name in vars(Bindings) if name.startswith("cu"))
