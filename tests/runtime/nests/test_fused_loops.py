"""What kernels of a GPU are told to do, done by NumPy: loop nests, and functions of users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard._runtime.cuda.kernels import thread_nests
from gpushard._transforms.graph.ops import Region
from tests.runtime.nests import nest_emitters
from tests.runtime.nests.fused_loops import MOST_ARRAYS, MOST_ELEMENTS, launching
from tests.share import some
from tests.transforms.jit import everyday

P = gs.P


def test_a_share_of_all_small_nests() -> None:
    report = nest_emitters.compare(nest_emitters.chosen(some(1499, 40), offset=7), ["launched"])
    assert not report.problems, report.problems[0]
    assert report.counts["launched"] > 80 and report.counts["not launched"] > 2


def test_programs_of_users() -> None:
    """`python -m tests.transforms.jit.everyday --compilers launched` runs as many as one wants."""
    assert not everyday.failures(range(some(12, 2000)), [everyday.LAUNCHED])


Function = Callable[..., Any]

FUNCTIONS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "numbers beyond a type": (
        lambda m, x: (x * 2 < 1000, (x > -1000) & (x > 5), x + 1), (np.arange(-60, 60, 2, "int8"),)
    ),
    "no axes": (lambda m, x: (x * 2).sum(axis=()) + 1, (np.ones((12, 5)),)),
    "rows that are cut": (
        lambda m, x: (m.exp(x).sum(-1), x.max(-1), (x * 2).mean(-1)),
        (np.linspace(-1, 1, 60_000).reshape(6, -1),),
    ),
    "rows that are too long": (
        lambda m, x: x - x.mean(-1, keepdims=True) + (x * x).max(-1, keepdims=True),
        (np.linspace(-1, 1, 12 * (MOST_ELEMENTS + 1)).reshape(12, -1),),
    ),
    "rows that are reduced apart": (
        lambda m, x: ((x * 2).sum(), (x * 2).sum(0)), (np.linspace(0, 1, 9600).reshape(600, 16),)
    ),
    "positions": (lambda m, x: (x * 2).argmax(-1) + m.argmin(x + 1, 0).sum(),
                  (np.sin(np.arange(600.0)).reshape(12, 50),)),
    "products": (lambda m, x, y: m.tanh(x @ y) + (x * 2).sum(),
                 (np.sin(np.arange(60.0)).reshape(12, 5), np.cos(np.arange(20.0)).reshape(5, 4))),
    "numbers of two types": (
        lambda m, x: (m.where(x > 0.5, x, 0) * 3 + 1, (x * 7).astype("int32") * 2),
        (np.linspace(0, 1, 60, dtype="float32").reshape(12, 5),),
    ),
    "other dims": (lambda m, x: x.T * 2 + (x[1:, 2] * 3).sum(), (np.ones((12, 6)) * 1.5,)),
}  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("domains", [1, 2, 6])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_users(name: str, domains: int) -> None:
    f, values = FUNCTIONS[name]
    with (
        launching(domains, host_devices=6, host_domains=domains),
        mock.patch.object(thread_nests, "_PART", 64),
    ):
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        for spec in (P(), P("x"), P(("x", "y")), P(None, "y"), P("x", "y")):
            own = [P(*spec[: value.ndim]) if n == 0 else P() for n, value in enumerate(values)]
            arrays = [
                gs.device_put(value, gs.NamedSharding(mesh, at))
                for value, at in zip(values, own, strict=True)
            ]
            found = gs.tree.leaves(gs.jit(lambda *xs: f(gnp, *xs))(*arrays))
            for got, want in zip(found, gs.tree.leaves(f(np, *values)), strict=True):
                assert got.dtype == want.dtype and got.shape == want.shape
                np.testing.assert_allclose(np.asarray(got), want, rtol=1e-6, atol=1e-9)


def test_sums_of_half_precision_are_merged_in_single() -> None:
    value = np.random.default_rng(0).random((600, 5)).astype("float16")
    with launching(host_devices=6):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), P("x")))
        found = gs.jit(lambda x: (x * 2).sum(0))(x)
        assert found.dtype == np.float16
        np.testing.assert_allclose(np.asarray(found), (value.astype(float) * 2).sum(0), rtol=2e-3)


def test_more_arrays_than_a_kernel_takes() -> None:
    values = np.random.default_rng(0).random((MOST_ARRAYS + 8, 12))
    with launching(host_devices=6):
        sharding = gs.NamedSharding(gs.make_mesh((6,), ("x",)), P("x"))
        arrays = [gs.device_put(value, sharding) for value in values]
        compiled = gs.jit(lambda *xs: sum(xs)).lower(*arrays).compile()
        assert not any(isinstance(step.op, Region) for step in compiled._executable.steps)
        np.testing.assert_allclose(np.asarray(compiled(*arrays)), values.sum(0))
