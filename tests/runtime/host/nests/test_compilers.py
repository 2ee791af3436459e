"""Compilers that fail: results are those of NumPy's functions, and a warning says why."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import testing
from gpushard._runtime.host.nests import c_compiler

VALUE = np.linspace(-2, 2, 1 << 15)

OUT = 'while [ "$1" != -o ]; do shift; done\n'
"""Goes to the name of the file that a compiler is to make, which then is $2."""

SCRIPTS = {
    "fails": ("echo in file x >&2; echo region.c: error: no such flag >&2; exit 1", "no such flag"),
    "fails in silence": ("exit 3", "exit status 3"),
    "is killed": ("kill -9 $$", "SIGKILL"),
    "makes nothing": ("exit 0", "region.so"),
    "makes an empty file": (OUT + ': > "$2"', "file too short"),
    "makes another file": (OUT + 'seq 1000 > "$2"', "invalid ELF header"),
    "hangs": ('echo $$ > "$0.pid"; sleep 1000', "longer than 0.25 s"),
    "hangs below": ('sleep 1000 & echo $! > "$0.pid"; wait', "longer than 0.25 s"),
}


@pytest.fixture(autouse=True)
def no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end without kernels and warnings of other tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for cache in (c_compiler.compiled, c_compiler.warn, c_compiler._version):
        cache.cache_clear()
    yield
    for cache in (c_compiler.compiled, c_compiler.warn, c_compiler._version):
        cache.cache_clear()


def script(path: Path, text: str, version: str = "1.0") -> str:
    """Write a compiler that tells its version and then does something else."""
    tell = f'if [ "$1" = --version ]; then echo {version}; exit 0; fi'
    path.write_text(f"#!/bin/sh\n{tell}\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def check(compiler: str) -> None:
    """Run two kernels, whose results are NumPy's to the bit."""
    with testing.runtime(backend="host", host_devices=2, compiler=compiler):
        x = gnp.asarray(VALUE)
        for n in (2, 3):
            result = gs.jit(lambda x, n=n: gnp.tanh(x * n) + x)(x)
            np.testing.assert_array_equal(np.asarray(result), np.tanh(VALUE * n) + VALUE)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_compiler_that_fails(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(c_compiler, "_SECONDS", 0.25)
    text, said = SCRIPTS[name]
    compiler = script(tmp_path / "compiler", text)
    check(compiler)
    messages = {record.getMessage() for record in caplog.records}
    assert all(r.levelname == "WARNING" and r.name == "gpushard.jit" for r in caplog.records)
    assert all(m.startswith(f"{compiler} cannot make kernels") and said in m for m in messages)
    assert len(messages) == len(caplog.records) >= 1
    assert not list(tmp_path.rglob("*.so"))
    started = Path(f"{compiler}.pid")
    if started.exists():
        assert not _runs(int(started.read_text()))


def _runs(pid: int) -> bool:
    """Whether a process does anything; one that nobody waited for yet does not."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_another_version_of_a_compiler_makes_kernels_of_its_own(tmp_path: Path) -> None:
    made = []
    for version in ("1.0", "1.0", "2.0"):
        compiler = script(tmp_path / "compiler", 'exec cc "$@"', version)
        with testing.runtime(backend="host", host_devices=2, compiler=compiler):
            made.append(np.asarray(gs.jit(lambda x: x * 2 + x)(gnp.asarray(VALUE))))
        np.testing.assert_array_equal(made[-1], VALUE * 3)
        files = len(list(tmp_path.rglob("*.so")))
        assert files == (2 if version == "2.0" else 1)
        for cache in (c_compiler.compiled, c_compiler._version):
            cache.cache_clear()


def test_one_warning_for_one_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    check(script(tmp_path / "compiler", SCRIPTS["fails"][0]))
    assert len(caplog.records) == 1


def test_a_compiler_that_is_not_there(caplog: pytest.LogCaptureFixture) -> None:
    check("no-such-compiler")
    (record,) = caplog.records
    assert "no-such-compiler cannot make kernels" in record.getMessage()
    assert "PATH" in record.getMessage()


@pytest.mark.parametrize("compiler", ["", "cc"])
def test_no_compiler_is_no_mistake(
    compiler: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one of the default settings may be missing."""
    monkeypatch.setenv("PATH", "")
    check(compiler)
    assert not caplog.records


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_a_kernel_without_its_function(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A compiler that takes another source; repaired, it is asked again."""
    broken = OUT + f'echo "int other;" > "$2.c"; {shutil.which("cc")} -shared -o "$2" "$2.c"'
    compiler = script(tmp_path / "compiler", broken)
    check(compiler)
    assert "region" in caplog.text and not list(tmp_path.rglob("*.so"))
    caplog.clear()
    c_compiler.compiled.cache_clear()
    c_compiler.warn.cache_clear()
    script(tmp_path / "compiler", f'exec {shutil.which("cc")} "$@"')
    with testing.runtime(backend="host", host_devices=2, compiler=compiler):
        gs.jit(lambda x: gnp.tanh(x * 2) + x)(gnp.asarray(VALUE))
    assert not caplog.records and list(tmp_path.rglob("*.so"))


def test_one_line_says_why_there_is_no_kernel() -> None:
    def said(text: bytes) -> str:
        return c_compiler._reason(subprocess.CalledProcessError(1, "cc", stderr=text))

    assert said(b"cannot find ld\nmore of it") == "cannot find ld"
    assert said(b"cannot find ld") == "cannot find ld"
    assert said(b"in function f:\nr.c:1: error: what\nr.c:2: error: that") == "r.c:1: error: what"
    assert "status 1" in said(b"")
