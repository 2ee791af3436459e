"""Which differential test holds each name that docs/coming-from-jax.md calls the same.

Of placement, meshes, shardings, pytrees, types and settings: a name that is the same must be called
by a test in `tests/oracle`, and a test that is listed here must be there and use the name.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.test_coming_from_jax import sections

ORACLE = Path(__file__).parent / "oracle"

MESHES = "test_meshes_vs_jax"
STRUCTS = "test_structs_vs_jax"
TREES = "test_tree_vs_jax"
CONFIG = "test_config_vs_jax"

PLACES = "test_places_vs_jax"
KEYS = "test_keys_vs_jax"

OTHERS = {
    *("clear_caches", "eval_shape", "jit", "lax", "named_scope", "nn", "numpy", "pmap", "random"),
    *("shard_map", "sharding", "tree", "tree_util"),
}
"""Names of `jax` that are of other areas, or have tables of their own."""

HELD: dict[str, dict[str, str]] = {
    "": {
        "Shard": PLACES,
        "block_until_ready": PLACES,
        "device_count": PLACES,
        "device_get": PLACES,
        "devices": PLACES,
        "disable_jit": CONFIG,
        "effects_barrier": KEYS,
        "local_device_count": PLACES,
        "make_array_from_process_local_data": STRUCTS,
        "make_array_from_single_device_arrays": PLACES,
        "make_mesh": MESHES,
        "set_mesh": PLACES,
        "typeof": PLACES,
    },
    "sharding": dict.fromkeys(("Sharding", "SingleDeviceSharding", "get_mesh", "set_mesh"), PLACES),
    "tree": dict.fromkeys(
        (
            *("all", "broadcast", "flatten", "flatten_with_path", "leaves", "leaves_with_path"),
            *("map", "map_with_path", "reduce", "reduce_associative", "static", "structure"),
            *("transpose", "unflatten"),
        ),
        TREES,
    ),
    "tree_util": dict.fromkeys(
        (
            *("DictKey", "FlattenedIndexKey", "GetAttrKey", "KeyEntry", "KeyPath", "PyTreeDef"),
            *("SequenceKey", "all_leaves", "keystr", "register_pytree_node_class"),
            *("register_pytree_with_keys", "register_static", "tree_all", "tree_broadcast"),
            *("tree_flatten", "tree_flatten_with_path", "tree_leaves", "tree_leaves_with_path"),
            *("tree_map", "tree_map_with_path", "tree_reduce", "tree_reduce_associative"),
            *("tree_structure", "tree_transpose", "tree_unflatten", "treedef_children"),
            *("treedef_is_leaf", "treedef_tuple"),
        ),
        PLACES,
    )
    | dict.fromkeys(
        (
            *("Partial", "flatten_one_level", "flatten_one_level_with_keys", "is_tree_node"),
            *("register_dataclass", "register_pytree_node", "register_pytree_with_keys_class"),
        ),
        TREES,
    ),
}


@pytest.mark.parametrize("module", HELD)
def test_each_name_that_is_the_same_has_a_differential_test(module: str) -> None:
    same = {name for name, how, _ in sections()[module] if how == "same"}
    assert same - (OTHERS if not module else set()) == set(HELD[module])


@pytest.mark.parametrize("module", HELD)
def test_these_tests_use_the_names(module: str) -> None:
    for name, test in HELD[module].items():
        text = (ORACLE / f"{test}.py").read_text(encoding="utf-8")
        assert re.search(rf"\b{name}\b", text), (name, test)
