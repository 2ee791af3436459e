"""`ShardingSpec` and what is made of it, against its definition worked out device by device."""

import itertools
import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard import ShapeDtypeStruct
from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._geometry.older.pmap_gspmd_sharding import GSPMDSharding, PmapSharding
from gpushard._geometry.older.sharding_spec import (
    Chunked,
    NoSharding,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
    mesh_sharding_specs,
    partitioned_sharding_spec,
    pmap_sharding_spec,
    spec_to_indices,
    tile_aval_nd,
    untile_aval_nd,
)
from gpushard._geometry.partition_spec import P
from gpushard.errors import ArgumentTypeError, ImmutableError, ShardingError, UnstackedError
from tests.share import examples

Shape = tuple[int, ...]


@st.composite
def specs(draw: st.DrawFn, unstacked: bool = True) -> tuple[ShardingSpec, Shape]:
    """A spec of at most 64 devices, and a shape that it divides."""
    sharding: list[Any] = []
    cuts: list[int] = []
    shape = []
    for _ in range(draw(st.integers(0, 4))):
        kind = draw(st.sampled_from(["none", "chunked", "unstacked" if unstacked else "none"]))
        if kind == "none":
            sharding.append(draw(st.sampled_from([None, NoSharding()])))
            shape.append(draw(st.integers(0, 5)))
        elif kind == "unstacked":
            size = draw(st.integers(1, 4))
            sharding.append(Unstacked(size))
            cuts.append(size)
            shape.append(size)
        else:
            chunks = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
            sharding.append(Chunked(chunks))
            cuts.extend(chunks)
            shape.append(math.prod(chunks) * draw(st.integers(0, 3)))
    axes: list[Any] = [ShardedAxis(i) for i in range(len(cuts))]
    axes += [Replicated(n) for n in draw(st.lists(st.integers(1, 3), max_size=2))]
    return ShardingSpec(sharding, draw(st.permutations(axes))), tuple(shape)


def pieces_by_definition(spec: ShardingSpec, shape: Shape) -> list[list[tuple[int, ...]]]:
    """For every device, its elements' positions in each dim.

    A device is a point of the grid. Along an axis of `ShardedAxis(i)` its coordinate is the digit
    of cut i; the digits of a dim's cuts, the first the most significant, number its piece.
    """
    owners = [
        (dim, n)
        for dim, entry in enumerate(spec.sharding)
        for n in (entry.chunks if isinstance(entry, Chunked) else [entry.size] if entry else [])
    ]
    sizes = [
        owners[a.axis][1] if isinstance(a, ShardedAxis) else a.replicas for a in spec.mesh_mapping
    ]
    found = []
    for point in itertools.product(*map(range, sizes)):
        digit = {
            a.axis: x
            for a, x in zip(spec.mesh_mapping, point, strict=True)
            if isinstance(a, ShardedAxis)
        }
        per_dim = []
        for dim, n in enumerate(shape):
            positions = list(range(n))
            for cut, (owner, pieces) in enumerate(owners):
                if owner == dim:
                    length = len(positions) // pieces
                    positions = positions[digit[cut] * length : (digit[cut] + 1) * length]
            per_dim.append(tuple(positions))
        found.append(per_dim)
    return found


def selected(index: tuple[Any, ...], shape: Shape) -> list[tuple[int, ...]]:
    return [
        (part,) if isinstance(part, int) else tuple(range(n)[part])
        for part, n in zip(index, shape, strict=True)
    ]


@given(specs())
@examples(300)
def test_indices_are_as_defined(case: tuple[ShardingSpec, Shape]) -> None:
    spec, shape = case
    indices = spec.indices(shape)
    assert indices.shape == spec.mesh_shape
    flat = spec_to_indices(shape, spec)
    assert [selected(i, shape) for i in flat] == pieces_by_definition(spec, shape)
    for index in flat:
        for part, entry in zip(index, spec.sharding, strict=True):
            assert isinstance(part, int) == isinstance(entry, Unstacked)
            assert entry is not None or part == slice(None)


