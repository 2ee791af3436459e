"""`gpushard info`, and what all commands share."""

import dataclasses
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpushard as gs
from gpushard._cli.main import main
from gpushard._runtime.backend import DeviceInfo
from gpushard.config import Settings
from gpushard.testing import runtime
from tests.runtime.cuda import fakes

ROOT = Path(__file__).parents[2]


def run_module(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m gpushard` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "gpushard", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def read_sections(text: str) -> dict[str, list[list[str]]]:
    """Return the lines of each section, split into words."""
    sections = {}
    for section in text.strip().split("\n\n"):
        title, *lines = section.splitlines()
        assert all(line.startswith("  ") for line in lines)
        sections[title] = [line.split() for line in lines]
    return sections


def run_info(capsys: pytest.CaptureFixture[str]) -> dict[str, list[list[str]]]:
    assert main(["info"]) == 0
    return read_sections(capsys.readouterr().out)


def test_devices_memory_and_settings_are_those_of_the_runtime(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with runtime(host_devices=4, host_domains=2, memory_limit=5000):
        held = gs.device_put(np.zeros(150, np.int64), gs.devices()[3])
        sections = run_info(capsys)
        assert held.shape == (150,)
    assert list(sections) == [
        "versions",
        "backend",
        "devices",
        "memory in bytes",
        "GPUs",
        "settings",
    ]
    devices, memory = sections["devices"], sections["memory in bytes"]
    assert devices[0] == ["id", "platform", "kind", "chip", "partition", "domain"]
    assert devices[1:] == [
        [str(i), "cpu", "host", "0", str(i), domain] for i, domain in enumerate("0011")
    ]
    assert [row[:3] for row in memory[1:]] == [
        ["0", "5,000", "0"],
        ["1", "5,000", "0"],
        ["2", "5,000", "0"],
        ["3", "5,000", "1,200"],
    ]
    settings = {name: value for name, *value in sections["settings"]}
    assert list(settings) == list(Settings.__dataclass_fields__)
    assert settings["host_devices"] == ["4", "(changed)"]
    assert settings["memory_limit"] == ["5000", "(changed)"]
    assert settings["inline_bytes"] == [str(Settings().inline_bytes)]


def test_no_quota_is_said_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    with runtime(host_devices=1):
        sections = run_info(capsys)
    assert sections["memory in bytes"][1][:2] == ["0", "none"]


def test_a_host_that_is_asked_for_asks_nobody_else(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)  # whoever imports it fails
    with runtime(backend="host"):
        sections = run_info(capsys)
    assert sections["backend"] == [["host:", "backend='host'", "is", "set"]]
    assert [row for row in sections["versions"] if row[0] == "CUDA"] == []


def test_a_machine_without_cuda_says_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fakes.cupy(fakes.CUDARuntimeError(35), driver=12040))
    nvml = fakes.Nvml(init=fakes.NVMLError_LibraryNotFound())
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with runtime(backend=None):
        sections = run_info(capsys)
    (why,) = sections["backend"]
    assert " ".join(why).startswith("host: CUDA cannot be used: the driver is for CUDA 12.4")
    assert sections["versions"][4:6] == [
        ["CUDA", "of", "cupy", "13.2"],
        ["CUDA", "of", "driver", "12.4"],
    ]
    assert " ".join(sections["GPUs"][0]).startswith("nothing is known: NVML is not there")


def test_gpus_are_told_with_their_chip_their_links_and_their_peers(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fakes.install(monkeypatch)
    switch = "00000000:05:00.0"
    nvml = fakes.Nvml(
        fakes.Gpu("00000000:AF:00.0", temperature=50),
        fakes.Gpu("00000000:3B:00.0", links=((1, switch), (0, switch), (1, switch))),
        fakes.Gpu("00000000:86:00.0", unsupported=frozenset(["nvmlDeviceGetTemperature"])),
        fakes.Gpu("00000000:D8:00.0", unsupported=frozenset(fakes.ASKED_OF_A_GPU)),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    with runtime(backend=None, gpus=(2, 0, 1), partitions=(1, 2, 1)):
        sections = run_info(capsys)
    assert " ".join(sections["backend"][0]).startswith("cuda: 3 GPUs, CuPy 14.2.0 with CUDA 13.2")
    assert [row[3:] for row in sections["devices"][1:]] == [
        ["Fake", "0", "0", "0"],
        ["Fake", "1", "0", "1"],
        ["Fake", "1", "1", "1"],
        ["Fake", "2", "0", "2"],
    ]
    driver, _, *gpus = sections["GPUs"]
    assert driver == ["driver", "580.65.06"]
    memory = ["1,073,741,824", "85,899,345,920"]
    limits = ["120", "700", "345", "1,980"]
    limits = ["120", "700", "345", "1,980"]
    rest = [*memory, *limits, "5", "x", "16", "NVIDIA", "H100", "80GB", "HBM3"]
    assert gpus == [
        ["0", "0000:af:00.0", "50", *rest],
        ["1", "0000:3b:00.0", "41", *rest],
        ["2", "0000:86:00.0", "-", *rest],
        ["-"] * 10 + ["x", "-", "-"],
    ]
    assert sections["NVLinks that are up"] == [["0000:3b:00.0", "2", "to", "0000:05:00.0"]]
    assert sections["peer access, row to column"] == [
        ["0", "1", "2"],
        ["0", "-", "no", "no"],
        ["1", "no", "-", "yes"],
        ["2", "no", "yes", "-"],
    ]
    assert nvml.users == 0


def test_nvml_without_gpus_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", fakes.Nvml())
    with runtime():
        assert run_info(capsys)["GPUs"] == [["none,", "says", "driver", "580.65.06"]]


BROKEN = {
    "an import that fails": (
        "raise ImportError('libcudart.so.13: no such file')",
        "libcudart.so.13: no such file",
    ),
    "a module that is something else": ("", "AttributeError"),
    "no driver": (
        "from tests.runtime.cuda import fakes\n"
        "fake = fakes.cupy(fakes.CUDARuntimeError(35), driver=0)\n"
        "cuda, __version__ = fake.cuda, '14.2.0'",
        "there is no NVIDIA driver",
    ),
    "a CUDA that fails": (
        "from tests.runtime.cuda import fakes\n"
        "fake = fakes.cupy(fakes.CUDARuntimeError(802))\n"
        "cuda, __version__ = fake.cuda, '14.2.0'",
        "cudaErrorSystemNotReady",
    ),
}


@pytest.mark.one_of(2)
@pytest.mark.parametrize("backend", ["", "cuda"])
@pytest.mark.parametrize(("module", "reason"), BROKEN.values(), ids=BROKEN)
def test_a_broken_cuda_installation_leaves_everything_else(
    module: str, reason: str, backend: str, tmp_path: Path
) -> None:
    (tmp_path / "cupy.py").write_text(module)
    (tmp_path / "pynvml.py").write_text("raise OSError('broken, too')")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path), str(ROOT)])
    done = run_module("info", PYTHONPATH=path, GPUSHARD_BACKEND=backend)
    assert (done.returncode, done.stderr) == (0, "")
    sections = read_sections(done.stdout)
    assert reason in " ".join(sections["backend"][0])
    assert "broken, too" in " ".join(sections["GPUs"][0])
    assert len(sections["settings"]) == len(Settings.__dataclass_fields__)
    if backend == "cuda":
        assert sections["backend"][0][0] == "none:"
        assert sections["devices"] == [["none"]]
    else:
        assert sections["backend"][0][0] == "host:"
        assert len(sections["devices"]) == len(sections["memory in bytes"]) == 1 + 8


def test_a_backend_that_does_not_start_leaves_everything_else(tmp_path: Path) -> None:
    program = """
import sys
from tests.runtime.cuda import fakes
from gpushard._cli.main import main

def start(settings):
    raise fakes.CUDARuntimeError(46)

fakes.CudaBackend = start
sys.modules["cupy"] = fakes.cupy(2)
sys.modules["gpushard._runtime.cuda.backend"] = fakes
sys.exit(main(["info"]))
"""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUSHARD_")}
    path = os.pathsep.join([*filter(None, sys.path), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**environment, "PYTHONPATH": path},
    )
    assert (done.returncode, done.stderr) == (0, "")
    sections = read_sections(done.stdout)
    assert sections["backend"][0][:3] == ["cuda:", "2", "GPUs,"]
    (devices,) = sections["devices"]
    assert devices[:3] == ["none:", "CUDARuntimeError:", "cudaErrorDevicesUnavailable:"]
    assert "memory in bytes" not in sections
    assert len(sections["settings"]) == len(Settings.__dataclass_fields__)


def test_multiprocessors_of_devices(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = fakes.CudaBackend.describe

    def describe(backend: fakes.CudaBackend) -> list[DeviceInfo]:
        numbers = {0: 32, 1: None, 2: 132}
        return [
            dataclasses.replace(info, multiprocessors=numbers[info.hardware_id])
            for info in plain(backend)
        ]

    fakes.install(monkeypatch)
    with runtime(backend=None, partitions=(4, 1, 1), partition_mode="green"):
        assert run_info(capsys)["devices"][0][-1] == "domain"
    monkeypatch.setattr(fakes.CudaBackend, "describe", describe)
    with runtime(backend=None, partitions=(4, 1, 1), partition_mode="green"):
        devices = run_info(capsys)["devices"]
    assert [row[-1] for row in devices] == ["SMs", *["32"] * 4, "-", "132"]


def test_versions_are_told_without_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("cupy-cuda13x", "torch", "cuda-bindings"):
        package = tmp_path / f"{name.replace('-', '_')}-99.1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 99.1\n")
    for name in ("cupy", "torch", "cuda"):
        (tmp_path / f"{name}.py").write_text(f"raise AssertionError('{name} was imported')\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    with runtime():
        sections = run_info(capsys)
    versions = {name: text for name, *text in sections["versions"]}
    assert " ".join(versions["cupy"]).startswith("99.1 (cupy-cuda13x)")
    assert versions["torch"] == versions["cuda-bindings"] == ["99.1"]
    assert versions["numpy"] == [np.__version__]
    assert versions["python"][0] == ".".join(map(str, sys.version_info[:3]))


def test_the_environment_is_read_and_an_unknown_backend_is_one_line() -> None:
    good = run_module("info", GPUSHARD_HOST_DEVICES="3", GPUSHARD_BACKEND="host")
    assert (good.returncode, good.stderr) == (0, "")
    assert len(read_sections(good.stdout)["devices"]) == 1 + 3
    bad = run_module("info", GPUSHARD_BACKEND="abacus")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"gpushard: error: .*'abacus'.* host, cuda\n", bad.stderr)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gpushard", "info"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, env=buffered)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_what_a_reader_does_not_take_in_the_end_is_no_error_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

        def fileno(self) -> int:
            return file.fileno()

        def close(self) -> None:
            pass

    with runtime(), (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", Gone())
        assert main(["info"]) == 141
        os.write(file.fileno(), b"the flush at exit")
    assert (tmp_path / "out").read_bytes() == b""


def test_names_that_the_output_cannot_write_are_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "ü.npy", np.ones((4, 3)))
    out = io.TextIOWrapper(io.BytesIO(), "ascii", "strict")
    monkeypatch.setattr(sys, "stdout", out)
    with runtime(host_devices=2):
        assert main(["demo", "--mesh", "2", "--input", str(tmp_path / "ü.npy")]) == 0
    assert rb"\xfc.npy" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_the_command_line_imports_neither_scikit_learn_nor_cupy() -> None:
    code = "import sys, gpushard._cli.main as m; print(*{'sklearn', 'cupy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["demo", "info", "--version"]),
        (["demo", "--help"], ["--input", "--output", "--devices", "--mesh", "--domains"]),
        (["info", "--help"], ["versions", "backend", "devices", "memory", "GPUs", "settings"]),
        (["--version"], ["gpushard"]),
    ],
)
def test_help_and_version_go_to_the_output(
    arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    output = capsys.readouterr()
    assert (left.value.code, output.err) == (0, "")
    assert [word for word in words if word not in output.out] == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "command"),
        (["dmeo"], "'dmeo'"),
        (["info", "--devices", "3"], "--devices 3"),
        (["demo", "--dev", "3"], "--dev 3"),
    ],
)
def test_arguments_that_make_no_sense_are_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert re.fullmatch(r"gpushard: error: .*; see gpushard.* --help\n", output.err)
    assert words in output.err
