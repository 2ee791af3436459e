"""`gpushard info`, and what all commands share."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gpushard as gs
from gpushard.cli.main import main
from gpushard.config import Settings
from gpushard.testing import runtime


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
    assert list(sections) == ["versions", "backend", "devices", "memory in bytes", "settings"]
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


@pytest.mark.parametrize(
    ("backend", "why"),
    [(None, "the only backend of this version"), ("host", "chosen by GPUSHARD_BACKEND=host")],
)
def test_the_backend_comes_with_its_reason(
    backend: str | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with runtime(backend=backend):
        assert run_info(capsys)["backend"] == [f"host: {why}".split()]


def test_versions_name_cupy_without_importing_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "cupy_cuda13x-99.1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: cupy-cuda13x\nVersion: 99.1\n")
    (tmp_path / "cupy.py").write_text("raise AssertionError('cupy was imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with runtime():
        versions = {name: text for name, *text in run_info(capsys)["versions"]}
    assert versions["cupy"][:2] == ["99.1", "(cupy-cuda13x),"]
    assert versions["numpy"] == [np.__version__]
    assert versions["python"][0] == ".".join(map(str, sys.version_info[:3]))


def test_the_environment_is_read_and_an_unknown_backend_is_one_line() -> None:
    good = run_module("info", GPUSHARD_HOST_DEVICES="3", GPUSHARD_BACKEND="host")
    assert (good.returncode, good.stderr) == (0, "")
    assert len(read_sections(good.stdout)["devices"]) == 1 + 3
    bad = run_module("info", GPUSHARD_BACKEND="abacus")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert re.fullmatch(r"gpushard: error: .*'abacus'.* host\n", bad.stderr)


def test_a_reader_that_leaves_early_is_no_error() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "gpushard", "info"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, timeout=60, env=buffered)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_command_line_imports_neither_scikit_learn_nor_cupy() -> None:
    code = "import sys, gpushard.cli.main as m; print(*{'sklearn', 'cupy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("\n", "")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], ["demo", "info", "--version"]),
        (["demo", "--help"], ["--input", "--output", "--devices", "--mesh", "--domains"]),
        (["info", "--help"], ["versions", "backend", "devices", "memory", "settings"]),
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
