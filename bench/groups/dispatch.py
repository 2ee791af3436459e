"""Operations on tiny arrays, where all the time goes into dispatch; a million of all shapes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Sampler, Side, Target
from bench.floor import HostArray
from bench.measure import timed
from gpushard.testing import runtime

MESH = (4, 2)
AXES = ("x", "y")
SPEC = gs.P("x", "y")
BURST = 200

Function = Callable[..., Any]


def cases(config: Config) -> Iterator[Case]:
    """Single operations on 8x8 over 8 devices."""
    with runtime(host_devices=8):
        arrays = _Arrays(config)
        yield arrays.case("x + y", operator.add, _adds, Target(times=0.25, column=JAX))
        yield arrays.case("x + y, at most 12 us", operator.add, _adds, Target(seconds=12e-6))
        yield arrays.case("x + 1", lambda x, y: x + 1, _add_ones)
        yield arrays.case("sin(x)", _sine, _sines, _FIFTH)
        yield arrays.case("x.sum()", lambda x, y: x.sum(), _sums, _FIFTH)
        yield arrays.case("x @ x.T", lambda x, y: x @ x.T, _products, _FIFTH)
        yield arrays.case("x.T", lambda x, y: x.T, _transposes, _FIFTH)
        yield arrays.case("x[2:7]", lambda x, y: x[2:7], _slices, _FIFTH)
        yield arrays.case("x.reshape(4, 16)", lambda x, y: x.reshape(4, 16), _reshapes)
        yield arrays.assign_case()


_FIFTH = Target(times=0.2, column=JAX)


class _Arrays:
    """The operands on all sides."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._host: HostArray = np.arange(64, dtype=np.float32).reshape(8, 8) / 8
        self._sharding = gs.NamedSharding(gs.make_mesh(MESH, AXES), SPEC)
        self._ours = [gs.device_put(self._host, self._sharding) for _ in range(2)]
        jax = config.jax
        self._theirs: list[Any] = []
        if jax is not None:
            peer = jax.sharding(MESH, AXES, SPEC)
            self._theirs = [jax.jax.device_put(self._host, peer) for _ in range(2)]
        indices = self._sharding.devices_indices_map(self._host.shape).values()
        self._blocks = [self._host[index].copy() for index in indices]

    def case(
        self,
        name: str,
        function: Function,
        floor: Callable[[list[HostArray]], Any],
        target: Target | None = None,
    ) -> Case:
        """One operation, until its value is there; the floor is NumPy on the blocks in a loop."""
        jax, blocks = self._config.jax, self._blocks
        theirs = jax and (lambda: self._apply(function, self._theirs, jax.jax.numpy))

        def check() -> None:
            wanted = self._apply(function, [self._host] * 2, np)
            found = self._apply(function, self._ours, gs.numpy)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)

        return Case(
            name=name,
            table="dispatch",
            sides=[
                Side(OURS, _until_ready(lambda: self._apply(function, self._ours, gs.numpy))),
                Side(JAX, _until_ready(theirs) if theirs else None),
                Side(FLOOR, timed(lambda _: floor(blocks))),
            ],
            check=check,
            target=target,
            burst=BURST,
        )

    def assign_case(self) -> Case:
        """`x[0] = 1` on an array whose memory nobody shares; JAX has `x.at[0].set(1)`."""
        x = gs.device_put(self._host, self._sharding)
        jax, block = self._config.jax, self._blocks[0].copy()

        def assign() -> Any:
            x[0] = 1
            return x

        def floor(_: Any) -> None:
            for _ in range(MESH[1]):
                block[0] = 1

        def check() -> None:
            address = x.addressable_data(0).unsafe_buffer_pointer()
            assign()
            wanted = self._host.copy()
            wanted[0] = 1
            assert np.array_equal(np.asarray(x), wanted)
            assert x.addressable_data(0).unsafe_buffer_pointer() == address

        theirs = (lambda: self._theirs[0].at[0].set(1)) if jax else None
        return Case(
            name="x[0] = 1",
            table="dispatch",
            sides=[
                Side(OURS, _until_ready(assign)),
                Side(JAX, _until_ready(theirs) if theirs else None),
                Side(FLOOR, timed(floor)),
            ],
            check=check,
            target=Target(seconds=15e-6),
            burst=BURST,
        )

    @staticmethod
    def _apply(function: Function, arrays: list[Any], namespace: Any) -> Any:
        return function(namespace, arrays[0]) if function is _sine else function(*arrays)


def _until_ready(run: Callable[[], Any]) -> Sampler:
    return timed(lambda _: run().block_until_ready())


def _sine(namespace: Any, x: Any) -> Any:
    return namespace.sin(x)


def _adds(blocks: list[HostArray]) -> Any:
    return [np.add(a, a) for a in blocks]


def _add_ones(blocks: list[HostArray]) -> Any:
    one = np.float32(1)
    return [np.add(a, one) for a in blocks]


def _sines(blocks: list[HostArray]) -> Any:
    return [np.sin(a) for a in blocks]


def _sums(blocks: list[HostArray]) -> Any:
    total = 0
    for a in blocks:
        total = total + np.add.reduce(a, None)
    return total


def _products(blocks: list[HostArray]) -> Any:
    return [np.matmul(a, a.T) for a in blocks]


def _transposes(blocks: list[HostArray]) -> Any:
    return [a.T.copy() for a in blocks]


def _slices(blocks: list[HostArray]) -> Any:
    return [a[1:].copy() for a in blocks]


def _reshapes(blocks: list[HostArray]) -> Any:
    made = []
    for a in blocks:  # a block of the result has halves of two blocks
        b = np.empty((1, 8), a.dtype)
        b[0, :4] = a[0]
        b[0, 4:] = a[1]
        made.append(b)
    return made
