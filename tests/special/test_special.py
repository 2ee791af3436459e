"""`gpushard.special` against SciPy's.

Ufuncs are SciPy's own on the host, and equal to the bit; what is composed, and sums, within 64 eps
of the greatest value.
"""

import importlib
import inspect
import sys
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import scipy.special
from scipy.special import _support_alternative_backends

import gpushard as gs
from gpushard import special
from gpushard._ops.aval import Aval
from gpushard._ops.table.elementwise import ufunc_row
from gpushard._runtime.namespace import special_functions, special_ufunc
from gpushard.errors import ArgumentTypeError, MissingLibraryError
from gpushard.special import ufuncs
from tests.numpy.compare import LAYOUTS, placed, put, same
from tests.numpy.matrices import ONE_RUNTIME, close

pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

DISPATCHED = _support_alternative_backends._special_funcs
"""The functions that SciPy takes from the namespace of its operands."""

UFUNCS = [
    name
    for name, function in vars(ufuncs).items()
    if inspect.isfunction(function) and not name.startswith("_") and name in special.__all__
]
WHOLE = {function.name for function in DISPATCHED if function.int_only}
"""Functions of which SciPy warns where an operand is no integer."""

WIDER = {"multigammaln", "polygamma"}
"""Functions that SciPy has in double precision for floats of single precision, too."""

TYPES = "?blfdFD"


def operands(name: str, layout: str, dtype: str) -> tuple[list[np.ndarray], list[gs.Array]]:
    """Return numbers, some out of the domain of most functions, of as many arrays as it takes."""
    pairs = [placed(layout, dtype, str(n)) for n in range(special_ufunc(name).nin)]
    return [data for data, _ in pairs], [x for _, x in pairs]


def test_the_list_of_ufuncs_is_whole() -> None:
    assert len(UFUNCS) == 94 and {"erf", "psi", "betainc"} <= set(UFUNCS)
    assert len(set(special.__all__)) == len(special.__all__)
    for name in special.__all__:
        text = inspect.getdoc(getattr(special, name)) or ""
        assert text.partition("\n")[0].endswith("."), name
        for argument in inspect.signature(getattr(special, name)).parameters:
            assert argument in text


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", sorted(set(UFUNCS) - WHOLE))
def test_ufuncs(name: str) -> None:
    ours, theirs = getattr(special, name), special_ufunc(name)
    for layout in LAYOUTS:
        data, arrays = operands(name, layout, "d")
        with np.errstate(all="ignore"):
            wanted = theirs(*(abs(d) + 0.3 for d in data))
        found = ours(*(abs(x) + 0.3 for x in arrays))
        same(found, wanted)
        assert found.sharding == arrays[0].sharding or not data[0].size
    for dtype in TYPES:
        data, arrays = operands(name, "uneven", dtype)
        try:
            with np.errstate(all="ignore"):
                wanted = theirs(*data)
        except TypeError:
            with pytest.raises(ArgumentTypeError, match="is not defined for"):
                ours(*arrays)
            continue
        same(ours(*arrays), wanted)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("name", sorted(set(UFUNCS) - WHOLE))
def test_narrow_floats_keep_their_type(name: str, dtype: Any) -> None:
    """Results are those of single precision, rounded once."""
    data, arrays = operands(name, "uneven", "f")
    narrow = [d.astype(dtype) for d in data]
    with np.errstate(all="ignore"):
        wanted = special_ufunc(name)(*(d.astype(np.float32) for d in narrow)).astype(dtype)
        found = getattr(special, name)(*(x.astype(dtype) for x in arrays))
        traced = gs.jit(getattr(special, name))(*(x.astype(dtype) for x in arrays))
    for result in (found, traced):
        assert result.dtype == dtype
        np.testing.assert_array_equal(
            np.asarray(result).astype(np.float32), wanted.astype(np.float32)
        )


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_composed_functions_keep_the_type_of_floats(dtype: Any) -> None:
    x = put(np.array([[1.5, 2.5], [3.5, 4.5]], dtype), "x", "y")
    n = np.ones((2, 2), np.int64)
    made = {
        "zeta": special.zeta(x, x),
        "zeta of one": special.zeta(x),
        "polygamma": special.polygamma(n, x),
        "polygamma of floats": special.polygamma(x, x),
        "polygamma of a number": special.polygamma(2, x),
        "multigammaln": special.multigammaln(x, 2),
        "comb": special.comb(x, x),
        "factorial": special.factorial(x),
        "sinc": special.sinc(x),
        "logsumexp": special.logsumexp(x),
        "softmax": special.softmax(x),
        "log_softmax": special.log_softmax(x),
        "gelu": gs.nn.gelu(x, approximate=False),
    }
    assert {name for name, result in made.items() if result.dtype != dtype} == set()
    exact = scipy.special.polygamma(n, np.asarray(x).astype(np.float64)).astype(dtype)
    np.testing.assert_allclose(
        np.asarray(made["polygamma"]).astype(float), exact.astype(float), rtol=1e-2
    )


