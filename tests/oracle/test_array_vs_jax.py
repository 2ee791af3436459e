"""Arrays and the ways to make them against JAX's: the same programs on both, on even shapes."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime

Shape = tuple[int, ...]
MESH_SHAPES = [(1,), (2,), (8,), (3,), (4, 2), (2, 3), (1, 8), (2, 2, 2), (2, 1, 3)]
DTYPES = [np.dtype(code) for code in "?bhilBHILefdFD"]


@pytest.fixture(autouse=True)
def eight_devices(jax: ModuleType) -> Iterator[None]:
    """Run with eight devices on both sides and 64-bit types on JAX's."""
    with runtime(host_devices=8), jax.enable_x64(True):
        yield


@dataclass(frozen=True)
class Case:
    """A value and a sharding that divides it, written for both libraries."""

    ids: np.ndarray
    entries: tuple[Any, ...]
    value: np.ndarray

    @property
    def names(self) -> tuple[str, ...]:
        return tuple("xyz"[: self.ids.ndim])

    def ours(self) -> gs.NamedSharding:
        devices = np.array(gs.devices(), dtype=object)[self.ids]
        return gs.NamedSharding(gs.Mesh(devices, self.names), gs.P(*self.entries))

    def theirs(self, jax: ModuleType) -> Any:
        devices = np.array(jax.devices(), dtype=object)[self.ids]
        mesh = jax.sharding.Mesh(devices, self.names)
        return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*self.entries))


def random_cases(seed: int, count: int, smallest: int = 0, largest: int = 3) -> Iterator[Case]:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        mesh_shape = MESH_SHAPES[rng.integers(len(MESH_SHAPES))]
        ids = rng.permutation(8)[: math.prod(mesh_shape)].reshape(mesh_shape)
        ndim = int(rng.integers(4))
        groups: list[list[str]] = [[] for _ in range(ndim)]
        blocks = [1] * ndim
        for axis in rng.permutation(ids.ndim).tolist():
            dim = int(rng.integers(ndim + 1))
            if dim < ndim:
                groups[dim].append("xyz"[axis])
                blocks[dim] *= mesh_shape[axis]
        shape = tuple(k * int(rng.integers(smallest, largest + 1)) for k in blocks)
        dtype = DTYPES[rng.integers(len(DTYPES))]
        value = (rng.integers(-99, 99, shape) * 1.25).astype(dtype)
        yield Case(ids, tuple(map(tuple, groups)), value)


def compare(ours: gs.Array, theirs: Any, note: Any) -> None:
    """Compare everything that both libraries say of an array and its shards."""
    for name in ("shape", "dtype", "ndim", "size", "nbytes", "itemsize", "committed", "weak_type"):
        assert getattr(ours, name) == getattr(theirs, name), (name, note)
    assert ours.is_fully_replicated == theirs.is_fully_replicated, note
    assert ours.is_fully_addressable == theirs.is_fully_addressable, note
    assert ours.on_device_size_in_bytes() == theirs.on_device_size_in_bytes(), note
    assert {d.id for d in ours.devices()} == {d.id for d in theirs.devices()}, note
    assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes(), note
    for name in ("addressable_shards", "global_shards"):
        pairs = list(zip(getattr(ours, name), getattr(theirs, name), strict=True))
        for position, (mine, other) in enumerate(pairs):
            assert mine.device.id == other.device.id, (position, note)
            assert mine.index == other.index, (position, note)
            assert mine.replica_id == other.replica_id, (position, note)
            assert mine.data.shape == other.data.shape, (position, note)
            assert np.asarray(mine.data).tobytes() == np.asarray(other.data).tobytes(), note
            assert mine.data.committed == other.data.committed, note
            part = np.asarray(ours.addressable_data(position))
            assert part.tobytes() == np.asarray(theirs.addressable_data(position)).tobytes(), note


def test_device_put(jax: ModuleType) -> None:
    for case in random_cases(1, 250, smallest=1):
        ours = gs.device_put(case.value, case.ours())
        compare(ours, jax.device_put(case.value, case.theirs(jax)), case)


