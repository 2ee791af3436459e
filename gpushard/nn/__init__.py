"""Compute functions of neural networks, under the names of `jax.nn`.

The functions run on the devices of their arguments, and results keep the shardings. `activations`
has elementwise functions, `normalizing` functions that sum over axes, and `attention` the attention
of queries to keys and values. `initializers` draws weights.

>>> import gpushard as gs
>>> sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
>>> x = gs.numpy.arange(-2.0, 2.0, out_sharding=sharding)
>>> relu(x)
Array([0., 0., 0., 1.], dtype=float64, sharding=NamedSharding(mesh=('x': 4), spec=P('x')))
"""

from gpushard.nn import activations, attention, normalizing
from gpushard.nn import initializers as initializers
from gpushard.nn.activations import *
from gpushard.nn.attention import *
from gpushard.nn.normalizing import *

__all__: list[str] = []
__all__ += activations.__all__
__all__ += attention.__all__
__all__ += normalizing.__all__


def __dir__() -> list[str]:
    return sorted([*__all__, "initializers"])
