"""Several operations of a graph as one kernel.

- `regions`: which operations go together.
- `layout`: where the values of such a group lie, and the operation that it becomes.
- `views`: operations that only rearrange dims.
- `halos`: rows that neighbours' blocks lend.
- `segments`: several operations that a GPU is given as one launch.
"""
