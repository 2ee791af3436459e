"""The claims of kernels/README.md hold in what the compiler makes for a GPU."""

from __future__ import annotations

import numpy as np
import pytest

from bench import sass
from tests.kernels.boxes import FORMS

MISSING = [name for name in ("nvcc", "nvdisasm") if sass.tool(name) is None]

pytestmark = pytest.mark.skipif(
    bool(MISSING), reason=f"not on the path, nor installed: {', '.join(MISSING)}"
)


@pytest.fixture(scope="module")
def copies() -> sass.Kernel:
    (kernel,) = sass.read("box_copy")
    return kernel


def test_copies_hold_1024_threads_without_spilling(copies: sass.Kernel) -> None:
    assert copies.threads >= 1024 and copies.spills == 0


def test_every_form_and_unit_is_a_variant(copies: sass.Kernel) -> None:
    names = {1: "rows 1", 2: "rows 2", 4: "rows 4", 8: "tiles", 9: "words"}
    found = sorted((one.form, one.unit) for one in copies.variants)
    assert found == sorted((names[form], unit) for form, unit in FORMS)


def test_tiles_load_all_of_their_words_before_the_first_is_stored(copies: sass.Kernel) -> None:
    for one in copies.variants:
        if one.form in ("tiles", "words"):
            assert one.at_once == one.moves, one
            least = 16 if one.word == 1 else 32
            assert one.at_once * one.word >= least, "bytes in flight for each thread"


def test_rows_load_eight_units_before_the_first_is_stored(copies: sass.Kernel) -> None:
    for one in copies.variants:
        if one.form.startswith("rows"):
            assert one.moves == 8
            assert one.at_once == (4 if one.form == "rows 4" or one.unit == 16 else 8), one


def test_fewer_dims_take_fewer_instructions(copies: sass.Kernel) -> None:
    (fills,) = sass.read("fill")
    for kernel, name, most in ((copies, "rows", (13, 24, 50)), (fills, "fill", (10, 22, 42))):
        each = {(one.form, one.unit): one.each for one in kernel.variants}
        for unit in (1, 2, 4, 8, 16):
            one, two, four = (each[f"{name} {dims}", unit] for dims in (1, 2, 4))
            assert one < two < four
            assert all(np.array((one, two, four)) <= most), unit
    assert fills.threads == 2048 and fills.spills == 0
