"""What work writes: the arrays, and the claims on their memory."""

from __future__ import annotations

import dataclasses

from gpushard.runtime.memory import Claim
from gpushard.typing import LocalArray


@dataclasses.dataclass(slots=True)
class Outputs:
    """Arrays that work writes."""

    values: list[LocalArray]
    claims: list[Claim]  # what keeps the memory of each
    settled: bool  # whether they are known to be there once the caller has run what is left to it
