"""`python -m bench.compare BASE`: is this version slower than another one?

BASE is the folder of another checkout. Two processes, one per checkout, take turns at the same
short probes, which gives one median ratio of adjacent turns. That is repeated with fresh processes,
as where things happen to lie in memory makes a process faster or slower for all of its life. The
table has the median over these rounds, with a 95% confidence interval from a bootstrap over them.
The settings are the defaults.

With `--group`, the probes are gpushard's own sides of the cases of groups that both checkouts have,
each with the `bench` of its checkout; and `--imports` times `import gpushard`.
"""

from __future__ import annotations

import argparse
import json
import pathlib
from typing import Any

import numpy as np

from bench import machine
from bench.process import Process

HERE = pathlib.Path(__file__).parents[1]

PROBE = """
import gc, json, statistics, sys, time
import numpy as np
import gpushard as gs

assert gs.__file__.startswith(sys.argv[1]), gs.__file__
gs.configure(host_devices=8)
mesh = gs.make_mesh((4, 2), ("x", "y"))
first, second = (gs.NamedSharding(mesh, spec) for spec in (gs.P("x", "y"), gs.P("y", "x")))
host = np.arange(64, dtype=np.float32).reshape(8, 8)
x = gs.device_put(host, first)
probes = {
    "small reshard": lambda: gs.reshard(x, second),
    "small device_put": lambda: gs.device_put(host, first),
    "small slice": lambda: x[2:7],
    "np.asarray": lambda: np.asarray(gs.device_put(host, first)),
}
gc.disable()
for line in sys.stdin:
    probe, count = probes[line.split(",")[0]], int(line.split(",")[1])
    seconds = []
    for _ in range(count):
        start = time.perf_counter()
        probe()
        seconds.append(time.perf_counter() - start)
    gc.collect(0)
    print(json.dumps(statistics.median(seconds)), flush=True)
"""

GROUP = """
import gc, json, statistics, sys
from bench import groups, measure
from bench.case import OURS, Config
import gpushard

assert gpushard.__file__.startswith(sys.argv[1]), gpushard.__file__
cases = groups.find()[sys.argv[2]].cases(Config())
case = sampler = None
gc.disable()
for line in sys.stdin:
    if line.strip() == "next":
        case, sampler = next(cases, None), None
        print(json.dumps(case and f"{case.table}: {case.name}"), flush=True)
        continue
    if sampler is None or line.strip() == "warm":
        case.check()
        sampler = next(side.sample for side in case.sides if side.column == OURS)
    measure._settle()
    took = [sampler() for _ in range(max(case.burst, 3))]
    gc.collect(0)
    print(json.dumps(statistics.median(took)), flush=True)
"""

IMPORT = """
import json, subprocess, sys, time

for line in sys.stdin:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import gpushard"], check=True)
    print(json.dumps(time.perf_counter() - start), flush=True)
"""

PROBES = ("small reshard", "small device_put", "small slice", "np.asarray")


def _process(folder: pathlib.Path) -> Process:
    """Start a process that runs probes in one checkout: the median seconds of some calls."""
    return Process(PROBE, str(folder), folder=folder)


def compare(base: pathlib.Path, rounds: int, turns: int, calls: int) -> dict[str, dict[str, Any]]:
    """Measure all probes in both checkouts.

    Args:
      base: the folder of the other checkout.
      rounds: how often fresh processes are started.
      turns: how often the two of a round take turns.
      calls: calls in each turn.

    Returns:
      For each probe the median microseconds of both, the ratio of this to base, and its interval.
    """
    found = [_round(base, turns, calls) for _ in range(rounds)]
    return {probe: _figures(np.stack([pairs[probe] for pairs in found])) for probe in PROBES}


def _round(base: pathlib.Path, turns: int, calls: int) -> dict[str, Any]:
    """Return for each probe the seconds of both sides in every turn, shape (turns, 2)."""
    sides = _process(base), _process(HERE)
    samples: dict[str, list[tuple[float, float]]] = {probe: [] for probe in PROBES}
    for turn in range(-3, turns):  # the first few warm up
        for probe in PROBES:
            order = (0, 1) if turn % 2 else (1, 0)
            took = {side: float(sides[side].ask(f"{probe},{calls}")) for side in order}
            if turn >= 0:
                samples[probe].append((took[0], took[1]))
    for side in sides:
        side.close()
    return {probe: np.array(pairs) for probe, pairs in samples.items()}


