"""Create an array in which every process computes only the parts of its own devices.

The callback gets the boxes of the array, one for each block, and could read them from a file. No
process needs the whole array. `GlobalDeviceArray` is JAX's older name for such an array, with
`local_shards`. Operations return an `Array`, which has them as `addressable_shards`. Here one
process has all devices.
"""

import numpy as np

import gpushard as gs
from gpushard import P
from gpushard.legacy import GlobalDeviceArray

gs.configure(backend="host", host_devices=8, host_domains=8)  # eight devices that share no memory
mesh = gs.make_mesh((4, 2), ("x", "y"))
boxes = []


def elements(index):
    """Return 10 * row + column of a box, given as a slice for each dim."""
    boxes.append(index)
    rows, columns = (np.arange(part.start, part.stop) for part in index)
    return 10.0 * rows[:, None] + columns


gda = GlobalDeviceArray.from_callback((16, 8), mesh, ("x", "y"), elements)
whole = 10.0 * np.arange(16)[:, None] + np.arange(8)
print(gda)
for shard in gda.local_shards[:3]:
    print(f"  {shard.device} has {shard.index}")
    assert np.array_equal(shard.data, whole[shard.index])
assert len(boxes) == len(set(map(str, boxes))) == 8  # each box once
assert gda.local_data(3).shape == (4, 4) and not gda.is_fully_replicated

with gs.debug.count_traffic() as traffic:
    square = gs.numpy.matmul(gda, gda.T, out_sharding=gs.NamedSharding(mesh, P("y", "x")))
assert np.array_equal(square, whole @ whole.T)
assert square.addressable_shards[0].data.shape == (8, 4)
print(f"\ngda @ gda.T, which moved {traffic.bytes_received:,} bytes:")
gs.debug.visualize_array_sharding(square, scale=0.5)
