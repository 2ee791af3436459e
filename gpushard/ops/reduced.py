"""What there is to know of a reduction whose factors are split."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.ops.aval import Aval, Dtype
from gpushard.ops.row import Params, Row
from gpushard.ops.rule import Rule
from gpushard.runtime.runtime import Runtime
from gpushard.typing import Index


@dataclass(frozen=True, eq=False)
class Reduced:
    """A reduction over split factors that is to be compiled."""

    row: Row
    """The operation."""

    rule: Rule
    """Its factors."""

    avals: Sequence[Aval]
    """Its operands."""

    params: Params
    """Its parameters."""

    runtime: Runtime
    """The runtime of the devices."""

    operands: Sequence[Tiling]
    """Boxes of the operands when the kernel runs."""

    natural: Tiling
    """Boxes of the result as the operands' splits give them: what the parts are parts of."""

    result: Tiling
    """Boxes of the result, each within the natural one of its device."""

    dtype: Dtype
    """Type of the result."""

    @functools.cached_property
    def dtypes(self) -> tuple[Dtype, ...]:
        """Types of the arrays of a state."""
        assert self.row.reduction is not None
        return self.row.reduction.states(self.avals, self.params)

    def make(self, part: str) -> Any:
        """Make a function of the row's reduction: "local", "merge" or "finish"."""
        maker = getattr(self.row.reduction, part)
        return maker(self.runtime.backend.namespace, self.avals, self.params)

    def region(self, home: int) -> Index | None:
        """Return where in its natural box the box of a device lies; None if it is all of it."""
        shape = self.result.shard_shapes[home]
        if shape == self.natural.shard_shapes[home]:
            return None
        starts = (self.result.starts[:, home] - self.natural.starts[:, home]).tolist()
        return tuple(slice(a, a + n) for a, n in zip(starts, shape, strict=True))

    @functools.cached_property
    def counts(self) -> list[int]:
        """Return how many elements each device reduces to one."""
        counts = np.ones(len(self.natural.devices), np.int64)
        seen: set[int] = set()
        for dims, tiling in zip(self.rule.operands, self.operands, strict=False):
            for dim, factor in enumerate(dims):
                if factor in self.rule.reduced and factor not in seen:
                    seen.add(factor)
                    counts *= tiling.stops[dim] - tiling.starts[dim]
        result: list[int] = counts.tolist()
        return result
