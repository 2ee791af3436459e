"""Recorded operations, where their values lie, and what that costs.

- `graph`: operations in order, and the values between them.
- `ops`: the kinds of operations, as data.
- `layouts`: an operation for values that lie elsewhere than when it was recorded.
- `simplify`: fewer operations that give the same results.
- `variances`: variances that read a large array once.
- `layout_search`: where values lie so that few bytes move.
- `priced`: the bytes that one operation moves.
- `costs`: operations on numbers, and bytes, of a whole graph.
"""
