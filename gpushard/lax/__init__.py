"""Operations under the names of `jax.lax`.

>>> import gpushard as gs
>>> f = gs.vmap(lambda x: gs.lax.psum(x, "i"), axis_name="i", out_axes=None)
>>> f(gs.numpy.arange(4))
Array(6, dtype=int64)
"""

from gpushard.lax import collectives
from gpushard.lax.collectives import *
from gpushard.transforms import constraints, control_flow
from gpushard.transforms.constraints import *
from gpushard.transforms.control_flow import *

__all__: list[str] = []
__all__ += collectives.__all__
__all__ += constraints.__all__
__all__ += control_flow.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
