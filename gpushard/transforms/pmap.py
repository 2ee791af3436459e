"""`pmap` and `soft_pmap`: a function of arrays, for the elements along a dim on devices each."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

from gpushard import tree
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.mesh import check_devices
from gpushard.placement.defaults import local_devices
from gpushard.placement.donation import donated_arrays, give_up
from gpushard.runtime.current import current
from gpushard.runtime.runtime import Device, Runtime
from gpushard.transforms.jit.arguments import (
    Call,
    Options,
    among,
    check_not_both,
    check_numbers,
    indices_of,
)
from gpushard.transforms.jit.jit import jit
from gpushard.transforms.jit.stages import Lowered
from gpushard.transforms.mapping.device_axis import Opened, StackedFrame
from gpushard.transforms.values.frames import frames
from gpushard.transforms.values.signature import (
    by_position,
    check_function,
    check_mapped,
    labelled,
    title,
)

_STATIC = "static_broadcasted_argnums"

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
      donate_argnums: arguments whose arrays are given up. They are deleted when the function has
        returned; if it raises, they stay.
      global_arg_shapes: for each argument that is not static the shape that all processes together
        see in the function, or None; or a prefix pytree. One process sees the whole.

    Returns:
      The function of arrays that have the dim; its results are in a `PmapSharding`. Its `lower`
      is that of `jit`.

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
    size = check_mapped(axis_name, axis_size, what)
    static = indices_of(static_broadcasted_argnums, _STATIC, what)
    donated = indices_of(donate_argnums, "donate_argnums", what)
    options = Options(donated=(donated, ()))
    if devices is not None and not len(check_devices(devices)):
        raise ArgumentError(f"{what}: devices=[] is empty; leave it out", argument="devices")
    in_axes = by_position(in_axes)

    def opened(args: Any, kwargs: Any) -> tuple[Opened, Call]:
        """Return a checked call, mapped over devices and as it is made."""
        if static or donated:
            for numbers, argument in ((static, _STATIC), (donated, "donate_argnums")):
                check_numbers(numbers, len(args), argument, what)
            check_not_both(among(static, len(args)), among(donated, len(args)), what)
        given = Call(fun, what, args, kwargs, (static, ()), _STATIC, ArgumentTypeError)
        if devices is None:
            pool = _pool(current(), backend), False
        elif any(isinstance(frame, StackedFrame) for frame in frames()):
            raise ArgumentError(
                f"{what}: devices= in another pmap, which has the devices; leave it out",
                argument="devices",
            )
        else:
            pool = tuple(devices), True
        each = given.args, given.kwargs
        own = Opened(fun, what, each, in_axes, axis_name, size, pool, given.label)
        if global_arg_shapes is not None:
            own.check_shapes(given.args, global_arg_shapes)
        return own, given

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        own, given = opened(args, kwargs)
        given_up = donated_arrays(options.donated_leaves(args, {}), what) if donated else ()
        result = own.run(given if static else fun, out_axes)
        give_up(given_up)
        return result

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        """Trace a call, and return that stage; a `ShapeDtypeStruct` may stand for an array."""
        traced = jit(call, static_argnums=static, donate_argnums=donated)
        return cast("Lowered", traced.lower(*args, **kwargs))

    call.lower = lower  # type: ignore[attr-defined]
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
    size = check_mapped(axis_name, axis_size, what)
    for argument, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        wrong = [axis for axis in tree.leaves(axes) if axis != 0 or type(axis) is not int]
        if wrong:
            raise ArgumentError(
                f"{what}: {argument} has {wrong[0]!r}, and can only have 0 and None; move the dim "
                "to the front with gpushard.numpy.moveaxis",
                argument=argument,
                axis=wrong[0],
            )
    in_axes = by_position(in_axes)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        pool = _pool(current(), backend), None
        label = labelled(fun, args, kwargs)
        own = Opened(fun, what, (args, kwargs), in_axes, axis_name, size, pool, label)
        return own.run(fun, out_axes)

    return call  # type: ignore[return-value]


@functools.lru_cache(maxsize=16)
def _pool(runtime: Runtime, backend: str | None) -> tuple[Device, ...]:
    """Return the devices of a runtime that this process drives; here they are its own ones."""
    return tuple(local_devices(backend))
