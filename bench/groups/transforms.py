"""Mapped functions: pmap, shard_map and vmap on 8x8, collectives of 256 MB, over 8 devices."""

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

ALONE = "not mapped"
"""The operation on whole arrays, without the function around it."""

BURST = 200
P = gs.P

Function = Callable[..., Any]


def cases(config: Config) -> Iterator[Case]:
    """Calls that are all dispatch; then those that move much, or nothing."""
    with runtime(host_devices=8):
        yield from _small(config)
    with runtime(host_devices=8) as own, ThreadPoolExecutor(2) as threads:
        yield from _large(config, own, threads)


def _small(config: Config) -> Iterator[Case]:
    """Operations on 8x8 float32; the floor is NumPy's function on the blocks in a loop."""
    value = np.arange(64, dtype=np.float32).reshape(8, 8) / 8
    column = np.arange(8, dtype=np.float32)
    grid, rows = gs.make_mesh((4, 2), ("x", "y")), gs.make_mesh((8,), "x")
    x, y = (gs.device_put(value, gs.NamedSharding(grid, P("x", "y"))) for _ in range(2))
    c = gs.device_put(column, gs.NamedSharding(grid, P("x")))
    split = gs.device_put(value, gs.NamedSharding(rows, P("x")))
    jax = config.jax.jax if config.jax else None
    theirs: dict[str, Any] = {}
    if jax is not None and config.jax is not None:
        peer = config.jax.sharding((4, 2), ("x", "y"), P("x", "y"))
        a, b = (jax.device_put(value, peer) for _ in range(2))
        d = jax.device_put(column, config.jax.sharding((4, 2), ("x", "y"), P("x")))
        spec = jax.sharding.PartitionSpec("x", "y")
        mapped = jax.shard_map(lambda a, b: a + b, mesh=peer.mesh, in_specs=spec, out_specs=spec)
        share = jax.pmap(_add_one)
        shared = jax.pmap(lambda v: v)(value)
        jitted, both = jax.jit(mapped), jax.jit(jax.vmap(_add))
        one, ten = jax.jit(jax.vmap(_add_one)), jax.jit(jax.vmap(_add_ten))
        theirs = {
            "pmap": lambda: share(shared),
            "shard_map": lambda: jitted(a, b),
            "vmap": lambda: one(a),
            "mixed": lambda: both(a, d),
            "ten": lambda: ten(a),
        }
    pmapped = gs.pmap(_add_one)
    placed = gs.pmap(lambda v: v)(split)
    both_axes = P("x", "y")
    blocks = gs.shard_map(_add, grid, (both_axes, both_axes), both_axes)
    each, of_two, tens = gs.vmap(_add_one), gs.vmap(_add), gs.vmap(_add_ten)
    halves = [np.ascontiguousarray(part) for part in np.split(value, 8)]
    table = [
        ("pmap", "pmap: x + 1", lambda: pmapped(placed), lambda: split + 1, value + 1, halves),
        ("shard_map", "shard_map: x + y", lambda: blocks(x, y), lambda: x + y, value * 2, halves),
        ("vmap", "vmap: x + 1", lambda: each(x), lambda: x + 1, value + 1, halves),
        (
            "mixed", "vmap: x + y, y a number each", lambda: of_two(x, c), lambda: x + c[:, None],
            value + column[:, None], halves,
        ),
        ("ten", "vmap: ten additions", lambda: tens(x), lambda: _add_ten(x), value + 10, halves),
    ]  # fmt: skip
    targets = {
        "pmap": [Target(seconds=30e-6), Target(times=1 / 3, column=JAX)],
        "shard_map": [Target(seconds=45e-6)],
        "vmap": [Target(times=1, seconds=5e-6, column=ALONE)],
        "mixed": [Target(times=1, seconds=5e-6, column=ALONE)],
        "ten": [Target(times=1, seconds=50e-6, column=ALONE)],
    }
    for key, name, ours, alone, wanted, parts in table:
        for number, target in enumerate(targets[key]):
            yield Case(
                name=name if not number else f"{name}, {target}",
                table="8x8",
                sides=[
                    Side(OURS, _until_ready(ours)),
                    Side(JAX, _until_ready(theirs[key]) if key in theirs else None),
                    Side(ALONE, _until_ready(alone)),
                    Side(FLOOR, timed(lambda _, parts=parts: [part + 1 for part in parts])),
                ],
                check=_same([ours, alone, *([theirs[key]] if key in theirs else [])], wanted),
                target=target,
                burst=BURST,
            )


