"""The inspection functions of the Array API: capabilities, devices and dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._placement.default_placement import get_default_device
from gpushard._placement.devices import devices
from gpushard._runtime.runtime import Device
from gpushard.errors import ArgumentError

__all__ = ["__array_namespace_info__"]

_KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


class Info:
    """The result of `__array_namespace_info__()`.

    >>> Info().default_dtypes()["integral"]
    dtype('int64')
    """

    def capabilities(self) -> dict[str, Any]:
        """Return the capabilities: masks as indices, and results of a size that depends on data."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device that new arrays go to."""
        return get_default_device()

    def devices(self) -> tuple[Device, ...]:
        """Return the devices."""
        return tuple(devices())

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """Return the dtypes that functions use by default.

        Args:
          device: ignored.
        """
        names = {
            "real floating": "float64",
            "complex floating": "complex128",
            "integral": "int64",
            "indexing": "int64",
        }
        return {kind: np.dtype(name) for kind, name in names.items()}

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype[Any]]:
        """Return dtypes by name.

        Args:
          device: ignored.
          kind: the kind: "bool", "integral", "real floating" and so on, or a tuple of these; all by
            default.

        Raises:
          ArgumentError: the kind is unknown.
        """
        kinds = (
            ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        )
        for word in kinds:
            if word not in _KINDS:
                raise ArgumentError.refusing(
                    "kind", word, f"is unknown; use one of {', '.join(_KINDS)}"
                )
        return {name: np.dtype(name) for word in kinds for name in _KINDS[word]}


def __array_namespace_info__() -> Info:
    """Return an object with the capabilities of the namespace, as in the Array API."""
    return Info()
