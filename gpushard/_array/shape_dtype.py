"""The shape and type of an array without its data."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from gpushard._functions.element_types import as_dtype
from gpushard._functions.shapes import as_shape
from gpushard._geometry.memory_layout import Format, Layout
from gpushard._geometry.named_sharding import over_mesh
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._geometry.sharding import Sharding
from gpushard._typing import Shape
from gpushard.dtypes import prng_key
from gpushard.errors import ArgumentTypeError, ImmutableError, ShardingError


class KeyDType:
    """The type of random keys; it prints as `key<fry>`."""

    type = prng_key
    name = "key<fry>"
    kind = "V"  # NumPy's kind of elements that are not numbers
    isbuiltin = 1  # as for NumPy's types: not registered by another package
    itemsize = 8

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyDType)

    def __hash__(self) -> int:
        return hash(KeyDType)


KEY: Any = KeyDType()
"""The only instance."""


class ShapeDtypeStruct:
    """A description of an array without its data: shape, dtype, sharding. Immutable and hashable.

    Args:
      shape: lengths of the axes.
      dtype: type of the elements.
      sharding: a sharding, a `Format` with one, or None. A `PartitionSpec` refers to the mesh that
        is current when the sharding is read.
      weak_type: whether the dtype came from a Python scalar, so other dtypes override it.

    Raises:
      ArgumentTypeError: the dtype is missing, or `sharding` is not a sharding.
      ShardingError: the sharding does not fit the shape.

    >>> ShapeDtypeStruct((2, 3), "float32").size
    6
    """

    __slots__ = ("_place", "dtype", "shape", "weak_type")

    shape: Shape
    dtype: Any
    weak_type: bool
    _place: Sharding | PartitionSpec | None

    def __init__(
        self,
        shape: Any,
        dtype: Any,
        sharding: Sharding | Format | PartitionSpec | None = None,
        weak_type: bool = False,
    ) -> None:
        if dtype is None:
            raise ArgumentTypeError(
                "ShapeDtypeStruct: dtype is None; give one, such as numpy.float64",
                argument="dtype",
            )
        sizes = as_shape(shape)
        put = functools.partial(object.__setattr__, self)
        put("shape", sizes)
        put("dtype", dtype if isinstance(dtype, KeyDType) else as_dtype(dtype))
        put("weak_type", bool(weak_type))
        put("_place", _checked_place(sharding, sizes))

    @property
    def sharding(self) -> Sharding | None:
        """The sharding of the array, or None.

        Raises:
          NoMeshError: the description has a `PartitionSpec`, and there is no current mesh.
        """
        place = self._place
        return over_mesh(place, "sharding") if isinstance(place, PartitionSpec) else place

    @property
    def format(self) -> Format:
        """The order of elements in the memory of a shard, and the sharding."""
        layout = None if self._place is None else Layout(tuple(range(self.ndim)))
        return Format(layout, self.sharding)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    def __len__(self) -> int:
        if not self.shape:
            raise ArgumentTypeError("len() of an array without axes; use x.size or x.shape")
        return self.shape[0]

    def update(self, **changes: Any) -> ShapeDtypeStruct:
        """Return a copy with some fields replaced.

        Args:
          **changes: new values of `shape`, `dtype`, `sharding` or `weak_type`.

        Raises:
          ArgumentTypeError: a field does not exist, or `ShapeDtypeStruct` refuses its value.

        >>> ShapeDtypeStruct((2, 3), "float32").update(shape=(4,))
        ShapeDtypeStruct(shape=(4,), dtype=float32)
        """
        fields = dict(zip(_FIELDS, self._fields(), strict=True))
        unknown = sorted(set(changes) - set(fields))
        if unknown:
            raise ArgumentTypeError(
                f"update: a ShapeDtypeStruct has no field {unknown[0]!r}; use one of "
                f"{', '.join(_FIELDS)}",
                argument=unknown[0],
            )
        return ShapeDtypeStruct(**(fields | changes))

    @classmethod
    def like(cls, x: Any) -> ShapeDtypeStruct:
        """Describe an array: its shape and dtype, and its sharding if the array is committed.

        Args:
          x: an array of any library, a number, or a `ShapeDtypeStruct`.

        Raises:
          ArgumentTypeError: `x` has another type.

        >>> ShapeDtypeStruct.like(2.0)
        ShapeDtypeStruct(shape=(), dtype=float64, weak_type=True)
        """
        weak = type(x) in (int, float, complex)
        if weak or isinstance(x, bool | np.generic):
            x = np.asarray(x)
        if not hasattr(x, "shape") or not hasattr(x, "dtype"):
            raise ArgumentTypeError.refusing(
                "x", x, "must be an array or a number; give numpy.asarray(x)", "like"
            )
        place = getattr(x, "sharding", None) if getattr(x, "committed", True) else None
        return cls(x.shape, x.dtype, place, weak or getattr(x, "weak_type", False))

    def _fields(self) -> tuple[Any, ...]:
        return self.shape, self.dtype, self._place, self.weak_type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShapeDtypeStruct) and self._fields() == other._fields()

    def __hash__(self) -> int:
        return hash(self._fields())

    def __reduce__(self) -> tuple[Any, ...]:
        return ShapeDtypeStruct, self._fields()

    def __setattr__(self, name: str, value: Any) -> None:
        raise ImmutableError(
            f"{name}={value!r}: a ShapeDtypeStruct does not change; use update({name}=...)",
            argument=name,
        )

    def __repr__(self) -> str:
        place = "" if self._place is None else f", sharding={self._place!r}"
        weak = ", weak_type=True" if self.weak_type else ""
        return f"ShapeDtypeStruct(shape={self.shape}, dtype={self.dtype.name}{place}{weak})"


_FIELDS = ("shape", "dtype", "sharding", "weak_type")


def _checked_place(place: Any, shape: Shape) -> Sharding | PartitionSpec | None:
    """Check a sharding against a shape, and return it; a spec waits for its mesh."""
    if isinstance(place, Format):
        place = place.row_major_sharding(len(shape))
    if isinstance(place, PartitionSpec):
        if len(place) > len(shape):
            raise ShardingError(
                f"ShapeDtypeStruct: sharding={place!r} has {len(place)} entries for the shape "
                f"{shape}; give at most one per axis of the array",
                argument="sharding",
                spec=place,
                shape=shape,
            )
    elif isinstance(place, Sharding):
        place.tiling(shape)  # raises if it does not fit the shape
    elif place is not None:
        raise ArgumentTypeError.refusing(
            "sharding",
            place,
            "must be a Sharding, a Format, a PartitionSpec, or None",
            "ShapeDtypeStruct",
        )
    return place
