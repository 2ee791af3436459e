"""Sizes from which memory is pooled, and up to which the caller works: exactly the settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.testing import runtime


def pooled(rt: Runtime) -> int:
    return sum(pool.total - pool.free for pool in rt.pools())


def issued(rt: Runtime) -> int:
    streams = {device.stream for device in rt.devices}
    streams |= {stream for domain in rt.domains for stream in domain.streams}
    return sum(stream.issued for stream in streams)


def halves(rt: Runtime) -> gs.NamedSharding:
    return gs.NamedSharding(gs.Mesh(rt.devices, ("x",)), gs.P("x"))


def here(rt: Runtime, nbytes: int) -> gs.Array:
    return gs.device_put(np.zeros(nbytes, np.int8), rt.devices[0]).block_until_ready()


def split(rt: Runtime, nbytes: int) -> gs.Array:
    """Blocks of half the bytes: small ones, of what is not."""
    return gs.device_put(np.zeros(nbytes, np.int8), halves(rt)).block_until_ready()


Make = Callable[[Runtime, int], gs.Array]
MAKES: dict[str, tuple[Make | None, Callable[[Runtime, Any], Any]]] = {
    "from the host": (None, lambda rt, n: here(rt, n)),
    "computed": (here, lambda rt, x: -x),
    "moved": (here, lambda rt, x: gs.reshard(x, rt.devices[1])),
    "a part": (here, lambda rt, x: x[::-1]),
    "joined": (split, lambda rt, x: gs.reshard(x, rt.devices[1])),
    "filled": (here, lambda rt, x: gs.numpy.zeros_like(x)),
    "to the host": (split, lambda rt, x: np.asarray(x)),
}


@pytest.mark.parametrize("nbytes", [62, 64])
@pytest.mark.parametrize("name", MAKES)
def test_blocks_of_small_bytes_and_more_are_pooled(name: str, nbytes: int) -> None:
    start, make = MAKES[name]
    for small in (nbytes, nbytes + 1):
        with runtime(host_devices=2, host_domains=2, small_bytes=small) as rt:
            given = nbytes if start is None else start(rt, nbytes)
            before = pooled(rt)
            made = gs.block_until_ready(make(rt, given))
            assert (pooled(rt) > before) == (nbytes >= small)
            del made, given


WORKS: dict[str, tuple[Make, Callable[[gs.Array], Any], int]] = {
    "computed": (here, lambda x: -x, 128),
    "computed of two": (here, lambda x: x + x, 192),
    "computed on two": (split, lambda x: -x, 2),  # 128, of which the caller does 64 times as many
}


@pytest.mark.parametrize("name", WORKS)
def test_the_caller_works_up_to_a_number_of_bytes(name: str) -> None:
    make, work, most = WORKS[name]
    for limit in (most - 1, most):
        with runtime(host_devices=2, host_domains=2, inline_bytes=limit, small_bytes=0) as rt:
            x = make(rt, 64)
            before = issued(rt)
            gs.block_until_ready(work(x))
            assert (issued(rt) > before) == (limit < most)
