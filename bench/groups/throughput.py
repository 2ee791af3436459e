"""Operations on arrays of 256 MB over 8 devices, and how near they come to plain NumPy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.floor import HostArray, WarmMemory
from bench.measure import timed
from bench.peers import delete
from gpushard.testing import runtime

MESH = (4, 2)
AXES = ("x", "y")
SPEC = gs.P("x", "y")
NUMPY = "NumPy, one call"

Function = Callable[..., Any]


def cases(config: Config) -> Iterator[Case]:
    """Elementwise, a sum, and a product of matrices."""
    with runtime(host_devices=8), ThreadPoolExecutor(2) as threads:
        large = _Large(config, threads, config.pick(8192, 256))
        add = Target(times=1.15)
        yield large.case("x + y", lambda n, x, y: x + y, _add, 2, add)
        yield large.case("x + y, 3x JAX", lambda n, x, y: x + y, _add, 2, _than(JAX, 3))
        yield large.case("sin(x)", lambda n, x: n.sin(x), _sin, 1, _than(NUMPY, 1.8))
        yield large.case("sin(x), 5x JAX", lambda n, x: n.sin(x), _sin, 1, _than(JAX, 5))
        yield large.case("x.sum()", lambda n, x: x.sum(), _sum, 1, Target(times=1.25, column=JAX))
        large.close()
        square = _Large(config, threads, config.pick(2048, 128))
        limit = Target(times=1.15, column=NUMPY)
        yield square.case("2048^3 matmul", lambda n, x, y: x @ y, None, 2, limit)
        square.close()


def _than(column: str, factor: float) -> Target:
    """Return the target of being some times as fast as another side."""
    return Target(times=1 / factor, column=column)


class _Large:
    """Square float32 operands on all sides."""

    def __init__(self, config: Config, threads: ThreadPoolExecutor, size: int) -> None:
        self._config = config
        self._threads = threads
        generator = np.random.default_rng(0)
        self._host = [generator.random((size, size), np.float32) + n for n in range(2)]
        sharding = gs.NamedSharding(gs.make_mesh(MESH, AXES), SPEC)
        self._ours = [gs.device_put(value, sharding) for value in self._host]
        self._theirs: list[Any] = []
        if config.jax is not None:
            peer = config.jax.sharding(MESH, AXES, SPEC)
            self._theirs = [config.jax.jax.device_put(value, peer) for value in self._host]
        indices = list(sharding.devices_indices_map((size, size)).values())
        self._warm = WarmMemory()
        self._blocks = [self._taken(value, indices) for value in self._host]
        self._outs = [self._warm.take(block.shape, block.dtype) for block in self._blocks[0]]

    def close(self) -> None:
        """Give the memory up."""
        for array in (*self._ours, *self._theirs):
            delete(array)
        self._warm.give_back()

    def _taken(self, value: HostArray, indices: Sequence[Any]) -> list[HostArray]:
        blocks = []
        for index in indices:
            block = self._warm.take(value[index].shape, value.dtype)
            block[...] = value[index]
            blocks.append(block)
        return blocks

    def case(
        self, name: str, function: Function, floor: Any, operands: int, target: Target
    ) -> Case:
        """One operation; the floor is its kernel on the blocks on two threads, memory warm."""
        jax, host = self._config.jax, self._host[:operands]
        ours, theirs = self._ours[:operands], self._theirs[:operands]

        def run(namespace: Any, arrays: Sequence[Any]) -> Any:
            return function(namespace, *arrays).block_until_ready()

        def check() -> None:
            found = np.asarray(run(gs.numpy, ours))
            np.testing.assert_allclose(found, function(np, *host), rtol=1e-4)

        def both() -> None:
            rows = list(zip(*self._blocks[:operands], self._outs, strict=True))
            list(self._threads.map(lambda row: floor(*row), rows))

        sides = [
            Side(OURS, timed(lambda _: run(gs.numpy, ours), discard=lambda _, x: delete(x))),
            Side(JAX, None),
            Side(NUMPY, timed(lambda _: function(np, *host))),
        ]
        if jax is not None:
            namespace = jax.jax.numpy
            peer = timed(lambda _: run(namespace, theirs), discard=lambda _, x: delete(x))
            sides[1] = Side(JAX, peer)
        if floor is not None:
            sides.append(Side(FLOOR, timed(lambda _: both())))
        return Case(
            name=name,
            table="throughput",
            sides=sides,
            check=check,
            target=target,
            facts={"bytes": host[0].nbytes},
        )


def _add(x: HostArray, y: HostArray, out: HostArray) -> None:
    np.add(x, y, out=out)


def _sin(x: HostArray, out: HostArray) -> None:
    np.sin(x, out=out)


def _sum(x: HostArray, out: HostArray) -> None:
    np.add.reduce(x, None)
