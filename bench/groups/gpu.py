"""On a GPU: reshards, host copies, launches and exports, beside plain copies, PyTorch and JAX."""

from __future__ import annotations

import functools
import gc
import importlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import JAX, OURS, Case, Config, Goal, Result, Sampler, Side, Target
from bench.chip import Lab, attempt, cases_on_gpu
from bench.measure import timed
from bench.peers import delete
from gpushard._runtime.runtime import Runtime

DEVICE_COPY = "device copy"
"""`memcpyAsync` within the GPU of the bytes that the plan moves."""
CUPY_COPY = "CuPy copy"
"""`ndarray.copy` of the same bytes."""
CUPY, TORCH = "CuPy", "PyTorch"
"""The same movement as one strided copy."""
PINNED = "pinned copy"
"""`memcpyAsync` between the GPU and page-locked memory."""
SLOWER = "slower of pinned and memcpy"
TURNS = "one after the other"
SUBMIT = "submit only"
KERNEL, ENGINE = "kernel", "copy engine"
RING, BOUNCE = "ring", "bounce"

MESH, AXES = (4, 2), ("x", "y")
ROWS, COLUMNS, BLOCKS = gs.P(("x", "y")), gs.P(None, ("x", "y")), gs.P("x", "y")
STORED = {ROWS: (0, 1, 2, 3, 4, 5), COLUMNS: (3, 4, 0, 1, 2, 5), BLOCKS: (0, 3, 1, 2, 4, 5)}
"""Order in which shards, one after the other, hold the dims of the array in `factors` of it."""
PAIRS = [(a, b) for a in STORED for b in STORED if a != b]
SHORT = 256
"""Bytes of a run below which less is asked for."""