def own_text(x: gs.Array) -> str:
    """Return the `repr` of an array without the sharding, which JAX leaves out."""
    return repr(x).replace(f",\n      sharding={x.sharding!r}", "")


def test_device_put_of_arrays_without_elements(jax: ModuleType) -> None:
    cases = [case for case in random_cases(2, 200) if not case.value.size]
    assert len(cases) > 40
    for case in cases:
        ours = gs.device_put(case.value, case.ours())
        theirs = jax.device_put(case.value, case.theirs(jax))
        assert ours.shape == theirs.shape, case
        assert own_text(ours) == repr(theirs), case
        assert [s.data.shape for s in ours.addressable_shards] == [
            s.data.shape for s in theirs.addressable_shards
        ], case


def test_text(jax: ModuleType) -> None:
    for case in random_cases(3, 150, smallest=1):
        ours = gs.device_put(case.value, case.ours())
        theirs = jax.device_put(case.value, case.theirs(jax))
        # Where the dtype needs a line of its own, JAX forgets the line break.
        assert own_text(ours).split() == repr(theirs).split(), case
        assert str(ours) == str(theirs), case
        for shard, other in zip(ours.addressable_shards, theirs.addressable_shards, strict=True):
            assert repr(shard.data).split() == repr(other.data).split(), case


def test_text_of_wide_and_long_arrays(jax: ModuleType) -> None:
    for shape in [(12,), (13,), (14,), (15,), (16,), (17,), (2, 40), (1, 1), (600, 3)]:
        for scale in (1, 1e-7, 1e9):
            value = np.arange(math.prod(shape), dtype=np.float32).reshape(shape) * scale
            # Where the dtype needs a line of its own, JAX forgets the line break.
            text = repr(gs.device_put(value)).split()
            assert text == repr(jax.device_put(value)).split(), shape
            assert str(gs.device_put(value)) == str(jax.device_put(value)), shape


@pytest.mark.parametrize("value", [True, 7, 2.5, 1j, np.float32(1.5), np.int8(3), np.True_])
def test_scalars(jax: ModuleType, value: Any) -> None:
    for place in (None, 2):
        ours = gs.device_put(value, None if place is None else gs.devices()[place])
        theirs = jax.device_put(value, None if place is None else jax.devices()[place])
        compare(ours, theirs, value)
        assert repr(ours) == repr(theirs)
        assert f"{ours}" == f"{theirs}"
        assert ours.item() == theirs.item()
        assert ours.tolist() == theirs.tolist()
        assert (ours.device.id, ours.platform()) == (theirs.device.id, theirs.platform())


CONVERSIONS = [bool, int, float, complex, hex, oct, len, iter, hash]


@pytest.mark.parametrize(
    ("convert", "shape"),
    [
        (convert, shape)
        for convert in CONVERSIONS
        for shape in [(), (1,), (2,), (0,)]
        # Of an array of one element and one dim, NumPy has given up what JAX still converts.
        if shape != (1,) or convert not in (int, float, complex)
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.float32, np.bool_])
def test_conversions_fail_alike(jax: ModuleType, convert: Any, shape: Shape, dtype: Any) -> None:
    def outcome(array: Any) -> Any:
        try:
            result = convert(array)
        except (TypeError, ValueError) as error:
            return type(error)
        return None if convert is iter else result

    value = np.ones(shape, dtype)
    assert outcome(gs.device_put(value)) == outcome(jax.device_put(value))


def test_callbacks(jax: ModuleType) -> None:
    for case in random_cases(4, 120, smallest=1):
        asked: dict[str, set[str]] = {"ours": set(), "theirs": set()}

        def data(
            index: Any, who: str, value: np.ndarray = case.value, asked: Any = asked
        ) -> np.ndarray:
            bounds = [part.indices(n)[:2] for part, n in zip(index, value.shape, strict=True)]
            asked[who].add(str(bounds))
            return value[index]

        shape = case.value.shape
        ours = gs.make_array_from_callback(shape, case.ours(), lambda i, f=data: f(i, "ours"))
        theirs = jax.make_array_from_callback(
            shape, case.theirs(jax), lambda i, f=data: f(i, "theirs")
        )
        compare(ours, theirs, case)
        assert asked["ours"] == asked["theirs"], case