def _large(config: Config, own: Any, threads: ThreadPoolExecutor) -> Iterator[Case]:
    """256 MB of float32 in eight blocks; JAX is jitted."""
    n = config.pick(8192, 64)
    value = np.arange(n * n, dtype=np.float32).reshape(n, n) % 7
    mesh, split = gs.make_mesh((8,), "x"), P("x")
    x = gs.device_put(value, gs.NamedSharding(mesh, split))
    warm = WarmMemory()
    target = warm.take((n, n), value.dtype)
    total = warm.take((n // 8, n), value.dtype)
    summed = value.reshape(8, n // 8, n).sum(0)
    lax = gs.lax
    bodies: list[tuple[str, Function, Any, HostArray, Any, Target | None]] = [
        ("enter and leave", lambda v, lax: v, split, value, None, None),
        (
            "psum", lambda v, lax: lax.psum(v, "x"), P(), summed,
            lambda: _summed(threads, value.reshape(8, n // 8, n), total),
            Target(times=1, column=JAX),
        ),
        (
            "all_gather", lambda v, lax: lax.all_gather(v, "x", tiled=True), P(), value,
            lambda: _copied(threads, value, target), Target(times=1.3),
        ),
    ]  # fmt: skip
    peer = config.jax
    theirs = None
    if peer is not None:
        theirs = peer.put(value, peer.sharding((8,), ("x",), split))
    for name, body, out, wanted, floor, goal in bodies:
        ours = gs.shard_map(lambda v, body=body: body(v, lax), mesh, split, out)

        def run(ours: Function = ours) -> Any:
            return ours(x).block_until_ready()

        delete(run())
        before = _moved(own)
        delete(run())
        facts = {"bytes": value.nbytes, "bytes_moved": _moved(own) - before}
        sides = [Side(OURS, timed(lambda _, run=run: run(), discard=lambda _, made: delete(made)))]
        checked = [run]
        if peer is not None:
            mapped = peer.jax.shard_map(
                lambda v, body=body: body(v, peer.jax.lax),
                mesh=theirs.sharding.mesh,
                in_specs=peer.jax.sharding.PartitionSpec("x"),
                out_specs=peer.jax.sharding.PartitionSpec(*out),
                check_vma=False,
            )
            jitted = peer.jax.jit(mapped)

            def call(jitted: Function = jitted) -> Any:
                return jitted(theirs).block_until_ready()

            sides.append(
                Side(JAX, timed(lambda _, call=call: call(), discard=lambda _, made: delete(made)))
            )
            checked.append(call)
        sides.append(Side(FLOOR, timed(lambda _, floor=floor: floor()) if floor else None))
        yield Case(
            name=name,
            table="256 MB",
            sides=sides,
            check=_same(checked, wanted),
            target=goal,
            facts=facts,
            note=f"{facts['bytes_moved']} bytes copied",
        )
    delete(x, *([theirs] if theirs is not None else []))


def _add_one(x: Any) -> Any:
    return x + 1


def _add_ten(x: Any) -> Any:
    for _ in range(10):
        x = x + 1
    return x


def _add(x: Any, y: Any) -> Any:
    return x + y


def _until_ready(run: Function) -> Any:
    return timed(lambda _: run().block_until_ready())


def _same(runs: Sequence[Function], wanted: HostArray) -> Callable[[], None]:
    def check() -> None:
        for run in runs:
            np.testing.assert_allclose(np.asarray(run()), wanted, rtol=1e-6)

    return check


def _moved(own: Any) -> int:
    return sum(own.backend.traffic.values())


def _copied(threads: ThreadPoolExecutor, source: HostArray, target: HostArray) -> None:
    half = len(source) // 2
    parts = [slice(half), slice(half, None)]
    list(threads.map(lambda part: np.copyto(target[part], source[part]), parts))


def _summed(threads: ThreadPoolExecutor, parts: HostArray, out: HostArray) -> None:
    """Add eight blocks, in pieces that stay in a cache."""

    def add(start: int) -> None:
        rows = slice(start, start + step)
        np.add(parts[0, rows], parts[1, rows], out=out[rows])
        for part in parts[2:]:
            np.add(out[rows], part[rows], out=out[rows])

    step = max(1, (1 << 18) // out.shape[1] // out.itemsize)
    list(threads.map(add, range(0, len(out), step)))
