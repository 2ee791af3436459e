"""`x[index] = value` and `x.at[index]` as functions of values.

One operation replaces the part that a basic index selects; the rest is shared with the array.
Another operation replaces the elements that index arrays select, or combines them with values.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._functions import indexing
from gpushard._functions.assigned_placement import beside, follows, is_plain, stays
from gpushard._functions.assigned_values import (
    as_new_part,
    as_operand,
    check_broadcasts,
    converted,
    without_lead,
)
from gpushard._functions.index_bounds import (
    Positions,
)
from gpushard._functions.index_parsing import ParsedIndex
from gpushard._functions.values import is_value
from gpushard._geometry.sharding import Sharding
from gpushard._ops.basic_index import Entry, open_index
from gpushard._ops.bind import bind
from gpushard._ops.index_arrays import Indexed
from gpushard._ops.table.elementwise import WHERE, ufunc_row
from gpushard._ops.table.manipulation import index as index_part
from gpushard._ops.table.scatter import SCATTER, UPDATE
from gpushard._typing import Shape


def updated(
    x: Any,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    value: Any,
    ufunc: np.ufunc | None = None,
    mode: str | None = None,
) -> Any:
    """Replace elements of an array, or combine them with values.

    Args:
      x: the array, which stays as it is.
      parsed: the index of the elements.
      arrays: its arrays.
      value: a number or an array; it is broadcast.
      ufunc: the ufunc that combines elements with values, as its `at` does; None to replace them.
      mode: one of `MODES`, or None to raise where positions are out of bounds.

    Returns:
      The new array, laid out like `x` unless that follows others.
    """
    if arrays:
        value = part_updated(x, parsed, arrays, value, ufunc, mode)
        if parsed.everything and not (is_plain(x) and is_plain(value)):
            return value
        if parsed.everything:  # what was laid out like `x` is no more committed than that
            x = copy.copy(x)
            x._renew(value)
            return x
    elif ufunc is not None:
        value = bind(ufunc_row(ufunc), (indexing.part_of(x, parsed), value))
    return with_part(x, parsed.entries, parsed.shape, value)


def with_part(x: Any, entries: tuple[Entry, ...], shape: Shape, value: Any) -> Any:
    """Replace the part that a basic index selects."""
    if follows(x, value):
        x = x.to_device(beside(x, entries, value))
    form, starts = open_index(entries, x.shape)
    return bind(UPDATE, (x, as_new_part(value, shape, x), *starts), (form,))


def part_updated(
    x: Any,
    parsed: ParsedIndex,
    arrays: Sequence[Positions],
    value: Any,
    ufunc: np.ufunc | None = None,
    mode: str | None = None,
) -> Any:
    """Replace elements of the part that the basic index selects first, as `updated` does."""
    mask = None
    if parsed.everything and parsed.only_mask and not parsed.dims[0]:
        mask = arrays[0] if arrays[0].shape == x.shape[: arrays[0].ndim] else None
    if mask is not None:
        rest = x.shape[mask.ndim :]
        alike = _same_for_all(value, rest)
        if alike is not None:
            return _where(x, mask, alike, rest, ufunc)
    at, indexed = indexing.positions(parsed, arrays, mode, "drop")
    shape = indexing.selected_shape(indexed, parsed.shape, at)
    out = mask.sharding if mask is not None and follows(x, mask) else None
    return scattered(indexing.part_of(x, parsed), indexed, at, value, shape, ufunc, out)


def scattered(
    x: Any,
    indexed: Indexed,
    at: Sequence[Positions],
    value: Any,
    shape: Shape,
    ufunc: np.ufunc | None = None,
    out: Sharding | None = None,
) -> Any:
    """Replace elements of an array, or combine them with values, where index arrays say."""
    new, out = as_operand(value, shape, x, ufunc), out or stays(x, value, *at)
    return bind(SCATTER, (x, new, *at), (indexed, ufunc), out)


def _same_for_all(value: Any, rest: Shape) -> Any:
    """Take first dims off a value if it is the same for all that a mask selects.

    Otherwise None: how many these are has to be known.
    """
    try:
        check_broadcasts(value.shape if hasattr(value, "shape") else np.shape(value), rest)
    except ValueError:  # or lists of different lengths
        return None
    return without_lead(value, len(rest))


def _where(x: Any, mask: Any, value: Any, rest: Shape, ufunc: np.ufunc | None) -> Any:
    """Replace the elements that a mask selects, in place; no position is known."""
    if ufunc is None:
        new = as_operand(value, rest, x, None)
    else:
        if isinstance(value, list | tuple):
            value = without_lead(np.asarray(value), len(rest))
        new = converted(bind(ufunc_row(ufunc), (x, value)), x.dtype)
    if is_value(mask):
        entries = tuple((0, 1, n) for n in mask.shape) + (None,) * len(rest)
        mask = index_part(mask, entries) if rest else mask
    else:
        mask = mask.reshape(mask.shape + (1,) * len(rest))
    return bind(WHERE, (mask, new, x), (), stays(x, mask, value))
