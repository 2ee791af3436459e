"""What arrays offer to other libraries; layers above do the work and register here what does it.

`Array` names the special methods, so that they are ordinary ones. What they do needs layers that
import `Array`; these call `provide` when they are imported, or are promised until then.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_providers: dict[str, Callable[..., Any]] = {}
_promised: dict[str, str] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Say what a special method of arrays does, or a function that a lower layer names."""
    _providers[name] = function


def promise(module: str, *names: str) -> None:
    """Say which module will provide special methods, once it is imported."""
    _promised.update(dict.fromkeys(names, module))


def provided(name: str) -> Callable[..., Any]:
    """Return what does the work of a special method."""
    if name not in _providers:
        importlib.import_module(_promised[name])
    return _providers[name]


class Protocols:
    """The special methods that other libraries look for."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """Return `gpushard.numpy`, which has the functions of the Array API.

        Args:
          api_version: which version of the standard; None for the latest.

        Raises:
          ArgumentError: there is no such version.
        """
        return provided("__array_namespace__")(self, api_version=api_version)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Do what a NumPy ufunc does, where the arrays lie.

        Args:
          ufunc: which one.
          method: how it is called: itself, or its `reduce`.
          *inputs: its operands.
          **kwargs: what else it was given.

        Raises:
          ArgumentTypeError: that cannot be done without gathering arrays.
          ArgumentError: a place for the result is given.
        """
        return provided("__array_ufunc__")(self, ufunc, method, inputs, kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Do what a function of NumPy does, where the arrays lie.

        Args:
          func: which one.
          types: of the arguments that are arrays of some kind.
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
        """Return the data of an array on one device as a DLPack capsule, without a copy.

        The memory lives until the consumer drops it. It must not be written: arrays are values.
        Consumers on the CPU that know DLPack 1.0 are told so; to others it cannot be told.

        Args:
          stream: the consumer's stream on a GPU, as the standard numbers them; None on the CPU.
          max_version: the latest DLPack version that the consumer reads; None for one before 1.0.
          dl_device: where the consumer wants the data: (device type, id); None for where it is.
          copy: True for a fresh copy, which may be written; False for no copy in any case.

        Returns:
          The capsule.

        Raises:
          ExportError: the array has several shards, or the dtype or `dl_device` cannot be had.
          ExecutionError: the work that should have made the value failed.
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

        The memory must not be written: arrays are values. It is not marked so, as PyTorch takes
        none that is.

        Raises:
          ProtocolError: the array is on the CPU, has several shards, or was deleted.
        """
        interface: dict[str, Any] = provided("__cuda_array_interface__")(self)
        return interface

    def _repr_html_(self) -> str | None:
        """Return what notebooks show: a picture of the sharding; None on one device."""
        html: str | None = provided("_repr_html_")(self)
        return html
