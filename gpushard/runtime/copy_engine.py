"""Whether a copy engine of a GPU moves a box, or a kernel."""

from __future__ import annotations


def by_engine(nbytes: int, *, dense: bool, crosses: bool, least: int) -> bool:
    """Whether a copy engine moves a box, dense on both sides, from another domain (`crosses`).

    Within the memory of a GPU a kernel is faster. Over a link, an engine leaves the multiprocessors
    to others, but it takes a call per box, worth it from `least` bytes on, and moves bytes that lie
    in a row only.
    """
    return crosses and dense and 0 < least <= nbytes
