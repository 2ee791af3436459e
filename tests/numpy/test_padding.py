"""`pad` against NumPy's, with all modes, eagerly and traced."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError
from tests.numpy.compare import LAYOUTS, placed, put, same, value
from tests.numpy.matrices import ONE_RUNTIME
from tests.share import some

gnp = gs.numpy
pytestmark = [pytest.mark.usefixtures("domains"), ONE_RUNTIME]

WIDTHS: list[Any] = [1, (0, 3), (9, 0), 7]

FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "edge": ("edge", {}),
    "wrap": ("wrap", {}),
    "reflect": ("reflect", {}),
    "symmetric": ("symmetric", {}),
    "odd reflect": ("reflect", {"reflect_type": "odd"}),
    "odd symmetric": ("symmetric", {"reflect_type": "odd"}),
    "ramp": ("linear_ramp", {}),
    "ramp to two": ("linear_ramp", {"end_values": (-2, 7)}),
    "maximum": ("maximum", {}),
    "maximum of two": ("maximum", {"stat_length": 2}),
    "minimum": ("minimum", {"stat_length": (1, 30)}),
    "mean": ("mean", {}),
    "mean of two": ("mean", {"stat_length": (2, 3)}),
    "median": ("median", {}),
    "median of two": ("median", {"stat_length": 2}),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("dtype", some(["b", "f"], ["b", "l", "f", "d", "D", "H"]))
@pytest.mark.parametrize("form", FORMS)
def test_modes(form: str, dtype: str) -> None:
    mode, options = FORMS[form]
    if dtype == "H" and "end_values" in options:
        options = {"end_values": (2, 7)}
    for number, (shape, spec) in enumerate(LAYOUTS.values()):
        if not shape[0] or len(shape) > 2:
            continue
        data = value(shape, dtype)
        x, width = put(data, *spec), WIDTHS[number % len(WIDTHS)]
        expected = np.pad(data, width, mode, **options)  # type: ignore[call-overload]
        same(gnp.pad(x, width, mode, **options), expected, exact=False)
        traced = gs.jit(lambda x, w=width: gnp.pad(x, w, mode, **options))
        same(traced(x), expected, exact=False)


@pytest.mark.parametrize("mode", ["reflect", "symmetric", "linear_ramp", "mean", "maximum"])
def test_lines_of_one_element(mode: str) -> None:
    data = np.array([[3.0], [4.0]])
    same(gnp.pad(put(data, "x"), 2, mode), np.pad(data, 2, mode))  # type: ignore[call-overload]


def test_booleans_are_mirrored_at_points() -> None:
    data = np.array([True, False, False, True, True])
    for mode in ("reflect", "symmetric"):
        expected = np.pad(data, 3, mode, reflect_type="odd")  # type: ignore[call-overload]
        same(gnp.pad(put(data, "x"), 3, mode, reflect_type="odd"), expected)


def fill(vector: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
    vector[: width[0]] = options.get("left", 10) + axis
    vector[len(vector) - width[1] :] = -1


def filled(vector: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> Any:
    fill(vector, width, axis, options)
    return vector


@pytest.mark.parametrize("function", [fill, filled])
@pytest.mark.parametrize("options", [{}, {"left": 5}])
def test_functions(function: Callable[..., Any], options: dict[str, Any]) -> None:
    data, x = placed("uneven")
    for width in ((1, 2), ((1, 0), (0, 2))):
        expected = np.pad(data, width, fill, **options)  # type: ignore[call-overload]
        same(gnp.pad(x, width, function, **options), expected)


def test_a_function_gets_zeros_to_fill() -> None:
    data, x = placed("uneven")

    def raised(vector: Any, width: tuple[int, int], axis: int, options: dict[str, Any]) -> None:
        vector[: width[0]] += axis + 5

    same(gnp.pad(x, (1, 2), raised), np.pad(data, (1, 2), raised))  # type: ignore[call-overload]


def test_nothing_stays_nothing() -> None:
    data, x = placed("empty")
    same(gnp.pad(x, ((0, 0), (2, 0)), "mean"), np.zeros((0, 5)))
    same(gnp.pad(x, 0, "linear_ramp"), data)
    same(gnp.pad(x, 1, "empty") * 0, np.zeros((2, 5)))


def test_traced_end_values() -> None:
    data, x = placed("even")
    for ends in (np.array(3.0), np.array([1.0, 4.0])):
        traced = gs.jit(lambda x, ends: gnp.pad(x, 2, "linear_ramp", end_values=ends))
        same(traced(x, ends), np.pad(data, 2, "linear_ramp", end_values=ends), exact=False)
    traced = gs.jit(lambda x, end: gnp.pad(x, 2, "linear_ramp", end_values=(1.0, end)))
    same(traced(x, 4.0), np.pad(data, 2, "linear_ramp", end_values=(1.0, 4.0)), exact=False)


def test_traced_constants() -> None:
    data, x = placed("uneven")
    wanted = np.pad(data, ((1, 2), (2, 1)), constant_values=(0.5, 4.0))
    traced = gs.jit(lambda x, v: gnp.pad(x, ((1, 2), (2, 1)), constant_values=(0.5, v)))
    same(traced(x, 4.0), wanted)


@pytest.mark.parametrize("lengths", [(0, 2), (2, 0), 0])
def test_nothing_has_no_greatest_element(lengths: Any) -> None:
    _, x = placed("uneven")
    with pytest.raises(ArgumentError, match="stat_length=0 leaves no elements for mode='maximum'"):
        gnp.pad(x, 1, "maximum", stat_length=lengths)
