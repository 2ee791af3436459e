"""Every public name of `lax` has a definition here, or is one of these."""

from __future__ import annotations

import enum
import typing

import pytest

import gpushard as gs
from gpushard.lax import collectives
from tests.lax.calls import MODULES
from tests.lax.definitions.registry import DEFINITIONS

TYPES = {
    "ConvDimensionNumbers",
    "ConvGeneralDilatedDimensionNumbers",
    "DotDimensionNumbers",
    "FftType",
    "GatherDimensionNumbers",
    "GatherScatterMode",
    "Precision",
    "RoundingMethod",
    "ScatterDimensionNumbers",
}
FOLDERS = {"linalg"}  # tests/lax/test_matrices.py has its functions  # fmt: skip


def test_each_name_is_defined() -> None:
    assert MODULES
    names = (
        {*gs.lax.__all__} - TYPES - FOLDERS - {*collectives.__all__}
    )  # tests/transforms has collectives
    assert names == {*DEFINITIONS}


@pytest.mark.parametrize("name", sorted(TYPES))
def test_types(name: str) -> None:
    kind = getattr(gs.lax, name)
    is_enum = isinstance(kind, type) and issubclass(kind, enum.Enum)
    is_tuple = isinstance(kind, type) and issubclass(kind, tuple)
    assert is_enum or is_tuple or typing.get_args(kind)


def test_fields() -> None:
    assert [*gs.lax.FftType.__members__.items()] == [
        ("FFT", 0),
        ("IFFT", 1),
        ("RFFT", 2),
        ("IRFFT", 3),
    ]
    assert [*gs.lax.RoundingMethod.__members__] == ["AWAY_FROM_ZERO", "TO_NEAREST_EVEN"]
    assert [int(each) for each in gs.lax.RoundingMethod] == [0, 1]
    assert [*gs.lax.Precision.__members__] == ["DEFAULT", "HIGH", "HIGHEST"]
    modes = ["CLIP", "FILL_OR_DROP", "PROMISE_IN_BOUNDS", "ONE_HOT"]
    assert [*gs.lax.GatherScatterMode.__members__] == modes
    assert gs.lax.GatherDimensionNumbers((), (0,), (0,))[3:] == ((), ())
    assert gs.lax.ScatterDimensionNumbers((), (0,), (0,))[3:] == ((), ())


def test_sums_of_numbers_are_numbers() -> None:
    """`psum(1, name)` is the size of an axis, which shapes may be made of."""
    sizes = []

    def function(x: gs.Array) -> gs.Array:
        sizes.append((gs.lax.psum(1, "i"), gs.lax.psum(2.5, "i"), gs.lax.axis_size("i")))
        return x

    gs.vmap(function, axis_name="i")(gs.numpy.arange(3))
    assert sizes == [(3, 7.5, 3)]
    assert [type(size) for size in sizes[0]] == [int, float, int]
