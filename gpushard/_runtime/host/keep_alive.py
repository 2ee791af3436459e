"""NumPy views of host memory that keep something alive."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._typing import HostArray, LocalArray


def address(array: HostArray) -> int:
    """Return the address of the first element.

    `array.ctypes` imports a module whenever it is asked, which fails when the interpreter ends.
    """
    return int(array.__array_interface__["data"][0])


class _Owner:
    """Host memory for NumPy: the `base` of views that keep something alive."""

    def __init__(self, array: HostArray, owner: Any, readonly: bool) -> None:
        if array.dtype.isbuiltin == 2:  # NumPy cannot read what others call their types
            array = array.view(f"V{array.itemsize}")
        interface = array.__array_interface__
        self.__array_interface__ = {**interface, "data": (interface["data"][0], readonly)}
        self._kept = (array, owner)


def keep(array: HostArray, owner: Any, *, readonly: bool = True) -> HostArray:
    """Return an array over the same memory that keeps `owner` alive."""
    view = np.asarray(_Owner(array, owner, readonly))
    return view if view.dtype == array.dtype else view.view(array.dtype)


def writable(view: LocalArray) -> LocalArray:
    """Return an array that may be written over the memory of a read-only one.

    Arrays of other libraries than NumPy cannot be read-only and come back as they are.
    """
    if not isinstance(view, np.ndarray) or view.flags.writeable:
        return view
    return keep(view, view, readonly=False)
