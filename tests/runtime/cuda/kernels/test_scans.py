"""Arrays that CuPy cannot count along an axis are cut into parts, by shapes alone."""

from __future__ import annotations

import itertools
import math

import pytest

from gpushard._runtime.cuda.kernels import limits, scans

EDGE = 2**31


@pytest.mark.parametrize(
    ("shape", "axis", "count"),
    [((2, EDGE // 4 - 1), 1, 1), ((2, EDGE // 4), 1, 2), ((EDGE // 4, 2), 0, 2),
     ((2, EDGE // 2), 1, 2), ((2, 2 * EDGE), 1, 2), ((4 * EDGE, 2), 0, 2),
     ((3, 5, EDGE // 16), 0, 2), ((8, 5, EDGE // 16), 1, 8), ((EDGE, 1), 1, 4),
     ((1, EDGE), 1, 1)],
)  # fmt: skip
def test_parts_fit_or_are_rows(shape: tuple[int, ...], axis: int, count: int) -> None:
    found = list(scans.parts(shape, axis))
    assert (len(found) == 1) == (count == 1) and len(found) == count
    for part in found:
        lengths = [x.stop - x.start for x in part]
        assert lengths[axis] == shape[axis]
        assert 2 * math.prod(lengths) < EDGE or math.prod(lengths) == shape[axis]
    assert scans.fits(shape) == (2 * math.prod(shape) < EDGE)


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("most", [1, 12, 30, 100])
def test_parts_have_each_element_once(
    axis: int, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "NARROW_END", most)
    shape = (3, 5, 4)
    found = [
        at
        for part in scans.parts(shape, axis)
        for at in itertools.product(*[range(x.start, x.stop) for x in part])
    ]
    assert sorted(found) == list(itertools.product(*map(range, shape)))
