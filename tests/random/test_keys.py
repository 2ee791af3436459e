"""Keys and arrays of them."""

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard._ops.prng.threefry import threefry
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    ArrayIndexError,
    ExportError,
    GpushardError,
    ShardingError,
)
from gpushard.testing import runtime
from tests import right_calls
from tests.right_calls import attempt, functions, special


@pytest.fixture(autouse=True, scope="module")
def six() -> Iterator[None]:
    with runtime(host_devices=6, enable_checks=True):
        yield


def same(ours: random.KeyArray, theirs: random.KeyArray) -> None:
    np.testing.assert_array_equal(random.key_data(ours), random.key_data(theirs))


def test_the_known_answers_of_threefry() -> None:
    """Those of Random123 for 20 rounds: key and counter of zeros, of ones, and of digits of pi."""
    for key, counter, wanted in (
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF,) * 2, (0xFFFFFFFF,) * 2, (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ):
        words = [np.full(1, word, np.uint32) for word in (*key, *counter)]
        made = threefry(np, (words[0], words[1]), words[2], words[3])
        assert tuple(int(word[0]) for word in made) == wanted


def test_an_array_of_keys() -> None:
    keys = random.split(random.key(3), (4, 3))
    data = np.asarray(random.key_data(keys))
    assert (keys.shape, keys.ndim, keys.size, len(keys)) == ((4, 3), 2, 12, 4)
    assert repr(keys.dtype) == "key<fry>" and "key<fry>" in repr(keys)
    assert keys.dtype == random.key(0).dtype and len({keys.dtype, random.key(0).dtype}) == 1
    for index in (1, -1, (2, 0), slice(1, None, 2), (..., 1), (None, 2), (slice(None), 1)):
        expected = data[index if isinstance(index, tuple) else (index,)]
        if isinstance(index, tuple) and Ellipsis in index:
            expected = data[(*index, slice(None))]
        np.testing.assert_array_equal(random.key_data(keys[index]), expected)
    np.testing.assert_array_equal(random.key_data(keys.reshape(2, -1)), data.reshape(2, 6, 2))
    np.testing.assert_array_equal(random.key_data(keys.reshape((12,))), data.reshape(12, 2))
    assert [key.shape for key in keys] == [(3,)] * 4
    assert np.asarray(keys == keys).all() and not np.asarray(keys != keys).any()
    assert np.asarray(keys[0] == keys).tolist() == [[True] * 3] + [[False] * 3] * 3
    assert keys != 1 and keys != data.shape


def test_what_keys_refuse() -> None:
    key = random.key(0)
    with pytest.raises(ArgumentTypeError, match="no axes"):
        len(key)
    with pytest.raises(ArrayIndexError):
        key[0]
    with pytest.raises(TypeError):
        hash(key)


def test_keys_have_what_arrays_have() -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    both = gs.NamedSharding(mesh, gs.P("x", "y"))
    keys = gs.device_put(random.split(random.key(3), (6, 4)), both)
    like = gs.device_put(np.arange(24, dtype=np.uint64).reshape(6, 4), both)
    for name in (
        "ndim",
        "size",
        "itemsize",
        "nbytes",
        "committed",
        "format",
        "layout",
        "weak_type",
    ):
        assert getattr(keys, name) == getattr(like, name), name
    assert keys.aval == gs.ShapeDtypeStruct((6, 4), random.key_dtype())
    assert keys.block_until_ready() is keys and keys.is_ready() and not keys.is_deleted()
    for name in ("devices", "platform", "on_device_size_in_bytes"):
        assert getattr(keys, name)() == getattr(like, name)(), name
    keys.copy_to_host_async()
    for ours, theirs in zip(keys.addressable_shards, like.addressable_shards, strict=True):
        assert (ours.index, ours.device, ours.replica_id) == (
            theirs.index,
            theirs.device,
            theirs.replica_id,
        )
        same(ours.data, keys[ours.index])
    same(keys.addressable_data(1), keys[:2, 2:])
    for name in sorted(name for name in dir(gs.Array) if not name.startswith("_")):
        assert name in dir(keys)
        if name not in ("device_buffer", "device_buffers", "real", "imag"):
            assert hasattr(keys, name), name
    hidden = {name for name in dir(gs.Array) if name.startswith("_")}
    for name in sorted(hidden.difference(dir(type(keys)))):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'") as error:
            getattr(keys, name)
        assert (error.value.name, error.value.obj) == (name, keys)
    with pytest.raises(ArgumentTypeError, match="key_data"):
        keys.sum()
    with pytest.raises(ArgumentTypeError, match="key_data"):
        np.asarray(keys)
    copied, pickled = keys.copy(), pickle.loads(pickle.dumps(keys))
    keys.delete()
    assert keys.is_deleted()
    same(copied, pickled)
    assert pickled.sharding == both


