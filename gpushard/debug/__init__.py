"""Layer 10: `gpushard.debug`, pictures of shardings, under the names of `jax.debug`.

visualize  which devices hold which block
terminal   how that is drawn with characters
"""

from gpushard.debug.visualize import (
    inspect_array_sharding,
    visualize_array_sharding,
    visualize_sharding,
)

__all__ = ["inspect_array_sharding", "visualize_array_sharding", "visualize_sharding"]


def __dir__() -> list[str]:
    return list(__all__)
