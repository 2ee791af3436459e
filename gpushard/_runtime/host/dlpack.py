"""DLPack through NumPy, in every version of NumPy that is supported.

NumPy 2.0 knows DLPack as it was before 1.0: without copies, and without a way to say that memory
must not be written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._runtime.host.keep_alive import writable
from gpushard._typing import HostArray
from gpushard.errors import ArgumentError, ArgumentTypeError

CPU = 1  # DLPack's number for host memory
HOST_KINDS = (CPU, 3)  # what NumPy can read: host memory, also where it is pinned for CUDA
_VERSION = (1, 0)
_KNOWS_VERSION = np.lib.NumpyVersion(np.__version__) >= "2.1.0"


def export(view: HostArray, *, versioned: bool, copy: bool) -> Any:
    """Return a DLPack capsule of a read-only view, or of a copy, which may be written.

    A consumer of `versioned` capsules reads DLPack 1.0 and can be told that it must not write.
    """
    if versioned and _KNOWS_VERSION:
        return view.__dlpack__(max_version=_VERSION, copy=copy or None)
    return (np.array(view) if copy else writable(view)).__dlpack__()


class _Capsule:
    """A capsule for NumPy, which wants to fetch it itself."""

    def __init__(self, capsule: Any, device: tuple[int, int]) -> None:
        self._capsule = capsule
        self._device = device

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return self._device


def read(producer: Any) -> HostArray:
    """Return the host memory of a producer as an array, without a copy.

    What the producer raises comes through as it is.

    Raises:
      ArgumentTypeError: it is of a type that NumPy does not know, or the producer gives no capsule.
      ArgumentError: the producer gave a capsule that was used before.
    """
    device = producer.__dlpack_device__()
    try:
        capsule = producer.__dlpack__(**({"max_version": _VERSION} if _KNOWS_VERSION else {}))
    except TypeError:  # older than the argument
        capsule = producer.__dlpack__()
    try:
        return np.from_dlpack(_Capsule(capsule, device))
    except (RuntimeError, BufferError) as error:
        raise ArgumentTypeError(
            f"x is a {type(producer).__name__} of a type that NumPy cannot read through DLPack "
            f"({error}); convert it first, to float32 for example, or try device_put(x)",
            argument="x",
            type=type(producer),
        ) from None
    except (ValueError, TypeError):
        used = "used" in repr(capsule)
        raise (ArgumentError if used else ArgumentTypeError)(
            f"x.__dlpack__() of a {type(producer).__name__} gave "
            + ("a capsule that was used before" if used else f"a {type(capsule).__name__}")
            + "; it has to give a new capsule with every call",
            argument="x",
            type=type(producer),
        ) from None
