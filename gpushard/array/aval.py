"""The shape and type of an array without its data."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from gpushard.dtypes import prng_key
from gpushard.errors import ArgumentTypeError
from gpushard.functions.checks import as_dtype, as_shape
from gpushard.geometry.sharding import Sharding
from gpushard.typing import Shape


class KeyDType:
    """The type of random keys; it prints as `key<fry>`."""

    type = prng_key
    name = "key<fry>"
    kind = "V"  # as NumPy says that elements are no numbers
    isbuiltin = 1  # likewise: nobody has registered it
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType)

    def __hash__(self) -> int:
        return hash(KeyDType)


KEY: Any = KeyDType()
"""The one there is."""


@dataclasses.dataclass(frozen=True)
class ShapeDtypeStruct:
    """What can be known of an array before it is computed.

    Args:
      shape: sizes of the dims.
      dtype: type of the elements.
      sharding: where it lies, or None.
      weak_type: whether the dtype came from a Python scalar and gives way to others.

    Raises:
      ArgumentTypeError: the dtype is none, or `sharding` is no sharding.
      ShardingError: the sharding does not fit the shape.

    >>> ShapeDtypeStruct((2, 3), "float32").size
    6
    """

    shape: Shape
    dtype: Any
    sharding: Sharding | None = None
    weak_type: bool = False

    def __post_init__(self) -> None:
        """Accept whatever NumPy accepts as a shape and a dtype."""
        object.__setattr__(self, "shape", as_shape(self.shape))
        if self.dtype is None:
            raise ArgumentTypeError(
                "ShapeDtypeStruct: dtype is None; say which, such as numpy.float64",
                argument="dtype",
            )
        if not isinstance(self.dtype, KeyDType):
            object.__setattr__(self, "dtype", as_dtype(self.dtype))
        if self.sharding is not None:
            if not isinstance(self.sharding, Sharding):
                raise ArgumentTypeError.refusing(
                    "sharding", self.sharding, "must be a Sharding, or None", "ShapeDtypeStruct"
                )
            self.sharding.tiling(self.shape)  # refuses shapes that it does not fit

    @property
    def ndim(self) -> int:
        """Number of dims."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)