@given(specs())
@examples(200)
def test_a_pmap_sharding_gives_devices_what_its_spec_says(case: tuple[ShardingSpec, Shape]) -> None:
    spec, shape = case
    devices = [f"d{i}" for i in range(math.prod(spec.mesh_shape))]
    sharding = PmapSharding(devices, spec)
    indices = sharding.devices_indices_map(shape)
    assert list(indices) == devices
    expected = pieces_by_definition(spec, shape)
    value = np.arange(math.prod(shape)).reshape(shape)
    for device, per_dim in zip(devices, expected, strict=True):
        assert selected(indices[device], shape) == per_dim
        assert value[indices[device]].shape == sharding.shard_shape(shape)
    tiling = sharding.tiling(shape)
    assert (
        sharding.is_fully_replicated
        == all(
            i == tuple([slice(None)] * len(shape))
            or selected(i, shape) == [tuple(range(n)) for n in shape]
            for i in indices.values()
        )
        or not math.prod(shape)
        or 1 in shape
    )
    assert tiling.devices == tuple(devices)
    again = pickle.loads(pickle.dumps(sharding))
    assert again == sharding and hash(again) == hash(sharding)
    assert sharding.is_equivalent_to(again, len(shape))
    assert repr(spec) in repr(sharding)
    assert "memory_kind" not in repr(sharding)
    assert "memory_kind='pinned_host'" in repr(sharding.with_memory_kind("pinned_host"))


@given(specs(unstacked=False))
@examples(200)
def test_xla_has_the_same_layout(case: tuple[ShardingSpec, Shape]) -> None:
    spec, shape = case
    proto = spec.sharding_proto()
    devices = [f"d{i}" for i in range(math.prod(spec.mesh_shape))]
    theirs = GSPMDSharding(devices, proto).devices_indices_map(shape)
    expected = pieces_by_definition(spec, shape)
    assert [selected(theirs[d], shape) for d in devices] == expected
    assert OpSharding.from_string(str(proto)) == proto
    if proto.type is not OpSharding.Type.REPLICATED:
        back = ShardingSpec.from_sharding_proto(proto, len(shape))
        assert pieces_by_definition(back, shape) == expected
        assert GSPMDSharding(devices, back.sharding_proto()) == GSPMDSharding(devices, proto)


def test_replicas_are_where_they_stand() -> None:
    value = np.array([1, 2, 3, 4])
    inner = ShardingSpec([Chunked(4)], [ShardedAxis(0), Replicated(2)])
    outer = ShardingSpec([Chunked(4)], [Replicated(2), ShardedAxis(0)])
    assert [value[i].tolist() for i in spec_to_indices((4,), inner)] == [
        [n] for n in [1, 1, 2, 2, 3, 3, 4, 4]
    ]
    assert [value[i].tolist() for i in spec_to_indices((4,), outer)] == [
        [n] for n in [1, 2, 3, 4] * 2
    ]
    assert inner.sharding_proto() == OpSharding(OpSharding.Type.OTHER, (4, 2), range(8), True)
    assert outer.sharding_proto().tile_assignment_devices == (0, 4, 1, 5, 2, 6, 3, 7)


def test_a_spec_without_cuts_is_replicated() -> None:
    for mapping in ([], [Replicated(3)]):
        assert ShardingSpec([None, None], mapping).sharding_proto() == OpSharding()
    assert ShardingSpec([Chunked(())], []).indices((5,)).item() == (slice(0, 5),)


def test_an_unstacked_dim_has_no_proto() -> None:
    with pytest.raises(UnstackedError) as error:
        ShardingSpec([Unstacked(2)], [ShardedAxis(0)]).sharding_proto()
    assert isinstance(error.value, RuntimeError) and error.value.dims == (0,)


def test_chunks_cannot_be_changed() -> None:
    chunked = Chunked(2)
    with pytest.raises(ImmutableError, match="make another"):
        chunked.chunks = (3,)
    with pytest.raises(ImmutableError, match="make another"):
        del chunked.chunks
    assert chunked == Chunked((2,)) and hash(chunked) == hash(Chunked([2]))
    assert pickle.loads(pickle.dumps(chunked)) == chunked


