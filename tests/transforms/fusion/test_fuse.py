"""Functions whose operations become one kernel: in C, in NumPy's tiles and not traced, the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._runtime.host.nests import numpy_tiles
from gpushard._transforms.fusion import fuse, region
from gpushard._transforms.graph.ops import Region
from tests.share import examples

P = gs.P
HOST = {"backend": "host", "host_devices": 6}

Step = tuple[str, int, int]

STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "add": lambda x, y, m: x + y,
    "multiply": lambda x, y, m: x * y / 8,
    "apart": lambda x, y, m: x[:, None] - y[None] if x.ndim == y.ndim == 1 else x - 1,
    "columns": lambda x, y, m: x - y[:, None] if (x.ndim, y.shape) == (2, x.shape[:1]) else x,
    "where": lambda x, y, m: m.where(x < y, x, y * 2),
    "exp": lambda x, y, m: m.exp(-m.abs(x)),
    "tanh": lambda x, y, m: m.tanh(x) + 1,
    "sum last": lambda x, y, m: x.sum(-1) / 16 if x.ndim > 1 else x,
    "sum first": lambda x, y, m: x.sum(0) / 16 if x.ndim > 1 else x,
    "sum middle": lambda x, y, m: x.sum(1, keepdims=True) / 16 if x.ndim > 1 else x,
    "max last": lambda x, y, m: x - x.max(-1, keepdims=True) if x.ndim else x,
    "min first": lambda x, y, m: x.min(0) if x.ndim > 1 else x,
    "mean last": lambda x, y, m: x - x.mean(-1, keepdims=True) if x.ndim else x,
    "mean first": lambda x, y, m: x - x.mean(0) if x.ndim else x,
    "mean others": lambda x, y, m: x - x.mean((0, -1), keepdims=True) if x.ndim > 1 else x,
    "sum others": lambda x, y, m: x.sum((0, -2, -1)) / 64 if x.ndim > 3 else x,
    "least": lambda x, y, m: x + m.argmin(m.rint(x), -1)[..., None] / 8 if x.ndim else x,
    "greatest": lambda x, y, m: m.argmax(m.rint(x * 2), -1) / 8 + x.sum(-1) if x.ndim > 1 else x,
    "new dim": lambda x, y, m: x[..., None] if x.ndim < 3 else x,
    "less dim": lambda x, y, m: x.squeeze(),
    "broadcast": lambda x, y, m: m.broadcast_to(x, (3, *x.shape)) if x.ndim < 3 else x,
    "transpose": lambda x, y, m: x.T,
    "part": lambda x, y, m: x[1:-1] + x[2:] - x[:-2] if x.ndim and x.shape[0] > 3 else x,
    "part last": lambda x, y, m: x[..., 1:] * x[..., :-1] / 4 if x.ndim and x.shape[-1] > 3 else x,
    "roll": lambda x, y, m: x - m.roll(x, (1, -2), (0, -1)) if x.ndim else x,
    "row": lambda x, y, m: x[1] if x.ndim > 1 and len(x) > 1 else x,
    "product": lambda x, y, m: x @ y.T / 16 if x.shape[1:] == y.shape[1:] and x.ndim == 2 else x,
    "total": lambda x, y, m: x / (1 + m.abs(x.sum())),
}  # fmt: skip
"""Functions of two values; those that do not fit leave the first as it is, or change it alone."""


@st.composite
def programs(draw: Any) -> list[Step]:
    """Draw a program: functions, and the numbers of the values that they take."""
    count = draw(st.integers(2, 12))
    found = []
    for n in range(count):
        at = st.integers(max(0, n - 2), n + 1)
        found.append((draw(st.sampled_from(sorted(STEPS))), draw(at), draw(at)))
    return found


def interpreted(program: list[Step], xs: list[Any], m: Any) -> list[Any]:
    """Return the last values of a program."""
    values = list(xs)
    for name, a, b in program:
        x, y = values[a], values[b]
        fit = _broadcasts(y.shape, x.shape) or name in ("apart", "columns", "product")
        made = STEPS[name](x, y if fit else x, m)
        values.append(made if made.size and made.size < 200_000 else x)
    return [values[-1], values[len(values) // 2 + 1]]


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    """Whether an array of a shape can be broadcast to another one."""
    return len(shape) <= len(to) and all(
        n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False)
    )


SHAPES = [
    ((7, 5), (5,)),
    ((130, 140), (140,)),
    ((300, 16), (300,)),
    ((2000, 3), (3,)),
    ((4, 3), (3,)),
    ((1, 200), (200,)),
    ((150,), (9, 4)),
    ((6, 4, 9, 10), (4, 1, 1)),
    ((3, 70, 8, 9), (8, 9)),
]
SPECS = [
    P(), P("x"), P(None, "x"), P("x", "y"), P(("x", "y")), P("y", "x"), P(None, ("x", "y")),
]  # fmt: skip


def placed(values: list[Any], specs: Sequence[P]) -> list[Any]:
    """Return arrays on a mesh of 3 x 2 devices."""
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    return [
        gs.device_put(value, gs.NamedSharding(mesh, P(*spec[: value.ndim])))
        for value, spec in zip(values, specs, strict=True)
    ]


def check_close(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Check all shards of arrays."""
    largest = max(1.0, *[abs(want).max(initial=0) for want in wanted])
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape and got.dtype == want.dtype
        for shard in got.addressable_shards:
            own = want[shard.index]
            np.testing.assert_allclose(shard.data, own, rtol=1e-8, atol=1e-8 * largest)


