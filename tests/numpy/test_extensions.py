"""The extensions of the Array API: names, keywords, documentation, kernels for CuPy."""

import inspect
import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.row import Row
from gpushard._ops.table import linalg
from gpushard.errors import ArgumentTypeError
from tests.numpy.compare import put, same

pytestmark = pytest.mark.usefixtures("rt")

STANDARD = {
    "linalg": "cholesky cross det diagonal eig eigh eigvals eigvalsh inv matmul matrix_norm "
    "matrix_power matrix_rank matrix_transpose outer pinv qr slogdet solve svd svdvals tensordot "
    "trace vecdot vector_norm",
    "fft": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift "
    "ifftshift",
}
KEYWORDS = {
    ("linalg", "cholesky"): {"upper"},
    ("linalg", "cross"): {"axis"},
    ("linalg", "diagonal"): {"offset"},
    ("linalg", "matrix_norm"): {"keepdims", "ord"},
    ("linalg", "matrix_rank"): {"rtol"},
    ("linalg", "pinv"): {"rtol"},
    ("linalg", "qr"): {"mode"},
    ("linalg", "svd"): {"full_matrices"},
    ("linalg", "tensordot"): {"axes"},
    ("linalg", "trace"): {"offset", "dtype"},
    ("linalg", "vecdot"): {"axis"},
    ("linalg", "vector_norm"): {"axis", "keepdims", "ord"},
    **{("fft", name): {"n", "axis", "norm"} for name in ("fft", "irfft", "hfft", "ihfft")},
    **{("fft", name): {"s", "axes", "norm"} for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    **{("fft", name): {"d", "dtype", "device"} for name in ("fftfreq", "rfftfreq")},
    **{("fft", name): {"axes"} for name in ("fftshift", "ifftshift")},
}


@pytest.mark.parametrize("extension", STANDARD)
def test_names(extension: str) -> None:
    ours, theirs = getattr(gs.numpy, extension), getattr(np, extension)
    assert set(STANDARD[extension].split()) <= set(ours.__all__)
    assert set(theirs.__all__) <= set(ours.__all__)
    for name in ours.__all__:
        function = getattr(ours, name)
        if not inspect.isfunction(function):
            continue
        text = inspect.getdoc(function) or ""
        assert text.partition("\n")[0].endswith((".", ":")), name
        for argument in inspect.signature(function).parameters:
            assert argument in text, (name, argument)


@pytest.mark.parametrize(("extension", "name"), KEYWORDS)
def test_keywords_are_those_of_the_standard(extension: str, name: str) -> None:
    taken = inspect.signature(getattr(getattr(gs.numpy, extension), name)).parameters
    for keyword in KEYWORDS[extension, name]:
        assert taken[keyword].kind is not inspect.Parameter.POSITIONAL_ONLY


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match=r"'gpushard\.numpy' has no attribute 'polynomial'"):
        _ = gs.numpy.polynomial


def test_numpys_functions_of_extensions_take_arrays() -> None:
    data = np.arange(12.0).reshape(4, 3) % 5
    x = put(data, "x", "y")
    same(np.linalg.norm(x, axis=1), np.linalg.norm(data, axis=1), exact=False)
    same(np.fft.fftshift(x), np.fft.fftshift(data))
    same(np.linalg.matrix_rank(A=x), np.linalg.matrix_rank(data))
    same(np.linalg.solve(b=x, a=np.eye(4)), data)


def like_cupy(**functions: Any) -> Any:
    """Return a namespace that has of linear algebra only some functions."""
    xp = types.ModuleType("cupy")
    vars(xp).update({n: getattr(np, n) for n in ("ascontiguousarray", "asarray", "broadcast_to")})
    vars(xp)["linalg"] = types.SimpleNamespace(**functions)
    return xp


def test_kernels_for_cupy_need_no_more_than_it_has() -> None:
    a = np.array([[4.0, 2.0], [2.0, 5.0]])

    def solve(a: Any, b: Any) -> Any:
        assert a.shape[:-2] == b.shape[:-2]
        return np.linalg.solve(a, b)

    avals = [Aval((2, 2), a.dtype)]
    kernel = linalg.CHOLESKY.kernel(like_cupy(cholesky=np.linalg.cholesky), avals, (True,))
    np.testing.assert_allclose(kernel(a), np.linalg.cholesky(a, upper=True))
    sides = np.ones((3, 2, 2))
    kernel = linalg.SOLVE.kernel(like_cupy(solve=solve), [*avals, Aval((3, 2, 2), a.dtype)], ())
    np.testing.assert_allclose(kernel(a, sides), np.linalg.solve(a, sides))
    rows: list[Row] = [linalg.EIG, linalg.EIGVALS]
    for row in rows:
        with pytest.raises(ArgumentTypeError, match=f"{row.name} is not available on GPUs"):
            row.kernel(like_cupy(), avals, ())
