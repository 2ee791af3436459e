"""Mapped functions: Python calls one once, for all elements along an axis or for all blocks.

- `vmap`, `shard_map`: the functions that users call.
- `specs`: checks of meshes and specs.
- `pmap_axis`: the axes of `pmap`, which have an element for each device.
- `collectives`: the collectives that users call, such as `psum`.
- `named_dims`: reductions and movements along named dims, which make up the collectives.
- `groups`: groups of the elements of an axis, within which collectives work.
- `named_einsum`: Einstein sums over named dims.
"""
