"""Choose between a copy engine of a GPU and a kernel to move a box."""

from __future__ import annotations


def by_engine(nbytes: int, *, dense: bool, crosses: bool, least: int) -> bool:
    """Whether a copy engine moves a box, rather than a kernel.

    Within the memory of a GPU, a kernel is faster. Over a link, an engine leaves the
    multiprocessors free for other work. But it needs a call for each box, which pays from `least`
    bytes on, and it moves contiguous bytes only.

    Args:
      nbytes: the size of the box.
      dense: whether the box is contiguous on both sides.
      crosses: whether it comes from another memory domain.
      least: the fewest bytes that are worth a call; 0 to use no engine.
    """
    return crosses and dense and 0 < least <= nbytes
