"""`from_dlpack`: what is shared, what is copied, and how long the producer's memory is kept."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.host import dlpack
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import (
    ArgumentError,
    ArgumentTypeError,
    ProtocolError,
    TransferGuardError,
)
from gpushard.testing import deferred, runtime
from gpushard.testing.programs import check_nothing_left, random_shardings
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimRuntime
from tests.share import examples, seeds


@pytest.fixture(scope="module")
def backend() -> dict[str, Any]:
    """On the host, as these tests are about memory that NumPy gives."""
    return {"backend": "host"}


@pytest.fixture(autouse=True, scope="module")
def host(backend: dict[str, Any]) -> Iterator[None]:
    """For tests that do not take one of their own."""
    with runtime(**backend):
        yield


class Owned(np.ndarray):
    """A NumPy array that can be watched."""


def owned(count: int) -> Owned:
    array: Owned = np.arange(count + 8, dtype=np.int64).view(Owned)
    return array[(-array.ctypes.data % 64) // 8 :][:count]


class Producer:
    """What speaks DLPack for a NumPy array, and does it oddly if told so."""

    def __init__(self, array: np.ndarray, place: tuple[int, int] = (1, 0)) -> None:
        self.array = array
        self.place = place
        self.asked: list[dict[str, Any]] = []

    def __dlpack__(self, **options: Any) -> Any:
        self.asked.append(options)
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.place


class OldProducer(Producer):
    """One that has not heard of DLPack 1.0."""

    def __dlpack__(self, stream: Any = None) -> Any:  # type: ignore[override]
        return self.array.__dlpack__(stream=stream)


def shareable(array: np.ndarray) -> bool:
    return bool(array.flags.c_contiguous and array.ctypes.data % 16 == 0) or not array.nbytes


@given(data=st.data())
@examples(100)
@pytest.mark.parametrize("kind", [lambda a: a, Producer])
def test_memory_is_shared_where_it_can_be(
    rt: Runtime, views: Any, kind: Any, data: st.DataObject
) -> None:
    array = data.draw(views)
    if not dlpack._KNOWS_VERSION and not array.flags.writeable:
        return
    expected = array.copy()
    x = gs.from_dlpack(kind(array))
    assert (x.shape, x.dtype, x.committed) == (array.shape, array.dtype, False)
    assert np.asarray(x).tobytes() == expected.tobytes()
    if array.nbytes:
        assert (x.unsafe_buffer_pointer() == array.ctypes.data) == shareable(array)
    copied = gs.from_dlpack(kind(array), copy=True)
    assert copied.unsafe_buffer_pointer() != array.ctypes.data
    if shareable(array):
        assert np.asarray(gs.from_dlpack(kind(array), copy=False)).tobytes() == expected.tobytes()
    else:
        with pytest.raises(ArgumentError, match=r"copy=False.*Try: copy=None"):
            gs.from_dlpack(kind(array), copy=False)


def test_the_device_is_chosen_as_by_device_put(rt: Runtime) -> None:
    array = owned(32)
    x = gs.from_dlpack(array, device=gs.devices()[5])
    assert x.committed and x.device is gs.devices()[5]
    assert x.unsafe_buffer_pointer() == array.ctypes.data
    with gs.default_device(gs.devices()[3]):
        y = gs.from_dlpack(array)
    assert not y.committed and y.device is gs.devices()[3]


def test_the_producers_memory_lives_as_long_as_arrays_over_it(rt: Runtime) -> None:
    array = owned(1000)
    watch = weakref.ref(array.base)
    expected = array.copy()
    x = gs.from_dlpack(array)
    y = gs.reshard(x, gs.SingleDeviceSharding(gs.devices()[0]))
    del array, x
    gc.collect()
    assert watch() is not None, "the producer's memory is gone"
    assert np.array_equal(y, expected)
    seen = np.from_dlpack(y)
    del y
    gc.collect()
    assert watch() is not None and np.array_equal(seen, expected)
    del seen
    gc.collect()
    assert watch() is None, "the producer's memory is kept for nothing"


def test_the_producers_memory_is_neither_pooled_nor_written(rt: Runtime) -> None:
    device = gs.devices()[0]
    array = owned(1000)
    gc.collect()
    before = device.memory_stats()
    for _ in range(3):
        x = gs.from_dlpack(array, device=device)
        assert device.memory_stats()["bytes_in_use"] == before["bytes_in_use"], "it is not ours"
        del x
        for _ in range(3):
            other = deferred(gs.device_put(np.zeros(1000, np.int64), device), lambda v: v - 1)
            assert other.block_until_ready().unsafe_buffer_pointer() != array.ctypes.data
            del other
    assert np.array_equal(array, np.arange(array[0], array[0] + 1000))


@pytest.mark.parametrize("seed", seeds(60))
def test_imports_on_any_schedule(seed: int) -> None:
    """Pending copies read the producer's memory after the array over it is gone."""
    made = SimRuntime(Settings(host_devices=4, host_domains=2, small_bytes=0, inline_bytes=0), seed)
    made.sim.failing = 0
    with using(made):
        source, shardings = made.sim.random, random_shardings(made, made.sim.random, 8)
        kept: list[tuple[gs.Array, np.ndarray]] = []
        for _ in range(12):
            array = owned(24).reshape(6, 4)
            expected, watch = array.copy(), weakref.ref(array.base)
            x = gs.from_dlpack(array, device=source.choice(gs.devices()))
            y = deferred(gs.reshard(x, source.choice(shardings)), lambda v: v + 1)
            del array, x
            kept.append((y, expected + 1))
            if len(kept) > 3:
                got, wanted = kept.pop(source.randrange(len(kept)))
                assert np.array_equal(got, wanted)
            del y
        for got, wanted in kept:
            assert np.array_equal(got, wanted)
        kept.clear()
        del got
        check_nothing_left(made)
        assert watch() is None, "the producer's memory is kept for nothing"
        assert not made.checker.races