def test_keys_move_as_other_elements_do() -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    keys = random.split(random.key(3), (6, 4), out_sharding=gs.NamedSharding(mesh, gs.P("x", "y")))
    data = np.asarray(random.key_data(keys))
    elements = data.view(np.uint64)[..., 0].copy()
    rows = np.array([4, 0, -1])
    indices: list[Any] = [
        [1, 3],
        rows,
        (rows, 1),
        (slice(None), [0, 2]),
        elements % 2 == 0,
        [True] * 6,
    ]
    for index in (*indices, gs.device_put(rows)):
        wanted = data[np.asarray(index) if isinstance(index, gs.Array) else index]
        np.testing.assert_array_equal(random.key_data(keys[index]), wanted)
    assert keys[rows].sharding == gs.device_put(elements, keys.sharding)[rows].sharding
    for moved, wanted in (
        (keys.T, elements.T),
        (keys.ravel(), elements.ravel()),
        (keys.take(rows, axis=0), elements[rows]),
        (keys.repeat(2, axis=1), elements.repeat(2, 1)),
        (keys.at[1].get(), elements[1]),
    ):
        np.testing.assert_array_equal(
            random.key_data(moved)[..., 0], wanted[..., None].view("u4")[..., 0]
        )
    changed = keys.at[rows].set(keys[0])
    elements[rows] = elements[0]
    changed[2, 1] = keys[5, 3]
    elements[2, 1] = data[5, 3].copy().view(np.uint64)[0]
    np.testing.assert_array_equal(random.key_data(changed), elements[..., None].view(np.uint32))
    with pytest.raises(ArgumentTypeError, match="replaced by keys"):
        keys[0] = 1


def test_functions_that_move_elements_take_keys() -> None:
    keys = random.split(
        random.key(3), (6, 4), out_sharding=gs.NamedSharding(gs.make_mesh((3,), "x"), gs.P("x"))
    )
    elements = np.asarray(random.key_data(keys)).view(np.uint64)[..., 0]
    calls: list[Callable[[Any, Any], Any]] = [
        lambda xp, x: xp.stack([x[0], x[1], x[2]]),
        lambda xp, x: xp.concatenate([x, x[:2]]),
        lambda xp, x: xp.reshape(x, (8, 3)),
        lambda xp, x: xp.expand_dims(x, 1),
        lambda xp, x: xp.broadcast_to(x[0], (3, 4)),
        lambda xp, x: xp.moveaxis(x, 0, 1),
        lambda xp, x: xp.transpose(x),
        lambda xp, x: xp.flip(x),
        lambda xp, x: xp.roll(x, 2),
        lambda xp, x: xp.tile(x, 2),
        lambda xp, x: xp.repeat(x, 2, axis=0),
        lambda xp, x: xp.split(x, 2)[1],
        lambda xp, x: xp.take(x, np.array([3, 1]), axis=0),
        lambda xp, x: xp.where(np.arange(4) > 1, x, x[::-1]),
        lambda xp, x: xp.squeeze(x[:1]),
    ]
    for call in calls:
        made = np.asarray(random.key_data(call(gs.numpy, keys)))
        np.testing.assert_array_equal(made.view(np.uint64)[..., 0], call(np, elements))
    assert gs.numpy.stack([keys[0], keys[1]]).dtype == keys.dtype
    shuffled = random.permutation(random.key(1), keys)
    same(shuffled, keys[random.permutation(random.key(1), 6)])
    assert random.choice(random.key(1), keys, (2,)).shape == (2, 4)
    for wrong in (
        lambda: gs.numpy.concatenate([keys, np.ones((6, 4))]),
        lambda: gs.numpy.where(keys == keys, keys, 1),
        lambda: gs.numpy.sum(keys),
        lambda: gs.numpy.add(keys, 1),
        lambda: gs.device_put(np.ones(4)) + keys,
        lambda: keys + 1,
        lambda: np.ones(4) * keys,
        lambda: random.normal(random.key(0), keys),
        lambda: random.gamma(random.key(0), keys),
        lambda: bool(keys),
    ):
        with pytest.raises(TypeError):
            wrong()


