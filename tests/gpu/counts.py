"""What each row costs on a GPU: launches, copies, and waits of the host, within one item.

The software GPU counts them; no other does. To write the table anew, with that first on the path of
libraries:

    python -m tests.gpu.counts >tests/gpu/counts.txt
"""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import gpushard as gs
from gpushard.errors import GpushardError
from gpushard.ops.bind import bind
from gpushard.ops.create import create
from gpushard.ops.row import Row
from gpushard.testing.runtime import using
from tests.gpu.device import Split, make_gpu_runtime
from tests.ops.cases import FORMS, MADE, Case, cases

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


@functools.cache
def software_gpu() -> Callable[[], Counts] | None:
    """What says how much this process has asked of a software GPU; None on a real one."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    if hasattr(library, "softgpu_counter_names"):
        library.softgpu_counter_names.restype = ctypes.c_char_p
        names = library.softgpu_counter_names().decode().split()
        return functools.partial(_counted, library, names)
    return functools.partial(_stats, library) if hasattr(library, "softgpu_stats") else None


def _counted(library: Any, names: Sequence[str]) -> Counts:
    values = (ctypes.c_uint64 * len(names))()
    library.softgpu_counters(values)
    of = dict(zip(names, values, strict=True))
    copies = sum(n for name, n in of.items() if name.startswith("copies_"))
    return Counts(of["launches"], copies + of["memsets"] + of["library_calls"], of["host_waits"])


def _stats(library: Any) -> Counts:
    """The same of a prototype, which knows no more than that."""
    operations, kernels = ctypes.c_long(), ctypes.c_long()
    library.softgpu_stats(ctypes.byref(operations), ctypes.byref(kernels))
    return Counts(kernels.value, operations.value - kernels.value, library.softgpu_syncs())


def counting_driver() -> Any:
    """A driver with `inside`: what was counted within items."""
    counted = software_gpu()
    assert counted is not None, "only the software GPU counts"
    base: Any = importlib.import_module("gpushard.runtime.cuda.cupy_driver").CupyDriver

    class CountingDriver(base):
        inside = Counts()

        def run(self, stream: Any, work: Callable[[], None]) -> None:
            def counting() -> None:
                before = counted()
                work()
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
    print(f"{'row':<32}{'launches':>10}{'copies':>10}{'waits':>10}")
    for name, row in named_rows().items():
        found = measure(row)
        numbers = (found,) if isinstance(found, str) else found.as_tuple()
        print(f"{name:<32}" + "".join(f"{number:>10}" for number in numbers), flush=True)


if __name__ == "__main__":
    main()
