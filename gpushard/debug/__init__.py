"""Layer 10: `gpushard.debug`, what programs do and where, under the names of `jax.debug`.

callbacks  what values are, from within mapped functions
visualize  which devices hold which block
terminal   how that is drawn with characters
traffic    what memories received from one another
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
