"""`pmap` and `soft_pmap`: a function of arrays, for the elements along a dim on devices each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from gpushard import tree
from gpushard.array.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.placement.defaults import local_devices
from gpushard.transforms.named_dims import frames
from gpushard.transforms.signature import (
    check_function,
    title,
)
from gpushard.transforms.stacked import StackedFrame, mapped_call

_F = TypeVar("_F", bound=Callable[..., Any])


def pmap(
    fun: _F,
    axis_name: Hashable = None,
    *,
    in_axes: Any = 0,
    out_axes: Any = 0,
    static_broadcasted_argnums: int | Sequence[int] = (),
    devices: Sequence[Any] | None = None,
    backend: str | None = None,
    axis_size: int | None = None,
    donate_argnums: int | Sequence[int] = (),
    global_arg_shapes: Any = None,
) -> _F:
    """Map a function over a dim of its arguments, each element on a device of its own.

    The function sees arrays without that dim. In it, another `pmap` takes as many devices for each
    of these: results have both dims unstacked then.

    Args:
      fun: the function.
      axis_name: the name by which the collectives of `gpushard.lax` find the dim.
      in_axes: for each argument that is not static the dim, or None for what all devices get; or a
        pytree of these that is a prefix. Keyword arguments are mapped over their first dim.
      out_axes: where the results have the dim, likewise; None for results that do not differ.
      static_broadcasted_argnums: arguments that the function gets as they are; hashable.
      devices: as many as there are elements; by default the first of `gpushard.devices()`.
      backend: the platform that these are of.
      axis_size: how many elements there are; needed where no argument has the dim.
      donate_argnums: arguments whose arrays may be given up; they count as deleted afterwards.
      global_arg_shapes: must be None: one process has all of the arguments.

    Returns:
      The function of arrays that have the dim; its results are in a `PmapSharding`.

    Raises:
      ArgumentTypeError: an argument has a type that cannot be used; fun is no function.
      ArgumentError: no argument is mapped, lengths differ, or an axis is beyond an argument.
      NoDeviceError: there are not as many devices.

    >>> import gpushard as gs
    >>> share = gs.pmap(lambda x: x / gs.lax.psum(x, "i"), "i")
    >>> share(gs.numpy.asarray([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    check_function(fun, "pmap")
    what = title("pmap", fun)
    static, donated = _numbers(static_broadcasted_argnums), _numbers(donate_argnums)
    _check_devices(devices, global_arg_shapes, what)
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        kept = {n % len(args): args[n] for n in static if -len(args) <= n < len(args)}
        for n, value in kept.items():
            _check_static(value, n, what)
        given = [arg for n, arg in enumerate(args) if n not in kept] if kept else args
        if devices is not None and any(isinstance(frame, StackedFrame) for frame in frames()):
            raise ArgumentError(
                f"{what}: devices= in another pmap, which has the devices; leave it out",
                argument="devices",
            )

        def run(frame: StackedFrame, inside: Any, named: Any) -> Any:
            values = list(inside)
            for n in sorted(kept):
                values.insert(n, kept[n])
            return fun(*values, **named)

        pool = tuple(local_devices(backend)) if devices is None else tuple(devices)
        result = mapped_call(
            fun, what, (tuple(given), kwargs), (in_axes, out_axes), axis_name, axis_size,
            (pool, devices is not None), run,
        )  # fmt: skip
        for n in donated:
            for leaf in tree.leaves(args[n]):
                if isinstance(leaf, Array):
                    leaf.delete()
        return result

    return call  # type: ignore[return-value]


def soft_pmap(
    fun: _F,
    axis_name: Hashable = None,
    in_axes: Any = 0,
    out_axes: Any = 0,
    *,
    axis_size: int | None = None,
    backend: str | None = None,
) -> _F:
    """Map a function over a dim that may be longer than there are devices, in equal chunks.

    The function sees arrays without the dim, and collectives see all of its elements.

    Args:
      fun: the function.
      axis_name: the name by which the collectives of `gpushard.lax` find the dim.
      in_axes: for each argument 0, or None for what all elements get; or a prefix pytree.
      out_axes: 0, or None for results that do not differ; likewise.
      axis_size: how many elements there are; needed where no argument has the dim.
      backend: the platform whose devices are used.

    Returns:
      The function of arrays that have the dim; each device has a chunk of the results.

    Raises:
      ArgumentError: an axis is neither 0 nor None, or the dim does not come in equal chunks.

    >>> import gpushard as gs
    >>> share = gs.soft_pmap(lambda x: x / gs.lax.psum(x, "i"), "i")
    >>> share(gs.numpy.ones(2 * gs.device_count())).shape == (2 * gs.device_count(),)
    True
    """
    check_function(fun, "soft_pmap")
    what = title("soft_pmap", fun)
    for argument, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        wrong = [axis for axis in tree.leaves(axes) if axis != 0 or type(axis) is not int]
        if wrong:
            raise ArgumentError(
                f"{what}: {argument} has {wrong[0]!r}, and can only have 0 and None; move the dim "
                "to the front with gpushard.numpy.moveaxis",
                argument=argument,
                axis=wrong[0],
            )
    if isinstance(in_axes, list):
        in_axes = tuple(in_axes)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        pool = tuple(local_devices(backend))
        return mapped_call(
            fun, what, (args, kwargs), (in_axes, out_axes), axis_name, axis_size, (pool, None),
            lambda frame, inside, named: fun(*inside, **named),
        )  # fmt: skip

    return call  # type: ignore[return-value]


def _numbers(argnums: int | Sequence[int]) -> tuple[int, ...]:
    return (argnums,) if isinstance(argnums, int) else tuple(argnums)


def _check_devices(devices: Any, global_arg_shapes: Any, what: str) -> None:
    if devices is not None and not len(devices):
        raise ArgumentError(f"{what}: devices=[] is empty; leave it out", argument="devices")
    if global_arg_shapes is not None:
        raise ArgumentError(
            f"{what}: global_arg_shapes={global_arg_shapes!r} must be None: this process has all "
            "of the arguments",
            argument="global_arg_shapes",
            value=global_arg_shapes,
        )


def _check_static(value: Any, number: int, what: str) -> None:
    try:
        hash(value)
    except TypeError:
        raise ArgumentTypeError(
            f"{what}: argument {number} is static and a {type(value).__name__}, which has no hash; "
            "give a tuple, or map it",
            argument="static_broadcasted_argnums",
            type=type(value),
        ) from None
