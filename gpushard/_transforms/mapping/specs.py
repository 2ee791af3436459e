"""Meshes and specs of `shard_map`: the axes that a function is mapped over, and checks."""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from gpushard import tree
from gpushard._array.array import ConcreteArray
from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import P, PartitionSpec, refuse_unreduced
from gpushard._ops.rule import Splits
from gpushard._placement.default_placement import get_mesh
from gpushard._transforms.mapping.pmap_axis import DeviceFrame
from gpushard._transforms.values.frames import Frame, innermost, outwards
from gpushard._transforms.values.labels import labels
from gpushard._transforms.values.leaves import check_leaf, is_array
from gpushard._typing import Shape
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    MeshError,
    ShardingError,
    UnsupportedError,
)


def check_axes(mesh: Any, auto: Collection[str], axis_names: Collection[str], what: str) -> None:
    """Check that a mesh has the axes that `auto` and `axis_names` name."""
    for argument, axes in (("auto", auto), ("axis_names", axis_names)):
        unknown = sorted(set(axes) - set(mesh.axis_names))
        if unknown:
            raise ArgumentError(
                f"{what}: {argument} names {unknown}, the mesh has {dict(mesh.shape)}. Try: use "
                "axes of the mesh",
                argument=argument,
                axes=unknown,
            )


def match_specs(
    args: Any, specs: Any, argument: str, full: str
) -> tuple[list[Any], list[PartitionSpec]]:
    """Match specs with the leaves of arguments or results; None means a whole leaf."""
    leaves = tree.leaves(args)
    if type(specs) is PartitionSpec:
        return leaves, [specs] * len(leaves)
    matched = tree.broadcast_prefix(specs, args, lambda x: x is None, names=(argument, full))
    return leaves, [P() if spec is None else spec for spec in matched]


def find_mesh(mesh: Mesh | AbstractMesh | None, args: Any, what: str) -> Mesh:
    """Find the mesh of a call: the given one, or the one around the call.

    Raises:
      MeshError: there is none, or it differs from an `AbstractMesh` that was given.
    """
    if isinstance(mesh, Mesh):
        return mesh
    frame = innermost()
    around: Mesh | AbstractMesh | None = None if frame is None else frame.mesh
    if around is None:
        around = get_mesh()
    if around is None:
        shardings = [x.sharding for x in tree.leaves(args) if isinstance(x, ConcreteArray)]
        around = next((s.mesh for s in shardings if isinstance(s, NamedSharding)), None)
    if not isinstance(around, Mesh):
        raise MeshError(
            f"{what}: mesh={mesh!r} has no devices, and none is set. Try: pass a Mesh, or call it "
            "within gpushard.set_mesh(mesh)",
            argument="mesh",
        )
    if mesh is not None and mesh != around.abstract_mesh:
        raise MeshError(
            f"{what}: mesh={mesh!r} differs from the mesh around the call, {dict(around.shape)}. "
            "Try: use the same names and sizes",
            argument="mesh",
        )
    return around


class BlockAxes:
    """The mesh axes that a function is mapped over, and how specs of them split arrays.

    Args:
      mesh: the mesh.
      names: the axes, in the order of the mesh.
    """

    def __init__(self, mesh: Mesh, names: tuple[str, ...]) -> None:
        self.mesh, self.names = mesh, names
        self.auto = tuple([axis for axis in mesh.axis_names if axis not in names])
        """The other axes."""
        self.splits = functools.lru_cache(4096)(functools.partial(_splits, mesh, names))
        """The axes by which a spec splits each dim of a shape: `_splits` on this mesh."""
        self.labels = functools.lru_cache(4096)(functools.partial(labels, mesh, names))
        """How these axes become named dims of an array: `labels` on this mesh."""


@functools.lru_cache(maxsize=256)
def block_axes(mesh: Mesh, auto: frozenset[str], names: frozenset[str]) -> BlockAxes:
    """Choose the mesh axes that a function is mapped over. Pure."""
    chosen = [axis for axis in mesh.axis_names if axis not in auto and (not names or axis in names)]
    return BlockAxes(mesh, tuple(chosen))


def mapped_axes(frame: Frame) -> frozenset[str]:
    """Collect the axes of the mesh of a call that enclosing calls map over."""
    around = frame.outer
    if around is None or around.mesh is not frame.mesh:
        return frozenset()
    return frozenset(
        axis for each in outwards(around) for name in each.dims for axis in name.axes or ()
    )


def check_nested(frame: Frame, axes: BlockAxes) -> None:
    """Check that a call has the mesh of the enclosing calls, and maps over other axes."""
    around, mesh = frame.outer, axes.mesh
    if around is None or around.mesh is None:
        return
    if around.mesh != mesh:
        if isinstance(around, DeviceFrame):
            raise UnsupportedError(
                f"{frame.what} in the {around.what}, which has its devices from no mesh. Try: use "
                "vmap or pmap here, or map the outer function by shard_map, over other axes of the "
                "mesh",
                argument="mesh",
            )
        raise MeshError(
            f"{frame.what} in the {around.what}: its mesh {dict(mesh.shape)} is not the mesh "
            f"{dict(around.mesh.shape)} of the outer function. Try: use one mesh, and name the "
            "mesh axes of each function with axis_names=",
            argument="mesh",
        )
    both = [axis for axis in axes.names if axis in mapped_axes(frame)]
    if both:
        raise ArgumentError(
            f"{frame.what} in the {around.what}: the mesh axes {both} are mapped already. Try: "
            "name axes of the inner function that are left, with axis_names=",
            argument="mesh",
            axes=both,
        )