@examples(300)
@given(programs(), st.sampled_from(SHAPES), st.sampled_from(SPECS), st.sampled_from(SPECS))
@example([("tanh", 0, 0), ("sum last", 2, 2)], SHAPES[1], SPECS[-1], P())
@example([("apart", 1, 1), ("total", 1, 0)], SHAPES[1], P(), P("x"))
def test_random_programs(program: list[Step], shapes: Any, one: P, two: P) -> None:
    rng = np.random.default_rng(1)
    values = [rng.uniform(-3, 3, shape) for shape in shapes]
    eager: list[Any] = []
    for compiler, tile in (("cc", numpy_tiles._TILE), ("", numpy_tiles._TILE), ("", 50)):
        with (
            testing.runtime(**HOST, compiler=compiler), np.errstate(all="ignore"),
            mock.patch.object(numpy_tiles, "_TILE", tile),
        ):  # fmt: skip
            xs = placed(values, (one, two))
            if not eager:
                eager = [np.asarray(x) for x in interpreted(program, xs, gnp)]
            found = gs.jit(lambda *xs: interpreted(program, list(xs), gnp))(*xs)
            check_close(found, eager)


@examples(90)
@given(
    programs(), st.sampled_from(SHAPES), st.sampled_from(SPECS), st.sampled_from(SPECS),
    st.sampled_from([3, 5, 17]), st.sampled_from(["cc", "", ""]),
)  # fmt: skip
def test_random_programs_cut_by_size(
    program: list[Step], shapes: Any, one: P, two: P, most: int, compiler: str
) -> None:
    rng = np.random.default_rng(1)
    values = [rng.uniform(-3, 3, shape) for shape in shapes]
    with testing.runtime(**HOST, compiler=compiler), np.errstate(all="ignore"):
        xs = placed(values, (one, two))
        whole = gs.jit(lambda *xs: interpreted(program, list(xs), gnp))(*xs)
        for name in ("_MOST_OPERATIONS", "_MOST_ARRAYS", "_MOST_TRIED"):
            with mock.patch.object(fuse if name == "_MOST_TRIED" else region, name, most):
                cut = gs.jit(lambda *xs: interpreted(program, list(xs), gnp)).lower(*xs).compile()
            if name == "_MOST_OPERATIONS":
                ops = [step.op for step in cut._executable.steps]
                assert all(len(op.members) <= most for op in ops if isinstance(op, Region))
            check_close(cut(*xs), [np.asarray(want) for want in whole])


def test_long_programs_are_cut() -> None:
    def f(x: Any, *others: Any, m: Any = gnp) -> Any:
        for n in range(100):
            x = x * 0.5 + n
        for _ in range(40):
            x = m.exp(-x)
        for other in others:
            x = x + other
        return [x] + [x * n for n in range(100)]

    values = np.random.default_rng(0).random((121, 130, 140))
    with testing.runtime(**HOST, compiler=""):
        xs = placed(list(values), [P("x")] * len(values))
        compiled = gs.jit(f).lower(*xs).compile()
        steps = compiled._executable.steps
        assert all(isinstance(step.op, Region) for step in steps)
        assert len(steps) < 15
        assert max(len(step.operands) + len(step.results) for step in steps) <= 49
        assert max(len(step.op.members) for step in steps) == 64
        assert max(str(step.name).split().count("exp") for step in steps) <= 16
        check_close(compiled(*xs), f(*values, m=np))


@examples(200)
@given(programs(), st.sampled_from(SHAPES[:1] + SHAPES[3:]), st.sampled_from(["cc", ""]))
def test_random_programs_of_elements(program: list[Step], shapes: Any, compiler: str) -> None:
    """In a mapped function kernels are of what it sees, with a dim more in front."""
    rng = np.random.default_rng(1)
    values = [rng.uniform(-3, 3, (4, *shape)) for shape in shapes]
    mapped = gs.vmap(lambda *xs: interpreted(program, list(xs), gnp))
    with testing.runtime(**HOST, compiler=compiler), np.errstate(all="ignore"):
        eager = [np.asarray(x) for x in mapped(*values)]
        largest = max(1.0, *[abs(want).max(initial=0) for want in eager])
        for got, want in zip(gs.jit(mapped)(*values), eager, strict=True):
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-8, atol=1e-8 * largest)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_broadcasting_elements(compiler: str) -> None:
    """What an element is broadcast to has its dims behind those that are mapped."""
    x, y = np.arange(48.0).reshape(4, 3, 4), np.arange(16.0).reshape(4, 4)
    dots = gs.vmap(gnp.vectorize(lambda a, b: (a * b).sum(), signature="(n),(n)->()"))
    with testing.runtime(**HOST, compiler=compiler):
        assert gs.jit(dots)(x, y).tolist() == np.einsum("bij,bj->bi", x, y).tolist()


def means(points: Any, centres: Any, numbers: Any) -> Any:
    """Return what a step of k-means makes of centres."""
    apart = (points * points).sum(1)[:, None] - 2 * points @ centres.T
    nearest = gnp.argmin(apart + (centres * centres).sum(1), axis=1)
    chosen = (nearest[:, None] == numbers).astype("float32")
    return (chosen.T @ points) / gnp.maximum(chosen.sum(0), 1)[:, None]


def bodies(places: Any) -> Any:
    """Return the forces between bodies."""
    apart = places[None] - places[:, None]
    near = (apart * apart).sum(-1) + 0.01
    return (apart / (near * gnp.sqrt(near))[..., None]).sum(1)


def stencil(x: Any) -> Any:
    """Return the differences from four neighbours along the last dims."""
    around = x[..., 1:-1, :-2] + x[..., 1:-1, 2:] + x[..., :-2, 1:-1] + x[..., 2:, 1:-1]
    return around - 4 * x[..., 1:-1, 1:-1]


def softmax(x: Any) -> Any:
    """Return shares of each row."""
    powers = gnp.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    """Return rows of mean 0 and variance 1, scaled and shifted."""
    apart = x - x.mean(axis=-1, keepdims=True)
    spread = (apart * apart).mean(axis=-1, keepdims=True)
    return apart / gnp.sqrt(spread + 1e-5) * scale + shift


def attention(q: Any, k: Any, v: Any) -> Any:
    """Return means of rows, weighted by how alike others are."""
    return softmax(q @ k.T / 8) @ v


