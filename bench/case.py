"""What is measured: a case, the sides that do it, and how long gpushard may take."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bench.peers import Jax

T = TypeVar("T")

OURS = "gpushard"
JAX = "JAX"
FLOOR = "NumPy floor"

Sampler = Callable[[], float]
"""Does the work once and returns the seconds that it took, without what prepares and tidies up."""


@dataclasses.dataclass(frozen=True)
class Config:
    """How to run a group."""

    quick: bool = False
    """Tiny sizes and one repetition: a smoke test, whose figures mean nothing."""

    repeat: int = 7
    """How many times the sides of a case take turns."""

    jax: Jax | None = None
    """JAX, if there."""

    keep_going: bool = False
    """Whether a case that fails is told of and left out, and does not end the run."""

    peers: bool = True
    """Whether JAX and PyTorch are measured on a GPU, where they are installed."""

    part: str = ""
    """The part of a group to run, where it has parts; all of them if empty."""

    def pick(self, full: T, quick: T) -> T:
        """Return what fits the mode."""
        return quick if self.quick else full

    @property
    def turns(self) -> int:
        """How many times the sides of a case take turns."""
        return self.pick(self.repeat, 1)


@dataclasses.dataclass(frozen=True)
class Side:
    """One way to do the work of a case; a column of the table."""

    column: str
    """`OURS`, `FLOOR`, or the name of a peer."""

    sample: Sampler | None
    """Does it once; None where it cannot be had, or where there is nothing to do."""


@dataclasses.dataclass(frozen=True)
class Target:
    """gpushard may take `times` the median of another column, plus `seconds`."""

    seconds: float = 0.0
    times: float = 0.0
    column: str = FLOOR

    def allowed(self, medians: Mapping[str, float]) -> float | None:
        """Return the seconds allowed; None if the other column was not measured."""
        if not self.times:
            return self.seconds
        base = medians.get(self.column)
        return None if base is None else self.times * base + self.seconds

    def __str__(self) -> str:
        parts = [f"{self.times:g}x {self.column}"] if self.times else []
        if self.seconds >= 1e-3:
            parts.append(f"{self.seconds * 1e3:,.4g} ms")
        elif self.seconds:
            parts.append(f"{self.seconds * 1e6:,.4g} us")
        return " + ".join(parts)


@dataclasses.dataclass(frozen=True)
class Case:
    """One row of a table."""

    name: str
    """Unique within its table."""

    table: str
    """The table of the group that it belongs to."""

    sides: list[Side]
    """Who does it. `OURS` is among them."""

    check: Callable[[], None]
    """Does it once with every side that there is and raises if a value is wrong; runs first."""

    target: Target | None = None
    """How long gpushard may take."""

    burst: int = 1
    """Samples that a side takes in one turn; many for what takes microseconds."""

    facts: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What else belongs into the JSON, such as bytes moved."""

    note: str = ""
    """The most important of them, for the table."""

    floor: str = FLOOR
    """The column of the least that the machine can do."""

    borrows: bool = False
    """Whether the peers' figures of an earlier case of the same name hold here too."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """Seconds of all samples of one side."""

    median: float
    min: float
    q1: float
    q3: float
    max: float
    samples: int


@dataclasses.dataclass(frozen=True)
class Result:
    """A case that was checked and measured."""

    case: Case
    """Without what ran it, so that no memory hangs on a result."""
    timings: dict[str, Timing]
    """By column; without the sides that could not be had."""
    checked: bool
    """Whether every side gave the right values."""

    @property
    def medians(self) -> dict[str, float]:
        """Median seconds by column."""
        return {column: timing.median for column, timing in self.timings.items()}

    @property
    def allowed(self) -> float | None:
        """The seconds that the target allows, if there is one."""
        target = self.case.target
        return None if target is None else target.allowed(self.medians)

    @property
    def share(self) -> float | None:
        """What gpushard took of what the target allows; above 1 is a miss."""
        allowed = self.allowed
        return None if allowed is None else self.timings[OURS].median / allowed

    @property
    def columns(self) -> list[str]:
        """All columns: gpushard's, then JAX's and other peers', then the floor's."""
        found, floor = dict.fromkeys(side.column for side in self.case.sides), self.case.floor
        return [OURS, JAX, *(c for c in found if c not in (OURS, JAX, floor)), floor]

    def ratio(self, over: str, under: str) -> float | None:
        """Return the ratio of two columns' medians, if both were measured."""
        medians = self.medians
        if over not in medians or under not in medians:
            return None
        return medians[over] / medians[under]


@dataclasses.dataclass(frozen=True)
class Goal:
    """A figure about many cases, with what it should at least be."""

    text: str
    value: float | None
    """None where it could not be worked out, such as without JAX."""
    at_least: float | None = None