def test_specs_are_keys_and_entries_have_texts() -> None:
    specs = {
        ShardingSpec([Chunked((2,)), NoSharding()], [ShardedAxis(0)]): "chunked",
        ShardingSpec([Unstacked(2), None], [ShardedAxis(0)]): "unstacked",
    }
    assert specs[ShardingSpec((Chunked((2,)), None), (ShardedAxis(0),))] == "chunked"
    assert specs[ShardingSpec([Unstacked(2), None], [ShardedAxis(0)])] == "unstacked"
    assert len({hash(spec) for spec in specs}) == 2
    assert repr(NoSharding()) == "NoSharding()"


def test_the_spec_of_a_replicated_proto_cuts_nothing() -> None:
    for ndim in (0, 1, 3):
        spec = ShardingSpec.from_sharding_proto(OpSharding.from_string("{replicated}"), ndim)
        assert spec == ShardingSpec((None,) * ndim, ())


def test_entries_are_equal_to_their_own_kind_alone() -> None:
    values: list[Any] = [Chunked(2), Unstacked(2), ShardedAxis(2), Replicated(2), (2,), 2]
    values += [
        NoSharding(),
        *(ShardingSpec([None], [Replicated(n)]) for n in (1, 2)),
        "no sharding",
    ]
    for a, b in itertools.combinations(values, 2):
        assert a != b and b != a

    class Own(Chunked):
        pass

    assert Chunked(2) != Own(2)
    assert NoSharding() == NoSharding() and ShardingSpec([NoSharding()], []).sharding == (
        NoSharding(),
    )


@pytest.mark.parametrize(
    ("sharding", "mapping"),
    [
        ([Chunked(2)], []),
        ([Chunked(2)], [ShardedAxis(0), ShardedAxis(0)]),
        ([Chunked(2)], [ShardedAxis(1)]),
        ([None], [ShardedAxis(0)]),
        ([Chunked((2, 2))], [ShardedAxis(0)]),
    ],
)
def test_every_cut_is_on_one_axis(sharding: Any, mapping: Any) -> None:
    with pytest.raises(ShardingError, match="mesh_mapping"):
        ShardingSpec(sharding, mapping)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Chunked("a"),
        lambda: ShardingSpec([2], []),
        lambda: ShardingSpec([], [2]),
        lambda: ShardingSpec([Unstacked(1.5)], [ShardedAxis(0)]),
    ],
)
def test_entries_of_other_types_are_refused(make: Any) -> None:
    with pytest.raises(ArgumentTypeError):
        make()


@pytest.mark.parametrize(
    ("shape", "words"),
    [((4,), "ndim=1"), ((3, 4), r"Unstacked\(2\)"), ((2, 3), "do not divide")],
)
def test_shapes_that_do_not_fit_are_refused(shape: Shape, words: str) -> None:
    spec = ShardingSpec([Unstacked(2), Chunked(2)], [ShardedAxis(0), ShardedAxis(1)])
    for call in (
        spec.indices,
        lambda s: spec_to_indices(s, spec),
        PmapSharding(list("abcd"), spec).tiling,
    ):
        with pytest.raises(ShardingError, match=words):
            call(shape)


@given(st.data())
@examples(100)
def test_specs_over_a_mesh_are_those_of_named_shardings(data: st.DataObject) -> None:
    sizes = tuple(data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3)))
    names = tuple("xyz"[: len(sizes)])
    axis_sizes = dict(zip(names, sizes, strict=True))
    ndim = data.draw(st.integers(1, 3))
    order = data.draw(st.permutations(names))
    mapping = {a: data.draw(st.integers(0, ndim - 1)) for a in order if data.draw(st.booleans())}
    shape = [data.draw(st.integers(0, 2)) for _ in range(ndim)]
    entries: list[list[str]] = [[] for _ in range(ndim)]
    for name, dim in mapping.items():
        shape[dim] *= axis_sizes[name]
        entries[dim].append(name)
    aval = ShapeDtypeStruct(tuple(shape), np.float32)
    spec = mesh_sharding_specs(axis_sizes, names)(aval, mapping)
    devices = np.array([f"d{i}" for i in range(math.prod(sizes))], object)
    named = NamedSharding(Mesh(devices.reshape(sizes), names), P(*map(tuple, entries)))
    for device, index in zip(devices, spec_to_indices(shape, spec), strict=True):
        theirs = named.devices_indices_map(tuple(shape))[device]
        assert selected(index, aval.shape) == selected(theirs, aval.shape)
    tile = tile_aval_nd(axis_sizes, mapping, aval)
    assert (tile.shape, tile.dtype) == (named.shard_shape(aval.shape), aval.dtype)
    assert untile_aval_nd(axis_sizes, mapping, tile) == aval


