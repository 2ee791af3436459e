"""Random numbers from counters, for the kernels of rows: `xp` is NumPy or CuPy.

threefry    the function of a key and a counter that all numbers come from
blocks      blocks of elements, each with its position in the whole array
stream      bits, uniform and normal numbers of a block
special     functions that NumPy lacks
rejection   gamma, Poisson and binomial numbers
"""
