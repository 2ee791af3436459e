"""Bits of bytes, scalars and their types, orders of Einstein sums: against NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.calls import Call, everywhere
from tests.numpy.compare import put, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")


@pytest.mark.parametrize("order", ["big", "little"])
@pytest.mark.parametrize("axis", [None, 0, -1])
def test_bits(axis: Any, order: Any) -> None:
    for shape in ((16, 5), (3, 8), (9,), (0, 4), (2, 3, 11)):
        for dtype in "?bl":
            data = value(shape, dtype)
            everywhere(lambda ns, x: ns.packbits(x, axis, order), data, exact=True)
        data = (value(shape, "l") * 37).astype(np.uint8)
        size = 8 * (data.size if axis is None else shape[axis])
        # NumPy's zeros are none where there is nothing.
        counts = (None, 0, 3, -3, 30, 200, size, -size, 1 - size) if data.size else (None,)
        for count in counts:
            call: Call = lambda ns, x: ns.unpackbits(x, axis, count, order)  # noqa: B023, E731
            if count is None or count >= -size:
                everywhere(call, data, exact=True)
    assert not np.asarray(gnp.unpackbits(put(np.zeros(0, np.uint8)), count=9)).any()


ABSTRACT = ["generic", "number", "inexact", "integer", "signedinteger", "unsignedinteger"]
ABSTRACT += ["floating", "complexfloating"]
CONCRETE = ["int_", "uint", "intp", "single", "double", "csingle", "cdouble", "dtype", "bool_"]


def test_types_of_scalars_are_numpys() -> None:
    for name in (*ABSTRACT, *CONCRETE):
        assert getattr(gnp, name) is getattr(np, name)


@pytest.mark.parametrize("kind", [*ABSTRACT, "int8", "float64", "bool_"])
def test_subtypes(kind: str) -> None:
    for one in (*ABSTRACT, "int8", "uint16", "float32", "complex64", "bool_"):
        wanted = np.issubdtype(getattr(np, one), getattr(np, kind))
        assert gnp.issubdtype(getattr(gnp, one), getattr(gnp, kind)) is wanted
    assert gnp.issubdtype(gnp.ones(3, dtype="f"), gnp.floating)
    assert gnp.issubdtype("i4", "i4") and not gnp.issubdtype(float, int)


def test_subtypes_of_others(jax: Any) -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("bfloat16", "float8_e4m3fn", "int4", "uint4"):
        own = getattr(ml_dtypes, name)
        for kind in (*ABSTRACT, "float32", "int8"):
            wanted = jax.numpy.issubdtype(own, getattr(np, kind))
            assert gnp.issubdtype(own, getattr(gnp, kind)) == wanted, (name, kind)
        assert gnp.issubdtype(np.dtype(own), own)


def test_subtypes_of_narrow_types() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    kinds = {
        "bfloat16": {"floating", "inexact", "number", "generic"},
        "float8_e5m2": {"floating", "inexact", "number", "generic"},
        "int4": {"signedinteger", "integer", "number", "generic"},
        "uint4": {"unsignedinteger", "integer", "number", "generic"},
    }
    for name, kind in kinds.items():
        own = getattr(ml_dtypes, name)
        for given in (own, np.dtype(own), gs.device_put(np.ones(2, own))):
            found = {each for each in ABSTRACT if gnp.issubdtype(given, getattr(np, each))}
            assert found == kind, name
            for other in kinds:
                assert gnp.issubdtype(given, getattr(ml_dtypes, other)) is (other == name)
            assert gnp.issubdtype(given, np.float32) is gnp.issubdtype(given, "int8") is False


def test_types_as_arrays_have_them() -> None:
    keys = gs.random.key(0).dtype
    assert gs.dtypes.canonicalize_dtype(keys, allow_extended_dtype=True) is keys
    assert gs.dtypes.canonicalize_dtype(int) == np.dtype("int64")
    assert gs.dtypes.can_cast(keys, keys, "no")
    assert not gs.dtypes.can_cast(keys, np.dtype("u4"), "unsafe")
    for given in (keys, "no type", object()):
        with pytest.raises(ArgumentTypeError, match="is not a dtype") as caught:
            gs.dtypes.canonicalize_dtype(given)
        assert caught.value.argument == "dtype"
    for given in ("M8[s]", np.array(["text"])):
        with pytest.raises(ArgumentTypeError, match="must be of numbers or booleans"):
            gs.dtypes.scalar_type_of(given)


def test_what_is_no_type() -> None:
    for pair in (("x", int), (int, "no"), (3, int)):
        with pytest.raises(ArgumentTypeError, match="must be types"):
            gnp.issubdtype(*pair)


def test_scalars() -> None:
    for one in (1, 2.5, True, np.float32(2), "text", None, [1], np.ones(1), np.array(1)):
        assert gnp.isscalar(one) == np.isscalar(one)
    assert gnp.isscalar(put(np.ones(8), "x").sum()) and not gnp.isscalar(put(np.ones(8), "x"))


def test_orders_of_products() -> None:
    data = [np.ones((8, 9)), np.ones((9, 9)), np.ones((9, 3))]
    arrays = [put(x, "x") for x in data]
    with gs.transfer_guard("disallow"):
        for optimize in ("greedy", "optimal", True, False):
            found = gnp.einsum_path("ij,jk,kl->il", *arrays, optimize=optimize)
            assert found == np.einsum_path("ij,jk,kl->il", *data, optimize=optimize)
        assert np.einsum_path("ij,jk", *arrays[:2]) == np.einsum_path("ij,jk", *data[:2])
    with pytest.raises(ArgumentError, match="einsum_path"):
        gnp.einsum_path("ij,jk", arrays[0])
