"""The kernels compile for GPUs without warnings, and their structs are the packers' dtypes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from gpushard.runtime.cuda import batches, fills, flat, merges, pieces
from tests.kernels.harness import KERNELS, NVCC
from tests.kernels.merging import MERGE_KERNELS

STRUCTS = {
    "box_copy": {
        "Piece": pieces.PIECE,
        "Batch": pieces.BATCH,
        "Ends": pieces.ENDS,
        "Bases": pieces.BASES,
    },
    "fill": {"Fill": fills.FILL, "FillBatch": fills.FILL_BATCH},
    "flat": {"FlatJob": flat.FLAT_JOB},
    "merge": {"Merge": merges.MERGE},
}
"""The structs of each kernel, and the dtypes that mirror them."""

CONSTANTS = {
    "box_copy": {"kThreads * kUnitsPerThread": pieces.UNITS_PER_BLOCK},
    "fill": {"kThreads * kUnitsPerThread": fills.UNITS_PER_BLOCK},
    "flat": {"kThreads * kFlatUnits": flat.UNITS_PER_BLOCK, "kDims": flat.MOST_DIMS},
    "merge": {"kThreads": batches.THREADS, "kMostInputs": merges.MOST_INPUTS},
}
"""What both sides must agree on."""

INSTANCES = {"merge": [f"template __global__ void {name}(const Merge);" for name in MERGE_KERNELS]}
"""Templates are compiled where they are instantiated."""


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
    lines = ["#include <cstddef>", "#define GPUSHARD_HALF", f'#include "{KERNELS}/{kernel}.cu"']
    for struct, dtype in STRUCTS[kernel].items():
        lines += layout(struct, dtype)
    lines += [f"static_assert({name} == {n});" for name, n in CONSTANTS[kernel].items()]
    lines += INSTANCES.get(kernel, [])
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
    names = [name for name in MERGE_KERNELS if "__half" not in name] if kernel == "merge" else []
    try:
        for name in names:
            nvrtc.addNameExpression(program, name)
        options = (f"-arch={architecture}", "-std=c++17", f"-I{KERNELS}")
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program))
        assert nvrtc.getCUBIN(program)
        assert all(nvrtc.getLoweredName(program, name) for name in names)
    finally:
        nvrtc.destroyProgram(program)
