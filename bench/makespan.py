"""`python -m bench.makespan`: simulated times of reshards between many memory domains.

No clock is read: what a reshard gives to the streams is recorded and run on a model of a topology.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import pathlib
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gpushard as gs
from bench.boxes import movement, places, volume
from bench.groups.reshard import AXES, SPECS
from bench.what_if import nearest, shared
from gpushard._runtime.runtime import Runtime
from gpushard.testing import (
    Needs,
    Topology,
    Work,
    lower_bound,
    nvlink,
    pcie,
    record_work,
    runtime,
    simulate,
    two_hosts,
)
from gpushard.testing.topology import LATENCY

TOPOLOGIES: dict[str, Callable[[int], Topology]] = {
    "NVLink": nvlink,
    "PCIe": pcie,
    "two hosts": two_hosts,
}

FAR_REPLICAS = (gs.P("y"), gs.P(None, "y"))
"""Layouts with replicas along the slow axis of the mesh, so that a block is held in every host."""

AT_BOUND = 1.05
"""A ratio below this counts as being at the bound."""

BEGIN, END = "<!-- tables: begin -->", "<!-- tables: end -->"


@dataclasses.dataclass(frozen=True)
class Size:
    """A mesh, and an array on it."""

    mesh: tuple[int, int]
    """Sizes of the two axes; every device is a memory domain."""

    side: int
    """Rows and columns of the array of float32."""

    @property
    def domains(self) -> int:
        """How many devices and domains."""
        return math.prod(self.mesh)

    @property
    def title(self) -> str:
        """What stands above its table."""
        return f"{self.domains} domains, mesh {self.mesh}, {4 * self.side**2 / (1 << 20):g} MiB"


SIZES = (Size((4, 2), 4096), Size((8, 8), 2048))
QUICK = (Size((4, 2), 512),)


@dataclasses.dataclass(frozen=True)
class Figures:
    """What one movement takes on one topology, in seconds."""

    time: float
    """Of the recorded work."""

    bound: float
    """What no plan can beat; 0 if nothing has to be copied."""

    load: float
    """What the busiest resource alone takes for the bytes of the recorded work."""

    busiest: str
    """Which resource that is."""

    near: float
    """If every domain read what it lacks from the nearest holders; see `what_if.nearest`."""

    shared: float
    """If neighbours fetched together what none of them holds; see `what_if.shared`."""

    @property
    def ratios(self) -> list[float]:
        """How far `time`, `load`, `near` and `shared` are above the bound."""
        return [t / self.bound for t in (self.time, self.load, self.near, self.shared)]


@dataclasses.dataclass(frozen=True)
class Row:
    """One movement on all topologies."""

    table: str
    name: str
    figures: dict[str, Figures]


@dataclasses.dataclass(frozen=True)
class _Move:
    """A reshard, and where its figures belong."""

    table: str
    name: str
    here: gs.NamedSharding
    there: gs.NamedSharding


def rows(sizes: tuple[Size, ...], latency: float = LATENCY) -> Iterator[Row]:
    """Simulate all pairs of layouts of each size, and what few or far holders make of some.

    Args:
      sizes: meshes and arrays; the first one is the one that is spread from a few devices.
      latency: seconds per item of work, of all topologies.
    """
    for size in sizes:
        streams = {"inline_bytes": 0, "small_bytes": 0}
        topologies = {
            title: dataclasses.replace(make(size.domains), latency=latency)
            for title, make in TOPOLOGIES.items()
        }
        with runtime(host_devices=size.domains, host_domains=size.domains, **streams) as used:
            host = np.random.default_rng(0).random((size.side, size.side), np.float32)
            for move in _moves(size, used, spread=size is sizes[0]):
                yield _row(move, used, host, topologies)


def _moves(size: Size, used: Runtime, *, spread: bool) -> Iterator[_Move]:
    mesh = gs.make_mesh(size.mesh, AXES)
    tables = {
        size.title: itertools.permutations(SPECS, 2),
        f"{size.title}, replicas far apart": itertools.product(FAR_REPLICAS, SPECS + FAR_REPLICAS),
    }
    for table, pairs in tables.items():
        for source, destination in pairs:
            if source != destination:
                here, there = (gs.NamedSharding(mesh, spec) for spec in (source, destination))
                yield _Move(table, f"{source} -> {destination}", here, there)
    sources = ((1, gs.P()), (2, gs.P("x")), (2, gs.P()), (4, gs.P("x")), (4, gs.P()))
    for count, spec in sources if spread else ():
        few = gs.make_mesh((count,), ("x",), devices=used.devices[:count])
        here, there = gs.NamedSharding(few, spec), gs.NamedSharding(mesh, gs.P())
        name = f"{spec} on {count} of {size.domains} -> P() on all"
        yield _Move(f"{size.title}, spreading", name, here, there)


def _row(
    move: _Move, used: Runtime, host: np.ndarray[Any, Any], topologies: dict[str, Topology]
) -> Row:
    x = gs.device_put(host, move.here).block_until_ready()
    work, y = record_work(used, lambda: gs.device_put(x, move.there))
    assert np.array_equal(np.asarray(y), host)
    x.delete()
    y.delete()
    needs = needs_of(move.here, move.there, host.shape, host.itemsize, len(used.domains))
    figures = {}
    for title, topology in topologies.items():
        time, bound = simulate(work, topology).makespan, lower_bound(needs, topology)
        near, share = nearest(needs, topology), shared(needs, topology)
        figures[title] = Figures(time, bound, *busiest(work, topology), near, share)
    return Row(move.table, move.name.replace("PartitionSpec", "P"), figures)


def needs_of(
    here: gs.NamedSharding,
    there: gs.NamedSharding,
    shape: tuple[int, ...],
    itemsize: int,
    domains: int,
) -> Needs:
    """Return what a reshard needs, by `boxes.py`, which does not ask gpushard's planner."""
    written = [0] * domains
    for copy in movement(here, there, shape, itemsize).copies:
        written[copy.wanted[0]] += volume(copy.box) * itemsize
    return Needs.of_boxes(places(here, shape), places(there, shape), itemsize, written)


