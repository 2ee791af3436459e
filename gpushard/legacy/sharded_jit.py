"""`sharded_jit`: `jit` for arrays with axes that are cut into given numbers of parts."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._frozen import dataclass
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._placement.device_put import implicitly_put
from gpushard._placement.devices import local_devices
from gpushard._transforms.jit.abstract import eval_shape
from gpushard._transforms.jit.jit import jit
from gpushard._transforms.mapping.pmap_axis import DeviceFrame, list_sharding
from gpushard._transforms.values.frames import Frame, Names, frames, innermost
from gpushard._transforms.values.leaves import (
    by_position,
    check_leaf,
    each_result,
    is_array,
    label_arguments,
    match_container,
)
from gpushard._transforms.values.mapped import Mapped, mapped
from gpushard._transforms.values.user_functions import check_function, title
from gpushard.errors import ArgumentError, ArgumentTypeError, NoDeviceError, UnsupportedError
from gpushard.legacy.parts import (
    Parts,
    check_parts,
    get_num_partitions,
    parts_in,
    reconcile_num_partitions,
)


def sharded_jit(
    fun: Callable[..., Any],
    in_parts: Any,
    out_parts: Any,
    num_partitions: int | None = None,
    local_in_parts: Any = None,
    local_out_parts: Any = None,
    local_num_partitions: int | None = None,
) -> Callable[..., Any]:
    """Compile a function of arrays that are cut into parts, with one part on each device.

    The function sees whole arrays, and each device computes on its parts. Within `pmap`, each
    mapped element uses its own devices for the parts.

    Args:
      fun: the function.
      in_parts: for each argument its `Parts`, or None to copy the whole argument to all devices.
        May be a pytree that is a prefix of the arguments.
      out_parts: for each result its `Parts`, or None to copy the whole result to all devices. May
        be a pytree that is a prefix of the result.
      num_partitions: the number of devices. By default the product of the `Parts`, including those
        of `with_sharding_constraint`.
      local_in_parts: None, or equal to `in_parts`, since a program is one process.
      local_out_parts: None, or equal to `out_parts`.
      local_num_partitions: None, or equal to `num_partitions`.

    Returns:
      A function with the same positional arguments. Its results have a `PmapSharding` whose spec
      has `Chunked` dims.

    Raises:
      ArgumentTypeError: `fun` is not a function, or an entry is neither `Parts` nor None.
      ArgumentError: numbers of devices differ, or a number of parts does not divide an axis.
      NoDeviceError: there are fewer devices than parts.
      UnsupportedError: the function is called with keyword arguments.

    >>> import gpushard as gs
    >>> product = gs.legacy.sharded_jit(
    ...     lambda x, y: x @ y, in_parts=(Parts(2, 1), Parts(1, 2)), out_parts=Parts(1, 2)
    ... )
    >>> product(gs.numpy.ones((4, 3)), gs.numpy.ones((3, 2))).sharding.sharding_spec.sharding
    (None, Chunked((2,)))
    """
    check_function(fun, "sharded_jit")
    what = title("sharded_jit", fun)
    ins, outs = (
        _check_tree(parts, argument, what)
        for parts, argument in ((in_parts, "in_parts"), (out_parts, "out_parts"))
    )
    outer = _outer_number((ins, outs), num_partitions, what)
    _check_local((ins, outs, outer), (local_in_parts, local_out_parts, local_num_partitions), what)

    @functools.wraps(fun)
    def partitioned(*args: Any) -> Any:
        number = outer
        if number is None:
            number = reconcile_num_partitions(_constraints_in(fun, args), None)
        return _run(fun, what, args, (ins, outs), number)

    traced = jit(partitioned)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise UnsupportedError(
                f"{what}: the keyword arguments {sorted(kwargs)} have no in_parts. Try: pass them "
                "by position",
                argument="kwargs",
            )
        return traced(*args)

    call.lower = traced.lower  # type: ignore[attr-defined]
    return call


def with_sharding_constraint(x: Any, parts: Any) -> Any:
    """Cut a value into parts, one on each device, inside a function that `sharded_jit` compiles.

    Args:
      x: a pytree of values.
      parts: for each value its `Parts`, or None to copy the whole value to all devices. May be a
        pytree that is a prefix of `x`.

    Raises:
      UnsupportedError: the call is not inside a function that `sharded_jit` compiles.
      ArgumentError: the product of the parts differs from the number of devices, or parts do not
        divide an axis.

    >>> import gpushard as gs
    >>> cut = gs.legacy.sharded_jit(
    ...     lambda x: with_sharding_constraint(2 * x, Parts(4)), None, Parts(4)
    ... )
    >>> cut(gs.numpy.ones(8)).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    parts = _check_tree(parts, "parts", "with_sharding_constraint")
    collected, grid = _collected.get(), _grids.get()
    if collected is not None:
        collected += parts_in(parts)
        return x
    if grid is None:
        raise UnsupportedError(
            "legacy.with_sharding_constraint works within a function of sharded_jit only. Try: use "
            "gpushard.lax.with_sharding_constraint with a sharding elsewhere",
            argument="parts",
        )
    reconcile_num_partitions(parts_in(parts), grid.number)
    leaves, structure = tree.flatten(x)
    each = tree.broadcast_prefix(match_container(parts, x), x, _is_none, names=("parts", "x"))
    what = "with_sharding_constraint"
    cut_leaves = [
        grid.cut(leaf, parts_of_leaf, what, f"a value of shape {np.shape(leaf)}")
        for leaf, parts_of_leaf in zip(leaves, each, strict=True)
    ]
    return tree.unflatten(structure, cut_leaves)


