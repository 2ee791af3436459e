"""Random bodies of `shard_map` and `pmap`, and collectives, against JAX's where JAX has them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime
from tests.share import some
from tests.transforms.mapping import test_collectives as collectives
from tests.transforms.mapping.bodies import Lax, Step
from tests.transforms.mapping.test_shard_map import mesh_of, ours, random_program
from tests.transforms.test_pmap import called, random_call


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


def mesh_of_theirs(jax: ModuleType, axes: dict[str, int]) -> Any:
    """Return a mesh of JAX's."""
    shape = tuple(axes.values())
    devices = np.array(jax.devices()[: math.prod(shape)], object)
    return jax.sharding.Mesh(devices.reshape(shape), tuple(axes))


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
        theirs = mesh_of_theirs(jax, axes)
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


def test_collectives(jax: ModuleType) -> None:
    """All of a mesh are one program of JAX's, which takes long to compile each."""
    found: dict[tuple[tuple[str, int], ...], list[collectives.Case]] = {}
    for seed in range(some(30, 400)):
        axes, cases = collectives.random_cases(30_000 + seed)
        own = found.setdefault(tuple(axes.items()), [])
        for case in cases:
            adds = case[0][0].startswith("scatter") and case[1].dtype.kind == "b"  # JAX refuses it
            own += [case] if is_jax_s(case[0]) and not adds else []
    spec = jax.sharding.PartitionSpec
    for items, cases in found.items():
        axes = dict(items)
        into, out = ([spec(*case[n]) for case in cases] for n in (2, 3))
        mapped = jax.shard_map(
            collectives.called(jax.lax, jax.numpy, cases),
            mesh=mesh_of_theirs(jax, axes),
            in_specs=tuple(into),
            out_specs=tuple(out),
            check_vma=False,
        )
        wanted = jax.block_until_ready(jax.jit(mapped)(*[case[1] for case in cases]))
        for got, want, case in zip(collectives.ours(axes, cases), wanted, cases, strict=True):
            collectives.compare(got, np.asarray(want), (axes, case[0], case[1].dtype, *case[2:]))
            if case[0][0] != "pmean":  # that of integers is as NumPy's mean
                assert got.dtype == want.dtype, (case[0], case[1].dtype)
    assert sum(map(len, found.values())) > 150


def test_pmap(jax: ModuleType) -> None:
    ran = 0
    for seed in range(some(40, 1000)):
        _, values, into, out, bodies = random_call(30_000 + seed)
        if not all(is_jax_s(step) for body in bodies for step in body):
            continue
        made = gs.pmap(called(gs.lax, gs.numpy, bodies), "i", in_axes=into, out_axes=out)(*values)
        # JAX's takes another dim than it is told for those that count from the end.
        into, out = (
            tuple([None if n is None else n % x.ndim for n, x in zip(axes, xs, strict=True)])
            for axes, xs in ((into, values), (out, made))
        )
        theirs = jax.pmap(called(jax.lax, jax.numpy, bodies), "i", in_axes=into, out_axes=out)
        for got, want in zip(made, jax.block_until_ready(theirs(*values)), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=str((seed, into, out)))
        ran += 1
    assert ran > 10
