"""Settings: read once, from the environment or from `configure()`.

No other module reads the environment.

>>> Settings.from_environment({"GPUSHARD_HOST_DEVICES": "4"}).host_devices
4
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from gpushard.errors import ConfigurationError

BACKENDS = ("host",)

_LEAST = {
    "host_devices": 1,
    "host_domains": 1,
    "host_workers": 1,
    "memory_limit": 0,
    "inline_bytes": 0,
    "small_bytes": 0,
    "queue_limit": 1,
    "pinned_bytes": 64,
    "plan_cache_bytes": 0,
    "relay_bytes": 0,
}
_MAY_BE_NONE = ("host_workers", "memory_limit")

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that can be set, with its default."""

    backend: str | None = None
    """Which backend to use; None takes the best one that works here."""

    host_devices: int = 8
    """How many virtual devices the host backend has."""

    host_domains: int = 1
    """Into how many memory domains they are divided; devices of one domain share memory."""

    host_workers: int | None = None
    """Worker threads of the host backend; None means one per core, at least two."""

    memory_limit: int | None = None
    """Quota of each device in bytes; None means no limit."""

    inline_bytes: int = 1 << 20
    """Host work that touches fewer bytes than this runs in the caller."""

    small_bytes: int = 64 << 10
    """Host shards smaller than this are not pooled."""

    queue_limit: int = 1024
    """How many items a stream queues; who submits more waits."""

    pinned_bytes: int = 256 << 20
    """Most page-locked host memory per GPU that copies from and to the host go through."""

    plan_cache_bytes: int = 64 << 20
    """How many bytes of movement plans are kept for reuse."""

    relay_bytes: int = 2 << 20
    """Bytes that a domain could receive in the time that one more item of work takes; relays are
    planned by it. 0 relays whatever that spreads the load better."""

    check: bool = False
    """Watch every use of memory and raise `RaceError` where two are not ordered; slow."""

    enable_checks: bool = False
    """Check arrays that are built inside the library as if a user had built them."""

    def __post_init__(self) -> None:
        """Reject values that make no sense, naming the setting and the fix."""
        if self.backend is not None and self.backend not in BACKENDS:
            raise ConfigurationError(
                f"backend={self.backend!r} is unknown; use one of {', '.join(BACKENDS)}",
                argument="backend",
                value=self.backend,
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None or name not in _MAY_BE_NONE:
                _check_integer(name, value, least)
        if self.host_devices % self.host_domains:
            raise ConfigurationError(
                f"host_domains={self.host_domains} does not divide host_devices="
                f"{self.host_devices}; every domain needs the same number of devices",
                argument="host_domains",
                value=self.host_domains,
            )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings that the environment names.

        Args:
          environment: variables by name; the process's own by default.

        Returns:
          Settings; what the environment does not name keeps its default.

        Raises:
          ConfigurationError: a variable is not a number or names an unknown backend.
        """
        found: dict[str, Any] = {}
        for variable, (name, parse) in _VARIABLES.items():
            text = environment.get(variable, "").strip()
            if text:
                try:
                    found[name] = parse(text)
                except ValueError:
                    raise ConfigurationError(
                        f"{variable}={text!r} cannot be read; give {_EXPECTS[parse]}",
                        argument=variable,
                        value=text,
                    ) from None
        return cls(**found)


def parse_bytes(text: str) -> int:
    """Read a number of bytes such as `"512M"`.

    Args:
      text: digits and an optional K, M, G or T (powers of 1024), with or without "B" or "iB".

    Returns:
      The number of bytes.

    Raises:
      ValueError: the text is no such number.

    >>> parse_bytes("2G"), parse_bytes("64 KiB")
    (2147483648, 65536)
    """
    digits = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = digits[-1:] if digits[-1:] in _UNITS else ""
    return int(digits.removesuffix(unit)) * _UNITS[unit]


def _parse_flag(text: str) -> bool:
    """Read 1/true/yes/on or 0/false/no/off."""
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _check_integer(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigurationError(
            f"{name}={value!r} must be an integer of at least {least}", argument=name, value=value
        )


_EXPECTS: dict[Any, str] = {
    int: "an integer",
    str: "a name",
    parse_bytes: "a number of bytes such as 512M or 2G",
    _parse_flag: "0 or 1",
}

_VARIABLES: dict[str, tuple[str, Any]] = {
    "GPUSHARD_BACKEND": ("backend", str),
    "GPUSHARD_HOST_DEVICES": ("host_devices", int),
    "GPUSHARD_HOST_DOMAINS": ("host_domains", int),
    "GPUSHARD_HOST_WORKERS": ("host_workers", int),
    "GPUSHARD_MEMORY_LIMIT": ("memory_limit", parse_bytes),
    "GPUSHARD_RELAY_BYTES": ("relay_bytes", parse_bytes),
    "GPUSHARD_CHECK": ("check", _parse_flag),
    "GPUSHARD_ENABLE_CHECKS": ("enable_checks", _parse_flag),
}