def check_leaf_spec(
    x: Any,
    spec: Any,
    axes: BlockAxes,
    where: tuple[str, str],
    label: Callable[[int], str],
    number: int,
    *,
    divides: bool = True,
    every: Sequence[tuple[Any, Any]] = (),
) -> Splits:
    """Check an argument or a result and its spec, and list the axes that split each dim.

    Args:
      x: the argument.
      spec: its spec.
      axes: the axes that a spec may name.
      where: the function, and its argument that has the spec, for errors.
      label: names an argument by its number.
      number: the number of the argument.
      divides: whether axes must divide its dims.
      every: all arguments with their specs, for an error about several.
    """
    shape: Any = x._shape if is_array(x) else getattr(x, "shape", None)
    if shape is None:
        check_leaf(x, where[0], label(number))
        shape = ()
    shape = shape if divides else (0,) * len(shape)
    splits = axes.splits(spec, shape)
    if splits is None:
        check_spec(spec, axes.mesh, axes.names, *where)
        check_ranks(every, *where, label)
        check_divided(shape, spec, axes.mesh, *where, label(number))
    return cast("Splits", splits)


def _splits(mesh: Mesh, names: tuple[str, ...], spec: Any, shape: Shape) -> Splits | None:
    """List the axes by which a spec splits each dim of a shape; None if it does not fit. Pure."""
    try:
        check_spec(spec, mesh, names, "", "")
        check_divided(shape, spec, mesh, "", "", "")
    except (ArgumentError, ArgumentTypeError, ShardingError):
        return None
    return tuple([spec.axes(dim) for dim in range(len(shape))])


def check_spec(spec: Any, mesh: Mesh, manual: Sequence[str], what: str, argument: str) -> None:
    """Check that a spec names axes that a function is mapped over, each once."""
    if not isinstance(spec, PartitionSpec):
        raise ArgumentTypeError(
            f"{what}: {argument} holds {spec!r}. Try: use a PartitionSpec, such as P('x'), or None",
            argument=argument,
            value=spec,
        )
    refuse_unreduced(spec)
    if PartitionSpec.UNCONSTRAINED in spec:
        raise ArgumentError(
            f"{what}: {argument} has {spec}, and a function sees blocks of one shape. Try: name "
            "the mesh axes that split each axis, or None",
            argument=argument,
            spec=spec,
        )
    for axis, times in Counter(spec.all_axes()).items():
        if axis not in manual or times > 1:
            why = (
                f"is named {times} times"
                if axis in manual
                else "is in auto, or mapped already"
                if axis in mesh.axis_names
                else f"is not in the mesh {dict(mesh.shape)}"
            )
            raise ArgumentError(
                f"{what}: {argument} has {spec}: the mesh axis {axis!r} {why}. Try: "
                f"name mesh axes of {list(manual)}, each once",
                argument=argument,
                spec=spec,
                axis=axis,
            )


def check_ranks(
    every: Sequence[tuple[Any, Any]], what: str, argument: str, label: Callable[[int], str]
) -> None:
    """Refuse specs with more entries than dims if several arguments have one, in one error."""
    wrong = [
        f"{spec} for {label(number)}"
        for number, (x, spec) in enumerate(every)
        if isinstance(spec, PartitionSpec) and len(spec) > len(getattr(x, "shape", ()))
    ]
    if len(wrong) > 1:
        raise ArgumentError(
            f"{what}: {argument} has more entries than the arguments have axes: "
            f"{'; '.join(wrong)}. Try: give at most one entry per axis",
            argument=argument,
            specs=tuple(wrong),
        )


def check_divided(
    shape: Shape, spec: PartitionSpec, mesh: Mesh, what: str, argument: str, arg: str
) -> None:
    """Check that the axes of a spec divide the dims of an array.

    Raises:
      ArgumentError: they do not, or the spec is longer than the rank.
    """
    if len(spec) > len(shape):
        raise ArgumentError(
            f"{what}: {argument} for {arg} is {spec}, of {len(spec)} entries, and its shape "
            f"{shape} has ndim={len(shape)}. Try: give at most one entry per axis of the array",
            argument=argument,
            spec=spec,
            shape=shape,
        )
    for dim, n in enumerate(shape):
        parts = math.prod(mesh.shape[axis] for axis in spec.axes(dim))
        if parts and n % parts:
            axes = ", ".join(f"{axis!r}: {mesh.shape[axis]}" for axis in spec.axes(dim))
            raise ArgumentError(
                f"{what}: axis {dim} of {arg} has length {n}, which the mesh axes {{{axes}}} of "
                f"{argument}={spec} do not divide: one function can't see blocks of several "
                "shapes. Try: pad it to a multiple, or use gpushard.map_shards, which takes "
                "unequal blocks",
                argument=argument,
                dim=dim,
                size=n,
                parts=parts,
            )
