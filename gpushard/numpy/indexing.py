"""Elements by position, and where they are.

What has a result of unknown size (`nonzero` and what builds on it) makes the host wait for one
number: how many there are. Give `size=` where a function takes it, and it does not. Masks are
gathered for that, with a byte for each element; arrays are not. `put`, `put_along_axis`, `place`,
`putmask` and `fill_diagonal` give an array a new value, as `x[index] = value` does.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions import indexing, updating
from gpushard.numpy import elementwise as ew
from gpushard.numpy.arguments import as_value, is_number, is_value, settle
from gpushard.numpy.data_type import result_type
from gpushard.numpy.public import public, public_array

take = public_array(indexing.take)
take_along_axis = public_array(indexing.take_along_axis)
choose = public_array(indexing.choose)
compress = public_array(indexing.compress, operands=2)
nonzero = public(indexing.nonzero)
flatnonzero = public_array(indexing.flatnonzero)
argwhere = public_array(indexing.argwhere)

put, put_along_axis = updating.put, updating.put_along_axis
place, putmask, fill_diagonal = updating.place, updating.putmask, updating.fill_diagonal


def select(condlist: Any, choicelist: Any, default: Any = 0, *, out_sharding: Any = None) -> Array:
    """Return elements of the first array whose condition holds.

    Args:
      condlist: conditions: a sequence of arrays of booleans.
      choicelist: an array for each.
      default: what there is where none holds.
      out_sharding: where the result goes; by default it stays where it was made.

    Raises:
      ArgumentError: there are none, or not as many arrays as conditions.
      ArgumentTypeError: a condition is not of booleans.
    """
    conditions, choices = list(condlist), list(choicelist)
    if not conditions or len(conditions) != len(choices):
        raise ArgumentError(
            f"select: condlist has {len(conditions)} conditions and choicelist {len(choices)} "
            "arrays; give as many, and at least one",
            argument="condlist",
            conditions=len(conditions),
            choices=len(choices),
        )
    conditions = [as_value(one, "select") for one in conditions]
    for one in conditions:
        if one.dtype != bool:
            raise ArgumentTypeError(
                f"select: a condition has dtype {one.dtype}; conditions are booleans",
                argument="condlist",
                dtype=one.dtype,
            )
    given = [x if is_value(x) or is_number(x) else np.asarray(x) for x in [*choices, default]]
    dtype = result_type(*given)
    *values, result = [as_value(x, "select").astype(dtype) for x in given]
    for condition, value in zip(conditions[::-1], values[::-1], strict=True):
        result = ew.where(condition, value, result)
    return settle(result, out_sharding)


def extract(
    condition: Any,
    arr: Any,
    *,
    size: int | None = None,
    fill_value: Any = None,
    out_sharding: Any = None,
) -> Array:
    """Return elements for which a condition holds, in row-major order.

    Args:
      condition: an array, usually of the shape of `arr`.
      arr: an array.
      size: as for `compress`.
      fill_value: likewise.
      out_sharding: where the result goes; by default it stays where it was made.
    """
    mask = (condition if is_value(condition) else np.asarray(condition)).ravel()
    return compress(mask, arr, size=size, fill_value=fill_value, out_sharding=out_sharding)
