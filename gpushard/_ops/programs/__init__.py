"""How a row runs: a file for each way.

local     every device calls the kernel on what it has; what moves before and after any kernel
reduce    factors that are summed while they are split: states, and what merges them
owners    elements are taken from where they lie, whichever device of the domain has them
move      elements change their places alone, or replace others
calls     calls of kernels, here or in the devices' streams
launched  the same as one launch for the devices of a chip
"""
