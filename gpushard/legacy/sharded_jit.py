"""`sharded_jit`: a traced function whose dims are cut into given numbers of parts."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

from gpushard import tree
from gpushard.errors import ArgumentError, ArgumentTypeError, NoDeviceError, UnsupportedError
from gpushard.frozen import dataclass
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.legacy.parts import (
    Parts,
    checked_parts,
    get_num_partitions,
    parts_in,
    reconcile_num_partitions,
)
from gpushard.placement.defaults import local_devices
from gpushard.placement.device_put import implicitly_put
from gpushard.transforms.jit.abstract import eval_shape
from gpushard.transforms.jit.jit import jit
from gpushard.transforms.mapping.device_axis import StackedFrame, listed
from gpushard.transforms.values.frames import Frame, Names, frames, innermost
from gpushard.transforms.values.mapped import Mapped, mapped
from gpushard.transforms.values.relabel import relabel
from gpushard.transforms.values.signature import (
    by_position,
    check_function,
    check_leaf,
    each_result,
    in_form_of,
    is_array,
    labelled,
    title,
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
    """Trace a function of arrays whose dims are cut into parts, one for each of some devices.

    The function sees whole arrays, and computes on their parts. Called in `pmap`, it takes as many
    devices for each of those.

    Args:
      fun: the function.
      in_parts: the `Parts` of each argument, None for a replica on each device; or a pytree of
        these that is a prefix of the arguments.
      out_parts: likewise for the results.
      num_partitions: how many devices; by default the product of the `Parts`, those of
        `with_sharding_constraint` too.
      local_in_parts: those of this process, which has the whole: the same.
      local_out_parts: likewise.
      local_num_partitions: likewise.

    Returns:
      The function; its results are in a `PmapSharding` whose spec has chunks.

    Raises:
      ArgumentTypeError: fun is no function, or parts are no `Parts`.
      ArgumentError: numbers of parts differ, or do not divide dims.
      NoDeviceError: there are not as many devices.
      UnsupportedError: it is called with keyword arguments.

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
        _checked_tree(parts, argument, what)
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

    own = jit(partitioned)

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise UnsupportedError(
                f"{what}: the keyword arguments {sorted(kwargs)} have no in_parts; pass them by "
                "position",
                argument="kwargs",
            )
        return own(*args)

    call.lower = own.lower  # type: ignore[attr-defined]
    return call


def with_sharding_constraint(x: Any, parts: Any) -> Any:
    """Return a value cut into parts; in a function of `sharded_jit`.

    Args:
      x: a pytree of values.
      parts: `Parts`, or None for a replica on each device; or a prefix pytree.

    Raises:
      UnsupportedError: it is called elsewhere.
      ArgumentError: the product of the parts is another than the number of devices.

    >>> import gpushard as gs
    >>> cut = gs.legacy.sharded_jit(
    ...     lambda x: with_sharding_constraint(2 * x, Parts(4)), None, Parts(4)
    ... )
    >>> cut(gs.numpy.ones(8)).tolist()
    [2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0]
    """
    parts = _checked_tree(parts, "parts", "with_sharding_constraint")
    collected, grid = _collected.get(), _grids.get()
    if collected is not None:
        collected += parts_in(parts)
        return x
    if grid is None:
        raise UnsupportedError(
            "with_sharding_constraint cuts into parts within a function of sharded_jit alone; use "
            "gpushard.lax.with_sharding_constraint with a sharding elsewhere",
            argument="parts",
        )
    reconcile_num_partitions(parts_in(parts), grid.number)
    leaves, structure = tree.flatten(x)
    each = tree.broadcast_prefix(in_form_of(parts, x), x, _is_none, names=("parts", "x"))
    what = "with_sharding_constraint"
    made = [
        grid.cut(leaf, own, what, f"a value of shape {np.shape(leaf)}")
        for leaf, own in zip(leaves, each, strict=True)
    ]
    return tree.unflatten(structure, made)


def _is_none(x: Any) -> bool:
    return x is None


def _checked_tree(partitions: Any, argument: str, what: str) -> Any:
    checked_parts(partitions, argument, what)
    return by_position(partitions)


def _outer_number(partitions: Any, said: int | None, what: str) -> int | None:
    """Return into how many parts a function's arguments and results are cut."""
    if said is not None and (type(said) is not int or said < 1):
        raise (ArgumentError if type(said) is int else ArgumentTypeError).refusing(
            "num_partitions", said, "must be a positive integer", what
        )
    number = get_num_partitions(partitions)
    if said is not None and number not in (None, said):
        raise ArgumentError(
            f"{what}: num_partitions={said}, and in_parts and out_parts are for {number} devices, "
            "by their products; leave num_partitions out",
            argument="num_partitions",
            value=said,
            partitions=number,
        )
    return said if number is None else number


def _check_local(whole: tuple[Any, ...], local: tuple[Any, ...], what: str) -> None:
    """Check that what this process has is the whole."""
    names = "local_in_parts", "local_out_parts", "local_num_partitions"
    for name, all_of_it, own in zip(names, whole, local, strict=True):
        if own is not None and own != all_of_it:
            raise ArgumentError(
                f"{what}: {name}={own!r}, and this process has all of it, {all_of_it!r}; leave "
                f"{name} out",
                argument=name,
                value=own,
            )


_collected: ContextVar[list[Parts] | None] = ContextVar("constraints", default=None)