def adam(*xs: Any) -> Any:
    """Return eight parameters and their moments after a step."""
    results = []
    for n in range(0, len(xs), 4):
        x, slope, first, second = xs[n : n + 4]
        first, second = 0.9 * first + 0.1 * slope, 0.99 * second + 0.01 * slope * slope
        results += [x - 1e-3 * (first / 0.9) / (gnp.sqrt(second / 0.99) + 1e-8), first, second]
    return results


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_programs_are_few_kernels(compiler: str) -> None:
    def random(*shape: int) -> Any:
        return rng.random(shape, np.float32)

    rng = np.random.default_rng(0)
    cases: list[tuple[Any, list[Any], int, int]] = [  # operations, and kernels among them
        (means, [random(1003, 16), random(32, 16), np.arange(32)],
         *((2, 2) if compiler else (5, 3))),  # products are BLAS's without a compiler
        (bodies, [random(130, 3)], 1, 1),
        (stencil, [random(131, 130)], 1, 1),
        (stencil, [random(40, 62)], 1, 1),  # too many combinations of indices to unroll
        (stencil, [random(12, 48, 48)], 1, 1),
        (softmax, [random(131, 130)], 1, 1),
        (layer_norm, [random(131, 130), random(130), random(130)], 1, 1),
        (attention, [random(130, 64)] * 3, 3, 1),
        (adam, [random(131, 130)] * 32, 2, 2),
    ]  # fmt: skip
    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((6,), ("x",))
        for function, values, operations, kernels in cases:
            other = P("x") if function is adam else P()
            specs = [P("x"), *[other] * (len(values) - 1)]
            xs = [
                gs.device_put(value, gs.NamedSharding(mesh, spec))
                for value, spec in zip(values, specs, strict=True)
            ]
            compiled = gs.jit(function).lower(*xs).compile()
            names = [step.name for step in compiled._executable.steps]
            computing = [name for name in names if name not in ("indexing", "reshard")]
            assert len(computing) == operations
            assert sum(name.startswith("fused") for name in computing) == kernels
            pairs = map(gs.tree.leaves, (compiled(*xs), function(*xs)))
            for found, want in zip(*pairs, strict=True):
                np.testing.assert_allclose(
                    np.asarray(found), np.asarray(want), rtol=1e-4, atol=1e-4
                )


@pytest.mark.parametrize(("compiler", "domains"), [("cc", 1), ("cc", 3), ("", 3)])
@pytest.mark.parametrize("spec", [P(), P("x"), P(None, "x")])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_variances_are_parts_of_kernels(dtype: str, spec: P, compiler: str, domains: int) -> None:
    value = np.random.default_rng(0).random((138, 6, 25)).astype(dtype) + 3

    def normal(x: Any, m: Any) -> Any:
        spread = m.var(x, axis=-1, keepdims=True)
        least, none = m.std(x, axis=(1, 2), ddof=149), m.var(x, axis=(1, 2), ddof=150)
        return (x - m.mean(x, axis=-1, keepdims=True)) / m.sqrt(spread + 1e-5), least, none

    ways = HOST | {"compiler": compiler, "host_domains": domains}
    with testing.runtime(**ways), np.errstate(divide="ignore"):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), spec))
        jitted = gs.jit(lambda x: normal(x, gnp))
        names = [step.name for step in jitted.lower(x).compile()._executable.steps]
        # Over axes that are split, a variance is an operation that exchanges all parts at once.
        whole = spec != P(None, "x") or domains == 1
        assert sum(name in ("var", "std") for name in names) == (0 if whole else 2), names
        assert any(name.startswith("fused") for name in names)
        with pytest.warns(RuntimeWarning, match="Degrees of freedom"):
            wanted = normal(value, np)
        for got, eager, want in zip(jitted(x), normal(x, gnp), wanted, strict=True):
            assert got.dtype == eager.dtype == want.dtype
            close = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(np.asarray(got), want, close, close)


def test_what_is_moved_after_a_kernel_stays_in_it() -> None:
    """Rows of length 1, and their products: each device takes columns of all rows for these."""
    value = np.random.default_rng(0).random((32, 64))
    with testing.runtime(host_devices=4):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x")))

        def products(x: Any) -> Any:
            unit = x / gnp.sqrt((x * x).sum(axis=1, keepdims=True))
            return unit @ unit.T

        compiled = gs.jit(products).lower(x).compile()
        names = [step.name for step in compiled._executable.steps]
        assert names == ["fused multiply sum sqrt divide", "reshard", "matmul"]
        np.testing.assert_allclose(np.asarray(compiled(x)), np.asarray(products(x)))


@given(
    shape=st.tuples(st.integers(260, 300), st.integers(150, 160)),
    starts=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=4),
    part=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    layout=st.sampled_from([((6,), ("x",)), ((3, 2), ("x", ("y",))), ((3, 2), (("x", "y"),))]),
    compiler=st.sampled_from(["cc", ""]),
    domains=st.sampled_from([1, 2, 6]),
)
@examples(60)
def test_only_halos_are_moved(
    shape: Any, starts: Any, part: Any, layout: Any, compiler: str, domains: int
) -> None:
    """Windows of rows of one array, with another one that lies as it does, equal those of NumPy."""
    rng = np.random.default_rng(0)
    values = [rng.integers(-9, 9, shape).astype(np.float32) for _ in range(2)]
    before, behind = part
    many, wide = shape[0] - before - behind - 4, shape[1] - 3

    def f(x: Any, y: Any) -> Any:
        total = 2 * y[before : before + many, :wide]
        for n, (row, column) in enumerate(starts, 1):
            total = total + n * x[before + row : before + row + many, column : column + wide]
        return total, total.max(1)

    with testing.runtime(**HOST, host_domains=domains, compiler=compiler):
        sizes, spec = layout
        mesh = gs.make_mesh(sizes, ("x", "y")[: len(sizes)])
        xs = [gs.device_put(v, gs.NamedSharding(mesh, P(*spec))) for v in values]
        for found, want in zip(gs.jit(f)(*xs), f(*values), strict=True):
            np.testing.assert_array_equal(np.asarray(found), want)


