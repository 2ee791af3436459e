"""Linear algebra on 8 shards without any environment variable, beside one thread for each call.

NumPy's library of linear algebra has threads of its own. Every side is a process: one as a user
starts it, the other with OPENBLAS_NUM_THREADS=1 (and the like), where these threads can't be in the
way of the workers. Both are quiet while the other one works. A third process keeps one core busy in
half of the cases.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

from bench.case import JAX, OURS, Case, Config, Sampler, Side, Target
from bench.compare import HERE
from bench.process import Process

ONE = "one BLAS thread"
NUMPY = "NumPy, all threads"
VARIABLES = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")

PROGRAM = """
import gc, json, sys, time
import numpy as np
import gpushard as gs
from gpushard import numpy as gnp

small = sys.argv[1] == "small"
gs.configure(host_devices=8)
mesh = gs.make_mesh((8,), "x")
random = np.random.default_rng(0)

def draw(*shape):
    return random.standard_normal(shape, np.float32)

def attention(xp, q, k, v):
    scores = q @ k.T / 8
    weights = xp.exp(scores - scores.max(axis=1, keepdims=True))
    return weights @ v / weights.sum(axis=1, keepdims=True)

def k_means(xp, points, centers):
    squares = (points**2).sum(axis=1, keepdims=True) + (centers**2).sum(axis=1)
    nearest = xp.argmin(squares - 2 * points @ centers.T, axis=1)
    belongs = (nearest[:, None] == xp.arange(centers.shape[0])).astype(points.dtype)
    return belongs.T @ points / (belongs.sum(axis=0)[:, None] + 1)

def batched(xp, x, y):
    return x @ y

def triangular(xp, x):
    return abs(xp.linalg.qr(x)[1])

n = 64 if small else 2048
cases = {
    "attention": (attention, [draw(n, 64), draw(n, 64), draw(n, 64)]),
    "k-means": (k_means, [draw(4 * n, 32), draw(64, 32)]),
    "batched matmul": (batched, [draw(n // 32, 128, 128), draw(n // 32, 128, 128)]),
    "QR": (triangular, [draw(n // 32, 128, 128)]),
}
split, whole = (gs.NamedSharding(mesh, gs.P(*axes)) for axes in (("x",), ()))
where = {name: [split] + [split] * (len(given) - 1) for name, (_, given) in cases.items()}
where["k-means"][1] = whole
placed = {name: list(map(gs.device_put, given, where[name])) for name, (_, given) in cases.items()}
square = [draw(n, n) for _ in range(2)]
alone = [gs.device_put(x, gs.devices()[0]) for x in square]
cases["2048^3 matmul"] = batched, square
placed["2048^3 matmul"] = alone
gc.disable()
for line in sys.stdin:
    what, name = line.strip().split(",")
    function, given = cases[name]
    if what == "check":
        found = np.asarray(function(gnp, *placed[name]))
        np.testing.assert_allclose(found, function(np, *given), rtol=2e-3, atol=2e-3)
        print("true", flush=True)
        continue
    start = time.perf_counter()
    if what == "NumPy":
        result = function(np, *given)
    else:
        result = function(gnp, *placed[name]).block_until_ready()
    seconds = time.perf_counter() - start
    del result
    gc.collect(0)
    print(json.dumps(seconds), flush=True)
"""

BUSY = "print(0, flush=True)\nwhile True: pass"

NAMES = ("attention", "k-means", "batched matmul", "QR")


def cases(config: Config) -> Iterator[Case]:
    """Four programs on 8 shards, quiet and beside a busy process; one product on one device."""
    plain = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    size = config.pick("large", "small")
    with (
        _process(PROGRAM, size, environment=plain) as ours,
        _process(PROGRAM, size, environment=plain | dict.fromkeys(VARIABLES, "1")) as one,
    ):
        for name in NAMES:
            yield _case(
                config, name, "quiet", ours, Side(ONE, _sampler(one, "gpushard", name)), 1.15
            )
        numpy = Side(NUMPY, _sampler(ours, "NumPy", "2048^3 matmul"))
        yield _case(config, "2048^3 matmul", "one device, quiet", ours, numpy, 1)
        with _process(BUSY, environment=plain):
            for name in NAMES:
                side = Side(ONE, _sampler(one, "gpushard", name))
                yield _case(config, name, "beside a busy process", ours, side, 1.15)


@contextlib.contextmanager
def _process(program: str, *arguments: str, environment: dict[str, str]) -> Iterator[Process]:
    process = Process(program, *arguments, folder=HERE, environment=environment)
    try:
        yield process
    finally:
        process.kill()


def _sampler(process: Process, what: str, name: str) -> Sampler:
    return lambda: float(process.ask(f"{what},{name}"))


def _case(config: Config, name: str, table: str, ours: Process, other: Side, times: float) -> Case:
    def check() -> None:
        assert ours.ask(f"check,{name}")

    return Case(
        name=name,
        table=table,
        sides=[Side(OURS, _sampler(ours, "gpushard", name)), Side(JAX, None), other],
        check=check,
        target=Target(times=times, column=other.column),
        burst=config.pick(10, 1),
    )
