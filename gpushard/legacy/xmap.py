"""`xmap`: map a function over named axes, which may live on mesh axes or in serial loops."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P
from gpushard._placement.default_placement import get_mesh
from gpushard._placement.device_put import implicitly_put
from gpushard._placement.devices import local_devices
from gpushard._placement.donation import donated_arrays, give_up
from gpushard._transforms.jit.arguments import Options, check_numbers, indices_of
from gpushard._transforms.jit.jit import jit
from gpushard._transforms.jit.stages import Lowered
from gpushard._transforms.values.enter_leave import check_constant, enter, leave
from gpushard._transforms.values.frames import Frame, NamedDim, Names
from gpushard._transforms.values.leaves import check_leaf, each_result, label_arguments
from gpushard._transforms.values.mapped import Mapped, as_mapped
from gpushard._transforms.values.user_functions import check_function, place_of, title
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.legacy.xmap_axes import (
    Entry,
    Resources,
    check_divided,
    check_entries,
    check_names,
    check_rank,
    find_resources,
    is_entry,
    list_resources,
    parse_entries,
    sizes_of,
)
from gpushard.numpy import stack

_Dims = dict[Hashable, NamedDim]


def xmap(
    fun: Callable[..., Any],
    in_axes: Any,
    out_axes: Any,
    *,
    axis_sizes: Mapping[Hashable, int] | None = None,
    axis_resources: Mapping[Hashable, Any] | None = None,
    donate_argnums: int | Sequence[int] = (),
    backend: str | None = None,
) -> Callable[..., Any]:
    """Map a function over named axes of its arguments.

    The function sees arrays without their named axes. Python calls the function once, unless there
    are serial loops. Inside the function, you name these axes in the collectives of `gpushard.lax`,
    in sums, means and extremes as `axis="name"`, and in `einsum` as "a{i,j},{j}->a{i}".

    Args:
      fun: the function.
      in_axes: for each argument the names of its axes. A dict such as {0: "i"}, or a list with a
        name or None for each axis. A list may end in ..., which stands for axes without names. May
        be a pytree that is a prefix of the arguments.
      out_axes: for each result the positions of its named axes, in the same forms. May be a pytree
        that is a prefix of the result.
      axis_sizes: the sizes of named axes that no argument has.
      axis_resources: for a named axis the resource, or a tuple of resources, over which its
        elements are split. A resource is a mesh axis or a `SerialLoop`. A string names an axis of
        the current mesh, or a loop of `serial_loop`. A named axis without resources keeps the split
        that it has in the arguments.
      donate_argnums: positions of donated arguments. `xmap` deletes their arrays once the function
        has returned. If the function raises, they are not deleted.
      backend: the platform of the devices, "cpu" or "gpu".

    Returns:
      A function that takes and returns whole arrays. It has a method `lower`, like a function from
      `jit`.

    Raises:
      ArgumentTypeError: `fun` is not a function, or an entry of `in_axes` or `out_axes` is neither
        a dict nor a list.
      ArgumentError: names, sizes and resources do not match each other or the arguments. Or a
        result varies along a named axis that is not in `out_axes`, or there is no result.

    >>> import gpushard as gs
    >>> product = gs.legacy.xmap(
    ...     lambda x, y: gs.numpy.einsum("{i,j},{j,k}->{i,k}", x, y),
    ...     in_axes=({0: "i", 1: "j"}, {0: "j", 1: "k"}),
    ...     out_axes={0: "i", 1: "k"},
    ...     axis_resources={"i": "x", "k": "y"},
    ... )
    >>> with gs.make_mesh((2, 2), ("x", "y")):
    ...     product(gs.numpy.ones((4, 3)), gs.numpy.ones((3, 2))).sharding.spec
    PartitionSpec('x', 'y')
    """
    check_function(fun, "xmap")
    what = title("xmap", fun)
    if isinstance(in_axes, list) and not is_entry(in_axes):
        in_axes = tuple(in_axes)
    ins, outs = parse_entries(in_axes, "in_axes", what), parse_entries(out_axes, "out_axes", what)
    given_sizes, wanted = dict(axis_sizes or {}), list_resources(axis_resources or {}, what)
    names = check_names(tree.leaves(ins), tree.leaves(outs), given_sizes, wanted, what)

    donated = indices_of(donate_argnums, "donate_argnums", what)
    options = Options(donated=(donated, ()))

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ArgumentTypeError(
                f"{what}: the keyword arguments {sorted(kwargs)} have no in_axes. Try: pass them "
                "by position",
                argument="kwargs",
            )
        if backend is not None:
            local_devices(backend)
        check_numbers(donated, len(args), "donate_argnums", what)
        label = label_arguments(fun, args, {})
        frame = Frame(what, None, label)
        leaves, structure = tree.flatten(args)
        for number, leaf in enumerate(leaves):
            check_leaf(leaf, what, label(number))
        entries = tree.broadcast_prefix(ins, args, names=("in_axes", "args"))
        resources = find_resources(wanted, names, frame, get_mesh())
        sizes = sizes_of(list(map(np.shape, leaves)), entries, given_sizes, names, what, label)
        check_entries(entries, "in_axes", resources, what, label)
        check_entries(tree.leaves(outs), "out_axes", resources, what, lambda _: "a result")
        check_divided(sizes, resources, what)
        checked_call = _XmapCall(fun, what, structure, entries, outs, resources)
        given_up = donated_arrays(options.donated_leaves(args, {}), what)
        result = checked_call.run(leaves, sizes)
        give_up(given_up)
        return result

    def lower(*args: Any) -> Lowered:
        """Trace and lower a call; a `ShapeDtypeStruct` may stand for an array."""
        return cast("Lowered", jit(call, donate_argnums=donated).lower(*args))

    call.lower = lower  # type: ignore[attr-defined]
    return call


class _XmapCall:
    """One call of `xmap` with checked arguments; it runs the serial loops around the function."""

    def __init__(
        self, fun: Any, what: str, structure: Any, ins: Sequence[Entry], outs: Any, where: Resources
    ) -> None:
        self._fun, self._what, self._structure = fun, what, structure
        self._ins, self._outs, self._where = ins, outs, where

    def run(self, leaves: Sequence[Any], sizes: dict[Hashable, int]) -> Any:
        """Run all turns of all loops, and return the results."""
        loops = dict.fromkeys(
            each for loops_of_name in self._where.loops.values() for each in loops_of_name
        )
        return self._run_turns([*map(self._place_argument, leaves, self._ins)], sizes, list(loops))

    def _run_turns(
        self, leaves: list[Any], sizes: dict[Hashable, int], loops: list[Hashable]
    ) -> Any:
        """Run the turns of some loops, one after the other, and join their results."""
        if not loops:
            return self._call_once(leaves, sizes)
        loop, *inner = loops
        count = self._where.lengths[loop]
        names_of_loop = {name for name, each in self._where.loops.items() if loop in each}
        chunk = {name: n // count if name in names_of_loop else n for name, n in sizes.items()}
        views = [
            self._split_dim(x, entry, names_of_loop, (count,))
            for x, entry in zip(leaves, self._ins, strict=True)
        ]
        turns = [
            self._run_turns(
                [x if dim is None else _take_turn(x, dim, n) for x, dim in views], chunk, inner
            )
            for n in range(count)
        ]
        structure = tree.structure(turns[0])
        entries = tree.broadcast_prefix(self._outs, turns[0])
        results = []
        for entry, *parts in zip(entries, *map(tree.leaves, turns), strict=True):
            each = [self._split_dim(part, entry, names_of_loop, ()) for part in parts]
            dim = each[0][1]
            joined = each[0][0] if dim is None else _join_turns([part for part, _ in each], dim)
            results.append(joined)
        return tree.unflatten(structure, results)

    def _split_dim(
        self, x: Any, entry: Entry, names: set[Hashable], more: tuple[int, ...]
    ) -> tuple[Any, int | None]:
        """Split the dim of a name, among some names, into parts of devices and further ones.

        For example, a dim of 8 elements on 2 devices, with `more=(4,)` turns of a loop, becomes
        three dims of 2, 4 and 1 elements. So each turn has a part of the elements of each device.

        Returns:
          The array, and the dim; None if the array has none of the names.
        """
        for name, dim in entry.dims.items():
            if name in names:
                sizes = x.shape
                parts = [self._where.lengths[axis] for axis in self._where.places[name]]
                cut = (math.prod(parts), *more)
                shape = (*sizes[:dim], *cut, sizes[dim] // math.prod(cut), *sizes[dim + 1 :])
                return x.reshape(shape), dim
        return x, None

    def _place_argument(self, x: Any, entry: Entry) -> Any:
        """Make an array of an argument; data on the host goes to the places of its names."""
        mesh = self._where.mesh
        if isinstance(x, Mapped) or mesh is None:
            return x if isinstance(x, Array) else implicitly_put(x, "xmap")
        if not isinstance(x, Array):
            dims = {dim: self._where.places[name] for name, dim in entry.dims.items()}
            spec = P(*[dims.get(dim) for dim in range(np.ndim(x))])
            return implicitly_put(x, "xmap", NamedSharding(mesh, spec))
        return x

    def _call_once(self, leaves: Sequence[Any], sizes: dict[Hashable, int]) -> Any:
        """Call the function once, for one turn of all loops."""
        where, what, fun = self._where, self._what, self._fun
        args = tree.unflatten(self._structure, list(leaves))
        frame = Frame(what, where.mesh, label_arguments(fun, args, {}))
        frame.has_devices = True
        dims = {
            name: frame.name(name, n, None, where.places[name] or None, where.loops[name])
            for name, n in sizes.items()
        }
        inside = [
            enter(x, *_named(entry, dims), frame, number)
            for number, (x, entry) in enumerate(zip(leaves, self._ins, strict=True))
        ]
        with frame:
            out = fun(*tree.unflatten(self._structure, inside))
            if not tree.leaves(out):
                raise ArgumentError(
                    f"{what} ({place_of(fun)}): the function returns {out!r}, which has no arrays. "
                    "Try: return at least one",
                    argument="fun",
                )
            return each_result(out, self._outs, _result, dims, frame, fun)


def _take_turn(x: Any, dim: int, number: int) -> Any:
    """Take the elements of one turn from an array after `_split_dim`."""
    part = x[(*[slice(None)] * (dim + 1), number)]
    shape = part.shape
    return part.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def _join_turns(parts: list[Any], dim: int) -> Any:
    """Join the elements of all turns: undo `_take_turn`."""
    stacked = stack(parts, axis=dim + 1)
    shape = stacked.shape
    return stacked.reshape((*shape[:dim], math.prod(shape[dim : dim + 3]), *shape[dim + 3 :]))


def _named(entry: Entry, dims: _Dims) -> tuple[tuple[int, ...], Names]:
    """List the dims of an entry, and their names."""
    keys = [key for key in dims if key in entry.dims]
    return tuple([entry.dims[key] for key in keys]), tuple([dims[key] for key in keys])


def _result(x: Any, entry: Entry, arg: str, dims: _Dims, frame: Frame, fun: Any) -> Any:
    """Put the named axes of a result where `out_axes` says."""
    check_leaf(x, frame.what, arg)
    x = as_mapped(x, frame)
    dims_placed, names = _named(entry, dims)
    placing = "out_axes", entry.text
    check_constant(x, names, frame, fun, arg, placing, "give it an axis there")
    check_rank(x.ndim + len(dims_placed), entry, "out_axes", frame.what, arg)
    return leave(x, dims_placed, names, frame)
