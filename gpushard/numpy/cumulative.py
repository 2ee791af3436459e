"""Running sums, products and the like along a dim.

The dim is made whole first, and the result is split as the array was.
"""

from __future__ import annotations

from typing import Any

from gpushard.functions import cumulative
from gpushard.numpy.nan_functions import filled
from gpushard.numpy.public import public_array, public_like

__all__ = ["cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "nancumprod", "nancumsum"]

cumsum = public_array(cumulative.cumsum)
cumprod = public_array(cumulative.cumprod)
cumulative_sum = public_array(cumulative.cumulative_sum)
cumulative_prod = public_array(cumulative.cumulative_prod)


@public_like(cumsum)
def nancumsum(a: Any, *how: Any, **more: Any) -> Any:
    """Return running sums in which NaNs count as 0."""
    return cumulative.cumsum(filled(a, 0), *how, **more)


@public_like(cumprod)
def nancumprod(a: Any, *how: Any, **more: Any) -> Any:
    """Return running products in which NaNs count as 1."""
    return cumulative.cumprod(filled(a, 1), *how, **more)