def test_axes_that_do_not_fit_a_value_are_refused() -> None:
    aval = ShapeDtypeStruct((3, 4), np.float32)
    for mapping, words in (({"x": 0}, "does not divide"), ({"z": 0}, "'z'"), ({"x": 2}, "ndim=2")):
        for call in (
            lambda m: tile_aval_nd({"x": 2, "y": 2}, m, aval),
            lambda m: mesh_sharding_specs({"x": 2, "y": 2}, "xy")(aval, m),
        ):
            with pytest.raises(ShardingError, match=words):
                call(mapping)


@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 4), st.booleans(), st.data())
@examples(100)
def test_the_spec_of_a_pmap_puts_its_dim_where_it_is_mapped(
    ndim: int, inner: int, axis_size: int, partitioned: bool, data: st.DataObject
) -> None:
    parts = [data.draw(st.integers(1, 2)) for _ in range(ndim)] if partitioned else None
    npart = math.prod(parts or [1])
    shape = tuple(2 * data.draw(st.integers(0, 2)) for _ in range(ndim))
    aval = ShapeDtypeStruct(shape, np.float32)
    axis = data.draw(st.one_of(st.none(), st.integers(0, ndim)))
    spec = pmap_sharding_spec(axis_size * inner, axis_size, npart, parts, aval, axis)
    one = pieces_by_definition(partitioned_sharding_spec(npart, parts, aval), shape)
    whole = shape if axis is None else (*shape[:axis], axis_size, *shape[axis:])
    expected = [
        own if axis is None else [*own[:axis], (i,), *own[axis:]]
        for i in range(axis_size)
        for _ in range(inner)
        for own in one
    ]
    assert pieces_by_definition(spec, whole) == expected


def test_replicas_and_partitions_that_do_not_fit_are_refused() -> None:
    aval = ShapeDtypeStruct((4,), np.float32)
    with pytest.raises(ShardingError, match="multiple of axis_size=3"):
        pmap_sharding_spec(4, 3, 1, None, aval, 0)
    with pytest.raises(
        ShardingError, match="map_axis=2 is no axis of a value with ndim=2"
    ) as caught:
        pmap_sharding_spec(4, 4, 1, None, aval, 2)
    assert (caught.value.map_axis, caught.value.ndim) == (2, 2)
    for parts in ((2, 2), (3,)):
        with pytest.raises(ShardingError, match="num_partitions=4"):
            partitioned_sharding_spec(4, parts, aval)


def test_equality_is_by_layout() -> None:
    devices = list("abcdefgh")
    spelled = [
        OpSharding(),
        OpSharding(OpSharding.Type.OTHER, (1, 1, 8), range(8), True),
        "{devices=[1,8]0,1,2,3,4,5,6,7 last_tile_dims={replicated}}",
    ]
    assert len({GSPMDSharding(devices, op) for op in spelled}) == 1
    assert GSPMDSharding.get_replicated(devices) == GSPMDSharding(devices, OpSharding())
    swapped = GSPMDSharding(devices, "{devices=[4,2]1,0,2,3,4,5,6,7 last_tile_dim_replicate}")
    assert swapped == GSPMDSharding(devices, "{devices=[4,2]<=[8] last_tile_dim_replicate}")
    assert swapped != GSPMDSharding(devices, "{devices=[4,2]<=[2,4]T(1,0) last_tile_dim_replicate}")
    named = NamedSharding(Mesh(np.array(devices, object).reshape(4, 2), ("x", "y")), P("x"))
    assert swapped.is_equivalent_to(named, 1) and named.is_equivalent_to(swapped, 1)
    unstacked = PmapSharding.default((8, 2), devices=devices)
    chunked = PmapSharding(devices, ShardingSpec([Chunked(8), None], [ShardedAxis(0)]))
    assert unstacked != chunked and not unstacked.is_equivalent_to(chunked, 2)
    with pytest.raises(ShardingError, match="is for arrays with ndim=2, and this array has ndim=3"):
        unstacked.is_equivalent_to(chunked, 3)


