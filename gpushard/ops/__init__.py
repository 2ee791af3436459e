"""Operations: rows of a table, and what runs them where their operands lie.

A row says what an operation means: result types, a factor rule, a local kernel, how partial results
merge. `bind` is the one door; `dispatch` runs a row on sharded buffers.
"""