def _is_none(x: Any) -> bool:
    return x is None


def _check_tree(partitions: Any, argument: str, what: str) -> Any:
    check_parts(partitions, argument, what)
    return by_position(partitions)


def _outer_number(partitions: Any, given_number: int | None, what: str) -> int | None:
    """Find the number of devices that arguments of `sharded_jit` say; None if they say nothing."""
    if given_number is not None and (type(given_number) is not int or given_number < 1):
        raise (ArgumentError if type(given_number) is int else ArgumentTypeError).refusing(
            "num_partitions", given_number, "must be a positive integer", what
        )
    number = get_num_partitions(partitions)
    if given_number is not None and number not in (None, given_number):
        raise ArgumentError(
            f"{what}: num_partitions={given_number}, and in_parts and out_parts are for {number} "
            "devices, by their products. Try: leave num_partitions out",
            argument="num_partitions",
            value=given_number,
            partitions=number,
        )
    return given_number if number is None else number


def _check_local(whole: tuple[Any, ...], local: tuple[Any, ...], what: str) -> None:
    """Check that the `local_` arguments are None or equal to the global ones."""
    names = "local_in_parts", "local_out_parts", "local_num_partitions"
    for name, all_of_it, local_value in zip(names, whole, local, strict=True):
        if local_value is not None and local_value != all_of_it:
            raise ArgumentError(
                f"{what}: {name}={local_value!r}, and this process has all of it, {all_of_it!r}. "
                f"Try: leave {name} out",
                argument=name,
                value=local_value,
            )


_collected: ContextVar[list[Parts] | None] = ContextVar("constraints", default=None)


def _constraints_in(fun: Any, args: Any) -> list[Parts]:
    """Collect the parts in calls of `with_sharding_constraint` in a function."""
    constraints: list[Parts] = []
    token = _collected.set(constraints)
    try:
        eval_shape(fun, *args)
    finally:
        _collected.reset(token)
    return constraints


@dataclass(frozen=True, eq=False)
class _Grid:
    """The devices of one call, as a mesh with an axis for each prime factor of their number."""

    number: int
    axes: tuple[tuple[str, int], ...]  # names and sizes

    def spec(self, shape: Sequence[int], parts: Parts | None, what: str, arg: str) -> list[Any]:
        """Choose the mesh axes that cut each dim, in the order of the mesh if that works out."""
        if parts is None:
            return [()] * len(shape)
        if len(parts) != len(shape):
            raise ArgumentError(
                f"{what}: {parts} for {arg} has {len(parts)} numbers, and there are {len(shape)} "
                "axes. Try: give one number for each axis",
                argument="parts",
                parts=parts,
                ndim=len(shape),
            )
        left, entries = list(self.axes), []
        for dim, (n, count) in enumerate(zip(shape, parts, strict=True)):
            if n % count:
                raise ArgumentError(
                    f"{what}: axis {dim} of {arg} has {n} elements, which do not come in {count} "
                    f"equal parts, as {parts} says. Try: pad it, or use jit with a NamedSharding",
                    argument="parts",
                    dim=dim,
                    size=n,
                    parts=parts,
                )
            axes_of_dim = []
            for prime in _primes(count):
                axis = next(each for each in left if each[1] == prime)
                left.remove(axis)
                axes_of_dim.append(axis[0])
            entries.append(tuple(axes_of_dim))
        return entries

    def cut(self, x: Any, parts: Parts | None, what: str, arg: str) -> Mapped:
        """Cut a value into parts, in the innermost call."""
        frame = innermost()
        assert frame is not None
        check_leaf(x, what, arg)
        entries = self.spec(np.shape(x), parts, what, arg)
        if not is_array(x):
            x = implicitly_put(x, what, _grid_layout(frame.mesh, (), entries))
        value_in_call = x if type(x) is Mapped else mapped(x, (), frame, None)
        value_in_call._check_open()
        sharding = _grid_layout(frame.mesh, value_in_call._names, entries)
        value = value_in_call._value
        if value._sharding != sharding:
            value = value._moved(sharding, what)
        return mapped(value, value_in_call._names, value_in_call._frame, value_in_call._source)


