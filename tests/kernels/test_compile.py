"""The kernels compile for GPUs without warnings, and their structs are the packers' dtypes."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._runtime.cuda.kernels import copy_pieces, fills, fused
from gpushard._runtime.cuda.kernels.thread_nests import function_of
from gpushard._runtime.nests import Nest
from gpushard._transforms.fusion import layout as region_layout
from gpushard._transforms.fusion.layout import nest_of
from tests.kernels.harness import KERNELS, NVCC
from tests.runtime.nests.dealt_nests import dealt_out

STRUCTS = {
    "box_copy": {
        "Piece": copy_pieces.PIECE,
        "Batch": copy_pieces.BATCH,
        "Ends": copy_pieces.ENDS,
        "Bases": copy_pieces.BASES,
    },
    "fill": {"Fill": fills.FILL, "FillBatch": fills.FILL_BATCH},
}
"""The structs of each kernel, and the dtypes that mirror them."""


def _word(form: int, unit: int) -> tuple[str, int]:
    """What a thread loads of a tile, and how many units that is."""
    if form == copy_pieces.WORDS:
        return "unsigned", copy_pieces.WORD // unit
    words = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
    return words.get(unit, "ulonglong2"), 1


CONSTANTS = {
    "box_copy": {
        "kThreads * kUnitsPerThread": copy_pieces.UNITS_PER_BLOCK,
        **{
            f"Tile<{word}, {each}>::{name} * {each}": side
            for (form, unit), sides in copy_pieces.SIDES.items()
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


@pytest.mark.one_of(3)
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
    assert compiled(nvrtc, source, f"-arch={architecture}", "-std=c++17", f"-I{KERNELS}")


def compiled(nvrtc: ModuleType, source: str, *options: str) -> bytes:
    """What NVRTC makes of a source."""
    program = nvrtc.createProgram(source, "kernel.cu", [], [])
    try:
        try:
            nvrtc.compileProgram(program, options)
        except nvrtc.NVRTCError:
            pytest.fail(nvrtc.getProgramLog(program))
        cubin: bytes = nvrtc.getCUBIN(program)
        return cubin
    finally:
        nvrtc.destroyProgram(program)


def f_long(m: Any, x: Any) -> Any:
    return (x * x).sum(0) + 1, m.argmax(x[:, :9], 1), x.max(0)


FUSED = {
    "views": (lambda m, x: x[1:-1, :-2] + x[2:, 2:].astype("float64") * 3, (140, 150)),
    "rows": (lambda m, x: m.exp(x - x.max(1, keepdims=True)) / x.sum(1, keepdims=True), (40, 300)),
    "within threads": (lambda m, x: m.argmin((x[:, None] - x[:8]) ** 2 @ x[0], 1), (200, 30)),
    "parts": (f_long, (30_000, 20)),
}
"""Programs that are one kernel, and the shape of what they take."""


@pytest.mark.parametrize("architecture", ["sm_75", "sm_90"])
@pytest.mark.parametrize("name", FUSED)
def test_nests_compile_at_run_time(
    nvrtc: ModuleType, name: str, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cupy, core = pytest.importorskip("cupy"), pytest.importorskip("cupy._core.core")
    statement = pytest.importorskip("gpushard._runtime.cuda.driver.cupy_driver")._statement
    nests: list[Nest] = []
    monkeypatch.setattr(
        region_layout, "nest_of", lambda laid: nests.append(nest_of(laid)) or nests[-1]
    )
    function, shape = FUSED[name]
    with testing.runtime(backend="host", host_devices=1, compiler="cc"):
        x = gs.numpy.ones(shape, "float32")
        gs.jit(lambda x: function(gs.numpy, x)).lower(x).compile()
    options = core.assemble_cupy_compiler_options(("-std=c++17", "--fmad=false"))
    assert nests
    for nest in nests:
        one, way = dealt_out(nest)
        sources: list[Any] = []
        for op in one.nest.ops:
            function = function_of(op)
            name_of = getattr(function, "__name__", None)
            known = getattr(cupy, name_of) if name_of else function
            types = one.nest.types_of(op)
            sources.append(None if op.kernel is None else statement(known, types, (op.dtype,)))
        source = fused.source(one, one.signature(8), sources, way)
        assert source is not None
        assert (one.parts > 1) == (name == "parts") and bool(one.within) >= (
            name == "within threads"
        )
        assert compiled(nvrtc, source, f"-arch={architecture}", *options)
