"""Functions of blocks, against loops over the blocks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from tests.late import late_devices
from tests.share import seeds, some
from tests.transforms.mapping.bodies import Blocks, Lax, Step, random_body

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
    """Return a spec that names some axes, and may be shorter than there are dims."""
    entries: list[list[str]] = [[] for _ in range(ndim)]
    for axis in rng.permutation(list(axes)).tolist():
        at = int(rng.integers(ndim + 1))
        if at < ndim:
            entries[at].append(axis)
    while entries and not entries[-1] and rng.random() < 0.7:
        entries.pop()
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
    for seed in range(chunk, some(120, 3000), 4):
        check(seed)


def test_random_bodies_on_a_backend_that_does_its_work_late() -> None:
    for seed in seeds(some(45, 300)):
        with late_devices(seed, host_devices=8, host_domains=(1, 2, 4, 8)[seed % 4]):
            check(10_000 + seed)


def test_axes_that_are_not_mapped_stay_split() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(8 * 6.0).reshape(8, 6)
    x = gs.device_put(value, gs.NamedSharding(mesh, P("x", "y")))
    for how in ({"axis_names": {"x"}}, {"auto": frozenset({"y"})}):

        def body(block: Any) -> Any:
            assert block.shape == (2, 6)
            return block - gs.lax.pmean(block, "x") + block.sum(1, keepdims=True)

        made = gs.shard_map(body, mesh, P("x"), P("x"), **how)(x)
        blocks = value.reshape(4, 2, 6)
        want = blocks - blocks.mean(0) + blocks.sum(2, keepdims=True)
        np.testing.assert_allclose(np.asarray(made), want.reshape(8, 6))
        assert made.sharding.spec == P("x", "y")
        cube = gs.device_put(value[..., None], gs.NamedSharding(mesh, P("x", "y")))
        as_said = gs.shard_map(lambda b: b, mesh, P("x"), P("x", None, None), **how)(cube)
        assert as_said.sharding.spec == P("x", "y", None)
        swapped = gs.shard_map(
            lambda b: gs.lax.all_to_all(b, "x", 1, 0, tiled=True) @ gs.numpy.ones((1, 3)),
            mesh, P("x"), P(None, "x"), **how,
        )  # fmt: skip
        wide = gs.device_put(np.arange(32.0).reshape(8, 4), gs.NamedSharding(mesh, P("x", "y")))
        np.testing.assert_array_equal(
            np.asarray(swapped(wide)), np.repeat(np.arange(32.0).reshape(8, 4), 3, 1)
        )
    inner = gs.shard_map(lambda b: gs.lax.psum(b, "y"), mesh, P(None, "y"), P(), axis_names={"y"})
    outer = gs.shard_map(
        lambda b: inner(b) * gs.lax.axis_index("x"), mesh, P("x"), P("x"), axis_names={"x"}
    )
    want = (value[:, :3] + value[:, 3:]).reshape(4, 2, 3) * np.arange(4)[:, None, None]
    np.testing.assert_array_equal(np.asarray(outer(x)), want.reshape(8, 3))


def test_specs_are_prefixes_and_none_is_whole() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(16.0).reshape(8, 2)

    def body(tree: Any, one: Any, *, key: Any) -> Any:
        assert tree["a"].shape == (2, 2) and tree["b"][0].shape == (2, 2)
        assert one.shape == (8, 2) and key.shape == (8, 2)
        return {"sum": tree["a"] + tree["b"][0], "rest": (one.sum(), key[:2])}

    f = gs.shard_map(body, mesh, ({"a": P("x"), "b": P("x")}, None), {"sum": P("x"), "rest": None})
    made = f({"a": value, "b": [value]}, value, key=value)
    np.testing.assert_array_equal(np.asarray(made["sum"]), 2 * value)
    assert float(made["rest"][0]) == value.sum()
    np.testing.assert_array_equal(np.asarray(made["rest"][1]), value[:2])
    same = gs.shard_map(lambda *xs: xs, mesh, P("x"), P("x"))(value, value)
    assert [x.shape for x in same] == [(8, 2), (8, 2)]
    assert gs.shard_map(lambda: gs.numpy.ones(2), mesh, (), P("x"))().shape == (8,)
    assert int(gs.shard_map(lambda n: n + 1, mesh, P(), P())(2)) == 3


def test_meshes_that_are_found_where_it_is_called() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    value = np.arange(8.0)
    for given in (None, gs.AbstractMesh((4, 2), ("x", "y"))):
        f = gs.shard_map(
            lambda b: b * gs.lax.axis_size("x"), mesh=given, in_specs=P("x"), out_specs=P("x")
        )
        with gs.set_mesh(mesh):
            np.testing.assert_array_equal(np.asarray(f(value)), value * 4)
        placed = gs.device_put(value, gs.NamedSharding(mesh, P("y")))
        np.testing.assert_array_equal(np.asarray(f(placed)), value * 4)

    @gs.shard_map(mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False)
    def first(block: Any) -> Any:
        """Return the first block."""
        return block

    assert first.__name__ == "first" and first.__doc__
    np.testing.assert_array_equal(np.asarray(first(value)), value[:2])


def test_an_exception_leaves_everything_usable() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    x = gs.device_put(np.arange(8.0), gs.NamedSharding(mesh, P("x")))

    def body(block: Any) -> Any:
        block[0] = 7
        raise KeyError("mine")

    for _ in range(2):
        with pytest.raises(KeyError, match="mine"):
            gs.shard_map(body, mesh, P("x"), P("x"))(x)
        np.testing.assert_array_equal(np.asarray(x), np.arange(8.0))
        with pytest.raises(NameError):
            gs.lax.axis_index("x")
        assert type(gs.numpy.ones(2)).__name__ == "Array"
        float(gs.numpy.ones(()))


def test_errors_are_about_the_argument_that_does_not_fit() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    row, six = np.ones(4), np.ones(6)

    def call(*given: Any, specs: Any) -> Any:
        return gs.shard_map(lambda *xs: xs[0], mesh, specs, P())(*given)

    with pytest.raises(ValueError, match=r"axis 0 of argument xs\[1\] .* has length 6"):
        call(row, six, specs=(P("x"), P("x")))
    with pytest.raises(ValueError, match=r"in_specs for argument xs\[0\] .* of 2 entries"):
        call(row, six, specs=(P("x", None), "y"))
    with pytest.raises(ValueError, match=r"\) for argument xs\[0\] .*; .*\) for argument xs\[1\]"):
        call(row, six, specs=(P("x", None), P(None, "y")))


def test_what_is_not_split_is_said_no_other_way_in_the_graph() -> None:
    mesh, spec = gs.make_mesh((4, 2), ("x", "y")), P(None, None)
    x = gs.device_put(np.ones((8, 6)), gs.NamedSharding(mesh, spec))
    lowered = gs.jit(gs.shard_map(lambda b: b * 2, mesh, spec, spec)).lower(x)
    assert [step.name for step in lowered.compiler_ir().steps] == ["multiply"]
