"""Compute special functions, under the names of `scipy.special`.

On the host, SciPy computes the elementwise functions; the extra `special` installs it. On GPUs,
CuPy does. The ufuncs of `scipy.special` also take arrays of gpushard themselves.

    ufuncs    the ufuncs of SciPy
    composed  functions composed of these, and sums of exponentials, merged over devices

>>> import gpushard as gs
>>> x = gs.numpy.zeros(4, out_sharding=gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
>>> expit(x)
Array([0.5, 0.5, 0.5, 0.5], dtype=float64, sharding=NamedSharding(mesh=('x': 4), spec=P('x')))
"""

from gpushard.special import composed, ufuncs
from gpushard.special.composed import *
from gpushard.special.ufuncs import *

__all__: list[str] = []
__all__ += composed.__all__
__all__ += ufuncs.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
