"""Cut cumulative sums and products that are too large for a call of CuPy into parts. Pure.

Along an axis, CuPy's kernel counts the elements of all rows with 32 bits. It rounds the length of
rows up, to a power of 2 or to a multiple of 512. Its kernel for one row counts with 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gpushard._runtime.cuda.kernels.limits import is_wide
from gpushard._typing import Shape

Part = tuple[slice, ...]


def fits(shape: Shape) -> bool:
    """Whether one call can count an array along any axis."""
    return not is_wide(2 * math.prod(shape))


def parts(shape: Shape, axis: int) -> Iterator[Part]:
    """Cut an array in halves, but not along an axis, until a part fits or is one row.

    >>> [(x.start, x.stop) for x, _ in parts((3, 1 << 30), 1)]
    [(0, 1), (1, 2), (2, 3)]
    """
    yield from _halves([(0, n) for n in shape], axis)


def _halves(bounds: list[tuple[int, int]], axis: int) -> Iterator[Part]:
    lengths = [0 if n == axis else stop - start for n, (start, stop) in enumerate(bounds)]
    if fits(tuple([stop - start for start, stop in bounds])) or max(lengths) < 2:
        yield tuple([slice(start, stop) for start, stop in bounds])
        return
    cut = lengths.index(max(lengths))
    start, stop = bounds[cut]
    middle = (start + stop) // 2
    for half in (start, middle), (middle, stop):
        yield from _halves([*bounds[:cut], half, *bounds[cut + 1 :]], axis)
