"""Arrays from nothing: NumPy's bits, each shard made where it lives."""

import array
import collections
import itertools
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.aval import Aval
from gpushard._ops.row import Row, Site
from gpushard._ops.table import creation
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ArgumentError, ArgumentRangeError, ArgumentTypeError
from gpushard.legacy import OpSharding
from gpushard.numpy import ranges
from gpushard.testing import runtime
from tests.numpy.compare import LAYOUTS, agree, memory_of, put, same, value

gnp = gs.numpy


@pytest.fixture(
    scope="module",
    params=[{}, {"host_domains": 4, "inline_bytes": 0, "small_bytes": 0}],
    ids=["in-the-caller", "queued"],
)
def anywhere(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    with runtime(enable_checks=True, **request.param) as made:
        yield made


pytestmark = pytest.mark.usefixtures("anywhere")


def named(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


def bits(found: gs.Array, expected: np.ndarray) -> None:
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    assert np.asarray(found).tobytes() == expected.tobytes()


ARANGES: list[tuple[Any, ...]] = [
    (7,),
    (0,),
    (-3,),
    (2, 9),
    (9, 2, -2),
    (0.0, 1.0, 0.1),
    (0.1, 5, 0.3),
    (1, 2, 0.25),
    (3, -3, -0.7),
    (5.5,),
    (True,),
    (1e300, 2e300, 1e299),
    (0, 1, 1e308),
    (1, 1 + 1e-10, 1e-11),
    (np.float32(0), np.float32(1), np.float32(0.1)),
    (np.int8(3), np.int8(9)),
    (np.uint64(2), np.uint64(9)),
    (2**53, 2**53 + 9),
    (0, 10, 2.5),
    (1j, 3 + 2j, 0.5 + 0.25j),
    (0, 3 + 1j, 1),
    (1 + 1j, 0),
]


@pytest.mark.parametrize("arguments", ARANGES)
@pytest.mark.parametrize("entries", [(), ("x",), (("x", "y"),)])
def test_arange(arguments: tuple[Any, ...], entries: tuple[Any, ...]) -> None:
    bits(gnp.arange(*arguments, out_sharding=named(*entries)), np.arange(*arguments))


@pytest.mark.parametrize("dtype", ["b", "H", "l", "L", "e", "f", "d", "F"])
def test_arange_of_a_type(dtype: str) -> None:
    for arguments in [(7,), (0, 10, 2), (0, 10, 2.5), (1, 9.5, 0.7), (3, -20, -3)]:
        if dtype in "HL" and arguments[0] == 3:
            continue
        bits(
            gnp.arange(*arguments, dtype=dtype, device=named("x")),
            np.arange(*arguments, dtype=dtype),
        )


@pytest.mark.parametrize("dtype", ["b", "B", "h"])
@pytest.mark.parametrize("entries", [(), (("x", "y"),)])
def test_integers_are_counted_up_to_the_last_of_a_type(dtype: str, entries: Any) -> None:
    stop = np.iinfo(dtype).max + 1
    bits(gnp.arange(stop, dtype=dtype, device=named(*entries)), np.arange(stop).astype(dtype))


def test_creation_is_planned_once(anywhere: Runtime) -> None:
    def make(start: int) -> None:
        place = named(("x", "y"))
        gnp.arange(start, start + 24, dtype=np.int32, device=place)
        gnp.linspace(start, 1e300, 24, device=place)
        gnp.full(24, start, np.int32, device=place)

    make(0)
    plans = len(anywhere.plans)
    make(1)
    assert len(anywhere.plans) == plans


def test_a_long_arange() -> None:
    wanted = np.arange(0.3, 30_000, 0.7, dtype=np.float32)
    bits(gnp.arange(0.3, 30_000, 0.7, dtype=np.float32, out_sharding=named(("y", "x"))), wanted)


@pytest.mark.parametrize("entries", [(), (("x", "y"),)])
def test_what_is_counted_in_many_pieces(entries: tuple[Any, ...]) -> None:
    cases: list[tuple[tuple[Any, ...], str]] = [
        ((70_001,), "l"),
        ((-40_000, 40_000, 1), "i"),
        ((0.1, 30_000, 0.3), "d"),
        ((0.1, 30_000, 0.3), "e"),
        ((0, 80_000 + 1j, 1 + 0.1j), "F"),
        ((2**24 - 5, 2**24 + 99_999), "f"),
    ]
    for arguments, dtype in cases:
        with np.errstate(over="ignore"):
            wanted = np.arange(*arguments, dtype=dtype)
        bits(gnp.arange(*arguments, dtype=dtype, out_sharding=named(*entries)), wanted)
    for dtype in "fdl":
        wanted = np.linspace(-7.3, 99.1, 70_001, dtype=dtype)
        bits(gnp.linspace(-7.3, 99.1, 70_001, dtype=dtype, out_sharding=named(*entries)), wanted)
    bits(gnp.linspace(0, 1 - 2j, 70_001, device=named(*entries)), np.linspace(0, 1 - 2j, 70_001))


@pytest.mark.parametrize("dtype", ["f", "d", "l", "F"])
def test_idle_threads_help_to_space_evenly(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = []

    def on_threads(parts: list[Callable[[], None]]) -> None:
        shared.append(len(parts))
        with ThreadPoolExecutor(len(parts)) as threads:
            list(threads.map(lambda part: part(), parts))

    monkeypatch.setattr(creation, "share", on_threads)
    n = 300_000
    bits(gnp.linspace(0, 1e6, n, dtype=dtype), np.linspace(0, 1e6, n, dtype=dtype))
    bits(gnp.linspace(0, -7, n, dtype=dtype), np.linspace(0, -7, n, dtype=dtype))
    assert shared == ([2, 2] if gs.default_backend() == "cpu" else [])


def test_single_precision_counts_right_where_it_cannot_hold_positions() -> None:
    kernel = creation.ARANGE.kernel(np, (), ((9,), np.dtype("f")))
    start = 2**24 + 1
    block = kernel(Site((), (start,), (9,)), np.float32(0), np.float32(1))
    at = np.arange(start, start + 9)
    np.testing.assert_array_equal(block, at.astype(np.float32))


def test_blocks_are_made_in_place() -> None:
    n = 1 << 18
    site = Site((), (0,), (n,))
    zero, one = np.float32(0), np.float32(1)
    numbers: dict[Row, tuple[Any, ...]] = {
        creation.FULL: (one,),
        creation.ARANGE: (zero, one),
        creation.LINSPACE: (np.float64(0), np.float64(n - 1), None, np.float64(1), n - 1, n - 1),
    }
    for row, given in numbers.items():
        block = np.empty(n, np.float32)
        kernel = row.kernel(np, (), ((n,), block.dtype))
        assert memory_of(kernel, site, *given, out=block) < block.nbytes
    square = np.empty((512, 512), np.float32)
    kernel = creation.EYE.kernel(np, (), (square.shape, square.dtype))
    site = Site((), (0, 0), square.shape)
    assert memory_of(kernel, site, 0, out=square) < square.nbytes / 8
    np.testing.assert_array_equal(square, np.eye(512))


@pytest.mark.parametrize("num", [0, 1, 2, 5, 50, 51])
@pytest.mark.parametrize("endpoint", [True, False])
def test_linspace(num: int, endpoint: bool) -> None:
    pairs = [(0, 1), (1.5, -3), (0, 0), (-1e308, 1e308), (0, 5e-324), (1, 2 + 1j), (3, 10)]
    pairs += [(np.float32(0.1), np.float32(2.7)), (0.0, -0.0), (-0.0, -0.0)]
    for (start, stop), dtype in itertools.product(pairs, (None, "f", "l", "D")):
        no_complex = dtype in ("f", "l") and isinstance(stop, complex)
        if no_complex or (abs(stop) > 1e30 and dtype == "l"):
            continue
        with np.errstate(all="ignore"):
            wanted = np.linspace(start, stop, num, endpoint, dtype=dtype)
        bits(gnp.linspace(start, stop, num, endpoint, dtype=dtype, out_sharding=named("y")), wanted)


@pytest.mark.parametrize("num", [1, 2, 3])
def test_ends_are_met_to_the_bit(num: int) -> None:
    start, stop = np.array([0.8, 2.0]), np.array([0.3, 50.0])  # 0.8 + (0.3 - 0.8) is not 0.3
    for name in ("linspace", "geomspace"):
        for ends in ((start, stop), (0.8, 0.3)):
            found = np.asarray(getattr(gnp, name)(*ends, num))
            np.testing.assert_array_equal(found[0], ends[0])
            if num > 1:
                np.testing.assert_array_equal(found[-1], ends[1])
    for ends in ((start, stop), (0.8, 0.3)):
        step = np.asarray(gnp.linspace(*ends, num, retstep=True)[1])
        np.testing.assert_array_equal(step, np.linspace(*ends, num, retstep=True)[1])


@pytest.mark.parametrize("ends", [(0.5, -2), (-2, 0.5), (0, 1), (1, 0), (-1, 0), (0, -1)])
def test_no_ratios_lead_through_0(ends: tuple[float, float]) -> None:
    with pytest.raises(ArgumentError, match="must have one sign, and not be 0"):
        gnp.geomspace(*ends)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["?", "b", "l", "e", "d", "D"])
def test_constants(layout: str, dtype: str) -> None:
    shape, entries = LAYOUTS[layout]
    there = named(*entries)
    for name in ("zeros", "ones"):
        found = getattr(gnp, name)(shape, dtype=dtype, out_sharding=there)
        bits(found, getattr(np, name)(shape, dtype=dtype))
        assert found.sharding == there
        assert [s.data.shape for s in found.addressable_shards] == there.tiling(shape).shard_shapes
    bits(gnp.full(shape, 1, dtype=dtype, device=there), np.full(shape, 1, dtype=dtype))
    assert gnp.empty(shape, dtype=dtype, device=there).dtype == dtype


def test_the_type_of_full() -> None:
    for fill in (1, 2.5, True, 1j, np.float32(3), np.int8(-1)):
        same(gnp.full((2, 3), fill), np.full((2, 3), fill))
    same(gnp.full(3, 2.7, dtype="l"), np.full(3, 2.7, dtype="l"))
    with np.errstate(invalid="ignore"):
        same(gnp.full(3, np.nan, dtype="l"), np.full(3, np.nan, dtype="l"))
    same(gnp.full((2, 3), [1, 2, 3]), np.full((2, 3), [1, 2, 3]))
    same(gnp.full((2, 3), gs.device_put(np.float32(2))), np.full((2, 3), np.float32(2)))


@pytest.mark.parametrize("shape", [(8, 6), (5, 3), (3, 7), (4, 4), (0, 3), (1, 1)])
def test_matrices(shape: tuple[int, int]) -> None:
    for k in (0, 1, -2, 100, -100):
        bits(gnp.eye(*shape, k=k, out_sharding=named("x", "y")), np.eye(*shape, k=k))
        data = value(shape, "l")
        for entries in ((), ("x", "y"), (None, "x")):
            same(gnp.tril(put(data, *entries), k), np.tril(data, k))
            same(gnp.triu(put(data, *entries), k), np.triu(data, k))
    bits(gnp.eye(3, dtype="?"), np.eye(3, dtype="?"))
    bits(gnp.identity(3), np.identity(3))
    cube = value((3, 4, 5), "F")
    same(gnp.tril(put(cube, "y", "x")), np.tril(cube))


@pytest.mark.one_of(2)
@pytest.mark.parametrize("shape", [(150, 200), (300, 140), (2, 70, 300), (600, 90), (40, 2300)])
@pytest.mark.parametrize("dtype", ["b", "f", "D"])
def test_parts_of_wide_matrices(shape: tuple[int, ...], dtype: str) -> None:
    data = value(shape, dtype)
    placed = [put(data), put(data, *[None] * (len(shape) - 2), "x", "y")]
    for k in (0, 1, -1, 64, -64, 99, -130, 1000, -1000):
        for x in placed:
            same(gnp.tril(x, k), np.tril(data, k))
            same(gnp.triu(x, k), np.triu(data, k))


def test_a_strip_is_cut_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """At each call threads wait for one another."""
    calls, combine = [], np.bitwise_and

    def counted(x: Any, *given: Any, **named: Any) -> Any:
        calls.append(x.shape)
        return combine(x, *given, **named)

    data = value((256, 512), "f")
    kernel = creation.TRIL.kernel(np, [Aval(data.shape, data.dtype)], (0,))
    monkeypatch.setattr(np, "bitwise_and", counted)
    for row in (256, 512):
        site = Site((), (row, 256), data.shape)
        out = np.full_like(data, 7)
        kernel(site, data, out=out)
        np.testing.assert_array_equal(out, np.tril(data, row - 256))
    assert calls == [(256, 512), (255, 512)]  # all of the last row of the second one is kept


def test_nothing_comes_from_the_host() -> None:
    there = named("x", "y")
    with gs.transfer_guard("disallow_explicit"):
        x = gnp.zeros((8, 6), out_sharding=there)
        gnp.full((8, 6), 3, dtype="f", out_sharding=there)
        gnp.arange(0, 1, 0.1, out_sharding=named("x"))
        gnp.linspace(0, 1, 9, out_sharding=named("x"))
        gnp.eye(5, out_sharding=there)
        gnp.tril(gnp.ones_like(x))


def test_likes_lie_alike() -> None:
    data = value((5, 3), "f")
    x = put(data, "x", "y")
    for name in ("zeros_like", "ones_like"):
        found = getattr(gnp, name)(x)
        same(found, getattr(np, name)(data))
        assert found.sharding == x.sharding and found.committed
    found = gnp.full_like(x, 3, dtype="l", shape=(9, 2))
    same(found, np.full((9, 2), 3))
    assert found.sharding == x.sharding
    assert gnp.empty_like(x).sharding == x.sharding
    assert gnp.zeros_like(x, device=gs.devices()[2]).devices() == {gs.devices()[2]}
    assert not gnp.zeros_like(gnp.arange(3)).committed
    same(gnp.full_like(x, [1, 2, 3]), np.full_like(data, [1, 2, 3]))
    assert gnp.full_like(x, [1, 2, 3]).sharding == x.sharding
    same(gnp.zeros_like([1, 2]), np.zeros_like([1, 2]))


LIKES: dict[str, Any] = {
    "zeros_like": (gnp.zeros_like, 0),
    "ones_like": (gnp.ones_like, 1),
    "empty_like": (gnp.empty_like, 0),
    "full_like": (lambda x, **how: gnp.full_like(x, 7, **how), 7),
    "full_like of an array": (lambda x, **how: gnp.full_like(x, np.asarray(7), **how), 7),
    "numpy.zeros_like": (np.zeros_like, 0),
    "lax.full_like": (lambda x, **how: gs.lax.full_like(x, 7, **how), 7),
}
GRID = "{devices=[4,2]<=[8]}"
LIKED: dict[str, Any] = {
    "a device": lambda data: gs.device_put(data, gs.devices()[3]),
    "host memory": lambda data: gs.device_put(
        data, gs.SingleDeviceSharding(gs.devices()[3], memory_kind="pinned_host")
    ),
    "a mesh": lambda data: put(data, "x", "y"),
    "replicas": lambda data: put(data),
    "pmap": lambda data: gs.pmap(lambda row: row + 0)(data),
    "listed": lambda data: gs.device_put(
        data, gs.sharding.GSPMDSharding(gs.devices(), OpSharding.from_string(GRID))
    ),
    "nobody's choice": gnp.asarray,
}


@pytest.mark.one_of(3)
@pytest.mark.parametrize("shape", [None, (5, 2), (4, 3), (3,), (), (2, 2, 2), (0, 3)], ids=str)
@pytest.mark.parametrize("layout", LIKED)
@pytest.mark.parametrize("name", LIKES)
def test_likes_stay_on_the_devices(name: str, layout: str, shape: Any) -> None:
    like, element = LIKES[name]
    x = LIKED[layout](value((8, 2), "f"))
    found = like(x) if shape is None else like(x, shape=shape)
    sizes = x.shape if shape is None else shape
    same(found, np.full(sizes, element, np.float32))
    assert found.devices() == x.devices() and found.committed == x.committed
    assert found.sharding.memory_kind == x.sharding.memory_kind
    if sizes == x.shape:
        assert found.sharding == x.sharding
    elif len(sizes) != 2:
        assert found.sharding.is_fully_replicated


def test_places() -> None:
    device = gs.devices()[5]
    for place in (device, gs.SingleDeviceSharding(device)):
        assert gnp.arange(3, device=place).devices() == {device}
        assert gnp.asarray([1, 2], device=place).devices() == {device}
    made = gnp.zeros(3)
    assert made.devices() == {gs.devices()[0]} and not made.committed
    with gs.make_mesh((2,), "z"):
        assert gnp.zeros(4, device=gs.P("z")).sharding.spec == gs.P("z")
    kind = named("x").with_memory_kind("pinned_host")
    found = gnp.arange(9, out_sharding=kind)
    assert found.sharding == kind and np.array_equal(found, np.arange(9))
    with pytest.raises(ArgumentError, match=r"device= and out_sharding= are both given"):
        gnp.zeros(3, device=device, out_sharding=named())


class Numbers(Sequence[Any]):
    """A sequence of a kind that nobody knows."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: Any) -> Any:
        return [1.5, 2, 4][index]


@pytest.mark.parametrize(
    "data",
    [
        range(4),
        range(5, 0, -2),
        [range(3), range(3)],
        array.array("h", [1, 2]),
        memoryview(np.arange(6.0).reshape(2, 3)),
        bytearray(b"ab"),
        collections.deque([1, 2.5]),
        Numbers(),
        [Numbers(), Numbers()],
    ],
    ids=lambda data: type(data).__name__,
)
def test_sequences_are_what_numpy_makes_of_them(data: Any) -> None:
    expected = np.asarray(list(data) if isinstance(data, bytearray) else data, np.float64)
    same(gnp.asarray(data).astype("d"), expected)
    assert gnp.asarray(data).dtype == np.asarray(data).dtype
    same(gnp.array(data, dtype="f"), expected.astype("f"))
    same(gnp.sum(data) + 0.0, np.asarray(expected.sum()))
    x = put(value((5, 3), "f"), "x")
    same(gnp.asarray(collections.deque([x, x])), np.stack([np.asarray(x)] * 2))


def pointers(x: gs.Array) -> list[int]:
    return [shard.data.unsafe_buffer_pointer() for shard in x.addressable_shards]


def test_asarray() -> None:
    data = value((5, 3), "f")
    x = put(data, "x")
    assert pointers(gnp.asarray(x)) == pointers(x)
    same(gnp.asarray(x, dtype="d"), data.astype("d"))
    assert gnp.asarray(x, dtype="d").sharding == x.sharding
    assert gnp.asarray(x, device=named("y")).sharding == named("y")
    same(gnp.asarray(data), data)
    same(gnp.asarray([[1, 2], [3, 4]], dtype="f"), np.asarray([[1, 2], [3, 4]], dtype="f"))
    same(gnp.asarray(3), np.asarray(3))
    same(gnp.asarray([x[0], x[1]]), data[:2])
    same(gnp.array(x), data)
    assert pointers(gnp.array(x)) != pointers(x)
    assert not gnp.asarray(1.5).weak_type
    same(gnp.asarray((0, 1, 2)), np.arange(3))
    with pytest.raises(ArgumentError, match="copy=False"):
        gnp.asarray(data, copy=False)
    assert pointers(gnp.asarray(x, copy=False)) == pointers(x)
    with pytest.raises(ArgumentRangeError, match="300"):
        gnp.asarray(300, dtype="b")
    with pytest.raises(ArgumentTypeError, match="holds a str"):
        gnp.asarray("text")


@pytest.mark.parametrize("indexing", ["xy", "ij"])
def test_meshgrid(indexing: Any) -> None:
    a, b, c = np.arange(3), np.arange(4.0), np.arange(2)
    x, y, z = put(a, "y"), put(b, "x"), put(c)
    for sparse in (False, True):
        for ours, theirs in (((x,), (a,)), ((x, y), (a, b)), ((x, y, z), (a, b, c))):
            same(
                gnp.meshgrid(*ours, indexing=indexing, sparse=sparse),
                np.meshgrid(*theirs, indexing=indexing, sparse=sparse),
            )
    with pytest.raises(ArgumentError, match="give vectors"):
        gnp.meshgrid(put(np.zeros((2, 2))))


def test_wrong_arguments() -> None:
    agree(lambda: gnp.linspace(0, 1, -1), lambda: np.linspace(0, 1, -1))
    for start, stop, step in [(0, np.inf, 1), (0, 1, 0), (np.nan, 1, 1), (0, 1, 0.0)]:
        with pytest.raises(ArgumentError, match="no finite number"):
            gnp.arange(start, stop, step)
    with pytest.raises(ArgumentRangeError, match="does not fit int8"):
        gnp.arange(300, dtype="b")
    with pytest.raises(ArgumentRangeError, match="stop=128 does not fit int8"):
        gnp.arange(129, dtype="b")
    same(gnp.arange(0, 1, 300, dtype="b"), np.zeros(1, "b"))  # of a single number no step is added
    for no_number in (np.ones(2), gnp.ones(2), np.datetime64("2020")):
        with pytest.raises(ArgumentTypeError, match="must be a number"):
            gnp.arange(no_number)
    same(gnp.arange(gnp.asarray(3)), np.arange(3))
    with pytest.raises(ArgumentTypeError, match="stop='a' must be a number"):
        gnp.arange("a")
    with pytest.raises(ArgumentTypeError, match="must be a number that"):
        gnp.full(3, 1j, dtype="d")
    with pytest.raises(ArgumentTypeError, match=r"k=1\.5 must be an integer"):
        gnp.eye(3, k=1.5)


class Halves(gs.Sharding):
    """A user's own sharding: the first device has some rows, the second all from another on."""

    def __init__(self) -> None:
        self.devices = gs.devices()[:2]

    @property
    def device_set(self) -> set[Any]:
        return set(self.devices)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Any]:
        whole = slice(None)
        return dict(zip(self.devices, [(slice(0, 5), whole), (slice(3, None), whole)], strict=True))


def test_shardings_of_users() -> None:
    there = Halves()
    found = gnp.eye(7, 3, out_sharding=there)
    bits(found, np.eye(7, 3))
    assert [s.data.shape for s in found.addressable_shards] == [(5, 3), (4, 3)]
    assert gnp.ones_like(found).sharding is there


def test_who_forbids_a_copy_shares_the_array_itself() -> None:
    x = gs.device_put(np.arange(4.0))
    shared, apart = gnp.asarray(x, copy=False), gnp.asarray(x)
    x[0] = 7
    assert shared[0] == 7 and apart[0] == 0


@pytest.mark.parametrize("step", [1e300, -1e300, np.float64(1e300), np.array(1e300)])
def test_a_range_shorter_than_its_step(step: Any) -> None:
    for stop in (1e-300, -1e-300, 0.0):
        agree(
            lambda stop=stop: gs.numpy.arange(0.0, stop, step),
            lambda stop=stop: np.arange(0.0, stop, step),
        )


def test_a_range_of_integers_is_checked_once_and_one_of_floats_each_time() -> None:
    """Floats that are equal may differ: of two zeros one is negative."""
    gnp.arange(3, 17, 2, np.int16)
    before = ranges._ends_of_integers.cache_info().hits
    assert np.array_equal(gnp.arange(3, 17, 2, np.int16), np.arange(3, 17, 2, np.int16))
    assert ranges._ends_of_integers.cache_info().hits == before + 1
    for start in (0.0, -0.0, 0, True, np.float32(1), 1):
        found, wanted = gnp.arange(start, 3), np.arange(start, 3)
        assert found.dtype == wanted.dtype and np.asarray(found).tobytes() == wanted.tobytes()
    with pytest.raises(ArgumentTypeError):
        gnp.arange(0, 3, 1, [1])


@pytest.mark.parametrize("number", [2j, np.complex128(1 + 2j), np.complex64(1)])
@pytest.mark.parametrize("dtype", [np.float64, np.int32])
def test_complex_numbers_fill_no_real_array(number: Any, dtype: Any) -> None:
    """NumPy drops what is imaginary, and warns."""
    with pytest.raises(TypeError, match=r"fill_value=.* must be a number that (float64|int32) can"):
        gs.numpy.full(3, number, dtype)


@pytest.mark.parametrize("ndmin", [*range(5), 64])
def test_new_dims_come_first(ndmin: int) -> None:
    for data in (3, [1, 2], [[1, 2, 3]]):
        want = np.array(data, ndmin=ndmin)
        for copy in (True, None, False):  # which data of the host is in any case
            same(gs.numpy.array(data, ndmin=ndmin, copy=copy), want)