def busiest(work: Sequence[Work], topology: Topology) -> tuple[float, str]:
    """Return the least time for which the bytes of some work keep one resource busy, and which.

    Less than the makespan is due to the plan, the rest to when its flows run.
    """
    load = np.zeros(len(topology.capacity))
    for item in work:
        for pair, nbytes in item.flows.items():
            load[topology.table[pair]] += nbytes
    seconds = (load / topology.capacity)[:-1]
    if not seconds.any():
        return 0.0, ""
    return float(seconds.max()) + topology.latency, list(topology.bandwidth)[seconds.argmax()]


def markdown(found: list[Row]) -> str:
    """Return a summary, and a table for each size and topology."""
    tables: dict[str, list[Row]] = {}
    for row in found:
        tables.setdefault(row.table, []).append(row)
    parts = [_summary(tables)]
    for name, part in tables.items():
        for topology in TOPOLOGIES:
            parts.append("\n".join([f"### {name}: {topology}", "", *_table(part, topology)]))
    return "\n\n".join(parts)


def _summary(tables: dict[str, list[Row]]) -> str:
    lines = [
        "| | topology | at the bound | ratio: mean | largest | load: mean | largest "
        "| nearest: mean | largest | shared: mean | largest |",
        "|---" * 11 + "|",
    ]
    for name, part in tables.items():
        for topology in TOPOLOGIES:
            ratios = [f.ratios for row in part if (f := row.figures[topology]).bound]
            at_bound = sum(ratio[0] < AT_BOUND for ratio in ratios)
            cells = [
                f"{figure(column):.2f}"
                for column in zip(*ratios, strict=True)
                for figure in (statistics.geometric_mean, max)
            ]
            lines.append(
                f"| {name} | {topology} | {at_bound} of {len(ratios)} | {' | '.join(cells)} |"
            )
    return "\n".join(lines)


def _table(part: list[Row], topology: str) -> list[str]:
    head = "| move | us | bound, us | ratio | load | nearest | shared | busiest |"
    lines = [head, "|---" * 8 + "|"]
    for row in part:
        figures = row.figures[topology]
        cells = " | ".join("-" * 7)
        if figures.bound:
            times = (f"{seconds * 1e6:,.0f}" for seconds in (figures.time, figures.bound))
            ratios = (f"{ratio:.2f}" for ratio in figures.ratios)
            cells = " | ".join((*times, *ratios, figures.busiest))
        lines.append(f"| `{row.name}` | {cells} |")
    return lines


def write_into(page: str, tables: str) -> str:
    """Return a page with the tables between its marks, or the tables alone if it has none."""
    if BEGIN not in page or END not in page:
        return tables + "\n"
    before, after = page.split(BEGIN)[0], page.split(END)[1]
    return f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.makespan", description=__doc__)
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    parser.add_argument(
        "--markdown", type=pathlib.Path, help="write the tables to this file, between its marks"
    )
    parser.add_argument(
        "--latency", type=float, default=LATENCY, help="seconds per item of work (%(default)s)"
    )
    parser.add_argument("--quick", action="store_true", help="a small array on 8 domains only")
    options = parser.parse_args(arguments)
    found = []
    for row in rows(QUICK if options.quick else SIZES, options.latency):
        print(f"{row.table}: {row.name}", file=sys.stderr, flush=True)
        found.append(row)
    tables = markdown(found)
    print(tables)
    if options.json is not None:
        report = {"rows": [dataclasses.asdict(row) for row in found]}
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    if options.markdown is not None:
        page = options.markdown
        text = page.read_text(encoding="utf-8") if page.exists() else ""
        page.write_text(write_into(text, tables), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
