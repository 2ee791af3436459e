"""Random numbers from counters, for the kernels of rows: `xp` is NumPy or CuPy.

threefry    the generator: a function of a key and a counter
blocks      blocks of elements, with their positions in the whole array
stream      bits, uniform and normal numbers of a block
special     functions that NumPy lacks
rejection   gamma, Poisson and binomial numbers
"""
