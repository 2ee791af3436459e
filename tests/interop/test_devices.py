"""Exports and imports on a backend that poses as GPUs: who is asked for what, in which order."""

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.host.dlpack import read
from gpushard._runtime.host.keep_alive import writable
from gpushard._runtime.item import Item
from gpushard._runtime.runtime import Runtime
from gpushard._runtime.stream import Stream
from gpushard.config import Settings
from gpushard.errors import ArgumentError, ExecutionError, ExportError, ProtocolError
from gpushard.interop.exports import place_name
from gpushard.testing import deferred
from gpushard.testing.runtime import using
from gpushard.testing.sim import SimBackend
from tests.share import seeds

CUDA = 2


class Lent:
    """An array of the posed library."""

    def __init__(self, backend: "Posed", array: np.ndarray, owner: Any, foreign: bool) -> None:
        self.backend, self.array, self.owner, self.foreign = backend, array, owner, foreign

    def __dlpack__(self, **options: Any) -> Any:
        self.backend.log.append(("capsule", options, self.backend.now))
        return self

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        data = (self.array.ctypes.data, False)
        return {"version": 3, "shape": self.array.shape, "data": data, "stream": self.backend.now}


class Posed(SimBackend):
    """Two cards of two devices each."""

    platform = "gpu"

    def __init__(self, settings: Settings, seed: int) -> None:
        super().__init__(settings, seed, exact=True, host_readable=False)
        self.failing = 0
        self.log: list[tuple[Any, ...]] = []
        self.now: Stream | None = None

    def dlpack_device(self, domain: int) -> tuple[int, int]:
        return CUDA, domain

    def lend(self, array: Any, owner: Any, *, consumer: int | None = None) -> Any:
        return Lent(self, array, owner, consumer is not None)

    def borrow(self, producer: Any, domain: int, stream: Stream) -> Any:
        self.log.append(("borrow", domain, stream.issued))
        return producer.array

    def follow(self, consumer: int | None, ticks: Any, domain: int) -> None:
        self.log.append(("follow", consumer, list(ticks), domain))

    @contextlib.contextmanager
    def on_stream(self, stream: Stream, tick: int) -> Iterator[None]:
        self.log.append(("on_stream", stream, tick))
        self.now = stream
        yield
        self.now = None


@pytest.fixture
def seed() -> int:
    return 5


@pytest.fixture
def posed(seed: int) -> Iterator[Posed]:
    chosen = Settings(host_devices=4, host_domains=2, small_bytes=0, inline_bytes=0)
    backend = Posed(chosen, seed)
    backend.schedule._progress = 0  # nothing runs before somebody waits
    with using(Runtime(chosen, backend)):
        yield backend


def pending(device: int = 2) -> gs.Array:
    """An array that a device's stream is still to write."""
    x = gs.device_put(np.arange(8.0), gs.devices()[device])
    return deferred(x, lambda v: v + 1)


def written(x: gs.Array) -> Any:
    return x._live().claims[0].memory.written


@pytest.mark.parametrize(("stream", "consumer"), [(None, 1), (1, 1), (2, 2), (0xBEEF0, 0xBEEF0)])
def test_the_consumers_stream_waits_for_the_content(
    posed: Posed, stream: Any, consumer: int
) -> None:
    x = pending()
    assert x.__dlpack_device__() == (CUDA, 1)
    lent = x.__dlpack__(stream=stream, max_version=(1, 1))
    options = {"stream": -1, "max_version": (1, 1)}
    assert posed.log == [("follow", consumer, [written(x)], 1), ("capsule", options, None)]
    assert not x.is_ready(), "the host waited"
    assert lent.owner is x._live().claims[0], "the memory is not kept"
    assert lent.foreign, "the consumer's work may outlast the memory"
    x.__dlpack__(stream=stream, dl_device=(CUDA, 1))
    assert len(posed.log) == 4


def test_a_consumer_that_wants_no_order_gets_none(posed: Posed) -> None:
    pending().__dlpack__(stream=-1)
    assert [entry[0] for entry in posed.log] == ["capsule"]


def test_a_copy_is_memory_of_its_own(posed: Posed) -> None:
    x = pending()
    lent = x.__dlpack__(stream=2, copy=True)
    (_, consumer, (tick,), domain), (_, options, _) = posed.log
    assert lent.foreign and (consumer, domain) == (2, 1)
    assert options == {"stream": -1, "max_version": None}
    assert tick != written(x) and not x.is_ready()
    stats = gs.devices()[2].memory_stats()
    assert (stats["num_allocs"], stats["bytes_in_use"]) == (3, 128), "the copy is not counted"
    tick[0].synchronize(tick[1])
    assert np.array_equal(lent.array, x)
    lent.array[:] = 7  # the consumer's own
    assert np.array_equal(x, np.arange(8.0) + 1)
    del lent
    assert gs.devices()[2].memory_stats()["bytes_in_use"] == 64


