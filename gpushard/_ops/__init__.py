"""Layer 4: operations on sharded buffers. It knows neither `Array` nor the public functions.

An operation is a row of a table (`table/`, `row`). A row has result types, a factor rule (`rule`),
a local kernel, and strategies, the ways to run it. All operations go through `bind`. For plain
arrays, `dispatch` compiles a row once for operands of the same shapes, types and shardings:

    operand, shardings  operands, the devices that run, and the layouts of operands and results
    committed           the devices that committed operands decide
    choose_split        choose the mesh axes that split each factor, by exact bytes
    steps               programs as steps, data that costs, memory and launches are read from
    programs/           compile a row to steps, a file for each way: local, reduce, owners, move
    derived             derive rows with named dims in front of operands
    narrow_floats       derive rows that compute narrow floats in single precision
    merge_in_order      merge many parts by a ufunc in one launch
    basic_index         basic indices as pieces
    index_arrays        index arrays, and the factors of their dims
    gather_guard        a guard for implicit moves
"""
