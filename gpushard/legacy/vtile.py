"""`vtile`: map a function over tiles of arrays along an axis, which keep that axis."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._transforms.mapping.vmap import vmap
from gpushard._transforms.values.leaves import by_position, each_result, label_arguments
from gpushard._transforms.values.mapped_axes import check_axis, check_mapped_axes, mapped_leaves
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.numpy import moveaxis


def vtile(
    f: Callable[..., Any],
    in_axes: Any = 0,
    out_axes: Any = 0,
    tile_size: int | None = None,
    axis_name: Hashable = None,
) -> Callable[..., Any]:
    """Map a function over tiles of its arguments: chunks along an axis.

    Unlike in `vmap`, the function sees arrays with the axis, in the length of one tile. As in JAX,
    `tile_size` is the number of tiles: an axis of n elements is cut into `tile_size` tiles of n /
    tile_size elements.

    Args:
      f: the function.
      in_axes: for each argument the axis to cut, or None to pass the whole argument for every tile.
        May be a pytree that is a prefix of the arguments.
      out_axes: for each result the axis along which tiles are joined, or None if the result is
        equal for all tiles. May be a pytree that is a prefix of the result.
      tile_size: the number of tiles. By default the size of the first axis that is cut.
      axis_name: a name for the axis of tiles, for the collectives of `gpushard.lax`.

    Returns:
      A function that takes and returns whole arrays.

    Raises:
      ArgumentTypeError: `f` is not a function, or `tile_size` is not an integer.
      ArgumentError: no argument is cut, or `tile_size` does not divide an axis.

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
        label = label_arguments(f, args, kwargs)
        parts = tile_size
        for number, (leaf, axis) in enumerate(zip(leaves, axes, strict=True)):
            if axis is not None:
                (array,), (dim,), n = check_mapped_axes(
                    [leaf], [axis], None, label, (what, "in_axes")
                )
                assert dim is not None
                parts = parts or n
                if n % parts:
                    raise ArgumentError(
                        f"{what}: axis {dim} of {label(number)} has {n} elements, which do not "
                        f"come in {parts} tiles. Try: give a tile_size that divides {n}",
                        argument="tile_size",
                        dim=dim,
                        size=n,
                        tile_size=parts,
                    )
                shape = np.shape(array)
                leaves[number] = array.reshape((*shape[:dim], parts, n // parts, *shape[dim + 1 :]))
                axes[number] = dim
        if parts is None:
            raise ArgumentError(
                f"{what}: no argument is cut, as in_axes is None for all. Try: cut one, or give "
                "tile_size=",
                argument="in_axes",
            )
        own_args, own_kwargs = together(leaves)
        dims, _ = together(axes)
        front = tree.map(lambda axis: 0, out_axes)
        mapped = vmap(f, tuple(dims), front, axis_name=axis_name, axis_size=parts)
        tiles = mapped(*own_args, **own_kwargs)
        return each_result(tiles, out_axes, _join_tiles, what)

    return call


def _join_tiles(x: Any, axis: int | None, arg: str, what: str) -> Any:
    """Join tiles, which are along axis 0, along another axis."""
    if axis is None:
        return x
    dim = check_axis(axis, x.ndim - 1, what, "out_axes", arg)
    tiles = moveaxis(x, 0, dim)
    shape = tiles.shape
    return tiles.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))
