"""Functions of blocks, against loops over the blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from tests.share import seeds, some
from tests.transforms.bodies import Blocks, Lax, Step, random_body

P = gs.P
MESHES = ({"x": 4, "y": 2}, {"x": 8}, {"a": 2, "b": 2, "c": 2}, {"x": 3, "y": 2}, {"x": 1, "y": 5})


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def mesh_of(axes: dict[str, int]) -> gs.Mesh:
    devices = gs.devices()[: math.prod(axes.values())]
    return gs.Mesh(np.array(devices, object).reshape(tuple(axes.values())), tuple(axes))


def random_spec(rng: np.random.Generator, axes: dict[str, int], ndim: int) -> Any:
    """Return a spec that names some axes."""
    entries: list[list[str]] = [[] for _ in range(ndim)]
    for axis in rng.permutation(list(axes)).tolist():
        at = int(rng.integers(ndim + 1))
        if at < ndim:
            entries[at].append(axis)
    return P(*[tuple(names) or None for names in entries])


def blocks_of(value: Any, spec: Any, axes: dict[str, int]) -> Any:
    """Return the block of each device of a mesh, by the definition of a spec."""
    made = []
    for at in np.ndindex(*axes.values()):
        place = dict(zip(axes, at, strict=True))
        index = []
        for dim, n in enumerate(value.shape):
            number, count = 0, 1
            for axis in spec.axes(dim):
                number, count = number * axes[axis] + place[axis], count * axes[axis]
            index.append(slice(number * n // count, (number + 1) * n // count))
        made.append(value[tuple(index)])
    return np.stack(made).reshape((*axes.values(), *made[0].shape))


def whole_of(blocks: Any, spec: Any, axes: dict[str, int]) -> Any:
    """Return the array whose blocks they are; of replicas the first one."""
    block = blocks.shape[len(axes) :]
    counts = [math.prod(axes[axis] for axis in spec.axes(dim)) for dim in range(len(block))]
    whole = np.zeros([n * count for n, count in zip(block, counts, strict=True)], blocks.dtype)
    for at in reversed(list(np.ndindex(*axes.values()))):
        place = dict(zip(axes, at, strict=True))
        index = []
        for dim, n in enumerate(block):
            number = 0
            for axis in spec.axes(dim):
                number = number * axes[axis] + place[axis]
            index.append(slice(number * n, (number + 1) * n))
        whole[tuple(index)] = blocks[at]
    return whole


def random_program(seed: int) -> tuple[dict[str, int], Any, Any, Any, list[Step]]:
    """Return a mesh, a value, how it is split, how the result is, and a body."""
    rng = np.random.default_rng(seed)
    axes = MESHES[int(rng.integers(len(MESHES)))]
    ndim = int(rng.integers(1, 4))
    into = random_spec(rng, axes, ndim)
    block = rng.choice([1, 2, 4], ndim)
    shape = [
        int(n) * math.prod(axes[axis] for axis in into.axes(dim)) for dim, n in enumerate(block)
    ]
    value = rng.integers(0, 9, shape).astype(rng.choice(["f8", "i8", "f4"]))
    body = random_body(rng, axes, block.tolist(), int(rng.integers(1, 6)))
    found = Blocks(axes)
    result = blocks_of(value, into, axes)
    for step in body:
        result = found.do(step, result)
    out = random_spec(rng, axes, result.ndim - len(axes))
    return axes, value, into, out, body


def ours(body: list[Step]) -> Any:
    steps = Lax(gs.lax, gs.numpy)

    def run(v: Any) -> Any:
        for step in body:
            v = steps.do(step, v)
        return v

    return run


def check(seed: int) -> None:
    """Run a random program, and compare it with its oracle."""
    axes, value, into, out, body = random_program(seed)
    oracle, expected = Blocks(axes), blocks_of(value, into, axes)
    for step in body:
        expected = oracle.do(step, expected)
    want = whole_of(expected, out, axes)
    mesh = mesh_of(axes)
    x = gs.device_put(value, gs.NamedSharding(mesh, into))
    got = gs.shard_map(ours(body), mesh, into, out, check_rep=False)(x)
    assert got.sharding == gs.NamedSharding(mesh, out)
    assert got.shape == want.shape and got.dtype.kind == want.dtype.kind, body
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, err_msg=str((seed, body)))
    np.testing.assert_array_equal(np.asarray(x), value)


@pytest.mark.parametrize("chunk", range(4))
def test_random_bodies_are_loops_over_blocks(chunk: int) -> None:
    for seed in range(chunk, some(300, 3000), 4):
        check(seed)


def test_random_bodies_on_a_backend_that_does_its_work_late() -> None:
    for seed in seeds(some(45, 300)):
        with testing.simulated(
            seed, host_devices=8, host_domains=(1, 2, 4, 8)[seed % 4]
        ) as runtime:
            runtime.sim.failing = 0  # of allocations
            check(10_000 + seed)
            runtime.backend.check()
