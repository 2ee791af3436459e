"""Make each plan once: the caches of a runtime hold plans, by what they move."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from gpushard._movement.buffer import ShardedBuffer
from gpushard._movement.plan import Plan
from gpushard._movement.plan_streams import Prepared, prepare
from gpushard._runtime.runtime import Runtime


def prepared_plan(
    runtime: Runtime,
    make: Callable[..., Plan],
    how: tuple[Any, ...],
    sources: Sequence[ShardedBuffer] = (),
) -> Prepared:
    """Return what a planner makes of the runtime, `how` and the roots of sources; cached.

    How much memory the sources keep alive is looked at only where the plan depends on it.
    """
    plans, key = runtime.plans, (make, how)
    known: Prepared | None = plans.get(key)
    if known is not None and not known.plan.kept.by_roots:
        return known
    roots = tuple([source.root_nbytes for source in sources])
    prepared: Prepared | None = plans.get((key, roots))
    if prepared is None:
        prepared = new_plan(runtime, make, *how, roots)
        if prepared.plan.kept.by_roots:
            plans.put((key, roots), prepared, prepared.plan.nbytes)
        if known is None:
            plans.put(key, prepared, prepared.plan.nbytes)
    return prepared


def new_plan(runtime: Runtime, make: Callable[..., Plan], *how: Any) -> Prepared:
    """Make a plan, and tell it which domains reach one another, and what there is for others."""
    plan = make(runtime, *how)
    pinned_bytes = runtime.settings.pinned_bytes
    return prepare(dataclasses.replace(plan, reach=runtime.backend, pinned_bytes=pinned_bytes))