@pytest.mark.parametrize("domains", [1, 2, 6])
@pytest.mark.parametrize("compiler", ["cc", ""])
def test_a_stencil_copies_no_block(compiler: str, domains: int) -> None:
    value = np.random.default_rng(0).random((600, 130), np.float32)
    with testing.runtime(**HOST, host_domains=domains, compiler=compiler):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), P("x")))
        compiled = gs.jit(stencil).lower(x).compile()
        row = value[0].nbytes
        assert compiled.memory_analysis().temp_size_in_bytes <= 6 * 4 * row  # of 600
        np.testing.assert_array_equal(np.asarray(compiled(x)), stencil(value))


@pytest.mark.parametrize("starts", [(0, 1), (0, 5), (2, 3), (3, 3), (4, 1)])
@pytest.mark.parametrize("compiler", ["cc", ""])
def test_halos_have_no_more_rows_than_results_need(compiler: str, starts: Any) -> None:
    """Each device but the last has 100 rows, and lacks those beyond that its last results need."""
    value, (one, two) = np.random.default_rng(0).random((600, 130), np.float32), starts
    least, most = min(starts), max(starts)

    def f(x: Any, scale: Any) -> Any:
        return x[one : one + 595] * scale + x[two : two + 595]

    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((6,), ("x",))
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        scale = gs.device_put(value[0], gs.NamedSharding(mesh, P()))
        compiled = gs.jit(f).lower(x, scale).compile()
        rows = most + (most - least)  # `most` results, and the rows that the last of them needs
        assert compiled.memory_analysis().temp_size_in_bytes == 5 * rows * value[0].nbytes
        np.testing.assert_array_equal(np.asarray(compiled(x, scale)), f(value, value[0]))


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("shape", [(300, 130), (300, 10, 13)])
def test_stencils_along_several_dims_that_are_split(shape: Any, compiler: str) -> None:
    """Halos are of rows alone: where columns are lacking, too, blocks are copied."""
    value = np.random.default_rng(0).random(shape)

    def f(x: Any) -> Any:
        return x[:-1, :-1] * 2 + x[1:, 1:]

    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        for spec in (P("x", "y"), P("y", "x"), P(None, "x")):
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            np.testing.assert_array_equal(np.asarray(gs.jit(f)(x)), f(value))


READ_IN_PLACE: dict[str, Callable[[Any], Any]] = {
    "all": lambda x: x * 2 + 1,
    "transposed": lambda x: x.T * 2 + 1,
    "new dims": lambda x: x[None, :, None] * 2 + 1,
    "other new dims": lambda x: x.reshape(-1, 1, x.shape[1]) * 2 + 1,
    "part of what is whole": lambda x: x[:, 2:-3] * 2 + 1,
    "some parts of what is whole": lambda x: x[:, 2:-3] * 2 + x[:, 4:-1],
    "part of a part": lambda x: x[:, 2:-3][:, 4:-1] * 2 + 1,
    "a column, by a step": lambda x: x[:, 3:4:2] * x + 1,
    "copies of a column": lambda x: gnp.broadcast_to(x[:, :1], x.shape) * x + 1,
    "a value transposed": lambda x: (x * 2).T + 1,
    "new dims of a value": lambda x: (x * 2)[None, :, None] + 1,
    "fewer dims of a value": lambda x: (x[:, None] * 2)[:, 0] + 1,
    "other new dims of a value": lambda x: (x * 2).reshape(-1, 1, x.shape[1]) + 1,
}
"""Functions of arrays that devices have where the results need them."""


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("name", READ_IN_PLACE)
def test_what_lies_where_it_is_needed_is_not_copied(name: str, compiler: str) -> None:
    f, value = READ_IN_PLACE[name], np.random.default_rng(0).random((131, 140))
    with testing.runtime(**HOST, host_domains=6, compiler=compiler):
        mesh = gs.make_mesh((6,), ("x",))
        for spec in (P(), P("x")):
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            compiled = gs.jit(f).lower(x).compile()
            (step,) = compiled._executable.steps
            assert len(step.op.members) == 2
            assert compiled.memory_analysis().temp_size_in_bytes == 0
            np.testing.assert_array_equal(np.asarray(compiled(x)), np.asarray(f(x)))


def view_of(m: Any, x: Any, how: Sequence[tuple[str, int, int, int]]) -> Any:
    """Return a part of an array, with its dims in another order, fewer of them, or more."""
    for name, a, b, c in how:
        dim = a % max(1, x.ndim)
        n = x.shape[dim] if x.ndim else 0
        index = (slice(None),) * dim
        if name == "part" and n:
            x = x[(*index, slice(b % n, b % n + 1 + c % n, 1 + (b + c) % 2))]
        elif name == "row" and n:
            x = x[(*index, b % n)]
        elif name == "new":
            x = x[(*index, None)]
        elif name == "turned":
            x = x.T
        elif name == "squeezed":
            x = x.squeeze()
        elif name == "copies" and n == 1:
            x = m.broadcast_to(x, (*x.shape[:dim], 3, *x.shape[dim + 1 :]))
    return x


VIEWS = st.lists(
    st.tuples(
        st.sampled_from(["part", "part", "row", "new", "turned", "squeezed", "copies"]),
        st.integers(0, 3), st.integers(0, 9), st.integers(0, 9),
    ),
    min_size=1, max_size=4,
)  # fmt: skip


@examples(100)
@given(VIEWS, st.sampled_from([P(), P("x"), P("x", "y"), P(None, "y")]))
@example([("row", 0, 3, 0)], P("x"))
@example([("part", 0, 2, 8), ("part", 0, 1, 9)], P())
@example([("part", 1, 1, 2)], P())
def test_views_of_operands_and_of_values(how: Any, spec: P) -> None:
    """Parts of parts, in any order of dims: next to all of the array, where shapes allow it."""
    value = np.arange(12.0 * 10).reshape(12, 10)

    def f(x: Any, m: Any) -> list[Any]:
        y = x * 2
        seen, wide = view_of(m, y, how), view_of(m, x, how)
        try:
            np.broadcast_shapes(seen.shape, y.shape)
        except ValueError:
            return [seen * 3 + 1, wide * 2 - 1, y + 1]
        return [seen * 3 + 1, wide * 2 - 1, seen + y]

    with testing.runtime(**HOST, compiler=""):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((3, 2), ("x", "y")), spec))
        for found, want in zip(gs.jit(lambda x: f(x, gnp))(x), f(value, np), strict=True):
            np.testing.assert_array_equal(np.asarray(found), want)


