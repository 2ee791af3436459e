"""The software GPU itself: it computes what CUDA would, and notices what CUDA would not forgive.

These tests run with `--softgpu` only; each is a process of its own, with devices of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from tests.softgpu.run import is_active

pytestmark = pytest.mark.skipif(not is_active(), reason="only with pytest --softgpu")

PRELUDE = """
import ctypes
import cupy
import numpy as np
from cupy.cuda import runtime
from tests.softgpu import counters
"""


def start(script: str, **environment: object) -> subprocess.CompletedProcess[str]:
    """Run a script on a software GPU that works as the variables SOFTGPU_* say."""
    own = {name: value for name, value in os.environ.items() if name != "SOFTGPU_SEED"}
    own.update({f"SOFTGPU_{name.upper()}": str(value) for name, value in environment.items()})
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=own,
        check=False,
    )


def passes(script: str, **environment: object) -> None:
    """Run a script, which must end well."""
    done = start(script, **environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_threads_of_a_block_wait_for_each_other_and_exchange_values() -> None:
    passes("""
        code = r'''
        extern "C" __global__ void turn(const int* from, int* to) {
          __shared__ int shared[96];
          const int n = threadIdx.x;
          shared[n] = from[n];
          __syncthreads();
          int value = shared[95 - n];
          value += __shfl_xor_sync(0xffffffffu, value, 1);
          value += __shfl_down_sync(0xffffffffu, value, 2);
          if (__ballot_sync(0xffffffffu, n % 2) != 0xaaaaaaaau) value = -1;
          to[n] = value;
        }'''
        x = np.arange(96, dtype=np.int32) ** 2
        y = cupy.zeros(96, np.int32)
        cupy.RawKernel(code, "turn")((1,), (96,), (cupy.asarray(x), y))
        v = x[::-1]
        lane = np.arange(96) % 32
        v = v + v[np.arange(96) ^ 1]
        v = v + np.where(lane < 30, np.roll(v, -2), v)
        assert np.array_equal(y.get(), v)
    """)


def test_dynamic_shared_memory_and_templates() -> None:
    passes("""
        code = r'''
        template <typename T> __global__ void reverse(T* data) {
          extern __shared__ char bytes[];
          T* shared = reinterpret_cast<T*>(bytes);
          shared[threadIdx.x] = data[threadIdx.x];
          __syncthreads();
          data[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
        }'''
        names = ["reverse<float>", "reverse<long long>"]
        module = cupy.RawModule(code=code, options=("-std=c++17",), name_expressions=names)
        for name, dtype in zip(names, (np.float32, np.int64)):
            x = cupy.arange(50, dtype=dtype)
            module.get_function(name)((1,), (50,), (x,), shared_mem=50 * x.itemsize)
            assert np.array_equal(x.get(), np.arange(50, dtype=dtype)[::-1])
    """)


def test_a_seed_makes_streams_late_and_waits_bring_the_results() -> None:
    passes(
        """
        pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.int32, 16)
        late = 0
        for turn in range(20):
            pinned[...] = -1
            a, b = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            with a:
                x = cupy.full(16, turn, np.int32)
                event = a.record()
            b.wait_event(event)
            x.data.copy_to_host_async(ctypes.c_void_p(pinned.ctypes.data), 64, b)
            late += int(pinned[0] == -1)
            b.synchronize()
            assert (pinned == turn).all()
        assert late > 10, late
        """,
        seed=3,
    )


def test_without_a_seed_work_runs_at_once() -> None:
    passes("""
        pinned = np.frombuffer(cupy.cuda.alloc_pinned_memory(64), np.int32, 16)
        x = cupy.full(16, 5, np.int32)
        x.data.copy_to_host_async(
            ctypes.c_void_p(pinned.ctypes.data), 64, cupy.cuda.get_current_stream())
        assert (pinned == 5).all()
    """)


def test_streams_that_are_not_ordered_may_pass_each_other() -> None:
    script = """
        x = cupy.zeros(1, np.int32)
        runtime.deviceSynchronize()
        found = set()
        for _ in range(30):
            for value in (1, 2):
                with cupy.cuda.Stream(non_blocking=True):
                    x.fill(value)
            runtime.deviceSynchronize()
            found.add(int(x.get()[0]))
        assert found == EXPECTED, found
    """
    passes(script.replace("EXPECTED", "{1, 2}"), seed=1)
    passes(script.replace("EXPECTED", "{2}"))


def test_what_is_asked_of_cuda_is_counted() -> None:
    passes("""
        x = cupy.arange(1000.0)
        kernel = cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
        kernel((1,), (1,), ())
        before = counters.read()
        kernel((1,), (1,), ())
        kernel((1,), (1,), ())
        y = cupy.empty_like(x)
        y.data.copy_from_device(x.data, x.nbytes)
        x.get()
        runtime.deviceSynchronize()
        event = runtime.eventCreate()
        runtime.eventRecord(event, 0)
        runtime.streamWaitEvent(0, event)
        runtime.memset(x.data.ptr, 0, 16)
        found = counters.read() - before
        assert found["launches"] == 2
        assert found["copies_on_device"] == 1 and found["bytes_on_device"] == 8000
        assert found["copies_device_to_host"] == 1 and found["bytes_device_to_host"] == 8000
        assert found["host_waits"] >= 2
        assert found["events_created"] == found["events_recorded"] == found["events_waited"] == 1
        assert found["memsets"] == 1
        assert 0 < found["driver_ns"] < 10**9
    """)


def test_the_host_cannot_touch_device_memory_unnoticed() -> None:
    script = """
        x = cupy.arange(10)
        runtime.deviceSynchronize()
        print("guarded", counters.is_guarded(), flush=True)
        print(np.ctypeslib.as_array(ctypes.cast(x.data.ptr, ctypes.POINTER(ctypes.c_int64)), (10,)))
    """
    done = start(script)
    if "guarded False" in done.stdout:
        pytest.skip("this CPU has no protection keys")
    assert done.returncode < 0 and "the host touched the memory of a GPU" in done.stderr
    passes(script, guard=0)


@pytest.mark.parametrize(
    ("work", "error"),
    [
        ("*reinterpret_cast<int*>(64) = 1;", "cudaErrorIllegalAddress"),
        ("p[3] = 1;", "cudaErrorIllegalAddress"),
        ("__trap();", "cudaErrorLaunchFailure"),
        ("assert(p == nullptr);", "cudaErrorAssert"),
    ],
)
def test_an_error_of_a_kernel_stays(work: str, error: str) -> None:
    passes(f"""
        kernel = cupy.RawKernel('extern "C" __global__ void wild(int* p) {{ {work} }}', "wild")
        start = runtime.malloc(4096)
        end = start + 4096 if "[3]" in {work!r} else start
        kernel((1,), (1,), (np.uint64(end),))
        for call in (
            runtime.deviceSynchronize,
            lambda: runtime.malloc(16),
            lambda: runtime.free(start),
            lambda: runtime.streamSynchronize(0),
            lambda: kernel((1,), (1,), (np.uint64(0),)),
        ):
            try:
                call()
            except Exception as raised:
                assert {error!r} in str(raised), raised
            else:
                raise AssertionError(call)
    """)


def test_what_was_freed_cannot_be_used() -> None:
    passes("""
        start = runtime.malloc(64)
        runtime.free(start)
        kernel = cupy.RawKernel('extern "C" __global__ void set(int* p) { *p = 1; }', "set")
        kernel((1,), (1,), (np.uint64(start),))
        try:
            runtime.deviceSynchronize()
        except runtime.CUDARuntimeError as error:
            assert "cudaErrorIllegalAddress" in str(error)
        else:
            raise AssertionError
    """)


def test_a_write_past_the_end_is_found_when_the_memory_goes() -> None:
    passes("""
        start = runtime.malloc(100)
        kernel = cupy.RawKernel('extern "C" __global__ void set(char* p) { p[100] = 1; }', "set")
        kernel((1,), (1,), (np.uint64(start),))
        try:
            runtime.free(start)
        except runtime.CUDARuntimeError as error:
            assert "cudaErrorIllegalAddress" in str(error)
        else:
            raise AssertionError
    """)


def test_memory_of_a_gpu_is_another_ones_with_peer_access_only() -> None:
    done = start(
        """
        assert runtime.getDeviceCount() == 2
        runtime.setDevice(1)
        start = runtime.malloc(64)
        print("guarded", counters.is_guarded(), flush=True)
        runtime.setDevice(0)
        kernel = cupy.RawKernel('extern "C" __global__ void set(int* p) { *p = 1; }', "set")
        runtime.deviceEnablePeerAccess(1)
        kernel((1,), (1,), (np.uint64(start),))
        runtime.deviceSynchronize()
        runtime.deviceDisablePeerAccess(1)
        kernel((1,), (1,), (np.uint64(start),))
        runtime.deviceSynchronize()
        """,
        devices=2,
    )
    if "guarded False" in done.stdout:
        pytest.skip("this CPU has no protection keys")
    assert done.returncode == 1 and "cudaErrorIllegalAddress" in done.stderr


def test_gpus_without_peers_refuse_access_and_copy() -> None:
    passes(
        """
        assert not runtime.deviceCanAccessPeer(0, 1)
        try:
            runtime.deviceEnablePeerAccess(1)
        except runtime.CUDARuntimeError as error:
            assert "cudaErrorPeerAccessUnsupported" in str(error)
        else:
            raise AssertionError
        x = cupy.arange(10)
        before = counters.read()
        with cupy.cuda.Device(1):
            y = cupy.empty(10, x.dtype)
            y.data.copy_from_device(x.data, x.nbytes)
            assert np.array_equal(y.get(), np.arange(10))
        assert (counters.read() - before)["copies_between_devices"] == 1
        """,
        devices=2,
        peers=0,
    )


def test_work_and_events_belong_to_the_device_of_their_stream() -> None:
    passes(
        """
        kernel = cupy.RawKernel('extern "C" __global__ void nothing() {}', "nothing")
        stream = runtime.streamCreate()
        event = runtime.eventCreate()
        runtime.setDevice(1)
        other = runtime.streamCreate()
        for call in (
            lambda: kernel((1,), (1,), (), stream=cupy.cuda.ExternalStream(stream)),
            lambda: runtime.eventRecord(event, other),
        ):
            try:
                call()
            except Exception as error:
                assert "InvalidResourceHandle" in str(error), error
            else:
                raise AssertionError(call)
        runtime.eventRecord(event, stream)
        runtime.streamWaitEvent(other, event)  # across devices this is allowed
        """,
        devices=2,
    )


def test_memory_runs_out() -> None:
    passes(
        """
        runtime.malloc(600)
        assert runtime.memGetInfo() == (400, 1000)
        try:
            runtime.malloc(401)
        except runtime.CUDARuntimeError as error:
            assert "cudaErrorMemoryAllocation" in str(error)
        else:
            raise AssertionError
        """,
        memory=1000,
    )


def test_new_memory_holds_poison() -> None:
    passes("""
        start = runtime.malloc(64)
        x = np.zeros(64, np.uint8)
        runtime.memcpy(x.ctypes.data, start, 64, runtime.memcpyDeviceToHost)
        assert (x == 0xA5).all()
    """)


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D", "?", "b", "Q"])
def test_sorts(dtype: str) -> None:
    passes(f"""
        random = np.random.default_rng(0)
        x = random.integers(0, 9, (5, 40)).astype({dtype!r})
        if x.dtype.kind in "fc":
            x[random.random(x.shape) < 0.2] = np.nan
        for axis in (0, 1):
            order = cupy.argsort(cupy.asarray(x), axis=axis).get()
            assert np.array_equal(order, np.argsort(x, axis=axis, kind="stable"))
            equal_nan = x.dtype.kind in "fc"
            sorted_ = cupy.sort(cupy.asarray(x), axis=axis).get()
            assert np.array_equal(sorted_, np.sort(x, axis=axis), equal_nan=equal_nan)
        if x.dtype.kind != "c":
            order = cupy.lexsort(cupy.asarray(x)).get()
            assert np.array_equal(order, np.lexsort(x))
    """)


def test_one_row_of_floats_is_sorted_by_bits() -> None:
    passes("""
        x = cupy.asarray([1.0, np.nan, -np.inf, -np.nan, -0.0, 0.0])
        bits = cupy.sort(x).get()
        assert np.isnan(bits[[0, -1]]).all() and np.signbit(bits[0])  # Thrust sorts by radix
        assert bits[1] == -np.inf and list(np.signbit(bits[2:4])) == [True, False]
    """)


@pytest.mark.parametrize("dtype", ["f", "d", "F", "D"])
def test_linear_algebra_is_lapacks(dtype: str) -> None:
    passes(f"""
        random = np.random.default_rng(0)

        def make(*shape):
            x = random.normal(size=shape) + 1j * random.normal(size=shape)
            return (x if {dtype!r} in "FD" else x.real).astype({dtype!r})

        tolerance = 1e-3 if {dtype!r} in "fF" else 1e-9
        for batch in ((), (3,)):
            a, b = make(*batch, 5, 5), make(*batch, 5, 2)
            positive = a @ a.conj().swapaxes(-1, -2) + np.eye(5, dtype={dtype!r})
            tall = make(*batch, 6, 4)
            linalg = cupy.linalg
            for found, expected in (
                (linalg.solve(cupy.asarray(a), cupy.asarray(b)), np.linalg.solve(a, b)),
                (linalg.inv(cupy.asarray(a)), np.linalg.inv(a)),
                (linalg.det(cupy.asarray(a)), np.linalg.det(a)),
                (linalg.cholesky(cupy.asarray(positive)), np.linalg.cholesky(positive)),
                (linalg.eigvalsh(cupy.asarray(positive)), np.linalg.eigvalsh(positive)),
                (linalg.svd(cupy.asarray(tall), compute_uv=False),
                 np.linalg.svd(tall, compute_uv=False)),
            ):
                assert np.allclose(found.get(), expected, tolerance, tolerance)
            for full in (False, True):
                u, s, vh = (x.get() for x in linalg.svd(cupy.asarray(tall), full_matrices=full))
                assert np.allclose(u[..., :4] * s[..., None, :] @ vh, tall, 0, tolerance)
            q, r = (x.get() for x in linalg.qr(cupy.asarray(tall)))
            assert np.allclose(q @ r, tall, 0, tolerance)
            w, v = (x.get() for x in linalg.eigh(cupy.asarray(positive)))
            assert np.allclose(positive @ v, v * w[..., None, :], 0, 10 * tolerance)
            w, v = (x.get() for x in linalg.eig(cupy.asarray(a)))
            assert np.allclose(a @ v, v * w[..., None, :], 0, 10 * tolerance)
    """)


@pytest.mark.parametrize("dtype", ["e", "f", "d", "F", "D", "i"])
def test_products(dtype: str) -> None:
    passes(f"""
        random = np.random.default_rng(0)
        for left, right in (((4, 3), (3, 5)), ((2, 4, 3), (2, 3, 5)), ((3,), (3,)), ((4, 3), (3,))):
            a, b = (random.integers(-9, 9, s).astype({dtype!r}) for s in (left, right))
            found = cupy.asarray(a) @ cupy.asarray(b)
            assert np.array_equal(found.get(), a @ b)
            assert np.array_equal((cupy.asarray(a.T).T @ cupy.asarray(b)).get(), a @ b)
    """)


@pytest.mark.parametrize("dtype", ["f", "d"])
def test_transforms(dtype: str) -> None:
    passes(f"""
        random = np.random.default_rng(0)
        tolerance = 1e-3 if {dtype!r} == "f" else 1e-9
        for shape in ((7,), (3, 8), (2, 5, 6)):
            x = random.normal(size=shape).astype({dtype!r})
            z = x + 1j * x[..., ::-1]
            g, c = cupy.asarray(x), cupy.asarray(z)
            for found, expected in (
                (cupy.fft.fft(c), np.fft.fft(z)),
                (cupy.fft.ifft(c, axis=0), np.fft.ifft(z, axis=0)),
                (cupy.fft.rfft(g), np.fft.rfft(x)),
                (cupy.fft.irfft(c, x.shape[-1]), np.fft.irfft(z, x.shape[-1])),
                (cupy.fft.fftn(c), np.fft.fftn(z)),
                (cupy.fft.rfftn(g), np.fft.rfftn(x)),
                (cupy.fft.irfftn(cupy.fft.rfftn(g), x.shape), x),
            ):
                assert np.allclose(found.get(), expected, tolerance, tolerance)
    """)


NCCL = """
from cupy.cuda import nccl

