"""Convolutions, and reductions of windows, beside their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.table import windows as table_of_windows
from tests.lax.calls import (
    Call,
    check,
    check_everywhere,
    check_mapped,
    defined,
    placed,
    same,
    values,
)
from tests.lax.definitions.registry import DTYPES, Refused
from tests.lax.definitions.windows import OPERATIONS


def check_window(*args: Any, **how: Any) -> None:
    """Compare `reduce_window`, whose definition takes the name of the function."""
    x, init, name, *rest = args
    call = Call("reduce_window", *args, **how)
    with np.errstate(all="ignore"):
        operands = placed(x, call.seed()), init, getattr(gs.lax, name)
        try:
            wanted = defined(call)
        except Refused as refusal:
            with pytest.raises(getattr(gs.errors, str(refusal))):
                gs.lax.reduce_window(*operands, *rest, **how)
        else:
            same(gs.lax.reduce_window(*operands, *rest, **how), wanted)


X = values((5, 4), "f8", 1)
LINE = values((7,), "i4", 2)
PADS = [(0, 0), (1, 0), (0, 2), (3, 3), (-1, 0), (0, -2), (-1, 2), (2, -1)]


@pytest.mark.parametrize("pad", ["VALID", "same", "SAME_LOWER", *PADS], ids=str)
def test_windows_of_a_line(pad: Any) -> None:
    padding = pad if isinstance(pad, str) else [pad]
    for window, stride, base, by in itertools.product(range(5), range(4), range(3), range(4)):
        if isinstance(pad, str) and base > 1:
            continue  # what "SAME" means of elements that are apart, JAX's oracle says
        if min(stride, base, by) > 0 or window == 1:
            check_window(LINE, 0, "add", (window,), (stride,), padding, (base,), (by,))


@pytest.mark.parametrize("name", [*OPERATIONS])
def test_functions_of_windows(name: str) -> None:
    for dtype in DTYPES:
        x, init = values((5, 4), dtype, 1), values((), dtype, 2)
        check_window(x, init, name, (2, 3))
        check_window(x, init[()], name, (2, 1), (1, 2), [(1, 1), (-1, 2)], (2, 1), (2, 2))
        check_window(x, init, name, (3, 2), padding="SAME")
    for length in range(3):
        check_window(values((length,), "i4"), 1, name, (2,), padding=[(1, 1)])


def test_a_window_of_all_elements() -> None:
    check_window(LINE, 0, "add", (7,))
    check_window(LINE, 0, "add", (6,), padding=[(-1, 0)])
    check_window(X, 0.0, "max", (5, 4))
    assert table_of_windows.seen_by(3, 3, 1, (0, 0), 1, 1) == (range(3), (0, 0))


def test_windows_that_do_not_fit() -> None:
    for window in ((2,), (2, 2, 2), (0, 1), (-1, 1), ()):
        check_window(X, 0.0, "add", window)
        check_window(X, 0.0, "add", (2, 2), window)
        check_window(X, 0.0, "add", (2, 2), base_dilation=window)
        check_window(X, 0.0, "add", (2, 2), window_dilation=window)
    for padding in ([(0, 0)], [], [(0, 0)] * 3, [(0,), (0, 0)], "HALF"):
        check_window(X, 0.0, "add", (2, 2), padding=padding)
    for init in (np.zeros(1), np.zeros((1, 1)), np.float32(0), 1j):
        check_window(X, init, "add", (2, 2))
    with pytest.raises(gs.errors.ArgumentError):
        gs.lax.reduce_window(X, 0.0, lambda a, b: a + b, (2, 2))
    check_window(X[:0], 0.0, "max", (2, 2))
    check_window(X[0, 0] * np.ones(()), 0.0, "max", ())


@pytest.mark.parametrize("name", ["add", "max", "mul"])
def test_windows_traced_and_mapped(name: str) -> None:
    function, random = getattr(gs.lax, name), np.random.default_rng(1)
    how = {"window_strides": (2, 1), "padding": [(1, 0), (0, 2)], "window_dilation": (1, 2)}

    def of(x: Any) -> Any:
        return gs.lax.reduce_window(x, 1.0, function, (2, 2), **how)

    xs = values((3, 5, 4), "f8", 4)
    wanted = [defined(Call("reduce_window", x, 1.0, name, (2, 2), **how)) for x in xs]
    same(gs.jit(of)(placed(xs[0], random)), wanted[0])
    for mapped in (gs.vmap(of), gs.jit(gs.vmap(of))):
        same(mapped(placed(xs, random)), np.stack(wanted))


def test_padtype_to_pads() -> None:
    for padding in ("VALID", "SAME", "SAME_LOWER", "same", "valid", "HALF", 3):
        for n, window, stride in itertools.product(range(8), range(1, 5), range(1, 5)):
            check(Call("padtype_to_pads", (n, 5), (window, 2), (stride, 3), padding))


LETTERS = [None, ("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC"), ("HNCW", "WOHI", "CWNH"),
           ("NCHW", "OIHW", "NHWC"), ("NCHW", "IOHW", "NCHW"), ("CNHW", "OIWH", "NCWH"),
           ("NCH", "OIHW", "NCHW"), ("NCHW", "OIHW"), ("NCHH", "OIHW", "NCHW"),
           ("NCHH", "OIHH", "NCHH"), ("NCHW", "OIHD", "NCHW"), ("NXHW", "OIHW", "NCHW"),
           ("NCHW", "OIHW", "NCHWD")]  # fmt: skip


@pytest.mark.parametrize("letters", LETTERS, ids=str)
def test_conv_dimension_numbers(letters: Any) -> None:
    check(Call("conv_dimension_numbers", (1, 2, 3, 4), (4, 3, 2, 1), letters))
    check(Call("conv_dimension_numbers", (1, 2, 3), (4, 3, 2, 1), letters))
    check(Call("conv_dimension_numbers", (1, 2), (4, 3), ("CN", "OI", "NC")))
    order = {"N": 2, "C": 4, "H": 3, "W": 4}
    kernel = {"O": 6, "I": 4, "H": 2, "W": 2}
    if letters in LETTERS[1:7]:
        x = values([order[c] for c in letters[0]], "f8", 1)
        k = values([kernel[c] for c in letters[1]], "f8", 2)
        check(Call("conv_general_dilated", x, k, (1, 2), "SAME", dimension_numbers=letters))
        groups = {"feature_group_count": 2, "dimension_numbers": letters}
        half = np.split(k, 2, letters[1].index("I"))[0]
        check(Call("conv_general_dilated", x, half, (1, 1), "VALID", **groups))
        numbers = gs.lax.conv_dimension_numbers(x.shape, k.shape, letters)
        check(Call("conv_general_dilated", x, k, (1, 1), "VALID", dimension_numbers=numbers))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("pad", ["VALID", "SAME", "SAME_LOWER", *PADS], ids=str)
def test_conv_of_a_line(pad: Any) -> None:
    padding = pad if isinstance(pad, str) else [pad]
    x = values((2, 3, 5), "f8", 1)
    for size, stride, base, by in itertools.product(range(1, 4), range(4), (None, 1, 2), range(3)):
        kernel = values((4, 3, size), "f8", 2)
        dilation = None if base is None else (base,)
        if (stride and by) or size == 2:
            args = ((stride,), padding, dilation, (by,))
            check(Call("conv_general_dilated", x, kernel, *args))
        if not isinstance(pad, str) and base:
            check(Call("conv_with_general_padding", x, kernel, (1,), padding, dilation, (1,)))
        elif base is None and stride:
            check(Call("conv", x, kernel, (stride,), padding))


@pytest.mark.parametrize("pad", [(-9, 8), (8, -9), (-9, -9)], ids=str)
def test_pads_that_take_all_elements_away(pad: Any) -> None:
    check_window(LINE, 0, "add", (2,), (1,), [pad])
    check_window(X, 0.0, "add", (2, 2), (1, 1), [pad, (0, 0)])
    x, kernel = values((2, 3, 5), "f8", 1), values((4, 3, 2), "f8", 2)
    for base in (1, 2):
        check(Call("conv_general_dilated", x, kernel, (1,), [pad], (base,)))


@pytest.mark.parametrize("groups", range(-1, 5))
@pytest.mark.parametrize("which", ["feature_group_count", "batch_group_count"])
def test_groups(groups: int, which: str) -> None:
    for batch, features, own, new in itertools.product((2, 4), (2, 4, 6), (1, 2, 3), (4, 6)):
        x, kernel = values((batch, features, 4), "i4", 1), values((new, own, 2), "i4", 2)
        check(Call("conv_general_dilated", x, kernel, (1,), [(1, 0)], **{which: groups}))


def test_groups_of_both() -> None:
    x, kernel = values((4, 4, 4), "i4", 1), values((4, 2, 2), "i4", 2)
    how = {"feature_group_count": 2, "batch_group_count": 2}
    check(Call("conv_general_dilated", x, kernel, (1,), "VALID", **how))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_conv_of_each_type(dtype: Any) -> None:
    x, kernel = values((2, 3, 5), dtype, 1), values((4, 3, 2), dtype, 2)
    check(Call("conv_general_dilated", x, kernel, (1,), "SAME"))
    wide = {"b": "?", "i": "i8", "u": "u8", "f": "f8", "c": "c16"}[dtype.kind]
    check(Call("conv", x, kernel, (2,), "VALID", preferred_element_type=wide))
    if dtype.kind in "fi":
        more = ((1,), [(1, 1)], (1,), (2,))
        check(Call("conv_with_general_padding", x, kernel, *more, preferred_element_type=wide))
        turned = x.swapaxes(1, 2), kernel.transpose(2, 1, 0)
        check(Call("conv_transpose", *turned, (2,), "SAME", preferred_element_type=wide))


@pytest.mark.parametrize("few", [1, 64])
def test_conv_of_few_elements_at_once(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_of_windows, "_AT_ONCE", few)
    for groups in (1, 3):
        x, kernel = values((5, 3, 5), "f8", 1), values((6, 3 // groups, 2), "f8", 2)
        check(Call("conv_general_dilated", x, kernel, (1,), "SAME", feature_group_count=groups))


def test_conv_that_does_not_fit() -> None:
    x, kernel = values((2, 3, 5), "f8", 1), values((4, 3, 2), "f8", 2)
    for args in (
        ((0,), "VALID"), ((1, 1), "VALID"), ((), "VALID"), ((1,), "HALF"), ((1,), []),
        ((1,), [(0, 0), (0, 0)]), ((1,), [(0,)]), ((1,), "VALID", (0,)), ((1,), "SAME", (2,)),
        ((1,), "VALID", None, (0,)), ((1,), "VALID", None, (1, 1)), ((-1,), "VALID"),
    ):  # fmt: skip
        check(Call("conv_general_dilated", x, kernel, *args))
    for other in (kernel[:, :2], kernel[0], kernel[..., None], kernel.astype("f4")):
        check(Call("conv_general_dilated", x, other, (1,), "VALID"))
    for lengths in ((0, 3, 5), (2, 3, 0), (2, 3, 1)):
        check(Call("conv_general_dilated", values(lengths, "f8"), kernel, (1,), "VALID"))
    check(Call("conv_general_dilated", x[:, :, 0], kernel[:, :, 0], (), "VALID"))


def test_dims_of_a_conv_are_named_by_letters() -> None:
    with pytest.raises(gs.errors.ArgumentTypeError, match="must be None, or three strings"):
        gs.lax.conv_dimension_numbers((2, 3, 5), (4, 3, 2), [(0, 1, 2)] * 3)
    with pytest.raises(gs.errors.ArgumentTypeError, match="must be None, or three strings"):
        gs.lax.conv_dimension_numbers((2, 3, 5), (4, 3, 2), ["NC2", ("O", "I", 2), "NC2"])
    for letters in (("NCHH", "OIH", "NCH"), ("NCH", "OIHH", "NCH"), ("NCH", "OIH", "NCHH")):
        with pytest.raises(gs.errors.ArgumentError, match="must be three strings of 3 letters"):
            gs.lax.conv_dimension_numbers((2, 3, 5), (4, 3, 2), letters)


TRANSPOSED = [*itertools.product((1, 2, 3, 4), (1, 2, 3), (1, 2), (False, True))]


@pytest.mark.parametrize("pad", ["SAME", "VALID", "same", (1, 2), (0, 0), "SAME_LOWER"], ids=str)
def test_conv_transpose(pad: Any) -> None:
    padding = pad if isinstance(pad, str) else [pad]
    for size, stride, by, turned in TRANSPOSED:
        x = values((2, 4, 3), "f8", 1)
        kernel = values((size, 2, 3) if turned else (size, 3, 2), "f8", 2)
        check(Call("conv_transpose", x, kernel, (stride,), padding, (by,), None, turned))
    x, kernel = values((2, 3, 2, 3), "f8", 1), values((3, 2, 3, 2), "f8", 2)
    if isinstance(pad, str):
        check(Call("conv_transpose", x, kernel, (2, 1), pad))
        letters = ("NHWC", "HWIO", "NCHW")
        check(Call("conv_transpose", x, kernel, (2, 3), pad, dimension_numbers=letters))
    check(Call("conv_transpose", x, kernel, (0, 1), "SAME"))
    check(Call("conv_transpose", x, kernel, (1,), "SAME"))


@pytest.mark.parametrize("others", [(), (2, 1, 3)], ids=str)
def test_conv_transpose_has_letters_for_up_to_three_other_dims(others: tuple[int, ...]) -> None:
    x = values((2, *others, 3), "f8", 1)
    kernel = values((*[2 for _ in others], 3, 2), "f8", 2)
    check(Call("conv_transpose", x, kernel, (2,) * len(others), "SAME"))


EVERYWHERE = [
    Call("conv", values((2, 3, 5), "f8", 1), values((4, 3, 2), "f8", 2), (1,), "SAME"),
    Call("conv_general_dilated", values((2, 4, 5), "f8", 1), values((4, 2, 2), "f8", 2), (2,),
         [(1, 1)], (2,), (2,), feature_group_count=2),
    Call("conv_general_dilated", values((4, 3, 5), "f8", 1), values((4, 3, 2), "f8", 2), (1,),
         [(1, -1)], batch_group_count=2),
    Call("conv_general_dilated", values((2, 3, 4, 3), "f4", 1), values((2, 2, 3, 2), "f4", 2),
         (1, 1), "SAME_LOWER", dimension_numbers=("NHWC", "HWIO", "NHWC")),
    Call("conv_with_general_padding", values((2, 3, 5), "f8", 1), values((4, 3, 2), "f8", 2), (2,),
         [(0, 1)], (1,), (2,)),
    Call("conv_transpose", values((2, 4, 3), "f8", 1), values((2, 3, 2), "f8", 2), (2,), "SAME"),
]  # fmt: skip


@pytest.mark.one_of(2)
@pytest.mark.parametrize("call", EVERYWHERE, ids=repr)
def test_traced_and_mapped(call: Call) -> None:
    check_everywhere(call)
    check_mapped(call, traced=True)
