"""How the copies of a plan that cross between memory domains are made. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from gpushard.runtime.engines import by_engine
from gpushard.runtime.strided import dense_strides, views_of

if TYPE_CHECKING:
    from gpushard.movement.plan import Plan


def count_crossings(plan: Plan, engine_bytes: int) -> tuple[int, int]:
    """Return how many box copies between domains go by copy engines, and how many by kernels.

    Args:
      plan: the movement.
      engine_bytes: the least that an engine is worth its call for; 0 for never.
    """
    shapes = [*plan.source.shard_shapes, *(shape for _, shape, _ in plan.recipe.allocations)]
    layouts = [(shape, dense_strides(shape, plan.itemsize)) for shape in shapes]
    engines = kernels = 0
    for step in plan.recipe.steps:
        for phase in step.phases:
            for _, target, _, source, domain in views_of(phase, layouts):
                if domain == step.domain:
                    continue
                dense = target.is_dense(plan.itemsize) and source.is_dense(plan.itemsize)
                nbytes = math.prod(target.shape) * plan.itemsize
                if by_engine(nbytes, dense=dense, crosses=True, least=engine_bytes):
                    engines += 1
                else:
                    kernels += 1
    return engines, kernels