@pytest.mark.parametrize("name", ["erf", "gammaln", "xlogy", "betainc", "exp10"])
def test_scipys_own_functions_take_arrays(name: str) -> None:
    data, arrays = operands(name, "uneven", "f")
    function = special_ufunc(name)
    with gs.transfer_guard("disallow"):
        found = function(*arrays)
    with np.errstate(all="ignore"):
        same(found, function(*data))
    assert found.sharding == arrays[0].sharding


def arguments(function: Any, dtype: str) -> list[Any]:
    """Return arguments of a function that SciPy dispatches, in its domain."""
    rng = np.random.default_rng(len(function.name))
    found: list[Any] = []
    for n in range(function.n_args):
        whole = (function.int_only or (False,) * function.n_args)[n]
        numbers = rng.integers(1, 5, (8, 6)).astype("l" if whole else dtype)
        last = n == function.n_args - 1 and not whole
        found.append(rng.uniform(0.1, 0.9, (8, 6)).astype(dtype) if last else numbers)
    return [found[0] + 3, 2] if function.name == "multigammaln" else found


@pytest.mark.parametrize("function", DISPATCHED, ids=lambda function: function.name)
def test_what_scipy_dispatches_stays_where_it_is(function: Any) -> None:
    theirs = getattr(scipy.special, function.name)
    for dtype in "fd":
        given = arguments(function, dtype)
        arrays = [put(x, "x", "y") if isinstance(x, np.ndarray) else x for x in given]
        with gs.transfer_guard("disallow"), gs.gather_guard("disallow"):
            found = theirs(*arrays)
        wanted = theirs(*given)
        close(found, wanted.astype(dtype) if function.name in WIDER else wanted, 64)
        assert found.sharding == arrays[0].sharding


def test_the_namespace_has_them_as_an_extension() -> None:
    assert gs.numpy.special is special
    assert {function.name for function in DISPATCHED} <= set(special.__all__)


def test_multivariate_gamma_functions_out_of_their_domain() -> None:
    x = put(np.array([0.5, 1.0, 1.5, 8.0]), "x")
    with np.errstate(all="ignore"):
        found = np.asarray(special.multigammaln(x, 3))
    assert np.isnan(found[:2]).all()
    np.testing.assert_allclose(found[2:], scipy.special.multigammaln(np.array([1.5, 8.0]), 3))


def test_numbers_beside_arrays() -> None:
    data, x = placed("even", "f")
    same(special.xlogy(x, 2.0), scipy.special.xlogy(data, 2.0))
    same(special.gammainc(2.0, abs(x)), scipy.special.gammainc(2.0, abs(data)))
    same(special.erf([0.5, 1.0]), scipy.special.erf(np.array([0.5, 1.0])))
    assert special.erf(x, out_sharding=gs.P("y")).sharding.spec == gs.P("y")


AXES: list[Any] = [None, 0, -1, (0, 1)]


def exponents(layout: str, dtype: str) -> tuple[np.ndarray, gs.Array]:
    """Return exponents whose exponentials overflow, infinite ones among them."""
    data, x = placed(layout, dtype)
    if np.dtype(dtype).kind == "f":
        data = data * (40 if dtype == "f" else 400)
        data.reshape(-1)[::5] = -np.inf
    return data, gs.device_put(data, x.sharding)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", "blefdFD")
def test_logarithms_of_sums(layout: str, dtype: str) -> None:
    data, x = exponents(layout, dtype)
    for axis in AXES:
        if not data.size and axis != -1:
            continue  # SciPy fails
        keepdims = axis != 0
        wanted = scipy.special.logsumexp(data, axis, keepdims=keepdims)
        close(special.logsumexp(x, axis, keepdims=keepdims), np.asarray(wanted), 64)


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "empty"])
@pytest.mark.parametrize("dtype", "blfdD")
def test_logarithms_of_weighted_sums(layout: str, dtype: str) -> None:
    """Cancellation loses digits that SciPy keeps: 4096 eps."""
    data, x = placed(layout, dtype)
    weights, b = placed(layout, "d", "weights")
    for axis in AXES:
        keepdims = axis != 0
        with np.errstate(all="ignore"):
            size, sign = scipy.special.logsumexp(data, axis, weights, keepdims, True)
            total = scipy.special.logsumexp(data, axis, abs(weights), keepdims)
        found = special.logsumexp(x, axis, b, keepdims, True)
        close(found, (np.asarray(size), np.asarray(sign)), 4096)
        close(special.logsumexp(x, axis, abs(b), keepdims), np.asarray(total), 64)
        if dtype != "D":
            lost = np.asarray(sign) < 0
            wanted = np.where(lost, np.nan, size)
            close(special.logsumexp(x, axis, b, keepdims), wanted, 4096)


