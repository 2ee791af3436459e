"""`device_put_sharded`, `device_put_replicated` and `replicate`; pieces of arguments."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import random, testing
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    NoDeviceError,
    ShardingError,
    TreeError,
)
from gpushard.legacy import (
    PmapSharding,
    Replicated,
    ShardedAxis,
    ShardingSpec,
    Unstacked,
    shard_args,
    shard_aval,
    spec_to_indices,
)
from tests.share import examples


@pytest.fixture(autouse=True)
def devices() -> Iterator[list[gs.Device]]:
    with testing.runtime(host_devices=8, host_domains=4, enable_checks=True) as rt:
        yield list(rt.devices)


def test_shards_are_stacked_where_they_are(devices: list[gs.Device]) -> None:
    values = [{"a": np.full(3, i), "b": (float(i),)} for i in range(5)]
    chosen = devices[5:0:-1]
    x = gs.device_put_sharded(values, chosen)
    assert np.array_equal(x["a"], np.stack([v["a"] for v in values]))  # type: ignore[misc]
    assert x["b"][0].shape == (5,) and x["a"].sharding == PmapSharding.default((5, 3), 0, chosen)
    for i, device in enumerate(chosen):
        assert x["a"][i].devices() == {device}
        assert np.array_equal(x["a"].addressable_shards[i].data, values[i]["a"])
    one = gs.device_put_sharded([np.arange(3)], devices[6:7])
    assert np.array_equal(one, [[0, 1, 2]]) and one.devices() == {devices[6]}
    there = [gs.device_put(np.ones(2) * d.id, d) for d in devices]
    y = gs.device_put_sharded(there, devices)
    pointers = [s.data.unsafe_buffer_pointer() for s in y.addressable_shards]
    assert pointers == [part.unsafe_buffer_pointer() for part in there]


def test_a_value_is_put_on_each_device(devices: list[gs.Device]) -> None:
    x = gs.device_put_replicated({"a": np.arange(3), "b": 2.0}, devices[:4])
    assert np.array_equal(x["a"], np.tile(np.arange(3), (4, 1)))
    assert np.array_equal(x["b"], np.full(4, 2.0))
    assert x["a"].sharding == PmapSharding.default((4, 3), 0, devices[:4])
    x["a"][1] = 7  # blocks that share memory are different ones
    assert np.array_equal(x["a"], [[0, 1, 2], [7, 7, 7], [0, 1, 2], [0, 1, 2]])


def test_keys_are_placed_so_too(devices: list[gs.Device]) -> None:
    keys = random.split(random.key(0), 4)
    x = gs.device_put_sharded(list(keys), devices[:4])
    assert np.array_equal(random.key_data(x), random.key_data(keys))
    y = gs.device_put_replicated(random.key(1), devices[:2])
    assert np.array_equal(random.key_data(y[1]), random.key_data(random.key(1)))


@given(st.integers(1, 4), st.integers(1, 3), st.integers(0, 2), st.data())
@examples(60)
def test_replicas_are_as_defined(axis_size: int, each: int, ndim: int, data: st.DataObject) -> None:
    """Element i of the new dim is on `each` devices, one after the other."""
    nrep = axis_size * each
    if nrep > 8:
        return
    value = np.arange(2**ndim, dtype=np.float32).reshape((2,) * ndim)
    axis = data.draw(st.one_of(st.none(), st.integers(0, ndim)))
    with testing.runtime(host_devices=8, host_domains=2) as rt:
        chosen = data.draw(
            st.one_of(st.none(), st.permutations(rt.devices).map(lambda p: p[:nrep]))
        )
        source = gs.device_put(value, rt.devices[7]) if data.draw(st.booleans()) else value
        x = gs.replicate(source, axis_size, nrep, chosen, in_axis=axis)
        expected = value if axis is None else np.stack([value] * axis_size, axis)
        assert np.array_equal(x, expected) and x.dtype == value.dtype
        assert isinstance(x.sharding, PmapSharding)
        for position, shard in enumerate(x.addressable_shards):
            assert shard.device is (chosen or rt.devices)[position]
            assert np.array_equal(shard.data, value) and shard.data.shape == value.shape
            if axis is not None:
                assert shard.index[axis] == position // each


def test_bad_calls_are_refused(devices: list[gs.Device]) -> None:
    rows: list[tuple[Any, type[Exception], str]] = [
        (lambda: gs.device_put_sharded([1, 2], devices[:3]), ArgumentError, "2 shards for 3"),
        (lambda: gs.device_put_sharded([], []), ArgumentError, "one or more"),
        (lambda: gs.device_put_sharded(np.ones(2), devices[:2]), ArgumentTypeError, "a list"),
        (lambda: gs.device_put_sharded([1, 2.0], devices[:2]), ArgumentTypeError, "float64"),
        (lambda: gs.device_put_sharded([[1], (1,)], devices[:2]), TreeError, r"shards\[1\]"),
        (
            lambda: gs.device_put_sharded([np.ones(2), np.ones(3)], devices[:2]),
            ShardingError,
            r"\(3,\), and shards\[0\] \(2,\)",
        ),
        (lambda: gs.device_put_replicated(1.0, []), ArgumentError, "one or more"),
        (lambda: gs.device_put_replicated(1.0, ["x"]), ArgumentTypeError, "'x'"),
        (lambda: gs.device_put_replicated(1.0, 3), ArgumentTypeError, "devices=3"),
        (lambda: gs.replicate(1.0, 2, 0), ArgumentError, "devices is empty"),
        (lambda: gs.replicate(1.0, 0, 2), ShardingError, "axis_size=0 must be positive"),
        (lambda: gs.replicate(1.0, "a", 2), ArgumentTypeError, "axis_size='a'"),
        (lambda: PmapSharding.default(3), ArgumentTypeError, "shape=3"),
        (lambda: PmapSharding.default((3,), "x"), ArgumentError, "sharded_dim='x'"),
        (lambda: gs.replicate(1.0, 9, 9), NoDeviceError, "nrep=9 .* there are 8"),
        (lambda: gs.replicate(1.0, 3, 3, devices[:2]), NoDeviceError, "needs 3 .* 2: "),
        (lambda: gs.replicate(1.0, 2, 2, devices[:3]), ArgumentError, "2 differs .* 3"),
        (lambda: gs.replicate(1.0, 3, 4), ShardingError, "multiple of axis_size=3"),
        (lambda: gs.replicate(1.0, 4, 4, in_axis=1), ShardingError, "map_axis=1"),
        (lambda: gs.replicate(1.0, 2, 2, backend="tpu"), NoDeviceError, "tpu"),
    ]
    for call, kind, words in rows:
        before = len(gs.live_arrays())
        with pytest.raises(kind, match=words):
            call()
        assert len(gs.live_arrays()) == before


def test_pieces_of_arguments(devices: list[gs.Device]) -> None:
    spec = ShardingSpec([Unstacked(4), None], [Replicated(2), ShardedAxis(0)])
    value = np.arange(8.0).reshape(4, 2)
    indices = spec_to_indices((4, 2), spec)
    x = gs.device_put(value, PmapSharding(devices, spec))
    far = gs.device_put(value, PmapSharding.default((4, 2), devices=devices[4:]))
    other = gs.device_put(value, devices[3])
    pieces = shard_args(devices, [indices] * 4, [x, far, other, value])
    assert len(pieces) == 8
    for r, (device, row) in enumerate(zip(devices, pieces, strict=True)):
        for piece in row:
            assert piece.devices() == {device} and np.array_equal(piece, value[indices[r]])
        there = x.addressable_shards[r].data
        assert there is not None
        assert row[0].unsafe_buffer_pointer() == there.unsafe_buffer_pointer()
    assert pieces[6][1].unsafe_buffer_pointer() == far.addressable_data(2).unsafe_buffer_pointer()
    halves = gs.device_put(value, gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x")))
    written = [(slice(0, -2), slice(2)), (slice(-2, None), slice(0, 9))]  # as no shard has it
    for row, shard in zip(
        shard_args(devices[:2], [written], [halves]), halves.addressable_shards, strict=True
    ):
        assert row[0].unsafe_buffer_pointer() == shard.data.unsafe_buffer_pointer()
    whole = shard_args(devices[:2], [[slice(None), ...]], [3 * np.ones(2)])
    assert all(np.array_equal(row[0], [3.0, 3.0]) for row in whole)
    with pytest.raises(ArgumentError, match=r"lengths \[1\]"):
        shard_args(devices[:2], [[0]], [value])
    with pytest.raises(ArgumentTypeError, match=r"args\[0\] holds a str"):
        shard_args(devices[:1], [[0]], ["abc"])


def test_the_aval_of_an_element() -> None:
    aval = gs.ShapeDtypeStruct((4, 3), np.float32)
    assert shard_aval(3, 1, aval) == gs.ShapeDtypeStruct((4,), np.float32)
    with pytest.raises(ArgumentError, match="size=3 does not match axis 0"):
        shard_aval(3, 0, aval)
    for axis in (2, -1):
        with pytest.raises(ArgumentError, match=f"axis={axis} is no axis of a value of shape"):
            shard_aval(3, axis, aval)
    with pytest.raises(ArgumentTypeError, match="nothing else"):
        shard_aval(3, 0, np.ones(3))  # type: ignore[arg-type]


def test_pieces_by_indices_with_an_ellipsis_or_new_dims() -> None:
    devices = gs.devices()[:3]
    value = np.arange(12.0).reshape(3, 4)
    x = gs.device_put(value, gs.devices()[0])
    indices = [(..., slice(0, 2)), (None, 1), (1, ...)]
    made = shard_args(devices, [indices], [x])
    for (piece,), index, device in zip(made, indices, devices, strict=True):
        assert np.array_equal(piece, value[index]) and piece.devices() == {device}
