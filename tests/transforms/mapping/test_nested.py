"""Random bodies in maps of all kinds, one in another, whose dims are anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from tests.late import late_devices
from tests.share import some
from tests.transforms.mapping.bodies import Blocks, Step, random_body
from tests.transforms.mapping.test_shard_map import mesh_of, ours

P = gs.P

AXES = ({"i": 4}, {"i": 2, "j": 4}, {"i": 3, "j": 2}, {"i": 2, "j": 2, "k": 2}, {"i": 8, "j": 1})

Level = tuple[str, str, int, int]
"""A kind of map, the name of its axis, and where its dim goes in and comes out."""


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def random_levels(rng: np.random.Generator, axes: dict[str, int], ndims: list[int]) -> list[Level]:
    """Return a map for each axis, the outermost first; devices are those of one kind."""
    placed = str(rng.choice(["pmap", "shard_map", "soft_pmap"]))
    levels = []
    for n, axis in enumerate(axes):
        kind = str(rng.choice(["vmap", placed]))
        if placed == "shard_map" and any(level[0] == placed for level in levels):
            kind = "vmap"  # one has all axes of its mesh
        into, out = (int(rng.integers(ndim + len(axes) - n)) for ndim in ndims)
        levels.append((kind, axis, into, out) if kind != "soft_pmap" else (kind, axis, 0, 0))
    return levels


def mapped(levels: list[Level], axes: dict[str, int], function: Any) -> Any:
    """Return a function in maps."""
    for kind, axis, into, out in reversed(levels):
        if kind == "shard_map":
            before, after = (P(*[None] * dim, axis) for dim in (into, out))

            def block(x: Any, inner: Any = function, into: int = into, out: int = out) -> Any:
                return gs.numpy.expand_dims(inner(x.squeeze(into)), out)

            mesh = mesh_of({axis: axes[axis]})
            function = gs.shard_map(block, mesh, before, after, check_rep=False)
        elif kind == "soft_pmap":
            function = gs.soft_pmap(function, axis)
        elif kind == "pmap":
            function = gs.pmap(function, axis, in_axes=into, out_axes=out)
        else:
            function = gs.vmap(function, into, out, axis_name=axis)
    return function


def check(seed: int) -> None:
    """Map a random body, and compare what comes out with its oracle."""
    rng = np.random.default_rng(seed)
    axes = AXES[int(rng.integers(len(AXES)))]
    block = rng.choice([1, 2, 4], int(rng.integers(1, 4))).tolist()
    value = rng.integers(0, 9, (*axes.values(), *block)).astype(rng.choice(["f8", "i8", "f4"]))
    body: list[Step] = random_body(rng, axes, block, int(rng.integers(1, 6)))
    want = value
    for step in body:
        want = Blocks(axes).do(step, want)
    levels = random_levels(rng, axes, [len(block), want.ndim - len(axes)])
    given = value
    for n, (_, _, into, _) in reversed(list(enumerate(levels))):
        given = np.moveaxis(given, n, n + into)
    got = np.asarray(mapped(levels, axes, ours(body))(gs.device_put(np.ascontiguousarray(given))))
    for n, (_, _, _, out) in enumerate(levels):
        got = np.moveaxis(got, n + out, n)
    what = seed, axes, levels, body
    assert got.shape == want.shape and got.dtype.kind == want.dtype.kind, what
    np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=str(what))


@pytest.mark.parametrize("chunk", range(4))
def test_maps_in_maps_are_loops(chunk: int) -> None:
    for seed in range(chunk, some(80, 3000), 4):
        check(seed)


@pytest.mark.parametrize("seed", [1018, 1059, 2171])
def test_groups_of_elements_within_a_map_of_maps(seed: int) -> None:
    check(seed)


def test_devices_that_do_their_work_late() -> None:
    for seed in range(some(30, 300)):
        with late_devices(seed, host_devices=8, host_domains=(1, 2, 4, 8)[seed % 4]):
            check(10_000 + seed)
