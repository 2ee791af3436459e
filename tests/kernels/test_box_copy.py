"""The box copy kernels' source, on the CPU, copies what NumPy copies."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from gpushard._runtime.cuda.kernels.copy_pieces import BATCH, PIECE
from tests.kernels.boxes import FORMS, forms, random_case
from tests.kernels.harness import SANITIZERS, build
from tests.share import some

OF_ALL_FORMS = (0, 1, 5, 7, 9, 10, 12, 14, 23, 24, 25, 35, 37, 39, 47, 49, 55)
"""Seeds of cases that have a piece of each form."""


@pytest.fixture(scope="module", params=some(SANITIZERS[:1], SANITIZERS))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kernels as a program for the CPU, under a sanitizer."""
    return build("box_copy", request.param, tmp_path_factory.mktemp("kernels"))


def test_random_boxes_come_out_as_numpy_copies_them(program: Path) -> None:
    cases = [random_case(seed) for seed in some(OF_ALL_FORMS, range(60))]
    assert {form for case in cases for form in forms(case.pieces)} == FORMS
    data = b"".join(case.encoded() for case in cases)
    done = subprocess.run([program], input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert list(map(int, done.stdout.split())) == [PIECE.itemsize, BATCH.itemsize]
