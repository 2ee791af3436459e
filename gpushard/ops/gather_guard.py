"""A guard against large moves that nobody asked for: of operands whose shardings disagree."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
from collections.abc import Iterator, Sequence

from gpushard.errors import ArgumentError, TransferGuardError
from gpushard.geometry.tiling import Tiling
from gpushard.ops.operand import Operand, Sharded

_LEVELS = ("allow", "log", "disallow")
_level = contextvars.ContextVar("gather_guard", default="allow")


@contextlib.contextmanager
def gather_guard(level: str) -> Iterator[None]:
    """Allow, log or forbid gathers and large moves that operations do by themselves.

    An operation moves operands whose shardings do not fit one another. Within the `with` block this
    is watched where more than `Settings.large_move_bytes` move, and where an operand that was split
    is gathered whole on every device. What is asked for by name (`reshard`, `device_put`,
    `out_sharding=`) is always allowed.

    Args:
      level: "allow" (the default outside of any guard), "log" or "disallow".

    Raises:
      ArgumentError: the level is unknown.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((4,), "x")
    >>> rows, columns = (gs.NamedSharding(mesh, spec) for spec in (gs.P("x"), gs.P(None, "x")))
    >>> x = gs.numpy.ones((4, 4), out_sharding=rows)
    >>> with gather_guard("disallow"):
    ...     y = x + gs.numpy.ones((4, 4), out_sharding=columns)  # moves 12 elements
    >>> with gather_guard("disallow"):
    ...     gs.numpy.einsum("ii->i", x)
    Traceback (most recent call last):
    gpushard.errors.TransferGuardError: ...
    """
    if level not in _LEVELS:
        raise ArgumentError.refusing("level", level, f"is unknown; use one of {', '.join(_LEVELS)}")
    token = _level.set(level)
    try:
        yield
    finally:
        _level.reset(token)


def watched(
    name: str, operands: Sequence[Operand], wanted: Sequence[Tiling | None], nbytes: int, limit: int
) -> str | None:
    """Return what the guard would say of the moves of an operation; None if it does not mind.

    What moves is counted as if every device were a memory domain; of operands that stay `wanted` is
    None.
    """
    moved = [
        (x, tiling)
        for x, tiling in zip(operands, wanted, strict=True)
        if isinstance(x, Sharded) and tiling is not None and tiling is not x.tiling
    ]
    for x, tiling in moved:
        if _is_split(x.tiling) and not _is_split(tiling):
            return (
                f"{name} gathers its operand of shape {x.aval.shape} and {x.sharding} whole on "
                "every device"
            )
    if moved and nbytes > limit:
        shapes = ", ".join(f"{x.aval.shape} with {x.sharding}" for x, _ in moved)
        return (
            f"{name} moves {nbytes:,} bytes, more than large_move_bytes={limit:,}: operands of "
            f"shapes {shapes}"
        )
    return None


def _is_split(tiling: Tiling) -> bool:
    return not tiling.assignment.is_replicated


def log_transfer(message: str, *args: str) -> None:
    """Write a warning to the log of transfers; `logging` is imported for the first one only."""
    logging = importlib.import_module("logging")
    logging.getLogger("gpushard.transfer").warning(message, *args)


def check_gather(what: str) -> None:
    """Apply the guard to what `watched` found, before it happens."""
    level = _level.get()
    if level == "log":
        log_transfer("implicit move: %s", what)
    elif level == "disallow":
        raise TransferGuardError(
            f"{what}; gather_guard('disallow') forbids that. Reshard the operand by name first, or "
            "leave the guard",
            direction="device_to_device",
            level=level,
        )
