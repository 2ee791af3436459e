"""Reductions: sums, means, extremes and their positions, tests.

`axis` is an integer, a tuple of them or None for all dims. What is merged over devices moves one
partial result per block, never the data. Arguments are in NumPy's order.
"""

from __future__ import annotations

from gpushard.functions import statistical
from gpushard.numpy.public import public_array

sum = public_array(statistical.sum)
prod = public_array(statistical.prod)
mean = public_array(statistical.mean)
var = public_array(statistical.var)
std = public_array(statistical.std)
min = amin = public_array(statistical.min)
max = amax = public_array(statistical.max)
any = public_array(statistical.any)
all = public_array(statistical.all)
argmin = public_array(statistical.argmin)
argmax = public_array(statistical.argmax)
count_nonzero = public_array(statistical.count_nonzero)
