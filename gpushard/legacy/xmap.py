"""`xmap`: a function of arrays some of whose dims have names, and live where names live."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from gpushard import tree
from gpushard.array.array import Array
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.geometry.named_sharding import NamedSharding
from gpushard.geometry.partition_spec import P
from gpushard.legacy.named_axes import (
    Entry,
    Resources,
    check_divided,
    check_entries,
    check_names,
    check_rank,
    is_entry,
    listed,
    parsed,
    scoped,
    sizes_of,
)
from gpushard.numpy import stack
from gpushard.placement.defaults import get_mesh, local_devices
from gpushard.placement.device_put import implicitly_put
from gpushard.placement.donation import donated_arrays, give_up
from gpushard.transforms.jit.arguments import Options, check_numbers, indices_of
from gpushard.transforms.jit.jit import jit
from gpushard.transforms.jit.stages import Lowered
from gpushard.transforms.values.doors import check_constant, enter, leave
from gpushard.transforms.values.frames import Frame, NamedDim, Names
from gpushard.transforms.values.mapped import Mapped, as_mapped
from gpushard.transforms.values.signature import (
    check_function,
    check_leaf,
    each_result,
    labelled,
    place_of,
    title,
)

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
    """Map a function over dims that have names, which live on mesh axes or wherever they are.

    The function sees arrays without their named dims, and is called once. Collectives of
    `gpushard.lax` find these by their names, and so do sums, means and extremes as `axis="name"`,
    and einsum as "a{i,j},{j}->a{i}".

    Args:
      fun: the function.
      in_axes: for each argument the names of dims: a dict as {0: "i"}, or a list with a name or
        None for each dim, which may end in ... for dims without names; or a pytree of these that
        is a prefix of the arguments.
      out_axes: where results have named dims, likewise.
      axis_sizes: how many elements names have that no argument has.
      axis_resources: for names the mesh axis, or the `SerialLoop`, or several in a tuple, that
        elements are divided over. A string is an axis of the mesh of `with mesh:`, or a loop of
        `serial_loop`. Others are computed wherever arrays have them.
      donate_argnums: arguments whose arrays are given up. They are deleted when the function has
        returned; if it raises, they stay.
      backend: the platform of the devices.

    Returns:
      The function of whole arrays. Its `lower` is that of `jit`.

    Raises:
      ArgumentTypeError: fun is no function, or an entry is of no such form.
      ArgumentError: names, sizes and resources do not fit each other or the arguments; a result has
        a named dim that `out_axes` do not place, or there is none.

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
    ins, outs = parsed(in_axes, "in_axes", what), parsed(out_axes, "out_axes", what)
    given, wanted = dict(axis_sizes or {}), listed(axis_resources or {}, what)
    names = check_names(tree.leaves(ins), tree.leaves(outs), given, wanted, what)

    donated = indices_of(donate_argnums, "donate_argnums", what)
    options = Options(donated=(donated, ()))

    @functools.wraps(fun)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise ArgumentTypeError(
                f"{what}: the keyword arguments {sorted(kwargs)} have no in_axes; pass them by "
                "position",
                argument="kwargs",
            )
        if backend is not None:
            local_devices(backend)
        check_numbers(donated, len(args), "donate_argnums", what)
        label = labelled(fun, args, {})
        frame = Frame(what, None, label)
        leaves, structure = tree.flatten(args)
        for number, leaf in enumerate(leaves):
            check_leaf(leaf, what, label(number))
        entries = tree.broadcast_prefix(ins, args, names=("in_axes", "args"))
        resources = scoped(wanted, names, frame, get_mesh())
        sizes = sizes_of(list(map(np.shape, leaves)), entries, given, names, what, label)
        check_entries(entries, "in_axes", resources, what, label)
        check_entries(tree.leaves(outs), "out_axes", resources, what, lambda _: "a result")
        check_divided(sizes, resources, what)
        own = _Call(fun, what, structure, entries, outs, resources)
        given_up = donated_arrays(options.donated_leaves(args, {}), what)
        result = own.run(leaves, sizes)
        give_up(given_up)
        return result

    def lower(*args: Any) -> Lowered:
        """Trace a call, and return that stage; a `ShapeDtypeStruct` may stand for an array."""
        return cast("Lowered", jit(call, donate_argnums=donated).lower(*args))

    call.lower = lower  # type: ignore[attr-defined]
    return call


