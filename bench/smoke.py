"""Programs that try each type of element and each kind of kernel once, a second each, beside NumPy.

`python -m bench.smoke facts|programs --part ...` is how `bench.on_gpu` runs them: several
processes, each with a part of the programs. A process that crashes costs its own program only.
After an error of CUDA that stays, the process ends, and another one goes on.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import functools
import importlib
import io
import os
import shutil
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np

import gpushard as gs
import gpushard.numpy as gnp
from bench import machine
from bench.records import AGAIN, FAILED, PASSED, SKIPPED, Part, add_part, gpu_is_lost, part_of
from gpushard._cli.info import show_config
from gpushard._runtime import choose_backend
from gpushard._runtime.cuda.driver.libraries import installed_version
from gpushard.config import Settings
from gpushard.testing.runtime import using

Program = Callable[[], Any]
"""Raises if something is wrong; returns facts to record, or None."""

SHAPE = (64, 48)
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128"),
)
CLOSE = {"float16": 1e-2, "bfloat16": 5e-2, "float32": 1e-4, "complex64": 1e-4}
"""How far results may be from NumPy's, relatively; 1e-9 for the others."""


class NotHere(Exception):
    """The machine lacks what a program needs."""


@contextlib.contextmanager
def gpu(partitions: int = 8, **settings: Any) -> Iterator[gs.Mesh]:
    """Divide GPU 0 within a `with` block, and yield a mesh of its partitions, `("x", "y")`."""
    made = choose_backend.make_runtime(
        dataclasses.replace(
            Settings.from_environment(),
            backend="cuda",
            gpus=(0,),
            partitions=partitions,
            **settings,
        )
    )
    with using(made):
        rows = max(1, partitions // 2)
        yield gs.make_mesh((rows, partitions // rows), ("x", "y"))


def same(found: Any, wanted: Any, close: float = 1e-9) -> None:
    """Compare with NumPy's result."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape, f"shape {found.shape}, not {wanted.shape}"
    if wanted.dtype.kind in "fcV":
        wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
        found, wanted = found.astype(wide), wanted.astype(wide)
        np.testing.assert_allclose(found, wanted, rtol=close, atol=close)
    else:
        np.testing.assert_array_equal(found, wanted)


def numbers(name: str, shape: tuple[int, ...] = SHAPE) -> Any:
    """Small numbers of a type, none of them 0 unless it is a boolean."""
    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    made = np.random.default_rng(0).integers(0 if name == "bool" else 1, 5, shape)
    if dtype.kind == "c":
        return (made + 1j * made[::-1]).astype(dtype)
    return made.astype(dtype)


def _put(mesh: gs.Mesh, value: Any, *spec: Any) -> gs.Array:
    return gs.device_put(value, gs.NamedSharding(mesh, gs.P(*spec)))


def _elementwise(name: str) -> None:
    x = numbers(name)
    with gpu() as mesh:
        a, b = _put(mesh, x, "x", "y"), _put(mesh, x[::-1].copy(), "x", "y")
        same(a * b, x * x[::-1], CLOSE.get(name, 1e-9))
        same(a == b, x == x[::-1])
        same(gnp.where(a == b, a, b), np.where(x == x[::-1], x, x[::-1]))


def _movement(name: str) -> None:
    x = numbers(name)
    with gpu() as mesh:
        a = _put(mesh, x, ("x", "y"))
        for spec in ((None, ("x", "y")), ("x", "y"), (), (None, "x")):
            same(gs.reshard(a, gs.NamedSharding(mesh, gs.P(*spec))), x)
        same(a[3:40:2, ::-1], x[3:40:2, ::-1])
        same(a.T, x.T)
        same(gnp.concatenate([a, a], axis=1), np.concatenate([x, x], axis=1))


def _reduction(name: str) -> None:
    x = numbers(name)
    wide: Any = np.complex128 if x.dtype.kind == "c" else np.float64
    with gpu() as mesh:
        a = _put(mesh, x, "x", "y")
        same(a.sum(axis=0).astype(wide), x.astype(wide).sum(axis=0), CLOSE.get(name, 1e-9))
        if x.dtype.kind != "c":
            same(a.max(axis=1), x.max(axis=1))
            same(gnp.argmax(a), np.argmax(x.astype(np.float64)))
        same(gnp.any(a), np.any(x.astype(bool)))


def _traced(name: str) -> None:
    x = numbers(name)

    def chain(v: Any) -> Any:
        return (v * v + v) * v

    with gpu() as mesh:
        a = _put(mesh, x, "x", "y")
        same(gs.jit(chain)(a), chain(x), CLOSE.get(name, 1e-9))


def _fused(function: Callable[[Any, Any], Any]) -> None:
    """A function of a namespace and an array, traced over partitions of a GPU."""
    x = numbers("float32", (96, 256)) / 7
    with gpu() as mesh:
        traced = gs.jit(functools.partial(function, gnp))
        for spec in (("x", "y"), (("x", "y"),), ()):
            same(traced(_put(mesh, x, *spec)), function(np, x), 1e-4)


def _softmax(xp: Any, x: Any) -> Any:
    e = xp.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _layer_norm(xp: Any, x: Any) -> Any:
    x = x - x.mean(axis=-1, keepdims=True)
    return x / xp.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


FUSED: dict[str, Callable[[Any, Any], Any]] = {
    "chain": lambda xp, x: xp.tanh(2 * x + 1) * x - x / 3,
    "softmax": _softmax,
    "layer norm": _layer_norm,
    "distances": lambda xp, x: ((x[:8, None] - x[None, :8]) ** 2).sum(axis=-1),
    "stencil": lambda xp, x: x[1:-1] * 2 - x[:-2] - x[2:],
    "prefix sums": lambda xp, x: xp.cumsum(x, axis=1),
    "products": lambda xp, x: x @ x.T + 1,
}


def _eager(
    function: Callable[[Any, Any], Any], dtype: str = "float64", close: float = 1e-8
) -> None:
    """A function of a namespace and an array, one operation after the other."""
    x = numbers(dtype) + np.arange(SHAPE[1], dtype=dtype) / 8
    with gpu() as mesh:
        same(function(gnp, _put(mesh, x, "x", "y")), function(np, x), close)


def _square(x: Any) -> Any:
    return x[:32, :32] @ x[:32, :32].T + 32 * (x[:32, :32] == x[:32, :32])


EAGER: dict[str, Callable[[Any, Any], Any]] = {
    "sort": lambda xp, x: xp.sort(x, axis=0),
    "argsort": lambda xp, x: xp.argsort(x[0], kind="stable"),
    "cumsum": lambda xp, x: xp.cumsum(x, axis=0),
    "var": lambda xp, x: x.var(axis=1),
    "median": lambda xp, x: xp.median(x, axis=0),
    "matmul": lambda xp, x: x @ x.T,
    "einsum": lambda xp, x: xp.einsum("ij,kj->ik", x, x),
    "take": lambda xp, x: xp.take(x, xp.asarray(np.array([3, 0, 41, 3])), axis=0),
    "mask": lambda xp, x: x[x > 3],
    "nonzero": lambda xp, x: xp.nonzero(x > 3)[0],
    "unique": lambda xp, x: xp.unique(x),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(x[0]), x[1]),
    "histogram": lambda xp, x: xp.histogram(x, 7)[0],
    "fft": lambda xp, x: xp.fft.fft(x, axis=1),
    "convolve": lambda xp, x: xp.convolve(x[0], x[1]),
    "solve": lambda xp, x: xp.linalg.solve(_square(x) + 99 * xp.eye(32), x[:32, :4]),
    "cholesky": lambda xp, x: xp.linalg.cholesky(_square(x) + 99 * xp.eye(32)),
    "qr": lambda xp, x: abs(xp.linalg.qr(x)[1].diagonal()),
    "eigvalsh": lambda xp, x: xp.linalg.eigvalsh(_square(x) + 99 * xp.eye(32)),
    "svd": lambda xp, x: xp.linalg.svd(x, compute_uv=False),
}


def _updates() -> None:
    x = numbers("float32")
    at = np.array([3, 0, 3, 60])
    wanted = x.copy()
    np.add.at(wanted, at, 1)
    with gpu() as mesh:
        same(_put(mesh, x, "x", "y").at[at].add(1), wanted)


def _random() -> None:
    drawn = []
    for partitions in (1, 8):
        with gpu(partitions) as mesh:
            key = gs.random.key(7)
            spec = gs.NamedSharding(mesh, gs.P("x", "y"))
            for draw in (gs.random.bits, gs.random.normal):
                drawn.append(np.asarray(gs.reshard(draw(key, SHAPE), spec)))
    same(drawn[0], drawn[2])
    same(drawn[1], drawn[3], 1e-6)
    assert abs(float(drawn[1].mean())) < 0.1 and 0.9 < float(drawn[1].std()) < 1.1


def _pinned() -> None:
    x = numbers("int32", (512, 1024))
    with gpu() as mesh:
        place = gs.NamedSharding(mesh, gs.P("x", "y"))
        a = gs.device_put(x, place)
        held = gs.device_put(a, place.with_memory_kind("pinned_host"))
        same(held, x)
        same(gs.device_put(held, place), x)


def _domains() -> None:
    x = numbers("float32", (512, 1024))
    for engine_bytes in (0, 1 << 10):
        with gpu(separate_domains=True, engine_bytes=engine_bytes) as mesh:
            a = _put(mesh, x, ("x", "y"))
            for spec in ((None, ("x", "y")), ("x", "y"), ()):
                same(gs.reshard(a, gs.NamedSharding(mesh, gs.P(*spec))), x)
            same((a + a).sum(axis=0), (x + x).sum(axis=0), 1e-5)


def _shard_map() -> None:
    x = numbers("float32")
    with gpu() as mesh:
        spec = gs.P("x", "y")

        def body(v: Any) -> Any:
            return v / gs.lax.psum(v, ("x", "y"))

        mapped = gs.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)
        parts = x.reshape(4, 16, 2, 24)
        wanted = (parts / parts.sum(axis=(0, 2), keepdims=True)).reshape(SHAPE)
        same(mapped(_put(mesh, x, "x", "y")), wanted, 1e-5)


def _vmap() -> None:
    x = numbers("float32")
    with gpu() as mesh:
        found = gs.vmap(lambda row: row / row.sum())(_put(mesh, x, "x"))
        same(found, x / x.sum(axis=1, keepdims=True), 1e-5)


def _loops() -> None:
    x = numbers("float32")

    def run(v: Any) -> Any:
        return gs.lax.fori_loop(0, 10, lambda i, c: c * 0.5 + v, v)

    wanted = x
    for _ in range(10):
        wanted = wanted * 0.5 + x
    with gpu() as mesh:
        same(gs.jit(run)(_put(mesh, x, "x", "y")), wanted, 1e-5)


def _graphs() -> None:
    x = numbers("float32")
    found = []
    for graphs in (True, False):
        with gpu(cuda_graphs=graphs) as mesh:
            y = _put(mesh, x, "x")
            step = gs.jit(lambda v: v / v.sum(axis=0, keepdims=True) / v.sum(axis=1, keepdims=True))
            for _ in range(6):
                y = step(y)
            found.append(np.asarray(y))
    assert found[0].tobytes() == found[1].tobytes(), "replayed and launched kernels differ"


def _dlpack() -> None:
    cupy = importlib.import_module("cupy")
    x = numbers("float32")
    with gpu(1) as mesh:
        a: Any = _put(mesh, x)
        same(cupy.from_dlpack(a).get(), x)
        same(gs.from_dlpack(cupy.asarray(x)) + 1, x + 1)


def _torch() -> None:
    if installed_version("torch") is None:
        raise NotHere("PyTorch is not installed")
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise NotHere("this PyTorch has no CUDA")
    x = numbers("float32")
    with gpu(1) as mesh:
        a: Any = _put(mesh, x)
        same(torch.from_dlpack(a).cpu().numpy(), x)


def _green() -> None:
    if installed_version("cuda-bindings") is None:
        raise NotHere("cuda-bindings is not installed")
    x = numbers("float32")
    with gpu(4, partition_mode="green") as mesh:
        a = _put(mesh, x, "x", "y")
        same((a + a).sum(axis=0), (x + x).sum(axis=0), 1e-5)


def _checked() -> None:
    x = numbers("float32")
    with gpu(check=True) as mesh:
        a = _put(mesh, x, "x", "y")
        b = gs.reshard(a * 2, gs.NamedSharding(mesh, gs.P(None, ("x", "y"))))
        same(b + gs.reshard(a, b.sharding), x * 3)


def _quota() -> None:
    with gpu(2, memory_limit=1 << 20):
        try:
            gnp.zeros(1 << 20, np.float32, device=gs.devices()[0])
        except gs.errors.OutOfMemoryError:
            same(gnp.ones(16, device=gs.devices()[0]), np.ones(16))
            return
    raise AssertionError("4 MiB went into a quota of 1 MiB")


def _large() -> None:
    """More than 2**31 bytes, where offsets no longer fit 32 bits."""
    free, _ = importlib.import_module("cupy").cuda.runtime.memGetInfo()
    if free < 12 << 30:
        raise NotHere(f"only {free >> 30} GiB of the GPU are free")
    with gpu() as mesh:
        count = (1 << 31) + 8
        x = gnp.ones(count, np.int8, device=gs.NamedSharding(mesh, gs.P(("x", "y"))))
        x = x.at[-3].set(5)
        same(x[-4:], np.array([1, 5, 1, 1], np.int8))
        assert int(x.sum(dtype=np.int64)) == count + 4


PROGRAMS: dict[str, Program] = {
    **{f"elementwise, {name}": functools.partial(_elementwise, name) for name in DTYPES},
    **{f"movement, {name}": functools.partial(_movement, name) for name in DTYPES[::2]},
    **{f"reduction, {name}": functools.partial(_reduction, name) for name in DTYPES[::2]},
    **{f"traced, {name}": functools.partial(_traced, name) for name in DTYPES[1::3]},
    **{f"fused, {name}": functools.partial(_fused, run) for name, run in FUSED.items()},
    **{f"eager, {name}": functools.partial(_eager, run) for name, run in EAGER.items()},
    "updates": _updates,
    "random": _random,
    "pinned memory": _pinned,
    "domains": _domains,
    "shard_map": _shard_map,
    "vmap": _vmap,
    "loops": _loops,
    "graphs": _graphs,
    "DLPack": _dlpack,
    "PyTorch": _torch,
    "green contexts": _green,
    "checker": _checked,
    "quota": _quota,
    "2 GiB": _large,
}


def _driver() -> Any:
    program = shutil.which("nvidia-smi")
    if program is None:
        raise NotHere("nvidia-smi is not installed")
    done = subprocess.run([program], capture_output=True, text=True, check=True, timeout=20)
    return {"text": done.stdout}


def _cupy() -> Any:
    cupy = importlib.import_module("cupy")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        cupy.show_config()
    return {"version": cupy.__version__, "text": printed.getvalue()}


def _nvrtc() -> Any:
    cupy = importlib.import_module("cupy")
    start = time.perf_counter()
    code = f'extern "C" __global__ void one(int* x) {{ *x = 1; }} // {time.time_ns()}: in no cache'
    x = cupy.zeros(1, np.int32)
    cupy.RawKernel(code, "one")((1,), (1,), (x,))
    assert int(x[0]) == 1
    seconds = time.perf_counter() - start
    return {"version": list(cupy.cuda.nvrtc.getVersion()), "seconds": round(seconds, 3)}


def _info() -> Any:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        show_config()
    return {"text": printed.getvalue()}


FACTS: dict[str, Program] = {
    "driver": _driver,
    "CuPy": _cupy,
    "NVRTC": _nvrtc,
    "gpushard info": _info,
    "machine": functools.partial(machine.facts, None),
}
"""What the machine has."""

SETS = {"facts": FACTS, "programs": PROGRAMS}


def run(programs: dict[str, Program], part: Part) -> None:
    """Run the programs of a part, and record each one."""
    for name in part.choose(programs):
        part.records.begun(name)
        start = time.perf_counter()
        outcome, text, facts = PASSED, "", None
        try:
            facts = programs[name]()
        except NotHere as error:
            outcome, text = SKIPPED, str(error)
        except Exception:
            outcome, text = FAILED, traceback.format_exc()
        part.records.ended(name, outcome, time.perf_counter() - start, text, facts)
        if outcome == FAILED and gpu_is_lost():
            os._exit(AGAIN)  # nothing that tidies up would return


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.smoke", description=__doc__)
    parser.add_argument("set", choices=SETS)
    parser.add_argument("--quick", action="store_true", help="every eighth program")
    parser.add_argument("--commit", help="the commit, where there is no git to tell")
    add_part(parser)
    options = parser.parse_args()
    programs = dict(SETS[options.set])
    if options.set == "facts":
        programs["machine"] = functools.partial(machine.facts, None, options.commit)
    if options.quick and options.set == "programs":
        programs = dict(list(programs.items())[::8])
    run(programs, part_of(options.part))
    return 0


if __name__ == "__main__":
    sys.exit(main())
