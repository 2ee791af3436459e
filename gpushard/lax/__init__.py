"""Run operations on arrays, under the names of `jax.lax`.

>>> import gpushard as gs
>>> f = gs.vmap(lambda x: gs.lax.psum(x, "i"), axis_name="i", out_axes=None)
>>> f(gs.numpy.arange(4))
Array(6, dtype=int64)
"""

from gpushard._transforms.control_flow import branches, loops, prefix_scan, scans
from gpushard._transforms.control_flow.branches import *
from gpushard._transforms.control_flow.loops import *
from gpushard._transforms.control_flow.prefix_scan import *
from gpushard._transforms.control_flow.scans import *
from gpushard._transforms.mapping import collectives
from gpushard._transforms.mapping.collectives import *
from gpushard._transforms.tracing import constraints
from gpushard._transforms.tracing.constraints import *
from gpushard.lax import (
    barriers,
    convolutions,
    creation,
    cumulative,
    elementwise,
    fourier_transforms,
    gather_scatter,
    linalg,
    products,
    reduce_windows,
    reductions,
    segments,
    shapes,
    slicing,
    sorting,
)
from gpushard.lax.barriers import *
from gpushard.lax.convolutions import *
from gpushard.lax.creation import *
from gpushard.lax.cumulative import *
from gpushard.lax.elementwise import *
from gpushard.lax.fourier_transforms import *
from gpushard.lax.gather_scatter import *
from gpushard.lax.products import *
from gpushard.lax.reduce_windows import *
from gpushard.lax.reductions import *
from gpushard.lax.segments import *
from gpushard.lax.shapes import *
from gpushard.lax.slicing import *
from gpushard.lax.sorting import *

__all__: list[str] = ["linalg"]
__all__ += collectives.__all__
__all__ += constraints.__all__
__all__ += branches.__all__ + loops.__all__ + scans.__all__ + prefix_scan.__all__
__all__ += elementwise.__all__
__all__ += gather_scatter.__all__
__all__ += products.__all__
__all__ += reductions.__all__
__all__ += segments.__all__
__all__ += shapes.__all__
__all__ += slicing.__all__
__all__ += sorting.__all__
__all__ += convolutions.__all__ + reduce_windows.__all__
__all__ += creation.__all__ + cumulative.__all__ + fourier_transforms.__all__ + barriers.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
