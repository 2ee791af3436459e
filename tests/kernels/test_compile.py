"""The kernels compile for GPUs without warnings, and their structs are the packers' dtypes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gpushard.runtime.cuda.kernels import fills, pieces
from tests.kernels.harness import KERNELS, NVCC

STRUCTS = {
    "box_copy": {
        "Piece": pieces.PIECE,
        "Batch": pieces.BATCH,
        "Ends": pieces.ENDS,
        "Bases": pieces.BASES,
    },
    "fill": {"Fill": fills.FILL, "FillBatch": fills.FILL_BATCH},
}
"""The structs of each kernel, and the dtypes that mirror them."""


def _word(form: int, unit: int) -> tuple[str, int]:
    """What a thread loads of a tile, and how many units that is."""
    if form == pieces.WORDS:
        return "unsigned", pieces.WORD // unit
    words = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
    return words.get(unit, "ulonglong2"), 1


CONSTANTS = {
    "box_copy": {
        "kThreads * kUnitsPerThread": pieces.UNITS_PER_BLOCK,
        **{
            f"Tile<{word}, {each}>::{name} * {each}": side
            for (form, unit), sides in pieces.SIDES.items()
            for word, each in [_word(form, unit)]
            for name, side in zip(("kSource", "kTarget"), sides, strict=True)
        },
    },
    "fill": {"kThreads * kUnitsPerThread": fills.UNITS_PER_BLOCK},
}
"""What both sides must agree on."""


def layout(struct: str, dtype: np.dtype) -> list[str]:
    """Assertions in C++ that a struct has the fields of a dtype at the same places."""
    assert dtype.fields is not None
    size = f"static_assert(sizeof({struct}) == {dtype.itemsize});"
    fields = [
        f"static_assert(offsetof({struct}, {name}) == {offset});"
        f"static_assert(sizeof({struct}::{name}) == {field.itemsize});"
        for name, (field, offset, *_) in dtype.fields.items()
    ]
    return [size, *fields]


def test_every_kernel_is_checked_here() -> None:
    assert {source.stem for source in KERNELS.glob("*.cu")} == set(STRUCTS)


@pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("kernel", STRUCTS)
def test_kernels_compile_for_gpus(kernel: str, architecture: str, tmp_path: Path) -> None:
    lines = ["#include <cstddef>", f'#include "{KERNELS}/{kernel}.cu"']
    for struct, dtype in STRUCTS[kernel].items():
        lines += layout(struct, dtype)
    lines += [f"static_assert({name} == {n});" for name, n in CONSTANTS[kernel].items()]
    source = tmp_path / f"{kernel}.cu"
    source.write_text("\n".join(lines))
    command = [NVCC, "-std=c++17", "-cubin", f"-arch={architecture}", "-Werror", "all-warnings"]
    subprocess.run([*command, "-o", tmp_path / "out.cubin", source], check=True)


@pytest.fixture(scope="module")
def nvrtc() -> ModuleType:
    """NVRTC, which needs no GPU."""
    module = pytest.importorskip(
        "cupy_backends.cuda.libs.nvrtc", reason="CuPy is not installed: pip install cupy-cuda13x"
    )
    try:
        module.getVersion()
    except RuntimeError:
        pytest.skip("libnvrtc is not installed: pip install nvidia-cuda-nvrtc")
    return module


@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize("kernel", STRUCTS)
def test_kernels_compile_at_run_time(nvrtc: ModuleType, kernel: str, architecture: str) -> None:
    source = (KERNELS / f"{kernel}.cu").read_text()
    program = nvrtc.createProgram(source, f"{kernel}.cu", [], [])
    options = (f"-arch={architecture}", "-std=c++17", f"-I{KERNELS}")
    try:
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program))
        assert nvrtc.getCUBIN(program)
    finally:
        nvrtc.destroyProgram(program)
