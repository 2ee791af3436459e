"""Fourier transforms under the names of `numpy.fft` and of the Array API's extension.

    transforms  along one dim or several
    frequencies frequencies, and shifting them

>>> import gpushard as gs
>>> sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
>>> fft2(gs.numpy.ones((8, 8), out_sharding=sharding)).sharding.spec
PartitionSpec('x')
"""

from gpushard.numpy.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from gpushard.numpy.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]


def __dir__() -> list[str]:
    return list(__all__)
