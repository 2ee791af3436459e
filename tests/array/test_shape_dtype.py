"""`ShapeDtypeStruct`: what is known of an array without its data."""

import pickle
import types
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentTypeError, ImmutableError, ShardingError


def rows() -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))


def test_sizes() -> None:
    for shape in ((8, 3), (5,), (0, 2, 4)):
        struct, like = gs.ShapeDtypeStruct(shape, "f4"), np.zeros(shape, "f4")
        assert (struct.shape, struct.ndim, struct.size) == (shape, like.ndim, like.size)
        assert len(struct) == len(like)
    with pytest.raises(ArgumentTypeError, match=r"len\(\) of an array without axes"):
        len(gs.ShapeDtypeStruct((), "f4"))


def test_the_format_is_row_major_where_there_is_a_place() -> None:
    assert gs.ShapeDtypeStruct((8, 3), "f4").format == gs.Format(None, None)
    struct = gs.ShapeDtypeStruct((8, 3), "f4", sharding=rows())
    assert struct.format == gs.Format(gs.Layout((0, 1)), rows())
    assert gs.ShapeDtypeStruct((8, 3), "f4", sharding=struct.format) == struct
    columns = gs.Format(gs.Layout((1, 0)), rows())
    with pytest.raises(ValueError, match="major"):
        gs.ShapeDtypeStruct((8, 3), "f4", sharding=columns)


def test_a_spec_means_the_mesh_that_is_set() -> None:
    struct = gs.ShapeDtypeStruct((8,), "f4", sharding=gs.P("x"))
    for size in (2, 4):
        mesh = gs.make_mesh((size,), "x")
        with mesh:
            assert struct.sharding == gs.NamedSharding(mesh, gs.P("x"))
    with pytest.raises(ShardingError, match="has 2 entries for the shape") as caught:
        gs.ShapeDtypeStruct((8,), "f4", sharding=gs.P("x", None))
    assert caught.value.argument == "sharding"
    assert gs.ShapeDtypeStruct((8, 3), "f4", sharding=gs.P("x", None)).shape == (8, 3)


STRUCTS: list[dict[str, Any]] = [
    {},
    {"shape": (3, 8)},
    {"dtype": "f8"},
    {"sharding": gs.P("x")},
    {"weak_type": True},
]


def test_structs_with_the_same_fields_are_one_key() -> None:
    plain = gs.ShapeDtypeStruct((8, 3), "f4")
    structs = [plain.update(**changes) for changes in STRUCTS]
    again = [gs.ShapeDtypeStruct(**{"shape": (8, 3), "dtype": "f4"} | each) for each in STRUCTS]
    for one, twin in zip(structs, again, strict=True):
        assert [one == other for other in again] == [other is twin for other in again]
        assert hash(one) == hash(twin) == hash(pickle.loads(pickle.dumps(one)))
        assert pickle.loads(pickle.dumps(one)) == one
    assert len({hash(each) for each in structs}) == len(structs)
    assert plain != "a text"
    assert repr(structs[4]) == "ShapeDtypeStruct(shape=(8, 3), dtype=float32, weak_type=True)"


def test_what_it_refuses() -> None:
    struct = gs.ShapeDtypeStruct((8, 3), "f4")
    with pytest.raises(ImmutableError, match=r"use update\(shape=\.\.\.\)") as frozen:
        struct.shape = (2,)
    assert frozen.value.argument == "shape" and struct.shape == (8, 3)
    with pytest.raises(ArgumentTypeError, match="no field 'place'; use one of shape, dt") as field:
        struct.update(place=None)
    assert field.value.argument == "place"
    for thing in ([1, 2], types.SimpleNamespace(shape=(2,)), types.SimpleNamespace(dtype="f4")):
        with pytest.raises(ArgumentTypeError, match="must be an array or a number"):
            gs.ShapeDtypeStruct.like(thing)
