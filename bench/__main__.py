"""`python -m bench`: run groups of benchmarks, print tables, write JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
import time
import traceback
from types import ModuleType
from typing import Any

from bench import groups, machine, report
from bench.case import Config, Goal, Result
from bench.measure import borrow, measure
from bench.peers import find_jax
from gpushard.config import Settings


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    options = _parser().parse_args(arguments)
    found = groups.find()
    if options.list:
        for name, group in found.items():
            print(f"{name:10} {groups.title(group)}")
        return 0
    names = options.group or list(found)
    jax = None if options.no_jax or names == ["gpu"] else find_jax()  # there JAX has the GPU
    config = Config(
        quick=options.quick, repeat=options.repeat, jax=jax, keep_going=options.keep_going
    )
    report_json = run(names, config, options.case, options.commit)
    if options.json is not None:
        options.json.write_text(json.dumps(report_json, indent=1) + "\n", encoding="utf-8")
    return int(any(group["failures"] for group in report_json["groups"].values()))


def run(
    names: list[str], config: Config, only: str = "", commit: str | None = None
) -> dict[str, Any]:
    """Run groups, print their tables and return all results as plain data.

    Args:
      names: of the groups.
      config: how to run them.
      only: run only the cases with this text in "table: name".
      commit: what was checked out, where git is not there to tell.
    """
    found = groups.find()
    facts = machine.facts(config.jax, commit)
    if config.jax is None and names != ["gpu"]:
        print("JAX does not take part; its columns stay empty.\n")
    finished = {}
    for name in names:
        results, goals, failures = run_group(found[name], config, only)
        print(f"# {name}: {groups.title(found[name])}\n")
        print(report.tables(results, goals))
        for failure in failures:
            print(f"FAILED {failure}")
        finished[name] = report.group_json(results, goals, failures)
    return {
        "machine": facts,
        "settings": {
            "quick": config.quick,
            "repeat": config.turns,
            "only": only,
            "gpushard": dataclasses.asdict(Settings()),
        },
        "groups": finished,
    }


def run_group(
    group: ModuleType, config: Config, only: str = ""
) -> tuple[list[Result], list[Goal], list[str]]:
    """Check and measure the cases of one group; return results, goals and what failed."""
    results: list[Result] = []
    failures: list[str] = []
    start = time.perf_counter()
    for case in group.cases(config):
        title = f"{case.table}: {case.name}"
        if only not in title:
            continue
        print(f"[{time.perf_counter() - start:5.0f} s] {title}", file=sys.stderr, flush=True)
        try:
            results.append(borrow(measure(case, config), results))
        except Exception as error:
            if not config.keep_going:
                raise
            traceback.print_exc()
            failures.append(f"{title}: {type(error).__name__}: {error}")
    goals = group.goals(results) if hasattr(group, "goals") else []
    return results, goals, failures


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--group",
        action="extend",
        nargs="+",
        choices=list(groups.find()),
        help="the groups to run; all by default",
    )
    parser.add_argument("--case", default="", help='only cases with this text in "table: name"')
    parser.add_argument("--json", type=pathlib.Path, help="write all results to this file")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, once: a smoke test")
    parser.add_argument("--repeat", type=int, default=7, help="how often each side takes its turn")
    parser.add_argument("--no-jax", action="store_true", help="leave JAX out")
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a case that fails; exit with 1"
    )
    parser.add_argument("--commit", help="the commit, where there is no git to tell")
    parser.add_argument("--list", action="store_true", help="name the groups and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
