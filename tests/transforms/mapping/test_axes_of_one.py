"""Axes of one device say nothing: values lie as on the mesh without them, and are the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy, testing
from tests.share import some

P = gs.P
lax = gs.lax
SIZES = [(4, 1, 2), (1, 8), (8, 1), (2, 1, 1, 4), (1, 2, 1), (1, 1), (1,), (2, 1, 2, 1, 2)]
Spec = list[tuple[str, ...]]


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


class World:
    """A mesh, with its axes of one device or without them.

    Args:
      sizes: those of the axes.
      whole: whether it has axes of one device.
    """

    def __init__(self, sizes: tuple[int, ...], *, whole: bool) -> None:
        axes = {"abcde"[n]: size for n, size in enumerate(sizes) if whole or size > 1}
        axes = axes or {"a": 1}  # a mesh has an axis
        self.axes = axes
        self.mesh = gs.make_mesh(tuple(axes.values()), tuple(axes))

    def spec(self, spec: Spec) -> Any:
        """Return a spec without the axes that the mesh does not have."""
        return P(*[tuple(axis for axis in axes if axis in self.axes) for axes in spec])

    def names(self, axes: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of some axes that the mesh has."""
        return tuple(axis for axis in axes if axis in self.axes)

    def put(self, x: Any, spec: Spec) -> Any:
        return gs.device_put(x, gs.NamedSharding(self.mesh, self.spec(spec)))


def random_spec(rng: np.random.Generator, sizes: tuple[int, ...], ndim: int) -> Spec:
    """Return which axes split which dim; each splits one, or none."""
    spec: Spec = [() for _ in range(ndim)]
    for n in rng.permutation(len(sizes)):
        dim = int(rng.integers(ndim + 1))
        if dim < ndim:
            spec[dim] = (*spec[dim], "abcde"[n])
    return spec


def placed_vmap(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    axes = world.names(to[0])
    return gs.vmap(lambda v: v * 2 + v.sum(), spmd_axis_name=axes or None)


def plain_vmap(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    return gs.vmap(lambda v: v * 2 + v.sum())


def vmap_with_constraint(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    sharding = gs.NamedSharding(world.mesh, world.spec(to[1:]))
    return gs.vmap(
        lambda v: lax.with_sharding_constraint(v * 2, sharding) + v.sum(),
        spmd_axis_name=world.names(to[0]) or None,
    )


def constrained(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    sharding = gs.NamedSharding(world.mesh, world.spec(to))
    return lambda x: lax.with_sharding_constraint(x * 2, sharding) + x.sum(1, keepdims=True)


def blocks(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    own, axes = world.spec(to), world.names(to[1])

    def body(x: Any) -> Any:
        return x * 2 + lax.psum(x.sum(1, keepdims=True), axes)

    return gs.shard_map(body, world.mesh, own, own)


def blocks_of_some_axes(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    own, axes = P((), world.names(to[1])), world.names(to[1])

    def body(x: Any) -> Any:
        return x * 2 + lax.psum(x.sum(1, keepdims=True), axes)

    return gs.shard_map(body, world.mesh, own, own, auto=set(world.axes) - set(axes))


def xmapped(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    axes = world.names(to[0])
    resources = {"i": axes} if axes else {}

    def call(x: Any) -> Any:
        f = legacy.xmap(lambda v: v * 2 + v.sum(), {0: "i"}, {0: "i"}, axis_resources=resources)
        with world.mesh:
            return f(x)

    return call


def mapped_over_devices(world: World, spec: Spec, to: Spec) -> Callable[[Any], Any]:
    return gs.pmap(lambda v: v * 2 + v.sum())


PROGRAMS: list[Callable[[World, Spec, Spec], Callable[[Any], Any]]] = [
    placed_vmap, plain_vmap, vmap_with_constraint, constrained, blocks, blocks_of_some_axes,
    xmapped, mapped_over_devices,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_axes_of_one_device_change_nothing(program: Any) -> None:
    for seed in range(some(4, 200)):
        rng = np.random.default_rng(seed)
        sizes = SIZES[seed % len(SIZES)]
        shape = (8, int(rng.choice([2, 8])) if program not in (blocks, blocks_of_some_axes) else 8)
        value = rng.integers(0, 9, shape).astype("f8")
        spec, to = (random_spec(rng, sizes, 2) for _ in range(2))
        traced = bool(rng.integers(2))
        made = []
        for whole in (True, False):
            world = World(sizes, whole=whole)
            f = program(world, spec, to)
            fits = all(n % np.prod([world.axes.get(a, 1) for a in axes]) == 0
                       for n, axes in zip(shape, spec, strict=True))  # fmt: skip
            x = world.put(value, spec if fits else [(), ()])
            made.append((gs.jit(f) if traced else f)(x))
            np.testing.assert_allclose(np.asarray(made[-1]), value * 2 + value.sum(1)[:, None])
        found, want = (x.sharding.devices_indices_map(shape) for x in made)
        what = program.__name__, seed, sizes, spec, to, traced, made[0].sharding, made[1].sharding
        assert found == want, what
