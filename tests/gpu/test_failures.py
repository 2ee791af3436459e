"""Full partitions, GPUs that failed, and processes that were forked."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import OutOfMemoryError
from tests.gpu.device import DRIVERS, Split, gpu_runtime, make_driver, needs_gpu

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("kind", DRIVERS)
@pytest.mark.parametrize("split", [Split(4, False), Split(4, True)], ids=str)
def test_a_full_partition_leaves_room_to_the_others(kind: str, split: Split) -> None:
    with gpu_runtime(make_driver(kind), split, memory_limit=1 << 20) as runtime:
        full, *others = runtime.devices
        kept = [gs.device_put(np.full(1 << 16, n, np.uint8), full) for n in range(16)]
        for _ in range(2):
            with pytest.raises(OutOfMemoryError) as caught:
                gs.device_put(np.zeros(1, np.uint8), full)
            assert (caught.value.limit, caught.value.in_use) == (1 << 20, 1 << 20)
            for device in others:
                other = gs.device_put(np.arange(1 << 17), device)  # all of its quota
                assert np.asarray(other)[777] == 777
                del other
        if split.separate:  # in one domain they would share the memory
            with pytest.raises(OutOfMemoryError):
                gs.device_put(gs.device_put(np.arange(8), others[0]), full)
        kept.pop(3).delete()
        assert np.asarray(gs.device_put(np.arange(1 << 13), full)).sum() == (1 << 12) * 8191
        assert all((np.asarray(x) == n).all() for n, x in zip((0, 1, 2), kept, strict=False))


def run(script: str) -> str:
    """Run a script in a process of its own that must end well, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GPUSHARD_BACKEND": "cuda"}
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


_PRELUDE = """
import os
import cupy
import numpy as np
import gpushard as gs
from gpushard.errors import DeviceLostError, ExecutionError
from gpushard.testing import deferred

gs.configure(partitions=4, slab_bytes=32 << 20)
mesh = gs.make_mesh((4,), "x")
rows, columns = (gs.NamedSharding(mesh, gs.P(*spec)) for spec in (("x",), (None, "x")))
value = np.arange(64.0 * 64).reshape(64, 64)
x = gs.device_put(value, rows).block_until_ready()
y = gs.reshard(x, columns).block_until_ready()
"""


@needs_gpu
@pytest.mark.parametrize("work", ["*p = 1;", "__trap();"])
def test_after_a_sticky_error_all_is_lost_and_the_process_ends_well(work: str) -> None:
    said = run(f"""
        source = 'extern "C" __global__ void wild(int* p) {{ {work} }}'
        wild = cupy.RawKernel(source, "wild")

        def write(shard):
            wild((1,), (1,), (np.uint64(64),))
            return shard

        z = deferred(x, write)
        try:
            z.block_until_ready()
        except ExecutionError as error:
            print("first", type(error).__name__, error)
        calls = [
            lambda: np.asarray(z),
            lambda: np.asarray(y),
            lambda: gs.device_put(value, rows),
            lambda: np.asarray(gs.reshard(x, columns)),
            lambda: np.asarray(x[1:3]),
            lambda: np.asarray(gs.device_put(x, rows.with_memory_kind("pinned_host"))),
        ]
        for number, call in enumerate(calls):
            try:
                call()
            except DeviceLostError as error:
                assert "new process" in str(error), error
                print("lost")
            except Exception as error:
                print(number, repr(error))
            else:
                print(number, "no error")
        assert x.is_ready() and z.is_ready()
        x.delete()
        del y, z
        print("end")
    """)
    lines = said.splitlines()
    assert lines[0].startswith("first"), said
    assert lines[1:] == ["lost"] * 6 + ["end"], said


@needs_gpu
def test_a_forked_child_is_told_and_the_parent_goes_on() -> None:
    said = run("""
        pid = os.fork()
        if pid == 0:
            code = 0
            for call in (
                lambda: np.asarray(y), lambda: gs.device_put(value, rows), lambda: x[1:3],
            ):
                try:
                    np.asarray(call())
                    code = 3
                except DeviceLostError as error:
                    code = code or (0 if "spawn" in str(error) else 4)
                except BaseException as error:
                    os.write(2, repr(error).encode())
                    code = 5
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        assert code == 0, code
        assert np.array_equal(np.asarray(y), value)
        assert np.array_equal(np.asarray(gs.reshard(y, rows)), value)
        print("end")
    """)
    assert said.splitlines() == ["end"]


@needs_gpu
def test_a_process_ends_well_with_work_under_way() -> None:
    said = run("""
        spin = cupy.RawKernel(
            'extern "C" __global__ void spin(long long n) {'
            ' const long long start = clock64(); while (clock64() - start < n) { } }', "spin")

        def late(shard):
            spin((1,), (1,), (np.int64(200_000_000),))
            return shard + 1

        z = deferred(x, late)
        w = gs.reshard(z, columns)
        w.copy_to_host_async()
        print("end")
    """)
    assert said.splitlines() == ["end"]
