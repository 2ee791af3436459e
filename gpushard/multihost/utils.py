"""Convert between data of each process and arrays of all processes; check that processes agree."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpushard import tree
from gpushard._array import Array
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.partition_spec import PartitionSpec
from gpushard._placement.device_get import device_get
from gpushard._placement.device_put import device_put
from gpushard._placement.devices import local_devices
from gpushard._placement.make_array import make_array_from_single_device_arrays
from gpushard._placement.process_local_data import (
    global_shape_of,
    make_array_from_process_local_data,
    num_addressable_indices,
)
from gpushard._typing import HostArray
from gpushard.errors import AddressError, ArgumentError, ArgumentTypeError
from gpushard.multihost.group import group


def host_local_array_to_global_array(local_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Create global arrays from the part that each process has.

    Args:
      local_inputs: a pytree of this process's parts: arrays, or data on the host.
      global_mesh: the mesh of all processes.
      pspecs: the `PartitionSpec` of each global array over the mesh, as a pytree that is a prefix
        of `local_inputs`. Use `P()` for data that every process has in full.

    Returns:
      The global arrays. They share memory with local arrays that already have the right sharding.
      Arrays of several processes are returned unchanged.

    Raises:
      ArgumentTypeError: a spec is None, or `global_mesh` is not a mesh.
      MeshError: the devices of this process do not form a block of the mesh.
      ShardingError: a spec does not fit the shape of its data.
      TreeError: `pspecs` is not a prefix of the pytree of arrays.

    >>> import gpushard as gs
    >>> mesh = gs.make_mesh((2,), "x")
    >>> host_local_array_to_global_array(np.arange(4), mesh, gs.P("x"))
    Array([0, 1, 2, 3], dtype=int64, sharding=NamedSharding(mesh=('x': 2), spec=P('x')))
    """
    return _map(_to_global, local_inputs, global_mesh, pspecs, "local_inputs")


def global_array_to_host_local_array(global_inputs: Any, global_mesh: Mesh, pspecs: Any) -> Any:
    """Return this process's part of global arrays, as arrays of this process.

    Args:
      global_inputs: a pytree of global arrays.
      global_mesh: the mesh of all processes.
      pspecs: the `PartitionSpec` of each array over the mesh, as a pytree that is a prefix of
        `global_inputs`.

    Returns:
      Arrays over this process's part of the mesh, which share memory with the shards of the global
      arrays. Arrays that are only in this process are returned unchanged.

    Raises:
      ArgumentTypeError: a spec is None, `global_mesh` is not a mesh, or an input is not an array.
      MeshError: the devices of this process do not form a block of the mesh.
      ShardingError: an array of several processes has another sharding than `pspecs` says.
      TreeError: `pspecs` is not a prefix of the pytree of arrays.
    """
    return _map(_to_local, global_inputs, global_mesh, pspecs, "global_inputs")


def process_allgather(in_tree: Any, tiled: bool = False) -> Any:
    """Gather data of all processes in the host memory of each process.

    Args:
      in_tree: a pytree of arrays, or of data on the host.
      tiled: whether to concatenate the data of the processes along the first axis, rather than to
        stack it along a new first axis. An array of several processes is returned whole in both
        cases.

    Returns:
      A pytree with the structure of `in_tree` and NumPy arrays as leaves.

    Raises:
      AddressError: an array has shards that no process of the program can reach.

    >>> process_allgather(np.arange(3)), process_allgather(np.arange(3), tiled=True)
    (array([[0, 1, 2]]), array([0, 1, 2]))
    """
    return tree.map(lambda x: _gather(x, tiled), in_tree)


def broadcast_one_to_all(in_tree: Any, is_source: bool | None = None) -> Any:
    """Send the pytree of one process to every process.

    In this version, a program has only one process, which gets a copy of its data.

    Args:
      in_tree: a pytree of data, with equal structure, shapes and dtypes in all processes.
      is_source: whether this process is the source; by default only the first process is.

    Returns:
      The pytree of the source process, with NumPy arrays as leaves.

    Raises:
      ArgumentError: no process is the source, or several are.
    """
    mine = group.index == 0 if is_source is None else bool(is_source)
    flags = group.all_gather(mine)
    sources = [process for process, flag in enumerate(flags) if flag]
    if len(sources) != 1:
        raise ArgumentError(
            f"is_source is True on {len(sources)} of {group.count} processes; it must be on one",
            argument="is_source",
            sources=sources,
        )
    return group.broadcast(tree.map(np.asarray, device_get(in_tree)), sources[0])


