"""Where the compilers are: NVRTC of CUDA 12 and 13, and the headers that CuPy gives it.

They are wheels, which need no GPU. They stay in the cache folder of the software GPU, each set in a
folder whose name tells what is in it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.softgpu.build import CUPY, alone, cache, new

WHEELS: Mapping[str, tuple[str, ...]] = {
    "12.9": (
        f"cupy-cuda12x=={CUPY}",
        "nvidia-cuda-nvrtc-cu12==12.9.86",
        "nvidia-cuda-runtime-cu12==12.9.79",
        "nvidia-cuda-nvcc-cu12==12.9.86",  # for the headers that those of the runtime include
    ),
    "13.0": (
        f"cupy-cuda13x=={CUPY}",
        "nvidia-cuda-nvrtc==13.0.88",
        "nvidia-cuda-runtime==13.0.96",
        "nvidia-cuda-crt==13.0.88",
    ),
}
"""What a version of CUDA needs: the oldest of 13, which declares least, and the last of 12."""


def folder_of(version: str) -> Path:
    """Return where the packages of a version belong, whether they are there or not."""
    digest = hashlib.sha256("\n".join(WHEELS[version]).encode()).hexdigest()[:12]
    return cache() / f"nvrtc-{version}-{digest}"


def is_made(version: str) -> bool:
    """Whether the packages of a version are there."""
    return (folder_of(version) / "complete").exists()


def toolkit(version: str) -> Path:
    """Return the folder of a version's packages; takes them from the index if need be."""
    folder, wheels = folder_of(version), WHEELS[version]
    if is_made(version):
        return folder
    with alone(cache()):
        if not is_made(version):
            with new(folder):
                options = ["-q", "--no-deps", "--no-compile", "--target", str(folder)]
                subprocess.run(
                    [sys.executable, "-m", "pip", "install", *options, *wheels], check=True
                )
    return folder


def includes(folder: Path) -> list[str]:
    """Return the options that say where headers are, in CuPy's order."""
    own = folder / "cupy" / "_core" / "include"
    cccl = own / "cupy" / "_cccl"
    folders = [cccl / "cub", cccl / "thrust", cccl / "libcudacxx", own]
    folders += sorted((folder / "nvidia").glob("*/include"))
    return [f"-I{path}" for path in folders]


if __name__ == "__main__":
    for each in WHEELS:
        print(toolkit(each))
