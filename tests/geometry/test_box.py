"""The blocks of one dim, against dealing out its elements in chunks."""

from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.tiling import block_bounds, block_edges, whole

counts = st.integers(1, 16)


@given(st.integers(0, 60), counts)
def test_block_j_holds_the_jth_chunk(size: int, blocks: int) -> None:
    chunk = (size + blocks - 1) // blocks
    chunks = [[e for e in range(size) if e // chunk == j] for j in range(blocks)]
    bounds = [block_bounds(size, blocks, j) for j in range(blocks)]
    assert [list(range(*b)) for b in bounds] == chunks
    assert all(0 <= start <= stop <= size for start, stop in bounds)


@given(st.integers(0, 60) | st.integers(0, 2**48), counts)
def test_edges_are_the_bounds_side_by_side(size: int, blocks: int) -> None:
    edges = block_edges(size, blocks)
    assert edges.dtype == "int64"
    bounds = [block_bounds(size, blocks, j) for j in range(blocks)]
    assert list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)) == bounds
    assert (edges[0], edges[-1]) == (0, size)


@given(st.lists(st.integers(0, 13), max_size=4).map(tuple))
def test_whole_selects_every_element(shape: tuple[int, ...]) -> None:
    assert [range(n)[part] for n, part in zip(shape, whole(shape), strict=True)] == [
        range(n) for n in shape
    ]
