"""Guards against implicit copies between host and devices."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence

from gpushard._ops.gather_guard import log_transfer
from gpushard._options import Option, offer
from gpushard.errors import ArgumentError, ConfigurationError, TransferGuardError

HOST_TO_DEVICE = "host_to_device"
DEVICE_TO_DEVICE = "device_to_device"
DEVICE_TO_HOST = "device_to_host"

_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
_guards = {
    direction: Option(direction, "allow")
    for direction in (HOST_TO_DEVICE, DEVICE_TO_DEVICE, DEVICE_TO_HOST)
}


@contextlib.contextmanager
def transfer_guard(level: str) -> Iterator[None]:
    """Allow, log or forbid transfers in all directions in a `with` block.

    A transfer is a copy between host and device, or between devices. Transfers by `device_put`,
    `device_get`, `reshard` and `copy_to_host_async` are explicit. All others, as in
    `numpy.asarray(x)`, `float(x)` and `print(x)`, are implicit.

    Args:
      level: "allow" (the default outside any guard) allows all transfers. "log" logs implicit
        transfers, and "disallow" raises `TransferGuardError` for them. "log_explicit" and
        "disallow_explicit" do the same for all transfers.

    Raises:
      ArgumentError: the level is unknown.

    >>> import gpushard as gs
    >>> with gs.transfer_guard("disallow"):
    ...     float(gs.device_put(1.0))
    Traceback (most recent call last):
    gpushard.errors.TransferGuardError: ...
    """
    with (
        transfer_guard_host_to_device(level),
        transfer_guard_device_to_device(level),
        transfer_guard_device_to_host(level),
    ):
        yield


@contextlib.contextmanager
def _guard(direction: str, level: str) -> Iterator[None]:
    if level not in _LEVELS:
        raise ArgumentError.refusing("level", level, f"is unknown; use one of {', '.join(_LEVELS)}")
    with _guards[direction].within(level):
        yield


def transfer_guard_host_to_device(level: str) -> contextlib.AbstractContextManager[None]:
    """Allow, log or forbid copies from host memory to devices in a `with` block.

    Args:
      level: as for `transfer_guard`.

    Raises:
      ArgumentError: the level is unknown.
    """
    return _guard(HOST_TO_DEVICE, level)


def transfer_guard_device_to_device(level: str) -> contextlib.AbstractContextManager[None]:
    """Allow, log or forbid copies between devices in a `with` block.

    Args:
      level: as for `transfer_guard`.

    Raises:
      ArgumentError: the level is unknown.
    """
    return _guard(DEVICE_TO_DEVICE, level)


def transfer_guard_device_to_host(level: str) -> contextlib.AbstractContextManager[None]:
    """Allow, log or forbid copies from devices to host memory in a `with` block.

    Args:
      level: as for `transfer_guard`.

    Raises:
      ArgumentError: the level is unknown.
    """
    return _guard(DEVICE_TO_HOST, level)


def _read(directions: Sequence[str]) -> str | None:
    levels = {_guards[direction].get() for direction in directions}
    return levels.pop() if len(levels) == 1 else None


def _write(name: str, directions: Sequence[str], level: str | None) -> None:
    """Change guards for all threads; `with` blocks keep theirs."""
    if level not in (None, *_LEVELS):
        why = f"is unknown; use one of {', '.join(_LEVELS)}, or None"
        raise ConfigurationError.refusing(name, level, why)
    for direction in directions:
        _guards[direction].set(level or "allow")


for _name, _directions in (
    ("transfer_guard", tuple(_guards)),
    *((f"transfer_guard_{direction}", (direction,)) for direction in _guards),
):
    offer(
        _name,
        functools.partial(_read, _directions),
        functools.partial(_write, _name, _directions),
    )


def check_transfer(direction: str, what: str, *, explicit: bool) -> None:
    """Apply the guard of one direction to a transfer."""
    level = _guards[direction].get()
    if level == "allow" or (explicit and not level.endswith("_explicit")):
        return
    kind = "explicit" if explicit else "implicit"
    if level.startswith("log"):
        log_transfer("%s %s transfer: %s", kind, direction, what)
        return
    raise TransferGuardError(
        f"{what} is an {kind} {direction} transfer, which transfer_guard({level!r}) forbids; "
        + (
            "leave the guard or use a weaker level"
            if explicit
            else "ask for it by name (device_put, device_get), or leave the guard"
        ),
        direction=direction,
        level=level,
    )
