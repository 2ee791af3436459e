"""Green contexts with the real cuda-bindings, on a driver's library that is a fake."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
from gpushard.errors import ConfigurationError
from gpushard._runtime.cuda.driver.green_driver import GreenDriver
green = GreenDriver(13000, 13000)
try:
    shares = green.divide(0, int(sys.argv[1]))
except ConfigurationError as error:
    sys.exit(str(error))
sizes = [share.multiprocessors for share in shares]
streams = [f"{green.stream(share):#x}" for share in shares]
green.unite(shares)
sys.stdout.flush()
print(sizes, streams)
"""


@pytest.fixture(scope="module")
def driver(
    tmp_path_factory: pytest.TempPathFactory, oracle: Callable[[str, str, str], ModuleType]
) -> Path:
    """Return the folder of the fake library."""
    for name in ("cuda", "cuda.bindings"):
        oracle(name, "cuda-bindings", "pip install cuda-bindings")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("driver")
    source = str(Path(__file__).with_name("libcuda_green.c"))
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "libcuda.so.1"), source]
    subprocess.run(command, check=True, timeout=60)
    return folder


def divide(driver: Path, multiprocessors: int, parts: int) -> subprocess.CompletedProcess[str]:
    """Divide a GPU and unite it, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, str(parts)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            "LD_LIBRARY_PATH": str(driver),
            "FAKE_DRIVER": "19990",
            "FAKE_MULTIPROCESSORS": str(multiprocessors),
        },
    )


@pytest.mark.parametrize(("parts", "size"), [(2, 64), (4, 32), (16, 8)])
def test_the_library_is_called_as_it_has_to_be(driver: Path, parts: int, size: int) -> None:
    """Each part gets a context of its own group, and a stream in it, which is destroyed first."""
    done = divide(driver, 132, parts)
    assert done.returncode == 0, done.stderr
    contexts = re.findall(r"^context (\S+) on GPU 0 from (\d+) count (\d+)$", done.stdout, re.M)
    streams = re.findall(r"^stream (\S+) of (\S+)$", done.stdout, re.M)
    ends = re.findall(r"^no (stream|context) (\S+)$", done.stdout, re.M)
    assert [tuple(map(int, c[1:])) for c in contexts] == [(n * size, size) for n in range(parts)]
    assert [of for _, of in streams] == [context[0] for context in contexts]
    assert ends == [end for s, c in streams for end in (("stream", s), ("context", c))]
    assert str([size] * parts) in done.stdout
    assert str([stream for stream, _ in streams]) in done.stdout


@pytest.mark.parametrize(
    ("multiprocessors", "parts", "words"),
    [
        (132, 17, "it has 132 multiprocessors, and CUDA makes at most 16 groups, of at least 8"),
        (12, 2, "CUDA makes at most 1 group, of at least 8, of them; use partition_mode='stream'"),
        (6, 2, "CUDA makes no groups of them; use partition_mode='stream'"),
    ],
)
def test_what_cannot_be_divided(driver: Path, multiprocessors: int, parts: int, words: str) -> None:
    done = divide(driver, multiprocessors, parts)
    assert done.returncode == 1 and words in done.stderr
    assert "context" not in done.stdout
