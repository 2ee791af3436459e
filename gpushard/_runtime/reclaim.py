"""Reclaim memory before an allocation fails, and write the error if it does.

`Runtime.commit` runs a garbage collection, reclaims memory, and then tries once more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gpushard._runtime.backend import Backend
from gpushard._runtime.memory_domain import Domain
from gpushard._runtime.pool import NoRoomError, Pool
from gpushard.errors import OutOfMemoryError


def pools_of_chip(pool: Pool, domains: Sequence[Domain]) -> list[Pool]:
    """Return all pools of the chip of a pool: another one may hold the memory that it lacks."""
    pinned = [d.memories["pinned_host"] for d in domains if pool in (d.pool, d.ring)]
    chip = [d for d in domains if d.memories["pinned_host"] in pinned]
    return [pool, *(p for d in chip for p in (d.pool, d.ring) if p is not pool)]


def reclaim(backend: Backend, pools: Sequence[Pool], run_locked: Callable[..., Any]) -> None:
    """Wait, without the submission lock, until no work uses the free memory of pools."""
    run_locked(backend.empty_cache)  # libraries may hold memory of the pools
    pending = run_locked(lambda: [tick for p in pools for tick in p.pending()])
    for stream, tick in pending:
        stream.synchronize(tick)
    backend.recall()


def reclaim_locked(backend: Backend, pools: Sequence[Pool], drain: Callable[[], None]) -> None:
    """Wait with the submission lock held, and return free memory of pools to the system."""
    backend.empty_cache()
    backend.recall()
    drain()
    for pool in pools:
        pool.settle()
        pool.trim()
    backend.empty_cache()


def out_of_memory(shortage: NoRoomError, live: Sequence[Any]) -> OutOfMemoryError:
    """Build the error for a device without room; it lists the largest live arrays."""
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


def name_operation(error: MemoryError, name: str, moves: str | None) -> OutOfMemoryError:
    """Add the name of an operation to an error about memory.

    Args:
      error: the error of a device, or of a library that a kernel called.
      name: the name of the operation.
      moves: a sentence about the operand that the operation gathers, which may be the cause; None
        if it gathers none.
    """
    if not isinstance(error, OutOfMemoryError):
        error = OutOfMemoryError(
            f"no room for intermediate values: {error}. Try: smaller sizes, or slices of the "
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
