"""Indices with arrays in them against NumPy's: reads and updates, bit for bit.

Expressions are random, from a seed each: shapes with lengths 0 and 1, meshes, shardings that are
even, uneven, with empty shards, replicated or on one device, every dtype, index arrays on the host,
replicated and split, masks of any rank, mixed with slices, integers, new dims and `...`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime
from tests.array.conftest import DTYPES
from tests.share import some

P = gs.P
SETTINGS: dict[str, dict[str, Any]] = {
    "one-domain": {},
    "eight-domains-queued": {"host_domains": 8, "small_bytes": 0, "inline_bytes": 0},
}
MESHES = [(4,), (3,), (2, 2), (2, 3)]
COUNTS = {"one-domain": some(400, 2300), "eight-domains-queued": some(60, 200)}
"""How many reads, and how many updates."""
INDEX_TYPES = "bhilBHILQ"


@pytest.fixture(scope="module", params=SETTINGS)
def how(request: pytest.FixtureRequest) -> Iterator[str]:
    with runtime(**SETTINGS[request.param]):
        yield request.param
    _mesh.cache_clear()


@functools.cache
def _mesh(sizes: tuple[int, ...]) -> gs.Mesh:
    return gs.make_mesh(sizes, tuple("xyz"[: len(sizes)]))


class Draw:
    """Random arrays and indices.

    Args:
      seed: of all of it.
    """

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.mesh = _mesh(MESHES[self.below(len(MESHES))])

    def below(self, n: int) -> int:
        return int(self.rng.integers(n))

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Any bits at all, NaNs included."""
        dtype = np.dtype(dtype)
        if dtype.kind == "b":
            return self.rng.random(shape) < 0.5
        count = int(np.prod(shape))
        return np.frombuffer(self.rng.bytes(count * dtype.itemsize), dtype).reshape(shape)

    def put(self, data: np.ndarray) -> gs.Array:
        """Place data in a random sharding of the mesh."""
        groups: list[list[str]] = [[] for _ in data.shape]
        for axis in self.rng.permutation(list(self.mesh.axis_names)):
            dim = self.below(data.ndim + 1)
            if dim < data.ndim:
                groups[dim].append(str(axis))
        spec = P(*(tuple(axes) for axes in groups))
        array: gs.Array = gs.device_put(data, gs.NamedSharding(self.mesh, spec))
        return array

    def array(self) -> tuple[np.ndarray, gs.Array]:
        lengths = [0, 1, 2, 3, 4, 5, 8] if self.chance(0.15) else [1, 2, 3, 4, 5, 8]
        shape = tuple(
            lengths[self.below(len(lengths))]
            for _ in range(1 + self.below(3 if self.chance(0.8) else 4))
        )
        data = self.numbers(shape, DTYPES[self.below(len(DTYPES))])
        if self.chance(0.1):
            return data, gs.device_put(data, gs.devices()[0])
        return data, self.put(data)

    def index(self, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return an index for NumPy, and the same for arrays on devices."""
        wide = tuple(1 + self.below(4) for _ in range(1 + self.below(2)))
        wide = (0,) if self.chance(0.05) else wide
        theirs: list[Any] = []
        ours: list[Any] = []
        dots, dim, arrays = self.chance(0.6), 0, 0
        while dim < len(shape):
            if dots and self.chance(0.3):
                dots, one = False, (..., ...)
                theirs, ours = [*theirs, ...], [*ours, ...]
                dim += self.below(len(shape) - dim + 1)
                # the dims that are left out are those at the end of the index
                rest = len(shape) - dim
                dim, shape = 0, shape[len(shape) - rest :]
                continue
            if self.chance(0.1):
                theirs.append(None)
                ours.append(None)
                continue
            if self.chance(0.02):
                flag = self.chance(0.5)
                theirs.append(flag)
                ours.append(np.bool_(flag))
                continue
            taken, one = self.entry(shape[dim:], wide)
            dim += taken
            theirs.append(one[0])
            ours.append(one[1])
            arrays += isinstance(one[0], np.ndarray)
        return tuple(theirs), tuple(ours)

    def entry(self, shape: tuple[int, ...], wide: tuple[int, ...]) -> tuple[int, tuple[Any, Any]]:
        n = shape[0]
        kind = self.rng.choice(["array", "mask", "slice", "int"], p=[0.5, 0.14, 0.2, 0.16])
        if kind == "mask":
            rank = 1 + self.below(len(shape))
            mask = self.rng.random(shape[:rank]) < 0.6
            return rank, (mask, self.placed(mask))
        if kind == "slice" or n == 0:
            step = [None, 1, 2, -1, -2][self.below(5)]
            ends = [None if self.chance(0.5) else self.below(2 * n + 1) - n for _ in range(2)]
            part = slice(None) if self.chance(0.5) else slice(*ends, step)
            return 1, (part, part)
        if kind == "int":
            at = self.below(2 * n) - n
            return 1, (at, [at, np.int8(at), np.array(at)][self.below(3)])
        own = [1 if self.chance(0.2) else m for m in wide[self.below(len(wide)) :]]
        own = own if 0 not in wide else [0]
        dtype = INDEX_TYPES[self.below(len(INDEX_TYPES))]
        low = 0 if dtype.isupper() else -n
        data = self.rng.integers(low, n, tuple(own)).astype(dtype)
        return 1, (data, self.placed(data))

    def placed(self, data: np.ndarray) -> Any:
        """Leave data on the host, as an array or a list, or place them on the devices of all."""
        if self.chance(0.5):
            return data.tolist() if self.chance(0.3) and data.size else data
        return self.put(data)


def same(found: gs.Array, expected: np.ndarray, what: Any) -> None:
    value = np.asarray(found)
    assert (value.shape, value.dtype) == (expected.shape, expected.dtype), what
    assert value.tobytes() == expected.tobytes(), what
    for shard in found.addressable_shards[:: max(1, len(found.addressable_shards) - 1)]:
        assert np.asarray(shard.data).tobytes() == expected[(*shard.index, ...)].tobytes(), what


def on_one(x: gs.Array, index: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return an index for an array on one device: index arrays have to be there, too."""
    if x.sharding.num_devices > 1:
        return index
    return tuple(gs.device_put(e, x.sharding) if isinstance(e, gs.Array) else e for e in index)


def test_reads_are_numpys(how: str) -> None:
    for seed in range(COUNTS[how]):
        draw = Draw(seed)
        data, x = draw.array()
        theirs, ours = draw.index(data.shape)
        what = seed, data.shape, x.sharding, ours
        try:
            expected = np.asarray(data[theirs])
        except IndexError:
            with pytest.raises(IndexError):
                x[on_one(x, ours)]
            continue
        same(x[on_one(x, ours)], expected, what)


UFUNCS = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}


