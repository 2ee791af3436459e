"""Devices, shards, set meshes and the small functions of trees, against JAX's."""

from types import ModuleType
from typing import Any

import numpy as np

import gpushard as gs
from gpushard.testing import runtime


def places(module: Any) -> list[Any]:
    """Return what there is, and where arrays are."""
    mesh = module.make_mesh((4,), ("x",))
    sharding = module.NamedSharding(mesh, module.P("x"))
    single = module.sharding.SingleDeviceSharding(module.devices()[2])
    parts = [module.device_put(np.full(2, d.id, np.int32), d) for d in module.devices()[:4]]
    x = module.make_array_from_single_device_arrays((8,), sharding, parts)
    shard = x.addressable_shards[1]
    log: list[Any] = [
        (module.device_count(), module.local_device_count(), len(module.devices("cpu"))),
        [device.id for device in module.devices()],
        isinstance(shard, module.Shard),
        (shard.device.id, shard.index, shard.replica_id, shard.data.tolist()),
        module.device_get({"a": x, "b": 3})["a"].tolist(),
        module.block_until_ready([x, 1])[0] is x,
        module.typeof(x).shape,
        [isinstance(s, module.sharding.Sharding) for s in (sharding, single, mesh)],
        sorted(device.id for device in single.device_set),
        (single.is_fully_replicated, single.shard_shape((3, 2)), single.num_devices),
    ]
    with module.set_mesh(mesh):
        log.append(module.sharding.get_mesh() == mesh)
        with module.sharding.set_mesh(module.make_mesh((2,), ("y",))):
            log.append(module.sharding.get_mesh().axis_names)
        log.append(module.sharding.get_mesh().axis_names)
    return log


def test_places(jax: ModuleType) -> None:
    with runtime():
        assert places(gs) == places(jax)


def small(util: Any) -> list[Any]:
    class Static:
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Static)

        def __hash__(self) -> int:
            return 0

    class Pair:
        def __init__(self, *parts: Any) -> None:
            self.parts = parts

        def tree_flatten(self) -> Any:
            return self.parts, "aux"

        @classmethod
        def tree_unflatten(cls, aux: Any, parts: Any) -> Any:
            return cls(*parts)

    class Keyed(Pair):
        pass

    util.register_static(Static)
    util.register_pytree_node_class(Pair)
    util.register_pytree_with_keys(
        Keyed,
        lambda x: ([(util.DictKey(i), p) for i, p in enumerate(x.parts)], None),
        lambda aux, parts: Keyed(*parts),
    )
    value = [Pair(1, (2, Static())), Keyed(3), {"a": None}]
    structure = util.tree_structure(value)
    both = util.treedef_tuple([structure, util.tree_structure(0)])
    path = (util.SequenceKey(1), util.DictKey("a"), util.GetAttrKey("b"), util.FlattenedIndexKey(2))
    return [
        util.tree_leaves(value),
        [util.keystr(p) for p, _ in util.tree_leaves_with_path(value)],
        [t.num_leaves for t in util.treedef_children(structure)],
        [util.treedef_is_leaf(t) for t in util.treedef_children(both)],
        both == util.tree_structure((value, 0)),
        isinstance(structure, util.PyTreeDef),
        (util.keystr(path), util.keystr(path, simple=True, separator="/")),
        path == (util.SequenceKey(1), util.DictKey("a"), *path[2:]),
        (path[0].idx, path[1].key, path[2].name, path[3].key),
        hash(util.KeyPath) != 0 and hash(util.KeyEntry) != 0,
        util.all_leaves([1, 2]),
        util.tree_all([True, 0]),
        util.tree_map(lambda x: -x, value)[0].parts[0],
        util.tree_map_with_path(lambda p, x: (len(p), x), (1, [2])),
        util.tree_flatten((1, [2]))[0],
        util.tree_flatten_with_path((1, [2]))[0][1][1],
        util.tree_unflatten(util.tree_structure((0, [0])), [5, 6]),
        util.tree_reduce(lambda a, b: a - b, (1, [2])),
        util.tree_reduce_associative(max, (1, [2])),
        util.tree_broadcast((1, 2), (0, [0, 0])),
        util.tree_transpose(util.tree_structure([0, 0]), None, [{"a": 1}, {"a": 2}]),
    ]


def test_functions_of_trees(jax: ModuleType) -> None:
    assert small(gs.tree_util) == small(jax.tree_util)
