"""The merge kernels' source, on the CPU, gives NumPy's results, merged in order."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.harness import HERE, SANITIZERS, build, run
from tests.kernels.merging import MERGE_KERNELS, PAIRS, random_case


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_merges_are_those_of_numpy_in_order(sanitizer: str, tmp_path: Path) -> None:
    lines = [f"INSTANCE({name})" for name in MERGE_KERNELS]
    (tmp_path / "instances.inc").write_text("\n".join(lines))
    program = build("merge", sanitizer, tmp_path, f"-I{tmp_path}", f"-I{HERE / 'include'}")
    seeds = iter(range(10_000))
    cases = [random_case(*pair, next(seeds)) for pair in PAIRS for _ in range(8)]
    assert {bool(case.merging.argument["wide"]) for case in cases} == {False, True}
    assert any(case.output < case.merging.argument["count"] for case in cases)
    out = run(program, [case.encoded() for case in cases])
    at, wrong = 0, []
    for case in cases:
        nbytes = sum(array.nbytes for array in case.memory)
        if not case.right(out[at : at + nbytes]):
            wrong.append(case.merging.kernel)
        at += nbytes
    assert not wrong and at == len(out)
