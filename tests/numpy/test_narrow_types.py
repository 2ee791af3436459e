"""bfloat16 and float8: what types results have, and that sums are of single precision."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import dtypes
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.compare import put

ml_dtypes = pytest.importorskip("ml_dtypes", reason="not installed: pip install ml_dtypes")

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")
BF = np.dtype(ml_dtypes.bfloat16)
F8 = np.dtype(ml_dtypes.float8_e4m3fn)
NARROW = [BF, F8, np.dtype(np.float16)]
SPLITS: list[tuple[Any, ...]] = [(), ("x",), (("x", "y"),)]


def is_only_stored(dtype: Any, call: Callable[[], Any]) -> bool:
    """Whether GPUs only store a type; then they refuse the call."""
    if gs.default_backend() != "gpu" or not dtypes.is_custom(np.dtype(dtype)) or dtype == BF:
        return False
    with pytest.raises(ArgumentTypeError, match=rf"{np.dtype(dtype)} on gpu devices.* only store"):
        call()
    return True


def many(dtype: Any, length: int = 3000) -> np.ndarray:
    """Return ones, of which few have a sum that the type can hold in steps of one."""
    return np.ones(length, dtype)


def among(x: Any, every: int, number: int) -> Any:
    """Return zeros, and a number in every so many places."""
    return (gnp.arange(x.size) % every == 0).astype(x.dtype) * number


SUMS: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x.sum() / 1024,
    "mean": lambda x: x.mean(),
    "sum with a dtype": lambda x: x.astype("f").sum(dtype=x.dtype) / 1024,
    "mean of some": lambda x: gnp.mean(x, where=x > 0),
    "variance": lambda x: gnp.var(x + (gnp.arange(x.size) % 2).astype("i1")),
    "deviation": lambda x: gnp.std(x + (gnp.arange(x.size) % 2).astype("i1")),
    "variance of some": lambda x: gnp.var(x * among(x, 10, 600), where=np.arange(x.size) > 9),
    "deviation of some": lambda x: gnp.std(x * 1000 + among(x, 2, 4), where=np.arange(x.size) > 9),
    "variance around": lambda x: gnp.nanvar(x * among(x, 10, 600), mean=x[:1] * 60),
    "nansum": lambda x: gnp.nansum(x) / 1024,
    "nanmean": lambda x: gnp.nanmean(x),
    "cumsum": lambda x: gnp.cumsum(x)[-1] / 1024,
    "cumulative_sum": lambda x: gnp.cumulative_sum(x)[-1] / 1024,
    "prod": lambda x: gnp.prod(x[:700] * 1.0078125),
    "cumprod": lambda x: gnp.cumprod(x)[-1],
    "dot": lambda x: (x @ x) / 1024,
    "einsum": lambda x: gnp.einsum("i,i->", x, x) / 1024,
    "tensordot": lambda x: gnp.tensordot(x, x, 1) / 1024,
    "vecdot": lambda x: gnp.vecdot(x, x) / 1024,
    "norm": lambda x: gnp.linalg.norm(x),
    "norm 1": lambda x: gnp.linalg.norm(x, 1) / 1024,
    "norm 3": lambda x: gnp.linalg.vector_norm(x, ord=3),
    "matrix norm": lambda x: gnp.linalg.matrix_norm(x.reshape(60, 50)),
    "norm of large numbers": lambda x: gnp.linalg.norm(x[:4] * 300),
    "norm 3 of large numbers": lambda x: gnp.linalg.vector_norm(x[:4] * 300, ord=3),
    "matrix norm of large numbers": lambda x: gnp.linalg.matrix_norm(x[:4].reshape(2, 2) * 300),
    "trapezoid": lambda x: gnp.trapezoid(x) / 1024,
    "average": lambda x: gnp.average(x, weights=x),
    "convolve": lambda x: gnp.convolve(x, x, "valid")[0] / 1024,
    "trace": lambda x: gnp.trace(gnp.ones((400, 400), dtype=x.dtype)) / 1024,
    "additions": lambda x: x.at[gnp.zeros(400, dtype=int)].add(x[:400])[0] / 1024,
    "logsumexp": lambda x: gs.special.logsumexp(x),
}


@pytest.mark.parametrize("dtype", [BF, np.dtype(np.float16)], ids=str)
@pytest.mark.parametrize("call", SUMS.values(), ids=SUMS)
def test_sums_are_of_single_precision(call: Callable[[Any], Any], dtype: Any) -> None:
    for split in SPLITS:
        x = put(many(dtype), *split)
        with np.errstate(all="ignore"):
            found, exact = call(x), float(call(x.astype(np.float64)))
        value = np.asarray(found)
        assert value.dtype == found.dtype == dtype
        if np.isfinite(float(exact)) and exact < float(dtypes.finfo(dtype).max):
            assert abs(float(value) - exact) <= 2 * float(dtypes.finfo(dtype).eps) * abs(exact)


@pytest.mark.parametrize("dtype", [BF, np.dtype(np.float16)], ids=str)
def test_counts_add_narrow_weights_up_as_wide_ones(dtype: Any) -> None:
    """`bincount` gives float64, as NumPy's does; `histogram` gives the type of the weights."""
    data = np.arange(3000) * 5 % 7 // 3
    weights = (np.arange(3000) % 16 * 0.25).astype(dtype)
    wanted = np.bincount(data, weights.astype(np.float64))
    for split in SPLITS:
        x, heavy = put(data, *split), put(weights, *split)
        for found in (gnp.bincount(x, heavy), gnp.bincount(x, weights, length=3)):
            assert found.dtype == np.asarray(found).dtype == np.bincount(data, weights).dtype
            np.testing.assert_array_equal(np.asarray(found), wanted)
        sums, _ = gnp.histogram(x, np.arange(4), weights=heavy)
        assert sums.dtype == np.asarray(sums).dtype == dtype
        np.testing.assert_array_equal(np.asarray(sums), wanted.astype(dtype))


