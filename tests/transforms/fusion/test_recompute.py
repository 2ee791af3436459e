"""Values that regions compute again, rather than write and read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._transforms.fusion import recompute
from gpushard._transforms.graph.ops import Region

P = gs.P
HOST = {"backend": "host", "host_devices": 4}
TABLE = np.random.default_rng(0).uniform(-2, 2, (264, 132))
IMAGES = np.random.default_rng(1).uniform(-2, 2, (8, 6, 14, 15))


def softmax(x: Any, m: Any) -> Any:
    e = m.exp(x - x.max(0))
    return e / e.sum(0)


def standardize(x: Any, m: Any) -> Any:
    apart = x - x.mean(0)
    return apart / m.sqrt((apart * apart).mean(0))


def batch_norm(x: Any, m: Any) -> Any:
    apart = x - x.mean((0, 2, 3), keepdims=True)
    spread = (apart * apart).mean((0, 2, 3), keepdims=True)
    return apart / m.sqrt(spread + 1e-5)


def transposed(x: Any, m: Any) -> Any:
    """Read the value in another order of dims than it is computed in."""
    e = m.exp(x - x.max(0))
    return e.T * e.sum(0)[:, None]


def three_passes(x: Any, m: Any) -> Any:
    """Compute again what was computed again."""
    apart = x - x.mean(0)
    scaled = apart / m.sqrt((apart * apart).mean(0))
    return scaled * (scaled * scaled).sum(0)


def compiled(function: Any, *xs: Any) -> tuple[Any, list[Any]]:
    """Return a compiled function, and its operations without single views and moves."""
    program = gs.jit(lambda *xs: function(*xs, gnp)).lower(*xs).compile()
    steps = [step for step in program._executable.steps if step.name not in ("indexing", "reshard")]
    return program, steps


def placed(value: Any, spec: Any) -> Any:
    mesh = gs.make_mesh((4,), ("x",))
    return gs.device_put(value, gs.NamedSharding(mesh, spec))


@pytest.mark.parametrize("compiler", ["cc", ""])
@pytest.mark.parametrize("spec", [P("x"), P()], ids=str)
@pytest.mark.parametrize(
    ("function", "value", "split", "whole"),  # operations if the first axis is split, and if not
    [
        (softmax, TABLE, 3, 3), (standardize, TABLE, 4, 4), (batch_norm, IMAGES, 3, 1),
        (transposed, TABLE, 3, 3), (three_passes, TABLE, 5, 5),
    ],
)  # fmt: skip
def test_what_is_cheap_is_computed_again(
    function: Any, value: Any, split: int, whole: int, spec: Any, compiler: str
) -> None:
    with testing.runtime(**HOST, compiler=compiler, enable_checks=True):
        x = placed(value, spec)
        program, steps = compiled(function, x)
        assert len(steps) == (split if spec else whole)
        assert all(max(step.results[0].shape) < 200 for step in steps[:-1])  # nothing large
        np.testing.assert_allclose(np.asarray(program(x)), function(value, np), rtol=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: (softmax(x, m), m.exp(x - x.max(0))),  # a result, in any case
        lambda x, m: (softmax(x, m), m.sort(m.exp(x - x.max(0)), 0)),  # the sort reads it
    ],
)
def test_what_is_written_in_any_case_is_read(function: Any) -> None:
    with testing.runtime(**HOST, compiler=""):
        x = placed(TABLE, P("x"))
        program, steps = compiled(lambda x, m: gs.tree.leaves(function(x, m)), x)
        names = [name for step in steps for name in str(step.name).split()]
        assert names.count("exp") == 1
        for found, wanted in zip(program(x), function(TABLE, np), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)


def test_a_long_computation_is_not_done_again() -> None:
    def function(x: Any, m: Any, count: int) -> Any:
        for _ in range(count):
            x = m.tanh(x)
        return x / x.sum(0)

    with testing.runtime(**HOST, compiler=""):
        x = placed(TABLE, P("x"))
        for count, times in ((3, 6), (4, 4)):  # of at most 12, a function counts as 4
            assert recompute._MOST == 12
            _, steps = compiled(lambda x, m, count=count: function(x, m, count), x)
            assert " ".join(str(step.name) for step in steps).count("tanh") == times


def test_a_value_is_written_if_one_of_its_readers_cannot_compute_it() -> None:
    def function(x: Any, y: Any, m: Any) -> Any:
        e = m.exp(x - x.max(0))
        return e / e.sum(0), e[1:] * y[:-1], e[2:] * m.sort(y, 0)[2:]

    with testing.runtime(**HOST, compiler=""):
        x, y = placed(TABLE, P("x")), placed(TABLE + 1, P("x"))
        program, _ = compiled(function, x, y)
        for found, wanted in zip(program(x, y), function(TABLE, TABLE + 1, np), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)


@pytest.mark.parametrize("compiler", ["cc", ""])
def test_what_all_readers_compute_is_done_by_no_other(compiler: str) -> None:
    def function(x: Any, m: Any) -> Any:
        return m.exp(x) / x.max(0), m.minimum(x * 3, x.sum(0))

    with testing.runtime(**HOST, compiler=compiler, enable_checks=True):
        x = placed(TABLE, P("x"))
        program, steps = compiled(function, x)
        names = sorted(str(step.name) for step in steps)
        assert names == ["fused exp divide multiply minimum", "fused max sum"]
        for found, wanted in zip(program(x), function(TABLE, np), strict=True):
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-9)


def test_regions_know_what_they_do_again() -> None:
    with testing.runtime(**HOST, compiler=""):
        _, steps = compiled(standardize, placed(TABLE, P("x")))
        kernels = [step for step in steps if isinstance(step.op, Region)]
        done = [step for kernel in kernels for step in kernel.op.members]
        assert len(done) == len(set(done)) + 1  # the distances from means
