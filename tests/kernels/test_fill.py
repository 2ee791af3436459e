"""The fill kernels' source, on the CPU, fills what NumPy fills."""

from __future__ import annotations

import dataclasses
import random
import struct
from pathlib import Path

import numpy as np
import pytest

from gpushard._runtime.cuda.kernels.fills import INLINE_FILLS, Filling, Fills, make_fills
from tests.kernels.boxes import address, strided
from tests.kernels.harness import SANITIZERS, allocation, build, differing, encoded, run
from tests.share import some


@dataclasses.dataclass
class Case:
    """Boxes within one buffer."""

    fills: Fills
    before: np.ndarray
    expected: np.ndarray

    def encoded(self) -> bytes:
        counts = struct.pack("II", len(self.fills.table), self.fills.blocks)
        return encoded(
            [self.before], counts, self.fills.table.tobytes(), self.fills.first.tobytes()
        )


def random_case(seed: int) -> Case:
    """Boxes of random shapes and values, some of them in a batch that the argument can't hold."""
    source = random.Random(seed)
    rng = np.random.default_rng(seed)
    count = source.choice((1, 1, 2, 3, 40))
    size, most_dims = (1 << 13, 1) if count == 40 else (1 << 18, 4)
    before = rng.integers(0, 256, count * size, np.uint8)
    after, boxes = before.copy(), []
    memory = allocation(0, before.nbytes)
    for number in range(count):
        dtype = np.dtype((np.void, source.choice((1, 2, 4, 8, 16))))
        ndim = source.randint(0, most_dims)
        most = (0, 5000 if count < 40 else 64, 40, 5, 3)[ndim]
        shape = tuple(source.choice((1, source.randint(1, most))) for _ in range(ndim))
        view = strided(after[number * size : (number + 1) * size], source, shape, dtype)
        value = rng.bytes(dtype.itemsize)
        view[...] = np.void(value)
        start = memory.address + address(view) - address(after)
        boxes.append(Filling(start, view.strides, memory, shape, value))
    return Case(make_fills(boxes), before, after)


@pytest.mark.parametrize("sanitizer", some(SANITIZERS[:1], SANITIZERS))
def test_random_boxes_are_filled_as_numpy_fills_them(sanitizer: str, tmp_path: Path) -> None:
    cases = [random_case(seed) for seed in some((*range(25), 33, 43), range(120))]
    units = [int(unit) for case in cases for unit in case.fills.table["unit"]]
    assert {1, 2, 4, 8, 16} == set(units)
    assert any(case.fills.blocks > len(case.fills.table) for case in cases)
    small = [len(case.fills.table) <= INLINE_FILLS for case in cases]
    assert any(small) and not all(small)
    out = run(build("fill", sanitizer, tmp_path), [case.encoded() for case in cases])
    expected = [
        (number, case.expected.tobytes() * (2 if inline else 1))
        for number, (case, inline) in enumerate(zip(cases, small, strict=True))
    ]
    assert differing(out, expected) == []