def test_a_hundred_thousand_ones() -> None:
    x = put(np.ones(100_000, BF), "x")
    assert float(x.sum()) == float(x.sum(dtype="f4").astype(BF)) == 99840
    assert float(x.mean()) == 1
    assert float(put(np.ones((5000, 2), "e")).sum(0)[0]) == 5000


ALSO = ["?", "b", "B", "i", "l", "e", "f", "d", "F", BF]


@pytest.mark.parametrize("other", ALSO, ids=str)
def test_types_promote_as_those_of_jax(jax: Any, other: Any) -> None:
    wanted = jax.numpy.promote_types(BF, other)
    x, y = put(np.ones(8, BF), "x"), put(np.ones(8, other), "x")
    for found in (x + y, y * x, gnp.maximum(x, y), gnp.where(x > 0, x, y), gnp.concat([x, y])):
        assert found.dtype == np.asarray(found).dtype == wanted
    assert gnp.result_type(x, y) == gnp.promote_types(BF, other) == wanted


@pytest.mark.parametrize(
    ("other", "wanted"),
    [("e", "f"), ("f", "f"), ("d", "d"), ("F", "F"), ("D", "D"), (1j, "F"), (1.0, BF),
     ("l", BF), ("?", BF), (True, BF), (BF, BF)],
)  # fmt: skip
def test_types_that_bfloat16_has_in_common_with_others(other: Any, wanted: Any) -> None:
    assert gnp.result_type(BF, other) == gnp.result_type(other, BF) == np.dtype(wanted)
    assert gnp.result_type(BF, other, np.int8, 1.5) == np.dtype(wanted)


@pytest.mark.parametrize("dtype", [BF, F8], ids=str)
def test_pythons_numbers_have_no_say_in_the_type(dtype: Any) -> None:
    x = put(np.arange(8).astype(dtype), "x")
    if is_only_stored(dtype, lambda: x + 1.5):
        return
    made = [x + 1.5, 2 * x, x - True, x**2, 2.0**x, x / 3, np.add(x, 0.5), gnp.clip(x, 0.5, 2)]
    made += [gnp.where(x > 1, x, 0.5), gnp.maximum(x, 0), x + 10**2, gnp.add(x, 1.5, dtype=dtype)]
    made += [gs.special.xlogy(x, 2.0), gs.special.erf(x), gnp.degrees(x), gnp.ldexp(x, 1)]
    for found in made:
        assert found.dtype == np.asarray(found).dtype == dtype
        assert found.sharding == x.sharding
    assert (x + 1j).dtype == np.complex64 and (x < 1e300).dtype == bool
    assert not np.asarray(x > 10**40).any()
    x += 0.5
    x *= gnp.arange(8)
    assert x.dtype == dtype


