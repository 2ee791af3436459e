"""Parts of a reduction by a ufunc: on a GPU one launch for eight, straight into the result."""

from __future__ import annotations

import functools
import types
from typing import Any
from unittest.mock import ANY

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._ops import merge_in_order as module
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.programs.reduce import as_state, finished, merged_rows
from gpushard._runtime.work_sharing import share
from tests.late import late_devices


def like_a_gpu(ufunc: np.ufunc) -> tuple[Any, list[int]]:
    """A namespace whose kernels merge by a ufunc, and how many arrays each launch merged."""
    launches: list[int] = []

    class ElementwiseKernel:
        def __init__(self, inputs: str, *rest: Any, **options: Any) -> None:
            self.count = inputs.count("T ")

        def __call__(self, *arrays: Any) -> None:
            *parts, out = arrays
            assert len(parts) == self.count
            launches.append(self.count)
            out[...] = functools.reduce(ufunc, parts)

    xp = types.ModuleType("gpu")
    vars(xp).update(
        {
            "ElementwiseKernel": ElementwiseKernel,
            "empty_like": np.empty_like,
            ufunc.__name__: ufunc,
        }
    )
    return xp, launches


@pytest.mark.parametrize(("count", "expected"), [(2, [2]), (8, [8]), (9, [8, 2]), (16, [8, 8, 2])])
def test_eight_parts_are_merged_in_a_launch(count: int, expected: list[int]) -> None:
    xp, launches = like_a_gpu(np.add)
    parts = [np.arange(6.0).reshape(2, 3) * n for n in range(count)]
    out = np.empty((2, 3))
    made = finished(1, InOrder(xp, "add"), lambda s, n: s[0], (1,) * count, *parts, out=out)
    assert made is out and launches == expected
    np.testing.assert_array_equal(out, np.sum(parts, axis=0))


def test_a_launch_takes_one_part_after_the_other() -> None:
    made: list[Any] = []
    xp: Any = types.ModuleType("gpu")
    xp.ElementwiseKernel = lambda *of, **options: made.append(of)
    xp.add = np.add
    InOrder(xp, "add").elementwise(np.dtype(float), 3)
    steps = ["T s = in0;", "{ const T a = in1; s = s + a; }", "{ const T a = in2; s = s + a; }"]
    assert made == [("T in0, T in1, T in2", "T out0", "".join([*steps, "out0 = s"]), ANY)]


def test_every_way_to_merge_writes_what_it_is_given() -> None:
    xp, launches = like_a_gpu(np.maximum)
    parts = [np.array([1, 5, 3]), np.array([4, 2, 3]), np.array([0, 9, 1])]
    merge, out = InOrder(xp, "maximum"), np.empty(3, int)
    assert as_state(1, merge, (1, 1, 1), *parts, out=out) is out
    assert out.tolist() == [4, 9, 3]
    rows = np.empty(3, int)
    assert merged_rows(merge, (1, 1, 1), np.stack(parts), out=rows) is rows
    assert rows.tolist() == [4, 9, 3] and launches == [3, 3]


def test_results_of_another_type_are_converted_after_the_merge() -> None:
    xp, launches = like_a_gpu(np.add)
    out = np.empty(2, np.float32)
    parts = [np.array([1.5, 2.5])] * 3
    finished(1, InOrder(xp, "add"), lambda s, n: s[0] / n, (1, 1, 1), *parts, out=out)
    assert out.tolist() == [1.5, 2.5] and launches == [3]
    sums = InOrder(xp, "add")
    for room in (None, np.zeros(2, np.float32), np.zeros(3), np.zeros((1, 2))):
        made = sums.at_once(parts, room)
        assert made is not room and made.tolist() == [4.5, 7.5] and made.dtype == float
        assert room is None or not room.any()


def test_the_host_and_complex_extremes_go_two_at_a_time() -> None:
    assert InOrder(np, "add").at_once([np.ones(3)] * 3) is None
    xp, launches = like_a_gpu(np.minimum)
    parts = [np.array([2 + 1j]), np.array([1 + 5j]), np.array([1 + 2j])]
    made = finished(1, InOrder(xp, "minimum"), lambda s, n: s[0], (1, 1, 1), *parts)
    assert made.tolist() == [1 + 2j] and launches == []


@pytest.mark.parametrize("name", ["add", "maximum", "logical_or", "multiply"])
def test_long_parts_are_merged_in_strips_on_the_host(name: str) -> None:
    ufunc = getattr(np, name)
    rng = np.random.default_rng(0)
    parts = [rng.random((3, 40_000)) - 0.5 for _ in range(4)]
    parts = [part > 0 for part in parts] if name == "logical_or" else parts
    kept = [part.copy() for part in parts]
    merge, want = InOrder(np, name), functools.reduce(ufunc, parts)
    made = merge.at_once(parts)
    assert made is not None and not any(made is part for part in parts)
    np.testing.assert_array_equal(made, want)
    out = np.empty_like(parts[0])
    assert merge.at_once(parts, out) is out
    np.testing.assert_array_equal(out, want)
    np.testing.assert_array_equal(parts, kept)
    assert merge.at_once([part[:, ::2] for part in parts]) is None
    assert merge.at_once([part[:1, :10] for part in parts]) is None


@pytest.mark.parametrize(("strips", "threads"), [(2, 1), (3, 1), (8, 2), (40, 8)])
def test_more_threads_merge_longer_parts(
    strips: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has four strips at least, and eight are the most; one strip is merged as it is."""
    shared = []
    monkeypatch.setattr(module, "_STRIP", 3)
    monkeypatch.setattr(module, "share", lambda parts: (shared.append(parts), share(parts)))
    parts = [np.arange(3 * strips) * n for n in (1, 2, 3)]
    made = InOrder(np, "add").at_once(parts)
    assert made is not None
    np.testing.assert_array_equal(made, 6 * parts[0])
    assert [len(each) for each in shared] == [threads]
    assert InOrder(np, "add").at_once([part[:3] for part in parts]) is None


def test_blocks_of_one_element_are_states_as_they_are() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        value = np.arange(4 * 1000.0).reshape(4, 1000)
        x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x")))
        made = gs.numpy.sum(x, 0, out_sharding=gs.NamedSharding(mesh, gs.P()))
        np.testing.assert_array_equal(made, value.sum(0))
        made[0] = -1
        np.testing.assert_array_equal(x, value)
    with testing.runtime(backend="host", host_devices=4):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        x, gate = testing.gated(gs.device_put(value[:, 0], rows))
        made = x.sum()
        assert not made.is_ready()
        gate.open()
        assert float(made) == value[:, 0].sum()
    for seed in range(8):
        with late_devices(seed, host_devices=4, host_domains=(1, 2, 4)[seed % 3]):
            mesh = gs.make_mesh((4,), ("x",))
            x = gs.device_put(value, gs.NamedSharding(mesh, gs.P("x"))) + 1
            whole = gs.NamedSharding(mesh, gs.P())
            made = [gs.numpy.sum(x, 0, out_sharding=whole), x[:, 0].max()]
            del x
            np.testing.assert_array_equal(made[0], (value + 1).sum(0))
            assert float(made[1]) == value[:, 0].max() + 1
