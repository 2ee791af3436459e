"""Ways to run a row, a file each: a strategy gives the steps of a program.

local     each device calls the kernel on its blocks; programs around any kernel
reduce    a step gives the parts of a reduction over split factors, another merges them
owners    each call takes elements from the blocks of its memory domain, as they lie
move      elements change places, or replace others
bring     steps that bring values to other layouts
calls     calls of kernels, here or in the streams of devices
launched  the same as one launch for the devices of a chip
segment   launches of several operations, given to a GPU at once
"""
