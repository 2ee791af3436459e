"""Loop nests, and how each becomes a kernel.

- `nests`: what a kernel computes; every emitter takes it from here.
- `tiles`: kernels made of NumPy's functions, tile by tile.
- `expressions`: one elementwise operation in C.
- `c_schedule`, `c_products`, `c_source`, `c_kernels`: kernels in C.
- `compiled`: the C compiler, and the folder in which its results are kept.
"""
