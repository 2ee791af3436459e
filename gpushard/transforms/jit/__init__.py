"""`jit`: a function is traced once for arguments of a kind, and what was recorded runs again.

- `jit`: what users call, and the cache of compiled functions.
- `arguments`: which arguments are static or donated.
- `stages`: traced, lowered, compiled; what can be asked of each.
- `memory`: the most memory that a graph takes at once.
- `abstract`: shapes, types and operations of a function that never runs.
"""
