"""`python -m bench`: run groups of benchmarks, print tables, write JSON."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Callable
from types import ModuleType
from typing import Any

from bench import groups, machine, records, report
from bench.case import Config, Goal, Result
from bench.chip import part_names
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
    on_gpu = all(name.startswith("gpu") for name in names)  # there JAX has the GPU
    config = Config(
        quick=options.quick,
        repeat=options.repeat,
        jax=None if options.no_jax or on_gpu else find_jax(),
        keep_going=options.keep_going,
        peers=not options.no_jax,
    )

    def save(report_json: dict[str, Any]) -> None:
        if options.json is not None:
            records.replace(options.json, json.dumps(report_json, indent=1) + "\n")

    part = records.part_of(options.part) if options.part else None
    report_json = run(names, config, options.case, options.commit, save, part)
    return int(any(group["failures"] for group in report_json["groups"].values()))


def run(
    names: list[str],
    config: Config,
    only: str = "",
    commit: str | None = None,
    save: Callable[[dict[str, Any]], None] = lambda report_json: None,
    part: records.Part | None = None,
) -> dict[str, Any]:
    """Run groups, print their tables and return all results as plain data.

    Args:
      names: of the groups, or of a part of one, such as `gpu:reshards`.
      config: how to run them.
      only: run only the cases with this text in "table: name".
      commit: what was checked out, where git is not there to tell.
      save: is given all results so far whenever a case has ended.
      part: records each case, and knows which cases have ended in an earlier process.
    """
    found = groups.find()
    facts = machine.facts(config.jax, commit)
    if config.jax is None and not all(name.startswith("gpu") for name in names):
        print("JAX does not take part; its columns stay empty.\n")
    finished: dict[str, Any] = {}
    report_json = {
        "machine": facts,
        "settings": {
            "quick": config.quick,
            "repeat": config.turns,
            "only": only,
            "gpushard": dataclasses.asdict(Settings()),
        },
        "groups": finished,
    }
    for name in names:

        def keep(results: list[Result], failures: list[str], name: str = name) -> None:
            finished[name] = report.group_json(results, [], failures)
            save(report_json)

        group, _, only_part = name.partition(":")
        chosen = dataclasses.replace(config, part=only_part)
        watch = None if part is None else Watch(part, group)
        results, goals, failures = run_group(found[group], chosen, only, keep, watch)
        print(f"# {name}: {groups.title(found[group])}\n")
        print(report.tables(results, goals))
        for failure in failures:
            print(f"FAILED {failure}")
        finished[name] = report.group_json(results, goals, failures)
        save(report_json)
    return report_json


class Watch:
    """Records the cases of a group, each as it ends.

    Args:
      part: where to.
      group: the name of the group.
    """

    def __init__(self, part: records.Part, group: str) -> None:
        self._records = part.records
        self._group = group
        self._done = records.ended_items(records.read(part.records.path), part.records.stage)

    def is_done(self, title: str) -> bool:
        """Whether a case has ended in an earlier process."""
        return self._item(title) in self._done

    def begun(self, title: str) -> None:
        """Record that a case begins."""
        self._records.begun(self._item(title))

    def ended(self, title: str, seconds: float, result: Result | Exception) -> None:
        """Record what a case gave; ends the process if that has cost it the GPU."""
        if isinstance(result, Result):
            facts = report.case_json(result)
            self._records.ended(self._item(title), records.PASSED, seconds, facts=facts)
            return
        text = "".join(traceback.format_exception(result))
        self._records.ended(self._item(title), records.FAILED, seconds, text)
        if records.gpu_is_lost():
            os._exit(records.AGAIN)  # nothing that tidies up would return

    def _item(self, title: str) -> str:
        return f"{self._group}: {title}"


def run_group(
    group: ModuleType,
    config: Config,
    only: str = "",
    keep: Callable[[list[Result], list[str]], None] = lambda results, failures: None,
    watch: Watch | None = None,
) -> tuple[list[Result], list[Goal], list[str]]:
    """Check and measure the cases of one group; return results, goals and what failed.

    Args:
      group: the module.
      config: how to run it.
      only: run only the cases with this text in "table: name".
      keep: is given what there is whenever a case has ended.
      watch: records each case, if it is to be recorded.
    """
    results: list[Result] = []
    failures: list[str] = []
    start = time.perf_counter()
    for case in group.cases(config):
        title = f"{case.table}: {case.name}"
        if only not in title or (watch is not None and watch.is_done(title)):
            continue
        begun = time.perf_counter()
        print(f"[{begun - start:5.0f} s] {title}", file=sys.stderr, flush=True)
        if watch is not None:
            watch.begun(title)
        ended: Result | Exception
        try:
            ended = borrow(measure(case, config), results)
            results.append(ended)
        except Exception as error:
            if not config.keep_going:
                raise
            traceback.print_exc()
            failures.append(f"{title}: {type(error).__name__}: {error}")
            ended = error
        if watch is not None:
            watch.ended(title, time.perf_counter() - begun, ended)
        keep(results, failures)
    goals = group.goals(results) if hasattr(group, "goals") else []
    return results, goals, failures


def _group_names() -> list[str]:
    """Return the names of groups, and of those parts of groups that can be run alone."""
    found = groups.find()
    parts = {name: part_names(getattr(group, "PARTS", ())) for name, group in found.items()}
    return [*found, *(f"{name}:{part}" for name in parts for part in parts[name])]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--group",
        action="extend",
        nargs="+",
        choices=_group_names(),
        metavar="GROUP",
        help="the groups to run, or a part of one, such as gpu:reshards; all by default",
    )
    parser.add_argument("--case", default="", help='only cases with this text in "table: name"')
    parser.add_argument(
        "--json", type=pathlib.Path, help="write all results to this file, after each case"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes, once: a smoke test")
    parser.add_argument("--repeat", type=int, default=7, help="how often each side takes its turn")
    parser.add_argument("--no-jax", action="store_true", help="leave JAX out, and PyTorch on a GPU")
    parser.add_argument(
        "--keep-going", action="store_true", help="go on after a case that fails; exit with 1"
    )
    parser.add_argument("--commit", help="the commit, where there is no git to tell")
    records.add_part(parser)
    parser.add_argument("--list", action="store_true", help="name the groups and end")
    return parser


if __name__ == "__main__":
    sys.exit(main())
