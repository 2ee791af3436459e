"""Loop nests on the host: how each becomes C, or calls of NumPy's functions.

- `choose_kernel`: which of the following a nest gets.
- `block_kernels`: what all kernels do with the blocks that they are given.
- `numpy_tiles`: kernels made of NumPy's functions, tile by tile.
- `expressions`: one elementwise operation in C.
- `c_schedule`, `c_products`, `c_source`, `c_kernels`: kernels in C.
- `c_compiler`: the C compiler, and the folder in which its results are kept.
"""
