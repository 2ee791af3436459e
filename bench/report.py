"""Tables for people, JSON for programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from bench.case import OURS, Goal, Result, Timing


def tables(results: list[Result], goals: list[Goal]) -> str:
    """Return all tables of a group, and how its goals stand."""
    names = dict.fromkeys(result.case.table for result in results)
    parts = [_table(name, [r for r in results if r.case.table == name]) for name in names]
    if goals:
        parts.append("\n".join(_goal(goal) for goal in goals) + "\n")
    return "\n".join(parts)


def _table(name: str, results: list[Result]) -> str:
    columns = max((result.columns for result in results), key=len)
    ratios = _ratios(columns)
    rows = [["case", *columns, *(f"{a}/{b}" for a, b in ratios), "of target", ""]]
    for result in results:
        rows.append(
            [
                result.case.name,
                *(_timing(result.timings.get(column)) for column in columns),
                *(_ratio(result.ratio(*ratio)) for ratio in ratios),
                _share(result.share),
                result.case.note,
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        " | ".join(
            cell.ljust(width) if i in (0, len(row) - 1) else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip(" |")
        for row in rows
    ]
    lines.insert(1, "-|-".join("-" * width for width in widths))
    return "\n".join([f"## {name}", "", *lines, "", *_verdict(results), ""])


def _ratios(columns: list[str]) -> list[tuple[str, str]]:
    """Return which columns are divided by which; all but the last should be large."""
    *others, floor = columns
    return [(column, OURS) for column in others if column != OURS] + [(OURS, floor)]


def _verdict(results: list[Result]) -> list[str]:
    targets = dict.fromkeys(str(r.case.target) for r in results if r.case.target is not None)
    judged = [result for result in results if result.share is not None]
    if not judged:
        return []
    missed = [f"{r.case.name} ({r.share:.2f})" for r in judged if r.share and r.share > 1]
    target = f" ({next(iter(targets))})" if len(targets) == 1 else ""
    lines = [f"within the target{target}: {len(judged) - len(missed)} of {len(judged)}"]
    return [*lines, *(f"  missed: {name}" for name in missed)]


def _goal(goal: Goal) -> str:
    if goal.value is None:
        return f"{goal.text}: -"
    target = "" if goal.at_least is None else f" (at least {goal.at_least:g})"
    return f"{goal.text}: {goal.value:.2f}{target}"


def _timing(timing: Timing | None) -> str:
    if timing is None:
        return "-"
    scale, unit = next(
        (scale, unit)
        for scale, unit in ((1.0, "s"), (1e3, "ms"), (1e6, "us"))
        if timing.median * scale >= 1 or unit == "us"
    )
    median, low, high = (_digits(s * scale) for s in (timing.median, timing.q1, timing.q3))
    return f"{median} {unit} ({low}-{high})"


def _digits(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def _ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}{' !' if value > 1 else ''}"


def group_json(results: list[Result], goals: list[Goal], failures: list[str]) -> dict[str, Any]:
    """Return a group's results as plain data; all times are seconds."""
    return {
        "cases": [case_json(result) for result in results],
        "failures": failures,
        "goals": [dataclasses.asdict(goal) for goal in goals],
    }


def case_json(result: Result) -> dict[str, Any]:
    """Return a case's result as plain data."""
    case = result.case
    return {
        "name": case.name,
        "table": case.table,
        "checked": result.checked,
        "seconds": {
            column: dataclasses.asdict(result.timings[column]) if column in result.timings else None
            for column in result.columns
        },
        "ratios": {f"{a}/{b}": result.ratio(a, b) for a, b in _ratios(result.columns)},
        "target": None if case.target is None else str(case.target),
        "target_seconds": result.allowed,
        "of_target": result.share,
        "facts": case.facts,
        "peers_borrowed": case.borrows,
    }
