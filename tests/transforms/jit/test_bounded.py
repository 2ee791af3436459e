"""What is kept of traced functions has a bound: in memory, loaded, and in the folder of kernels."""

from __future__ import annotations

import functools
import gc
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import P, lax, testing
from gpushard._runtime.host.nests import c_compiler as kernels
from tests.kept import Caches
from tests.share import some

LIMIT = 150_000


def softmax(x: Any) -> Any:
    e = gnp.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def rounds(x: Any) -> Any:
    return lax.fori_loop(0, 2, lambda i, c: gnp.tanh(c) * 2 + c.sum(1, keepdims=True), x)


def product(x: Any) -> Any:
    return x.T @ x


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "softmax": gs.jit(softmax),
    "a loop": gs.jit(rounds),
    "product": gs.jit(product),
    "not traced": lambda x: x.sum(0) + gnp.roll(x, 1, axis=0),
}


@pytest.fixture(scope="module")
def caches() -> Caches:
    return Caches()


@pytest.mark.parametrize("name", some(["softmax"], PROGRAMS))
def test_many_shapes_take_no_more_memory_than_few(
    name: str, caches: Caches, monkeypatch: pytest.MonkeyPatch
) -> None:
    gs.clear_caches()
    f = PROGRAMS[name]
    bounded = caches.bounded()
    for cache in bounded:
        cache.clear()
        monkeypatch.setattr(cache, "limit", min(cache.limit, LIMIT))
    with testing.runtime(host_devices=4, compiler="", plan_cache_bytes=LIMIT) as runtime:
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))

        def taken(first: int, count: int) -> int:
            for n in range(first, first + count):
                shape = 4 + 4 * (n % 128), 3 + n // 128  # so small that pools keep none
                f(gs.device_put(np.ones(shape, np.float32), place))
            assert max(x.nbytes for x in (*bounded, runtime.plans)) <= LIMIT
            caches.forget_results()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            few = taken(0, 24)
            many = taken(24, some(12, 10_000 if name == "product" else 300))
        finally:
            tracemalloc.stop()
        assert many - few < some(1, 2) * LIMIT  # lists of what is gone are cleared now and then


@pytest.mark.parametrize("name", some(["a loop"], ["softmax", "a loop", "product"]))
def test_what_is_kept_is_counted(name: str, caches: Caches) -> None:
    gs.clear_caches()
    f: Any = PROGRAMS[name]
    with testing.runtime(host_devices=4, compiler="") as runtime:
        place = gs.NamedSharding(gs.make_mesh((4,), ("x",)), P("x"))

        def run(first: int, last: int) -> None:
            for n in range(first, last):
                f(gs.device_put(np.ones((4 + 4 * n, 3)), place))
            caches.forget_results()
            runtime.plans.clear()
            gc.collect()

        run(0, 3)
        tracemalloc.start()
        try:
            before = f._cache.nbytes, tracemalloc.get_traced_memory()[0]
            run(3, 13)
            after = f._cache.nbytes, tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
    counted, taken = (new - old for new, old in zip(after, before, strict=True))
    assert taken <= 1.25 * counted <= 6 * taken


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_kernels_are_unloaded_and_files_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(kernels, "_FILES", 8)
    make = functools.lru_cache(maxsize=2)(kernels.compiled.__wrapped__)
    compiler = shutil.which("cc")
    source = "void region(const long *n, double **in, double **out) {{ out[0][0] = {} + n[0]; }}"

    def result_of(kernel: Any) -> float:
        sizes, result = np.array([1000]), np.zeros(1)
        kernel(sizes.ctypes.data, None, np.array([result.ctypes.data]).ctypes.data)
        return float(result[0])

    first = make(compiler, source.format(0))
    for n in range(1, 12):
        assert result_of(make(compiler, source.format(n))) == 1000 + n
    gc.collect()
    assert result_of(first) == 1000  # a program holds it
    maps = Path("/proc/self/maps")
    if maps.exists():
        lines = maps.read_text().splitlines()
        loaded = {line.split()[5] for line in lines if str(tmp_path) in line}
        assert len(loaded) == 3  # that, and what is kept
    assert 0 < len(list(tmp_path.rglob("*.so"))) <= 8
    assert result_of(make(compiler, source.format(1))) == 1001
    files = list(tmp_path.rglob("*.so"))
    for path in files:
        os.utime(path, (0, 0))
    make.cache_clear()
    make(compiler, source.format(1))
    assert sum(path.stat().st_mtime > 0 for path in files) == 1  # that was used just now
    assert files[0].parent.stat().st_mode & 0o777 == 0o700


def test_the_files_that_were_used_last_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels, "_FILES", 8)
    for n in range(9):
        kernels._forget_oldest(tmp_path)
        path = tmp_path / f"{n}.so"
        path.touch()
        os.utime(path, (100 - n, 100 - n))  # the first one was used last
    (tmp_path / "0.txt").touch()
    assert len(list(tmp_path.glob("*.so"))) == 9
    kernels._forget_oldest(tmp_path)
    assert {path.stem for path in tmp_path.glob("*.so")} == set("0123456")
