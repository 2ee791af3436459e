"""Sources of fused programs and of rows are there for the real compilers: see `sources`."""

from __future__ import annotations

import itertools
from pathlib import Path

from tests.gpu.device import needs_gpu
from tests.gpu.sources import TYPES, keep_programs, run_rows
from tests.nvrtc.compiler import Source
from tests.nvrtc.share import templates
from tests.ops.cases import FORMS
from tests.runtime.nests import nest_families

pytestmark = needs_gpu


def test_kernels_of_programs_are_kept_and_not_compiled(tmp_path: Path) -> None:
    cases = itertools.islice(nest_families.cases(), 0, None, 500)
    assert keep_programs(tmp_path, cases, 3) == 3
    kept = [Source.read(path) for path in tmp_path.iterdir()]
    assert len({one.text for one in kept}) == 3
    assert all(templates(one.text) == {"fused"} for one in kept)
    assert all("--fmad=false" in one.options for one in kept)


def test_rows_run_with_each_type() -> None:
    add = next(row for row in FORMS if row.name == "add")
    assert run_rows([add]) >= len(TYPES)