def test_a_copy_without_order_is_there(posed: Posed) -> None:
    x = pending()
    x.__dlpack__(stream=-1, copy=True)
    assert [entry[:2] for entry in posed.log[:1]] == [("follow", None)]


@pytest.mark.parametrize("stream", [0, -2, True, "1", 1.0])
def test_streams_that_the_standard_does_not_know(posed: Posed, stream: Any) -> None:
    with pytest.raises(ArgumentError, match=r"stream=.*None, -1, 1, 2"):
        pending().__dlpack__(stream=stream)


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.1.0", reason="NumPy 2.0 has no device")
def test_the_cpu_gets_a_copy(posed: Posed) -> None:
    x = pending()
    assert np.array_equal(np.from_dlpack(x, device="cpu"), np.arange(8.0) + 1)
    with pytest.raises(ExportError, match=r"\(1, 0\) \(CPU\) with copy=False.*\(2, 1\) \(CUDA\)"):
        x.__dlpack__(dl_device=(1, 0), copy=False)
    with pytest.raises(ExportError):
        x.__dlpack__(dl_device=(CUDA, 0))


def test_the_cuda_array_interface_names_the_stream_of_the_content(posed: Posed) -> None:
    x = pending()
    interface = x.__cuda_array_interface__
    assert interface["data"] == (x.unsafe_buffer_pointer(), False), (
        "PyTorch takes no read-only data"
    )
    assert interface["stream"] is written(x)[0] and not x.is_ready()
    lent = weakref.ref(x._live().lent)
    assert x._live().lent.foreign
    assert x.__cuda_array_interface__["shape"] == (8,) and x._live().lent is lent()
    settled = gs.device_put(np.arange(3), gs.devices()[0])
    stream = settled.__cuda_array_interface__["stream"]
    assert stream is (written(settled)[0] if written(settled) else None)
    x.delete()
    assert lent() is None


def test_a_deleted_array_has_no_cuda_array_interface(posed: Posed) -> None:
    x = gs.device_put(np.arange(8.0), gs.devices()[0])
    assert hasattr(x, "__cuda_array_interface__")
    x.delete()
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(ProtocolError, match="was deleted or donated"):
        _ = x.__cuda_array_interface__


