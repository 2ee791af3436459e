"""Benchmarks: gpushard beside JAX and beside plain NumPy, measured in one run.

=========== ==========================================================================
module      what it knows
=========== ==========================================================================
`groups`    the cases; a new group is one more file there
`case`      what a case is: who does it, how to check it, how long it may take
`measure`   timing: the sides of a case take turns
`boxes`     which boxes a movement must copy, worked out without gpushard's planner
`floor`     copying boxes with plain NumPy on two threads
`chip`      a GPU: runtimes, clocks, plain copies, and the peers on it
`on_gpu`    the command that runs all that needs a GPU
`peers`     JAX with eight virtual CPU devices, where it is installed
`report`    tables and JSON
`machine`   facts about the machine and the versions
=========== ==========================================================================
"""