def test_process_local_data(jax: ModuleType) -> None:
    for case in random_cases(5, 100, smallest=1):
        for shape in (None, case.value.shape):
            ours = gs.make_array_from_process_local_data(case.ours(), case.value, shape)
            theirs = jax.make_array_from_process_local_data(case.theirs(jax), case.value, shape)
            compare(ours, theirs, case)


def test_single_device_arrays_in_any_order(jax: ModuleType) -> None:
    rng = np.random.default_rng(6)
    for case in random_cases(6, 100, smallest=1):
        shape = case.value.shape
        ours, theirs = case.ours(), case.theirs(jax)
        mine = [gs.device_put(case.value[i], d) for d, i in ours.devices_indices_map(shape).items()]
        others = [
            jax.device_put(case.value[i], d) for d, i in theirs.devices_indices_map(shape).items()
        ]
        order = rng.permutation(len(mine))
        compare(
            gs.make_array_from_single_device_arrays(shape, ours, [mine[i] for i in order]),
            jax.make_array_from_single_device_arrays(shape, theirs, [others[i] for i in order]),
            case,
        )


def test_resharding(jax: ModuleType) -> None:
    cases = list(random_cases(7, 100, smallest=1, largest=1))
    by_rank: dict[int, list[Case]] = {}
    for case in cases:
        by_rank.setdefault(case.value.ndim, []).append(case)
    moved = 0
    for source in cases[:40]:
        for target in by_rank[source.value.ndim][:4]:
            shape = tuple(map(math.lcm, source.value.shape, target.value.shape))
            value = np.arange(math.prod(shape)).reshape(shape)
            ours = gs.device_put(gs.device_put(value, source.ours()), target.ours())
            theirs = jax.device_put(jax.device_put(value, source.theirs(jax)), target.theirs(jax))
            compare(ours, theirs, (source, target))
            moved += source.ours() != target.ours()
    assert moved > 100


def test_indices_and_iteration(jax: ModuleType) -> None:
    rng = np.random.default_rng(8)
    for case in random_cases(8, 20, smallest=1):
        ours = gs.device_put(case.value, case.ours())
        theirs = jax.device_put(case.value, case.theirs(jax))
        index = tuple(
            [int(rng.integers(n)), slice(None, None, -1), slice(int(rng.integers(n)), None, 2)][
                rng.integers(3)
            ]
            for n in case.value.shape
        )
        index = (*index, None)[: int(rng.integers(len(index) + 2))]
        mine, other = ours[index], theirs[index]
        assert (mine.shape, mine.dtype) == (other.shape, other.dtype), (case, index)
        assert np.asarray(mine).tobytes() == np.asarray(other).tobytes(), (case, index)
        if ours.ndim:
            rows = [np.asarray(row).tobytes() for row in ours]
            assert rows == [np.asarray(row).tobytes() for row in theirs], case


def test_trees(jax: ModuleType) -> None:
    value = np.arange(8, dtype=np.float32)

    def program(put: Any, devices: Any, named: Callable[[str], Any]) -> list[Any]:
        tree = {"a": [value, 1.0], "b": (2, {"c": value})}
        results = [
            put(tree),
            put(tree, devices[3]),
            put(tree, {"a": devices[1], "b": (devices[2], named("x"))}),
            put([value, value], devices[:2]),
            put(tree["b"], (None, named("x"))),
        ]
        flat: list[Any] = []
        for result in results:
            flat += jax.tree_util.tree_leaves(result)
        return flat

    ours = program(
        gs.device_put,
        gs.devices(),
        lambda axis: gs.NamedSharding(gs.make_mesh((8,), axis), gs.P(axis)),
    )
    mesh = jax.sharding.Mesh(np.array(jax.devices()), "x")
    theirs = program(
        jax.device_put,
        jax.devices(),
        lambda axis: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis)),
    )
    assert len(ours) == len(theirs) == 16
    for mine, other in zip(ours, theirs, strict=True):
        compare(mine, other, None)


