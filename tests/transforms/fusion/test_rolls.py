"""Rolls in regions: kernels read their operands where these lie, and go around their ends."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._runtime.host.nests import choose_kernel
from gpushard._transforms.fusion import layout
from tests.share import examples, some

P = gs.P
HOST = {"backend": "host", "host_devices": 6}

VIEWS: dict[str, Callable[[Any, Any, int, int], Any]] = {
    "roll": lambda x, m, a, b: m.roll(x, (a, b), (0, 1)),
    "roll twice": lambda x, m, a, b: m.roll(m.roll(m.roll(x, a, 0), b, 1), 1, 0),
    "all but the ends of a roll": lambda x, m, a, b: m.pad(
        m.roll(x, (a, b), (0, 1))[1:-1, 1:] + 1, ((1, 1), (1, 0))
    ),
    "roll of a part": lambda x, m, a, b: m.pad(
        m.roll(x[1:, :-1], (a, b), (0, 1)) + 1, ((1, 0), (0, 1))
    ),
    "roll of a transpose": lambda x, m, a, b: m.roll(x.T, (a, b), (1, 0)).T,
    "a row of a roll": lambda x, m, a, b: m.roll(x, a, 0)[2] + m.roll(x, b, 1),
    "roll of what is split in another way": lambda x, m, a, b: m.roll(x * 2, a, 0) * x.max(0),
    "sums of a roll": lambda x, m, a, b: m.roll(x, b, 1).sum(1, keepdims=True) + m.roll(x, a, 0),
}
"""Arrays of the shape of x, with elements of x at other places."""

SPECS = [P(), P("x"), P(None, "x"), P("x", "y"), P(("x", "y")), P(None, ("y", "x"))]


def check(view: str, shape: Any, steps: Any, spec: Any, compiler: str, domains: int) -> None:
    """Compare a function of an array and a view with NumPy's."""
    value = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)

    def f(x: Any, m: Any) -> Any:
        return 2 * x - VIEWS[view](x, m, *steps)

    with (
        testing.runtime(**HOST, host_domains=domains, compiler=compiler),
        mock.patch.object(layout, "LARGE", 1), mock.patch.object(choose_kernel, "LARGE", 1),
    ):  # fmt: skip
        mesh = gs.make_mesh((3, 2), ("x", "y"))
        x = gs.device_put(value, gs.NamedSharding(mesh, spec))
        found = gs.jit(lambda x: f(x, gnp))(x)
        np.testing.assert_array_equal(np.asarray(found), f(value, np), f"{spec} {steps}")


@pytest.mark.one_of(2)
@pytest.mark.parametrize("view", VIEWS)
def test_small_rolls(view: str) -> None:
    """All shifts of a few rows and columns, in every layout, by NumPy's functions."""
    cases = list(itertools.product(range(-3, 8, 2), range(-3, 6, 2), SPECS))
    for n, (row, column, spec) in list(enumerate(cases))[:: some(11, 1)]:
        check(view, (7, 5), (row, column), spec, "", (1, 6)[n % 2])


@examples(40)
@given(
    st.sampled_from(list(VIEWS)),
    st.tuples(st.integers(6, 40), st.sampled_from([3, 9, 40, 600])),
    st.tuples(st.integers(-50, 50), st.integers(-700, 700)),
    st.sampled_from(SPECS),
    st.sampled_from([1, 2, 6]),
)
def test_rolls_in_c(view: str, shape: Any, steps: Any, spec: Any, domains: int) -> None:
    check(view, shape, steps, spec, "cc", domains)


def stencil(x: Any, m: Any) -> Any:
    """Return the sum of the neighbours of each element on a torus."""
    return m.roll(x, 1, 0) + m.roll(x, -1, 0) + m.roll(x, 1, 1) + m.roll(x, -1, 1)


@pytest.mark.parametrize("domains", [1, 2, 6])
@pytest.mark.parametrize("compiler", ["cc", ""])
def test_a_stencil_by_rolls_moves_rows_and_copies_no_block(compiler: str, domains: int) -> None:
    value = np.random.default_rng(0).random((600, 130), np.float32)
    row = value[0].nbytes
    with testing.runtime(**HOST, host_domains=domains, compiler=compiler):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), P("x")))
        compiled = gs.jit(lambda x: stencil(x, gnp)).lower(x).compile()
        (step,) = compiled._executable.steps
        assert step.name.startswith("fused")
        assert step.moved == (2 * domains * row if domains > 1 else 0)
        assert compiled.memory_analysis().temp_size_in_bytes <= 6 * 6 * row  # of 600
        np.testing.assert_array_equal(np.asarray(compiled(x)), stencil(value, np))


@pytest.mark.parametrize("spec", [P(), P("x")])
def test_one_operation_reads_a_roll_where_it_lies(spec: P) -> None:
    value = np.random.default_rng(0).random((600, 130), np.float32)
    with testing.runtime(**HOST):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((6,), ("x",)), spec))
        compiled = gs.jit(lambda x: x + gnp.roll(x, 1, 0)).lower(x).compile()
        assert [step.name for step in compiled._executable.steps] == ["fused add"]
        np.testing.assert_array_equal(np.asarray(compiled(x)), value + np.roll(value, 1, 0))
