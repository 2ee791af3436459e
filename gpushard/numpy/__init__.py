"""Compute with sharded arrays under the names of NumPy and the Array API.

Functions take arrays, and data that `asarray` converts. They run on the devices of their operands.

>>> import gpushard as gs
>>> x = gs.numpy.arange(8, out_sharding=gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
>>> gs.numpy.sqrt(x * x).sharding.spec
PartitionSpec('x')

Each module has a section of NumPy's reference, or a part of one, and an `__all__` of its own
(https://numpy.org/doc/stable/reference/routines.html). `protocol` lets NumPy's own functions take
arrays. The extensions `linalg`, `fft` and `special` are imported at their first use.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from typing import TYPE_CHECKING, Any

from gpushard import dtypes
from gpushard._array import Array
from gpushard._array.library_protocols import provide
from gpushard._placement import creation
from gpushard._placement.creation import *
from gpushard._placement.npy import load as load
from gpushard._placement.npy import save as save
from gpushard.numpy import protocol
from gpushard.numpy.adding_removing import *
from gpushard.numpy.bits import *
from gpushard.numpy.buffers_and_files import *
from gpushard.numpy.convolutions import *
from gpushard.numpy.correlation import *
from gpushard.numpy.data_type import *
from gpushard.numpy.differences import *
from gpushard.numpy.einstein_sums import *
from gpushard.numpy.elementwise import *
from gpushard.numpy.functional import *
from gpushard.numpy.grids import *
from gpushard.numpy.histograms import *
from gpushard.numpy.indexing import *
from gpushard.numpy.interpolation import *
from gpushard.numpy.joining import *
from gpushard.numpy.linear_algebra import *
from gpushard.numpy.logic import *
from gpushard.numpy.manipulation import *
from gpushard.numpy.matrices import *
from gpushard.numpy.namespace_info import *
from gpushard.numpy.nan_functions import *
from gpushard.numpy.padding import *
from gpushard.numpy.polynomials import *
from gpushard.numpy.quantiles import *
from gpushard.numpy.ranges import *
from gpushard.numpy.sets import *
from gpushard.numpy.sorting import *
from gpushard.numpy.splitting import *
from gpushard.numpy.statistical import *
from gpushard.numpy.user_ufuncs import *
from gpushard.numpy.window_functions import *

ndarray = Array
asanyarray = ascontiguousarray = asarray

__array_api_version__ = protocol.VERSIONS[-1]


if TYPE_CHECKING:
    from gpushard.numpy import fft as fft
    from gpushard.numpy import lib as lib
    from gpushard.numpy import linalg as linalg
else:  # a type checker would take it for a module that has every name

    def __getattr__(name: str) -> Any:
        """Import an extension, or a type of `ml_dtypes`, when it is first asked for."""
        if name in protocol.EXTENSIONS:
            return importlib.import_module(protocol.EXTENSIONS[name])
        if name in dtypes.NAMES and dtypes.is_installed():
            return dtypes.named(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *protocol.EXTENSIONS, "__array_api_version__"})


def _namespace(x: Any, *, api_version: str | None = None) -> Any:
    return protocol.namespace_of(sys.modules[__name__], api_version)


provide("__array_namespace__", _namespace)
provide("__array_ufunc__", protocol.array_ufunc)
provide("__array_function__", protocol.array_function(globals()))

_SECTIONS = [x for x in [*globals().values()] if inspect.ismodule(x) and x.__package__ == __name__]
_SECTIONS.append(creation)
__all__ = ["asanyarray", "ascontiguousarray", "load", "ndarray", "save"] + [
    name for section in _SECTIONS for name in getattr(section, "__all__", ())
]
