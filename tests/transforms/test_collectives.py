"""Every collective, of all types and over axes of all meshes, against what each device gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from tests.late import late_devices
from tests.share import some
from tests.transforms.bodies import COLLECTIVES, Blocks, Lax, Step, random_collective
from tests.transforms.test_shard_map import MESHES, blocks_of, mesh_of, random_spec, whole_of

DTYPES = ("?", "i1", "u2", "i4", "u4", "i8", "f2", "f4", "f8", "c8", "c16")
MANY = 10
"""Cases in one function."""

Case = tuple[Step, Any, Any, Any]
"""A collective, a value, how that is split, and how the result is."""


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def random_value(rng: np.random.Generator, shape: list[int]) -> Any:
    """Return small integers of some type, whose sums are exact in all of them."""
    dtype = np.dtype(rng.choice(DTYPES))
    value = rng.integers(0, 2 if dtype.kind == "b" else 8, shape)
    return value.astype(dtype) * (dtype.type(1 + 1j) if dtype.kind == "c" else dtype.type(1))


def random_case(rng: np.random.Generator, name: str, axes: dict[str, int]) -> Case:
    """Return a call of a collective that fits its block."""
    while True:
        block = rng.choice([1, 2, 3, *axes.values(), 8], int(rng.integers(1, 4))).tolist()
        step = random_collective(rng, name, axes, block)
        if step is not None and np.prod(block) <= 200:
            break
    into = random_spec(rng, axes, len(block))
    counts = [int(np.prod([axes[a] for a in into.axes(dim)])) for dim in range(len(block))]
    value = random_value(rng, [n * count for n, count in zip(block, counts, strict=True)])
    if name in ("pmax", "pmin") and value.dtype.kind == "c":  # which have no order
        value = value.real
    result = Blocks(axes).do(step, blocks_of(value, into, axes))
    return step, value, into, random_spec(rng, axes, result.ndim - len(axes))


def random_cases(seed: int) -> tuple[dict[str, int], list[Case]]:
    """Return a mesh, and calls that one function on it makes."""
    rng = np.random.default_rng(seed)
    axes = MESHES[seed % len(MESHES)]
    names = rng.permutation(COLLECTIVES)[:MANY].tolist()
    return axes, [random_case(rng, name, axes) for name in names]


def called(lax: Any, xp: Any, cases: list[Case]) -> Any:
    """Return a function of all values that makes the calls."""
    steps = Lax(lax, xp)
    return lambda *values: tuple(
        steps.do(step, value) for (step, *_), value in zip(cases, values, strict=True)
    )


def ours(axes: dict[str, int], cases: list[Case]) -> list[Any]:
    """Make the calls by `shard_map`."""
    mesh = mesh_of(axes)
    _, values, into, out = zip(*cases, strict=True)
    f = gs.shard_map(called(gs.lax, gs.numpy, cases), mesh, into, out, check_rep=False)
    xs = [
        gs.device_put(value, gs.NamedSharding(mesh, spec))
        for value, spec in zip(values, into, strict=True)
    ]
    return [np.asarray(got) for got in f(*xs)]


def compare(got: Any, want: Any, what: Any) -> None:
    """Compare results, which are exact but for means."""
    assert got.shape == want.shape, what
    assert got.dtype.kind == want.dtype.kind, (what, got.dtype, want.dtype)
    tolerance = 2e-3 if got.dtype == np.float16 else 1e-6
    np.testing.assert_allclose(got, want, rtol=tolerance, err_msg=str(what))


def check(seed: int) -> None:
    """Make random calls, and compare each with its oracle."""
    axes, cases = random_cases(seed)
    for got, (step, value, into, out) in zip(ours(axes, cases), cases, strict=True):
        blocks = Blocks(axes).do(step, blocks_of(value, into, axes))
        compare(got, whole_of(blocks, out, axes), (seed, axes, step, value.dtype, into, out))


@pytest.mark.parametrize("chunk", range(4))
def test_each_device_gets_its_part(chunk: int) -> None:
    for seed in range(chunk, some(100, 1000), 4):
        check(seed)


def test_devices_that_do_their_work_late() -> None:
    for seed in range(some(10, 100)):
        with late_devices(seed, host_devices=8, host_domains=(1, 2, 4, 8)[seed % 4]):
            check(10_000 + seed)
