"""The flat-order kernels' source, on the CPU, packs and unpacks what NumPy does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels.flats import random_case
from tests.kernels.harness import SANITIZERS, build, differing, run


@pytest.mark.parametrize("sanitizer", SANITIZERS)
def test_common_elements_are_packed_and_unpacked(sanitizer: str, tmp_path: Path) -> None:
    cases = [random_case(seed) for seed in range(400)]
    jobs = [job for case in cases for job in case.jobs.table]
    assert {(int(job["mapped"]), int(job["unit"])) for job in jobs} == {
        (mapped, unit) for mapped in (0, 1) for unit in (1, 2, 4, 8, 16)
    }
    assert any(job["dims"] > 4 and job["mapped"] for job in jobs)
    assert any(case.jobs.blocks > len(case.jobs.table) > 1 for case in cases)
    out = run(build("flat", sanitizer, tmp_path), [case.encoded() for case in cases])
    expected = [b"".join(array.tobytes() for array in case.expected) for case in cases]
    assert differing(out, enumerate(expected)) == []
