"""`jit`: trace a function once for arguments of a kind, and run the recorded operations again.

- `jit`: the function that users call, and the cache of compiled functions.
- `arguments`: static and donated arguments, and other options.
- `stages`: the traced, lowered and compiled stages of a function, and their properties.
- `memory`: an estimate of the most memory that a graph takes at once.
- `abstract`: the operations of a function, and the shapes of its results, without running it.
"""
