"""Random merges as cases for the kernels, with NumPy's answer."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import random
import struct

import numpy as np

from gpushard.runtime.cuda.merges import (
    MOST_INPUTS,
    OPERATIONS,
    Dense,
    Merging,
    Operation,
    kernel_name,
    make_merge,
)
from tests.kernels.harness import allocation, encoded

DTYPES = [np.dtype(code) for code in "?bhiqBHIQefdFD"]
UFUNCS = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}
PAIRS = [
    (operation, dtype)
    for operation, dtype in itertools.product(OPERATIONS, DTYPES)
    if dtype.kind in "?biu" or operation not in ("and", "or")
]


MERGE_KERNELS = sorted({kernel_name(*pair) for pair in PAIRS})
"""The name expressions of all kernels."""


def multiplied(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product with a rounding after each step; NumPy fuses some where the CPU can."""
    if a.dtype.kind != "c":
        return np.multiply(a, b)
    result = np.empty_like(a)
    result.real = a.real * b.real - a.imag * b.imag
    result.imag = a.real * b.imag + a.imag * b.real
    return result


def values(rng: np.random.Generator, dtype: np.dtype, size: int) -> np.ndarray:
    """Values of the whole range of a dtype, special ones among them."""
    if dtype.kind == "b":
        return rng.integers(0, 2, size).astype(bool)
    if dtype.kind in "iu":
        return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).copy()
    if dtype.kind == "c":
        parts = values(rng, np.dtype(f"f{dtype.itemsize // 2}"), 2 * size)
        return parts.view(dtype)
    found = (rng.normal(size=size) * 10.0 ** rng.integers(-3, 4, size)).astype(dtype)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, 1.0, np.finfo(dtype).max], dtype)
    chosen = rng.random(size) < 0.15
    found[chosen] = rng.choice(special, int(chosen.sum()))
    return found


@dataclasses.dataclass
class Case:
    """Arrays in allocations of their own, each behind a gap."""

    merging: Merging
    memory: list[np.ndarray]
    output: int
    gap: int
    expected: np.ndarray

    def encoded(self) -> bytes:
        name = self.merging.kernel.encode()
        work = struct.pack(f"=I{len(name)}sI", len(name), name, self.merging.blocks)
        return encoded(self.memory, work, self.merging.argument.tobytes())

    def right(self, out: bytes) -> bool:
        """Whether the output is as expected and all else as it was."""
        sizes = [array.nbytes for array in self.memory]
        ends = np.cumsum(sizes).tolist()
        for number, (size, end) in enumerate(zip(sizes, ends, strict=True)):
            after = np.frombuffer(out[end - size : end], np.uint8)
            before = self.memory[number]
            if number != self.output and not np.array_equal(after, before):
                return False
        size, end = sizes[self.output], ends[self.output]
        found = np.frombuffer(out[end - size + self.gap : end], self.expected.dtype)
        floats = self.expected.dtype.kind in "fc"
        return np.array_equal(found, self.expected, equal_nan=floats)


def random_case(operation: Operation, dtype: np.dtype, seed: int) -> Case:
    source = random.Random(seed)
    rng = np.random.default_rng(seed)
    size = source.choice((0, 1, 7, 16, source.randint(1, 100), 4096 // dtype.itemsize + 9, 3000))
    count = source.choice((1, 2, 2, 3, 3, 5, 9, MOST_INPUTS if size < 100 else 6))
    gap = source.choice((0, 0, 16, dtype.itemsize))
    arrays = [values(rng, dtype, size) for _ in range(count)]
    filler = rng.integers(0, 256, gap, np.uint8)
    memory = [np.concatenate((filler, array.view(np.uint8))) for array in arrays]
    output = source.randrange(count)
    if source.random() < 0.5:
        output = count
        memory.append(rng.integers(0, 256, gap + size * dtype.itemsize, np.uint8))
    dense = [
        Dense(place.address + gap, place, (size,), dtype)
        for place in (allocation(number, array.nbytes) for number, array in enumerate(memory))
    ]
    merging = make_merge(operation, dense[:count], dense[output])
    ufunc = multiplied if operation == "prod" else UFUNCS[operation]
    with np.errstate(all="ignore"):
        expected = functools.reduce(ufunc, arrays)
    return Case(merging, memory, output, gap, expected)
