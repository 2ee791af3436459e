"""What is waited for before memory is said to be out, and what the error says.

`Runtime.commit` calls it, after a garbage collection, and then tries once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard.errors import OutOfMemoryError
from gpushard.runtime.backend import Backend
from gpushard.runtime.domain import Domain
from gpushard.runtime.pool import NoRoomError, Pool


def beside(pool: Pool, domains: Sequence[Domain]) -> list[Pool]:
    """Return the pools of the same chip: another one may hold what this one lacks."""
    pinned = [d.memories["pinned_host"] for d in domains if pool in (d.pool, d.ring)]
    chip = [d for d in domains if d.memories["pinned_host"] in pinned]
    return [pool, *(p for d in chip for p in (d.pool, d.ring) if p is not pool)]


def reclaim(backend: Backend, pools: Sequence[Pool], run_locked: Callable[..., Any]) -> None:
    """Wait, outside of the submission lock, until what is free in pools is used by nothing."""
    run_locked(backend.empty_cache)  # libraries may keep memory of the pools
    pending = run_locked(lambda: [tick for p in pools for tick in p.pending()])
    for stream, tick in pending:
        stream.synchronize(tick)
    backend.recall()


def reclaim_locked(backend: Backend, pools: Sequence[Pool], drain: Callable[[], None]) -> None:
    """Do the same under the lock, where nobody else can, and give back what was waited for."""
    backend.empty_cache()
    backend.recall()
    drain()
    for pool in pools:
        pool.settle()
        pool.trim()
    backend.empty_cache()


def out_of_memory(shortage: NoRoomError, live: Sequence[Any]) -> OutOfMemoryError:
    """Return the error that names what has no room, and the largest of the live arrays."""
    account = shortage.account
    arrays = [array for array in live if not array.is_deleted()]
    arrays = sorted(arrays, key=lambda array: -int(array.nbytes))[:5]
    names = [f"{a.dtype}{list(a.shape)} {a.nbytes:,} bytes" for a in arrays]
    where, limit = "the host", None
    in_use = shortage.pool.total - shortage.pool.free
    if account is not None:
        where, in_use, limit = account.owner, account.in_use, account.limit
    quota = "no quota" if limit is None else f"a quota of {limit:,}"
    return OutOfMemoryError(
        f"{where} has no room for {shortage.nbytes:,} bytes ({quota}, {in_use:,} in use). "
        f"Largest live arrays: {'; '.join(names) or 'none'}. Delete arrays, shard over more "
        "devices or raise memory_limit",
        device=where,
        nbytes=shortage.nbytes,
        in_use=in_use,
        limit=limit,
        largest=names,
    )


def of_operation(error: MemoryError, name: str, moves: str | None) -> OutOfMemoryError:
    """Return the error of an operation that found no room.

    Args:
      error: what a device said, or the library that its kernel called.
      name: of the operation.
      moves: which operand it gathers, in words, where that may be why; None where it does not.
    """
    if not isinstance(error, OutOfMemoryError):
        error = OutOfMemoryError(
            f"no room for what it computes with: {error}. Try: smaller sizes, or slices of the "
            "operands"
        )
    if "operation" in error.facts:
        return error
    message = f"{name}: {error}"
    if moves is not None:
        message += (
            f". {moves}. Try: compute in blocks, of slices of that operand, or reshard the operands"
            " so that less of it is gathered"
        )
    return OutOfMemoryError(message, **error.facts, operation=name, moves=moves)
