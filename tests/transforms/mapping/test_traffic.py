"""What collectives, and the ways into and out of mapped functions, move between memories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from tests.traffic import received

lax, P = gs.lax, gs.P
N = 8
BLOCK = 16 * N * 8
"""Bytes of a block."""

ALL = N * (N - 1)

REDUCTIONS = {"psum": lax.psum, "pmean": lax.pmean, "pmax": lax.pmax, "pmin": lax.pmin}
UNEQUAL = [[3], [7, 0], [1, 2, 4, 5, 6]]
FOURS = [[0, 2, 4, 6], [1, 3, 5, 7]]

BOUNDS: dict[str, tuple[Callable[[Any], Any], Any, float]] = {
    "psum": (lambda x: lax.psum(x, "x"), P(), 2 * ALL / N),
    "pmean": (lambda x: lax.pmean(x, "x"), P(), 2 * ALL / N),
    "pmax": (lambda x: lax.pmax(x, "x"), P(), 2 * ALL / N),
    "psum_scatter": (lambda x: lax.psum_scatter(x, "x", tiled=True), P("x"), ALL / N),
    "psum_scatter, last dim": (
        lambda x: lax.psum_scatter(x, "x", scatter_dimension=1, tiled=True),
        P("x"),
        ALL / N,
    ),
    "all_gather": (lambda x: lax.all_gather(x, "x"), P(), ALL),
    "all_gather, joined": (lambda x: lax.all_gather(x, "x", axis=1, tiled=True), P(), ALL),
    "all_gather, used twice": (
        lambda x: (every := lax.all_gather(x, "x", tiled=True)) * x[0] - (every + x[1]),
        P("x"),
        ALL,
    ),
    "all_to_all": (lambda x: lax.all_to_all(x, "x", 1, 0), P("x"), ALL / N),
    "all_to_all, joined": (lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True), P("x"), ALL / N),
    "pswapaxes": (lambda x: lax.pswapaxes(x, "x", 1), P("x"), ALL / N),
    "ppermute": (
        lambda x: lax.ppermute(x, "x", [(i, (i + 1) % N) for i in range(N)]),
        P("x"),
        N,
    ),
    "pbroadcast": (lambda x: lax.pbroadcast(x, "x", 3), P(), N - 1),
    "axis_index": (lambda x: x + lax.axis_index("x"), P("x"), 0),
    "pmin": (lambda x: lax.pmin(x, "x"), P(), 2 * ALL / N),
    "pshuffle": (lambda x: lax.pshuffle(x, "x", [7, 6, 5, 4, 3, 2, 1, 0]), P("x"), N),
    "ppermute, with holes": (lambda x: lax.ppermute(x, "x", [(0, 1), (2, 2), (5, 3)]), P("x"), 2),
    "axis_size": (lambda x: x * lax.axis_size("x"), P("x"), 0),
    "psum of a number": (lambda x: x * lax.psum(2, "x"), P("x"), 0),
    "psum of what does not vary": (
        lambda x: x + lax.psum(gs.numpy.ones(N), "x"),
        P("x"),
        0,
    ),
    **{
        f"{name} in groups": (
            lambda x, f=f: f(x, "x", axis_index_groups=FOURS),
            P("x"),
            2 * 2 * 3,
        )
        for name, f in REDUCTIONS.items()
    },
    "psum_scatter in groups": (
        lambda x: lax.psum_scatter(x, "x", tiled=True, axis_index_groups=FOURS),
        P("x"),
        2 * 3,
    ),
    "all_gather in groups": (
        lambda x: lax.all_gather(x, "x", axis_index_groups=[[0, 5], [1, 2], [3, 7], [4, 6]]),
        P("x"),
        N,
    ),
    "all_gather in groups, joined": (
        lambda x: lax.all_gather(x, "x", tiled=True, axis_index_groups=FOURS),
        P("x"),
        N * 3,
    ),
    "all_to_all in groups": (
        lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True, axis_index_groups=FOURS),
        P("x"),
        2 * 3,
    ),
    "pswapaxes in groups": (
        lambda x: lax.pswapaxes(x[:4], "x", 0, axis_index_groups=FOURS),
        P("x"),
        2 * 3 / 4,
    ),
    **{
        f"{name} in groups of different sizes": (
            lambda x, f=f: f(x, "x", axis_index_groups=UNEQUAL),
            P("x"),
            0 + 2 * 1 + 5 * 4,
        )
        for name, f in REDUCTIONS.items()
    },
    "nothing": (lambda x: x, P("x"), 0),
    "arithmetic": (lambda x: (x * 2 + 1).sum(0), P("x"), 0),
    "matmul": (lambda x: x @ x.T, P("x"), 0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_no_more_moves_than_must(name: str) -> None:
    body, out, blocks = BOUNDS[name]
    with testing.runtime(host_devices=N, host_domains=N) as runtime:
        mesh = gs.make_mesh((N,), ("x",))
        value = np.arange(N * 16.0 * N).reshape(N * 16, N)
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        f = gs.shard_map(body, mesh, P("x"), out)
        f(x).block_until_ready()
        before = dict(runtime.backend.traffic)
        f(x).block_until_ready()
        assert received(runtime, before) == blocks * BLOCK


BOTH = ("y", "x")

OF_TWO: dict[str, tuple[Callable[[Any], Any], Any, float]] = {
    "psum": (lambda x: lax.psum(x, BOTH), P(), 2 * ALL / N),
    "psum_scatter": (lambda x: lax.psum_scatter(x, BOTH, tiled=True), P(BOTH), ALL / N),
    "all_gather": (lambda x: lax.all_gather(x, BOTH), P(), ALL),
    "all_to_all": (lambda x: lax.all_to_all(x, BOTH, 1, 0), P(BOTH), ALL / N),
    "ppermute": (lambda x: lax.ppermute(x, BOTH, [(i, i ^ 5) for i in range(N)]), P(BOTH), N),
    "pbroadcast": (lambda x: lax.pbroadcast(x, BOTH, 3), P(), N - 1),
    "axis_index": (lambda x: x + lax.axis_index(BOTH), P(BOTH), 0),
    "one of them": (lambda x: lax.psum(x, "y"), P("x"), 4 * 2),
}


@pytest.mark.parametrize("name", OF_TWO)
def test_no_more_moves_than_must_over_two_axes(name: str) -> None:
    body, out, blocks = OF_TWO[name]
    with testing.runtime(host_devices=N, host_domains=N) as runtime:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        value = np.arange(N * 16.0 * N).reshape(N * 16, N)
        x = gs.device_put(value, gs.NamedSharding(mesh, P(BOTH)))
        f = gs.shard_map(body, mesh, P(BOTH), out, check_rep=False)
        f(x).block_until_ready()
        before = dict(runtime.backend.traffic)
        f(x).block_until_ready()
        assert received(runtime, before) == blocks * BLOCK
