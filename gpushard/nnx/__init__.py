"""Modules as graphs: objects that hold arrays, and transforms that take them as arguments.

>>> import gpushard as gs
>>> from gpushard import nnx
>>> class Counter(nnx.Module):
...     def __init__(self):
...         self.count = nnx.Variable(gs.numpy.zeros((), int))
"""

from gpushard.nnx import filters, module, state, variable
from gpushard.nnx.filters import *
from gpushard.nnx.module import *
from gpushard.nnx.state import *
from gpushard.nnx.variable import *

__all__: list[str] = []
__all__ += filters.__all__
__all__ += variable.__all__
__all__ += state.__all__
__all__ += module.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