def test_float8_beside_other_floats() -> None:
    x, y = put(np.ones(8, F8), "x"), put(np.ones(8, BF), "x")
    if not is_only_stored(F8, lambda: x + put(np.ones(8, "f"))):
        assert (x + put(np.ones(8, "f"))).dtype == np.float32
    for call in (lambda: x + y, lambda: gnp.where(x > 0, x, y), lambda: gnp.result_type(F8, BF)):
        with pytest.raises(ArgumentTypeError, match=r"float8_e4m3fn.*astype"):
            call()
    with pytest.raises(ArgumentTypeError, match=r"float8_e4m3fn, float16.*astype"):
        gnp.result_type(F8, np.dtype("e"))
    wide = np.dtype(ml_dtypes.float8_e5m2)  # as many bits of exponent as float16
    assert gnp.result_type(wide, np.dtype("e")) == np.result_type(wide, "e") == np.float32


def test_types_of_three_are_those_of_two_and_the_third() -> None:
    def common(*types: Any) -> Any:
        try:
            return gnp.result_type(*types)
        except ArgumentTypeError:
            return None

    for three in itertools.combinations_with_replacement([*map(np.dtype, "?befdFD"), BF, F8], 3):
        in_turn = {
            common(common(one, two), other)
            for one, two, other in itertools.permutations(three)
            if common(one, two) and common(common(one, two), other)
        }
        found = common(*three)
        assert in_turn == {found} - {None} or set(three) == set(NARROW), three


def test_what_types_are() -> None:
    assert float(gnp.finfo(BF).eps) == 2**-7 and gnp.finfo(F8).bits == 8
    assert gnp.iinfo(ml_dtypes.int4).max == 7
    assert gnp.isdtype(BF, "real floating") and gnp.isdtype(F8, ("bool", "numeric"))
    assert not gnp.isdtype(BF, "integral") and gnp.isdtype(BF, ml_dtypes.bfloat16)
    assert gnp.isdtype(np.dtype(ml_dtypes.int4), "signed integer")
    assert gnp.can_cast(BF, np.float32) and not gnp.can_cast(np.float32, BF)
    assert gnp.can_cast(np.float16, BF, "same_kind") and gnp.can_cast("i4", BF, "same_kind")
    assert not gnp.can_cast(np.complex64, BF, "same_kind")
    with pytest.raises(ArgumentTypeError, match="bfloat16 is no type of integers"):
        gnp.iinfo(BF)
    with pytest.raises(ArgumentError, match="kind='float' is unknown"):
        gnp.isdtype(BF, "float")


def test_names() -> None:
    for name in dtypes.NAMES:
        assert getattr(gnp, name) is getattr(gs, name) is getattr(ml_dtypes, name)
    x = gnp.asarray([1.5, 2.5], dtype=gnp.bfloat16)
    if not is_only_stored(ml_dtypes.float8_e5m2, lambda: x.astype("float8_e5m2")):
        assert x.astype("float8_e5m2").dtype == ml_dtypes.float8_e5m2


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dtypes, "find_spec", lambda name: None)
    assert not hasattr(gnp, "bfloat16") and not hasattr(gs, "float8_e5m2")


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_order_with_nans(dtype: Any) -> None:
    data = np.array([3, np.nan, 1, -2, 0.5, 0, 7, np.nan]).astype(dtype)
    wide = data.astype(np.float32)
    for split in SPLITS:
        x = put(data, *split)
        if is_only_stored(dtype, lambda x=x: gnp.sort(x)):
            continue
        for name in ("sort", "argsort", "unique", "max", "nanmax", "argmax", "median", "nanmedian"):
            found, want = getattr(gnp, name)(x), getattr(np, name)(wide)
            np.testing.assert_array_equal(np.asarray(found).astype(want.dtype), want)


def test_small_integers_of_others() -> None:
    x = put(np.array([3, -2, 1, 7] * 8, ml_dtypes.int4), "x")
    if is_only_stored(x.dtype, lambda: x.sum()):
        return
    assert x.sum().dtype == np.int64 and int(x.sum()) == 72
    assert gnp.cumsum(x).dtype == np.int64 and x.mean().dtype == np.float64
    assert np.asarray(gnp.sort(x)).astype(int).tolist() == sorted([3, -2, 1, 7] * 8)