def test_several_shards_have_no_cuda_array_interface(posed: Posed) -> None:
    x = gs.device_put(np.arange(8), gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
    assert not hasattr(x, "__cuda_array_interface__")
    with pytest.raises(ProtocolError, match=r"4 shards.*addressable_data"):
        _ = x.__cuda_array_interface__


def test_content_that_is_known_to_have_failed(posed: Posed) -> None:
    x = deferred(gs.device_put(np.arange(8.0)), lambda v: v, error=ValueError("planned"))
    gs.devices()[0].synchronize()
    for call in (x.__dlpack__, lambda: x.__dlpack__(copy=True)):
        with pytest.raises(ExecutionError, match="planned"):
            call()
    y = deferred(gs.device_put(np.arange(8.0)), lambda v: v, error=ValueError("planned"))
    gs.devices()[0].synchronize()
    with pytest.raises(ExecutionError, match="planned"):
        _ = y.__cuda_array_interface__


class OnCard:
    """A producer on a card."""

    def __init__(self, array: np.ndarray, index: int) -> None:
        self.array, self.index = array, index

    def __dlpack__(self, **_: Any) -> Any:
        raise AssertionError("the backend does this")

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, self.index


def test_memory_of_a_card_is_borrowed_in_stream_order(posed: Posed) -> None:
    array = np.arange(64.0)[1:][: 32 - 1].copy()
    x = gs.from_dlpack(OnCard(array, 1))
    assert posed.log == [("borrow", 1, 0)]
    assert x.device is gs.devices()[2] and not x.committed
    assert x.unsafe_buffer_pointer() == array.ctypes.data
    assert written(x) == (gs.devices()[2].stream, 1)
    y = gs.reshard(x, gs.SingleDeviceSharding(gs.devices()[0]))
    assert np.array_equal(y, array)


@pytest.mark.parametrize("part", [slice(1, 9), slice(0, 16, 2)], ids=["unaligned", "strided"])
def test_memory_that_cannot_be_shared_is_copied_on_the_card(posed: Posed, part: slice) -> None:
    root = np.zeros(40, np.int64)
    array = root[(-root.ctypes.data % 16) // 8 :][:32]
    array[:] = range(32)
    producer = OnCard(array[part], 1)
    device = gs.devices()[3]
    with pytest.raises(ArgumentError, match="copy=False"):
        gs.from_dlpack(producer, copy=False)
    for x in (
        gs.from_dlpack(producer, device=device),
        gs.from_dlpack(OnCard(array, 1), device=device, copy=True),
    ):
        assert x.committed and x.device is device
        expected = array[part] if x.size == 8 else array
        assert np.array_equal(x, expected)
        assert x.unsafe_buffer_pointer() != array.ctypes.data
    assert device.memory_stats()["bytes_in_use"] == 256


def test_memory_of_another_card_is_refused(posed: Posed) -> None:
    with pytest.raises(ArgumentError, match=r"\(2, 1\) \(CUDA\).*GpuDevice\(id=0\).*\(2, 0\)"):
        gs.from_dlpack(OnCard(np.arange(4), 1), device=gs.devices()[0])
    with pytest.raises(ArgumentError, match=r"\(10, 0\) \(ROCm\)"):
        gs.from_dlpack(type("Rocm", (OnCard,), {"__dlpack_device__": lambda s: (10, 0)})(0, 0))


def test_host_memory_is_copied_to_the_card(posed: Posed) -> None:
    array = np.arange(32.0)
    x = gs.from_dlpack(array)
    array[:] = -1
    assert np.array_equal(x, np.arange(32.0))
    with pytest.raises(ArgumentError, match=r"copy=False.*\(1, 0\) \(CPU\).*\(2, 0\) \(CUDA\)"):
        gs.from_dlpack(array, copy=False)


def launch(backend: Posed, run: Callable[[], Any]) -> None:
    """Do what a kernel launch does: put work on the current stream, of which nobody keeps count."""
    stream = backend.now
    assert stream is not None
    stream.issued += 1
    backend.enqueue(Item("kernel", run, stream, stream.issued))


@pytest.mark.parametrize("seed", seeds(10))
def test_map_shards_runs_on_the_devices_streams(posed: Posed) -> None:
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    value = np.arange(400.0)
    x = deferred(gs.device_put(value, sharding), lambda v: v + 1)
    streams = []

    def f(a: Any, out: Any) -> None:
        assert isinstance(a, Lent) and isinstance(out, Lent)
        assert not a.foreign and not out.foreign, "memory is kept for longer than need be"
        streams.append(posed.now)
        source, target = a.array, out.array
        launch(posed, lambda: np.copyto(target, source * 2))

    y = gs.map_shards(f, x, out=gs.ShapeDtypeStruct((400,), np.float64))
    assert streams == [device.stream for device in gs.devices()]
    assert not y.is_ready(), "the host waited"
    del x  # its memory may be had again once the kernels have read it, not before
    for _, stream, tick in posed.log:
        stream.synchronize(tick)
    gs.device_put(value * 0 - 1, sharding)
    moved = gs.reshard(y, gs.SingleDeviceSharding(gs.devices()[0]))
    assert np.array_equal(moved, (value + 1) * 2), "somebody did not wait for the kernels"


@pytest.mark.parametrize("seed", seeds(10))
def test_what_a_function_launched_before_it_raised_is_waited_for(posed: Posed) -> None:
    x = gs.device_put(np.arange(100.0), gs.devices()[0])
    ran = []

    def f(a: Any, out: Any) -> None:
        launch(posed, lambda: ran.append(1))
        raise ValueError("mine")

    with pytest.raises(ExecutionError, match="mine"):
        gs.map_shards(f, x, out=gs.ShapeDtypeStruct((100,), np.float64))
    assert not ran
    memory = x._live().claims[0].memory
    for stream, tick in memory.used.items():
        stream.synchronize(tick)
    assert ran, "whoever overwrites the input does not wait for the kernel"


def test_helpers_leave_other_libraries_alone() -> None:
    lent = object()
    assert writable(lent) is lent
    array = np.arange(3)
    assert writable(array) is array
    array.flags.writeable = False
    writable(array)[0] = 7
    assert array[0] == 7
    assert read(np.arange(3)).tolist() == [0, 1, 2]


def test_places_are_named_as_in_dlpack() -> None:
    """`DLDeviceType` of dlpack.h, for messages."""
    names = ["unknown", "CPU", "CUDA", "pinned host memory", *["unknown"] * 3, "Vulkan", "Metal"]
    names += ["unknown", "ROCm", *["unknown"] * 2, "managed CUDA memory", "oneAPI", "unknown"]
    for kind, name in enumerate(names):
        assert place_name((kind, 3)) == f"({kind}, 3) ({name})"
