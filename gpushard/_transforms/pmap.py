"""`pmap` and `soft_pmap`: map a function over an axis with its elements on different devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar, cast

from gpushard import tree
from gpushard._geometry.mesh import check_devices
from gpushard._placement.devices import local_devices
from gpushard._placement.donation import donated_arrays, give_up
from gpushard._runtime.current_runtime import current
from gpushard._runtime.runtime import Device, Runtime
from gpushard._transforms.jit.arguments import (
    Call,
    Options,
    among,
    check_not_both,
    check_numbers,
    indices_of,
)
from gpushard._transforms.jit.jit import jit
from gpushard._transforms.jit.stages import Lowered
from gpushard._transforms.mapping.pmap_axis import DeviceCall, DeviceFrame
from gpushard._transforms.values.frames import frames
from gpushard._transforms.values.leaves import by_position, label_arguments
from gpushard._transforms.values.mapped_axes import check_axis_name
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, ArgumentTypeError

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
    """Map a function over an axis of its arguments, each element on its own device.

    The function sees arrays without the mapped axis. The function may itself call a `pmap`. If the
    outer axis has n elements and the inner axis m, they use n * m devices.

    Args:
      fun: the function.
      axis_name: a name for the mapped axis, for the collectives of `gpushard.lax`.
      in_axes: for each positional argument that is not static the axis to map over, or None to copy
        the whole argument to all devices. May be a pytree that is a prefix of these arguments.
        Keyword arguments are mapped over axis 0.
      out_axes: for each result the position of the mapped axis, or None if the result is equal on
        all devices. May be a pytree that is a prefix of the result.
      static_broadcasted_argnums: positions of the arguments that the function gets unchanged; their
        values must be hashable.
      devices: a device for each element; by default the first devices of `gpushard.devices()`.
      backend: the platform of the devices, "cpu" or "gpu".
      axis_size: the size of the mapped axis; needed if `in_axes` is None for all arguments.
      donate_argnums: positions of donated arguments. `pmap` deletes their arrays once the function
        has returned. If the function raises, they are not deleted.
      global_arg_shapes: for each argument that is not static, the shape that the function sees, or
        None. May be a pytree that is a prefix of these arguments. In JAX, this is the shape over
        several processes.

    Returns:
      A function that takes and returns arrays with the mapped axis. Its results have a
      `PmapSharding`: each shard is one element, without the mapped axis and the axis of an inner
      `pmap`. The function has a method `lower`, like a function from `jit`.

    Raises:
      ArgumentTypeError: `fun` is not a function, or an argument is neither an array nor a number.
      ArgumentError: no argument is mapped, the sizes of mapped axes differ, or an argument does not
        have its axis.
      NoDeviceError: the mapped axis has more elements than there are devices.

    >>> import gpushard as gs
    >>> share = gs.pmap(lambda x: x / gs.lax.psum(x, "i"), "i")
    >>> share(gs.numpy.asarray([1.0, 3.0])).tolist()
    [0.25, 0.75]
    """
    check_function(fun, "pmap")
    what = title("pmap", fun)
    size = check_axis_name(axis_name, axis_size, what)
    static = indices_of(static_broadcasted_argnums, _STATIC, what)
    donated = indices_of(donate_argnums, "donate_argnums", what)
    options = Options(donated=(donated, ()))
    if devices is not None and not len(check_devices(devices)):
        raise ArgumentError(f"{what}: devices=[] is empty. Try: leave it out", argument="devices")
    in_axes = by_position(in_axes)

    def open_call(args: Any, kwargs: Any) -> tuple[DeviceCall, Call]:
        """Check a call, and return it with and without its mapping over devices."""
        if static or donated:
            for numbers, argument in ((static, _STATIC), (donated, "donate_argnums")):
                check_numbers(numbers, len(args), argument, what)
            check_not_both(among(static, len(args)), among(donated, len(args)), what)
        plain_call = Call(fun, what, args, kwargs, (static, ()), _STATIC, ArgumentTypeError)
        if devices is None:
            pool = _pool(current(), backend), False
        elif any(isinstance(frame, DeviceFrame) for frame in frames()):
            raise ArgumentError(
                f"{what}: devices= within another pmap, which uses the devices. Try: leave it out",
                argument="devices",
            )
        else:
            pool = tuple(devices), True
        each = plain_call.args, plain_call.kwargs
        mapped_call = DeviceCall(fun, what, each, in_axes, axis_name, size, pool, plain_call.label)
        if global_arg_shapes is not None:
            mapped_call.check_shapes(plain_call.args, global_arg_shapes)
        return mapped_call, plain_call

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        mapped_call, plain_call = open_call(args, kwargs)
        given_up = donated_arrays(options.donated_leaves(args, {}), what) if donated else ()
        result = mapped_call.run(plain_call if static else fun, out_axes)
        give_up(given_up)
        return result

    def lower(*args: Any, **kwargs: Any) -> Lowered:
        """Trace and lower a call; a `ShapeDtypeStruct` may stand for an array."""
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
    """Map a function over an axis that may have more elements than there are devices.

    Each device gets an equal chunk of the elements. The function sees arrays without the mapped
    axis. Collectives over the axis combine all of its elements.

    Args:
      fun: the function.
      axis_name: a name for the mapped axis, for the collectives of `gpushard.lax`.
      in_axes: for each argument 0 to map over its first axis, or None to pass the whole argument
        for every element. May be a pytree that is a prefix of the arguments.
      out_axes: for each result 0 to put the mapped axis first, or None if the result is equal for
        all elements. May be a pytree that is a prefix of the result.
      axis_size: the size of the mapped axis; needed if `in_axes` is None for all arguments.
      backend: the platform of the devices, "cpu" or "gpu".

    Returns:
      A function that takes and returns arrays with the mapped axis; each device has a chunk of the
      results.

    Raises:
      ArgumentTypeError: `fun` is not a function, or an argument is neither an array nor a number.
      ArgumentError: an axis is neither 0 nor None, or the devices cannot get equal numbers of
        elements.

    >>> import gpushard as gs
    >>> share = gs.soft_pmap(lambda x: x / gs.lax.psum(x, "i"), "i")
    >>> share(gs.numpy.ones(2 * gs.device_count())).shape == (2 * gs.device_count(),)
    True
    """
    check_function(fun, "soft_pmap")
    what = title("soft_pmap", fun)
    size = check_axis_name(axis_name, axis_size, what)
    for argument, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        wrong = [axis for axis in tree.leaves(axes) if axis != 0 or type(axis) is not int]
        if wrong:
            raise ArgumentError(
                f"{what}: {argument} has {wrong[0]!r}, and can only have 0 and None. Try: move the "
                f"axis to the front, with gpushard.numpy.moveaxis(x, {wrong[0]!r}, 0)",
                argument=argument,
                axis=wrong[0],
            )
    in_axes = by_position(in_axes)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        pool = _pool(current(), backend), None
        label = label_arguments(fun, args, kwargs)
        mapped_call = DeviceCall(fun, what, (args, kwargs), in_axes, axis_name, size, pool, label)
        return mapped_call.run(fun, out_axes)

    return call  # type: ignore[return-value]


@functools.lru_cache(maxsize=16)
def _pool(runtime: Runtime, backend: str | None) -> tuple[Device, ...]:
    """List the devices of the current runtime on a platform."""
    return tuple(local_devices(backend))
