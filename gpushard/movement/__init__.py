"""Layer 3: copies between shards. It knows shardings and memory, not the names of operations.

A movement has one source, and its result is a product of dims (`dim_map`): `plan` decides what is
reused (`reuse`), copied (`copies`, `relays`) and in which steps; `execute` runs it, `move` reaches
all kinds of memory, `update` replaces a part of an array.

A rearrangement has parts from several sources, or cuts dims into factors (`rearrangement`). Those
of NumPy are made by `rearrangements` and `reshapes`; `rearrange` runs one:

    digits, space_boxes     blocks as boxes of a space of elements, and where these lie in memory
    space_copies            who copies what from whom: a movement of boxes within that space
    strided_copies          these copies as arrays; `progressions` joins them
    kept_blocks             what needs no copy
    rearrange_plan, _steps  all of it as a plan, and the work of each memory domain
    rearrange_jobs          plans that are kept; `nearby`: where a source goes that is out of reach
"""
