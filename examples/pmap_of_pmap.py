"""Run Sinkhorn's algorithm on a grid of blocks: a `pmap` over its columns in one over its rows.

Divide the rows and the columns of a positive matrix by their sums in turn: it becomes doubly
stochastic. Four times two devices have a block each. The outer `pmap` names the rows of this grid,
the inner one its columns, and each sum runs over the devices along one of the two. Results stay
where they are: after the first step only sums move.

R. Sinkhorn, "A relationship between arbitrary positive matrices and doubly stochastic matrices",
Ann. Math. Statist. 35(2), 1964.
"""

import numpy as np

import gpushard as gs
from gpushard import lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
STEPS = 6
matrix = np.random.default_rng(0).uniform(1, 3, size=(64, 64))


def sweep(block):  # (16, 32)
    block = block / lax.psum(block.sum(1, keepdims=True), "column")  # of the blocks beside it
    return block / lax.psum(block.sum(0, keepdims=True), "row")  # of those above and below


sinkhorn = gs.pmap(gs.pmap(sweep, "column"), "row")
blocks = matrix.reshape(4, 16, 2, 32).swapaxes(1, 2)  # (4, 2, 16, 32): a grid of blocks
for step in range(STEPS):
    with gs.debug.count_traffic() as traffic:
        blocks = sinkhorn(blocks)
    rows = np.asarray(blocks).sum((1, 3))
    print(f"step {step}: sums of rows differ from 1 by at most {abs(rows - 1).max():.0e}", end=", ")
    print(f"{traffic.bytes_received:,} bytes moved")

expected = matrix
for _ in range(STEPS):
    expected = expected / expected.sum(1, keepdims=True)
    expected = expected / expected.sum(0)
assert np.allclose(np.asarray(blocks).swapaxes(1, 2).reshape(64, 64), expected)
assert abs(rows - 1).max() < 1e-14

row_sums, column_sums = 16 * 8, 32 * 8  # bytes, of each block
assert traffic.bytes_received == 8 * 2 * (1 / 2 * row_sums + 3 / 4 * column_sums)
print(f"\nof {blocks.sharding.sharding_spec},\nblock (2, 1) is on {blocks[2, 1].devices()}")
