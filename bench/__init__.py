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
`watch`     its processes: begun anew where one hangs or crashes
`records`   what it records, line by line, so that nothing is lost
`summary`   what the records come to, in Markdown
`smoke`     programs that try each type and kind of kernel once
`each_test` a plugin of pytest that records each test
`peers`     JAX with eight virtual CPU devices, where it is installed
`report`    tables and JSON
`machine`   facts about the machine and the versions
=========== ==========================================================================
"""
