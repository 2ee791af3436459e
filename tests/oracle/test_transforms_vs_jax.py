"""Random bodies of `shard_map` against JAX's, where JAX can run them."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime
from tests.share import some
from tests.transforms.bodies import Lax, Step
from tests.transforms.test_shard_map import mesh_of, ours, random_program


@pytest.fixture(autouse=True)
def eight_devices(jax: ModuleType) -> Iterator[None]:
    with runtime(host_devices=8), jax.enable_x64(True):
        yield


def is_jax_s(step: Step) -> bool:
    """Whether JAX has the step: groups must have one size, axes be in order, and all be there."""
    name, given = step
    if name == "ppermute":
        return isinstance(given[0], str)  # it numbers devices along several in another order
    groups = given[-1] if given and isinstance(given[-1], list) else None
    if groups and isinstance(groups[0], list):
        return len({len(group) for group in groups}) == 1
    return name != "broadcast"


def test_random_bodies(jax: ModuleType) -> None:
    ran = 0
    for seed in range(some(40, 2000)):
        axes, value, into, out, body = random_program(20_000 + seed)
        if not all(map(is_jax_s, body)):
            continue
        mesh = mesh_of(axes)
        x = gs.device_put(value, gs.NamedSharding(mesh, into))
        got = gs.shard_map(ours(body), mesh, into, out, check_rep=False)(x)
        spec = jax.sharding.PartitionSpec
        devices = np.array(jax.devices()[: mesh.size], object).reshape(mesh.axis_sizes)
        theirs = jax.sharding.Mesh(devices, mesh.axis_names)
        steps = Lax(jax.lax, jax.numpy)

        def run(v: Any, body: list[Step] = body, steps: Lax = steps) -> Any:
            for step in body:
                v = steps.do(step, v)
            return v

        mapped = jax.shard_map(
            run, mesh=theirs, in_specs=spec(*into), out_specs=spec(*out), check_vma=False
        )
        want = np.asarray(jax.block_until_ready(jax.jit(mapped)(value)))
        assert got.shape == want.shape, body
        np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5, err_msg=str((seed, body)))
        ran += 1
    assert ran > 10
