"""Reading values on the host: to decide a size, or because the user asks for the value."""

from __future__ import annotations

from typing import Any

from gpushard._typing import HostArray
from gpushard.errors import ArgumentTypeError


class Concrete:
    """A value with data on devices, in contrast to a traced value."""

    __slots__ = ()

    def _concrete(self, why: str, explicit: bool | None) -> HostArray:
        """Implement `concrete`."""
        raise NotImplementedError

    def _at_hand(self, why: str) -> HostArray | None:
        """Implement `at_hand`."""
        raise NotImplementedError


def concrete(x: Any, why: str, *, explicit: bool | None = None) -> HostArray:
    """Read a value on the host, once; the result is read-only.

    Args:
      x: an array.
      why: what needs the value, for errors.
      explicit: True if the program asks for the transfer by name, False if it follows from another
        use of the array. None if a function needs a few numbers; no transfer guard forbids that. It
        waits for whatever has to be computed first.

    Raises:
      ArgumentTypeError: it has no value on devices, or one of keys.
      ExecutionError: the work that should have made the value failed.
      TransferGuardError: a guard forbids the transfer.
    """
    return _checked(x, why)._concrete(why, explicit)


def at_hand(x: Any, why: str) -> HostArray | None:
    """Read a small value from memory of the host without a copy; None for other values.

    Arguments and errors are those of `concrete`.
    """
    return _checked(x, why)._at_hand(why)


def _checked(x: Any, why: str) -> Any:
    if hasattr(x, "_concrete"):  # what an interpreter made may have a value, or say why it has none
        return x
    raise ArgumentTypeError(
        f"{why} needs a value on the host, and a {type(x).__name__} stands for one that is not "
        "computed yet",
        argument="x",
        type=type(x),
    )