@pytest.mark.skipif(not dlpack._KNOWS_VERSION, reason="NumPy 2.0 exports nothing read-only")
def test_read_only_producers_are_welcome(rt: Runtime) -> None:
    array = owned(32)
    array.flags.writeable = False
    x = gs.from_dlpack(array)
    assert x.unsafe_buffer_pointer() == array.ctypes.data
    assert np.array_equal(x, array)


def test_producers_from_before_dlpack_1(rt: Runtime) -> None:
    array = owned(32)
    x = gs.from_dlpack(OldProducer(array))
    assert x.unsafe_buffer_pointer() == array.ctypes.data


def test_arrays_of_our_own(rt: Runtime) -> None:
    x = deferred(gs.device_put(np.arange(8.0)), lambda v: v + 1)
    y = gs.from_dlpack(x)
    assert y.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    del x
    assert np.array_equal(y, np.arange(8.0) + 1)


def test_memory_that_was_handed_out_may_come_back(rt: Runtime) -> None:
    """The checker knows whose memory it is, and that it is on loan: work on it is no race."""
    x = gs.device_put(np.arange(8.0))
    back = gs.from_dlpack(np.from_dlpack(x))
    assert back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    del x
    turned = back[::-1]
    del back
    assert np.array_equal(turned, np.arange(8.0)[::-1])


def test_memory_on_another_kind_of_device_is_refused_with_both_names(rt: Runtime) -> None:
    producer = Producer(owned(8), (2, 1))
    with pytest.raises(ArgumentError, match=r"\(2, 1\) \(CUDA\).*\(1, 0\) \(CPU\).*copy x to the"):
        gs.from_dlpack(producer)
    assert not producer.asked, "it was asked for data that nobody can read"


def test_capsules_are_refused(rt: Runtime) -> None:
    capsule = owned(8).__dlpack__()
    with pytest.raises(ArgumentTypeError, match=r"capsule.*pass the array"):
        gs.from_dlpack(capsule)


def test_a_capsule_serves_once(rt: Runtime) -> None:
    class Miser(Producer):
        def __init__(self, array: np.ndarray) -> None:
            super().__init__(array)
            self.capsule = array.__dlpack__()

        def __dlpack__(self, **_: Any) -> Any:
            return self.capsule

    miser = Miser(owned(8))
    x = gs.from_dlpack(miser)
    with pytest.raises(ArgumentError, match="capsule that was used before"):
        gs.from_dlpack(miser)
    assert np.array_equal(x, miser.array)


def test_what_gives_no_capsule_is_refused(rt: Runtime) -> None:
    class Liar(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            return [1, 2]

    with pytest.raises(ArgumentTypeError, match="Liar gave a list"):
        gs.from_dlpack(Liar(owned(8)))


def test_what_the_producer_raises_comes_through(rt: Runtime) -> None:
    class Reluctant(Producer):
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("mine")

    with pytest.raises(BufferError, match=r"^mine$"):
        gs.from_dlpack(Reluctant(owned(8)))


@pytest.mark.parametrize("x", [[1.0], 3, np.float64(1.0), "text"])
def test_what_does_not_speak_dlpack(x: Any) -> None:
    if hasattr(x, "__dlpack__"):
        return
    with pytest.raises(ProtocolError, match="use device_put"):
        gs.from_dlpack(x)
    with pytest.raises(AttributeError):
        gs.from_dlpack(x)


def test_guards_hear_of_it() -> None:
    guard = gs.transfer_guard("disallow_explicit")
    with runtime(backend="host"), guard, pytest.raises(TransferGuardError):
        gs.from_dlpack(owned(8))


def test_arrays_of_our_own_go_where_they_are_asked_to(rt: Runtime) -> None:
    x = gs.device_put(np.arange(4.0), rt.devices[1])
    with pytest.raises(ArgumentError, match="copy=False"):
        gs.from_dlpack(x, device=rt.devices[0], copy=False)
    for copy in (None, True):
        made = gs.from_dlpack(x, device=rt.devices[0], copy=copy)
        assert made.device == rt.devices[0]
        assert made.tolist() == x.tolist()
    assert gs.from_dlpack(x, device=x.device, copy=False).device == x.device
