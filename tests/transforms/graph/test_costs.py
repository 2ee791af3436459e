"""What compiled functions say that they cost is what is counted when they run."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, testing
from gpushard._transforms.tracing.executable import Executable
from gpushard.debug import count_traffic
from tests.transforms.graph import least_bytes

KNOWN: dict[str, tuple[Callable[..., Any], list[tuple[tuple[int, ...], Any]]]] = {
    "roll": (lambda mesh, a: gnp.roll(a, 3, axis=0) + 1, [((17, 5), P("x"))]),
    "uneven sum": (lambda mesh, a: (a * 2).sum(0), [((18, 7), P("x"))]),
    "sum in a kernel": (lambda mesh, a: (a * 2 + 1).sum(0), [((258, 256), P("x"))]),
    "sum of products": (lambda mesh, a, b: a @ b, [((6, 18), P(None, "x")), ((18, 5), P("x"))]),
    "sum of products of rows": (lambda mesh, a, b: a @ b.T, [((8, 12), P(None, "x"))] * 2),
    "reduce, scattered": (
        lambda mesh, a: gs.reshard(a.sum(0), gs.NamedSharding(mesh, P("x"))),
        [((8, 16), P("x"))],
    ),
    "reduce, to one device": (
        lambda mesh, a: gs.reshard(a.sum(0), gs.NamedSharding(mesh, P("x"))),
        [((8, 1, 5), P("x"))],
    ),
    "sum of one row": (lambda mesh, a: a.sum(0), [((1, 6), P("x"))]),
    "mean and spread": (lambda mesh, a: (a.mean(), a.std(0)), [((12, 9), P("x"))]),
    "stencil": (lambda mesh, a: a[1:-1] - a[2:] - a[:-2], [((40, 3), P("x"))]),
    "there": (
        lambda mesh, a: gs.reshard(a, gs.NamedSharding(mesh, P(None, "x"))), [((9, 14), P("x"))],
    ),
    "psum": (
        lambda mesh, a: gs.shard_map(lambda a: lax.psum(a, "x"), mesh, P("x"), P())(a),
        [((8, 6), P("x"))],
    ),
    "of one device": (lambda mesh, a: a.sum() + 1, [((8, 6), P())]),
}  # fmt: skip

CASES = [
    *[(sizes, name) for sizes in ((2,), (4,)) for name in (*least_bytes.PROGRAMS, *KNOWN)],
    *[((2, 2), name) for name in (*least_bytes.TWO, *KNOWN)],
]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("sizes", "name"), CASES)
def test_each_device_receives_what_is_said(sizes: tuple[int, ...], name: str) -> None:
    programs = {**least_bytes.PROGRAMS, **KNOWN}
    programs = {**programs, **least_bytes.TWO} if len(sizes) == 2 else programs
    check_received(sizes, *programs[name])


@pytest.mark.parametrize("spec", [P(), P("y", "x")])
def test_each_device_receives_what_is_said_of_a_product_that_is_merged_elsewhere(spec: P) -> None:
    def product(mesh: Any, a: Any) -> Any:
        return gs.reshard(a @ a.T, gs.NamedSharding(mesh, spec))

    check_received((2, 2), product, [((8, 8), P("x", "y"))])


def check_received(
    sizes: tuple[int, ...],
    function: Callable[..., Any],
    given: list[tuple[tuple[int, ...], Any]],
) -> None:
    """Check what is said of a function, of a mesh and of arrays of these shapes and specs."""
    count = int(np.prod(sizes))
    with testing.runtime(host_devices=count, host_domains=count):
        mesh = gs.make_mesh(sizes, ("x", "y")[: len(sizes)])
        arrays = [
            gs.device_put(np.ones(shape), gs.NamedSharding(mesh, spec)) for shape, spec in given
        ]
        compiled = gs.jit(lambda *arrays: function(mesh, *arrays)).lower(*arrays).compile()
        said = compiled.cost_analysis()
        gs.block_until_ready(compiled(*arrays))
        with count_traffic() as traffic:
            gs.block_until_ready(compiled(*arrays))
        own = {n: costs["bytes moved"] for n, costs in said["devices"].items()}
        assert {n: nbytes for n, nbytes in traffic.received.items() if nbytes} == {
            n: nbytes for n, nbytes in own.items() if nbytes
        }
        assert said["bytes moved"] == traffic.bytes_received == sum(own.values())
        lines = compiled.as_text("gpushard").splitlines()
        each = re.findall(r"[#;] ([0-9,]+) bytes received", "\n".join(lines))
        assert sum(int(n.replace(",", "")) for n in each) == traffic.bytes_received
        parts = [f"{int(n):,} by device {at}" for at, n in own.items() if n]
        assert ", ".join([f"# bytes received: {traffic.bytes_received:,}", *parts]) in lines


FLOPS: dict[str, tuple[Callable[..., Any], list[Any], int, list[int]]] = {
    # function, specs of arguments of shape (8, 12) on 4 devices, flops in all, of each device
    "elements": (lambda a, b: a + b, [P("x"), P("x")], 96, [24] * 4),
    "copies": (lambda a, b: a + b, [P(), P()], 384, [96] * 4),
    "chain": (lambda a, b: a * b + a, [P("x"), P("x")], 192, [48] * 4),
    "product": (lambda a, b: a @ b.T, [P("x"), P()], 2 * 8 * 8 * 12, [384] * 4),
    "merged product": (lambda a, b: a @ b.T, [P(None, "x")] * 2, 2 * 8 * 8 * 12, [384] * 4),
    "sum": (lambda a, b: a.sum(), [P("x"), P()], 96, [24] * 4),
    "a result of another length": (lambda a, b: gnp.fft.rfft(a), [P("x"), P()], 96, [24] * 4),
    "branches": (
        lambda a, b: lax.cond(True, gnp.multiply, gnp.add, a, b), [P("x")] * 2, 192, [48] * 4
    ),
    "moves": (lambda a, b: gnp.roll(a, 1, 0), [P("x"), P()], 0, [0] * 4),
}  # fmt: skip


@pytest.mark.parametrize("name", FLOPS)
def test_flops_are_those_that_are_known(name: str) -> None:
    function, specs, total, each = FLOPS[name]
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        arrays = [gs.device_put(np.ones((8, 12)), gs.NamedSharding(mesh, spec)) for spec in specs]
        lowered = gs.jit(function).lower(*arrays)
        for costs in (lowered.cost_analysis(), lowered.compile().cost_analysis()):
            assert costs["flops"] == total
            assert [own["flops"] for own in costs["devices"].values()] == each


def test_what_depends_on_data_is_divided_among_devices() -> None:
    with testing.runtime(host_devices=4):
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        x = gs.device_put(np.ones((8, 4)), place)
        rows = gnp.asarray([7, 0, 3])
        costs = gs.jit(lambda x: x[rows]).lower(x).cost_analysis()
        each = [own["bytes moved"] for own in costs["devices"].values()]
        assert sum(each) == costs["bytes moved"] > 0
        assert [nbytes - each[0] for nbytes in each] == [0, *[rows.nbytes] * 3]  # device 0 has them


def test_kernels_read_and_write_less_than_operations() -> None:
    with testing.runtime(host_devices=4):
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        x = gs.device_put(np.ones((8, 4)), place)
        lowered = gs.jit(lambda x: (x * 2 + 1) * x).lower(x)
        apart, together = lowered.cost_analysis(), lowered.compile().cost_analysis()
        assert (apart["bytes read"], apart["bytes written"]) == (4 * x.nbytes, 3 * x.nbytes)
        assert (together["bytes read"], together["bytes written"]) == (x.nbytes, x.nbytes)
        assert together["devices"][3]["bytes accessed"] == 2 * x.nbytes / 4


def test_the_text_says_what_runs_where() -> None:
    with testing.runtime(backend="host", host_devices=4, host_domains=4, compiler=""):
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))
        x = gs.device_put(np.ones((8, 4)), place)
        ones = np.ones((8, 4))  # not an argument: it stands in the program
        compiled = gs.jit(lambda x: gnp.sort(x * 2 + 1, axis=0) + ones).lower(x).compile()
        lines = compiled.as_text().splitlines()
        memory = compiled.memory_analysis()
        assert "# devices: cpu 0, cpu 1, cpu 2, cpu 3" in lines
        assert any(line.startswith("# operations: ") and "1 of them" in line for line in lines)
        assert lines[-1].startswith(f"# memory: {memory.peak_memory_in_bytes:,} bytes, 256 of")
        assert not any("launches" in line for line in lines)  # on the host there are none
        with pytest.raises(gs.errors.ArgumentError, match="dialect='hlo' is unknown"):
            compiled.as_text("hlo")


@pytest.mark.parametrize(
    ("launches", "said"),
    [
        ((2, 3), "# launches: 5"),
        ((2, None), "# launches: 2, and those of 1 other operations"),
        ((None, None), "# launches: 0, and those of 2 other operations"),
        ((0, 0), None),
    ],
)
def test_the_text_says_how_often_something_is_launched(
    launches: tuple[int | None, ...], said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = gs.jit(lambda x: gnp.sort(gnp.sort(x, 0), 1)).lower(np.ones((3, 3))).compile()
    each = iter(launches)
    monkeypatch.setattr(Executable, "launches", lambda self, step: next(each, None))
    lines = compiled.as_text().splitlines()
    assert [line for line in lines if line.startswith("# launches")] == ([said] if said else [])
    if said is not None:
        assert lines[lines.index(said) - 1].startswith("# operations")
