"""`pmap` and `soft_pmap`: what `vmap` gives, on devices of their own."""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._geometry.older.sharding_spec import Chunked, Unstacked
from tests.late import late_devices
from tests.share import some
from tests.transforms.mapping.bodies import WITH_GROUPS, Blocks, Lax, Step, random_body

lax = gs.lax
PmapSharding = gs.sharding.PmapSharding
CUBE = np.arange(24.0).reshape(4, 3, 2)


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def equal(got: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want))


BODIES: list[Callable[[Any], Any]] = [
    lambda x: x * 2 + 1,
    lambda x: x / lax.psum(x + 1, "i"),
    lambda x: x - lax.pmean(x, "i") + lax.axis_index("i"),
    lambda x: lax.all_gather(x, "i").sum(0) * x,
    lambda x: lax.all_gather(x, "i", axis=x.ndim - 1, tiled=True),
    lambda x: lax.ppermute(x, "i", [(0, 1), (1, 0)]),
    lambda x: lax.pmax(x, "i") - lax.pmin(x, "i"),
    lambda x: gs.numpy.ones(3),
    lambda x: lax.pbroadcast(x, "i", 1).sum(0, keepdims=True),
    lambda x: lax.psum_scatter(
        gs.numpy.concatenate([x] * lax.axis_size("i")), "i", tiled=True, scatter_dimension=0
    ),
    lambda x: lax.all_to_all(gs.numpy.stack([x] * lax.axis_size("i")), "i", 0, x.ndim),
]


def random_axes(rng: np.random.Generator) -> tuple[np.ndarray[Any, Any], int, int]:
    shape = [int(n) for n in rng.integers(1, 4, int(rng.integers(2, 4)))]
    axis = int(rng.integers(len(shape)))
    shape[axis] = int(rng.choice([2, 4, 8, 3]))
    value = rng.random(shape)
    return value, axis - len(shape) * int(rng.integers(2)), int(rng.integers(-1, 2))


def test_pmap_is_vmap_on_devices() -> None:
    for seed in range(some(30, 500)):
        rng = np.random.default_rng(seed)
        value, into, out = random_axes(rng)
        body = BODIES[int(rng.integers(len(BODIES)))]
        want = gs.vmap(body, into, out, axis_name="i")(value)
        x = gs.device_put(value)
        made = gs.pmap(body, "i", in_axes=into, out_axes=out)(x)
        equal(made, want)
        size = value.shape[into]
        assert isinstance(made.sharding, PmapSharding)
        assert made.sharding.sharding_spec.sharding[out] == Unstacked(size)
        assert [shard.device for shard in made.addressable_shards] == gs.devices()[:size]
        shard = np.take(np.asarray(want), 1, out)
        equal(made.addressable_data(1), shard)
        equal(x, value)


SAME = ("psum", "pmean", "pmax", "pmin", "all_gather", "gather tiled", "broadcast")
"""Collectives whose result is the same everywhere, but in groups."""


def random_call(seed: int) -> tuple[int, Any, Any, Any, list[list[Step]]]:
    """Return a size, arguments, `in_axes`, `out_axes`, and what is done with each argument."""
    rng = np.random.default_rng(seed)
    size = int(rng.choice([2, 3, 4, 8]))
    values, into, out, bodies = [], [], [], []
    for number in range(int(rng.integers(1, 4))):
        block = rng.choice([1, 2, 4, size], int(rng.integers(1, 4))).tolist()
        body = random_body(rng, {"i": size}, block, int(rng.integers(1, 4)))
        axis = int(rng.integers(-len(block) - 1, len(block) + 1))
        own = None if number and rng.random() < 0.3 else axis
        at = axis % (len(block) + 1)
        shape = block if own is None else [*block[:at], size, *block[at:]]
        values.append(rng.integers(0, 9, shape).astype(rng.choice(["f8", "i8", "f4"])))
        into.append(own)
        ndim = blocks_of(size, values[-1], own, body).ndim
        name, given = body[-1]
        same = name in SAME and not (name in WITH_GROUPS and given[-1] is not None)
        out.append(None if same and rng.random() < 0.5 else int(rng.integers(-ndim, ndim)))
        bodies.append(body)
    return size, values, tuple(into), tuple(out), bodies


def blocks_of(size: int, value: Any, axis: int | None, body: list[Step]) -> Any:
    """Return what each device gets."""
    blocks = np.stack([value] * size) if axis is None else np.moveaxis(value, axis, 0)
    for step in body:
        blocks = Blocks({"i": size}).do(step, blocks)
    return blocks


