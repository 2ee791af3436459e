"""Each program in `examples/` runs; what it claims it asserts."""

import re
import runpy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from gpushard._runtime import current_runtime
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.sim import SimRuntime
from tests.share import some

FOLDER = Path(__file__).parents[1] / "examples"
PROGRAMS = sorted(FOLDER.glob("*.py"))
FEW = [FOLDER / f"{name}.py" for name in ("parallel_mlp", "pmap_of_pmap", "ring_matmul", "rule_30")]

NEEDED = {"digits_mlp": "sklearn", "nnx_digits": "sklearn"}
"""Libraries that programs take data from."""

Own = AbstractContextManager[None]


@pytest.fixture
def own_devices(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Own]:
    """Let programs configure devices, as they do in a process of their own."""

    @contextmanager
    def own() -> Iterator[None]:
        monkeypatch.setattr(current_runtime, "_settings", None)
        before = current_runtime.swap(None)
        try:
            yield
        finally:
            made = current_runtime.swap(before)
            if made is not None:
                made.close()

    return own


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_program_runs(
    program: Path, own_devices: Callable[[], Own], capsys: pytest.CaptureFixture[str]
) -> None:
    if program.stem in NEEDED:
        pytest.importorskip(NEEDED[program.stem])
    with own_devices():
        runpy.run_path(str(program), run_name="__main__")
    assert capsys.readouterr().out


@pytest.mark.parametrize("seed", range(some(1, 2)))
@pytest.mark.parametrize("program", some(FEW, PROGRAMS), ids=lambda program: program.stem)
def test_a_program_runs_where_work_is_done_late(
    program: Path, seed: int, own_devices: Callable[[], Own], monkeypatch: pytest.MonkeyPatch
) -> None:
    if program.stem in NEEDED:
        pytest.importorskip(NEEDED[program.stem])

    def make(settings: Settings) -> Runtime:
        runtime = SimRuntime(settings, seed)
        runtime.sim.failing = 0  # of allocations
        return runtime

    monkeypatch.setattr(current_runtime, "make_runtime", make)
    with own_devices():
        runpy.run_path(str(program), run_name="__main__")
        current_runtime.current().backend.check()


def test_the_index_names_each_program() -> None:
    index = (FOLDER / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[(.*?)\]\(\1\) \|", index, re.MULTILINE)
    assert sorted(named) == [program.name for program in PROGRAMS]
