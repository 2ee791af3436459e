"""`gpushard.numpy.fft` against NumPy's, within 64 eps of the greatest value.

Both call the same library on the host; only the order of elements in memory may differ.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.compare import LAYOUTS, placed, put, same
from tests.numpy.matrices import ONE_RUNTIME, close

fft = gs.numpy.fft
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
OF_REAL = ("rfft", "ihfft", "rfftn", "rfft2")
MANY = ["fftn", "ifftn", "rfftn", "irfftn", "fft2", "ifft2", "rfft2", "irfft2"]


def compare(name: str, data: Any, x: Any, *args: Any, **kwargs: Any) -> None:
    """Compare a transform with NumPy's, also that both refuse.

    Of no elements NumPy has no transform; `test_transforms_of_nothing` says what they are here.
    """
    try:
        wanted = getattr(np.fft, name)(data, *args, **kwargs)
        if not data.size:  # NumPy's irfft and hfft give what memory holds
            wanted = np.zeros_like(wanted)
    except (ValueError, IndexError) as error:
        if not data.size and "Invalid number of FFT data points" in str(error):
            return
        with pytest.raises(ArgumentError):
            getattr(fft, name)(x, *args, **kwargs)
        return
    close(getattr(fft, name)(x, *args, **kwargs), wanted, 64)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ONE)
def test_one_dim(name: str, layout: str) -> None:
    data, x = placed(layout, "d" if name in OF_REAL else "D")
    for axis in (0, -1, 5):
        for n in (None, 1, 4, 9, 0):
            compare(name, data, x, n, axis)
    for norm in ("backward", "ortho", "forward", "none"):
        compare(name, data, x, norm=norm)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", MANY)
def test_many_dims(name: str, layout: str) -> None:
    data, x = placed(layout, "d" if name in OF_REAL else "D")
    compare(name, data, x)
    for axes in ((0,), (1, 0), (-1, 0), (0, 7)):
        compare(name, data, x, axes=axes)
    for s in ((3, 6), (-1, 4), (5, 0), (2,)):
        compare(name, data, x, s=s, axes=(0, 1))
    compare(name, data, x, (5, 4), (0, -1), "ortho")


NOTHING: dict[tuple[str, tuple[int, ...]], tuple[int, ...] | None] = {
    ("fft", (0,)): (0,),
    ("fft", (3, 0)): (3, 0),
    ("ifft", (0,)): (0,),
    ("irfft", (0,)): (0,),
    ("irfft", (2, 1)): (2, 0),
    ("hfft", (1,)): (0,),
    ("fft2", (0, 3)): (0, 3),
    ("ifftn", (2, 0, 3)): (2, 0, 3),
    ("rfftn", (0, 3)): (0, 2),
    ("irfftn", (0, 3)): (0, 4),
    ("rfft", (0,)): None,
    ("ihfft", (3, 0)): None,
    ("rfftn", (3, 0)): None,
}
"""The shapes of transforms of no elements, as JAX has them; None where their one element is of no
value."""


@pytest.mark.parametrize(("name", "shape"), NOTHING)
def test_transforms_of_nothing(name: str, shape: tuple[int, ...]) -> None:
    data = np.zeros(shape)
    x = put(data, *[None] * (len(shape) - 1), "x")
    transform, expected = getattr(fft, name), NOTHING[name, shape]
    length = {"n": 0} if name in ONE else {"s": (0,), "axes": (-1,)}
    if expected is None:
        with pytest.raises(ArgumentError, match="cannot be transformed"):
            transform(x)
    else:
        dtype = getattr(np.fft, name)(np.ones([2] * len(shape))).dtype
        for found in (transform(x), gs.jit(transform)(x)):
            same(found, np.zeros(expected, dtype))
    with pytest.raises(ArgumentError, match="0 elements along axis=-1"):
        transform(x, **length)


@pytest.mark.parametrize("dtype", ["?", "b", "l", "e", "f", "d", "F", "D"])
def test_types(dtype: str) -> None:
    data, x = placed("uneven", dtype)
    for name in (*ONE, "fft2", "rfftn", "irfftn"):
        if name in OF_REAL and dtype in "FD":
            with pytest.raises(ArgumentTypeError, match="takes real numbers"):
                getattr(fft, name)(x)
            with pytest.raises(TypeError):
                getattr(np.fft, name)(data)
        elif dtype == "e":  # NumPy scales in half precision
            wanted = getattr(np.fft, name)(data.astype("f"))
            of = getattr(np.fft, name)(data).dtype
            close(getattr(fft, name)(x), wanted.astype(of), 64)
        else:
            compare(name, data, x)


def test_single_precision_stays_single() -> None:
    _, x = placed("even", "f")
    assert fft.fft(x).dtype == fft.rfft2(x).dtype == np.complex64
    assert fft.irfft(x).dtype == np.float32


def test_splits_stay() -> None:
    _, x = placed("even")
    for name in ("fft", "fftn", "rfft2", "ifft2", "fftshift"):
        assert getattr(fft, name)(x).sharding.spec == gs.P("x", "y")
    assert fft.fft(x, axis=0, out_sharding=gs.P("y")).sharding.spec == gs.P("y")
    line = put(np.arange(8.0), "x")
    close(fft.fft(line), np.fft.fft(np.arange(8.0)))
    assert fft.fft(line).sharding.spec == gs.P("x")


def test_along_no_dims_nothing_is_transformed() -> None:
    data, x = placed("even", "D")
    same(fft.fftn(x, axes=()), np.fft.fftn(data, axes=()))
    same(fft.ifftn(x, (), ()), data)


def test_the_inverse_is_one() -> None:
    for layout in LAYOUTS:
        data, x = placed(layout, "D")
        if x.size:
            close(fft.ifftn(fft.fftn(x)), data)
            s = data.shape[-2:]
            close(fft.irfft2(fft.rfft2(x.real), s), data.real.copy())


@pytest.mark.parametrize("n", [1, 2, 7, 8])
@pytest.mark.parametrize("d", [1.0, 0.1, 3])
def test_frequencies(n: int, d: Any) -> None:
    same(fft.fftfreq(n, d), np.fft.fftfreq(n, d))
    same(fft.rfftfreq(n, d=d), np.fft.rfftfreq(n, d=d))
    same(fft.fftfreq(n, d, dtype="f"), np.fft.fftfreq(n, d).astype("f"))
    place = put(np.arange(8.0), "x").sharding
    made = fft.fftfreq(n, d, out_sharding=place)
    assert made.sharding == place
    same(made, np.fft.fftfreq(n, d))
    assert fft.rfftfreq(n, device=gs.devices()[3]).devices() == {gs.devices()[3]}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_shifts(layout: str) -> None:
    data, x = placed(layout)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 0, (1, 0), -1):
            same(getattr(fft, name)(x, axes), getattr(np.fft, name)(data, axes))


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "n": (lambda x: fft.fft(x, 0), ArgumentError, "0 elements along axis=-1"),
    "n that is no integer": (lambda x: fft.fft(x, 1.5), ArgumentTypeError, "n=1.5 must be an int"),
    "norm": (lambda x: fft.fft2(x, norm="half"), ArgumentError, "norm='half' is unknown"),
    "s": (lambda x: fft.fftn(x, (2, 3), (0,)), ArgumentError, "has 2 lengths, and axes="),
    "axes": (lambda x: fft.fftn(x, axes=(0, 0)), ArgumentError, "names an axis twice"),
    "no dims": (lambda x: fft.fftn(x[0, 0]), ArgumentError, "without axes"),
    "out": (lambda x: fft.fft(x, out=np.zeros(3)), ArgumentError, "out= is not supported"),
    "length of frequencies": (lambda x: fft.fftfreq(0), ArgumentError, "n=0 must be positive"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    _, x = placed("even")
    with pytest.raises(kind, match=words):
        call(x)
