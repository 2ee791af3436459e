"""Control flow: functions that run one of several functions, or one function several times.

- `bodies`: trace the functions of the user; `body_cache` keeps them for the next call.
- `loop_carry`: the values that a loop carries.
- `branches`: `cond` and `switch`.
- `loops`: `while_loop` and `fori_loop`.
- `scans`: `scan` and `map`.
- `prefix_scan`: `associative_scan`.
"""
