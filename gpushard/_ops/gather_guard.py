"""A guard against operations that move large operands without being asked to."""

from __future__ import annotations

import contextlib
import contextvars
import importlib
from collections.abc import Iterator, Sequence

from gpushard._geometry.tiling import Tiling
from gpushard._ops.operand import Operand, Sharded
from gpushard.errors import ArgumentError, TransferGuardError

_LEVELS = ("allow", "log", "disallow")
_level = contextvars.ContextVar("gather_guard", default="allow")


@contextlib.contextmanager
def gather_guard(level: str) -> Iterator[None]:
    """Allow, log or forbid operations that gather or move large operands, in a `with` block.

    An operation moves operands if no device has all elements that it computes with: shardings may
    disagree, or an operand may be split along an axis that the operation needs whole. The guard
    applies to operations that move more than `Settings.large_move_bytes`, or that copy a whole
    split operand to every device. Explicit moves by `reshard`, `device_put` and `out_sharding=` are
    always allowed.

    Args:
      level: "allow" (the default outside any guard), "log" to write a log message, or "disallow" to
        raise `TransferGuardError`.

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
    """Return the guard's message about the moves of an operation; None if it allows them.

    Bytes are counted as if every device were a memory domain. `wanted` is None for operands that
    stay.
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
    """Log a warning about a transfer; the first one imports `logging`."""
    logging = importlib.import_module("logging")
    logging.getLogger("gpushard.transfer").warning(message, *args)


def check_gather(what: str) -> None:
    """Apply the guard to moves that `watched` described, before they happen."""
    level = _level.get()
    if level == "log":
        log_transfer("implicit move: %s", what)
    elif level == "disallow":
        raise TransferGuardError(
            f"{what}; gather_guard('disallow') forbids that. Reshard the operand first, or leave "
            "the guard",
            direction="device_to_device",
            level=level,
        )
