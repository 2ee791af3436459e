"""The box copy kernels: they compile for GPUs, and their source is right on the CPU."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from gpushard.runtime.cuda.pieces import BATCH, PIECE
from tests.kernels.boxes import random_case

KERNELS = Path(__file__).parents[2] / "kernels"
HERE = Path(__file__).parent
NVCC, GCC = shutil.which("nvcc"), shutil.which("g++")


@pytest.mark.skipif(NVCC is None, reason="nvcc is not on the path")
@pytest.mark.parametrize("architecture", ["sm_75", "sm_80", "sm_90"])
def test_kernels_compile_for_gpus(architecture: str, tmp_path: Path) -> None:
    for source in KERNELS.glob("*.cu"):
        command = [NVCC, "-std=c++17", "-cubin", f"-arch={architecture}", "-Werror", "all-warnings"]
        subprocess.run([*command, "-o", tmp_path / "out.cubin", source], check=True)


@pytest.fixture(scope="module", params=["address,undefined", "thread"])
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels as a program for the CPU, under a sanitizer."""
    if GCC is None:
        pytest.skip("g++ is not on the path")
    built = tmp_path_factory.mktemp("kernels") / "box_copy"
    command = [GCC, "-std=c++20", "-O1", "-g", "-pthread", f"-fsanitize={request.param}"]
    options = ["-fno-sanitize-recover=all", "-Wno-unknown-pragmas"]
    subprocess.run([*command, *options, "-o", built, HERE / "box_copy_main.cpp"], check=True)
    return built


def test_random_boxes_come_out_as_numpy_copies_them(program: Path) -> None:
    cases = [random_case(seed) for seed in range(60)]
    assert any(case.pieces.table["tiled"].any() for case in cases)
    assert {1, 2, 4, 8, 16} == {int(u) for case in cases for u in case.pieces.table["unit"]}
    data = b"".join(case.encoded() for case in cases)
    done = subprocess.run([program], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert list(map(int, done.stdout.split())) == [PIECE.itemsize, BATCH.itemsize]
