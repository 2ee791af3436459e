"""Functions of lax, each next to a function of gpushard.numpy that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.measure import timed
from gpushard.testing import runtime

SISTER = "gpushard.numpy"
"""The function of `gpushard.numpy` with the same result."""

BURST = 200

_MOST = Target(times=1.6, column=SISTER)


def cases(config: Config) -> Iterator[Case]:
    """Calls on 8x8 over 4 devices, which are all dispatch."""
    with runtime(host_devices=4):
        for name, ours, sister in _pairs():
            yield Case(
                name=name,
                table="eager",
                sides=[
                    Side(OURS, _timed(ours)),
                    Side(SISTER, _timed(sister)),
                    Side(JAX, None),
                    Side(FLOOR, None),
                ],
                check=lambda ours=ours, sister=sister: np.testing.assert_allclose(
                    np.asarray(ours()), np.asarray(sister()), rtol=1e-6
                ),
                target=_MOST,
                burst=config.pick(BURST, 2),
            )


def _timed(call: Callable[[], Any]) -> Any:
    return timed(lambda _: call().block_until_ready())


def _pairs() -> list[tuple[str, Callable[[], Any], Callable[[], Any]]]:
    """Return the calls: what is done, by `lax`, and by `gpushard.numpy`."""
    gnp, lax = gs.numpy, gs.lax
    sharding = gs.NamedSharding(gs.make_mesh((2, 2), ("x", "y")), gs.P("x", "y"))
    host = np.arange(64, dtype=np.float32).reshape(8, 8) / 8 + 0.5
    x, y = (gs.device_put(host, sharding) for _ in range(2))
    mask = gs.device_put(host > 3, sharding)
    zero = np.float32(0)
    return [
        ("sin", lambda: lax.sin(x), lambda: gnp.sin(x)),
        ("erf", lambda: lax.erf(x), lambda: gs.special.erf(x)),
        ("add", lambda: lax.add(x, y), lambda: gnp.add(x, y)),
        ("add a number", lambda: lax.add(x, 1.0), lambda: gnp.add(x, 1.0)),
        ("div", lambda: lax.div(x, y), lambda: gnp.divide(x, y)),
        ("pow", lambda: lax.pow(x, y), lambda: gnp.power(x, y)),
        ("eq", lambda: lax.eq(x, y), lambda: gnp.equal(x, y)),
        ("clamp", lambda: lax.clamp(1.0, x, 3.0), lambda: gnp.clip(x, 1.0, 3.0)),
        ("select", lambda: lax.select(mask, x, y), lambda: gnp.where(mask, x, y)),
        (
            "convert_element_type",
            lambda: lax.convert_element_type(x, "int32"),
            lambda: gnp.astype(x, "int32"),
        ),
        ("dot", lambda: lax.dot(x, y), lambda: gnp.dot(x, y)),
        (
            "dot_general",
            lambda: lax.dot_general(x, y, (((1,), (0,)), ((), ()))),
            lambda: gnp.tensordot(x, y, 1),
        ),
        ("batch_matmul", lambda: lax.batch_matmul(x, y), lambda: gnp.matmul(x, y)),
        ("reduce_sum", lambda: lax.reduce_sum(x, (0,)), lambda: gnp.sum(x, 0)),
        ("reduce_max", lambda: lax.reduce_max(x, (0,)), lambda: gnp.max(x, 0)),
        (
            "reduce by add",
            lambda: lax.reduce(x, zero, lax.add, (0,)),
            lambda: gnp.sum(x, 0, initial=zero),
        ),
        ("argmax", lambda: lax.argmax(x, 0, "int64"), lambda: gnp.argmax(x, 0)),
        ("cumsum", lambda: lax.cumsum(x), lambda: gnp.cumsum(x, 0)),
        ("sort", lambda: lax.sort(x), lambda: gnp.sort(x)),
        (
            "broadcast_in_dim",
            lambda: lax.broadcast_in_dim(x, (3, 8, 8), (1, 2)),
            lambda: gnp.broadcast_to(x, (3, 8, 8)),
        ),
        ("reshape", lambda: lax.reshape(x, (4, 16)), lambda: gnp.reshape(x, (4, 16))),
        ("rev", lambda: lax.rev(x, (0,)), lambda: gnp.flip(x, 0)),
        ("expand_dims", lambda: lax.expand_dims(x, (0,)), lambda: gnp.expand_dims(x, 0)),
        ("concatenate", lambda: lax.concatenate([x, y], 0), lambda: gnp.concat([x, y])),
        ("tile", lambda: lax.tile(x, (2, 1)), lambda: gnp.tile(x, (2, 1))),
        ("pad", lambda: lax.pad(x, 0.0, [(1, 1, 0)] * 2), lambda: gnp.pad(x, 1)),
        ("slice", lambda: lax.slice(x, (2, 0), (7, 8)), lambda: x[2:7]),
        ("index_in_dim", lambda: lax.index_in_dim(x, 2, 0, False), lambda: x[2]),
        ("dynamic_slice", lambda: lax.dynamic_slice(x, (2, 0), (5, 8)), lambda: x[2:7]),
        (
            "dynamic_update_slice",
            lambda: lax.dynamic_update_slice(x, y[:2], (2, 0)),
            lambda: x.at[2:4].set(y[:2]),
        ),
        ("full", lambda: lax.full((8, 8), 1.0), lambda: gnp.full((8, 8), 1.0)),
        ("iota", lambda: lax.iota("int32", 8), lambda: gnp.arange(8, dtype="int32")),
    ]