EXPORT = "DLPack export of a shard"


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there is a GPU."""
    return cases_on_gpu(config, PARTS)


def goals(results: list[Result]) -> list[Goal]:
    """The worst shares of a device copy, and where copy engines begin to pay."""
    found = []
    for short, least in ((False, 0.85), (True, 0.70)):
        rows = [r for r in results if r.case.facts.get("short_runs") is short]
        shares = [r.ratio(DEVICE_COPY, OURS) for r in rows if "one domain" in r.case.table]
        known = [share for share in shares if share is not None]
        what = f"runs under {SHORT} bytes" if short else "longer runs"
        text = f"reshard, one domain, {what}: least share of a device copy's speed"
        found.append(Goal(text, min(known, default=None), least))
    pays = [
        r.case.facts["nbytes"]
        for r in results
        if (ratio := r.ratio(KERNEL, ENGINE)) is not None and ratio > 1
    ]
    text = "least bytes of a box for which the copy engine was faster than the kernel"
    return [*found, Goal(text, min(pays, default=None))]


def factors(shape: tuple[int, int]) -> tuple[int, ...]:
    """Return the dims that all layouts cut an array into.

    >>> factors((64, 32))
    (4, 2, 8, 2, 4, 4)
    """
    return 4, 2, shape[0] // 8, 2, 4, shape[1] // 8


def _name(spec: gs.P) -> str:
    return {ROWS: "rows", COLUMNS: "columns", BLOCKS: "blocks"}.get(spec, str(spec))


def _reshards(lab: Lab, config: Config) -> Iterator[Case]:
    wide = config.pick((1 << 14, 1 << 14), (128, 128))
    medium = config.pick((1 << 20, 1 << 8), (256, 64))
    narrow = config.pick((1 << 22, 1 << 6), (512, 32))
    for separate in (False, True):
        with lab.runtime(separate_domains=separate) as runtime:
            table = "eight domains" if separate else "one domain"
            for shape in (wide, medium, narrow) if not separate else (wide, narrow):
                pairs = PAIRS if shape == wide else [(ROWS, COLUMNS), (COLUMNS, ROWS)]
                reshards = _Reshards(lab, config, runtime, shape, f"reshard, {table}")
                for start, end in pairs:
                    yield reshards.case(start, end)
                if shape == wide and not separate:
                    yield reshards.aliasing(gs.P("x"), ROWS)
                    yield reshards.aliasing(gs.P(), gs.P("x"))
                reshards.close()


class _Reshards:
    """Movements of one array of a runtime."""

    def __init__(
        self, lab: Lab, config: Config, runtime: Runtime, shape: tuple[int, int], table: str
    ) -> None:
        self._lab = lab
        self._runtime = runtime
        self._table = table
        self._repeats = config.pick(20, 1)
        self._host = np.arange(math.prod(shape), dtype=np.int32).reshape(shape)
        self._value = lab.xp.asarray(self._host)
        self._mesh = gs.make_mesh(MESH, AXES)
        self._copies: dict[int, Sampler] = {}

    def close(self) -> None:
        """Give memory up."""
        del self._value
        self._copies.clear()
        gc.collect()
        self._lab.forget()

    def _sharding(self, spec: gs.P) -> gs.NamedSharding:
        return gs.NamedSharding(self._mesh, spec)

    def _check(self, y: gs.Array) -> None:
        y.block_until_ready()
        buffer = y._live()
        for shard, value in zip(y.addressable_shards, buffer.values, strict=True):
            local = value if self._lab.cupy else np.asarray(shard.data)
            assert bool((local == self._value[shard.index]).all()), f"wrong at {shard.index}"

    def case(self, start: gs.P, end: gs.P) -> Case:
        """A movement that copies."""
        lab, repeats, shape = self._lab, self._repeats, self._host.shape
        there = self._sharding(end)
        x = gs.device_put(self._host, self._sharding(start)).block_until_ready()
        written = x.plan(there).bytes_written
        split = max({ROWS: 1, BLOCKS: 2, COLUMNS: 8}[spec] for spec in (start, end))
        run = shape[1] // split * self._host.itemsize
        axes = tuple(STORED[start].index(axis) for axis in STORED[end])
        stored = lab.xp.ascontiguousarray(
            self._value.reshape(factors(shape)).transpose(STORED[start])
        )

        def check() -> None:
            y = gs.reshard(x, there)
            self._check(y)
            delete(y)

        if written not in self._copies:
            self._copies[written] = lab.device_copy(written, repeats)
        least = 0.7 if run < SHORT else 0.85
        mib = self._host.nbytes >> 20
        rows, columns = shape
        return Case(
            name=f"{mib} MiB {rows}x{columns} {_name(start)} -> {_name(end)}",
            table=self._table,
            sides=[
                Side(OURS, lab.ours(self._runtime, lambda: gs.reshard(x, there), repeats)),
                Side(JAX, attempt(JAX, lambda: _jax_transpose(lab, stored, axes, repeats))),
                Side(CUPY, attempt(CUPY, lambda: _cupy_transpose(lab, stored, axes, repeats))),
                Side(TORCH, attempt(TORCH, lambda: _torch_transpose(lab, stored, axes, repeats))),
                Side(CUPY_COPY, lab.on_cupy(lambda: stored.copy(), repeats)),
                Side(DEVICE_COPY, self._copies[written]),
            ],
            check=check,
            target=Target(times=1 / least, column=DEVICE_COPY),
            facts={
                "bytes_written": written,
                "run_bytes": run,
                "short_runs": run < SHORT,
                "bytes_per_sample": written * repeats,
            },
            note=f"runs of {run} bytes, {written / (1 << 20):g} MiB",
            floor=DEVICE_COPY,
        )

    def aliasing(self, start: gs.P, end: gs.P) -> Case:
        """A movement that copies nothing, as the caller sees it."""
        there = self._sharding(end)
        x = gs.device_put(self._host, self._sharding(start)).block_until_ready()
        assert x.plan(there).bytes_written == 0, f"{start} -> {end} copies something"
        return Case(
            name=f"{_name(start)} -> {_name(end)}",
            table=f"{self._table}, nothing to copy",
            sides=[Side(OURS, timed(lambda _: gs.reshard(x, there).block_until_ready()))],
            check=lambda: self._check(gs.reshard(x, there)),
            burst=50,
            floor=DEVICE_COPY,
        )


def _cupy_transpose(lab: Lab, stored: Any, axes: tuple[int, ...], repeats: int) -> Sampler | None:
    if lab.cupy is None:
        return None
    moved = stored.transpose(axes)
    out = lab.cupy.empty(moved.shape, stored.dtype)

    def run() -> None:
        out[...] = moved

    return lab.on_cupy(run, repeats)


def _torch_transpose(lab: Lab, stored: Any, axes: tuple[int, ...], repeats: int) -> Sampler | None:
    if lab.torch is None:
        return None
    moved = lab.torch.from_dlpack(stored).permute(axes)
    out = lab.torch.empty(moved.shape, dtype=moved.dtype, device=moved.device)
    out.copy_(moved)
    lab.synchronize()
    expected = stored.transpose(axes)
    assert bool((lab.cupy.from_dlpack(out) == expected).all()), "PyTorch's value is another one"
    return lab.on_torch(lambda: out.copy_(moved), repeats)


def _jax_transpose(lab: Lab, stored: Any, axes: tuple[int, ...], repeats: int) -> Sampler | None:
    if lab.jax is None:
        return None
    jax, numpy = lab.jax.jax, lab.jax.numpy
    value = jax.device_put(stored.get(), lab.jax.device)
    move = jax.jit(lambda v: numpy.transpose(v, axes))
    out = move(value).block_until_ready()
    expected = stored.transpose(axes)
    assert bool((lab.cupy.from_dlpack(out) == expected).all()), "JAX's value is another one"
    return lab.on_jax(lambda: move(value), repeats)


def _host_copies(lab: Lab, config: Config) -> Iterator[Case]:
    with lab.runtime() as runtime:
        yield from _HostCopies(lab, config, runtime).cases()


class _HostCopies:
    """Between the GPU and both kinds of host memory; times as the caller sees them."""

    def __init__(self, lab: Lab, config: Config, runtime: Runtime) -> None:
        self._lab = lab
        nbytes = config.pick(512 << 20, 1 << 20)
        self._host = np.arange(nbytes // 4, dtype=np.int32).reshape(-1, 1024)
        self._warm = np.ones_like(self._host)
        mesh = gs.make_mesh(MESH, AXES)
        self._device = gs.NamedSharding(mesh, ROWS)
        self._pinned = self._device.with_memory_kind("pinned_host")
        self._title = f"{nbytes >> 20} MiB"
        self._buffers: Any = None
        if lab.cupy is not None:
            empty_pinned = importlib.import_module("cupyx").empty_pinned
            pinned = empty_pinned(self._host.shape, np.int32)
            pinned[...] = self._host
            other = empty_pinned(self._host.shape, np.int32)
            other[...] = 0
            both = [lab.cupy.asarray(self._host) for _ in range(2)]
            streams = [lab.cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
            self._buffers = pinned, other, both, streams
            lab.synchronize()

    def cases(self) -> Iterator[Case]:
        """All of them."""
        x = gs.device_put(self._host, self._device).block_until_ready()
        p = gs.device_put(x, self._pinned).block_until_ready()
        limit = Target(times=1 / 0.9, column=PINNED)

        def move(of: gs.Array, to: gs.NamedSharding) -> Sampler:
            return timed(
                lambda _: gs.device_put(of, to).block_until_ready(),
                discard=lambda _, y: delete(y),
            )

        def right(of: gs.Array, to: gs.NamedSharding) -> Callable[[], None]:
            def check() -> None:
                y = gs.device_put(of, to)
                assert np.array_equal(np.asarray(y), self._host)
                delete(y)

            return check

        yield self._case(
            "device -> pinned_host", move(x, self._pinned), right(x, self._pinned), limit,
            self._plain(down=True), {TORCH: self._torch(down=True)},
        )  # fmt: skip
        yield self._case(
            "pinned_host -> device", move(p, self._device), right(p, self._device), limit,
            self._plain(up=True), {TORCH: self._torch(up=True)},
        )  # fmt: skip

        def both(_: object, apart: bool = False) -> tuple[gs.Array, gs.Array]:
            up = gs.device_put(p, self._device)
            if apart:
                up.block_until_ready()
            down = gs.device_put(x, self._pinned)
            return up.block_until_ready(), down.block_until_ready()

        def apart(_: object) -> tuple[gs.Array, gs.Array]:
            return both(None, apart=True)

        def drop(_: object, made: tuple[gs.Array, gs.Array]) -> None:
            delete(*made)

        yield self._case(
            "both ways at once", timed(both, discard=drop), right(p, self._device),
            Target(times=1.0, column=TURNS), self._plain(up=True, down=True),
            {TURNS: timed(apart, discard=drop)},
        )  # fmt: skip
        yield from self._pageable()

    def _pageable(self) -> Iterator[Case]:
        limit = Target(times=1 / 0.9, column=SLOWER)
        memcpy = timed(lambda _: np.copyto(self._warm, self._host))

        def slower(plain: Sampler | None) -> Sampler:
            return lambda: max(memcpy(), 0.0 if plain is None else plain())

        jax = self._lab.jax

        def to_jax() -> Sampler | None:
            if jax is None:
                return None
            put = jax.jax.device_put
            return timed(
                lambda _: put(self._host, jax.device).block_until_ready(),
                discard=lambda _, y: y.delete(),
            )

        def from_jax() -> Sampler | None:
            if jax is None:
                return None
            put = jax.jax.device_put
            return timed(
                np.asarray,
                setup=lambda: put(self._host, jax.device).block_until_ready(),
                discard=lambda y, _: y.delete(),
            )

        def check() -> None:
            y = gs.device_put(self._host, self._device)
            assert np.array_equal(np.asarray(y), self._host)
            delete(y)

        yield self._case(
            "device_put of pageable memory",
            timed(
                lambda _: gs.device_put(self._host, self._device).block_until_ready(),
                discard=lambda _, y: delete(y),
            ),
            check, limit, slower(self._plain(up=True)),
            {JAX: attempt(JAX, to_jax), CUPY: self._cupy(up=True)}, SLOWER,
        )  # fmt: skip
        yield self._case(
            "np.asarray",
            timed(
                np.asarray,
                setup=lambda: gs.device_put(self._host, self._device).block_until_ready(),
                discard=lambda y, _: delete(y),
            ),
            check, limit, slower(self._plain(down=True)),
            {JAX: attempt(JAX, from_jax), CUPY: self._cupy(down=True)}, SLOWER,
        )  # fmt: skip

    def _case(
        self,
        name: str,
        ours: Sampler,
        check: Callable[[], None],
        target: Target,
        plain: Sampler | None,
        others: dict[str, Sampler | None],
        floor: str = PINNED,
    ) -> Case:
        return Case(
            name=f"{self._title} {name}",
            table="host copies, pageable" if floor == SLOWER else "host copies, page-locked",
            sides=[
                Side(OURS, ours),
                *(Side(column, sample) for column, sample in others.items()),
                Side(floor, plain),
            ],
            check=check,
            target=target,
            facts={"nbytes": self._host.nbytes},
            floor=floor,
        )

    def _plain(self, *, up: bool = False, down: bool = False) -> Sampler | None:
        """Plain copies, each way on a stream of its own."""
        if self._buffers is None:
            return None
        pinned, other, both, streams = self._buffers
        runtime, nbytes = self._lab.cupy.cuda.runtime, self._host.nbytes

        def run(_: object) -> None:
            if up:
                ends = both[0].data.ptr, pinned.ctypes.data
                runtime.memcpyAsync(*ends, nbytes, runtime.memcpyHostToDevice, streams[0].ptr)
            if down:
                ends = other.ctypes.data, both[1].data.ptr
                runtime.memcpyAsync(*ends, nbytes, runtime.memcpyDeviceToHost, streams[1].ptr)
            for stream in streams:
                stream.synchronize()

        return timed(run)

    def _cupy(self, *, up: bool = False, down: bool = False) -> Sampler | None:
        if self._buffers is None:
            return None
        array, synchronize = self._buffers[2][0], self._lab.synchronize
        warm, host = self._warm, self._host

        def run(_: object) -> None:
            if up:
                array.set(host)
            if down:
                array.get(out=warm)
            synchronize()

        return timed(run)

    def _torch(self, *, up: bool = False, down: bool = False) -> Sampler | None:
        torch = self._lab.torch
        if torch is None:
            return None

        def make() -> Sampler:
            shape = self._host.shape
            on_gpu = torch.zeros(shape, dtype=torch.float32, device="cuda")
            on_host = torch.zeros(shape, dtype=torch.float32, pin_memory=True)

            def run(_: object) -> None:
                if up:
                    on_gpu.copy_(on_host, non_blocking=True)
                if down:
                    on_host.copy_(on_gpu, non_blocking=True)
                torch.cuda.synchronize()

            return timed(run)

        found: Sampler | None = attempt(TORCH, make)
        return found


def _small(lab: Lab, config: Config) -> Iterator[Case]:
    """Latencies of small work, as the caller sees them."""
    tiny = np.arange(64, dtype=np.float32).reshape(8, 8)
    value = np.arange(64.0 * 64).reshape(64, 64)
    plain = lab.xp.asarray(value)
    burst = config.pick(100, 2)

    def copied(_: object) -> None:
        with lab.stream:
            plain.T.copy()
        lab.stream.synchronize()

    def placed(_: object) -> None:
        with lab.stream:
            lab.cupy.asarray(tiny)
        lab.stream.synchronize()

    def put_by_jax() -> Sampler | None:
        if lab.jax is None:
            return None
        put, device = lab.jax.jax.device_put, lab.jax.device
        return timed(lambda _: put(tiny, device).block_until_ready())

    def copied_by_torch() -> Sampler | None:
        if lab.torch is None:
            return None
        tensor = lab.torch.from_dlpack(plain).T

        def run(_: object) -> None:
            tensor.contiguous()
            lab.torch.cuda.synchronize()

        return timed(run)

    floor = None if lab.cupy is None else timed(copied)
    with lab.runtime():
        blocks = gs.NamedSharding(gs.make_mesh(MESH, AXES), BLOCKS)

        def check() -> None:
            assert np.array_equal(np.asarray(gs.device_put(tiny, blocks)), tiny)

        yield Case(
            name="device_put 8x8",
            table="small: placement",
            sides=[
                Side(OURS, timed(lambda _: gs.device_put(tiny, blocks).block_until_ready())),
                Side(JAX, attempt(JAX, put_by_jax)),
                Side(CUPY, None if lab.cupy is None else timed(placed)),
            ],
            check=check,
            burst=burst,
            floor=CUPY,
        )
        yield Case(
            name="np.asarray 8x8",
            table="small: placement",
            sides=[
                Side(
                    OURS,
                    timed(
                        np.asarray,
                        setup=lambda: gs.device_put(tiny, blocks).block_until_ready(),
                    ),
                )
            ],
            check=check,
            burst=burst,
            floor=CUPY,
        )
    for separate in (False, True):
        for partitions in (2, 4, 8):
            with lab.runtime(partitions, separate_domains=separate):
                yield _small_reshard(value, partitions, separate, burst, floor, copied_by_torch)


def _small_reshard(
    value: np.ndarray[Any, Any],
    partitions: int,
    separate: bool,
    burst: int,
    floor: Sampler | None,
    by_torch: Callable[[], Sampler | None],
) -> Case:
    mesh = gs.make_mesh((partitions,), ("x",))
    rows, columns = (gs.NamedSharding(mesh, gs.P(*spec)) for spec in (("x",), (None, "x")))
    x = gs.device_put(value, rows).block_until_ready()

    def check() -> None:
        assert np.array_equal(np.asarray(gs.reshard(x, columns)), value)

    return Case(
        name=f"{partitions} devices, {'a domain each' if separate else 'one domain'}",
        table="small: reshard 64x64 rows -> columns",
        sides=[
            Side(OURS, timed(lambda _: gs.reshard(x, columns).block_until_ready())),
            Side(
                SUBMIT,
                timed(lambda _: gs.reshard(x, columns), discard=lambda _, y: delete(y)),
            ),
            Side(TORCH, attempt(TORCH, by_torch)),
            Side(CUPY, floor),
        ],
        check=check,
        burst=burst,
        facts={"partitions": partitions, "separate_domains": separate},
        note="PyTorch and CuPy: a transposed copy of as much",
        floor=CUPY,
    )


def _exports(lab: Lab, config: Config) -> Iterator[Case]:
    """DLPack, where arrays have it; by CuPy's stream conventions -1 orders nothing."""
    if lab.cupy is None or not hasattr(gs.Array, "__dlpack__"):
        return
    with lab.runtime():
        mesh = gs.make_mesh(MESH, AXES)
        x: Any = gs.device_put(np.arange(1 << 16).reshape(256, 256), gs.NamedSharding(mesh, BLOCKS))
        shard: Any = x.block_until_ready().addressable_shards[3].data
        plain = lab.cupy.arange(1 << 13)
        tensor = None if lab.torch is None else lab.torch.arange(1 << 13, device="cuda")

        def check() -> None:
            seen = lab.cupy.from_dlpack(shard)
            assert np.array_equal(seen.get(), np.asarray(shard))

        for stream in (-1, 1):
            by_torch = None
            if tensor is not None:
                by_torch = _each(functools.partial(tensor.__dlpack__, stream=stream))
            yield Case(
                name=f"stream={stream}",
                table=EXPORT,
                sides=[
                    Side(OURS, _each(functools.partial(shard.__dlpack__, stream=stream))),
                    Side(TORCH, by_torch),
                    Side(CUPY, _each(functools.partial(plain.__dlpack__, stream=stream))),
                ],
                check=check,
                target=Target(seconds=10e-6),
                burst=config.pick(200, 2),
                floor=CUPY,
            )
        yield Case(
            name="cupy.from_dlpack",
            table=EXPORT,
            sides=[
                Side(OURS, _each(lambda: lab.cupy.from_dlpack(shard))),
                Side(CUPY, _each(lambda: lab.cupy.from_dlpack(plain))),
            ],
            check=check,
            burst=config.pick(200, 2),
            floor=CUPY,
        )


