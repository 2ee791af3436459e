"""`vtile`: a function for the tiles of arrays along a dim, which keep that dim."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import moveaxis
from gpushard.transforms.mapping.vmap import vmap
from gpushard.transforms.values.signature import (
    by_position,
    check_axis,
    check_function,
    checked,
    each_result,
    labelled,
    mapped_leaves,
    title,
)


def vtile(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    tile_size: int | None = None,
    axis_name: Hashable = None,
) -> Callable[..., Any]:
    """Map a function over the tiles of its arguments along a dim; it sees the dim, but shorter.

    A dim of n elements is cut into `tile_size` tiles of n / tile_size, and results are joined
    along theirs.

    Args:
      f: the function.
      in_axes: for each argument the dim that is cut, or None for what all tiles get; or a pytree of
        these that is a prefix.
      out_axes: the dim along which results are joined, likewise; None for results that do not
        differ.
      tile_size: how many tiles there are; None for as many as the first dim that is cut has
        elements.
      axis_name: the name by which the collectives of `gpushard.lax` find the tiles.

    Returns:
      The function of whole arrays.

    Raises:
      ArgumentTypeError: f is no function, or `tile_size` no integer.
      ArgumentError: no argument is cut, or `tile_size` does not divide a dim.

    >>> import gpushard as gs
    >>> vtile(lambda x: x[::-1], 0, 0, 2, "t")(gs.numpy.arange(6)).tolist()
    [2, 1, 0, 5, 4, 3]
    """
    check_function(f, "vtile")
    what = title("vtile", f)
    if tile_size is not None and (type(tile_size) is not int or tile_size < 1):
        raise (ArgumentError if type(tile_size) is int else ArgumentTypeError)(
            f"{what}: tile_size={tile_size!r} must be a positive integer or None",
            argument="tile_size",
            value=tile_size,
        )
    in_axes = by_position(in_axes)

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        leaves, axes, together = mapped_leaves(args, kwargs, in_axes)
        label = labelled(f, args, kwargs)
        parts = tile_size
        for number, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is not None:
                (own,), (dim,), n = checked([leaf], [axis], None, label, (what, "in_axes"))
                assert dim is not None
                parts = parts or n
                if n % parts:
                    raise ArgumentError(
                        f"{what}: dim {dim} of {label(number)} has {n} elements, which do not come "
                        f"in {parts} tiles; give a tile_size that divides it",
                        argument="tile_size",
                        dim=dim,
                        size=n,
                        tile_size=parts,
                    )
                shape = np.shape(own)
                leaves[number] = own.reshape((*shape[:dim], parts, n // parts, *shape[dim + 1 :]))
                axes[number] = dim
        if parts is None:
            raise ArgumentError(
                f"{what}: no argument is cut, as in_axes is None for all; cut one, or give "
                "tile_size=",
                argument="in_axes",
            )
        own_args, own_kwargs = together(leaves)
        dims, _ = together(axes)
        front = tree.map(lambda axis: 0, out_axes)
        mapped = vmap(f, tuple(dims), front, axis_name=axis_name, axis_size=parts)
        made = mapped(*own_args, **own_kwargs)
        return each_result(made, out_axes, _joined, what)

    return call


def _joined(x: Any, axis: int | None, arg: str, what: str) -> Any:
    """Return tiles, which are along the first dim, one after the other along another."""
    if axis is None:
        return x
    dim = check_axis(axis, x.ndim - 1, what, "out_axes", arg)
    tiles = moveaxis(x, 0, dim)
    shape = tiles.shape
    return tiles.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
