"""Record a function as a graph, and run graphs.

- `trace`: the recorder, and the values that a function sees while it is recorded.
- `constraints`: shardings that users ask for.
- `callbacks`: calls of functions on the host, with values of arrays.
- `fold`: compute operations on constants once, when the graph is compiled.
- `executable`: run a graph as a list of prepared calls.
"""
