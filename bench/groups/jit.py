"""Traced functions over 8 devices: kernels in C, the same in NumPy's tiles, no trace, and JAX."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.floor import HostArray, WarmMemory
from bench.measure import timed
from bench.peers import delete
from gpushard.testing import runtime

TILES, EAGER = "tiles", "not traced"
"""Kernels of NumPy's functions; the operations one by one."""

BURST = 200

ONE = "JAX on one device"
"""How names end where JAX is faster on one."""

P = gs.P

Function = Callable[..., Any]


def cases(config: Config) -> Iterator[Case]:
    """A call that is all dispatch; then functions of large arrays."""
    with contextlib.ExitStack() as stack:
        tiles = stack.enter_context(runtime(host_devices=8, compiler=""))
        compiled = stack.enter_context(runtime(host_devices=8))
        yield from _small(config, [compiled, tiles])
        for name, function, values, specs, target in _functions(config):
            yield _case(config, [compiled, tiles], name, function, values, specs, target)


def _functions(config: Config) -> Iterator[tuple[str, Function, list[HostArray], list[Any], float]]:
    """Yield functions of a module of NumPy's names, their arguments, and how many times JAX's."""
    rng = np.random.default_rng(0)
    side, many, bodies = config.pick((4096, 200_000, 1200), (64, 128, 24))
    rows = P("x")

    def floats(*shape: int) -> HostArray:
        return rng.standard_normal(shape, dtype=np.float32)

    def chain(m: Any, a: Any) -> Any:
        return m.tanh(2 * a + 1) * a - a / 3

    def softmax(m: Any, a: Any) -> Any:
        e = m.exp(a - a.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True)

    def layer_norm(m: Any, a: Any, scale: Any, shift: Any) -> Any:
        apart = a - a.mean(axis=-1, keepdims=True)
        spread = (apart * apart).mean(axis=-1, keepdims=True)
        return apart / m.sqrt(spread + 1e-5) * scale + shift

    def k_means(m: Any, points: Any, centres: Any, numbers: Any) -> Any:
        apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
        nearest = m.argmin(apart + (centres * centres).sum(1), axis=1)
        chosen = (nearest[:, None] == numbers).astype("float32")
        return (chosen.T @ points) / m.maximum(chosen.sum(0), 1)[:, None]

    def logistic(m: Any, x: Any, y: Any, w: Any) -> Any:
        p = 1 / (1 + m.exp(-(x @ w)))
        return w - 0.1 * (x.T @ (p - y)) / len(y)

    def n_body(m: Any, places: Any) -> Any:
        apart = places[None] - places[:, None]
        near = (apart * apart).sum(-1) + 0.01
        return (apart / (near * m.sqrt(near))[..., None]).sum(1)

    def stencil(m: Any, a: Any) -> Any:
        around = a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1]
        return around - 4 * a[1:-1, 1:-1]

    large = config.pick((8192, 8192), (64, 64))
    yield "tanh(2a + 1) * a - a / 3, 256 MB", chain, [floats(*large)], [rows], 1 / 4
    yield f"softmax, {side}x{side}", softmax, [floats(side, side)], [rows], 1
    vectors = [floats(side), floats(side)]
    yield (
        f"layer norm, {side}x{side}", layer_norm, [floats(side, side), *vectors],
        [rows, P(), P()], 1 / 1.4,
    )  # fmt: skip
    yield (
        f"k-means step, {many}x16, 32 centres", k_means,
        [floats(many, 16), floats(32, 16), np.arange(32)], [rows, P(), P()], 1 / 2.5,
    )  # fmt: skip
    labels = (floats(many // 2) > 0).astype(np.float32)
    yield (
        f"logistic step, {many // 2}x50", logistic, [floats(many // 2, 50), labels, floats(50)],
        [rows, rows, P()], 1 / 1.2,
    )  # fmt: skip
    yield f"N-body, {bodies}", n_body, [floats(bodies, 3)], [rows], 1 / 10
    yield (
        f"5-point stencil, {side}x{side}; {ONE}", stencil, [floats(side, side)], [rows],
        1 / 2,
    )  # fmt: skip


def _small(config: Config, runtimes: Sequence[Any]) -> Iterator[Case]:
    value = np.arange(64, dtype=np.float32).reshape(8, 8)
    yield _case(
        config, runtimes, "x + y, 8x8", lambda m, a, b: a + b, [value, value], [P("x"), P("x")],
        1 / 4, BURST,
    )  # fmt: skip


def _case(
    config: Config,
    runtimes: Sequence[Any],
    name: str,
    function: Function,
    values: list[HostArray],
    specs: list[Any],
    times: float,
    burst: int = 1,
) -> Case:
    def bound(module: Any) -> Function:
        return lambda *xs: function(module, *xs)

    runs: list[Function] = []
    for own in runtimes:
        mesh = gs.Mesh(np.array(own.devices), "x")
        given = [
            gs.device_put(v, gs.NamedSharding(mesh, s)) for v, s in zip(values, specs, strict=True)
        ]
        runs.append(_ready(gs.jit(bound(gs.numpy)), given))
        if own is runtimes[0]:
            eager = _ready(bound(gs.numpy), given)
    theirs: Function | None = None
    if config.jax is not None:
        peer = config.jax
        one = name.endswith(ONE)
        placed = [
            peer.put(v, peer.sharding((1,) if one else (8,), ("x",), P() if one else s))
            for v, s in zip(values, specs, strict=True)
        ]
        theirs = _ready(peer.jax.jit(bound(peer.jax.numpy)), placed)
    checked = [*runs, eager, *([theirs] if theirs else [])]
    copied = WarmMemory().take(values[0].shape, values[0].dtype)

    def check() -> None:
        wanted = np.asarray(eager())
        for run in checked:
            np.testing.assert_allclose(np.asarray(run()), wanted, rtol=2e-3, atol=1e-3)

    return Case(
        name=name,
        table="traced functions",
        sides=[
            Side(OURS, _timed(runs[0])),
            Side(TILES, _timed(runs[1])),
            Side(EAGER, _timed(eager)),
            Side(JAX, _timed(theirs) if theirs else None),
            Side(FLOOR, timed(lambda _: np.copyto(copied, values[0]))),
        ],
        check=check,
        target=Target(times=times, column=JAX),
        burst=burst,
    )


def _ready(function: Function, given: list[Any]) -> Function:
    return lambda: function(*given).block_until_ready()


def _timed(run: Function) -> Any:
    return timed(lambda _: run(), discard=lambda _, made: delete(made))
