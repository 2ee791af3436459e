"""Named dims: functions that are called once for all elements along a dim, or for all blocks.

- `vmap`, `shard_map`: what users call.
- `specs`: their meshes and specs.
- `device_axis`: dims with an element for each device, where those of `pmap` live.
- `collectives`: operations that move elements along named dims.
- `groups`: parts of an axis, within which collectives work.
- `named_einsum`: Einstein sums over named dims.
"""