def small(draw: Draw, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers whose sums and products depend on their order, and none that is no number."""
    found = draw.rng.integers(0 if dtype.kind in "bu" else -9, 10, shape) / 7
    return (found * 7 if dtype.kind in "biu" else found).astype(dtype)


def test_updates_are_numpys(how: str) -> None:
    for seed in range(COUNTS[how]):
        draw = Draw(seed)
        data, x = draw.array()
        theirs, ours = draw.index(data.shape)
        names = ["set", "assign", *UFUNCS]
        name = names[draw.below(len(names))] if draw.chance(0.6) else "assign"
        ufunc = UFUNCS.get(name)
        if ufunc is not None:
            data = small(draw, data.shape, data.dtype)
            x = gs.device_put(data, x.sharding)
        try:
            part = data[theirs].shape
        except IndexError:
            with pytest.raises(IndexError):
                x[on_one(x, ours)] = 0
            continue
        own = tuple(1 if draw.chance(0.2) else n for n in part)[draw.below(len(part) + 1) :]
        own = () if draw.chance(0.2) else own
        value = draw.numbers(own, data.dtype) if ufunc is None else small(draw, own, data.dtype)
        if ufunc is np.power:
            value = abs(value)
        if ufunc is np.divide and data.dtype.kind not in "fc":
            ufunc, name = np.maximum, "max"
        if ufunc is np.divide and data.dtype.kind == "c" and gs.default_backend() == "gpu":
            value = np.where(value == 0, 1, value).astype(data.dtype)  # 1 / 0 is NaN there
        expected = data.copy()
        what = seed, name, data.shape, data.dtype, x.sharding, ours, own
        place = gs.device_put(value, x.sharding) if x.sharding.num_devices == 1 else None
        given: Any = value if draw.chance(0.5) else draw.put(value) if place is None else place
        with np.errstate(all="ignore"):
            try:
                if ufunc is None:
                    expected[theirs] = value
                else:
                    # as wide as the part: NumPy 2.4 reads beyond the end of narrower values
                    wide = (
                        np.result_type(expected, np.float32) if data.dtype == "f2" else data.dtype
                    )
                    expected = expected.astype(wide)
                    ufunc.at(expected, theirs, np.broadcast_to(value.astype(wide), part))
                    expected = expected.astype(data.dtype)  # half precision is rounded once
            except TypeError:
                with pytest.raises(TypeError):
                    getattr(x.at[on_one(x, ours)], name)(given)
                continue
        before = x.sharding
        if name == "assign":
            x[on_one(x, ours)] = given
        else:
            old, x = x, getattr(x.at[on_one(x, ours)], name)(given)
            assert np.asarray(old).tobytes() == data.tobytes(), what
        assert x.sharding == before
        inexact = name == "power" or (name == "divide" and data.dtype.kind == "c")
        if inexact and data.dtype.kind in "fc" and gs.default_backend() == "gpu":
            eps = 100 * float(np.finfo(data.dtype).eps)  # CUDA has other functions
            np.testing.assert_allclose(np.asarray(x), expected, eps, eps)
        else:
            same(x, expected, what)
