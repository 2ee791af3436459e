"""Running sums, products and the like along a dim.

The dim is made whole first, and the result is split as the array was.
"""

from __future__ import annotations

from typing import Any

from gpushard.array import Array
from gpushard.functions import cumulative
from gpushard.numpy.nan_functions import filled
from gpushard.numpy.public import public, public_array

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]

cumsum = public_array(cumulative.cumsum)
cumprod = public_array(cumulative.cumprod)
cumulative_sum = public_array(cumulative.cumulative_sum)
cumulative_prod = public_array(cumulative.cumulative_prod)


@public
def nancumsum(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return running sums in which NaNs count as 0.

    Args:
      axis: along which dim; by default in row-major order.
      dtype: type that is summed in, and of the result.
    """
    return cumsum(filled(a, 0), axis, dtype, out, out_sharding=out_sharding)


@public
def nancumprod(
    a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *, out_sharding: Any = None
) -> Array:
    """Return running products in which NaNs count as 1.

    Args:
      axis: along which dim; by default in row-major order.
      dtype: type that is multiplied in, and of the result.
    """
    return cumprod(filled(a, 1), axis, dtype, out, out_sharding=out_sharding)