def test_all_on_one_device() -> None:
    sharding = GSPMDSharding(list("abc"), "{maximal device=1}")
    assert sharding.device_set == {"b"} and sharding.is_fully_replicated
    assert sharding.devices_indices_map((3,)) == {"b": (slice(None),)}
    assert pickle.loads(pickle.dumps(sharding)) == sharding
    assert sharding.devices.tolist() == list("abc")
    with pytest.raises(ShardingError, match="device 3"):
        GSPMDSharding(list("abc"), "{maximal device=3}")


def test_uneven_tiles_are_ceilings() -> None:
    sharding = GSPMDSharding(list("abcd"), "{devices=[4]<=[4]}")
    assert [s.stop - s.start for (s,) in sharding.devices_indices_map((10,)).values()] == [
        3,
        3,
        3,
        1,
    ]


@pytest.mark.parametrize(
    "text",
    ["{manual}", "{unknown}", "{{replicated}}", "{devices=[2,2]<=[4] last_tile_dims={manual}}"],
)
def test_what_says_nothing_of_arrays_is_no_sharding(text: str) -> None:
    with pytest.raises(ShardingError, match="does not say"):
        GSPMDSharding(list("abcd"), text)


def test_devices_that_do_not_fit_are_refused() -> None:
    spec = ShardingSpec([Chunked(2)], [ShardedAxis(0)])
    for devices, words in ((["a"], "2 devices, got 1"), (["a", "a"], "more than once")):
        with pytest.raises(ShardingError, match=words):
            PmapSharding(devices, spec)
        with pytest.raises(ShardingError, match=words):
            GSPMDSharding(devices, spec.sharding_proto())
    with pytest.raises(ShardingError, match="is for arrays with ndim=1"):
        GSPMDSharding(["a", "b"], spec.sharding_proto()).tiling((2, 2))


def test_the_device_that_is_there_twice_is_named() -> None:
    with pytest.raises(ShardingError, match="devices hold 'a' more than once"):
        GSPMDSharding(["b", "a", "a"], "{replicated}")


def test_only_what_keeps_all_dims_whole_is_fully_replicated() -> None:
    for sharding, mapping, replicated in (
        ([None, NoSharding()], [Replicated(2)], True),
        ([Chunked(1), None], [ShardedAxis(0), Replicated(2)], True),
        ([Chunked(2), None], [ShardedAxis(0)], False),
        ([None, Chunked(2)], [ShardedAxis(0)], False),
        ([Unstacked(2), None], [ShardedAxis(0)], False),
        ([Unstacked(1), None], [ShardedAxis(0), Replicated(2)], False),
    ):
        spec = ShardingSpec(sharding, mapping)  # type: ignore[arg-type]
        assert PmapSharding(["a", "b"], spec).is_fully_replicated == replicated


def test_orders_of_no_grid_have_no_spec() -> None:
    for text, words in (
        ("{devices=[4]0,1,3,2}", "no grid"),
        ("{devices=[3,2]<=[3,2]T(1,0)}", "axes of the grid"),
        ("{maximal device=0}", "one device"),
        ("{devices=[2,2]<=[4]}", "is for arrays with ndim=2"),
    ):
        ndim = 2 if "[3,2]" in text else 1
        with pytest.raises(ShardingError, match=words):
            ShardingSpec.from_sharding_proto(OpSharding.from_string(text), ndim)