def test_keys_are_arrays_wherever_arrays_are_made() -> None:
    sharding = gs.NamedSharding(gs.make_mesh((3,), "x"), gs.P("x"))
    keys = random.split(random.key(3), 6)
    assert isinstance(keys, gs.Array) and any(x is keys for x in gs.live_arrays())
    shards = [shard.data for shard in gs.device_put(keys, sharding).addressable_shards]
    for made in (
        gs.make_array_from_callback((6,), sharding, lambda index: keys[index]),
        gs.make_array_from_process_local_data(sharding, keys),
        gs.make_array_from_single_device_arrays((6,), sharding, shards),
        gs.numpy.concatenate([keys[:2], keys[2:]]),
        gs.numpy.asarray(list(keys)),
        np.stack(list(keys)),
    ):
        assert type(made) is random.KeyArray and made.dtype == keys.dtype
        same(made, keys)
    assert f"{keys[0]}" == str(keys[0]) == repr(keys[0])
    turned, parts = keys.reshape(2, 3).T, iter((keys[:2], np.zeros(2, np.uint64), keys[4:]))
    same(turned[0], keys[::3])
    mixed = [shards[0], *(gs.device_put(np.zeros(2, np.uint64), d) for d in gs.devices()[1:3])]
    for wrong in (
        lambda: gs.make_array_from_callback((6,), sharding, lambda index: next(parts)),
        lambda: gs.make_array_from_single_device_arrays((6,), sharding, mixed),
    ):
        with pytest.raises(ArgumentTypeError, match="key"):
            wrong()


def test_nothing_takes_keys_for_numbers(tmp_path: Path) -> None:
    key, x = random.key(3), gs.device_put(np.arange(3.0))
    for take in (
        lambda: gs.save(tmp_path / "key.npy", key),
        lambda: gs.map_shards(print, key, out=gs.ShapeDtypeStruct((), np.int8)),
        lambda: np.savez(tmp_path / "key.npz", key),
        lambda: key.__buffer__(0),
        lambda: key.astype("uint64"),
        lambda: key.view("uint32"),
        lambda: key.real,
        lambda: key.conj(),
        lambda: key.item(),
        lambda: int(key),
        lambda: key.at[...].add(1),
        lambda: random.split(key).at[np.array([0])].add(key),
        lambda: x.at[0].set(key),
        lambda: gs.numpy.put(random.split(key), [0], 1),
        lambda: gs.numpy.zeros(2).astype(key.dtype),
    ):
        with pytest.raises(ArgumentTypeError):
            take()
    with pytest.raises(ExportError):
        np.from_dlpack(key)
    with pytest.raises(ArrayIndexError):
        x[key]


def test_a_spec_belongs_to_the_dims_of_keys() -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    keys = random.split(random.key(3), 6)
    for move in (gs.device_put, gs.reshard):
        with pytest.raises(ShardingError, match="ndim=1"):
            move(keys, gs.NamedSharding(mesh, gs.P("x", "y")))
    with pytest.raises(ShardingError, match="ndim=0"):
        gs.device_put({"key": keys[0]}, gs.NamedSharding(mesh, gs.P("x")))
    moved = gs.reshard(gs.device_put(keys, gs.NamedSharding(mesh, gs.P("x"))), gs.P("y"))
    assert moved.sharding.spec == gs.P("y")
    same(moved, keys)
    assert gs.tree.leaves({"keys": keys})[0] is keys
    given = gs.device_put(moved, gs.devices()[1], donate=True)
    assert moved.is_deleted() and given.devices() == {gs.devices()[1]}
    same(given, keys)


