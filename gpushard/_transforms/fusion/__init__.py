"""Fuse operations of a graph into kernels.

- `fuse`: choose the operations that become one kernel.
- `layout`: lay out the values of a region, and build its operation.
- `views`: operations that only rearrange dims, and are part of how a kernel reads.
- `halos`: rows of neighbouring blocks that a kernel needs, as stencils do.
- `segments`: several kernels that a GPU is given as one launch.
"""
