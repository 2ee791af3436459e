"""The probe with the real CuPy, on a driver's library that is a fake."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import dataclasses, json
from gpushard._runtime.cuda.devices.probe import probe
print(json.dumps(dataclasses.asdict(probe())))
"""


@pytest.fixture(scope="module")
def driver(
    tmp_path_factory: pytest.TempPathFactory, oracle: Callable[[str, str, str], ModuleType]
) -> Path:
    """Return the folder of the fake library."""
    oracle("cupy", "CuPy", "pip install cupy-cuda13x")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    source = str(Path(__file__).with_name("libcuda.c"))
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), source]
    subprocess.run(command, check=True, timeout=60)
    return folder


def probe_on(driver: Path, version: int, init: int) -> Any:
    """Return what the probe says in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "LD_LIBRARY_PATH": str(driver),
            "FAKE_DRIVER": str(version),
            "FAKE_INIT": str(init),
        },
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("version", "init", "reason"),
    [
        (10010, 0, "the driver is for CUDA 10.1, too old for CUDA 1"),
        (19990, 100, "no GPU is visible"),
        (19990, 3, "CUDA cannot be initialized in this process"),
        (19990, 802, "CUDA fails (CUDARuntimeError: cudaErrorSystemNotReady: "),
    ],
)
def test_what_the_driver_says_is_understood(
    version: int, init: int, reason: str, driver: Path
) -> None:
    found = probe_on(driver, version, init)
    assert found["reason"].startswith(reason)
    assert (found["usable"], found["gpus"], found["driver"]) == (False, 0, version)
    assert found["cupy"] and found["runtime"] > 11000
