"""Planning: time per plan and per copy, where every device is a memory domain of its own."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.measure import timed
from gpushard._geometry.tiling import Tiling
from gpushard._movement.plan import Plan
from gpushard._movement.planning.dim_maps import identity
from gpushard._movement.planning.reshard import make_plan
from gpushard.testing import runtime

ITEMSIZE = 4
P = gs.P


@dataclasses.dataclass(frozen=True)
class _Pair:
    """A reshard on a mesh of opaque devices."""

    mesh: tuple[int, ...]
    shape: tuple[int, ...]
    source: gs.P
    destination: gs.P

    @property
    def name(self) -> str:
        mesh, shape = ("x".join(map(str, sizes)) for sizes in (self.mesh, self.shape))
        return f"{shape} on {mesh}: {self.source} -> {self.destination}".replace(
            "PartitionSpec", "P"
        )

    def shardings(self) -> tuple[gs.NamedSharding, gs.NamedSharding]:
        devices = np.arange(math.prod(self.mesh)).astype(object).reshape(self.mesh)
        mesh = gs.Mesh(devices, ("x", "y", "z")[: len(self.mesh)])
        return gs.NamedSharding(mesh, self.source), gs.NamedSharding(mesh, self.destination)


EXPANDED = (
    _Pair((4, 2), (64, 48), P("x", "y"), P("y", "x")),
    _Pair((4, 2), (61, 47), P("x", "y"), P("y", "x")),
    _Pair((4, 2), (8192, 8192), P("x", "y"), P()),
    _Pair((2, 2, 2), (64, 48, 32), P("x", "y", "z"), P("z", "x", "y")),
    _Pair((2, 2, 2), (61, 47, 31), P("x", "y"), P(("z", "y"), None, "x")),
    _Pair((8, 8), (8192, 8192), P("x", "y"), P("y", "x")),
    _Pair((8, 8), (8192, 8192), P("x", "y"), P(None, ("x", "y"))),
    _Pair((8, 8), (6411, 4807), P("x", "y"), P(("y", "x"))),
    _Pair((8, 8), (8192, 8192), P(("x", "y")), P(None, ("x", "y"))),
    _Pair((8, 8), (8192, 8192), P("x", "y"), P()),
    _Pair((16, 16), (8192, 8192), P("x"), P(None, "x")),
    _Pair((16, 16), (6411, 4807), P("x", "y"), P("y", "x")),
    _Pair((16, 16), (8192, 8192), P("x", "y"), P(None, ("x", "y"))),
    _Pair((64, 64), (8192, 8192), P("x", "y"), P("y", "x")),
    _Pair((64, 64), (8192, 8192), P(("x", "y")), P(("y", "x"))),
)
TOTALS = (
    _Pair((64, 64), (64, 48), P("x", "y"), P(None, ("y", "x"))),
    _Pair((64, 64), (6411, 4807), P("x", "y"), P(None, ("y", "x"))),
)


def cases(config: Config) -> Iterator[Case]:
    """Plans with every copy listed, totals without, and the cached look-up."""
    for pair in config.pick(EXPANDED, EXPANDED[:5]):
        yield _expansion(pair)
    for pair in TOTALS:
        yield _totals(pair)
    yield from _cached()


def _fresh_plan(pair: _Pair, shardings: tuple[gs.NamedSharding, gs.NamedSharding]) -> Plan:
    """Plan as for a shape that was never seen; only what a sharding caches is there."""
    ndim = len(pair.shape)
    source, destination = (Tiling.regular(pair.shape, s.assignment(ndim)) for s in shardings)
    return make_plan(source, destination, identity.__wrapped__(pair.shape), ITEMSIZE)


def _expansion(pair: _Pair) -> Case:
    shardings = pair.shardings()
    plan = _fresh_plan(pair, shardings)
    count = len(plan.how.copies)

    def check() -> None:
        _check_totals(pair, plan)
        copies = plan.how.copies
        remote = copies.volume[copies.source_domain != copies.domain].sum()
        assert copies.volume.sum() * ITEMSIZE == plan.bytes_written
        assert remote * ITEMSIZE == plan.bytes_received

    return Case(
        name=pair.name,
        table="plans with all copies",
        sides=_sides(lambda _: _fresh_plan(pair, shardings).how.copies),
        check=check,
        target=Target(seconds=300e-6 + 2e-6 * count),
        burst=5,
        facts={"copies": count},
        note=f"{count:,} copies",
    )


def _totals(pair: _Pair) -> Case:
    shardings = pair.shardings()

    def run(_: None) -> None:
        plan = _fresh_plan(pair, shardings)
        assert plan.bytes_written and plan.bytes_received and plan.peak

    plan = _fresh_plan(pair, shardings)
    return Case(
        name=pair.name,
        table="totals only: bytes written, bytes received, peak",
        sides=_sides(run),
        check=lambda: _check_totals(pair, plan),
        target=Target(seconds=5e-3),
        burst=5,
        facts={"cells": int(plan.how.overlap.cells.sum())},
        note=f"{int(plan.how.overlap.cells.sum()):,} copies if listed",
    )


def _cached() -> Iterator[Case]:
    with runtime(host_devices=8):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        here, there = (gs.NamedSharding(mesh, spec) for spec in (P("x", "y"), P("y", "x")))
        x = gs.device_put(np.zeros((64, 64), np.float32), here)

        def check() -> None:
            assert x.plan(there) is x.plan(gs.NamedSharding(mesh, P("y", "x")))

        yield Case(
            name="x.plan(sharding), planned before",
            table="cached look-up",
            sides=_sides(lambda _: x.plan(there)),
            check=check,
            target=Target(seconds=5e-6),
            burst=1000,
        )


def _sides(run: Callable[[None], object]) -> list[Side]:
    return [Side(OURS, timed(run)), Side(JAX, None), Side(FLOOR, None)]


def _check_totals(pair: _Pair, plan: Plan) -> None:
    """Compare W and R with the boxes of every device, one domain each."""
    source, destination = (s.devices_indices_map(pair.shape) for s in pair.shardings())
    written = received = 0
    for device, kept in _reused(plan).items():
        wanted, held = destination[device], source[device]
        volume = common = 1
        for n, w, h in zip(pair.shape, wanted, held, strict=True):
            (w0, w1, _), (h0, h1, _) = w.indices(n), h.indices(n)
            volume *= max(0, w1 - w0)
            common *= max(0, min(w1, h1) - max(w0, h0))
        assert not kept or common == volume, "reused without being there"
        written += 0 if kept else volume
        received += volume - common
    assert plan.bytes_written == written * ITEMSIZE
    assert plan.bytes_received == received * ITEMSIZE


def _reused(plan: Plan) -> dict[object, bool]:
    """Return for each device whether its block is an alias or a view."""
    copied = {int(pair) for pair in plan.copied}
    pairs = plan.how.overlap.wanted.of_device.tolist()
    volume = plan.how.overlap.volume
    return {
        device: pair not in copied and volume[pair] > 0
        for device, pair in zip(plan.destination.devices, pairs, strict=True)
    }