def _grid_layout(mesh: Any, names: Names, entries: Sequence[tuple[str, ...]]) -> NamedSharding:
    return NamedSharding(mesh, P(*[name.place for name in names], *entries))


_grids: ContextVar[_Grid | None] = ContextVar("partitions", default=None)


def _primes(number: int) -> list[int]:
    """Factor a number into primes, smallest first.

    >>> _primes(12)
    [2, 2, 3]
    """
    factors, factor = [], 2
    while number > 1:
        while number % factor == 0:
            factors.append(factor)
            number //= factor
        factor += 1
    return factors


@contextlib.contextmanager
def _open_grid(
    what: str, label: Callable[[int], str], parts: Sequence[Parts], number: int
) -> Iterator[_Grid]:
    """Open a call on a grid of devices, within the calls of `pmap` around it; a context manager.

    Within another call of `sharded_jit` it is the grid of that call.
    """
    around = _grids.get()
    if around is not None:
        if around.number != number:
            raise ArgumentError(
                f"{what} is for {number} devices, and the sharded_jit around it for "
                f"{around.number}. Try: use Parts with the product {around.number}",
                argument="num_partitions",
                count=number,
                partitions=around.number,
            )
        yield around
        return
    pool = local_devices()
    before = math.prod([frame.count for frame in frames() if isinstance(frame, DeviceFrame)])
    if before * number > len(pool):
        each = f" for each of {before}" if before > 1 else ""
        raise NoDeviceError(
            f"{what}: {number} parts{each} need {before * number} devices, there are {len(pool)}: "
            f"{pool}. Try: cut into fewer parts",
            argument="num_partitions",
            size=before * number,
            devices=len(pool),
        )
    counts = parts[0] if parts else (number,)
    sizes = [prime for count in counts for prime in _primes(count)] or [1]
    axes = []
    with contextlib.ExitStack() as stack:
        for size in sizes:
            frame = DeviceFrame(what, label, size, pool, kind="parts")
            stack.enter_context(frame)
            axes.append((frame.axis, size))
        grid = _Grid(number, tuple(axes))
        token = _grids.set(grid)
        try:
            yield grid
        finally:
            _grids.reset(token)


def _run(fun: Any, what: str, args: Any, partitions: tuple[Any, Any], number: int) -> Any:
    """Call a function with values that are cut into parts, and make arrays of its results."""
    ins, outs = partitions
    label, around = label_arguments(fun, args, {}), innermost()
    leaves, structure = tree.flatten(args)
    each = tree.broadcast_prefix(ins, args, _is_none, names=("in_parts", "args"))
    with _open_grid(what, label, parts_in(partitions), number) as grid:
        inside = [
            grid.cut(x, parts, what, label(n))
            for n, (x, parts) in enumerate(zip(leaves, each, strict=True))
        ]
        out = fun(*tree.unflatten(structure, inside))
        return each_result(out, outs, _leave, grid, what, around, argument="out_parts")


def _leave(
    x: Any, parts: Parts | None, arg: str, grid: _Grid, what: str, around: Frame | None
) -> Any:
    """Make an array over a list of devices of a result, or a value of the enclosing call."""
    x = grid.cut(x, parts, what, arg)
    if around is not None:
        return mapped(x._value, x._names, around, x._source)
    value = x._value
    sharding = list_sharding(value._sharding.mesh, value._sharding, value._shape)
    return value._relabel(sharding.tiling(value._shape), sharding)
