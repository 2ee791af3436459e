"""A summary in Markdown of what `bench.on_gpu` has recorded, however far it came."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from bench.case import OURS
from bench.records import BAD, FINISHED, OUTCOMES, STOPPED

FARTHEST = 5
"""How many figures are named that miss their goals."""

MOST_FAILED = 60
"""How many items are named that failed."""

_TEXT = 400
"""Characters of what an item that failed has said."""


@dataclasses.dataclass
class _Stage:
    """What is known of a stage."""

    state: str = "not begun"
    planned: int | None = None
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    seconds: float = 0.0
    """From when it began, in all runs together."""
    running: dict[str, str] = dataclasses.field(default_factory=dict)
    """The item that each worker is at."""
    begun: float = 0.0


class Summary:
    """Adds up records.

    Args:
      stages: the names of all stages, in order.
    """

    def __init__(self, stages: Iterable[str]) -> None:
        self._stages = {name: _Stage() for name in stages}
        self._facts: dict[str, Any] = {}
        self._bad: list[Mapping[str, Any]] = []
        self._cases: dict[str, dict[str, Any]] = {}
        self._runs: list[Mapping[str, Any]] = []
        self._last = 0.0

    def add(self, record: Mapping[str, Any]) -> None:
        """Take a record into account."""
        self._last = max(self._last, record["time"])
        if record["event"] == "run":
            self._runs.append(record)
            for stage in self._stages.values():
                stage.running.clear()  # of a run that was killed
        name = record.get("stage")
        if name is None:
            return
        stage = self._stages.setdefault(name, _Stage())
        match record["event"]:
            case "stage":
                stage.state, stage.begun = "cut off", record["time"]
            case "planned":
                stage.planned = record["count"]
            case "begun":
                stage.running[record["worker"]] = record["item"]
            case "ended":
                self._end(name, stage, record)
            case "stopped" | "finished":
                stage.state = record["event"]
                stage.running.clear()
        if stage.begun:
            stage.seconds += record["time"] - stage.begun
            stage.begun = record["time"]

    def _end(self, name: str, stage: _Stage, record: Mapping[str, Any]) -> None:
        stage.running.pop(record["worker"], None)
        stage.outcomes[record["outcome"]] += 1
        if record["outcome"] in BAD:
            self._bad.append(record)
        facts = record.get("facts")
        if name == "facts":
            self._facts[record["item"]] = facts
        elif facts and "of_target" in facts:
            group = record["item"].partition(":")[0]
            self._cases.setdefault(group, {})[record["item"]] = facts

    def is_finished(self, stage: str) -> bool:
        """Whether all items of a stage have ended."""
        return self._stages[stage].state == FINISHED

    @property
    def failed(self) -> int:
        """How many items failed."""
        return len(self._bad)

    def bench_json(self) -> dict[str, Any]:
        """Return all figures, in the form of `python -m bench --json`."""
        failures: dict[str, list[str]] = {}
        for record in self._bad:
            if record["stage"].startswith("figures"):
                failures.setdefault(record["item"].partition(":")[0], []).append(record["item"])
        groups = {
            group: {
                "cases": [*self._cases.get(group, {}).values()],
                "failures": failures.get(group, []),
                "goals": [],
            }
            for group in [*self._cases, *(name for name in failures if name not in self._cases)]
        }
        return {"machine": self._facts.get("machine"), "groups": groups}

    def markdown(self) -> str:
        """Return the summary."""
        parts = [self._head(), self._table(), self._running(), self._failed()]
        return "\n".join([*parts, self._far(), self._figures()])

    def _head(self) -> str:
        machine = self._facts.get("machine") or {}
        gpu = machine.get("gpu") or {}
        names = ", ".join(device["name"] for device in gpu.get("devices", [])) or "no GPU is known"
        cupy, nvrtc = (self._facts.get(name) or {} for name in ("CuPy", "NVRTC"))
        words = [
            f"driver {gpu.get('nvidia_driver') or '-'}",
            f"CuPy {cupy.get('version', '-')}",
            f"NVRTC {'.'.join(map(str, nvrtc.get('version', '-')))}",
            f"Python {machine.get('python', '-')}",
            f"NumPy {machine.get('numpy', '-')}",
            f"commit {machine.get('commit') or '-'}",
        ]
        head = f"# On a GPU: {names}\n\n{', '.join(words)}\n"
        for run in self._runs:
            head += f"\n`bench.on_gpu {' '.join(run['arguments'])}`: at most {run['seconds']} s\n"
        return head

    def _table(self) -> str:
        columns = [*OUTCOMES, "left", "s"]
        lines = [f"| stage | state | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
        for name, stage in self._stages.items():
            ended = sum(stage.outcomes.values())
            left = "-" if stage.planned is None else str(max(0, stage.planned - ended))
            if stage.state == FINISHED:
                left = "0"
            state = {STOPPED: "stopped at its limit"}.get(stage.state, stage.state)
            counts = [str(stage.outcomes[outcome] or "") for outcome in OUTCOMES]
            cells = [name, state, *counts, left, f"{stage.seconds:.0f}"]
            lines.append(f"| {' | '.join(cells)} |")
        note = '"Cut off" is the stage that ran when all was killed, or that runs now.'
        return "\n".join([*lines, "", note, ""])

    def _running(self) -> str:
        at = [
            f"- {name}: `{item}`"
            for name, stage in self._stages.items()
            for item in stage.running.values()
        ]
        return "\n".join(["## Running at the last record", "", *(at or ["nothing"]), ""])

    def _failed(self) -> str:
        lines = ["## What failed", ""]
        for record in self._bad[:MOST_FAILED]:
            lines.append(f"- {record['stage']}: `{record['item']}`: {record['outcome']}")
            said = record.get("text", "").strip()[-_TEXT:]
            lines += ["", "  ```text", *(f"  {line}" for line in said.splitlines()), "  ```", ""]
        if len(self._bad) > MOST_FAILED:
            lines.append(f"- and {len(self._bad) - MOST_FAILED} more, in records.jsonl")
        return "\n".join([*lines, *(["nothing", ""] if not self._bad else [""])])

    def _far(self) -> str:
        judged = [
            (facts["of_target"], item, facts)
            for cases in self._cases.values()
            for item, facts in cases.items()
            if facts["of_target"] is not None
        ]
        judged.sort(key=lambda each: -each[0])
        missed = sum(share > 1 for share, _, _ in judged)
        lines = [
            "## Farthest from their goals",
            "",
            f"{len(judged)} figures have a goal, {missed} miss it. Of target: the time that was "
            "taken, divided by the time allowed.",
            "",
            "| figure | of target | target | took |",
            "|---|---|---|---|",
        ]
        for share, item, facts in judged[:FARTHEST]:
            took = _time(facts["seconds"][OURS]["median"])
            lines.append(f"| {item} | {share:.2f} | {facts['target']} | {took} |")
        return "\n".join([*lines, ""])

    def _figures(self) -> str:
        lines = ["## All figures", "", "| figure | medians | of target |", "|---|---|---|"]
        for cases in self._cases.values():
            for item, facts in cases.items():
                medians = ", ".join(
                    f"{column} {_time(timing['median'])}"
                    for column, timing in facts["seconds"].items()
                    if timing is not None
                )
                share = facts["of_target"]
                lines.append(f"| {item} | {medians} | {'-' if share is None else f'{share:.2f}'} |")
        return "\n".join([*lines, ""])


def _time(seconds: float) -> str:
    for scale, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
