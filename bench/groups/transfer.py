"""Between user memory and devices: `device_put`, `np.asarray`, and how long an import takes."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Sampler, Side, Target
from bench.floor import BoxCopy, HostArray, TwoThreads, WarmMemory, copy_all
from bench.machine import ROOT
from bench.measure import timed
from bench.peers import delete
from gpushard.testing import runtime

MESH = (4, 2)
AXES = ("x", "y")
SPEC = gs.P("x", "y")


def cases(config: Config) -> Iterator[Case]:
    """Large transfers, small ones, and imports."""
    two, warm = TwoThreads(), WarmMemory()
    with runtime(host_devices=8):
        size = config.pick(8192, 512)
        host = np.random.default_rng(0).random((size, size), np.float32)
        boxes = _Sides(config, host)
        title = f"{host.nbytes / (1 << 20):g} MB"
        limit = Target(times=1.5, seconds=100e-6)
        yield boxes.put_case(f"device_put {title}", lambda c: two.copier(c), warm, limit)
        yield boxes.get_case(f"np.asarray {title}", lambda c: two.copier(c), warm, limit)
        warm.give_back()
        tiny = _Sides(config, np.arange(64, dtype=np.float32).reshape(8, 8))
        limit = Target(times=1.0, column=JAX)
        one = _on_one_thread
        yield tiny.put_case("device_put 8x8, submit", one, warm, limit, wait=False, burst=100)
        yield tiny.put_case("device_put 8x8", one, warm, limit, burst=100)
        yield tiny.get_case("np.asarray 8x8", one, warm, limit, burst=100)
        warm.give_back()
    two.close()
    yield _import_case(config)


Copier = Callable[[list[BoxCopy]], Callable[[], None]]


class _Sides:
    """Both ways between one host array and its shards."""

    def __init__(self, config: Config, host: HostArray) -> None:
        self._config = config
        self._host = host
        self._sharding = gs.NamedSharding(gs.make_mesh(MESH, AXES), SPEC)
        self._peer: Any = config.jax and config.jax.sharding(MESH, AXES, SPEC)
        self._indices = list(self._sharding.devices_indices_map(host.shape).values())

    def put_case(
        self,
        name: str,
        copier: Copier,
        warm: WarmMemory,
        target: Target,
        *,
        wait: bool = True,
        burst: int = 1,
    ) -> Case:
        """`device_put` to fresh arrays."""
        blocks = [warm.take(self._host[i].shape, self._host.dtype) for i in self._indices]
        boxes = [(b, self._host[i]) for b, i in zip(blocks, self._indices, strict=True)]
        jax = self._config.jax
        return Case(
            name=name,
            table="transfer",
            sides=[
                Side(OURS, self._putter(gs.device_put, self._sharding, wait)),
                Side(JAX, self._putter(jax.jax.device_put, self._peer, wait) if jax else None),
                Side(FLOOR, _floor(copier(boxes))),
            ],
            check=self._check_put,
            target=target,
            burst=burst,
            facts={"bytes": self._host.nbytes},
        )

    def get_case(
        self, name: str, copier: Copier, warm: WarmMemory, target: Target, *, burst: int = 1
    ) -> Case:
        """`np.asarray` of fresh arrays, which have no cached host value."""
        whole = warm.take(self._host.shape, self._host.dtype)
        boxes = []
        for index in self._indices:
            block = warm.take(self._host[index].shape, self._host.dtype)
            block[...] = self._host[index]
            boxes.append((whole[index], block))
        jax = self._config.jax

        def check() -> None:
            self._check_get(gs.device_put, self._sharding)
            if jax is not None:
                self._check_get(jax.jax.device_put, self._peer)

        return Case(
            name=name,
            table="transfer",
            sides=[
                Side(OURS, self._getter(gs.device_put, self._sharding)),
                Side(JAX, self._getter(jax.jax.device_put, self._peer) if jax else None),
                Side(FLOOR, _floor(copier(boxes))),
            ],
            check=check,
            target=target,
            burst=burst,
            facts={"bytes": self._host.nbytes},
        )

    def _putter(self, put: Callable[[Any, Any], Any], sharding: Any, wait: bool) -> Sampler:
        host = self._host
        run = (
            (lambda _: put(host, sharding).block_until_ready())
            if wait
            else (lambda _: put(host, sharding))
        )
        return timed(run, discard=lambda _, x: delete(x))

    def _getter(self, put: Callable[[Any, Any], Any], sharding: Any) -> Sampler:
        return timed(
            np.asarray,
            setup=lambda: put(self._host, sharding).block_until_ready(),
            discard=lambda x, _: delete(x),
        )

    def _check_put(self) -> None:
        source = self._host.copy()
        x = gs.device_put(source, self._sharding)
        source[...] = -1  # the array must not notice
        for shard in x.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), self._host[shard.index])
        delete(x)

    def _check_get(self, put: Callable[[Any, Any], Any], sharding: Any) -> None:
        x = put(self._host, sharding)
        assert np.array_equal(np.asarray(x), self._host)
        delete(x)


def _on_one_thread(copies: list[BoxCopy]) -> Callable[[], None]:
    return lambda: copy_all(copies)


def _floor(run: Callable[[], None]) -> Sampler:
    return timed(lambda _: run())


def _import_case(config: Config) -> Case:
    """Imports in fresh processes, of compiled modules; all contain NumPy's, which is the floor."""

    def check() -> None:
        loaded = _python("import sys, gpushard; print('gpushard' in sys.modules, *sys.modules)")
        assert loaded.startswith("True"), loaded

    return Case(
        name="import",
        table="import",
        sides=[
            Side(OURS, _importer("gpushard")),
            Side(JAX, _importer("jax") if config.jax else None),
            Side(FLOOR, _importer("numpy")),
        ],
        check=check,
        target=Target(seconds=0.15),
        burst=2,
    )


def _importer(module: str) -> Sampler:
    script = (
        f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    )
    return lambda: float(_python(script))


@functools.cache
def _bytecode() -> tempfile.TemporaryDirectory[str]:
    """A folder for compiled modules, which installers make and imports find."""
    return tempfile.TemporaryDirectory()


def _python(script: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONPYCACHEPREFIX": _bytecode().name}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()
