"""Run Rule 30 on a circle of cells: each device has some, and reads one more on either side.

A cell lives next if exactly one of these holds: its left neighbour lives, or it or its right
neighbour lives: `left ^ (cell | right)`. Each device gets the last cell of the device to its left,
and the first cell of the device to its right: two bytes a step, for any number of cells.
"""

import numpy as np

import gpushard as gs
from gpushard import P, lax

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((8,), ("i",))
CELLS, STEPS = 128, 32


@gs.shard_map(mesh=mesh, in_specs=P("i"), out_specs=P("i"))
def step(cells):  # 16 cells
    n = lax.axis_size("i")
    before = lax.ppermute(cells[-1:], "i", [(i, (i + 1) % n) for i in range(n)])
    after = lax.ppermute(cells[:1], "i", [(i, (i - 1) % n) for i in range(n)])
    seen = gs.numpy.concatenate([before, cells, after])
    return seen[:-2] ^ (cells | seen[2:])


start = np.arange(CELLS) == CELLS // 2
cells, expected = gs.device_put(start, gs.NamedSharding(mesh, P("i"))), start
with gs.debug.count_traffic() as traffic:
    history = [cells := step(cells) for _ in range(STEPS)]
for row in history:
    expected = np.roll(expected, 1) ^ (expected | np.roll(expected, -1))
    assert np.array_equal(row, expected)
    print("".join(" #"[alive] for alive in expected[CELLS // 2 - 36 : CELLS // 2 + 37].astype(int)))

assert set(traffic.received.values()) == {2 * STEPS}
print(f"{STEPS} steps: each device received {traffic.received[0]} bytes")
