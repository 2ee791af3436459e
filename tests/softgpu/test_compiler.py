"""The software GPU's compiler takes what NVRTC takes: `tests/nvrtc` has NVRTC take the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from tests.nvrtc.snippets import ACCEPTED, REFUSED
from tests.softgpu.build import CUDA, CUPY
from tests.softgpu.run import is_active

pytestmark = pytest.mark.skipif(not is_active(), reason="only with pytest --softgpu")


def compiled(text: str) -> tuple[bool, str]:
    """Whether a source compiles, and what the compiler says."""
    from cupy._core import core
    from cupy_backends.cuda.libs import nvrtc

    program = nvrtc.createProgram(text, "kernel.cu", (), ())
    try:
        nvrtc.compileProgram(program, core.assemble_cupy_compiler_options(("-std=c++17",)))
        return True, nvrtc.getProgramLog(program)
    except nvrtc.NVRTCError:
        return False, nvrtc.getProgramLog(program)
    finally:
        nvrtc.destroyProgram(program)


@pytest.mark.parametrize("what", ACCEPTED)
def test_what_nvrtc_takes_compiles(what: str) -> None:
    done, log = compiled(ACCEPTED[what])
    assert done, log


@pytest.mark.parametrize("what", REFUSED)
def test_what_nvrtc_lacks_is_refused(what: str) -> None:
    done, log = compiled(REFUSED[what])
    assert not done and "error: " in log


def test_it_is_the_cuda_that_was_asked_for() -> None:
    from cupy.cuda import cublas, device, runtime
    from cupy_backends.cuda.libs import nvrtc

    wanted = int(os.environ[CUDA])
    cublas_version = cublas.getVersion(device.get_cublas_handle()) // 10_000
    versions = {runtime.runtimeGetVersion() // 1000, nvrtc.getVersion()[0], cublas_version}
    assert versions == {wanted}
    assert metadata.version(f"cupy-cuda{wanted}x") == CUPY


def test_kept_sources_have_the_options_that_cupy_gives_to_nvrtc(tmp_path: Path) -> None:
    script = f"""
from pathlib import Path
import cupy
from cupy_backends.cuda.libs import nvrtc
from tests.softgpu import sources

given = []
compile_program = nvrtc.compileProgram
def noting(program, options):
    given.append(options)
    compile_program(program, options)
nvrtc.compileProgram = noting
sources.keep(Path({str(tmp_path / "kept")!r}))
cupy.RawKernel('extern "C" __global__ void f() {{}}', "f", options=("-DX=1",))((1,), (1,), ())
print(*[one for one in given[-1] if not one.startswith(("-I", "-arch"))], sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "CUPY_CACHE_DIR": str(tmp_path / "kernels")},
    )
    (path,) = (tmp_path / "kept").iterdir()
    kept = json.loads(path.read_text(encoding="utf-8"))
    assert kept["options"] == done.stdout.split() and "-DX=1" in kept["options"]
    assert "void f() {}" in kept["source"]
