"""`xmap` against its definition: what NumPy makes of the body for each index of named dims."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    GpushardError,
    TracedValueError,
    TreeError,
)
from gpushard.legacy import SerialLoop, serial_loop, xmap
from tests.share import seeds
from tests.traffic import received

gnp: Any = gs.numpy

MESHES = [((8,), "x"), ((4, 2), ("x", "y")), ((2, 2, 2), ("x", "y", "z"))]
SIZES = {"i": 8, "j": 4, "k": 16}

Axes = dict[int, str]


def defined(
    body: Callable[..., Any], args: list[Any], ins: list[Axes], outs: list[Axes]
) -> list[Any]:
    """Return what a body gives, whose results have a named dim or are the same along it."""
    names = sorted({name for axes in ins for name in axes.values()})
    results: list[Any] = []
    for at in itertools.product(*[range(SIZES[name]) for name in names]):
        here = dict(zip(names, at, strict=True))
        parts = [
            x[tuple(here[axes[dim]] if dim in axes else slice(None) for dim in range(x.ndim))]
            for x, axes in zip(args, ins, strict=True)
        ]
        made = body(*parts)
        for number, (one, axes) in enumerate(zip(made, outs, strict=True)):
            one = np.asarray(one)
            if number == len(results):
                ndim, sizes = one.ndim + len(axes), iter(one.shape)
                shape = [SIZES[axes[d]] if d in axes else next(sizes) for d in range(ndim)]
                results.append(np.zeros(shape, one.dtype))
            index = [
                here[axes[d]] if d in axes else slice(None) for d in range(results[number].ndim)
            ]
            results[number][tuple(index)] = one
    return results


def placed(rng: random.Random, names: list[str], more: int) -> Axes:
    """Return dims for names, among more."""
    return dict(zip(rng.sample(range(len(names) + more), len(names)), names, strict=True))


def written(axes: Axes, ndim: int, rng: random.Random) -> Any:
    """Return one of the forms of an entry."""
    listed: list[Any] = [axes.get(dim) for dim in range(ndim)]
    while rng.random() < 0.5 and listed and listed[-1] is None:
        listed.pop()
    return rng.choice([axes, [*listed, ...], [axes.get(dim) for dim in range(ndim)]])


def resources(rng: random.Random, sizes: dict[str, int], names: list[str]) -> dict[str, Any]:
    """Return mesh axes and loops for some names, none for two."""
    free, found = list(sizes), {}
    rng.shuffle(free)
    for name in names:
        own: list[Any] = [free.pop() for _ in range(rng.choice([0, 1, 1, 2])) if free]
        if rng.random() < 0.2:
            own.append(SerialLoop(2))
        parts = int(np.prod([x.length if isinstance(x, SerialLoop) else sizes[x] for x in own]))
        if own and SIZES[name] % parts == 0:
            found[name] = own[0] if len(own) == 1 else tuple(own)
    return found


def bodies(xp: Any) -> list[Callable[[Any, Any], Any]]:
    return [
        lambda a, b: (xp.tanh(a) * 2, a.sum() - b.max(), b),
        lambda a, b: (a - a.mean(0), a.sum() * b, xp.sort(b)),
        lambda a, b: (a[::-1], a.sum() + b, xp.where(b > 0, b, 0)),
    ]


@pytest.mark.parametrize("seed", seeds(60))
def test_as_defined(seed: int) -> None:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    shape, axes = MESHES[seed % 3]
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh(shape, axes)
        names = rng.sample(sorted(SIZES), rng.randint(1, 3))
        own = [rng.sample(names, rng.randint(0, len(names))) for _ in range(2)]
        if not any(own):
            own[0] = names
        ins = [placed(rng, each, 1) for each in own]
        args = []
        for each in ins:
            ndim = len(each) + 1
            args.append(
                values.normal(size=[SIZES[each[d]] if d in each else 3 for d in range(ndim)])
            )
        known = sorted({name for each in own for name in each})
        needed = [own[0], known, own[1]]
        kind = rng.randrange(3)
        ranks = [1, 0 if kind == 0 else 1, 1]
        wider = [rng.sample(known, len(known)) if rng.random() < 0.3 else n for n in needed]
        outs = [placed(rng, n, more) for n, more in zip(wider, ranks, strict=True)]
        f = xmap(
            bodies(gnp)[kind],
            tuple(written(each, x.ndim, rng) for each, x in zip(ins, args, strict=True)),
            tuple(written(each, len(each) + r, rng) for each, r in zip(outs, ranks, strict=True)),
            axis_resources=resources(rng, dict(mesh.shape), known),
        )
        given: list[Any] = list(args)
        if rng.random() < 0.5:
            given = [gs.device_put(x, gs.NamedSharding(mesh, gs.P())) for x in args]
        wanted = defined(bodies(np)[kind], args, ins, outs)
        with mesh:
            for call in (f, gs.jit(f)):
                for made, one in zip(call(*given), wanted, strict=True):
                    np.testing.assert_allclose(np.asarray(made), one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("seed", seeds(30))
def test_reductions_by_name(seed: int) -> None:
    rng, values = random.Random(seed), np.random.default_rng(seed)
    with testing.runtime(host_devices=8):
        mesh = gs.make_mesh(*MESHES[seed % 3])
        axes = placed(rng, ["i", "j", "k"], 1)
        x = values.normal(size=[SIZES[axes[d]] if d in axes else 3 for d in range(4)])
        gone = rng.sample(["i", "j", "k"], rng.randint(1, 3))
        dims = tuple(dim for dim, name in axes.items() if name in gone)
        left = [name for _, name in sorted(axes.items()) if name not in gone]
        own = next(dim for dim in range(4) if dim not in axes)
        at = own - sum(dim < own for dim in dims)  # where the dim without a name is afterwards
        whole = dict(zip([d for d in range(len(left) + 1) if d != at], left, strict=True))
        alone = dict(enumerate(left))
        placing = resources(rng, dict(mesh.shape), ["i", "j", "k"])
        for name in gone:  # a loop has no more than a part of what is reduced
            has = placing.get(name, ())
            several = has if isinstance(has, tuple) else (has,)
            if any(isinstance(each, SerialLoop) for each in several):
                del placing[name]

        def body(x: Any) -> Any:
            axis: Any = gone[0] if len(gone) == 1 else tuple(gone)
            return (
                x.sum(axis=axis), gnp.mean(x, axis), gnp.max(x, (*gone, 0)), x.var(axis),
                gs.lax.psum(x, axis), gs.lax.pmin(x, axis), gnp.any(x > 1, (0, *gone)),
                gnp.min(x, (*gone, 0), keepdims=True), x.sum(gone, keepdims=True),
            )  # fmt: skip

        every = (*dims, own)
        wanted = (
            x.sum(dims), x.mean(dims), x.max(every), x.var(dims), x.sum(dims), x.min(dims),
            (x > 1).any(every), np.expand_dims(x.min(every), at), x.sum(dims),
        )  # fmt: skip
        outs = (whole, whole, alone, whole, whole, whole, alone, whole, whole)
        f = xmap(body, axes, outs, axis_resources=placing)
        with mesh:
            for call in (f, gs.jit(f)):
                for made, one in zip(call(x), wanted, strict=True):
                    np.testing.assert_allclose(np.asarray(made), one, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("placing", [{}, {"i": "x"}, {"j": ("x", "y")}, {"i": "y", "k": "x"}])
@pytest.mark.parametrize(
    ("subscripts", "letters", "out"),
    [
        ("{i,j},{j,k}->{i,k}", "ij,jk->ik", {0: "i", 1: "k"}),
        ("{i, j},{j,k}->{k}", "ij,jk->k", {0: "k"}),
        ("{i,j},{j,k}->", "ij,jk->", {}),
        ("{i,j},{k}->{i,k}", "ij,jk->jik", {1: "i", 2: "k", 0: "j"}),
    ],
)
def test_einsum_by_names(subscripts: str, letters: str, out: Axes, placing: Any) -> None:
    x, y = (np.random.default_rng(0).normal(size=(8, n)) for n in (8, 4))
    if "{k}" in subscripts.split("->")[0]:  # j stays, of the second operand by itself
        subscripts = "{i,j},{j,k}->{i,j,k}"
    with testing.runtime(host_devices=8):
        f = xmap(
            lambda x, y: gnp.einsum(subscripts, x, y),
            (["i", "j"], ["j", "k"]),
            out,
            axis_resources=placing,
        )
        with gs.make_mesh((4, 2), ("x", "y")):
            np.testing.assert_allclose(np.asarray(f(x, y)), np.einsum(letters, x, y), rtol=1e-12)


def test_einsum_mixes_letters_and_names() -> None:
    x = np.random.default_rng(0).normal(size=(4, 3, 2))
    y = np.random.default_rng(1).normal(size=(4, 5, 3))
    f = xmap(
        lambda x, y: gnp.einsum("ab{i},ca{i}->bc", x, y), (["i", None, None], ["i", ...]), [...]
    )
    np.testing.assert_allclose(np.asarray(f(x, y)), np.einsum("iab,ica->bc", x, y))


def test_einsum_of_names_and_arrays_without() -> None:
    x, y = np.arange(6.0).reshape(2, 3), gs.numpy.asarray([1.0, 10, 100])

    def mapped(subscripts: str, names: Any, swap: bool = False) -> Any:
        f = xmap(lambda x: gnp.einsum(subscripts, *((y, x) if swap else (x, y))), ["i", ...], names)
        return f(x).tolist()

    assert mapped("a{i},a->a", [...]) == (x.sum(0) * y).tolist()
    assert mapped("a,a{i}->a", [...], swap=True) == (x.sum(0) * y).tolist()
    assert mapped("a{i},a->a{i}", ["i", ...]) == (x * y).tolist()


@pytest.mark.parametrize(
    ("subscripts", "message"),
    [
        ("{i,}->{i}", "each name once"),
        ("{i,j}->{i,j}", r"has 'j' for operand 0, which has \['i'\]\. Try: name only"),
        ("{i,j}->{i}", "'j' is no named axis of the value"),
    ],
)
def test_einsum_refuses_names_that_an_operand_lacks(subscripts: str, message: str) -> None:
    f = xmap(
        lambda y: xmap(lambda x: gnp.einsum(subscripts, x), ["i"], ["i"])(np.arange(3.0)) + y,
        ["j"],
        ["j", ...],
    )
    with pytest.raises(ValueError, match=message):
        f(np.arange(2.0))


def test_einsum_sums_over_no_chunks() -> None:
    with (
        testing.runtime(host_devices=4),
        pytest.raises(
            ValueError, match=r"lies on devices in chunks\. Try: use gpushard\.lax\.psum"
        ),
    ):
        gs.soft_pmap(lambda x: gnp.einsum("{i}->", x), "i", out_axes=None)(np.arange(8.0))


def test_names_live_where_resources_say() -> None:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    f = xmap(
        lambda x: 2 * x, ["i", "j", ...], {1: "i", 0: "j"}, axis_resources={"i": "x", "j": "y"}
    )
    with mesh:
        made = f(np.ones((8, 4, 3)))
    assert made.sharding.spec == gs.P("y", "x")
    assert made.addressable_data(0).shape == (2, 2, 3)


def test_what_lies_there_does_not_move() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(np.ones((8, 64)), gs.NamedSharding(mesh, gs.P("x", "y")))
        f = xmap(lambda x: x + 1, ["i", "j"], ["i", "j"], axis_resources={"i": "x"})
        with mesh:
            before = dict(runtime.backend.traffic)
            made = f(x)
            assert received(runtime, before) == 0
            other = gs.device_put(x, gs.NamedSharding(gs.make_mesh((8,), "z"), gs.P("z")))
            before = dict(runtime.backend.traffic)
            f(other)  # goes where it is wanted at once
            assert received(runtime, before) <= x.nbytes
    assert made.sharding.spec == gs.P("x", "y")


def test_results_are_broadcast_over_names() -> None:
    f = xmap(lambda x: x, {}, {1: "i"}, axis_sizes={"i": 3})
    assert f(np.arange(2)).tolist() == [[0, 0, 0], [1, 1, 1]]


def test_mapped_functions_in_each_other() -> None:
    x = np.random.default_rng(0).normal(size=(8, 4, 3))
    total = x.sum((0, 1))
    row = xmap(
        lambda r: r - gs.lax.psum(r, ("i", "j")), ["j", ...], ["j", ...], axis_resources={"j": "y"}
    )
    f = xmap(row, ["i", ...], ["i", ...], axis_resources={"i": "x"})
    jitted = xmap(gs.jit(row), ["i", ...], ["i", ...], axis_resources={"i": "x"})
    mapped = gs.vmap(
        xmap(lambda r: r - gs.lax.psum(r, ("i", "j")), ["j", ...], ["j", ...]), axis_name="i"
    )
    with gs.make_mesh((4, 2), ("x", "y")):
        for call in (f, gs.jit(f), jitted, mapped):
            np.testing.assert_allclose(np.asarray(call(x)), x - total, rtol=1e-12)


def test_loops_take_turns() -> None:
    seen = []

    def body(x: Any) -> Any:
        seen.append(x.shape)
        return x * 2

    x = np.arange(48.0).reshape(8, 6)
    f = xmap(body, ["i", "j"], ["j", "i"], axis_resources={"i": ("x", "turns"), "j": SerialLoop(3)})
    with gs.make_mesh((4,), "x"), serial_loop("turns", 2):
        made = f(x)
    assert len(seen) == 6
    np.testing.assert_array_equal(np.asarray(made), x.T * 2)


def test_the_name_of_a_loop_is_free_afterwards() -> None:
    f = xmap(lambda x: x * 2, ["i"], ["i"], axis_resources={"i": "turns"})
    for turns in (2, 4):
        with serial_loop("turns", turns), serial_loop("others", 3):
            assert f(np.arange(8)).tolist() == list(range(0, 16, 2))
    with pytest.raises(ArgumentError, match="'turns'"):
        f(np.arange(8))


def test_a_loop_leaves_other_names_whole() -> None:
    sizes = []

    def body(x: Any) -> Any:
        sizes.append(gs.lax.axis_size("j"))
        return x

    xmap(body, ["i", "j"], ["i", "j"], axis_resources={"i": SerialLoop(2)})(np.ones((4, 6)))
    assert sizes == [6, 6]


def test_loops_need_less_memory() -> None:
    def peak(loop: int) -> int:
        with testing.runtime(host_devices=1, small_bytes=0) as runtime:
            x = gs.device_put(np.ones((1024, 1024)))
            f = xmap(
                lambda r: gnp.outer(r, r)[0, :8].sum() + r.sum(),
                ["i", ...],
                ["i"],
                axis_resources={"i": SerialLoop(loop)},
            )
            rows = x[:32]
            f(rows).block_until_ready()
            (device,) = runtime.devices
            return int(device.memory_stats()["peak_bytes_in_use"])

    whole, turns = peak(1), peak(8)
    inside = 32 * 1024 * 1024 * 8
    assert whole > inside
    assert turns < whole / 4


def test_donated_arguments_are_deleted() -> None:
    x, y = gs.numpy.ones(4), gs.numpy.ones(4)
    f = xmap(lambda x, y: x + y, ["i"], ["i"], donate_argnums=(0,))
    with pytest.raises(ArgumentError):
        xmap(lambda x, y: x + y, ["i"], ["j"], axis_sizes={"j": 2}, donate_argnums=0)(x, y)
    assert not x.is_deleted()
    f(x, y)
    assert x.is_deleted()
    assert not y.is_deleted()
    last = xmap(lambda x, y: x + y, ["i"], ["i"], donate_argnums=(-2, -1))
    x = gs.numpy.ones(4)
    assert last(x, np.ones(4)).tolist() == [2] * 4 and x.is_deleted()
    for beyond in (2, -3):
        with pytest.raises(ArgumentError, match=f"donate_argnums has {beyond}, and the call has 2"):
            xmap(lambda x, y: x + y, ["i"], ["i"], donate_argnums=beyond)(y, y)


def test_stages() -> None:
    f = xmap(lambda x: x + 1, ["i", ...], ["i", ...], axis_resources={"i": "x"})
    with gs.make_mesh((4,), "x"):
        lowered = f.lower(gs.ShapeDtypeStruct((8, 2), np.float32))  # type: ignore[attr-defined]
        compiled = lowered.compile()
        assert compiled(gnp.zeros((8, 2), np.float32)).tolist() == [[1, 1]] * 8


def test_pytrees_and_prefixes() -> None:
    f = xmap(
        lambda d, y: {"sum": d["a"] + d["b"] + y, "y": y},
        ({"a": ["i"], "b": {0: "i"}}, {}),
        {"sum": ["i", ...], "y": [...]},
    )
    made = f({"a": np.arange(3), "b": np.ones(3)}, 2)
    assert made["sum"].tolist() == [3, 4, 5]
    assert made["y"].tolist() == 2
    prefix = xmap(lambda d, y: d["a"] * y, ["i"], ["i"])
    listed = xmap(lambda x, y: x[0] * y, [{0: "i"}, {1: "i"}], ["i", ...])  # as the tuple of these
    assert listed(X[:2], X[:, :2]).tolist() == (X[:2, :1] * X[:, :2].T).tolist()
    assert prefix({"a": np.arange(3)}, np.arange(3)).tolist() == [0, 1, 4]


def test_errors_say_which_sizes_and_dims_differ() -> None:
    for call, facts in (
        (
            lambda: xmap(lambda x: x, ["i"], ["i"], axis_sizes={"i": 3})(np.ones(4)),
            {"argument": "axis_sizes", "axis": "i", "sizes": (3, 4)},
        ),
        (
            lambda: xmap(lambda x, y: x, (["i"], ["i"]), ["i"])(np.ones(3), np.ones(4)),
            {"argument": "in_axes", "axis": "i", "sizes": (3, 4)},
        ),
        (
            lambda: xmap(lambda x: x, {1: "i"}, ["i"])(np.ones(4)),
            {"argument": "in_axes", "axis": "i", "dim": 1, "ndim": 1},
        ),
    ):
        with pytest.raises(ArgumentError) as caught:
            call()
        assert {name: getattr(caught.value, name) for name in facts} == facts


def test_sizes_that_are_given() -> None:
    for size in (0, 1, np.int64(3)):
        f = xmap(lambda x: x + 1, {}, {0: "i"}, axis_sizes={"i": size})
        assert f(1.0).tolist() == [2.0] * size
    with pytest.raises(ArgumentTypeError, match="axis_sizes=True for 'i' must be an integer"):
        xmap(abs, {}, {0: "i"}, axis_sizes={"i": True})
    assert xmap(lambda x: x + 1, (("i",),), ("i",))(np.arange(3)).tolist() == [1, 2, 3]


def test_what_xmap_refuses_of_a_call() -> None:
    with pytest.raises(ArgumentTypeError, match="argument x is a str"):
        xmap(lambda x: x, {0: "i"}, {0: "i"})("text")
    with pytest.raises(TracedValueError, match=r"argument x of shape \(2,\) of the xmap"):
        xmap(lambda x: bool(x), ["i"], ["i"])(np.ones(2))
    with pytest.raises(ArgumentTypeError, match="the result is a str"):
        xmap(lambda x: "text", ["i"], ["i"])(np.ones(2))
    for entry in ("i", 3):
        with pytest.raises(ArgumentTypeError, match=f"in_axes has {entry!r}. Try: use a dict"):
            xmap(abs, entry, ["i"])
    with pytest.raises(TreeError, match="in_axes is not a prefix of args"):  # () has no leaves
        xmap(lambda x, y: y, ((), ["i"]), ["i"])(1.0, np.ones(2))
    with pytest.raises(GpushardError, match="other"):
        xmap(lambda x: x, ["i"], ["i"], backend="other")(np.ones(2))


@pytest.mark.parametrize("inner", ["pmap", "soft_pmap", "sharded_jit"])
def test_no_devices_within(inner: str) -> None:
    inside: Any = {
        "pmap": lambda x: gs.pmap(abs)(x),
        "soft_pmap": lambda x: gs.soft_pmap(abs)(x),
        "sharded_jit": lambda x: gs.legacy.sharded_jit(abs, None, gs.legacy.Parts(2))(x),
    }
    with pytest.raises(GpushardError, match=f"{inner} of abs in the xmap of"):
        xmap(inside[inner], ["i", ...], ["i", ...])(np.ones((2, 2)))


X = np.arange(64.0).reshape(8, 8)
RING = [(n, (n + 1) % 8) for n in range(8)]


@pytest.mark.parametrize("place", [None, "x", ("x", "y")])
def test_collectives(place: Any) -> None:
    def body(r: Any) -> Any:
        return (
            gs.lax.axis_index("i"), gs.lax.ppermute(r, "i", RING), gs.lax.all_gather(r, "i").sum(),
            gs.lax.all_to_all(r, "i", 0, 0), gs.lax.psum_scatter(r, "i"), gs.lax.psum(1, "i"),
        )  # fmt: skip

    outs = (["i"], ["i", ...], [], ["i", ...], ["i"], [])
    wanted = np.arange(8), np.roll(X, 1, 0), X.sum(), X.T, X.sum(0), 8
    f = xmap(body, ["i", ...], outs, axis_resources={} if place is None else {"i": place})
    with gs.make_mesh((4, 2), ("x", "y")):
        for call in (f, gs.jit(f)):
            for made, one in zip(call(X), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(made), one)


@pytest.mark.parametrize("axes", [{}, {"i": "x"}, {"j": "x"}, {"i": "x", "j": "y"}])
def test_collectives_over_several_names(axes: Any) -> None:
    def body(r: Any) -> Any:
        both = ("i", "j")
        return gs.lax.psum(r, both), gs.lax.axis_index(both), gs.lax.pmax(r, "j") - r

    f = xmap(body, ["i", "j"], ([], ["i", "j"], ["i", "j"]), axis_resources=axes)
    wanted = X.sum(), X, X.max(1, keepdims=True) - X
    with gs.make_mesh((4, 2), ("x", "y")):
        for call in (f, gs.jit(f)):
            for made, one in zip(call(X), wanted, strict=True):
                np.testing.assert_array_equal(np.asarray(made), one)


def by_x(body: Any) -> Any:
    return xmap(body, ["i", ...], ["i", ...], axis_resources={"i": "x"})


def on_blocks(body: Any, axis: str) -> Any:
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    return gs.shard_map(body, mesh, P(axis), P(axis), axis_names={axis})


P = gs.P
COMPOSED: dict[str, tuple[Any, Any]] = {
    "scan": (
        by_x(lambda a: gs.lax.scan(lambda c, v: (c + v, c), a[0] * 0, a)[1]),
        np.cumsum(X, 1) - X,
    ),
    "cond": (
        by_x(lambda a: gs.lax.cond(a.sum() > 99, lambda a: a, lambda a: -a, a)),
        np.where(X.sum(1, keepdims=True) > 99, X, -X),
    ),
    "assignment": (by_x(lambda r: r.at[0].set(9)), np.hstack([np.full((8, 1), 9), X[:, 1:]])),
    "shard_map in it": (by_x(on_blocks(lambda b: b * gs.lax.psum(1, "y"), "y")), X * 2),
    "shard_map around it": (
        on_blocks(
            xmap(lambda r: r - gs.lax.psum(r, ("i", "x")), ["i", ...], ["i", ...]), "x"
        ),
        X - X.sum(0),
    ),
    "shard_map around it, over another axis": (
        on_blocks(xmap(lambda r: r * 2, ["i"], ["i"], axis_resources={"i": "y"}), "x"), None,
    ),
    "pmap around it": (
        gs.pmap(xmap(lambda r: r - gs.lax.psum(r, ("i", "j")), ["i"], ["i"]), "j"), X - X.sum()
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name: str) -> None:
    f, wanted = COMPOSED[name]
    x, wanted = (X[:, 0], X[:, 0] * 2) if wanted is None else (X, wanted)
    with gs.make_mesh((4, 2), ("x", "y")):
        for call in (f, gs.jit(f)):
            np.testing.assert_array_equal(np.asarray(call(x)), wanted)


def test_other_kinds_of_arrays() -> None:
    keys = gs.random.split(gs.random.key(0), 8)
    draw = by_x(lambda key: gs.random.normal(key, (2,)))
    wanted = gs.vmap(lambda key: gs.random.normal(key, (2,)))(keys)
    with gs.make_mesh((4, 2), ("x", "y")) as mesh:
        assert np.array_equal(draw(keys), wanted)
        assert np.array_equal(by_x(lambda a: a + 1)(gs.pmap(abs)(X)), X + 1)
        as_global = gs.legacy.GlobalDeviceArray.from_callback((8, 8), mesh, ("y",), lambda i: X[i])
        assert np.array_equal(by_x(lambda a: a + 1)(as_global), X + 1)


def test_names_that_live_nowhere_are_of_the_mesh_beside_others() -> None:
    twice = xmap(
        lambda a, b: (2 * a, 2 * b), ({0: "i"}, {0: "j"}), ({0: "i"}, {0: "j"}),
        axis_resources={"i": "x"},
    )  # fmt: skip
    mesh = gs.make_mesh((4,), "x")
    elsewhere = gs.device_put(np.arange(3.0), gs.devices()[6])
    with mesh:
        first, second = twice(np.arange(8.0), elsewhere)
    assert first.sharding.is_equivalent_to(gs.NamedSharding(mesh, gs.P("x")), 1)
    assert second.sharding.is_equivalent_to(gs.NamedSharding(mesh, gs.P()), 1)
    assert second.tolist() == [0, 2, 4]
