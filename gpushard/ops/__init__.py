"""Layer 4: operations on sharded buffers. It knows neither `Array` nor the public functions.

An operation is a row of a table (`table/`, `row`): result types, a factor rule (`rule`), a local
kernel, and strategies: the ways to run it. All go through one door, `bind`. Plain arrays come to
`dispatch`, which compiles a row once for operands of a kind:

    operand, shardings  what operands are; which devices, where they go, where results lie
    choose              which mesh axes split which factors, by exact bytes
    programs/           how a row runs, a file for each way: local, reduce, owners, move
    derived             rows with named dims in front of operands, made of those without
    narrow              rows that work in single precision, made of those that do not
    in_order            merging many parts by a ufunc in one launch
    create              rows without operands
    indexing, indexed   basic indices as pieces; index arrays and the factors of their dims
    gather_guard        a guard for moves that nobody asked for
"""
