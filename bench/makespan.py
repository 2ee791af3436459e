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
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.boxes import Movement, movement, places
from bench.groups.reshard import AXES, SPECS
from gpushard.runtime.runtime import Runtime
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

TOPOLOGIES: dict[str, Callable[[int], Topology]] = {
    "NVLink": nvlink,
    "PCIe": pcie,
    "two hosts": two_hosts,
}

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

    near: float
    """If every domain read what it lacks from the nearest holders, without relays; see `nearest`."""

    @property
    def ratio(self) -> float | None:
        """How far the recorded work is above the bound."""
        return self.time / self.bound if self.bound else None

    @property
    def near_ratio(self) -> float | None:
        """How far nearest holders are above the bound."""
        return self.near / self.bound if self.bound else None


@dataclasses.dataclass(frozen=True)
class Row:
    """One movement on all topologies."""

    table: str
    name: str
    figures: dict[str, Figures]


def rows(sizes: tuple[Size, ...]) -> Iterator[Row]:
    """Simulate all pairs of layouts of each size, and spreading from a few devices of the first."""
    for size in sizes:
        streams = {"inline_bytes": 0, "small_bytes": 0}
        with runtime(host_devices=size.domains, host_domains=size.domains, **streams) as used:
            host = np.random.default_rng(0).random((size.side, size.side), np.float32)
            mesh = gs.make_mesh(size.mesh, AXES)
            for pair in itertools.permutations(SPECS, 2):
                here, there = (gs.NamedSharding(mesh, spec) for spec in pair)
                yield _row(used, host, here, there, size.title, f"{pair[0]} -> {pair[1]}")
            if size is sizes[0]:
                yield from _spreading(used, host, mesh, size)


def _spreading(
    used: Runtime, host: np.ndarray[Any, Any], mesh: gs.Mesh, size: Size
) -> Iterator[Row]:
    there = gs.NamedSharding(mesh, gs.P())
    for count in (1, 2, 4):
        few = gs.make_mesh((count,), ("x",), devices=used.devices[:count])
        for spec in dict.fromkeys((gs.P("x"), gs.P()) if count > 1 else (gs.P(),)):
            here = gs.NamedSharding(few, spec)
            name = f"{spec} on {count} of {size.domains} -> P() on all"
            yield _row(used, host, here, there, f"Spreading over {size.title}", name)


def _row(
    used: Runtime,
    host: np.ndarray[Any, Any],
    here: gs.NamedSharding,
    there: gs.NamedSharding,
    table: str,
    name: str,
) -> Row:
    domains = len(used.domains)
    x = gs.device_put(host, here).block_until_ready()
    work, y = record_work(used, lambda: gs.device_put(x, there))
    assert np.array_equal(np.asarray(y), host)
    x.delete()
    y.delete()
    moves = movement(here, there, host.shape, host.itemsize)
    needs = needs_of(moves, here, there, host, domains)
    figures = {}
    for title, make in TOPOLOGIES.items():
        topology = _topology(make, domains)
        near = simulate(nearest(moves, needs, topology), topology).makespan
        time, bound = simulate(work, topology).makespan, lower_bound(needs, topology)
        figures[title] = Figures(time, bound, near)
    return Row(table, name.replace("PartitionSpec", "P"), figures)