def test_seeds_of_narrow_types_have_no_high_word() -> None:
    for seed in (np.int32(-2), np.int8(-2), np.array(-2, np.int16), gs.device_put(np.int32(-2))):
        assert np.asarray(random.PRNGKey(seed)).tolist() == [0, 0xFFFFFFFE]
    assert np.asarray(random.PRNGKey(np.int64(-2))).tolist() == [0xFFFFFFFF, 0xFFFFFFFE]


def test_keys_are_sharded_as_arrays_are() -> None:
    mesh = gs.make_mesh((3, 2), ("x", "y"))
    for spec in (gs.P("x"), gs.P(("x", "y")), gs.P()):
        sharding = gs.NamedSharding(mesh, spec)
        made = random.split(random.key(1), 7, out_sharding=sharding)
        put = gs.device_put(random.split(random.key(1), 7), sharding)
        assert made.sharding == put.sharding == sharding
        np.testing.assert_array_equal(random.key_data(made), random.key_data(put))
        assert random.key_data(made).sharding.spec == spec
    assert gs.device_put(random.key(1), gs.devices()[2]).sharding.device_set == {gs.devices()[2]}
    assert isinstance(gs.device_get(random.key(1)), random.KeyArray)
    both = gs.device_put({"key": random.key(1), "x": np.ones(3)}, gs.devices()[1])
    assert np.asarray(both["key"] == random.key(1))


def test_raw_keys_are_keys() -> None:
    raw, key = random.PRNGKey(7), random.key(7)
    assert raw.dtype == np.uint32 and raw.shape == (2,)
    on_host = np.asarray(raw)
    for one in (raw, on_host, random.wrap_key_data(raw), random.clone(key)):
        np.testing.assert_array_equal(random.normal(one, (3,)), random.normal(key, (3,)))
    assert random.split(raw).shape == (2, 2) and random.split(key).shape == (2,)
    assert isinstance(random.fold_in(key, 1), random.KeyArray)
    assert random.fold_in(on_host, 1).shape == (2,)
    assert random.key_impl(key) == random.key_impl(raw) == "threefry2x32"
    for wrong in (7, np.ones(2), np.ones(3, np.uint32)):
        with pytest.raises(GpushardError, match="key_impl: key"):
            random.key_impl(wrong)
    assert np.asarray(random.wrap_key_data(random.key_data(key)) == key)


def test_keys_are_values() -> None:
    """What is made of a key, or gives its words, can be changed and deleted by itself."""
    for raw in (random.PRNGKey(7), random.key(7)):
        for other in (random.clone(raw), random.key_data(raw), copy.deepcopy(raw)):
            other[...] = random.key(8) if isinstance(other, random.KeyArray) else other * 0
            other.delete()
            assert np.asarray(random.key_data(raw)).tolist() == [0, 7]
    raw = random.PRNGKey(7)
    key = random.wrap_key_data(raw)
    raw[0] = 1
    same(key, random.key(7))
    placed = gs.device_put(key)
    placed[...] = random.key(8)
    same(key, random.key(7))


def test_a_key_may_be_split_over_devices() -> None:
    mesh = gs.make_mesh((2,), ("x",))
    split = gs.device_put(random.PRNGKey(7), gs.NamedSharding(mesh, gs.P("x")))
    for function in (random.bits, random.split, lambda key: random.fold_in(key, 3)):
        np.testing.assert_array_equal(function(split), function(random.PRNGKey(7)))
    for function in (random.permutation, random.choice):
        np.testing.assert_array_equal(function(split, 9), function(random.PRNGKey(7), 9))


def test_seeds_and_numbers_on_devices_are_not_read() -> None:
    seed, data = gs.device_put(np.int64(-5)), gs.device_put(np.uint32(9))
    with gs.transfer_guard_device_to_host("disallow"):
        made, mixed = random.key(seed), random.fold_in(random.key(3), data)
        several = random.randint(made, (4,), gs.device_put(np.int8(-3)), 5)
    assert np.asarray(made == random.key(-5))
    assert np.asarray(mixed == random.fold_in(random.key(3), 9))
    np.testing.assert_array_equal(several, random.randint(random.key(-5), (4,), -3, 5))


