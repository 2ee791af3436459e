"""What NumPy can do for traced functions, without a compiler: `python -m bench.jit_floors`.

Each function is written by hand, tile by tile, with every result in memory that is in use, on one
thread and on two: so a kernel of NumPy's functions has no less to do. The last column is a copy of
the operand.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from bench.floor import HostArray

REPEAT = 15
TILES = (1 << 14, 1 << 16, 1 << 18)
"""Elements of a tile."""


def chain(a: HostArray, out: HostArray, given: dict[str, HostArray]) -> None:
    """tanh(2a + 1) * a - a / 3."""
    x = given["x"][: len(a)]
    np.multiply(a, 2, out)
    np.add(out, 1, out)
    np.tanh(out, out)
    np.multiply(out, a, out)
    np.divide(a, 3, x)
    np.subtract(out, x, out)


def stencil(a: HostArray, out: HostArray, given: dict[str, HostArray]) -> None:
    """The differences from four neighbours."""
    x = given["x"][: len(out), : out.shape[1]]
    np.add(a[1:-1, :-2], a[1:-1, 2:], out)
    np.add(out, a[:-2, 1:-1], out)
    np.add(out, a[2:, 1:-1], out)
    np.multiply(a[1:-1, 1:-1], 4, x)
    np.subtract(out, x, out)


def k_means(p: HostArray, centres: HostArray, given: dict[str, HostArray]) -> tuple[Any, Any]:
    """The sums of the points nearest to each centre, and how many these are."""
    n = len(p)
    squares, apart, chosen = given["squares"][:n], given["apart"][:n], given["chosen"][:n]
    np.multiply(p, p, squares)
    norm = squares.sum(1)
    np.multiply(p, 2, squares)
    np.dot(squares, centres.T, apart)
    np.subtract(norm[:, None], apart, apart)
    np.add(apart, (centres * centres).sum(1), apart)
    nearest = apart.argmin(1)
    np.equal(nearest[:, None], given["numbers"], chosen, casting="unsafe")
    return chosen.T @ p, chosen.sum(0)


def timed(run: Callable[[], Any]) -> float:
    """Return the median of milliseconds."""
    run()
    took = []
    for _ in range(REPEAT):
        start = time.perf_counter()
        run()
        took.append(time.perf_counter() - start)
    return 1e3 * statistics.median(took)


def best(work: Callable[[int, Callable[..., Any]], Any]) -> list[float]:
    """Return the least time of all tiles, on one thread and on two."""
    found = []
    for threads in (1, 2):
        with ThreadPoolExecutor(threads) as pool:
            found.append(min(timed(lambda n=n: work(n, pool.map)) for n in TILES))  # type: ignore[misc]
    return found


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    print(f"{'ms':28} one thread  two threads  copy")
    large = rng.standard_normal((8192, 8192), dtype=np.float32).ravel()
    out, blocks = np.ones_like(large), 8

    def chains(tile: int, each: Any) -> None:
        size = len(large) // blocks

        def block(n: int) -> None:
            given = {"x": np.empty(tile, np.float32)}
            for at in range(n * size, (n + 1) * size, tile):
                end = min(at + tile, (n + 1) * size)
                chain(large[at:end], out[at:end], given)

        list(each(block, range(blocks)))

    _line("tanh chain, 256 MB", best(chains), timed(lambda: np.copyto(out, large)))
    a = large[: 4096 * 4096].reshape(4096, 4096)
    made = np.ones((4094, 4094), np.float32)

    def stencils(tile: int, each: Any) -> None:
        rows = max(1, tile // 4096)

        def block(n: int) -> None:
            given = {"x": np.empty((rows, 4096), np.float32)}
            first, last = n * 512, min(4094, (n + 1) * 512)
            for at in range(first, last, rows):
                end = min(at + rows, last)
                stencil(a[at : end + 2], made[at:end], given)

        list(each(block, range(blocks)))

    _line(
        "5-point stencil, 4096x4096", best(stencils), timed(lambda: np.copyto(made, a[1:-1, 1:-1]))
    )
    points = rng.standard_normal((200_000, 16), dtype=np.float32)
    centres = rng.standard_normal((32, 16), dtype=np.float32)

    def steps(tile: int, each: Any) -> Any:
        rows = tile // 32

        def block(n: int) -> Any:
            given: dict[str, HostArray] = {
                "squares": np.empty((rows, 16), np.float32), "numbers": np.arange(32),
                "apart": np.empty((rows, 32), np.float32),
                "chosen": np.empty((rows, 32), np.float32),
            }  # fmt: skip
            own = points[n * 25_000 : (n + 1) * 25_000]
            parts = [k_means(own[i : i + rows], centres, given) for i in range(0, 25_000, rows)]
            return sum(x for x, _ in parts), sum(x for _, x in parts)

        found: Sequence[Any] = list(each(block, range(blocks)))
        return sum(x for x, _ in found) / np.maximum(sum(x for _, x in found), 1)[:, None]

    _line("k-means step, 200,000x16, 32", best(steps), timed(lambda: points.copy()))


def _line(name: str, times: Sequence[float], copied: float) -> None:
    print(f"{name:28} {times[0]:10.1f} {times[1]:12.1f} {copied:5.1f}")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main()