def test_sums_of_extremes() -> None:
    for data in (
        np.full(8, -np.inf),
        np.array([np.inf] + [1.0] * 7),
        np.array([1.0] * 7 + [np.nan]),
        np.array([-np.inf] * 7 + [-1000.0]),
        np.array([1000.0] * 8),
    ):
        x = put(data, "x")
        close(special.logsumexp(x), np.asarray(scipy.special.logsumexp(data)), 4)
        with np.errstate(all="ignore"):
            close(special.softmax(x), scipy.special.softmax(data), 8)
            close(special.log_softmax(x), scipy.special.log_softmax(data), 8)
    close(special.logsumexp(put(np.zeros(0))), np.asarray(-np.inf))
    close(
        special.logsumexp(put(np.ones((4, 2)), "x"), b=np.array([1.0, 0.0])),
        np.log(4) + np.ones(()),
    )
    apart = np.array([1000.0, 999.0])  # whose exponentials overflow
    found = special.logsumexp(put(apart), b=np.array([-1.0, 1.0]), return_sign=True)
    close(found, (np.asarray(1000 + np.log1p(-np.exp(-1))), np.asarray(-1.0)), 8)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", "lfd")
def test_softmax(layout: str, dtype: str) -> None:
    data, x = placed(layout, dtype)
    for axis in AXES:
        for name in ("softmax", "log_softmax"):
            ours, theirs = getattr(special, name), getattr(scipy.special, name)
            if not data.size and axis in (None, 0, (0, 1)):  # SciPy asks for a greatest element
                assert ours(x, axis).shape == data.shape
                continue
            close(ours(x, axis), theirs(data, axis), 64)


def test_softmax_stays_where_it_is() -> None:
    x = put(np.arange(64 * 64.0).reshape(64, 64) % 7, "x", "y")
    for axis in AXES:
        assert special.softmax(x, axis).sharding.spec == gs.P("x", "y")
        assert special.log_softmax(x, axis).sharding.spec == gs.P("x", "y")


@pytest.mark.parametrize("dtype", "bldf")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_is_composed(layout: str, dtype: str) -> None:
    data, x = placed(layout, dtype)
    more, y = placed(layout, "l", "more")
    with np.errstate(all="ignore"):
        close(special.comb(abs(x) + 2, y), np.asarray(scipy.special.comb(abs(data) + 2, more)), 64)
        close(special.factorial(y), np.asarray(scipy.special.factorial(more), "d"))
        close(special.sinc(x), np.sinc(data), 64)
        close(
            special.zeta(abs(x) + 2, abs(y) + 1), scipy.special.zeta(abs(data) + 2, abs(more) + 1)
        )
        close(special.zeta(x * 3), scipy.special.zeta(data * 3))
        wanted = scipy.special.polygamma(abs(more), abs(data) + 1.0)
        assert np.allclose(special.polygamma(abs(y), abs(x) + 1.0), wanted, rtol=1e-6)


def test_nothing_is_chosen_of_fewer_or_of_less_than_nothing() -> None:
    n = np.array([-2, -1, 0, 0, 1, 3, 3, 3, 3, 2.5])
    k = np.array([-3, 0, 0, 1, 1, 0, 3, 4, -1, 3.0])
    close(special.comb(put(n), put(k)), scipy.special.comb(n, k), 4)


def test_without_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    _, x = placed("even")
    monkeypatch.setitem(sys.modules, "scipy.special", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'gpushard\[special\]'") as caught:
        special.erf(x)
    assert isinstance(caught.value, ImportError)
    same(special.softmax(x, -1).sum(-1) > 0.5, np.ones(8, bool))


def test_gpus_have_cupys(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a module in the place of CuPy's, which lacks a function and takes fewer types."""
    seen = []

    def erf(x: Any) -> Any:
        seen.append(x.dtype)
        return scipy.special.erf(x)

    theirs = types.ModuleType("cupyx.scipy.special")
    theirs.erf = erf  # type: ignore[attr-defined]
    package = types.ModuleType("cupyx.scipy")
    package.special = theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "cupyx", types.ModuleType("cupyx"))
    monkeypatch.setitem(sys.modules, "cupyx.scipy", package)
    monkeypatch.delitem(sys.modules, "gpushard._runtime.cuda.kernels.special", raising=False)
    xp = types.ModuleType("gpushard._runtime.cuda.kernels.namespace")
    assert special_functions(xp).erf is erf
    operand = [Aval((3,), np.dtype("l"))]
    kernel = ufunc_row(special_ufunc("erf")).kernel(xp, operand, ())
    assert kernel(np.arange(3)).dtype == np.float64 and seen == [np.float64]
    with pytest.raises(ArgumentTypeError, match="erfcx is not available on GPUs"):
        ufunc_row(special_ufunc("erfcx")).kernel(xp, operand, ())
    monkeypatch.delitem(sys.modules, "gpushard._runtime.cuda.kernels.special")
    importlib.invalidate_caches()
