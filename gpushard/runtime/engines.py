"""Which copies go by a copy engine, and which by a kernel. Pure."""

from __future__ import annotations


def by_engine(nbytes: int, *, dense: bool, crosses: bool, least: int) -> bool:
    """Whether a copy engine moves a box.

    Within the memory of a GPU a kernel is faster. Over a link, an engine leaves the multiprocessors
    to others, but it takes a call per box and moves bytes that lie in a row only.

    Args:
      nbytes: bytes of the box.
      dense: whether they lie in a row on both sides.
      crosses: whether it comes from another memory domain.
      least: bytes from which an engine is worth its call; `Settings.engine_bytes`.
    """
    return crosses and dense and 0 < least <= nbytes