def _each(export: Callable[[], object]) -> Sampler:
    """Time an export; what it made is dropped afterwards."""

    def sample() -> float:
        start = time.perf_counter()
        kept = export()
        seconds = time.perf_counter() - start
        del kept
        return seconds

    return sample


def _crossover(lab: Lab, config: Config) -> Iterator[Case]:
    """One dense box between partitions that pose as domains: by a kernel and by a copy engine."""
    common: dict[str, Any] = {"separate_domains": True}
    labels = {KERNEL: 0, ENGINE: 1}
    with lab.runtime(2, **common) as default:
        runtimes = {OURS: default}
        for column, least in labels.items():
            runtimes[column] = lab.make_runtime(2, engine_bytes=least, **common)
        try:
            sizes = [16 << 10 << 2 * n for n in range(7)]
            for nbytes in sizes[: config.pick(7, 2)]:
                yield _box_case(lab, config, runtimes, nbytes)
        finally:
            for column in labels:
                runtimes[column].close()


def _box_case(lab: Lab, config: Config, runtimes: dict[str, Runtime], nbytes: int) -> Case:
    host = np.arange(nbytes, dtype=np.uint8)
    repeats = config.pick(max(10, min(100, (256 << 20) // nbytes)), 1)
    ends: dict[str, tuple[gs.Array, Any]] = {}
    for column, runtime in runtimes.items():
        one, other = runtime.devices
        ends[column] = gs.device_put(host, one).block_until_ready(), other

    def check() -> None:
        for x, other in ends.values():
            assert np.array_equal(np.asarray(gs.device_put(x, other)), host)

    def side(column: str) -> Side:
        x, other = ends[column]
        return Side(column, lab.ours(runtimes[column], lambda: gs.device_put(x, other), repeats))

    return Case(
        name=f"{nbytes >> 10} KiB",
        table="a dense box between domains of one GPU",
        sides=[*map(side, ends), Side(DEVICE_COPY, lab.device_copy(nbytes, repeats))],
        check=check,
        facts={"nbytes": nbytes, "repeats": repeats},
        floor=DEVICE_COPY,
    )


def _thresholds(lab: Lab, config: Config) -> Iterator[Case]:
    """Host copies by the ring and by the bounce buffer; `inline_bytes` chooses."""
    labels = {RING: 0, BOUNCE: 1 << 40}
    with lab.runtime(1) as default:
        runtimes = {OURS: default}
        for column, least in labels.items():
            runtimes[column] = lab.make_runtime(1, inline_bytes=least)
        try:
            sizes = [4 << 10 << 2 * n for n in range(7)]
            for nbytes in sizes[: config.pick(7, 2)]:
                yield _pageable_case(lab, config, runtimes, nbytes, up=True)
                yield _pageable_case(lab, config, runtimes, nbytes, up=False)
        finally:
            for column in labels:
                runtimes[column].close()


def _pageable_case(
    lab: Lab, config: Config, runtimes: dict[str, Runtime], nbytes: int, *, up: bool
) -> Case:
    host = np.arange(nbytes, dtype=np.uint8)

    def sampler(runtime: Runtime) -> Sampler:
        device = runtime.devices[0]

        def put() -> gs.Array:
            y: gs.Array = gs.device_put(host, device)
            return y.block_until_ready()

        if up:
            return timed(lambda _: put(), discard=lambda _, y: delete(y))
        return timed(np.asarray, setup=put, discard=lambda y, _: delete(y))

    def check() -> None:
        for runtime in runtimes.values():
            assert np.array_equal(np.asarray(gs.device_put(host, runtime.devices[0])), host)

    plain: Sampler | None = None
    if lab.cupy is not None:
        array = lab.cupy.asarray(host)

        def run(_: object) -> None:
            if up:
                array.set(host)
                lab.synchronize()
            else:
                array.get()

        plain = timed(run)
    return Case(
        name=f"{nbytes >> 10} KiB",
        table=f"pageable memory, {'to' if up else 'from'} the device",
        sides=[*(Side(c, sampler(rt)) for c, rt in runtimes.items()), Side(CUPY, plain)],
        check=check,
        burst=config.pick(max(1, min(20, (4 << 20) // nbytes)), 1),
        facts={"nbytes": nbytes},
        floor=CUPY,
    )


PARTS = (_reshards, _host_copies, _small, _exports, _crossover, _thresholds)
"""In the order of the tables; `--group gpu:reshards` runs one of them."""
