"""Fourier transforms under the names of `numpy.fft` and of the Array API's extension.

    transforms  along one dim or several
    frequencies frequencies, and shifting them

>>> import gpushard as gs
>>> sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
>>> fft2(gs.numpy.ones((8, 8), out_sharding=sharding)).sharding.spec
PartitionSpec('x')
"""

from gpushard.numpy.fft import frequencies, transforms
from gpushard.numpy.fft.frequencies import *
from gpushard.numpy.fft.transforms import *

__all__: list[str] = []
__all__ += frequencies.__all__
__all__ += transforms.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
