"""Between shardings of one mesh: all ordered pairs of seven layouts."""

from __future__ import annotations

import dataclasses
import itertools
import statistics
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.boxes import movement
from bench.case import FLOOR, JAX, OURS, Case, Config, Goal, Result, Sampler, Side, Target
from bench.floor import Blocks, HostArray, TwoThreads, WarmMemory, copy_all
from bench.measure import timed
from bench.peers import delete
from gpushard.testing import runtime

MESH = (4, 2)
AXES = ("x", "y")
SPECS = (
    gs.P("x", "y"),
    gs.P("y", "x"),
    gs.P("x"),
    gs.P(None, "x"),
    gs.P(),
    gs.P(("x", "y")),
    gs.P(None, ("x", "y")),
)
JIT = "JAX jit"
"""`jax.jit(lambda v: v, out_shardings=...)`."""

ONE, EIGHT = "one memory domain", "eight memory domains"
ONE_ALIASED, EIGHT_ALIASED = f"{ONE}, nothing to copy", f"{EIGHT}, nothing to copy"


def cases(config: Config) -> Iterator[Case]:
    """All pairs in one memory domain, then in eight; before them a small one."""
    two, warm = TwoThreads(), WarmMemory()
    with runtime(host_devices=8):
        tiny = np.arange(64, dtype=np.float32).reshape(8, 8)
        moves = _Pairs(config, tiny, lambda copies: lambda: copy_all(copies), warm)
        yield moves.case(SPECS[0], SPECS[1], ("small", "small"), prefix="8x8 ", burst=100)
    size = config.pick(8192, 512)
    host = np.random.default_rng(0).random((size, size), np.float32)
    for domains, tables in ((1, (ONE, ONE_ALIASED)), (8, (EIGHT, EIGHT_ALIASED))):
        with runtime(host_devices=8, host_domains=domains):
            moves = _Pairs(config, host, two.copier, warm)
            for source, destination in itertools.permutations(SPECS, 2):
                yield moves.case(source, destination, tables, with_jax=domains == 1)
    two.close()


def goals(results: list[Result]) -> list[Goal]:
    """Geometric means over the pairs that copy."""
    found = []
    for table, least in ((ONE, {JAX: 5.0, JIT: 14.0}), (EIGHT, {})):
        rows = [result for result in results if result.case.table == table]
        for over, under in ((JAX, OURS), (JIT, OURS), (OURS, FLOOR)):
            ratios = [r for row in rows if (r := row.ratio(over, under)) is not None]
            mean = statistics.geometric_mean(ratios) if ratios else None
            text = f"{table}: geometric mean of {over}/{under} over {len(ratios)} pairs"
            found.append(Goal(text, mean, least.get(over)))
    return found


@dataclasses.dataclass(frozen=True)
class _Peer:
    """A way of JAX to move an array."""

    move: Callable[[Any], Any]
    setup: Callable[[], Any]
    host: HostArray

    @property
    def sample(self) -> Sampler:
        return timed(lambda x: self.move(x).block_until_ready(), self.setup, delete)

    def check(self) -> None:
        x = self.setup()
        y = self.move(x)
        assert np.array_equal(np.asarray(y), self.host)
        delete(x, y)


class _Pairs:
    """Cases that move one array between shardings, in the current runtime."""

    def __init__(
        self,
        config: Config,
        host: HostArray,
        copier: Callable[[Any], Callable[[], None]],
        warm: WarmMemory,
    ) -> None:
        self._config = config
        self._host = host
        self._copier = copier
        self._mesh = gs.make_mesh(MESH, AXES)
        self._warm = warm

    def case(
        self,
        source: gs.P,
        destination: gs.P,
        tables: tuple[str, str],
        *,
        prefix: str = "",
        with_jax: bool = True,
        burst: int = 1,
    ) -> Case:
        """Return the case of a pair; it holds until the next one is made.

        Args:
          source: where the array comes from.
          destination: where it goes to.
          tables: where the case belongs if it copies something, and if not.
          prefix: before the name of the case.
          with_jax: whether JAX takes part; if not, its figures are those with one memory domain.
          burst: samples in one turn.
        """
        host = self._host
        here, there = (gs.NamedSharding(self._mesh, spec) for spec in (source, destination))
        self._warm.give_back()
        moves = movement(here, there, host.shape, host.itemsize)
        blocks = Blocks(moves, host, self._warm)
        copy_floor = self._copier(blocks.copies)
        peers = self._peers(source, destination) if with_jax else {}

        def check() -> None:
            x = gs.device_put(host, here)
            written = x.plan(there).bytes_written
            assert written == moves.elements * host.itemsize, "the plan is not the floor's"
            y = gs.reshard(x, there)
            for shard in y.addressable_shards:
                assert np.array_equal(np.asarray(shard.data), host[shard.index])
            delete(x, y)
            for peer in peers.values():
                peer.check()
            if moves.copies:
                copy_floor()
                blocks.check()

        mb = moves.elements * host.itemsize / (1 << 20)
        return Case(
            name=f"{prefix}{source} -> {destination}".replace("PartitionSpec", "P"),
            table=tables[0] if moves.copies else tables[1],
            sides=[
                Side(
                    OURS,
                    timed(
                        lambda x: gs.reshard(x, there).block_until_ready(),
                        lambda: gs.device_put(host, here).block_until_ready(),
                        delete,
                    ),
                ),
                *(Side(c, peers[c].sample if c in peers else None) for c in (JAX, JIT)),
                Side(FLOOR, timed(lambda _: copy_floor()) if moves.copies else None),
            ],
            check=check,
            target=self._target(bool(moves.copies), burst),
            burst=burst,
            facts={"bytes_written": moves.elements * host.itemsize, "reused": len(moves.reused)},
            note=f"{mb:.4g} MB in {len(moves.copies)} boxes",
            borrows=not with_jax,
        )

    def _peers(self, source: gs.P, destination: gs.P) -> dict[str, _Peer]:
        jax = self._config.jax
        if jax is None:
            return {}
        here, there = (jax.sharding(MESH, AXES, spec) for spec in (source, destination))
        by_jit = jax.jax.jit(lambda v: v, out_shardings=there)
        moves = {JAX: lambda x: jax.jax.device_put(x, there), JIT: by_jit}
        return {
            column: _Peer(move, lambda: jax.put(self._host, here), self._host)
            for column, move in moves.items()
        }

    @staticmethod
    def _target(copies: bool, burst: int) -> Target | None:
        if burst > 1:
            return None
        return Target(times=1.5, seconds=100e-6) if copies else Target(seconds=200e-6)