def called(lax: Any, xp: Any, bodies: list[list[Step]]) -> Callable[..., Any]:
    """Return a function that does with each argument what is to be done with it."""
    steps = Lax(lax, xp)

    def function(*values: Any) -> Any:
        return tuple(
            functools.reduce(lambda v, step: steps.do(step, v), body, value)
            for body, value in zip(bodies, values, strict=True)
        )

    return function


@pytest.mark.parametrize("way", [gs.pmap, gs.vmap])
def test_dims_go_in_and_out_where_they_are_said(way: Any) -> None:
    for seed in range(some(40, 700)):
        size, values, into, out, bodies = random_call(seed)
        f = way(called(lax, gs.numpy, bodies), axis_name="i", in_axes=into, out_axes=out)
        for got, value, body, before, after in zip(
            f(*values), values, bodies, into, out, strict=True
        ):
            want = blocks_of(size, value, before, body)
            want = want[0] if after is None else np.moveaxis(want, 0, after)
            assert got.shape == want.shape and got.dtype.kind == want.dtype.kind
            np.testing.assert_allclose(got, want, rtol=1e-5, err_msg=str((seed, body)))


def test_soft_pmap_is_vmap_in_chunks() -> None:
    for seed in range(some(20, 300)):
        rng = np.random.default_rng(seed)
        size = int(rng.choice([1, 4, 8, 16, 24]))
        value = rng.random((size, 2, 3))
        body = BODIES[int(rng.integers(len(BODIES)))]
        if size == 1:
            body = BODIES[2]
        want = gs.vmap(body, axis_name="i")(value)
        made = gs.soft_pmap(body, "i")(value)
        equal(made, want)
        spec = made.sharding.sharding_spec.sharding[0]
        assert spec == Chunked(min(size, 8))
        equal(made.addressable_data(0), want[: max(1, size // 8)])
    total = gs.soft_pmap(lambda x: lax.psum(x, "i"), "i", 0, None)(np.arange(16.0))
    assert float(total) == 120
    assert int(gs.soft_pmap(lambda x: x * lax.psum(1, "i"), "i")(np.ones(16, int))[3]) == 16


def test_random_bodies_are_their_loops() -> None:
    """Operations and collectives, in groups of elements also where a device has several."""
    for seed in range(some(30, 600)):
        rng = np.random.default_rng(seed)
        size = int(rng.choice([1, 4, 8, 16, 24]))
        block = rng.choice([1, 2, 4, size], int(rng.integers(1, 3))).tolist()
        body = random_body(rng, {"i": size}, block, int(rng.integers(1, 5)))
        value = rng.integers(0, 9, (size, *block)).astype(rng.choice(["f8", "i8", "f4"]))
        want, steps, oracle = value, Lax(lax, gs.numpy), Blocks({"i": size})
        for step in body:
            want = oracle.do(step, want)

        def run(v: Any, body: Any = body, steps: Any = steps) -> Any:
            for step in body:
                v = steps.do(step, v)
            return v

        for way in [gs.soft_pmap, gs.pmap] if size <= 8 else [gs.soft_pmap]:
            made = np.asarray(way(run, "i")(value))
            np.testing.assert_allclose(made, want, rtol=1e-5, err_msg=str((seed, body)))


index = lax.axis_index

NESTED: list[Callable[[Any, Any], Any]] = [
    lambda m, x: m(lambda y: y * 2 + 1, "j")(x),
    lambda m, x: m(lambda y: lax.psum(y, "j") + lax.psum(y, ("i", "j")) * index("i"), "j")(x),
    lambda m, x: x + m(lambda y: y * 3 + x.sum() + lax.psum(x[0], "i"), "j")(x * 1.5),
    lambda m, x: m(lambda y: y + lax.psum(x, "i").sum(), "j")(x[:2]).sum(0) + x[1],
    lambda m, x: m(lambda y: lax.all_gather(y, ("i", "j")), "j")(x),
    lambda m, x: lax.psum(m(lambda y: y - lax.pmax(y, "i"), "j")(x), "i").reshape(-1) + 1,
    lambda m, x: m(m(lambda z: z + lax.psum(z, ("i", "k")), "k"), "j")(x),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(NESTED)))
def test_pmap_of_pmap_is_vmap_of_vmap(number: int) -> None:
    value = np.random.default_rng(number).random((2, 2, 2, 3))
    body = NESTED[number]
    want = gs.vmap(lambda x: body(lambda f, name: gs.vmap(f, axis_name=name), x), axis_name="i")(
        value
    )
    made = gs.pmap(lambda x: body(gs.pmap, x), "i")(value)
    equal(made, want)
    assert isinstance(made.sharding, PmapSharding)
    if number == 0:
        assert made.sharding.sharding_spec.sharding[:2] == (Unstacked(2), Unstacked(2))
        assert made.sharding.num_devices == 4


@pytest.mark.parametrize("number", range(len(NESTED)))
@pytest.mark.parametrize("deep", [1, 2, 3])
def test_pmap_of_pmap_takes_arguments_however_they_lie(number: int, deep: int) -> None:
    value = np.random.default_rng(number).random((2, 2, 2, 3))
    body = NESTED[number]

    def same(x: Any) -> Any:
        return x + 0

    for _ in range(deep):
        same = gs.pmap(same)
    laid = same(value)
    assert laid.sharding.num_devices == 2**deep
    f = gs.pmap(lambda x: body(gs.pmap, x), "i")
    made, want = f(laid), f(value)
    equal(made, want)
    assert made.sharding == want.sharding or deep == 3
    assert made.sharding.device_set == want.sharding.device_set
    equal(laid, value)


def test_results_lie_on_a_line_where_no_pmap_within_asks_for_more() -> None:
    value = np.arange(48.0).reshape(2, 2, 2, 6)
    grid = gs.pmap(gs.pmap(lambda x: x + 0))(value)
    for f in (
        gs.pmap(lambda x: x * 2),
        gs.pmap(lambda x: x[::-1] * 2, out_axes=1),
        gs.pmap(lambda x: lax.psum(x, "i"), "i", out_axes=None),
        gs.pmap(lambda x: x.sum((0, 2)), devices=gs.devices()[:2]),
        gs.pmap(lambda x: x * 2, devices=gs.devices()[2:4]),
        gs.pmap(gs.pmap(lambda x: x * 2, axis_size=2, in_axes=1)),
        gs.pmap(lambda x: x + 1, in_axes=1),
        gs.soft_pmap(lambda x: x + 1),
    ):
        made, want = f(grid), f(value)
        equal(made, want)
        assert made.sharding == want.sharding


def test_results_of_pmap_of_pmap_go_to_the_next_call_without_a_copy() -> None:
    with testing.runtime(host_devices=8, host_domains=8):
        f = gs.pmap(gs.pmap(lambda x: x + lax.psum(x.sum(), ("i", "j")), "j"), "i")
        x = f(np.ones((4, 2, 64)))
        with gs.debug.count_traffic() as traffic:
            for _ in range(3):
                x = f(x)
        assert traffic.bytes_received == 3 * 2 * 7 * 8
        deeper = gs.pmap(gs.pmap(gs.pmap(lambda x: x + 0)))(np.ones((2, 2, 2, 64)))
        for y, same in (
            (x, gs.pmap(gs.pmap(lambda x: x))(x)),
            (deeper, gs.pmap(gs.pmap(gs.pmap(lambda x: x)))(deeper)),
        ):
            assert [s.data.unsafe_buffer_pointer() for s in same.addressable_shards] == [
                s.data.unsafe_buffer_pointer() for s in y.addressable_shards
            ]


def test_a_pmap_within_may_be_over_another_length_than_the_argument_lies() -> None:
    value = np.arange(48.0).reshape(2, 2, 2, 6)
    laid = gs.pmap(gs.pmap(gs.pmap(lambda x: x + 0)))(value)
    made = gs.pmap(lambda x: gs.pmap(lambda y: y * 2)(x[0, 0, :3]))(laid)
    equal(made, 2 * value[:, 0, 0, :3])
    assert made.sharding.sharding_spec.sharding == (Unstacked(2), Unstacked(3))


def test_what_is_the_same_for_all_keeps_the_elements_of_a_pmap_within() -> None:
    value = np.arange(12.0).reshape(2, 2, 3)
    for out, want, spec in (
        (0, value.sum(0), (Unstacked(2), None)),
        (1, value.sum(0).T, (None, Unstacked(2))),
    ):
        inner = gs.pmap(lambda y: lax.psum(y, "i"), "j", out_axes=out)
        made = gs.pmap(inner, "i", out_axes=None)(value)
        equal(made, want)
        assert made.sharding.sharding_spec.sharding == spec


def test_maps_of_other_kinds_in_and_around_pmap() -> None:
    value = np.arange(24.0).reshape(4, 3, 2)
    inner = gs.pmap(lambda x: gs.vmap(lambda y: y + lax.psum(y, "i"))(x), "i")(value)
    equal(inner, value + value.sum(0))
    outer = gs.vmap(gs.pmap(lambda x: x + lax.psum(x, "i"), "i"))(value)
    equal(outer, value + value.sum(1, keepdims=True))


def test_results_go_from_one_call_to_the_next_without_a_copy() -> None:
    x = gs.pmap(lambda x: x + 1)(np.arange(16.0).reshape(8, 2))
    before = [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]
    same = gs.pmap(lambda x: x)(x)
    assert [s.data.unsafe_buffer_pointer() for s in same.addressable_shards] == before
    same[0] = 0
    equal(x[0], [1, 2])
    equal(pickle.loads(pickle.dumps(x)), x)
    equal(gs.device_put(x, gs.devices()[0]), x)


def test_all_parameters() -> None:
    devices = gs.devices()[::-1][:4]
    x = gs.device_put(CUBE)

    def body(x: Any, k: int, y: Any, *, z: Any) -> Any:
        assert k == 3
        return {"a": x * k + y, "b": (z,)}

    f = gs.pmap(
        body,
        in_axes=(0, None),
        static_broadcasted_argnums=1,
        devices=devices,
        donate_argnums=(0,),
        axis_size=4,
        out_axes={"a": 1, "b": 0},
    )
    made = f(x, 3, CUBE[0], z=CUBE)
    equal(made["a"], np.moveaxis(CUBE * 3 + CUBE[0], 0, 1))
    equal(made["b"][0], CUBE)
    assert [shard.device for shard in made["a"].addressable_shards] == devices
    assert x.is_deleted()
    index = gs.pmap(lambda: lax.axis_index("i"), "i", axis_size=3, backend=gs.default_backend())()
    equal(index, np.arange(3))
    total = gs.pmap(lambda x: lax.psum(x, "i"), "i", out_axes=None)(CUBE)
    equal(total, CUBE.sum(0))
    assert total.sharding.is_fully_replicated and total.sharding.num_devices == 4
    assert isinstance(total.sharding, PmapSharding)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not mapped": (lambda: gs.pmap(lambda x: x, in_axes=None)(CUBE), ValueError, "no argument"),
    "sizes": (lambda: gs.pmap(lambda x, y: x)(CUBE, CUBE[0]), ValueError, "4 along .* 3 along"),
    "rank 0": (lambda: gs.pmap(lambda x: x)(1.0), ValueError, "argument x, with ndim=0"),
    "beyond": (lambda: gs.pmap(lambda x: x, in_axes=3)(CUBE), ValueError, "in_axes=3 is out of r"),
    "size": (lambda: gs.pmap(lambda x: x, axis_size=5)(CUBE), ValueError, "axis_size=5: 4 along"),
    "empty": (lambda: gs.pmap(lambda x: x, devices=[]), ValueError, "devices=.. is empty"),
    "inner devices": (
        lambda: gs.pmap(gs.pmap(lambda x: x, devices=gs.devices()[:3]))(CUBE),
        ValueError,
        "devices= within another pmap",
    ),
    "devices": (
        lambda: gs.pmap(lambda x: x, devices=gs.devices()[:3])(CUBE),
        ValueError,
        "3 devices for an axis of 4",
    ),
    "too long": (
        lambda: gs.pmap(lambda x: x)(np.ones(9)),
        ValueError,
        "needs 9 devices, there are 8. Try: use soft_pmap",
    ),
    "too many": (
        lambda: gs.pmap(gs.pmap(lambda x: x))(np.ones((4, 3))),
        ValueError,
        "3 elements in 4 functions at once needs 12 devices, there are 8. Try: use vmap here",
    ),
    "too many in chunks": (
        lambda: gs.soft_pmap(gs.pmap(lambda x: x))(np.ones((16, 3))),
        ValueError,
        "3 elements in 8 functions at once needs 24 devices, there are 8. Try: use vmap here",
    ),
    "shard_map in devices": (
        lambda: gs.pmap(gs.shard_map(abs, gs.make_mesh((8,), "z"), gs.P(), gs.P()))(CUBE),
        NotImplementedError,
        "has its devices from no mesh. Try: use vmap or pmap here",
    ),
    "shard_map in chunks": (
        lambda: gs.soft_pmap(gs.shard_map(abs, gs.make_mesh((8,), "z"), gs.P(), gs.P()))(CUBE),
        NotImplementedError,
        "in the soft_pmap of .*, which has its devices from no mesh",
    ),
    "static": (
        lambda: gs.pmap(lambda x, k: x, static_broadcasted_argnums=1)(CUBE, [1]),
        TypeError,
        "the static argument 1 is a list",
    ),
    "out": (
        lambda: gs.pmap(lambda x: x, out_axes=None)(CUBE),
        ValueError,
        r"test_pmap.py:\d+\): the result varies along .* out_axes=None has no place",
    ),
    "global": (
        lambda: gs.pmap(lambda x: x, global_arg_shapes=((3, 4),))(CUBE),
        ValueError,
        r"global_arg_shapes has \(3, 4\) for argument x of shape \(4, 3, 2\), .* sees \(3, 2\)",
    ),
    "global, no shape": (
        lambda: gs.pmap(lambda x: x, global_arg_shapes=("a",))(CUBE),
        ValueError,
        "global_arg_shapes has 'a'",
    ),
    "global, other arguments": (
        lambda: gs.pmap(lambda x: x, global_arg_shapes=((3, 2), None))(CUBE),
        ValueError,
        "global_arg_shapes",
    ),
    "static beyond": (
        lambda: gs.pmap(lambda x, k: x, static_broadcasted_argnums=1)(CUBE, k=1),
        ValueError,
        "static_broadcasted_argnums has 1, and the call has 1 positional",
    ),
    "donated beyond": (
        lambda: gs.pmap(lambda x: x, donate_argnums=-2)(CUBE),
        ValueError,
        "donate_argnums has -2, and the call has 1 positional",
    ),
    "static and donated": (
        lambda: gs.pmap(lambda x, k: x, static_broadcasted_argnums=1, donate_argnums=-1)(CUBE, 1),
        ValueError,
        r"\['1'\] are both static and donated",
    ),
    "donated name": (
        lambda: gs.pmap(lambda x: x, donate_argnums="x"),
        TypeError,
        "donate_argnums='x' must be the number",
    ),
    "groups of two names": (
        lambda: gs.pmap(
            lambda x: gs.pmap(
                lambda y: lax.psum(y, ("i", "j"), axis_index_groups=[[0, 1], [2, 4]]), "j"
            )(x),
            "i",
        )(np.ones((2, 2))),
        ValueError,
        r"lack \[3\]; the named axis 'i' and 'j' has 4 elements",
    ),
    "backend": (lambda: gs.pmap(lambda x: x, backend="tpu")(CUBE), ValueError, "backend='tpu'"),
    "in shard_map": (
        lambda: gs.shard_map(
            gs.pmap(lambda x: x), gs.make_mesh((4,), "x"), gs.P("x"), gs.P("x")
        )(CUBE),
        ValueError,
        "mapped over the mesh",
    ),
    "ragged": (
        lambda: gs.soft_pmap(lambda x: x)(np.ones(9)),
        ValueError,
        "9 elements does not come in equal chunks for 8 devices",
    ),
    "soft axes": (lambda: gs.soft_pmap(lambda x: x, in_axes=1), ValueError, "only have 0 and None"),
    "soft axes that are no integer": (
        lambda: gs.soft_pmap(lambda x: x, out_axes=False),
        ValueError,
        "out_axes has False, and can only have 0 and None",
    ),
    "in no integer": (
        lambda: gs.pmap(lambda x: x, in_axes=False)(CUBE),
        TypeError,
        "in_axes=False for argument x .* must be an integer or None",
    ),
    "out no integer": (
        lambda: gs.pmap(lambda x: x, out_axes=False)(CUBE),
        TypeError,
        "out_axes=False for the result must be an integer or None",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with pytest.raises(builtin, match=message) as caught:
        call()
    assert isinstance(caught.value, gs.errors.GpushardError)
    equal(gs.pmap(lambda x: x + 1)(CUBE), CUBE + 1)


def test_shapes_that_all_processes_see_are_those_of_one() -> None:
    f = gs.pmap(lambda x, y: x + y, in_axes=(1, None), global_arg_shapes=((4, 2), None))
    equal(f(CUBE, 1.0), np.moveaxis(CUBE, 1, 0) + 1)
    equal(gs.pmap(lambda t: t["a"], global_arg_shapes=({"a": (3, 2)},))({"a": CUBE}), CUBE)


def test_pmap_of_pmap_with_all_parameters() -> None:
    """The inner ones' arguments that are given up are values of the outer, and go on."""
    value = np.random.default_rng(0).random((2, 3, 4))

    def inner(x: Any, k: int, y: Any, *, z: Any) -> Any:
        return x * k + y, {"z": z + lax.psum(x, ("i", "j")) + lax.axis_index("i")}

    def outer(x: Any, times: int) -> Any:
        f = gs.pmap(
            inner, "j", in_axes=(1, None), out_axes=(0, {"z": -1}), static_broadcasted_argnums=(1,),
            donate_argnums=0, axis_size=4, backend=gs.default_backend(),
            global_arg_shapes=((3,), None),
        )  # fmt: skip
        made, named = f(x, times, 1.0, z=x.T)
        return made, named, x

    x = gs.device_put(value)
    f = gs.pmap(
        outer, "i", static_broadcasted_argnums=-1, donate_argnums=-2, devices=gs.devices()[::-1],
        axis_size=None, out_axes=(1, 0, 0),
    )  # fmt: skip
    with pytest.raises(gs.errors.ArgumentError, match="8 devices for an axis of 2"):
        f(x, 3)
    assert not x.is_deleted()
    f = gs.pmap(outer, "i", static_broadcasted_argnums=-1, donate_argnums=-2, out_axes=(1, 0, 0))
    made, named, same = f(x, 3)
    assert x.is_deleted()
    equal(made, np.moveaxis(value.swapaxes(1, 2) * 3 + 1, 0, 1))
    total = value.sum((0, 2))[None, :, None] + np.arange(2)[:, None, None]
    equal(named["z"], value + total)
    equal(same, value)


def test_a_lowered_call_is_that_of_jit() -> None:
    def body(x: Any, k: int, t: Any, *, z: Any) -> Any:
        return x * k + t["a"] + z + lax.psum(x, "i")

    f = gs.pmap(
        body, "i", in_axes=(0, None), static_broadcasted_argnums=1, donate_argnums=0, axis_size=4
    )
    value = CUBE[:, :, 0]
    abstract, z = (gs.ShapeDtypeStruct(value.shape, value.dtype) for _ in range(2))
    lowered = f.lower(abstract, 3, {"a": 1.0}, z=z)
    (x, t), named = lowered.args_info
    assert (x.shape, x.dtype, x.donated) == ((4, 3), value.dtype, True)
    assert not t["a"].donated and not named["z"].donated
    assert lowered.donate_argnums == (0,) and lowered.out_info.shape == (4, 3)
    x = gs.device_put(value)
    made = lowered.compile()(x, {"a": 1.0}, z=value)
    equal(made, value * 4 + 1 + value.sum(0))
    assert x.is_deleted() and isinstance(made.sharding, PmapSharding)
    calls: list[Any] = []
    gs.pmap(lambda x: calls.append(x.shape) or x).lower(abstract)
    assert calls == [(3,)]


def test_late_devices() -> None:
    for seed in range(some(6, 40)):
        with late_devices(seed, host_devices=8, host_domains=(1, 4)[seed % 2]):
            value = np.arange(48.0).reshape(8, 3, 2)
            body = BODIES[seed % len(BODIES)]
            want = gs.vmap(body, axis_name="i")(value)
            equal(gs.pmap(body, "i")(value), want)
            equal(gs.soft_pmap(body, "i")(value), want)


@pytest.mark.parametrize("soft", [(False, True), (True, False), (True, True)])
def test_chunks_in_and_around_devices(soft: tuple[bool, bool]) -> None:
    outer, inner = (gs.soft_pmap if own else gs.pmap for own in soft)
    value = np.random.default_rng(0).random((4, 2, 3) if soft == (True, False) else (2, 8, 3))

    def last(y: Any) -> Any:
        return y + lax.psum(y, ("i", "j")) * lax.axis_index(("j", "i")) - lax.psum(y, "j")

    made = outer(lambda x: inner(last, "j")(x) + x[0], "i")(value)
    want = gs.vmap(lambda x: gs.vmap(last, axis_name="j")(x) + x[0], axis_name="i")(value)
    equal(made, want)
    assert isinstance(made.sharding, PmapSharding)
