"""Windows, spaced numbers and diagonals against NumPy's."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError
from tests.numpy.calls import Call, everywhere
from tests.numpy.compare import put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")


def split(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hanning"])
@pytest.mark.parametrize("many", [-1, 0, 1, 2, 3, 8, 21])
def test_windows(name: str, many: int) -> None:
    same(getattr(gnp, name)(many), getattr(np, name)(many), exact=False)
    made = getattr(gnp, name)(many, out_sharding=split("x"))
    same(made, getattr(np, name)(many), exact=False)
    assert made.sharding == split("x")


@pytest.mark.parametrize("beta", [0, 3.5, np.float32(14)])
@pytest.mark.parametrize("many", [0, 1, 2, 8, 21])
def test_kaiser_windows(many: int, beta: Any) -> None:
    wanted = np.kaiser(many, float(beta))
    for found in (gnp.kaiser(many, beta), gnp.kaiser(many, beta, out_sharding=split("x"))):
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["?", "b", "l", "f", "d"])
def test_bessel_functions(dtype: str) -> None:
    everywhere(lambda ns, x: ns.i0(x), value((5, 3), dtype) * np.array(9, dtype))
    assert gnp.i0(put(value((8,), dtype), "x")).sharding == split("x")


@pytest.mark.parametrize("num", [0, 1, 2, 7])
@pytest.mark.parametrize("endpoint", [False, True])
def test_ratios(num: int, endpoint: bool) -> None:
    calls: list[Call] = [
        lambda ns, _: ns.logspace(-1, 2.5, num, endpoint),
        lambda ns, _: ns.logspace(0, 3, num, endpoint, 2, "f"),
        lambda ns, _: ns.geomspace(1, 1000, num, endpoint),
        lambda ns, _: ns.geomspace(-0.1, -50, num, endpoint, "f"),
    ]
    for call in calls:
        found, wanted = call(gnp, None), call(np, None)
        assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_allclose(
            np.asarray(found), wanted, rtol=1e-6 if call in calls[1::2] else 1e-13
        )
    made = gnp.geomspace(1, 5, num, endpoint, out_sharding=split("y"))
    assert made.sharding == split("y")


@pytest.mark.parametrize("dtype", ["?", "b", "D"])
def test_diagonals(dtype: str) -> None:
    for k in (-3, 0, 2):
        everywhere(lambda ns, x: ns.diag(x, k), value((4,), dtype), exact=True)  # noqa: B023
        everywhere(lambda ns, x: ns.diag(x, k), value((4, 3), dtype), exact=True)  # noqa: B023
        everywhere(lambda ns, x: ns.diagflat(x, k), value((2, 3), dtype), exact=True)  # noqa: B023


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 0, 1)])
def test_positions_of_grids(shape: tuple[int, ...]) -> None:
    same(gnp.indices(shape), np.indices(shape))
    same(gnp.indices(shape, "f"), np.indices(shape, "f"))
    same(gnp.indices(shape, sparse=True), np.indices(shape, sparse=True))


def test_numbers_run_along_the_only_dim() -> None:
    for call in (gnp.geomspace, gnp.logspace, gnp.linspace):
        np.testing.assert_array_equal(call(1, 2, 3, axis=-1), call(1, 2, 3, axis=0))
        with pytest.raises(ArgumentError, match="1"):
            call(1, 2, 3, axis=1)
