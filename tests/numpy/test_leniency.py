"""Spellings that NumPy takes and libraries use: of axes, types, orders, and arguments by place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError

MASK = np.arange(30).reshape(6, 5) % 3 > 0

SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "an axis of NumPy's": lambda x: x.sum(axis=np.int64(0)),
    "an axis as a 0-d array": lambda x: x.sum(np.array(0)),
    "a list of axes": lambda x: np.transpose(x, [1, 0]),
    "axes of mixed types": lambda x: x.max(axis=(np.int32(0), 1)),
    "a type by its Python name": lambda x: x.astype(float),
    "a type by a letter": lambda x: x.astype("f"),
    "a type by a word": lambda x: x.astype("float32", copy=False),
    "a class of NumPy's": lambda x: x.astype(np.float32, casting="same_kind"),
    "an order": lambda x: x.astype("d", "C"),
    "sizes of NumPy's": lambda x: x.reshape(np.int64(10), -1),
    "sizes in a tuple": lambda x: x.reshape((np.int32(3), 10)),
    "dims by place": lambda x: x.transpose(1, 0),
    "dims by name": lambda x: np.swapaxes(x, axis1=0, axis2=1),
    "keepdims by place": lambda x: x.max(0, None, True),
    "a type by place": lambda x: x.sum(0, np.float32),
    "no place for the result": lambda x: np.sum(x, axis=0, out=None),
    "ddof by place": lambda x: x.var(0, None, None, 1),
    "a type to work in": lambda x: x.std(axis=1, dtype=np.float32),
    "a bound alone": lambda x: x.clip(min=0),
    "bounds by old names": lambda x: np.clip(x, a_min=-1, a_max=1),
    "a trace": lambda x: x.trace(1),
    "an initial number": lambda x: np.sum(x, axis=0, initial=2.5),
    "an initial maximum": lambda x: np.max(x, axis=0, initial=0.5),
    "an initial minimum of nothing": lambda x: np.min(x[:0], axis=0, initial=0.5),
    "a part of a sum": lambda x: np.sum(x, axis=1, where=MASK),
    "a part of a product": lambda x: np.prod(x, where=MASK),
    "a part of a maximum": lambda x: np.max(x, axis=0, initial=-9, where=MASK),
    "a part of a mean": lambda x: np.mean(x, axis=0, where=MASK),
    "a part that broadcasts": lambda x: np.mean(x, axis=1, where=MASK[0], keepdims=True),
    "a part of any": lambda x: np.any(x > 1, axis=0, where=MASK),
    "a part of all": lambda x: np.all(x > -1, axis=1, where=MASK),
    "like another in an order": lambda x: np.zeros_like(x, order="K"),
    "like another in a shape": lambda x: np.full_like(x, 2, shape=(2,)),
    "a split by name": lambda x: np.array_split(x, indices_or_sections=2)[1],
    "a quantile by name": lambda x: np.quantile(x, q=0.25, axis=1, method="linear"),
    "a difference by name": lambda x: np.diff(x, n=1, axis=0),
    "repeats by name": lambda x: np.repeat(x, repeats=2, axis=0),
    "a norm by name": lambda x: np.linalg.norm(x, ord=2, axis=0),
}


@pytest.mark.parametrize("spec", [gs.P("x", "y"), gs.P(None, "x"), gs.P()], ids=repr)
@pytest.mark.parametrize("name", SPELLINGS)
def test_what_numpy_takes(name: str, spec: gs.P) -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"), devices=gs.devices()[:6])
    data = np.random.default_rng(2).standard_normal(MASK.shape)
    x = gs.device_put(data, gs.NamedSharding(mesh, spec))
    want, got = SPELLINGS[name](data), SPELLINGS[name](x)
    assert isinstance(got, gs.Array)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-5 if want.dtype == "f" else 1e-12)


ENDS = np.arange(1.0, 9) * 1.7
BETWEEN: dict[str, Callable[[Any, Any], Any]] = {
    "arrays": lambda m, x: m.linspace(x, 2 * x, 5),
    "arrays that broadcast": lambda m, x: m.linspace(0, x, 4, axis=-1, endpoint=False),
    "integers": lambda m, x: m.linspace(x, 3 * x, 4, dtype=int, axis=1),
    "no numbers": lambda m, x: m.linspace(x, 2, 0),
    "one number": lambda m, x: m.linspace(x, 2, 1),
    "equal ends": lambda m, x: m.linspace(x, x, 3),
    "a step": lambda m, x: m.linspace(x, 9, 3, retstep=True)[1],
    "a step of numbers": lambda m, x: x + m.linspace(1, 9, 3, retstep=True)[1],
    "ends on devices": lambda m, x: m.linspace(x[0], x[3], num=3),
    "exponents": lambda m, x: m.logspace(x / 9, 1, 4, axis=1),
    "bases": lambda m, x: m.logspace(0, 2, 3, base=x, axis=1),
    "ratios": lambda m, x: m.geomspace(start=x, stop=99, num=4, axis=1),
    "negative ratios": lambda m, x: m.geomspace(-x, -1, 4, endpoint=False),
    "ratios of elements": lambda m, x: m.geomspace(x[0], x[1], 4),
    "a range": lambda m, x: m.arange(start=x[0], stop=x[7], step=x[1]),
    "a range to an element": lambda m, x: m.arange(x[2]),
    "a number of parts": lambda m, x: m.split(x, np.array(2))[1],
    "dims in an array": lambda m, x: m.transpose(x.reshape(2, 1, 4), np.argsort((2, 0, 1))),
    "dims of a method": lambda m, x: x.reshape(2, 1, 4).transpose(np.argsort((2, 0, 1))),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_numbers_that_are_in_arrays(name: str) -> None:
    x = gs.device_put(ENDS, gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
    want, got = BETWEEN[name](np, ENDS), BETWEEN[name](gs.numpy, x)
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("num", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("endpoint", [True, False])
def test_numbers_between_elements_and_numbers(num: int, endpoint: bool) -> None:
    """Of both signs, equal, and many or one; the step that one number has is none."""
    data, rows = np.array([1.5, -2, 7, 3]), gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    x = gs.device_put(data, rows)
    for other in (3.0, -4, data * 2, data[::-1].copy()):
        for ends in ((data, other), (other, data), (2.5, other), (other, 3)):
            given = [x if end is data else end for end in ends]
            want, step = np.linspace(*ends, num, endpoint, retstep=True)
            got, own = gs.numpy.linspace(*given, num, endpoint, retstep=True)
            assert got.shape == want.shape and np.shape(own) == want.shape[1:]
            np.testing.assert_allclose(np.asarray(got), want, rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(np.asarray(own), step, rtol=1e-12)
            if np.ndim(ends[0]) or np.ndim(ends[1]):
                want = np.geomspace(*np.broadcast_arrays(*ends), num, endpoint)
                got = gs.numpy.geomspace(*given, num, endpoint)
                same = np.sign(ends[0]) == np.sign(ends[1])
                np.testing.assert_allclose(
                    np.asarray(got)[:, same], want[:, same], rtol=1e-12, atol=0
                )


@pytest.mark.parametrize("start", [-1, 0, 1])
@pytest.mark.parametrize("stop", [-1, 0, 1])
def test_numbers_at_equal_ratios_have_one_sign(start: int, stop: int) -> None:
    if start * stop > 0:
        assert gs.numpy.geomspace(start, stop, 3).tolist() == [start] * 3
        return
    with pytest.raises(ArgumentError, match=rf"geomspace: start={start} and stop={stop} must have"):
        gs.numpy.geomspace(start, stop, 3)


REFUSED = ["sum", "prod", "min", "max", "any", "all", "mean", "var", "std", "argmin", "argmax"]


@pytest.mark.parametrize("name", [*REFUSED, "cumsum", "cumprod", "trace"])
def test_methods_refuse_a_place_for_the_result(name: str) -> None:
    x = gs.device_put(np.ones((2, 2)))
    with pytest.raises(ArgumentError, match=r"out= is not supported, results are values"):
        getattr(x, name)(out=np.zeros(()))