def _constraints_in(fun: Any, args: Any) -> list[Parts]:
    """Return the parts that a function says of values in it."""
    found: list[Parts] = []
    token = _collected.set(found)
    try:
        eval_shape(fun, *args)
    finally:
        _collected.reset(token)
    return found


@dataclass(frozen=True, eq=False)
class _Grid:
    """The devices of one call, an axis for each prime factor of their number."""

    number: int
    axes: tuple[tuple[str, int], ...]  # names and sizes

    def spec(self, shape: Sequence[int], parts: Parts | None, what: str, arg: str) -> list[Any]:
        """Return which axes cut each dim; in their order where that comes out."""
        if parts is None:
            return [()] * len(shape)
        if len(parts) != len(shape):
            raise ArgumentError(
                f"{what}: {parts} for {arg} has {len(parts)} numbers, and there are {len(shape)} "
                "dims; give one for each",
                argument="parts",
                parts=parts,
                ndim=len(shape),
            )
        left, entries = list(self.axes), []
        for dim, (n, count) in enumerate(zip(shape, parts, strict=True)):
            if n % count:
                raise ArgumentError(
                    f"{what}: dim {dim} of {arg} has {n} elements, which do not come in {count} "
                    f"equal parts, as {parts} says; pad it, or use jit with a NamedSharding",
                    argument="parts",
                    dim=dim,
                    size=n,
                    parts=parts,
                )
            own = []
            for prime in _primes(count):
                axis = next(each for each in left if each[1] == prime)
                left.remove(axis)
                own.append(axis[0])
            entries.append(tuple(own))
        return entries

    def cut(self, x: Any, parts: Parts | None, what: str, arg: str) -> Mapped:
        """Return a value that is cut into parts, in the innermost call."""
        frame = innermost()
        assert frame is not None
        check_leaf(x, what, arg)
        entries = self.spec(np.shape(x), parts, what, arg)
        if not is_array(x):
            x = implicitly_put(x, what, _laid(frame.mesh, (), entries))
        own = x if type(x) is Mapped else mapped(x, (), frame, None)
        own._check_open()
        sharding = _laid(frame.mesh, own._names, entries)
        value = own._value
        if value._sharding != sharding:
            value = value._moved(sharding, what)
        return mapped(value, own._names, own._frame, own._source)


def _laid(mesh: Any, names: Names, entries: Sequence[tuple[str, ...]]) -> NamedSharding:
    return NamedSharding(mesh, P(*[name.place for name in names], *entries))


_grids: ContextVar[_Grid | None] = ContextVar("partitions", default=None)


def _primes(number: int) -> list[int]:
    """Return the prime factors of a number.

    >>> _primes(12)
    [2, 2, 3]
    """
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found


@contextlib.contextmanager
def _entered(
    what: str, label: Callable[[int], str], parts: Sequence[Parts], number: int
) -> Iterator[_Grid]:
    """Be in a call whose devices are a grid, for each of those of the functions around it.

    In another such call they are the same ones.
    """
    own = _grids.get()
    if own is not None:
        if own.number != number:
            raise ArgumentError(
                f"{what} is for {number} devices, and the sharded_jit around it for {own.number}; "
                f"use Parts whose product is {own.number}",
                argument="num_partitions",
                count=number,
                partitions=own.number,
            )
        yield own
        return
    pool = local_devices()
    before = math.prod([frame.count for frame in frames() if isinstance(frame, StackedFrame)])
    if before * number > len(pool):
        each = f" for each of {before}" if before > 1 else ""
        raise NoDeviceError(
            f"{what}: {number} parts{each} need {before * number} devices, there are {len(pool)}: "
            f"{pool}; cut into fewer",
            argument="num_partitions",
            size=before * number,
            devices=len(pool),
        )
    counts = parts[0] if parts else (number,)
    sizes = [prime for count in counts for prime in _primes(count)] or [1]
    axes = []
    with contextlib.ExitStack() as stack:
        for size in sizes:
            frame = StackedFrame(what, label, size, pool, kind="parts")
            stack.enter_context(frame)
            axes.append((frame.axis, size))
        grid = _Grid(number, tuple(axes))
        token = _grids.set(grid)
        try:
            yield grid
        finally:
            _grids.reset(token)


def _run(fun: Any, what: str, args: Any, partitions: tuple[Any, Any], number: int) -> Any:
    """Call a function with values that are cut into parts, and return its results as arrays."""
    ins, outs = partitions
    label, around = labelled(fun, args, {}), innermost()
    leaves, structure = tree.flatten(args)
    each = tree.broadcast_prefix(ins, args, _is_none, names=("in_parts", "args"))
    with _entered(what, label, parts_in(partitions), number) as grid:
        inside = [
            grid.cut(x, parts, what, label(n))
            for n, (x, parts) in enumerate(zip(leaves, each, strict=True))
        ]
        out = fun(*tree.unflatten(structure, inside))
        return each_result(out, outs, _outside, grid, what, around, argument="out_parts")


def _outside(
    x: Any, parts: Parts | None, arg: str, grid: _Grid, what: str, around: Frame | None
) -> Any:
    """Return a result as an array over a list of devices, or as a value of the call around."""
    x = grid.cut(x, parts, what, arg)
    if around is not None:
        return mapped(x._value, x._names, around, x._source)
    value = x._value
    sharding = listed(value._sharding.mesh, value._sharding, value._shape)
    return relabel(value, sharding.tiling(value._shape), sharding)
