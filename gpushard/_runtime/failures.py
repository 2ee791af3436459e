"""Failures of work: they go with the memory that it writes to later work and to readers."""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._runtime.memory import Memory
from gpushard.errors import DeviceLostError, ExecutionError


class WorkFailure(Exception):
    """What failed and why."""

    def __init__(self, name: str, cause: BaseException) -> None:
        super().__init__(name, cause)
        self.name = name
        self.cause = cause


def fail_memories(
    memories: Sequence[Memory], name: str, cause: BaseException, handled: BaseException | None
) -> None:
    """Make the failure of the work `name` the error of the memories that it writes.

    What the thread was handling before the work began (`handled`) has no part in this.
    """
    _drop_tracebacks(cause, handled)
    pass_on(memories, WorkFailure(name, cause))


def pass_on(memories: Sequence[Memory], error: BaseException) -> None:
    """Pass the error of memory that work reads on to the memories that it writes."""
    for memory in memories:
        memory.error = error


def _drop_tracebacks(cause: BaseException, handled: BaseException | None) -> None:
    """Let an exception, and all those it came from, keep no frames: these keep memory alive."""
    chain = [cause]
    for error in chain:
        error.__traceback__ = None
        if error.__context__ is handled:
            error.__context__ = None
        origins = [error.__cause__, error.__context__]
        if isinstance(error, BaseExceptionGroup):
            origins += error.exceptions
        for origin in origins:
            if origin is not None and not any(origin is known for known in (handled, *chain)):
                chain.append(origin)


def failure(error: BaseException) -> ExecutionError:
    """Return a fresh error for a reader of failed work, chained to the cause."""
    if isinstance(error, WorkFailure):
        name, cause = error.name, error.cause
    else:
        name, cause = "unnamed work", error
    if isinstance(cause, DeviceLostError):
        lost = DeviceLostError(str(cause))
        vars(lost).update(vars(cause))
        return lost
    raised = ExecutionError(
        f"the value is not there because {name} failed: {type(cause).__name__}: {cause}",
        operation=name,
    )
    raised.__cause__ = cause
    return raised
