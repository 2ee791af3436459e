"""Name mesh axes for weights, and convert the names to specs and shardings."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from gpushard import tree as trees
from gpushard._functions.shapes import as_shape
from gpushard._geometry.mesh import AbstractMesh, Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._placement.device_put import device_put
from gpushard.errors import ArgumentTypeError
from gpushard.nnx.mesh_axis_names import check_rank, mesh_here, spec_of
from gpushard.nnx.module import Module
from gpushard.nnx.variable import Annotated, Variable

__all__ = ["get_named_sharding", "get_partition_spec", "with_partitioning"]


def with_partitioning(
    initializer: Callable[..., Any], sharding: Any, mesh: Mesh | None = None, **metadata: Any
) -> Callable[..., Any]:
    """Wrap an initializer so that its values are split over mesh axes.

    A Variable with such a value stores the mesh axes in its metadata, as `sharding_names`.
    `get_partition_spec` and `get_named_sharding` read them. If you pass `mesh`, or a mesh is
    current, the wrapped initializer splits the value over this mesh.

    Args:
      initializer: a function that returns a value; usually its arguments are key, shape and dtype.
      sharding: for each axis of the value a mesh axis, a tuple of mesh axes, or None. Entries for
        the last axes may be left out.
      mesh: the mesh over which values are split; by default the mesh that is current when you call
        the wrapped initializer. If `initializer` has a parameter `out_sharding`, each device
        creates its own shard.
      **metadata: more metadata of the Variable.

    Returns:
      The wrapped initializer.

    Raises:
      ArgumentTypeError: the initializer cannot be called.
      ShardingError: `sharding` has more entries than the value has axes, or names an axis that the
        mesh does not have. The wrapped initializer raises it.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Linear, Rngs
    >>> init = with_partitioning(gs.nn.initializers.lecun_normal(), (None, "model"))
    >>> Linear(4, 8, kernel_init=init, rngs=Rngs(0)).kernel.sharding_names
    (None, 'model')
    """
    if not callable(initializer):
        raise ArgumentTypeError.refusing(
            "initializer", initializer, "must be a function of key, shape and dtype",
            "with_partitioning",
        )  # fmt: skip
    spec = spec_of(sharding)
    takes_place = {"shape", "out_sharding"} <= {*_parameters(initializer)}

    @functools.wraps(initializer)
    def init(*args: Any, **kwargs: Any) -> Annotated:
        names = {"sharding_names": tuple(spec), **metadata}
        chosen = mesh if mesh is not None else mesh_here()
        if chosen is not None and takes_place:
            shape = kwargs["shape"] if "shape" in kwargs else args[1]
            check_rank(spec, as_shape(shape), "with_partitioning")
            kwargs["out_sharding"] = NamedSharding(chosen, spec)
        value = initializer(*args, **kwargs)
        placed = mesh is not None
        if isinstance(value, Annotated):
            names, placed = {**value.metadata, **names}, placed or value.placed
            chosen = mesh if value.placed else chosen
            value = value.value
        check_rank(spec, getattr(value, "shape", None), "with_partitioning")
        if chosen is not None and hasattr(value, "shape"):
            value = device_put(value, NamedSharding(chosen, spec))
        return Annotated(value, names, placed)

    return init


def get_partition_spec(tree: Any) -> Any:
    """Convert the mesh axes in the metadata of Variables to `PartitionSpec`s.

    Args:
      tree: a pytree of Variables and arrays, such as `nnx.state(module)`.

    Returns:
      The pytree with specs as the values of Variables. Variables without mesh axes, and arrays,
      become `P()`.

    Raises:
      ArgumentTypeError: the pytree contains a Module.
      ShardingError: a Variable has more entries in `sharding_names` than its value has axes.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Param
    >>> specs = get_partition_spec({"w": Param(gs.numpy.ones((2, 4)), sharding=(None, "x"))})
    >>> specs["w"].value
    PartitionSpec(None, 'x')
    """
    return _map_names(tree, lambda spec: spec, "get_partition_spec")


def get_named_sharding(tree: Any, mesh: Mesh | AbstractMesh) -> Any:
    """Convert the mesh axes in the metadata of Variables to shardings over a mesh.

    Args:
      tree: a pytree of Variables and arrays, such as `nnx.state(module)`.
      mesh: a mesh with axes of these names.

    Returns:
      The pytree with shardings as the values of Variables, and in place of arrays.

    Raises:
      ArgumentTypeError: the pytree contains a Module, or `mesh` is not a mesh.
      ShardingError: a Variable has more entries in `sharding_names` than its value has axes, or the
        mesh does not have an axis.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Param
    >>> weights = {"w": Param(gs.numpy.ones((2, 4)), sharding=(None, "x"))}
    >>> get_named_sharding(weights, gs.make_mesh((4,), "x"))["w"].value.spec
    PartitionSpec(None, 'x')
    """
    if not isinstance(mesh, Mesh | AbstractMesh):
        raise ArgumentTypeError.refusing(
            "mesh", mesh, "must be a mesh, such as gs.make_mesh((8,), 'x')", "get_named_sharding"
        )
    return _map_names(tree, lambda spec: NamedSharding(mesh, spec), "get_named_sharding")


def _map_names(tree: Any, place: Callable[[PartitionSpec], Any], name: str) -> Any:
    def convert(leaf: Any) -> Any:
        if isinstance(leaf, Module):
            raise ArgumentTypeError.refusing(
                "tree", leaf, "holds a module; give nnx.state(module)", name
            )
        if isinstance(leaf, Variable):
            spec = spec_of(leaf.get_metadata().get("sharding_names") or ())
            check_rank(spec, getattr(leaf.raw_value, "shape", None), name)
            return leaf.replace(place(spec))
        return place(PartitionSpec()) if hasattr(leaf, "shape") else None

    return trees.map(convert, tree, is_leaf=lambda x: isinstance(x, Variable | Module))


def _parameters(function: Callable[..., Any]) -> Any:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