ranks = nccl.NcclCommunicator.initAll([0, 1])
streams, data = [], []
for gpu in range(2):
    with cupy.cuda.Device(gpu):
        streams.append(cupy.cuda.Stream(non_blocking=True))
        with streams[gpu]:
            data.append(cupy.arange(8) + 10 * gpu)

def send(gpu, peer, start, count):
    ranks[gpu].send(data[gpu].data.ptr + 8 * start, count, nccl.NCCL_INT64, peer, streams[gpu].ptr)

def receive(gpu, peer, start, count):
    ranks[gpu].recv(data[gpu].data.ptr + 8 * start, count, nccl.NCCL_INT64, peer, streams[gpu].ptr)

def refused():
    try:
        nccl.groupEnd()
    except nccl.NcclError as error:
        return str(error)
    raise AssertionError("it was sent")
"""


@pytest.mark.parametrize("seed", [None, 0, 1, 2, 3])
def test_messages_of_a_group_go_both_ways_in_the_order_of_streams(seed: int | None) -> None:
    later = {} if seed is None else {"seed": seed}
    script = """
        before = counters.read()
        nccl.groupStart()
        send(0, 1, 0, 2)
        receive(0, 1, 6, 1)
        receive(1, 0, 4, 2)
        send(0, 1, 3, 1)
        receive(1, 0, 0, 1)
        send(1, 0, 7, 1)
        nccl.groupEnd()
        for gpu in range(2):
            with cupy.cuda.Device(gpu), streams[gpu]:
                data[gpu] *= 2  # after what was sent was read, and what comes has come
        made = counters.read() - before
        assert (made["messages"], made["bytes_of_messages"]) == (3, 32)
        for gpu, expected in enumerate(([0, 1, 2, 3, 4, 5, 17, 7], [3, 11, 12, 13, 0, 1, 16, 17])):
            streams[gpu].synchronize()
            assert data[gpu].tolist() == [2 * n for n in expected], data
        for rank in ranks:
            rank.destroy()
        made = counters.read()
        assert made["communicators_made"] == made["communicators_released"] == 2
    """
    passes(NCCL + textwrap.dedent(script), devices=2, peers=0, **later)


def test_messages_that_would_hang_are_refused_and_nothing_is_sent() -> None:
    script = """
        for calls in (
            [(send, 0, 1, 0, 2)],
            [(receive, 1, 0, 0, 2)],
            [(send, 0, 1, 0, 2), (receive, 1, 0, 0, 1)],
            [(send, 0, 1, 0, 2), (receive, 1, 0, 0, 2), (receive, 1, 0, 4, 2)],
            [(send, 0, 1, 0, 2), (send, 1, 0, 0, 2)],
        ):
            nccl.groupStart()
            for call, *numbers in calls:
                call(*numbers)
            assert "INVALID_USAGE" in refused()
        nccl.groupStart()
        send(0, 1, 7, 2)  # beyond the allocation's first 512 bytes at the latest
        send(0, 1, 60, 9)
        receive(1, 0, 0, 2)
        receive(1, 0, 60, 9)
        assert "UNHANDLED_CUDA_ERROR" in refused()
        assert not counters.read()["messages"]
        try:
            nccl.NcclCommunicator.initAll([0, 0])
        except nccl.NcclError as error:
            assert "INVALID_USAGE" in str(error)
        else:
            raise AssertionError("one GPU as two ranks")
    """
    passes(NCCL + textwrap.dedent(script), devices=2)


def test_what_has_begun_when_a_group_fails_ends_when_it_is_aborted() -> None:
    script = """
        ctypes.CDLL("libnccl.so.2").softgpu_fail_nccl(b"end", 0)
        nccl.groupStart()
        send(0, 1, 0, 2)
        receive(1, 0, 0, 2)
        assert "SYSTEM_ERROR" in refused()
        with cupy.cuda.Device(1):
            event = streams[1].record()
        assert not event.done
        for rank in ranks:
            rank.abort()
        streams[1].synchronize()
        assert event.done
    """
    passes(NCCL + textwrap.dedent(script), devices=2)


def test_a_forked_child_is_told() -> None:
    passes("""
        import os
        cupy.zeros(1)
        child = os.fork()
        if child == 0:
            try:
                runtime.getDeviceCount()
            except runtime.CUDARuntimeError as error:
                os._exit(0 if "cudaErrorInitializationError" in str(error) else 1)
            os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    """)


def test_what_is_not_there_says_so() -> None:
    done = start("runtime.deviceGetDefaultMemPool(0)")
    assert done.returncode == 1
    assert "cudaDeviceGetDefaultMemPool is not there" in done.stderr
    assert "cudaErrorNotSupported" in done.stderr


CAPTURE = """
    code = r'''
    extern "C" __global__ void twice(int* x) { x[threadIdx.x] *= 2; }
    '''
    twice = cupy.RawKernel(code, "twice")
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    x = cupy.ones(4, np.int32)
    twice((1,), (4,), (x,))  # compiled
    cupy.cuda.Device().synchronize()


    def launch(to=stream):
        with to:
            twice((1,), (4,), (x,))


    def refused(status, function):
        try:
            function()
        except (runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
            assert error.status == status, (error.status, status)
        else:
            raise AssertionError(f"no error {status}")


    asked = runtime.check_status
    relaxed, local = runtime.streamCaptureModeRelaxed, runtime.streamCaptureModeThreadLocal
    everywhere = runtime.streamCaptureModeGlobal
"""


@pytest.mark.parametrize("seed", [None, 0, 1])
def test_what_streams_note_becomes_a_graph_that_one_call_launches(seed: int | None) -> None:
    passes(
        CAPTURE
        + """
    stream.begin_capture()
    before = counters.read()
    launch()
    runtime.memsetAsync(x.data.ptr, 1, 4, stream.ptr)  # the first element
    fork, join = (cupy.cuda.Event(block=False, disable_timing=True) for _ in range(2))
    fork.record(stream)
    other.wait_event(fork)
    launch(other)
    join.record(other)
    stream.wait_event(join)
    assert runtime.streamIsCapturing(stream.ptr) and runtime.streamIsCapturing(other.ptr)
    graph = stream.end_capture()
    assert not runtime.streamIsCapturing(stream.ptr) and not runtime.streamIsCapturing(other.ptr)
    asked = counters.read() - before
    assert (asked["launches"], asked["memsets"], asked["graphs_captured"]) == (0, 0, 1)
    assert x.tolist() == [2] * 4  # nothing of it has run
    before = counters.read()
    for _ in range(3):
        graph.launch(stream)
    del graph  # what was launched goes on
    stream.synchronize()
    asked = counters.read() - before
    assert (asked["graph_launches"], asked["graph_nodes"], asked["launches"]) == (3, 9, 0)
    assert asked["graphs_released"] == 1
    assert x.tolist() == [0x02020202] + [2 << 6] * 3, x.tolist()
    """,
        **({} if seed is None else {"seed": seed}),
    )


@pytest.mark.parametrize(
    ("mode", "call", "status"),
    [
        ("relaxed", "stream.synchronize()", 900),
        ("relaxed", "asked(runtime.streamQuery(stream.ptr))", 900),
        ("local", "runtime.malloc(256)", 900),
        ("local", "runtime.free(extra)", 900),
        ("local", "runtime.deviceSynchronize()", 900),
        ("local", "asked(runtime.eventQuery(event.ptr))", 900),
        ("everywhere", "runtime.hostAlloc(256, 0)", 900),
        ("local", "(noted.record(stream), asked(runtime.eventQuery(noted.ptr)))", 907),
        ("relaxed", "(noted.record(stream), runtime.eventSynchronize(noted.ptr))", 907),
        ("relaxed", "stream.wait_event(event)", 905),
    ],
)
def test_what_a_capture_forbids_ends_it(mode: str, call: str, status: int) -> None:
    passes(
        CAPTURE
        + f"""
    extra = runtime.malloc(256)
    event, noted = (cupy.cuda.Event(block=False, disable_timing=True) for _ in range(2))
    event.record(other)
    runtime.streamBeginCapture(stream.ptr, {mode})
    launch()
    refused({status}, lambda: {call})
    refused(901, launch)
    refused(901, lambda: runtime.streamEndCapture(stream.ptr))
    launch()  # the stream works as before
    stream.synchronize()
    assert x.tolist() == [4] * 4
    """
    )


def test_captures_end_where_they_began_and_with_all_streams_joined() -> None:
    passes(
        CAPTURE
        + """
    import threading

    refused(401, lambda: runtime.streamEndCapture(stream.ptr))
    refused(900, lambda: runtime.streamBeginCapture(0))
    fork = cupy.cuda.Event(block=False, disable_timing=True)
    runtime.streamBeginCapture(stream.ptr)
    refused(401, lambda: runtime.streamBeginCapture(stream.ptr))
    fork.record(stream)
    other.wait_event(fork)
    launch(other)
    refused(904, lambda: runtime.streamEndCapture(stream.ptr))
    blocking = cupy.cuda.Stream()
    runtime.streamBeginCapture(blocking.ptr)
    refused(906, lambda: runtime.memsetAsync(x.data.ptr, 0, 4, 0))
    refused(901, lambda: runtime.streamEndCapture(blocking.ptr))
    runtime.streamBeginCapture(stream.ptr, local)  # others may do what they like
    end = lambda: refused(908, lambda: runtime.streamEndCapture(stream.ptr))
    for done in (lambda: runtime.free(runtime.malloc(256)), end):
        thread = threading.Thread(target=done)
        thread.start()
        thread.join()
    launch()
    graph = runtime.streamEndCapture(stream.ptr)
    ready = runtime.graphInstantiate(graph)
    runtime.graphDestroy(graph)
    runtime.graphLaunch(ready, other.ptr)
    other.synchronize()
    assert x.tolist() == [4] * 4
    runtime.graphExecDestroy(ready)
    """
    )


@pytest.mark.parametrize("seed", [None, 1])
def test_the_time_between_events_is_that_of_the_work_between_them(seed: int | None) -> None:
    passes(
        """
        first, second, untimed = cupy.cuda.Event(), cupy.cuda.Event(), cupy.cuda.Event(False, True)
        x = cupy.zeros(1 << 10, np.float32)
        cupy.cuda.Device().synchronize()
        first.record()
        for _ in range(10):
            x += 1
        second.record()
        second.synchronize()
        assert cupy.cuda.get_elapsed_time(first, second) > 0
        assert cupy.cuda.get_elapsed_time(second, first) < 0
        untimed.record()
        untimed.synchronize()
        try:
            cupy.cuda.get_elapsed_time(first, untimed)
        except runtime.CUDARuntimeError as error:
            assert "cudaErrorInvalidResourceHandle" in str(error)
        else:
            raise AssertionError("an event without a time has one")
        """,
        **({} if seed is None else {"seed": seed}),
    )