@pytest.mark.parametrize("dtype", ["int8", "uint32", "int64"])
def test_one_range_for_all_is_drawn_as_many_ranges_are(dtype: str) -> None:
    info = np.iinfo(dtype)
    for low, high in ((0, 64), (0, 100), (info.min, info.max), (0, min(info.max, 1 << 40))):
        ranges = (np.full(99, low), np.full(99, high))
        made = random.randint(random.key(0), (99,), *ranges, dtype)
        np.testing.assert_array_equal(random.randint(random.key(0), (99,), low, high, dtype), made)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "uint64", "int64"])
def test_the_whole_range_of_a_type_is_its_bits(dtype: str) -> None:
    info, key = np.iinfo(dtype), random.key(3)
    made = random.randint(key, (99,), info.min, info.max + 1, dtype)
    bits = np.asarray(random.bits(random.split(key)[1], (99,), f"u{np.dtype(dtype).itemsize}"))
    bits = bits + np.asarray(info.min).astype(bits.dtype)
    np.testing.assert_array_equal(np.asarray(made), bits.view(dtype))


def test_bounds_on_devices_are_cut_to_the_type() -> None:
    low, high = gs.device_put(np.array([-500, 3, 9])), gs.device_put(np.array([-490, 900, 2]))
    found = np.asarray(random.randint(random.key(0), (999, 3), low, high, "int8"))
    assert set(found[:, 0]) == {-128} and found[:, 1].min() == 3 and found[:, 1].max() == 127
    assert set(found[:, 2]) == {9}


@pytest.mark.parametrize("place", [np.asarray, gs.device_put, int], ids=["host", "device", "int"])
def test_bounds_beyond_a_type_are_those_of_the_type(place: Any) -> None:
    def draw(low: int, high: int) -> set[int]:
        many = random.randint(random.key(1), (2999,), place(low), place(high), "int8")
        return set(np.asarray(many).tolist())

    assert draw(-1000, -127) == {-128}
    assert draw(-1000, -126) == {-128, -127}
    assert draw(-1000, 1000) == set(range(-128, 128))
    assert draw(126, 1000) == {126, 127}
    assert draw(500, 600) == {127} and draw(-600, -500) == {-128}


@pytest.mark.parametrize("place", [np.asarray, gs.device_put, int], ids=["host", "device", "int"])
@pytest.mark.parametrize(("low", "high"), [(5, 5), (5, 4), (5, -3000), (-7, -7)])
def test_an_empty_range_gives_its_lower_bound(low: int, high: int, place: Any) -> None:
    for dtype in ("int8", "int64"):
        drawn = random.randint(random.key(1), (9,), place(low), place(high), dtype)
        assert set(np.asarray(drawn).tolist()) == {low}


def test_categories_of_logits_that_broadcast() -> None:
    logits = np.log(np.array([[[0.1, 0.9]], [[0.9, 0.1]], [[1e-9, 1]]]))
    drawn = np.asarray(random.categorical(random.key(3), logits, shape=(200, 3, 50)))
    np.testing.assert_allclose(drawn.mean((0, 2)), [0.9, 0.1, 1], atol=0.02)
    assert drawn[:, :, 0].tolist() != drawn[:, :, 1].tolist()
    for axis, moved in ((0, (2, 3, 1)), (1, (3, 2, 1)), (-2, (3, 2, 1))):
        again = random.categorical(
            random.key(3), np.moveaxis(logits, -1, axis).reshape(moved), axis, (5, 3, 4)
        )
        assert again.shape == (5, 3, 4)


def test_arrays_that_are_shuffled_stay_as_they_are() -> None:
    x = gs.device_put(np.arange(9.0))
    y = random.shuffle(random.key(1), x)
    assert np.asarray(x).tolist() == list(range(9)) != np.asarray(y).tolist()
    assert sorted(np.asarray(y)) == list(range(9))


def test_a_shuffle_of_rows_moves_between_devices_only() -> None:
    mesh = gs.make_mesh((3,), ("x",))
    x = gs.device_put(np.arange(48.0).reshape(6, 8), gs.NamedSharding(mesh, gs.P("x")))
    with gs.gather_guard("disallow"):
        y = random.permutation(random.key(1), x)
        z = random.choice(random.key(1), x, (4,), replace=False)
    np.testing.assert_array_equal(y, random.permutation(random.key(1), np.asarray(x)))
    np.testing.assert_array_equal(z, np.asarray(y)[:4])
    assert y.sharding.spec == gs.P("x")


