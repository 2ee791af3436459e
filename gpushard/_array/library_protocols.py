"""Protocols of arrays for other libraries, with functions that higher layers register.

`Array` defines the special methods. Their work needs layers that import `Array`: these layers call
`provide` when they are imported. `promise` names the module to import until then.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_providers: dict[str, Callable[..., Any]] = {}
_promised: dict[str, str] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Register the function of a special method, or of a name that a lower layer uses."""
    _providers[name] = function


def promise(module: str, *names: str) -> None:
    """Name the module that provides special methods once it is imported."""
    _promised.update(dict.fromkeys(names, module))


def provided(name: str) -> Callable[..., Any]:
    """Return the function of a special method, and import its module if necessary."""
    if name not in _providers:
        importlib.import_module(_promised[name])
    return _providers[name]


class Protocols:
    """The special methods that other libraries look for."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `gpushard.numpy`, which has the functions of the Array API.

        Args:
          api_version: the version of the standard; None for the latest.

        Raises:
          ArgumentError: there is no such version.
        """
        return provided("__array_namespace__")(self, api_version=api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Run a NumPy ufunc where the arrays lie.

        Args:
          ufunc: the ufunc.
          method: the called method: "__call__" or "reduce".
          *inputs: its operands.
          **kwargs: its other arguments.

        Raises:
          ArgumentTypeError: the ufunc would have to gather arrays.
          ArgumentError: `out` is not None.
        """
        return provided("__array_ufunc__")(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Run a function of NumPy where the arrays lie.

        Args:
          func: the function.
          types: the types of arguments that are arrays of some kind.
          args: its arguments.
          kwargs: its keyword arguments.

        Raises:
          ArgumentTypeError: `gpushard.numpy` has no such function.
        """
        return provided("__array_function__")(self, func, types, args, kwargs)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """Export an array on one device as a DLPack capsule, without a copy.

        The memory lives until the consumer drops it. Consumers must not write it: arrays are
        values. For consumers of DLPack 1.0 on the CPU it is marked as read-only; older versions
        cannot mark it.

        Args:
          stream: the consumer's stream on a GPU, in the numbering of the standard; None on the CPU.
          max_version: the latest DLPack version of the consumer; None means before 1.0.
          dl_device: the target device: (device type, id); None keeps the device.
          copy: True for a writable copy; False never copies.

        Returns:
          The capsule.

        Raises:
          ExportError: the array has several shards, or the dtype or `dl_device` is not supported.
          ExecutionError: the work that computes the value failed.
        """
        return provided("__dlpack__")(
            self, stream=stream, max_version=max_version, dl_device=dl_device, copy=copy
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return the DLPack device type and id of an array on one device.

        Raises:
          ExportError: the array has several shards.
        """
        device: tuple[int, int] = provided("__dlpack_device__")(self)
        return device

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """Address, shape and type for CUDA libraries; only arrays on one GPU have it.

        Consumers must not write the memory: arrays are values. It is not marked as read-only, since
        PyTorch refuses such memory.

        Raises:
          ProtocolError: the array is on the CPU, has several shards, or was deleted.
        """
        interface: dict[str, Any] = provided("__cuda_array_interface__")(self)
        return interface

    def _repr_html_(self) -> str | None:
        """Return a picture of the sharding for notebooks; None on one device."""
        html: str | None = provided("_repr_html_")(self)
        return html
