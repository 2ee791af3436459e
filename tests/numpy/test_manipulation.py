"""Functions that move elements against NumPy's; all of it is exact."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.numpy.compare import LAYOUTS, agree, placed, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("domains")

CALLS: dict[str, list[tuple[Any, ...]]] = {
    "expand_dims": [(0,), (-1,), ((0, 2),), ((0, -1),), (7,), ((1, 1),)],
    "squeeze": [(), (0,)],
    "reshape": [((-1,),), ((2, -1),), ((-1, 1),), ((4, 4, 4),), ((-1, -1),)],
    "ravel": [()],
    "transpose": [(), ((0, 1),), ((1, 0),), ((-1, 0),), ((0, 0),), ((0,),)],
    "swapaxes": [(0, 1), (0, -1), (0, 5)],
    "moveaxis": [(0, 1), (-1, 0), ((0, 1), (1, 0)), ((0, 1), (0,)), (0, 9)],
    "flip": [(), (0,), (-1,), ((0, 1),), (3,)],
    "flipud": [()],
    "fliplr": [()],
    "roll": [(2,), (-3,), (1, 0), (-1, 1), ((1, 2), (0, 1)), (3, (0, 1)), ((1, 2), 0), (1, 5)],
    "tile": [(2,), ((2, 1),), ((2, 1, 3),), ((0, 1),), ((1, 1),)],
    "repeat": [(2,), (3, 0), (2, -1), (0, 1)],
    "diagonal": [(), (1,), (-2,), (0, 1, 0), (9,), (0, 1, 1)],
    "matrix_transpose": [()],
    "atleast_1d": [()],
    "atleast_2d": [()],
    "broadcast_to": [((2, 8, 6),), ((2, 5, 3),), ((1, 4, 3),), ((8,),), ((3, 3),)],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, layout: str) -> None:
    data, x = placed(layout)
    for arguments in CALLS[name]:
        if name == "transpose" and data.ndim == 3:
            continue
        if name == "reshape" and layout == "empty" and arguments[0] in ((2, -1), (-1, 1)):
            continue  # the size is not determined, or is
        agree(
            lambda: getattr(gnp, name)(x, *arguments),  # noqa: B023
            lambda: getattr(np, name)(data, *arguments),  # noqa: B023
        )


@pytest.mark.parametrize("shape", [(1, 3, 1), (1,), ()])
def test_dims_of_length_one(shape: tuple[int, ...]) -> None:
    data = value(shape, "f")
    x = put(data, *(None,) * len(shape))
    for axis in (None, 0, (0, -1), 1) if shape else (None, ()):
        agree(lambda: gnp.squeeze(x, axis), lambda: np.squeeze(data, axis))  # noqa: B023
    same(gnp.atleast_2d(x), np.atleast_2d(data))
    same(gnp.atleast_1d(x, x), np.atleast_1d(data, data))
    same(gnp.broadcast_to(x, (2, 4, 3, 5)), np.broadcast_to(data, (2, 4, 3, 5))) if len(
        shape
    ) == 3 else None


PADS: list[Any] = [2, (1, 2), ((1, 0), (0, 3)), 0, ((0, 0), (5, 7)), [[1], [2]]]


@pytest.mark.parametrize("layout", ["even", "uneven", "joined", "replicated"])
@pytest.mark.parametrize("mode", ["constant", "edge", "wrap", "reflect", "symmetric"])
def test_pad(mode: Any, layout: str) -> None:
    data, x = placed(layout)
    for widths in PADS:
        same(gnp.pad(x, widths, mode), np.pad(data, widths, mode))


@pytest.mark.parametrize("constants", [3, -1.5, (1, 2), ((1, 2), (3, 4))])
def test_pad_with_constants(constants: Any) -> None:
    for dtype in ("d", "b"):
        data, x = placed("uneven", dtype)
        wanted = np.pad(data, ((1, 2), (2, 1)), constant_values=constants)
        same(gnp.pad(x, ((1, 2), (2, 1)), constant_values=constants), wanted)


def test_pad_of_short_and_empty_dims() -> None:
    data = value((1, 3), "d")
    for mode in ("edge", "wrap", "reflect", "symmetric"):
        same(gnp.pad(put(data), ((3, 2), (0, 0)), mode), np.pad(data, ((3, 2), (0, 0)), mode))  # type: ignore[call-overload]
    empty = np.zeros((0, 3))
    agree(lambda: gnp.pad(put(empty), 1, "edge"), lambda: np.pad(empty, 1, "edge"))
    same(gnp.pad(put(empty), 1), np.pad(empty, 1))
    same(gnp.pad(put(data), 1, "mean"), np.pad(data, 1, "mean"))


@pytest.mark.parametrize("name", ["concat", "stack", "vstack", "hstack", "dstack", "column_stack"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_joining(name: str, layout: str) -> None:
    data, x = placed(layout)
    other, y = placed(layout, "f", "other")
    agree(lambda: getattr(gnp, name)([x, y, x]), lambda: getattr(np, name)([data, other, data]))
    agree(lambda: getattr(gnp, name)([y, other]), lambda: getattr(np, name)([other, other]))
    if name in ("concat", "stack"):
        for axis in (1, -1, 4):
            agree(
                lambda: getattr(gnp, name)((x, y), axis=axis),  # noqa: B023
                lambda: getattr(np, name)((data, other), axis=axis),  # noqa: B023
            )
        agree(
            lambda: getattr(gnp, name)((x, y), dtype="f"),
            lambda: getattr(np, name)((data, other), dtype="f"),
        )


def test_joining_vectors() -> None:
    a, b = value((5,), "l", "a"), value((3,), "d", "b")
    x, y = put(a, "x"), put(b, "y")
    for name in ("concat", "hstack"):
        same(getattr(gnp, name)([x, y]), getattr(np, name)([a, b]))
    for name in ("vstack", "dstack", "column_stack", "stack"):
        agree(lambda: getattr(gnp, name)([x, y]), lambda: getattr(np, name)([a, b]))  # noqa: B023
        same(getattr(gnp, name)([x, x]), getattr(np, name)([a, a]))
    same(
        gnp.concat([x, put(value((2, 2), "d"))], axis=None),
        np.concat([a, value((2, 2), "d")], axis=None),
    )
    same(gnp.stack([gs.device_put(1.5), 2.5]), np.stack([1.5, 2.5]))
    same(gnp.concat([[1, 2], [3]]), np.concat([[1, 2], [3]]))
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        same(getattr(gnp, name)([x]), getattr(np, name)([a]))


def test_parts_and_broadcasting_together() -> None:
    data, x = placed("cube")
    for axis in (0, 1, -1):
        same(gnp.unstack(x, axis=axis), np.unstack(data, axis=axis))
    a, b = value((4, 1), "d"), value((3,), "d")
    same(gnp.broadcast_arrays(put(a, "x"), put(b, "y")), np.broadcast_arrays(a, b))
    assert gnp.broadcast_shapes((4, 1), (3,), (2, 1, 1)) == (2, 4, 3)


def test_shifts_in_an_array() -> None:
    data, x = placed("even")
    by = np.array([2, -1])
    for shifts in (by, gs.device_put(by)):
        same(gnp.roll(x, shifts, (0, 1)), np.roll(data, by, (0, 1)))


def test_elements_shifted_by_a_traced_number() -> None:
    data, x = placed("even")
    for axis in (None, 0, -1):
        turned = gs.jit(lambda x, by, axis=axis: gnp.roll(x, by, axis))
        for by in (5, -2):
            same(turned(x, by), np.roll(data, by, axis))


def test_dims_keep_their_axes() -> None:
    _, x = placed("even")
    assert gnp.transpose(x).sharding.spec == gs.P("y", "x")
    assert gnp.flip(x).sharding.spec == gs.P("x", "y")
    assert gnp.concat([x, x]).sharding.spec == gs.P("x", "y")
    assert gnp.expand_dims(x, 1).sharding.spec == gs.P("x", None, "y")
    assert gnp.stack([x, x], out_sharding=gs.P(None, "x")).sharding.spec == gs.P(None, "x")


def test_copies_of_equal_value() -> None:
    data, x = placed("uneven")
    same(gnp.copy(x), data)
    same(gnp.reshape(x, (15,), copy=True), data.reshape(15))