class _Call:
    """A call whose arguments were checked."""

    def __init__(
        self, fun: Any, what: str, structure: Any, ins: Sequence[Entry], outs: Any, where: Resources
    ) -> None:
        self._fun, self._what, self._structure = fun, what, structure
        self._ins, self._outs, self._where = ins, outs, where

    def run(self, leaves: Sequence[Any], sizes: dict[Hashable, int]) -> Any:
        """Return the results."""
        loops = dict.fromkeys(each for own in self._where.loops.values() for each in own)
        return self._turns([*map(self._placed, leaves, self._ins)], sizes, list(loops))

    def _turns(self, leaves: list[Any], sizes: dict[Hashable, int], loops: list[Hashable]) -> Any:
        """Return the results of all turns of some loops, one after the other."""
        if not loops:
            return self._mapped(leaves, sizes)
        loop, *inner = loops
        count = self._where.lengths[loop]
        own = {name for name, each in self._where.loops.items() if loop in each}
        chunk = {name: n // count if name in own else n for name, n in sizes.items()}
        views = [
            self._divided(x, entry, own, (count,))
            for x, entry in zip(leaves, self._ins, strict=True)
        ]
        turns = [
            self._turns([x if dim is None else _part(x, dim, n) for x, dim in views], chunk, inner)
            for n in range(count)
        ]
        structure = tree.structure(turns[0])
        entries = tree.broadcast_prefix(self._outs, turns[0])
        results = []
        for entry, *parts in zip(entries, *map(tree.leaves, turns), strict=True):
            each = [self._divided(part, entry, own, ()) for part in parts]
            dim = each[0][1]
            made = each[0][0] if dim is None else _joined([part for part, _ in each], dim)
            results.append(made)
        return tree.unflatten(structure, results)

    def _divided(
        self, x: Any, entry: Entry, own: set[Hashable], more: tuple[int, ...]
    ) -> tuple[Any, int | None]:
        """Return an array whose dim of one of some names is in as many parts as there are devices.

        Each of these may have further parts. Also return the dim; None if there is none.
        """
        for name, dim in entry.dims.items():
            if name in own:
                sizes = x.shape
                parts = [self._where.lengths[axis] for axis in self._where.places[name]]
                cut = (math.prod(parts), *more)
                shape = (*sizes[:dim], *cut, sizes[dim] // math.prod(cut), *sizes[dim + 1 :])
                return x.reshape(shape), dim
        return x, None

    def _placed(self, x: Any, entry: Entry) -> Any:
        """Return an argument as an array, which is where its names live unless it is mapped."""
        mesh = self._where.mesh
        if isinstance(x, Mapped) or mesh is None:
            return x if isinstance(x, Array) else implicitly_put(x, "xmap")
        if not isinstance(x, Array):
            dims = {dim: self._where.places[name] for name, dim in entry.dims.items()}
            spec = P(*[dims.get(dim) for dim in range(np.ndim(x))])
            return implicitly_put(x, "xmap", NamedSharding(mesh, spec))
        return x

    def _mapped(self, leaves: Sequence[Any], sizes: dict[Hashable, int]) -> Any:
        """Call the function once."""
        where, what, fun = self._where, self._what, self._fun
        args = tree.unflatten(self._structure, list(leaves))
        frame = Frame(what, where.mesh, labelled(fun, args, {}))
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
                    f"{what} ({place_of(fun)}): the function returns {out!r}, which has no arrays; "
                    "return at least one",
                    argument="fun",
                )
            return each_result(out, self._outs, _result, dims, frame, fun)


def _part(x: Any, dim: int, number: int) -> Any:
    """Return the elements of one turn of an array whose dim has parts, and turns in these."""
    part = x[(*[slice(None)] * (dim + 1), number)]
    shape = part.shape
    return part.reshape((*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def _joined(parts: list[Any], dim: int) -> Any:
    """Undo `_part` for the elements of all turns."""
    made = stack(parts, axis=dim + 1)
    shape = made.shape
    return made.reshape((*shape[:dim], math.prod(shape[dim : dim + 3]), *shape[dim + 3 :]))


def _named(entry: Entry, dims: _Dims) -> tuple[tuple[int, ...], Names]:
    """Return the dims that an entry names, and their names."""
    keys = [key for key in dims if key in entry.dims]
    return tuple([entry.dims[key] for key in keys]), tuple([dims[key] for key in keys])


def _result(x: Any, entry: Entry, arg: str, dims: _Dims, frame: Frame, fun: Any) -> Any:
    """Return a result with its named dims where they are wanted."""
    check_leaf(x, frame.what, arg)
    x = as_mapped(x, frame)
    own, names = _named(entry, dims)
    said = "out_axes", entry.text
    check_constant(x, names, frame, fun, arg, said, "a dim for it there")
    check_rank(x.ndim + len(own), entry, "out_axes", frame.what, arg)
    return leave(x, own, names, frame)
