"""The real compilers take our kernels, and refuse what is wrong with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels import fused, reduction, thread_layout
from gpushard._runtime.cuda.kernels.elementwise import Signature, Statement, source
from gpushard._runtime.cuda.kernels.limits import MOST_SHARED_BYTES
from gpushard._runtime.cuda.kernels.sources import kernel_source
from gpushard._runtime.nests import Load
from tests.nvrtc import jobs
from tests.nvrtc.compiler import Compiled, Source, nvrtc
from tests.nvrtc.jobs import TARGETS, WARNINGS, Job, problem, run, share
from tests.nvrtc.snippets import ACCEPTED, REFUSED
from tests.nvrtc.toolkits import WHEELS, is_made
from tests.runtime.nests.dealt_nests import dealt, op, statements
from tests.softgpu.sources import ADDED

OPTIONS = ("-std=c++17", *ADDED)
TYPES = ("?", "b", "B", "h", "H", "i", "I", "q", "Q", "e", "f", "d", "F", "D")

pytestmark = pytest.mark.skipif(
    not all(map(is_made, WHEELS)), reason="`python -m tests.nvrtc.toolkits` brings the compilers"
)


def compiled(text: str, version: str = "13.0", architecture: int = 90) -> Compiled:
    return nvrtc(version).compile(Source(text, OPTIONS), architecture)


def sums(letter: str, *, wide: bool = False) -> str:
    """Return the kernel that adds two blocks of a type."""
    one = np.dtype(letter)
    statement = Statement("out0 = out0_type(in0 + in1)", "", (one, one), (one,))
    return source(statement, Signature((one, one), (1,), (one,), 8, wide))


@pytest.mark.one_of(7)
@pytest.mark.parametrize("version", WHEELS)
@pytest.mark.parametrize("letter", TYPES)
def test_kernels_of_each_type_compile(letter: str, version: str) -> None:
    assert problem(compiled(sums(letter), version)) is None
    one = np.dtype(letter)
    for name in reduction.OPERATIONS:
        result = np.dtype(bool) if name in ("any", "all") else one
        text = reduction.source(name, Signature((one,), (), (result,), 8, False))
        assert text is None or problem(compiled(text, version)) is None
    for result in map(np.dtype, TYPES):
        text = reduction.source("sum", Signature((one,), (), (result,), 8, False))
        assert text is None or problem(compiled(text, version)) is None, result


@pytest.mark.parametrize("version", WHEELS)
@pytest.mark.parametrize("wide", [False, True])
def test_kernels_that_count_with_64_bits_compile(version: str, wide: bool) -> None:
    """Of `x[:, 5, 7] + 0` and of what it adds up to; rows have 65,536 by 65,536 elements."""
    assert problem(compiled(sums("f", wide=wide), version)) is None
    byte = np.dtype(np.int8)
    load = Load(0, byte, (0, 1, None, None), (0, 0, 5, 7), (0, 0, 65_535, 65_535))
    copy = op("copy", (0,), (byte,), byte, {0, 1})
    add = op("sum", (1,), (byte,), byte, {0}, (1,))
    one = dealt([load], [copy, add], [(1, (0, 1)), (2, (0,))], 2, along={1})
    way = thread_layout.threads(one, [(2, 300)])
    assert thread_layout.largest_index(one, way, (2, 300)) > 2**32
    text = fused.source(one, one.signature(8, wide=wide), statements(one), way)
    assert text is not None
    found = compiled(text, version)
    assert 0 < found.shared <= MOST_SHARED_BYTES
    assert (problem(found) is None) == wide, "literals overflow, says the compiler, of 32 bits"


def test_half_precision_needs_its_header() -> None:
    text = sums("e")
    assert "#include <cupy/float16.cuh>" in text
    found = compiled(text.replace("#include <cupy/float16.cuh>", ""))
    assert not found.done and "incomplete type" in str(problem(found))


@pytest.mark.one_of(7)
@pytest.mark.parametrize("version", WHEELS)
@pytest.mark.parametrize("what", [*ACCEPTED, *REFUSED])
def test_the_software_gpu_agrees(what: str, version: str) -> None:
    """`tests/softgpu/test_compiler.py` holds the software GPU to the same lists."""
    found = compiled({**ACCEPTED, **REFUSED}[what], version)
    assert found.done == (what in ACCEPTED), found.messages


@pytest.mark.one_of(7)
@pytest.mark.parametrize("target", TARGETS, ids=str)
@pytest.mark.parametrize("name", ["box_copy", "fill"])
def test_kernels_of_files_compile_for_every_architecture(
    name: str, target: tuple[str, int]
) -> None:
    found = compiled(kernel_source(name), *target)
    assert problem(found) is None and not found.spilled
    assert 0 < found.registers <= 128
    assert (found.shared > 0) == (name == "box_copy") and found.shared <= MOST_SHARED_BYTES


def test_a_warning_that_nobody_knows_is_a_problem() -> None:
    text = 'extern "C" __global__ void f(int* a) { int n; *a = n; }'
    found = compiled(text)
    assert found.done and "550-D" not in WARNINGS
    assert "uninitialized" in str(problem(found)) or "used before" in str(problem(found))


def test_what_was_compiled_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "results", lambda: tmp_path / "results")
    path = tmp_path / "one.json"
    Source(sums("f"), OPTIONS).write(path)
    first = Job(path, "13.0", 90).run()
    monkeypatch.setattr(jobs, "nvrtc", None)
    assert [*run([Job(path, "13.0", 90)], 1)] == [(Job(path, "13.0", 90), first)] and first.done


def test_a_share_has_each_template_with_each_type(tmp_path: Path) -> None:
    for n, text in enumerate([sums("f"), sums("d"), sums("f", wide=True), kernel_source("fill")]):
        Source(text, OPTIONS).write(tmp_path / f"{n}.json")
    assert {path.stem for path in share(sorted(tmp_path.iterdir()))} == {"0", "1", "3"}
