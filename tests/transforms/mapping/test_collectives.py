"""Every collective, of all types and over axes of all meshes, against what each device gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import lax, legacy, testing
from tests.late import late_devices
from tests.share import some
from tests.transforms.mapping.bodies import COLLECTIVES, Blocks, Lax, Step, random_collective
from tests.transforms.mapping.test_shard_map import (
    MESHES,
    blocks_of,
    mesh_of,
    random_spec,
    whole_of,
)

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
    for seed in range(chunk, some(32, 1000), 4):
        check(seed)


def test_devices_that_do_their_work_late() -> None:
    for seed in range(some(10, 100)):
        with late_devices(seed, host_devices=8, host_domains=(1, 2, 4, 8)[seed % 4]):
            check(10_000 + seed)


def in_mesh(f: Any) -> Any:
    def call(x: Any) -> Any:
        with gs.make_mesh((len(x), 8 // len(x)), ("i", "j")):
            return f(x)

    return call


def mapped_over_i(body: Any, size: int) -> dict[str, Any]:
    mesh = gs.make_mesh((size, 8 // size), ("i", "j"))
    entry = {0: "i"}
    placed = legacy.xmap(body, entry, entry, axis_resources={"i": "i"})
    return {
        "vmap": gs.vmap(body, axis_name="i"),
        "vmap over a mesh axis": in_mesh(gs.vmap(body, axis_name="i", spmd_axis_name="i")),
        "pmap": gs.pmap(body, "i"),
        "soft_pmap": gs.soft_pmap(body, "i"),
        "shard_map": gs.shard_map(body, mesh, gs.P("i"), gs.P("i")),
        "smap": in_mesh(gs.smap(body, in_axes=0, out_axes=0, axis_name="i")),
        "xmap": legacy.xmap(body, entry, entry),
        "xmap on a mesh": in_mesh(placed),
        "vtile": legacy.vtile(body, 0, 0, size, "i"),
        "in a branch": gs.vmap(
            lambda v: lax.cond(v.sum() > 1, body, lambda v: v, v), axis_name="i"
        ),
        "in vmap": gs.vmap(gs.vmap(body), axis_name="i"),
        "in shard_map": gs.shard_map(gs.vmap(body), mesh, gs.P("i"), gs.P("i")),
    }


@pytest.mark.parametrize("name", mapped_over_i(lambda v: v, 1))
@pytest.mark.parametrize("size", [1, 4])
@pytest.mark.parametrize("traced", [False, True])
def test_sums_of_numbers_are_numbers_of_their_type(name: str, size: int, traced: bool) -> None:
    seen: list[bool] = []

    def body(v: Any) -> Any:
        sums = [lax.psum(x, "i") for x in (1, 3, 2.5, 1j, np.int8(2))]
        assert [type(x) for x in sums] == [int, int, float, complex, np.int8]
        assert sums == [size, 3 * size, 2.5 * size, 1j * size, 2 * size]
        every = [list(range(size))]
        assert type(lax.psum(1, ("i",), axis_index_groups=every)) is int
        assert type(lax.axis_size("i")) is int and len(range(lax.psum(1, "i"))) == size
        seen.append(True)
        return v

    f = mapped_over_i(body, size)[name]
    x = np.arange(size * 4.0).reshape(size, 4)
    np.testing.assert_array_equal(np.asarray((gs.jit(f) if traced else f)(x)), x)
    assert seen


def test_groups_along_two_axes_around_a_map() -> None:
    value = np.arange(12.0).reshape(4, 3) ** 2
    groups = [[0, 3], [2, 1]]

    def body(v: Any) -> Any:
        return lax.psum(v, ("x", "y"), axis_index_groups=groups), lax.all_gather(
            v, ("x", "y"), axis_index_groups=groups
        )

    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        each, rows = gs.vmap(body, in_axes=1, out_axes=1), gs.P(("x", "y"))
        made = gs.shard_map(each, mesh, rows, rows)(value)
    first, second = value[[0, 2, 2, 0]], value[[3, 1, 1, 3]]
    np.testing.assert_array_equal(made[0], first + second)
    together = np.stack([first, second], axis=1)  # for each row those of its group
    np.testing.assert_array_equal(np.asarray(made[1]).reshape(4, 2, 3), together)
