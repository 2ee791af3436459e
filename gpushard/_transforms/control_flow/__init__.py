"""Control flow: functions that run one of several functions, or one function several times.

- `bodies`: trace the functions of the user, and keep what was traced.
- `branches`: `cond` and `switch`.
- `loops`: `while_loop` and `fori_loop`.
- `scans`: `scan` and `map`.
- `prefix_scan`: `associative_scan`.
"""