def test_categories_without_replacement_are_those_of_each_row() -> None:
    logits = np.log(np.arange(1.0, 13).reshape(3, 4))
    drawn = np.asarray(random.categorical(random.key(7), logits, shape=(2, 3), replace=False))
    assert drawn.shape == (2, 3) and (drawn[0] != drawn[1]).all()
    place = gs.NamedSharding(gs.make_mesh((3,), "x"), gs.P("x"))
    split = random.categorical(
        random.key(7), gs.device_put(logits, place), shape=(2, 3), replace=False
    )
    np.testing.assert_array_equal(split, drawn)


def test_categories_without_replacement_are_the_greatest_sums_with_gumbel_numbers() -> None:
    logits = np.log(np.arange(1.0, 25).reshape(2, 4, 3))
    sums = logits + np.asarray(random.gumbel(random.key(7), logits.shape))
    drawn = random.categorical(random.key(7), logits, 1, (3, 2, 3), replace=False)
    np.testing.assert_array_equal(drawn, np.moveaxis(np.argsort(-sums, 1)[:, :3], 1, 0))
    with pytest.raises(ArgumentError, match="a has 4 elements along axis, 5 are to be chosen"):
        random.categorical(random.key(7), logits, 1, (5, 2, 3), replace=False)


def test_what_has_no_chance_is_not_chosen() -> None:
    drawn = random.choice(random.key(0), 3, (9,), p=[0.0, 1.0, 0.0])
    assert np.asarray(drawn).tolist() == [1] * 9
    with np.errstate(all="raise"):
        counts = np.asarray(random.multinomial(random.key(0), 5, [0.5, 0.5, 0.0]))
    assert counts.sum() == 5 and counts[2] == 0


def test_nothing_is_chosen() -> None:
    assert random.choice(random.key(0), np.ones((3, 5)), (0, 2), axis=1).shape == (3, 0, 2)
    assert random.choice(random.key(0), 5, (0,)).shape == (0,)
    assert random.permutation(random.key(0), 0).shape == (0,)
    assert random.normal(random.key(0), (0, 3)).shape == (0, 3)
    assert random.split(random.key(0), 0).shape == (0,)


def test_keys_go_to_devices_and_plans_say_how() -> None:
    keys = random.split(random.key(3), 8)
    data = np.asarray(random.key_data(keys))
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    for place in (gs.devices()[2], sharding):
        moved = keys.to_device(place)
        np.testing.assert_array_equal(np.asarray(random.key_data(moved)), data)
    assert moved.sharding == sharding and keys.to_device(gs.devices()[2]).device == gs.devices()[2]
    assert moved.plan(gs.SingleDeviceSharding(gs.devices()[0])).bytes_written == data.nbytes
    with pytest.raises(ShardingError, match="ndim=1"):
        keys.plan(gs.NamedSharding(sharding.mesh, gs.P(None, "x")))
    with pytest.raises(ShardingError, match="ndim=1"):
        keys.to_device(gs.NamedSharding(sharding.mesh, gs.P(None, "x")))


def test_functions_of_numbers_refuse_keys_as_what_is_no_number() -> None:
    keys, taken = random.split(random.key(0), 8), 0
    for name, function in functions():
        if name.startswith("Array.") or name in special() or name == "numpy.pad":
            continue
        error = attempt(function, *right_calls.call(function, keys))
        taken += error is None
        assert error is None or isinstance(error, GpushardError | TypeError | ValueError), name
    assert taken > 50
    assert not gs.numpy.iscomplexobj(keys)


def test_the_text_of_keys_has_their_words_while_they_are_there() -> None:
    keys = random.wrap_key_data(np.array([[1, 2], [3, 4]], np.uint32))
    assert repr(keys) == "KeyArray((2,), dtype=key<fry>) overlaying:\n[[1 2]\n [3 4]]"
    keys.delete()
    assert "deleted" in repr(keys) and "key<fry>" in repr(keys)