def test_deletion(jax: ModuleType) -> None:
    def program(put: Any, device: Any) -> Any:
        x = put(np.arange(8), device)
        x.delete()
        seen = [x.is_deleted(), x.shape, x.dtype, x.ndim, x.is_fully_replicated]
        x.delete()
        for use in (np.asarray, lambda a: a[0], lambda a: a.devices(), list, str):
            try:
                use(x)
                seen.append("works")
            except RuntimeError:
                seen.append("fails")
        return seen

    assert program(gs.device_put, gs.devices()[1]) == program(jax.device_put, jax.devices()[1])


def test_default_device(jax: ModuleType) -> None:
    def program(lib: Any) -> Any:
        with lib.default_device(lib.devices()[5]):
            x = lib.device_put(np.ones(2))
            y = lib.device_put(x)
            z = lib.device_put(2.0, lib.devices()[1])
        return [(a.device.id, a.committed) for a in (x, y, z, lib.device_put(1))]

    assert program(gs) == program(jax)


BAD: dict[str, Callable[[Any, Any, Any], Any]] = {
    "parts missing": lambda lib, named, parts: lib.make_array_from_single_device_arrays(
        (8,), named("x"), parts[:7]
    ),
    "parts of the wrong shape": lambda lib, named, parts: lib.make_array_from_single_device_arrays(
        (16,), named("x"), parts
    ),
    "parts on several devices": lambda lib, named, parts: lib.make_array_from_single_device_arrays(
        (8,), named("x"), [lib.device_put(np.zeros(8), named("x"))] * 8
    ),
    "callback of the wrong shape": lambda lib, named, parts: lib.make_array_from_callback(
        (8,), named("x"), lambda i: np.zeros(3)
    ),
    "callback of other dtypes": lambda lib, named, parts: lib.make_array_from_callback(
        (8,), named("x"), lambda i: np.zeros(1, "f4" if i[0].start else "i4")
    ),
    "process data that does not fit": lambda lib, named, parts: (
        lib.make_array_from_process_local_data(named("x"), np.zeros(3), (8,))
    ),
    "spec longer than the rank": lambda lib, named, parts: lib.device_put(1.0, named("x")),
    "list of devices for one array": lambda lib, named, parts: lib.device_put(
        np.zeros(2), lib.devices()[:2]
    ),
    "donate list for one array": lambda lib, named, parts: lib.device_put(
        parts[0], lib.devices()[1], donate=[True]
    ),
    "text": lambda lib, named, parts: lib.device_put("text"),
    "objects": lambda lib, named, parts: lib.device_put(np.array([None])),
    "records": lambda lib, named, parts: lib.device_put(np.zeros(2, "i4,f4")),
    "masked": lambda lib, named, parts: lib.device_put(np.ma.masked_array([1], [True])),
    "shard out of range": lambda lib, named, parts: lib.device_put(
        np.zeros(8), named("x")
    ).addressable_data(8),
    "pointer of a sharded array": lambda lib, named, parts: lib.device_put(
        np.zeros(8), named("x")
    ).unsafe_buffer_pointer(),
    "step of zero": lambda lib, named, parts: parts[0][::0],
    "float index": lambda lib, named, parts: parts[0][1.0],
    "too many indices": lambda lib, named, parts: parts[0][0, 0],
}


@pytest.mark.parametrize("program", BAD.values(), ids=BAD)
def test_both_refuse(jax: ModuleType, program: Any) -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()), "x")
    theirs = (
        jax,
        lambda axis: jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(axis)),
        [jax.device_put(np.ones(1), device) for device in jax.devices()],
    )
    ours = (
        gs,
        lambda axis: gs.NamedSharding(gs.make_mesh((8,), axis), gs.P(axis)),
        [gs.device_put(np.ones(1), device) for device in gs.devices()],
    )
    with pytest.raises(gs.errors.GpushardError):
        program(*ours)
    with pytest.raises(Exception) as caught:
        program(*theirs)
    assert not isinstance(caught.value, (AttributeError, NameError)), "the program itself is wrong"