def sync_global_devices(name: Any) -> None:
    """Wait until all devices of all processes have reached this call.

    Args:
      name: a name for this point of the program, equal in all processes.

    Raises:
      ArgumentTypeError: the name is not a string.
      ArgumentError: the processes have passed different names.
    """
    if not isinstance(name, str):
        why = f"is a {type(name).__name__}; give a string that names the place in the program"
        raise ArgumentTypeError.refusing("name", name, why, "sync_global_devices")
    for device in local_devices():
        device.synchronize()
    names = group.all_gather(name)
    if len(set(names)) > 1:
        raise ArgumentError(
            f"sync_global_devices: the processes are at {names}; all must call it with one name",
            argument="name",
            names=names,
        )


def assert_equal(in_tree: Any, fail_message: str = "") -> None:
    """Check that all processes have equal data.

    Args:
      in_tree: a pytree of arrays, or of data on the host.
      fail_message: a text with which the message of the error begins.

    Raises:
      AssertionError: the data of two processes differ.
    """
    mine = tree.map(np.asarray, device_get(in_tree))
    first = group.broadcast(mine, 0)
    pairs = zip(tree.leaves(mine), tree.leaves(first), strict=True)
    same = all(np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in pairs)
    processes = [process for process, equal in enumerate(group.all_gather(same)) if not equal]
    if processes:
        text = f"{fail_message}: " if fail_message else ""
        raise AssertionError(f"{text}processes {processes} have other data than process 0")


def _map(
    function: Callable[[Any, NamedSharding, NamedSharding], Any],
    inputs: Any,
    mesh: Any,
    pspecs: Any,
    argument: str,
) -> Any:
    """Apply a function to each leaf, with its sharding over the mesh and over this part of it."""
    if not isinstance(mesh, Mesh):
        raise ArgumentTypeError.refusing("global_mesh", mesh, "must be a Mesh")
    leaves, structure = tree.flatten(inputs)
    specs = tree.broadcast_prefix(pspecs, inputs, _is_spec, names=("pspecs", argument))
    for spec in specs:
        if not isinstance(spec, PartitionSpec):
            raise ArgumentTypeError(
                f"pspecs has {spec!r}, which is not a PartitionSpec; use P() for data that is not "
                "split",
                argument="pspecs",
                value=spec,
            )
    local = mesh.local_mesh
    return tree.unflatten(
        structure,
        [
            function(leaf, NamedSharding(mesh, spec), NamedSharding(local, spec))
            for leaf, spec in zip(leaves, specs, strict=True)
        ],
    )


def _is_spec(x: Any) -> bool:
    """Test for a spec, or for None in place of one."""
    return x is None or isinstance(x, PartitionSpec)


def _to_global(x: Any, sharding: NamedSharding, local: NamedSharding) -> Array:
    if not isinstance(x, Array):
        array: Array = make_array_from_process_local_data(sharding, x)
        return array
    if not x.is_fully_addressable:
        return x
    mine = device_put(x, local)
    if sharding.is_fully_addressable:
        return mine
    shape = global_shape_of(sharding, x.shape)
    parts = [mine.addressable_data(n) for n in range(len(mine.addressable_shards))]
    return make_array_from_single_device_arrays(shape, sharding, parts)


def _to_local(x: Any, sharding: NamedSharding, local: NamedSharding) -> Array:
    if not isinstance(x, Array):
        raise ArgumentTypeError(
            f"global_inputs has a {type(x).__name__}, which is not a gpushard.Array",
            argument="global_inputs",
            type=type(x),
        )
    if x.is_fully_addressable:
        return x
    if not x.sharding.is_equivalent_to(sharding, x.ndim):
        raise AddressError(
            f"global_inputs has an array in {x.sharding}, which cannot be moved to {sharding} by "
            "one process; give its own spec",
            argument="pspecs",
            sharding=x.sharding,
            expected=sharding,
        )
    shape = tuple(num_addressable_indices(sharding, dim, x.shape) for dim in range(x.ndim))
    parts = [shard.data for shard in x.addressable_shards if shard.data is not None]
    return make_array_from_single_device_arrays(shape, local, parts)


def _gather(x: Any, tiled: bool) -> HostArray:
    if isinstance(x, Array) and not x.is_fully_addressable:
        return _whole(x)
    every = group.all_gather(np.asarray(device_get(x)))
    if tiled:
        return every[0] if len(every) == 1 else np.concatenate([np.atleast_1d(v) for v in every])
    return np.stack(every)


def _whole(x: Array) -> HostArray:
    """Assemble the value of an array of several processes from the shards of each."""
    mine = [(shard.index, np.asarray(shard.data)) for shard in x.addressable_shards]
    result: HostArray = np.empty(x.shape, x.dtype)
    missing = np.ones(x.shape, bool)
    for index, part in (pair for parts in group.all_gather(mine) for pair in parts):
        result[index] = part
        missing[index] = False
    if missing.any():
        raise AddressError(
            f"process_allgather: no process of the {group.count} in the program has "
            f"{int(missing.sum())} of the {x.size} elements of {x.sharding}; start the others",
            argument="in_tree",
            missing=int(missing.sum()),
        )
    return result
