"""What each row costs on a GPU: launches, copies, and waits of the host, within one item.

The software GPU counts them; no other does. To write the table anew:

    python -m tests.softgpu -- -m tests.gpu.counts >tests/gpu/counts.txt
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gpushard as gs
from gpushard._ops.bind import bind
from gpushard._ops.dispatch import create
from gpushard._ops.row import Row
from gpushard.errors import GpushardError
from gpushard.testing.runtime import using
from tests.gpu.device import Split, make_gpu_runtime
from tests.ops.cases import FORMS, MADE, Case, cases, reduce_of
from tests.softgpu import counters

_SORTS = "sorts, and CuPy copies before that and gathers after it"
_SOLVES = "steps of cuSOLVER and cuBLAS, and copies into their order"
_FOURIER = "CuPy copies, scales and cuts around a transform of cuFFT"
_QUANTILES = "sorts; then CuPy works out where quantiles are, step by step on small arrays"
_SCANS = "CuPy has no such scan: log2(n) steps of two launches"

REASONS = {
    "einsum": "one product after another, and CuPy copies what cuBLAS does not take",
    "matmul": "CuPy copies operands that cuBLAS does not take",
    "random.multivariate_normal": "columns are added one by one: bits do not depend on cuts",
    "random.multivariate_normal#2": "a Cholesky factorization, column by column",
    "random.dirichlet": "divided by the sum of exponentials along a dim",
    "random.permutation": "sorts by random bits, several times",
    "random.permutation#2": "sorts by random bits, several times",
    "random.choice#2": "cumulative sums, and a search in them",
    "random.choice#3": _SORTS,
    **dict.fromkeys(
        ["cholesky", "inv", "det", "slogdet", "solve", "qr", "svd", "eigh", "eig", "eigvals"],
        _SOLVES,
    ),
    **dict.fromkeys(["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"], _FOURIER),
    "logsumexp": "the maximum, exponentials and their sum, with infinities apart",
    "nanvar": "counts, sums, squares, their sum, and the quotient, which CuPy copies",
    "nanstd": "counts, sums, squares, their sum, the quotient and its root, which CuPy copies",
    **dict.fromkeys(
        ["maximum.accumulate", "minimum.accumulate", "logical_and.accumulate",
         "logical_or.accumulate"],
        _SCANS,
    ),
    **dict.fromkeys(
        ["median", "nanmedian", "quantile", "nanquantile", "quantile_with_weights",
         "nanquantile_with_weights"],
        _QUANTILES,
    ),
    "histogram": "bins of each dim, then weights of real and imaginary parts",
    "interp": "CuPy searches, then works out the values",
    "convolve": "CuPy's transforms, or a product with windows",
    "correlate": "CuPy's transforms, or a product with windows",
    "reduce_window": "a launch for each element of a window, and for what is around",
    "conv_general_dilated": "windows are copied beside each other, for one product",
    "polydiv": "a step for each coefficient",
    "poly": "a step for each root",
    "repeat#2": "cumulative sums, and a search in them",
    **dict.fromkeys(
        ["sort", "argsort", "partition", "argpartition", "lexsort", "topk", "searchsorted", "isin",
         "unique"],
        _SORTS,
    ),
}  # fmt: skip
"""Why rows launch more than `most` says."""


def most(row: Row) -> int:
    """How many launches a shard takes at most, unless there is a reason."""
    return 4 if reduce_of(row) else 2


TABLE = Path(__file__).with_name("counts.txt")


@dataclasses.dataclass(frozen=True, order=True)
class Counts:
    """Of one item, or of several together."""

    launches: int = 0
    copies: int = 0
    """Copies, fills with bytes, and calls of libraries."""

    waits: int = 0
    """Of the host, for a stream or a GPU."""

    def __add__(self, other: Counts) -> Counts:
        return Counts(*map(sum, zip(self.as_tuple(), other.as_tuple(), strict=True)))

    def __sub__(self, other: Counts) -> Counts:
        pairs = zip(self.as_tuple(), other.as_tuple(), strict=True)
        return Counts(*(a - b for a, b in pairs))

    def as_tuple(self) -> tuple[int, int, int]:
        return self.launches, self.copies, self.waits


def counted() -> Counts:
    """What this process has asked of the software GPU so far."""
    of = counters.read()
    copies = sum(n for name, n in of.items() if name.startswith("copies_"))
    return Counts(of["launches"], copies + of["memsets"] + of["library_calls"], of["host_waits"])


def counting_driver() -> Any:
    """A driver with `inside`: what was counted within items."""
    base: Any = importlib.import_module("gpushard._runtime.cuda.driver.cupy_driver").CupyDriver

    class CountingDriver(base):
        inside = Counts()

        def run(self, stream: Any, work: Callable[..., None], *args: Any) -> None:
            def counting() -> None:
                before = counted()
                work(*args)
                self.inside += counted() - before

            super().run(stream, counting)

    return CountingDriver()


def of_each_form(row: Row) -> Iterator[Case]:
    """A case of each form of a row."""
    found = {id(case.form): case for case in cases(row)}
    yield from found.values()


def calls_of(row: Row) -> Iterator[Callable[[], Any]]:
    """Call a row in each of its forms, of operands that are there."""
    sharding = gs.NamedSharding(gs.make_mesh((1,), ("a",)), gs.P())
    for letters, dtype, numbers in MADE.get(row, ()):
        tiling = sharding.tiling((5,) * len(letters))
        buffer = functools.partial(create, row, tiling, np.dtype(dtype), numbers)
        yield lambda buffer=buffer: gs.Array(buffer(), sharding)
    for case in of_each_form(row) if row in FORMS else ():
        placed = [gs.device_put(array, sharding).block_until_ready() for array in case.arrays]
        yield functools.partial(bind, row, (*placed, *case.form.scalars), case.params)


def measure(row: Row) -> Counts | str:
    """The most that any form of a row costs on one device, or why it does not run there."""
    driver = counting_driver()
    most = Counts()
    with using(make_gpu_runtime(driver, Split(1, False))):
        for call in calls_of(row):
            try:
                call()  # plans, compiles
                driver.inside = Counts()
                gs.block_until_ready(call())
            except (GpushardError, NotImplementedError, RuntimeError) as error:
                return type(error).__name__
            pairs = zip(most.as_tuple(), driver.inside.as_tuple(), strict=True)
            most = Counts(*map(max, pairs))
    return most


def named_rows() -> dict[str, Row]:
    """All rows, by names of which each is there once."""
    found: dict[str, Row] = {}
    for row in (*MADE, *FORMS):
        name, number = row.name.replace(" ", "_"), 1
        while name in found:
            number += 1
            name = f"{row.name.replace(' ', '_')}#{number}"
        found[name] = row
    return found


def read_table() -> dict[str, Counts]:
    """The table of rows that run."""
    made = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[1:]:
        name, *numbers = line.split()[:4]
        if numbers[0].isdigit():
            made[name] = Counts(*map(int, numbers))
    return made


def main() -> None:
    """Print the table."""
    print(f"{'row':<32}{'launches':>10}{'copies':>10}{'waits':>10}  why")
    for name, row in named_rows().items():
        found = measure(row)
        numbers = (found,) if isinstance(found, str) else found.as_tuple()
        why = REASONS.get(name, "")
        columns = "".join(f"{number:>10}" for number in numbers)
        print(f"{name:<32}{columns}  {why}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