@pytest.mark.parametrize("domains", [1, 2, 6])
def test_parts_that_are_far_apart_are_cut_out_each(domains: int) -> None:
    value = np.random.default_rng(0).random(60_000)
    with testing.runtime(**HOST, host_domains=domains):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), P("x")))
        compiled = gs.jit(lambda x: x[:600] * x[-600:] * 2).lower(x).compile()
        (step,) = compiled._executable.steps
        assert len(step.op.members) == 2
        assert compiled.memory_analysis().temp_size_in_bytes <= 2 * 600 * 8
        np.testing.assert_array_equal(np.asarray(compiled(x)), value[:600] * value[-600:] * 2)


@given(
    rows=st.integers(500, 1400),
    wide=st.integers(2, 21),
    many=st.integers(2, 21),
    dtype=st.sampled_from(["float32", "float64"]),
    spec=st.sampled_from([P(), P("x")]),
)
@examples(12)
def test_products_over_short_dims(rows: int, wide: int, many: int, dtype: str, spec: Any) -> None:
    """Products for each row, and those summed over all rows, are within rounding of exact ones."""
    rng = np.random.default_rng(rows)
    x, y = rng.standard_normal((rows, wide)).astype(dtype), rng.standard_normal((many, wide))
    y = y.astype(dtype)

    def f(x: Any, y: Any) -> Any:
        near = (2 * x) @ y.T + 1
        above = (near > 0.5).astype(dtype)
        return near, above.T @ x, (x * x) @ y[0] - 1

    exact = [part.astype(np.longdouble) for part in (x, y)]
    wanted = [2 * exact[0] @ exact[1].T + 1, None, (exact[0] * exact[0]) @ exact[1][0] - 1]
    with testing.runtime(**HOST, compiler="cc"):
        mesh = gs.make_mesh((6,), ("x",))
        given = [gs.device_put(v, gs.NamedSharding(mesh, s)) for v, s in ((x, spec), (y, P()))]
        found = [np.asarray(part) for part in gs.jit(f)(*given)]
    wanted[1] = (found[0] > 0.5).T.astype(np.longdouble) @ exact[0]
    for part, want in zip(found, wanted, strict=True):
        scale = (
            np.finfo(dtype).eps
            * 8
            * (1 + np.abs(x).max() ** 2)
            * (rows if part is found[1] else wide)
        )
        np.testing.assert_allclose(part, want.astype(np.float64), rtol=0, atol=float(scale))


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("shape", [(67, 3), (67, 300)])
def test_devices_without_elements(shape: Any, compiler: str) -> None:
    def f(x: Any, m: Any) -> Any:
        chain = (m.tanh(2 * x + 1) * x).sum(-1)
        most, least = x.max(), (x * 2 + 9).min(0)
        return chain + most, least, m.exp(x).sum(0), (x + 1).mean(), (x - 1 > 0).all(0)

    value = np.random.default_rng(0).random(shape, np.float32)
    with testing.runtime(backend="host", host_devices=32, compiler=compiler):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((32,), ("x",)), P("x")))
        assert any(0 in shard.data.shape for shard in x.addressable_shards)
        for found, want in zip(gs.jit(lambda x: f(x, gnp))(x), f(value, np), strict=True):
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("shape", [(5, 3), (3, 9000), (1, 9000)])
def test_what_devices_without_elements_have_beside_them(shape: Any, compiler: str) -> None:
    """A part, or a value that all devices have, is made where another result has no elements."""
    programs: list[Callable[[Any, Any, Any], Any]] = [
        lambda x, b, m: (x[-1:] * 2, x[-2:] * 2, x * 2),
        lambda x, b, m: (m.exp(b), x * m.exp(b)),
        lambda x, b, m: (m.exp(b).sum(), (x * m.exp(b)).sum(0), x + 1),
    ]
    rng = np.random.default_rng(0)
    values = rng.random(shape), rng.random(shape[1])
    with testing.runtime(backend="host", host_devices=8, compiler=compiler):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x, b = (
            gs.device_put(value, gs.NamedSharding(mesh, spec))
            for value, spec in zip(values, (P("x"), P()), strict=True)
        )
        assert any(0 in shard.data.shape for shard in x.addressable_shards)
        for f in programs:
            made = gs.jit(f, static_argnums=2)(x, b, gnp)
            for found, want in zip(made, f(*values, np), strict=True):
                for shard in found.addressable_shards:
                    np.testing.assert_allclose(np.asarray(shard.data), want[shard.index])


@pytest.mark.parametrize(("wide", "many"), [(5, 7), (16, 32), (9, 2)])
def test_products_compile(wide: int, many: int, caplog: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        near = (2 * x) @ y.T
        return near, (near > 0).astype("float32").T @ (x + 1)

    rng = np.random.default_rng(0)
    values = [rng.random((2000, wide), np.float32), rng.random((many, wide), np.float32)]
    with testing.runtime(**HOST, compiler="cc"):
        for found, want in zip(gs.jit(f)(*map(gnp.asarray, values)), f(*values), strict=True):
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-5)
    assert not caplog.records


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64"])
def test_extremes_of_what_is_no_number(dtype: str) -> None:
    value = np.random.default_rng(0).integers(-9, 9, (700, 30)).astype(dtype)
    if value.dtype.kind == "f":
        value[::7, 3] = np.nan
        value[::5, 4], value[::3, 29] = np.inf, -np.inf
        value[11] = np.inf
        value[12] = -0.0

    def f(x: Any) -> Any:
        most, least = gnp.argmax(x * 1, -1), gnp.argmin(x * 1, -1)
        return most, least, (x * 1).max(-1), (x * 1).min(-1), (x * 1).sum(-1), (x * 1).max(0)

    for compiler in ("cc", ""):
        with testing.runtime(**HOST, compiler=compiler):
            for spec in (P(), P("x")):
                x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), spec))
                found, want = gs.jit(f)(x), f(x)
                for one, other in zip(found, want, strict=True):
                    np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("many", [3, 16, 64])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_positions_along_short_dims_of_long_arrays(many: int, axis: int, dtype: str) -> None:
    value = np.random.default_rng(0).integers(-3, 3, (many, 30_000)).astype(dtype)
    if value.dtype.kind == "f":
        value[1, ::7] = value[2, ::3] = np.nan
        value[:, 5], value[:, 6], value[0, ::2] = np.nan, np.inf, -0.0
    value = value if axis == 0 else np.ascontiguousarray(value.T)

    def f(m: Any, x: Any) -> Any:
        most, least = m.argmax(x * 2, axis), m.argmin(x - 1, axis)
        chosen = m.expand_dims(most, axis) == m.expand_dims(m.arange(many), 1 - axis)
        return most, least, chosen.astype("float32")

    with testing.runtime(**HOST, compiler=""):
        for spec in (P(), P(None, "x") if axis == 0 else P("x")):
            x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), spec))
            for found, want in zip(gs.jit(lambda x: f(gnp, x))(x), f(np, value), strict=True):
                np.testing.assert_array_equal(np.asarray(found), want)


