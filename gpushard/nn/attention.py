"""Attention: values weighted by how well their keys match queries."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard._functions import elementwise as ew
from gpushard._functions.argument_checks import check_choice
from gpushard._functions.elementwise import where
from gpushard._ops.bind import bind
from gpushard._ops.table.contractions import EINSUM
from gpushard._placement.arguments import as_value
from gpushard._placement.public_functions import public
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nn.normalizing import logsumexp, softmax

__all__ = ["dot_product_attention"]

_LEAST = -0.7 * float(np.finfo(np.float32).max)
"""The logit of a key that a query does not see. A query that sees no key weighs all alike."""


@public(arrays=3)
def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    *,
    scale: float | None = None,
    is_causal: bool = False,
    query_seq_lengths: Any = None,
    key_value_seq_lengths: Any = None,
    local_window_size: int | tuple[int, int] | None = None,
    implementation: str | None = None,
    return_residual: bool = False,
    out_sharding: Any = None,
) -> Array:
    """Compute softmax(query @ key.T * scale + bias) @ value, for each head of each batch element.

    The softmax is computed in float32, or in the dtype of the operands if that has more digits.

    Args:
      query: an array of shape ([batch,] length, heads, features).
      key: an array of shape ([batch,] length, heads, features). The length may differ from that of
        `query`. The number of heads of `query` is a multiple of that of `key`.
      value: an array with the shape of `key`.
      bias: numbers that are added to the scaled products, of shape (batch, heads, query length, key
        length). Each of these lengths may also be 1.
      mask: booleans, in such a shape as `bias`: True if a query may use a key. By default all keys
        may be used.
      scale: the factor of the products; 1 / sqrt(features) by default.
      is_causal: whether a query may not use keys after its own position.
      query_seq_lengths: the number of queries of each batch element, a vector of integers; the
        results of queries beyond it are 0.
      key_value_seq_lengths: the number of keys of each batch element, a vector of integers; keys
        beyond it are not used.
      local_window_size: how many positions before and after its own position a query may use: one
        number for both, or a pair.
      implementation: None or "xla"; ignored.
      return_residual: whether to return a pair: the result, and the logarithms of the sums of
        exponentials.

    Raises:
      ArgumentError: the shapes do not match.
      ArgumentTypeError: dtypes differ, or the mask is not boolean.

    >>> import gpushard as gs
    >>> q, k = gs.numpy.ones((1, 2, 1, 4)), gs.numpy.ones((1, 3, 1, 4))
    >>> dot_product_attention(q, k, k).shape
    (1, 2, 1, 4)
    """
    check_choice("dot_product_attention", "implementation", implementation, (None, "xla"))
    shape = query.shape
    query, key = _of_rank_4(query, "query"), _of_rank_4(key, "key")
    value = _of_rank_4(value, "value")
    _check(query, key, value)
    batch, length, heads, features = query.shape
    known, groups = key.shape[1], heads // key.shape[2]
    grouped = query.reshape(batch, length, key.shape[2], groups, features)
    wide = np.promote_types(query.dtype, np.float32)
    logits = bind(EINSUM, (grouped.astype(wide), key.astype(wide)), ("btkgh,bskh->bkgts",))
    logits = logits * (features**-0.5 if scale is None else scale)
    sizes = (batch, heads, length, known)
    if bias is not None:
        bias = _by_group(as_value(bias, "dot_product_attention"), "bias", sizes, groups)
        logits = (logits + bias).astype(wide)
    seen: Any = _places(length, known, is_causal, local_window_size)
    if mask is not None:
        mask = as_value(mask, "dot_product_attention")
        if mask.dtype != bool:
            raise ArgumentTypeError(
                f"dot_product_attention: mask of {mask.dtype} must have booleans; use a bias for "
                "numbers",
                argument="mask",
                dtype=mask.dtype,
            )
        mask = _by_group(mask, "mask", sizes, groups)
        seen = mask if seen is None else ew.logical_and(mask, seen)
    queries = _within(query_seq_lengths, "query_seq_lengths", batch, np.arange(length)[:, None])
    keys = _within(key_value_seq_lengths, "key_value_seq_lengths", batch, np.arange(known))
    for real in (queries, keys):
        if real is not None:
            seen = real if seen is None else ew.logical_and(seen, real)
    if seen is not None:
        logits = where(seen, logits, _LEAST)
    weights = softmax(logits).astype(key.dtype)
    attended = bind(EINSUM, (weights, value), ("bkgts,bskh->btkgh",))
    if queries is not None:
        attended = where(queries.reshape(batch, length, 1, 1, 1), attended, 0)
    result = attended.reshape(shape)
    if not return_residual:
        return result
    sums = logsumexp(logits, -1).astype(key.dtype)  # of batch, heads, groups, length
    both: Any = (result, sums.reshape(batch, heads, length).transpose(0, 2, 1).reshape(shape[:-1]))
    return both


def _of_rank_4(x: Any, argument: str) -> Any:
    """Add a dim for batches to an array that lacks it."""
    if x.ndim not in (3, 4):
        raise _misfit(argument, x.shape, "of shape ([batch,] length, heads, features)")
    return x[None] if x.ndim == 3 else x


def _check(query: Any, key: Any, value: Any) -> None:
    """Check that queries, keys and values fit each other."""
    batch, _, heads, features = query.shape
    if (key.shape[0], key.shape[3]) != (batch, features):
        raise _misfit("key", key.shape, f"of {batch} batches and {features} features, as query")
    if value.shape != key.shape:
        raise _misfit("value", value.shape, f"of the shape of key, {key.shape}")
    if not key.shape[2] or heads % key.shape[2]:
        raise _misfit("key", key.shape, f"of a number of heads that divides the {heads} of query")
    for name, x in (("key", key), ("value", value)):
        if x.dtype != query.dtype:
            raise ArgumentTypeError(
                f"dot_product_attention: {name} of {x.dtype} must be of {query.dtype}, as query; "
                "use astype",
                argument=name,
                dtype=x.dtype,
            )


def _by_group(x: Any, argument: str, sizes: tuple[int, ...], groups: int) -> Any:
    """Reshape a mask or bias like the logits, with heads in groups that share a key."""
    x = x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x
    if x.ndim > 4 or any(n not in (1, size) for n, size in zip(x.shape, sizes, strict=True)):
        raise _misfit(argument, x.shape, f"of shape {sizes}, or 1 for each")
    if x.shape[1] == 1:
        return x[:, :, None]
    return x.reshape(x.shape[0], -1, groups, *x.shape[2:])


def _places(
    length: int, known: int, is_causal: bool, window: int | tuple[int, int] | None
) -> np.ndarray[Any, np.dtype[np.bool_]] | None:
    """Return a mask of the keys that each query sees by their positions; None for all."""
    if not is_causal and window is None:
        return None
    apart = np.arange(known) - np.arange(length)[:, None]
    seen = apart <= 0 if is_causal else np.ones(apart.shape, bool)
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        seen &= (apart >= -before) & (apart <= after)
    return seen


def _within(lengths: Any, argument: str, batch: int, places: Any) -> Any:
    """Return a mask of the positions within lengths, like the logits; None without lengths."""
    if lengths is None:
        return None
    lengths = as_value(lengths, "dot_product_attention")
    if lengths.shape != (batch,):
        raise _misfit(argument, lengths.shape, f"of shape ({batch},), one for each batch")
    return lengths.reshape(batch, 1, 1, 1, 1) > places


def _misfit(argument: str, shape: tuple[int, ...], must: str) -> ArgumentError:
    return ArgumentError(
        f"dot_product_attention: {argument} of shape {shape} must be {must}",
        argument=argument,
        shape=shape,
    )
