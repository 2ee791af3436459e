"""Functions that run other functions: as often, or which, as values say.

- `bodies`: the functions that are run; each is traced once.
- `branches`: `cond` and `switch`.
- `loops`: `while_loop` and `fori_loop`.
- `scans`: `scan` and `map`.
- `prefix_scan`: `associative_scan`.
"""