REDUCED: list[Callable[[Any], Any]] = [
    lambda x: x.any(1, keepdims=True).sum(0),
    lambda x: x.all(0).sum(),
    lambda x: (x.any(), x.all()),
    lambda x: x.prod(1, dtype="int32").prod(),
    lambda x: (x.sum(1, dtype=bool), -x.astype("int64")),
    lambda x: (x.mean(1, dtype="int64"), x.mean(0, dtype="int32"), x.mean(1)),
    lambda x: (x.sum(1, dtype="int32"), (x * 1.5).sum(1, dtype="int64"), x.max(1), x.min(0)),
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("dtype", ["bool", "int32", "float64"])
@pytest.mark.parametrize("wide", [7, 500])
def test_reductions_of_every_type(wide: int, dtype: str, compiler: str) -> None:
    value = np.random.default_rng(0).integers(-2, 3, (22_000 // wide, wide)).astype(dtype)
    value[3], value[4] = 0, 1
    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((6,), ("x",))
        for spec in (P(), P("x"), P(None, "x")):
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            for f in REDUCED:
                for found, want in zip(
                    gs.tree.leaves(gs.jit(f)(x)), gs.tree.leaves(f(x)), strict=True
                ):
                    assert found.dtype == want.dtype
                    assert np.asarray(found).tobytes() == np.asarray(want).tobytes()


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_dims_of_length_1_that_are_split(compiler: str) -> None:
    """Most devices have nothing of these: a kernel must not write there."""

    def f(x: Any, m: Any) -> Any:
        return x * 2 + 1, m.maximum(x, 0).sum(-1), x.T - 1

    value = np.random.default_rng(0).integers(-9, 9, (1, 17_000)).astype("float64")
    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        for spec in (P("x"), P("x", "y"), P(("x", "y"))):
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            for found, want in zip(gs.jit(lambda x: f(x, gnp))(x), f(value, np), strict=True):
                np.testing.assert_array_equal(np.asarray(found), want)


def alike(function: Callable[..., Any], *values: Any) -> None:
    """Check that a traced function gives in C what it does of NumPy's arrays."""
    with testing.runtime(**HOST, compiler="cc"):
        found = gs.jit(lambda *xs: function(gnp, *xs))(*map(gs.device_put, values))
        for got, want in zip(found, function(np, *values), strict=True):
            np.testing.assert_allclose(np.asarray(got), want, 1e-9, 1e-9)


def test_products_of_factors_that_lie_in_any_way() -> None:
    """Along a long dim, behind or before a short one, as it is or known only after a pass."""
    rng = np.random.default_rng(0)
    tall, wide, row = rng.random((1100, 3)), rng.random((5, 1100)), rng.random(1100)
    for subscripts in ("lj,kl->jk", "lj,lk->jk", "jl,lk->kj", "jl,kl->jk"):
        left, right = subscripts.partition("->")[0].split(",")
        x, y = (tall if left == "lj" else tall.T.copy()), (wide if right == "kl" else wide.T.copy())
        alike(
            lambda m, x, y, s=subscripts: (m.einsum(s, x, y) * 2, m.einsum(s, x * 2, y - 1)), x, y
        )
    many, more = rng.random((1100, 2, 3)), rng.random((1100, 2, 4))
    alike(lambda m, x, y: (m.einsum("lbj,lbk->bjk", x * 2, y - 1), x * 3), many, more)
    row, wide = rng.random(4000), rng.random((4000, 5))

    def of_passes(m: Any, x: Any, y: Any) -> Any:
        x = x - x.mean()
        return m.einsum("l,lk->k", x, y), m.einsum("l,l->", x, x), x

    alike(of_passes, row, wide)
    alike(lambda m, x, y: (m.einsum("lk,l->k", y, x) * 2, x * 2), row, wide)


def test_results_that_other_results_are_made_of() -> None:
    """Of the same strips, and of those of another pass; some are given twice, and transposed."""
    x = np.random.default_rng(0).random((130, 140))

    def f(m: Any, x: Any) -> Any:
        y = m.exp(x)
        total = y.sum(-1, keepdims=True)
        return y, y / total, total, y * 2, y.T, (y / total).T

    alike(f, x)


def test_numbers_beyond_a_type() -> None:
    """No kernel in C has them; comparisons know what they are."""
    x = np.arange(-9000, 9000, dtype=np.int32)
    for number in (3_000_000_000, -3_000_000_000, 1 << 70):
        alike(lambda m, x, n=number: ((x + 1 < n) & (x > 0), x * 2 >= n), x)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_numbers_have_the_type_of_what_they_meet(compiler: str) -> None:
    """A float that an argument is becomes one of single precision first, as without jit."""
    x = np.random.default_rng(0).standard_normal(100_000).astype(np.float32)
    with testing.runtime(**HOST, compiler=compiler):
        found = gs.jit(lambda x, n: (x * n + n) - x)(x, 0.1)
    np.testing.assert_array_equal(found, (x * np.float32(0.1) + np.float32(0.1)) - x)


def test_shapes_of_one_element() -> None:
    """Of arrays of one element each, some without dims, every result has its own dims."""

    def f(x: Any, y: Any, m: Any) -> Any:
        x = m.reshape(x, (1,))
        return m.logical_xor(x, x), x + y, y * 2

    values = [np.array(True), np.array([3.0])]
    with testing.runtime(**HOST):
        given = [gnp.asarray(value) for value in values]
        for found, want in zip(
            gs.jit(lambda x, y: f(x, y, gnp))(*given), f(*values, np), strict=True
        ):
            assert np.asarray(found).shape == found.shape == want.shape
            np.testing.assert_array_equal(np.asarray(found), want)


SUMMED: list[Callable[[Any, Any], Any]] = [
    lambda x, m: ((x[:, None] - x[None]) ** 2).sum(-1),
    lambda x, m: (m.log(x + 20).sum(0), x.max(1), -x.min()),
    lambda x, m: (m.trunc(x) + 1).sum(0),
    lambda x, m: (m.sign(x[:, 0]).sum(), (m.sign(x[:, 0])[:, None] * x[1]).max(0), x.sum(1)),
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("tile", [7, 100, 1000])
@pytest.mark.parametrize("function", range(len(SUMMED)))
def test_sums_of_several_tiles(function: int, tile: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops that a result lacks are cut as others are, whichever comes first."""
    monkeypatch.setattr(numpy_tiles, "_TILE", tile)
    monkeypatch.setattr(numpy_tiles, "_SMALL", 1)
    f, value = SUMMED[function], np.random.default_rng(0).integers(-9, 9, (70, 80)).astype(float)
    with testing.runtime(**HOST, compiler=""):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        for spec in (P(), P("x"), P("x", "y")):
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            gs.jit(lambda x: (x - 9e9).sum(1))(x)  # memory that is used again has something in it
            for found, want in zip(
                gs.tree.leaves(gs.jit(lambda x: f(x, gnp))(x)),
                gs.tree.leaves(f(value, np)),
                strict=True,
            ):
                np.testing.assert_allclose(np.asarray(found), want)


def test_an_operation_tries_the_last_regions_that_have_what_it_takes() -> None:
    own, value, most = fuse._Candidates(), mock.sentinel.value, fuse._MOST_TRIED
    for number in range(most + 2):
        own._add(value, region.Region(True), number)
        assert list(own._of[value]) == [*range(max(0, number + 1 - most), number + 1)]


TABLE = np.random.default_rng(0).random((132, 140))


def sorted_often(m: Any, x: Any) -> Any:
    """Read one value in more regions than are tried for an operation."""
    total = x
    for _ in range(fuse._MOST_TRIED + 8):
        total = m.sort(x * 2 - total, 0)
    return total


OPERANDS: dict[str, tuple[Callable[..., Any], Sequence[Any], Sequence[P]]] = {
    "an array of NumPy": (lambda m, x: (x * 2 + np.arange(140.0)) * 3, [TABLE], [P("x")]),
    "no elements": (lambda m, x: (x * 2 + 1) - x, [TABLE[:0]], [P()]),
    "an index": (lambda m, x, at: x[at] * 2 + 1, [TABLE, np.array([3, 1, 100])], [P("x"), P()]),
    "many regions": (sorted_often, [TABLE[0]], [P()]),
    "numbers that are none": (
        lambda m, x: (m.where(x > 0.5, x, np.inf) * 2, m.minimum(x * 2, np.nan), x * 2 - np.inf),
        [TABLE], [P("x")],
    ),
    "bytes and bools": (
        lambda m, x, y: (
            m.add(y, y) * 2, m.maximum(y, x > 0.3) * x, (x * 2).astype(bool) | y,
            (x * 9).astype("uint8") * 2, m.rint(x).astype("float16") * 2,
        ),
        [TABLE, TABLE > 0.4], [P("x"), P(None, "y")],
    ),
    "rows that lie in two ways": (
        lambda m, x: (m.argmin(m.rint(x * 9), 1) / 8, m.rint(x * 9).sum(0)),
        [TABLE[:, :16]], [P("x", "y")],
    ),
    "parts that are far apart": (lambda m, x: x[:9] * x[-9:] * 2, [TABLE], [P("x")]),
    "parts along a diagonal": (lambda m, x: x[:-9, :-9] * x[9:, 9:] * 2, [TABLE], [P("x")]),
    "a row of a part": (lambda m, x: x[3] * 2 + 1, [TABLE], [P("x")]),
    "one of two columns": (lambda m, x: ((x * 2)[:, 1] + 1, x * 2), [TABLE[:, :2]], [P("x")]),
    "a row of a value": (lambda m, x: (x * 2)[3:4] + x * 2, [TABLE], [P("x")]),
    "dims of other lengths": (
        lambda m, x: ((x * 2).reshape(140, 132) * 3 + 1, x.reshape(132, 1, 2, 70) - x[0, 0] * 2),
        [TABLE], [P("x")],
    ),
    "copies of rows": (lambda m, x: m.broadcast_to(x[:1] * 2, (9, 140)) * 3 + 1, [TABLE], [P()]),
    "copies of an array": (
        lambda m, x, y: m.broadcast_to(x * 2, (132, 140)) * y + 1, [TABLE[0], TABLE], [P(), P("x")]
    ),
    "a short dim that is split": (
        lambda m, x: (x * 2, (x * 2).sum(-1) * 3, x - (x * 2).max(-1, keepdims=True)),
        [TABLE[:, :6]], [P(None, "x")],
    ),
    "a short dim in front of a long one": (
        lambda m, x: (x - x.sum(1, keepdims=True)) * 2, [np.stack([TABLE] * 5, 1)], [P("x")]
    ),
    "sums of what all have, next to what is split": (
        lambda m, x, y: (x * 2 + y, (x * 2).sum(0)), [TABLE, TABLE[::-1]], [P(), P("x")]
    ),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("domains", [1, 6])
@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("name", OPERANDS)
def test_operands_that_few_have(name: str, compiler: str, domains: int) -> None:
    f, values, specs = OPERANDS[name]
    with (
        testing.runtime(**HOST, host_domains=domains, compiler=compiler),
        np.errstate(all="ignore"),
    ):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        arrays = [
            gs.device_put(value, gs.NamedSharding(mesh, spec))
            for value, spec in zip(values, specs, strict=True)
        ]
        found = gs.tree.leaves(gs.jit(lambda *xs: f(gnp, *xs))(*arrays))
        for got, want in zip(found, gs.tree.leaves(f(np, *values)), strict=True):
            assert got.dtype == want.dtype and got.shape == want.shape
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_results_that_lie_elsewhere(compiler: str) -> None:
    """Views of an array in other memory, or on devices in another order, are no views of it."""
    with testing.runtime(**HOST, compiler=compiler):
        devices = np.array(gs.devices())
        rows = gs.NamedSharding(gs.Mesh(devices, ("x",)), P("x"))
        x = gs.device_put(TABLE, rows)
        other = gs.NamedSharding(gs.Mesh(devices[::-1], ("x",)), P("x"))
        pinned = rows.with_memory_kind("pinned_host")
        turned = gs.jit(lambda x: gnp.squeeze(x[:1] * 2, 0, out_sharding=other) * 3 + 1)
        np.testing.assert_allclose(np.asarray(turned(x)), TABLE[0] * 2 * 3 + 1)
        brought = gs.jit(lambda x: gnp.reshape(x * 2, (132, 1, 140), out_sharding=pinned) * 3 + 1)
        np.testing.assert_allclose(np.asarray(brought(x)), TABLE[:, None] * 2 * 3 + 1)
        y = gs.device_put(TABLE, pinned)
        np.testing.assert_allclose(np.asarray(gs.jit(lambda y: y * 2 + 1)(y)), TABLE * 2 + 1)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_reductions_of_mapped_values_that_have_a_place(compiler: str) -> None:
    def f(x: Any) -> Any:
        return x * 2 - (x * 3).sum(-1, keepdims=True)

    with testing.runtime(**HOST, compiler=compiler):
        mesh = gs.make_mesh((6,), ("x",))
        x = gs.device_put(TABLE, gs.NamedSharding(mesh, P("x")))
        for mapped in (gs.shard_map(f, mesh, P("x"), P("x")), gs.vmap(f, spmd_axis_name="x")):
            np.testing.assert_allclose(np.asarray(gs.jit(mapped)(x)), f(TABLE))


@pytest.mark.parametrize("domains", [1, 6])
@pytest.mark.parametrize("inline_bytes", [0, 1 << 20])
@pytest.mark.parametrize("compiler", ["cc", ""])
def test_parts_of_stencils_read_other_arrays(
    compiler: str, inline_bytes: int, domains: int
) -> None:
    """Some have no rows, so that all parts read the same; what is transposed has no parts."""

    def f(x: Any, y: Any, scale: Any, z: Any) -> list[Any]:
        around = (x[1:-1] + x[2:] + x[:-2]) * scale
        return [around, around + y[1:-1], around * z.T]

    rng = np.random.default_rng(0)
    shapes = (600, 140), (600, 140), (140,), (140, 598)
    values, specs = [rng.random(shape) for shape in shapes], (P("x"), P("x"), P(), P(None, "x"))
    with testing.runtime(
        **HOST, host_domains=domains, compiler=compiler, inline_bytes=inline_bytes
    ):
        mesh = gs.make_mesh((6,), ("x",))
        xs = [
            gs.device_put(value, gs.NamedSharding(mesh, spec))
            for value, spec in zip(values, specs, strict=True)
        ]
        for g in (
            lambda *xs: f(*xs)[:2],
            lambda *xs: f(*xs)[0],
            lambda *xs: [f(*xs)[0], f(*xs)[1].T * 2],
            lambda *xs: f(*xs)[2],
        ):
            found, wanted = gs.tree.leaves(gs.jit(g)(*xs)), gs.tree.leaves(g(*values))
            for got, want in zip(found, wanted, strict=True):
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


def test_kernels_read_memory_that_nobody_may_write_to() -> None:
    value = np.random.default_rng(0).random((130, 140))
    value.setflags(write=False)
    with testing.runtime(backend="host", host_devices=1, compiler="cc"):
        x = gs.device_put(value, may_alias=True)
        np.testing.assert_array_equal(np.asarray(gs.jit(lambda x: x * 2 + 1)(x)), value * 2 + 1)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_positions_in_all_of_an_array(compiler: str) -> None:
    """Of one dim and of several, all short, and of the first of equals."""
    rng = np.random.default_rng(0)
    with testing.runtime(**HOST, compiler=compiler):
        for shape in ((9,), (8, 9), (3, 1, 4, 5)):
            value = rng.integers(0, 50, shape).astype("float64")
            f = gs.jit(lambda x: ((x * 2).argmax(), (x - 3).argmin()))
            found = [int(at) for at in f(gs.device_put(value))]
            assert found == [value.argmax(), value.argmin()]


def test_elements_lie_in_the_order_of_the_axes() -> None:
    """Whatever their lengths: so the order of a sum depends on these alone."""
    for shape in ((2, 3), (3, 2), (2, 2), (1, 5), (2, 1, 4)):
        x = np.arange(float(np.prod(shape))).reshape(shape)
        assert numpy_tiles._in_order(x) is x
        turned = numpy_tiles._in_order(x.T)
        strides = [step for step, n in zip(turned.strides, turned.shape, strict=True) if n > 1]
        assert strides == sorted(strides, reverse=True)
        np.testing.assert_array_equal(turned, x.T)


@pytest.mark.parametrize("step", [2, 3, -1, -2])
def test_every_second_element_is_read_where_there_are_two(step: int) -> None:
    function = gs.jit(lambda x: x[::step] * 2 + 1)
    for n in range(1, 6):
        x = np.arange(float(n)) ** 2
        np.testing.assert_array_equal(function(x), x[::step] * 2 + 1, f"{n} elements")
