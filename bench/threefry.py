"""`python -m bench.threefry`: random numbers beside NumPy's, and what Threefry alone takes.

JAX's numbers are those of Threefry-2x32, 20 rounds for each 64 bits. The floor is that cipher and
nothing else, as often as JAX's definition of a function calls for it, in NumPy's ufuncs on arrays
that stay in the cache, on all cores. What NumPy's Generator draws of another cipher may take less.
"""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

import gpushard as gs

SIZE = 1024
BLOCK = 32768
"""Words in an array: three of them fit into 1 MiB of cache."""

Call = Callable[[], Any]


def cipher(words: list[Any]) -> None:
    """Do 20 rounds, with a key after each four, to two arrays of uint32; a third is for scratch."""
    first, second, scratch, shift = words
    for rounds in range(20):
        np.add(first, second, first)
        np.left_shift(second, shift, scratch)
        np.right_shift(second, shift, second)
        np.bitwise_or(second, scratch, second)
        np.bitwise_xor(second, first, second)
        if rounds % 4 == 0:
            np.add(first, shift, first)
            np.add(second, shift, second)


def floor(pool: ThreadPoolExecutor, threads: int, evaluations: int) -> None:
    """Encrypt as many pairs of words as an array has elements, some times."""
    blocks = SIZE * SIZE * evaluations // BLOCK

    def work(count: int) -> None:
        words = [np.arange(BLOCK, dtype=np.uint32) for _ in range(3)]
        for _ in range(count):
            cipher([*words, np.array(13, np.uint32)])

    shares = [blocks // threads + (n < blocks % threads) for n in range(threads)]
    list(pool.map(work, shares))


def calls() -> dict[str, tuple[int, Call, Call]]:
    """Return for each function how often it needs the cipher, gpushard's call and NumPy's."""
    mesh = gs.make_mesh((8,), "x")
    place = {"out_sharding": gs.NamedSharding(mesh, gs.P("x"))}
    key, shape, count = gs.random.key(0), (SIZE, SIZE), SIZE * SIZE
    random, generator = gs.random, np.random.default_rng(0)
    single = np.float32
    return {
        "bits": (
            1,
            lambda: random.bits(key, shape, np.uint32, **place),
            lambda: generator.integers(0, 1 << 32, shape, np.uint32),
        ),
        "uniform": (
            1,
            lambda: random.uniform(key, shape, single, **place),
            lambda: generator.random(shape, single),
        ),
        "normal": (
            1,
            lambda: random.normal(key, shape, single, **place),
            lambda: generator.standard_normal(shape, single),
        ),
        "normal, float64": (
            1,
            lambda: random.normal(key, shape, **place),
            lambda: generator.standard_normal(shape),
        ),
        "randint": (
            2,
            lambda: random.randint(key, shape, 0, 100, np.int32, **place),
            lambda: generator.integers(0, 100, shape, np.int32),
        ),
        "choice": (
            1,  # the number of elements is a power of 2
            lambda: random.choice(key, count, (count,)),
            lambda: generator.choice(count, count),
        ),
        "permutation": (
            2,  # and two sorts
            lambda: random.permutation(key, count),
            lambda: generator.permutation(count),
        ),
        "gamma": (
            2,  # and more for what is rejected
            lambda: random.gamma(key, 2.5, shape, single, **place),
            lambda: generator.standard_gamma(2.5, shape, single),
        ),
    }


def measured(sides: list[Call], repeat: int, clock: Callable[[], float]) -> list[float]:
    """Return the least milliseconds of each side; they take turns."""
    least = [float("inf")] * len(sides)
    for _ in range(repeat):
        for n, side in enumerate(sides):
            start = clock()
            gs.block_until_ready(side())
            least[n] = min(least[n], 1e3 * (clock() - start))
    return least


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.threefry", description=__doc__)
    parser.add_argument("--repeat", type=int, default=21, help="how often each side takes its turn")
    parser.add_argument(
        "--cpu",
        action="store_true",
        help="processor time instead of the clock, divided by the cores for all but NumPy, which "
        "uses one: for a machine that others use, too",
    )
    given = parser.parse_args()
    repeat, threads = given.repeat, os.cpu_count() or 1
    clock, share = (time.process_time, threads) if given.cpu else (time.perf_counter, 1)
    print(f"{SIZE}x{SIZE} over 8 devices, {threads} cores; milliseconds, least of {repeat}")
    columns = ("gpushard", "floor", "NumPy", "floor/NumPy", "gpushard/floor", "gpushard/NumPy")
    print(f"{'function':15}", *(f"{column:>14}" for column in columns))
    with ThreadPoolExecutor(threads) as pool:
        for name, (evaluations, ours, theirs) in calls().items():
            least = functools.partial(floor, pool, threads, evaluations)
            a, b, c = measured([ours, least, theirs], repeat, clock)
            a, b = a / share, b / share
            print(f"{name:15}", *(f"{value:14.2f}" for value in (a, b, c, b / c, a / b, a / c)))


if __name__ == "__main__":
    main()