def compare_group(
    base: pathlib.Path, group: str, rounds: int, turns: int, only: str = ""
) -> dict[str, Any]:
    """Measure gpushard's side of all cases that both checkouts have of a group, in one order.

    Args:
      base: the folder of the other checkout.
      group: its name.
      rounds: how often fresh processes are started.
      turns: how often the two take turns at a case.
      only: a text that titles of cases have.

    Returns:
      As for `compare`.

    Raises:
      ValueError: this checkout lacks a case of the other one, or has it elsewhere.
    """
    found: dict[str, list[Any]] = {}
    for _ in range(rounds):
        sides = [Process(GROUP, str(at), group, folder=at) for at in (base, HERE)]
        while (title := sides[0].ask("next")) is not None:
            here = sides[1].ask("next")
            while here not in (title, None):  # what only this one has
                here = sides[1].ask("next")
            if here is None:
                raise ValueError(f"{title} of {base} is not here, or elsewhere in the order")
            if only not in title:
                continue
            pairs = []
            for turn in range(-1, turns):
                took = {side: float(sides[side].ask("warm" if turn < 0 else "take"))
                        for side in ((0, 1) if turn % 2 else (1, 0))}  # fmt: skip
                if turn >= 0:
                    pairs.append((took[0], took[1]))
            found.setdefault(title, []).append(np.array(pairs))
        for side in sides:
            side.kill()
    return {title: _figures(np.stack(pairs)) for title, pairs in found.items()}


def compare_imports(base: pathlib.Path, turns: int) -> dict[str, Any]:
    """Measure `import gpushard` in fresh processes, in turns; returns as `compare`."""
    sides = [Process(IMPORT, folder=at) for at in (base, HERE)]
    pairs = [[float(side.ask("go")) for side in sides] for _ in range(turns + 2)][2:]
    for side in sides:
        side.close()
    return {"import gpushard": _figures(np.array(pairs)[None])}


def _figures(pairs: Any) -> dict[str, Any]:
    """Sum up the seconds of both sides, shape (rounds, turns, 2)."""
    ratios = np.median(pairs[:, :, 1] / pairs[:, :, 0], axis=1)
    draws = np.random.default_rng(0).choice(ratios, (2000, len(ratios)))
    low, high = np.percentile(np.median(draws, axis=1), (2.5, 97.5))
    base, this = np.median(pairs, axis=(0, 1)) * 1e6
    return {
        "base_us": float(base),
        "this_us": float(this),
        "ratio": float(np.median(ratios)),
        "low": float(low),
        "high": float(high),
        "rounds": len(ratios),
    }


def _show(found: dict[str, Any]) -> None:
    for probe, f in found.items():
        print(
            f"{probe:20} base {f['base_us']:7.2f} us, this {f['this_us']:7.2f} us, "
            f"ratio {f['ratio']:.3f} [{f['low']:.3f}, {f['high']:.3f}] over {f['rounds']} rounds"
        )


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=__doc__)
    parser.add_argument("base", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=20, help="pairs of fresh processes")
    parser.add_argument("--turns", type=int, default=40, help="turns in each round")
    parser.add_argument("--calls", type=int, default=50, help="calls in each turn")
    parser.add_argument("--group", nargs="+", default=[], help="groups instead of the probes")
    parser.add_argument("--case", default="", help="only cases with this text in their title")
    parser.add_argument("--imports", action="store_true", help="the import instead of the probes")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures to this file")
    options = parser.parse_args()
    base, found = options.base.resolve(), {}
    for group in options.group:
        cases = compare_group(base, group, options.rounds, options.turns, options.case)
        mean = float(np.exp(np.mean([np.log(f["ratio"]) for f in cases.values()])))
        print(f"# {group}: {len(cases)} cases, ratio {mean:.3f} (geometric mean)")
        _show(cases)
        found |= cases
    if options.imports:
        _show(compared := compare_imports(base, options.turns))
        found |= compared
    if not found:
        _show(found := compare(base, options.rounds, options.turns, options.calls))
    if options.json is not None:
        report = {
            "machine": machine.facts(None),
            "base_commit": machine.commit(options.base),
            "probes": found,
        }
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
