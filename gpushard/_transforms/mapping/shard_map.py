"""`shard_map` and `smap`: map a function over the blocks of arrays, one on each device."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._functions.argument_checks import listed
from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._ops.rule import Splits
from gpushard._transforms.mapping.specs import (
    BlockAxes,
    block_axes,
    check_axes,
    check_leaf_spec,
    check_nested,
    find_mesh,
    mapped_axes,
    match_specs,
)
from gpushard._transforms.values.enter_leave import check_constant, enter_blocks, leave_blocks
from gpushard._transforms.values.frames import Frame, Names, Source, places_of_names
from gpushard._transforms.values.leaves import by_position, is_array, label_arguments, result_names
from gpushard._transforms.values.mapped import Mapped, as_mapped, broadcast_along, element_along
from gpushard._transforms.values.mapped_axes import check_axis
from gpushard._transforms.values.user_functions import check_function, title
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError


def shard_map(
    f: Any = None,
    mesh: Mesh | AbstractMesh | None = None,
    in_specs: Any = None,
    out_specs: Any = None,
    check_rep: bool = True,
    auto: Collection[str] = frozenset(),
    *,
    axis_names: Collection[str] = frozenset(),
    check_vma: bool | None = None,
) -> Any:
    """Run a function on each block of arrays; it sees one block of each argument.

    Python calls the function once, for the blocks of all devices. Elements move between devices
    only in the collectives of `gpushard.lax`, and before the call, if the sharding of an argument
    differs from its spec. Blocks are views of the arguments, and results are views of the returned
    blocks: nothing is copied within a device.

    Args:
      f: the function; without it, `shard_map` returns a decorator.
      mesh: the mesh. With None or an `AbstractMesh`, the mesh is that of the enclosing mapped
        function, of `set_mesh` or `use_mesh`, or of an argument.
      in_specs: for each positional argument a `PartitionSpec` with the mesh axes that split it, or
        None to pass the whole argument to all devices. May be a pytree that is a prefix of the
        arguments. Keyword arguments are passed whole.
      out_specs: for each result a `PartitionSpec` with the mesh axes along which its blocks are
        joined, or None if all blocks are equal. May be a pytree that is a prefix of the result.
      check_rep: whether to check that a result is equal along mesh axes that its spec does not
        name. Without the check, `shard_map` takes the first block along these axes.
      auto: mesh axes that the function is not mapped over; inside the function, arrays may be split
        along them.
      axis_names: the mesh axes to map over; all others are `auto`. By default all axes except those
        of an enclosing `shard_map`.
      check_vma: another name of `check_rep`.

    Returns:
      A function that takes and returns whole arrays.

    Raises:
      ArgumentTypeError: `f` is not a function, or an argument is neither an array nor a number.
      ArgumentError: mesh axes do not divide an array axis equally, or a spec has more entries than
        its argument has axes. Or a result varies along a mesh axis that its spec does not name.
      MeshError: there is no mesh, or `mesh` differs from the mesh of an enclosing mapped function.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((4,), "x")
    >>> total = gs.shard_map(lambda x: gs.lax.psum(x.sum(), "x"), mesh, gs.P("x"), gs.P())
    >>> int(total(gs.numpy.arange(8)))
    28
    """
    how = (mesh, in_specs, out_specs, check_rep if check_vma is None else check_vma)
    auto = listed(auto, "shard_map", "auto", "the names of axes")
    axis_names = listed(axis_names, "shard_map", "axis_names", "the names of axes")
    if mesh is not None and not isinstance(mesh, Mesh | AbstractMesh):
        raise ArgumentTypeError.refusing(
            "mesh", mesh, "must be a Mesh or an AbstractMesh", "shard_map"
        )
    if mesh is not None:
        check_axes(mesh, auto, axis_names, "shard_map")
    axes = frozenset(auto), frozenset(axis_names)
    return _map_blocks(f, *how, *axes) if f is not None else lambda f: _map_blocks(f, *how, *axes)


def smap(f: Any = None, /, *, in_axes: Any, out_axes: Any, axis_name: str) -> Any:
    """Run a function on each block of arrays along one axis of the current mesh.

    The function sees one block of each argument. Inside the function, arrays may stay split along
    the other mesh axes.

    Args:
      f: the function; without it, `smap` returns a decorator.
      in_axes: for each argument the array axis that the mesh axis splits, or None to pass the whole
        argument to every call. Negative axes count from the end. May be a pytree that is a prefix
        of the arguments.
      out_axes: for each result the array axis along which blocks are joined, or None if all blocks
        are equal. May be a pytree that is a prefix of the result.
      axis_name: the name of the mesh axis.

    Returns:
      A function that takes and returns whole arrays.

    Raises:
      ArgumentTypeError: `f` is not a function, `axis_name` not a string, or an array axis not an
        integer.
      ArgumentError: the mesh axis does not divide an array axis equally, or an array axis does not
        exist. Or a result with None in `out_axes` differs between blocks.
      MeshError: there is no current mesh, and no argument has a mesh.

    >>> import gpushard as gs
    >>> with gs.set_mesh(gs.make_mesh((4, 2), ("x", "y"))):
    ...     rows = gs.smap(lambda x: x[:1], in_axes=0, out_axes=0, axis_name="x")
    ...     rows(gs.numpy.arange(8)).tolist()
    [0, 2, 4, 6]
    """
    if not isinstance(axis_name, str):
        raise ArgumentTypeError.refusing(
            "axis_name", axis_name, "must be the name of a mesh axis", "smap"
        )
    if f is None:
        return lambda f: smap(f, in_axes=in_axes, out_axes=out_axes, axis_name=axis_name)
    check_function(f, "smap")
    in_axes, what = by_position(in_axes), title("smap", f)

    def outs(out: Any) -> tuple[list[Any], list[PartitionSpec], list[tuple[str, str]]]:
        leaves, structure = tree.flatten(out)
        names = result_names(structure)
        specs = _specs_along(axis_name, out_axes, out, (what, "out_axes"), names.__getitem__)
        return leaves, specs, [(name, "out_axes") for name in names]

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        label = label_arguments(f, args, kwargs)
        specs = _specs_along(axis_name, in_axes, args, (what, "in_axes"), label)
        wanted = tree.unflatten(tree.structure(args), specs)
        only = frozenset({axis_name})
        return _map_blocks(f, None, wanted, outs, True, frozenset(), only, "smap")(*args, **kwargs)

    return call


def _specs_along(
    axis: str, dims: Any, full: Any, where: tuple[str, str], label: Callable[[int], str]
) -> list[PartitionSpec]:
    """Make specs that split one dim of each leaf of a tree over a mesh axis."""
    names = (where[1], "args" if where[1] == "in_axes" else "the result")
    each = tree.broadcast_prefix(dims, full, lambda dim: dim is None, names=names)
    specs = []
    for number, (leaf, dim) in enumerate(zip(tree.leaves(full), each, strict=True)):
        if dim is not None:
            dim = check_axis(dim, np.ndim(leaf), *where, label(number))
        specs.append(PartitionSpec() if dim is None else PartitionSpec(*[None] * dim, axis))
    return specs


def _map_blocks(
    f: Any,
    mesh: Any,
    in_specs: Any,
    out_specs: Any,
    check: bool,
    auto: frozenset[str],
    names: frozenset[str],
    name: str = "shard_map",
) -> Any:
    check_function(f, name)
    in_specs = by_position(in_specs)
    what = title(name, f)
    one_for_all = type(in_specs) is PartitionSpec
    plain = in_specs if type(in_specs) is tuple else (in_specs,)
    if not all(isinstance(spec, PartitionSpec) for spec in plain):
        plain = ()

    @functools.wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        own_mesh = find_mesh(mesh, args, what)
        if mesh is None:
            check_axes(own_mesh, auto, names, what)
        frame = Frame(what, own_mesh, label_arguments(f, args, kwargs))
        axes = block_axes(own_mesh, auto if names else auto | mapped_axes(frame), names)
        frame.auto = axes.auto
        check_nested(frame, axes)
        for axis in axes.names:
            frame.name(axis, own_mesh.shape[axis], (axis,))
        leaves: Sequence[Any] = args
        specs: Sequence[Any] = plain * len(args) if one_for_all else plain
        if len(specs) != len(args) or not all(map(is_array, args)):
            leaves, specs = match_specs(args, in_specs, "in_specs", "args")
        every = list(zip(leaves, specs, strict=True))
        inside: Any = [_enter(number, every, axes, frame) for number in range(len(every))]
        with frame:
            if leaves is not args:
                inside = tree.unflatten(tree.structure(args), inside)
            whole = {key: tree.map(lambda x: as_mapped(x, frame), x) for key, x in kwargs.items()}
            out = f(*inside, **whole)
            return _results(f, out, out_specs, axes, frame, check)

    return call


def _results(f: Any, out: Any, out_specs: Any, axes: BlockAxes, frame: Frame, check: bool) -> Any:
    """Join the blocks that a function returned to arrays."""
    if type(out_specs) is PartitionSpec and is_array(out):
        return _result(f, out, out_specs, axes, frame, check, "the result")
    if callable(out_specs):  # `smap` makes specs of the results
        leaves, specs, names = out_specs(out)
    else:
        leaves, specs = match_specs(out, out_specs, "out_specs", "the result")
        names = [(name, "out_specs") for name in result_names(tree.structure(out))]
    results = [
        _result(f, leaf, spec, axes, frame, check, *name)
        for leaf, spec, name in zip(leaves, specs, names, strict=True)
    ]
    return tree.unflatten(tree.structure(out), results)


def _enter(
    number: int, every: Sequence[tuple[Any, PartitionSpec]], axes: BlockAxes, frame: Frame
) -> Mapped:
    """Make the value that a function sees of an argument: a block, with the names of its axes.

    Args:
      number: the number of the argument.
      every: all arguments with their specs.
      axes: the axes that the function is mapped over.
      frame: the call.
    """
    x, spec = every[number]
    where = frame.what, "in_specs"
    splits = check_leaf_spec(x, spec, axes, where, frame.label, number, every=every)
    source: Source = (frame, number)
    outer: Names = ()
    if type(x) is Mapped:
        x._check_open()
        x, outer, source = x._value, x._names, x._source or source
    shape, named = x._shape if is_array(x) else np.shape(x), {a for dim in splits for a in dim}
    both = named & {axis for name in outer for axis in name.place or ()}
    if both:
        raise ArgumentError(
            f"{frame.what}: in_specs has {spec} for {frame.label(number)}, but {sorted(both)} "
            "split the axis of an enclosing vmap (spmd_axis_name=). Try: name other mesh axes in "
            "one of them",
            argument="in_specs",
            axes=sorted(both),
        )
    names = tuple([name for name in frame.dims if name.name in named])
    others = _auto_axes(x, shape, len(outer), splits, axes)
    labels = axes.labels(spec, shape, places_of_names(outer), others)
    return enter_blocks(x, labels, outer + names, frame, source)


def _result(
    f: Any,
    x: Any,
    spec: PartitionSpec,
    axes: BlockAxes,
    frame: Frame,
    check: bool,
    arg: str,
    argument: str = "out_specs",
) -> Any:
    """Join a returned block to an array that a spec splits."""
    where = frame.what, argument
    splits = check_leaf_spec(x, spec, axes, where, lambda _: arg, 0, divides=False)
    named = {axis for dim in splits for axis in dim}
    x, names = as_mapped(x, frame), tuple([name for name in frame.dims if name.name in named])
    if check:
        way = "a spec that names it, check_rep=False for the first block"
        check_constant(x, names, frame, f, arg, (argument, spec), way)
    x = element_along(x, [name for name in x._names if name in frame.dims and name not in names])
    outer = tuple([name for name in x._names if name not in names])
    x = broadcast_along(x, outer + names)
    sizes = axes.mesh.shape
    body = [
        n * math.prod([sizes[axis] for axis in dim])
        for n, dim in zip(x._shape, splits, strict=True)
    ]
    whole = (*x._value._shape[: len(outer)], *body)
    others = _auto_axes(x._value, x._value._shape, len(x._names), (), axes)
    labels = axes.labels(spec, whole, places_of_names(outer), others)
    return leave_blocks(x, labels, outer, frame)


def _auto_axes(x: Any, shape: Shape, lead: int, splits: Splits, axes: BlockAxes) -> Splits:
    """List for each dim after the first `lead` ones the auto axes that split it.

    An auto axis stays if it divides the block that mapped axes leave of the dim.
    """
    sharding = getattr(x, "_sharding", None)
    if not axes.auto or not isinstance(sharding, NamedSharding) or sharding.mesh != axes.mesh:
        return ((),) * (len(shape) - lead)
    others = []
    for dim in range(lead, len(shape)):
        auto = tuple([axis for axis in sharding.spec.axes(dim) if axis in axes.auto])
        mapped_over = splits[dim - lead] if splits else ()
        parts = math.prod(sharding.mesh.shape[axis] for axis in (*mapped_over, *auto))
        others.append(auto if shape[dim] % parts == 0 else ())
    return tuple(others)
