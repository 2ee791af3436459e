"""Print values and draw shardings while a program runs, under the names of `jax.debug`.

callbacks  print values, and call functions with them, from within mapped functions
visualize  draw which devices hold which block
terminal   draw with characters
traffic    count the bytes that memories receive from one another
"""

from gpushard.debug.callbacks import callback, print
from gpushard.debug.traffic import Traffic, count_traffic
from gpushard.debug.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

# fmt: off
__all__ = [
    "Traffic", "callback", "count_traffic", "inspect_array_sharding", "print",
    "visualize_array_sharding",
    "visualize_sharding",
]
# fmt: on


def __dir__() -> list[str]:
    return list(__all__)
