"""How a function is recorded, and how what was recorded runs.

- `trace`: what records, and the values that a function sees meanwhile.
- `constraints`: where users say that values lie.
- `callbacks`: functions on the host that are called with values.
- `fold`: operations on constants, which are done once.
- `executable`: a graph as a list of prepared calls.
"""
