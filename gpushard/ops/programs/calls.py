"""Calls of local kernels on the shards of operands, ready to be made again and again."""

from __future__ import annotations

import contextvars
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.movement.planning.aliasing import ALIGNMENT
from gpushard.movement.planning.holders import holdings
from gpushard.ops.row import Kernel, Row, Site
from gpushard.runtime.backend import Pace
from gpushard.runtime.host.ufuncs import without_out
from gpushard.runtime.launch import Outputs
from gpushard.runtime.memory import Claim, Memory
from gpushard.runtime.runtime import Device, Runtime
from gpushard.typing import Dtype, LocalArray, Shape

T = TypeVar("T")

THREADED_BYTES = 64 << 10
"""Calls of linear algebra that read and write fewer bytes together run on one thread anyway."""

_BYTES = np.dtype(np.uint8)

_quiet = contextvars.Context()
_quiet.run(np.seterr, all="ignore")


def quietly(function: Callable[..., T], *given: Any, **named: Any) -> T:
    """Call a function that warns of nothing: devices do not warn of overflow and the like."""
    return _quiet.copy().run(function, *given, **named)


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call of a kernel."""

    # Position of the device that pays, whose operands are taken, and on whose stream it runs.
    home: int
    shapes: tuple[Shape, ...]  # shapes of what it writes
    site: tuple[Any, ...]  # what the kernel takes before its operands: nothing, or a `Site`
    reads: int = 0  # bytes of operands, or of values within, where they may be more than results


@dataclass(frozen=True, eq=False)
class Work:
    """What there is to call, and which device has the results of which call."""

    runtime: Runtime  # of the devices
    name: str  # of the operation, for errors
    kernel: Kernel  # what is called
    calls: Sequence[Call]
    # For each device the call whose results it has; -1 for none: no elements.
    of_device: Sequence[int]
    tilings: Sequence[Tiling]  # of the results
    dtypes: Sequence[Dtype]  # of the results


class LocalCalls:
    """Calls of one kernel, ready to be made.

    Args:
      work: what there is to call.
      threaded: whether the kernel calls a library that has threads of its own.
      light: whether a call reads nothing, and so takes little longer than to write its results.
      steps: about how many functions of NumPy's a call uses on the host.
    """

    def __init__(
        self, work: Work, *, threaded: bool = False, light: bool = False, steps: int = 1
    ) -> None:
        self.runtime = runtime = work.runtime
        self.name = work.name
        self.kernel = work.kernel
        self._kernel_without_out = without_out(work.kernel)
        self.calls = calls = work.calls
        self.of_device = of_device = work.of_device
        self.tilings = tilings = work.tilings
        self.dtypes = dtypes = work.dtypes
        self.devices: tuple[Device, ...] = tuple(p.device for p in devices_of(tilings[0]))
        self._homes = [call.home for call in calls]
        self._in_order = self._homes == list(range(len(of_device)))
        self._sizes = [
            [math.prod(shape) * t.itemsize for shape, t in zip(call.shapes, dtypes, strict=True)]
            for call in calls
        ]
        # Of each call: where the memory of results comes from, who pays for each and how much.
        self._places = [
            (device.domain.pool, device.stream, tuple((device.account, n) for n in sizes))
            for device, sizes in zip(
                map(self.devices.__getitem__, self._homes), self._sizes, strict=True
            )
        ]
        self._streams = list(dict.fromkeys(self.devices[home].stream for home in self._homes))
        charges = tuple(
            (self.devices[call.home].account, sum(size))
            for call, size in zip(calls, self._sizes, strict=True)
        )
        pool = self.devices[0].domain.pool
        written = sum(map(sum, self._sizes))
        # Counts all results.
        self._claim = functools.partial(runtime.claim_at_once, pool, charges, written)
        total = written + sum(call.reads for call in calls)
        largest = max((max(size) for size in self._sizes), default=0)
        settings = runtime.settings
        # What is for one device goes there: others may have work, too, and the caller goes on.
        single = settings.light_bytes if light else settings.inline_bytes
        limit = settings.shared_bytes if len(calls) > 1 else single
        self._here = runtime.backend.host_readable and bool(calls) and total <= limit
        self._alone = total <= settings.inline_bytes
        one_pool = len({place[0] for place in self._places}) == 1 and not pool.is_limited
        joined = self._here and one_pool and written <= settings.light_bytes
        self._joined = [self._in_one(n) for n in range(len(dtypes))] if joined else None
        """Where small results lie in one memory each: what keeps a block keeps all of that."""
        self._pace = Pace(steps)
        few = total <= settings.light_bytes  # too few for others to help
        self._small = self._here and few and largest < settings.small_bytes
        self._threaded = threaded and total > THREADED_BYTES
        self._run = self._run_among if self._threaded else quietly
        self._one_result = len(dtypes) == 1
        # Kernels return numbers, not arrays, for no dims.
        self._plain = all(shape for call in calls for shape in call.shapes)
        self._direct = self._one_result and list(of_device) == list(range(len(calls)))
        self._everywhere = min(of_device, default=-1) >= 0
        self._replicated = self._everywhere and len(calls) == 1
        self._sites = list(zip(*(call.site for call in calls), strict=True))
        self._rehearsed = runtime.backend.host_readable

    def _in_one(self, n: int) -> tuple[Any, int, list[tuple[Shape, int]]]:
        """Return who pays for a result, its bytes in one memory, and where each block starts."""
        sizes = [-(-own[n] // ALIGNMENT) * ALIGNMENT for own in self._sizes]
        starts = [0, *itertools.accumulate(sizes)]
        shapes = [call.shapes[n] for call in self.calls]
        charges = tuple(place[2][n] for place in self._places)
        return charges, starts[-1], list(zip(shapes, starts, strict=False))

    def run(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[ShardedBuffer]:
        """Make the calls; scalars are (position in all that the kernel takes, value), ascending."""
        parts = self.run_parts(operands, scalars)
        if self._direct:
            (only,) = parts
            return [
                ShardedBuffer(
                    self.tilings[0], self.dtypes[0], only.values, only.claims, only.settled, 0
                )
            ]
        return [self.assemble(n, part) for n, part in enumerate(parts)]

    def run_parts(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Outputs]:
        """Make the calls, and return for each result what every call made."""
        here, columns = self._here, []
        for operand in operands:
            here = here and (operand.settled or operand.is_settled())
            columns.append(operand.values)
        if not self._in_order:
            columns = [[of[home] for home in self._homes] for of in columns]
        for position, value in scalars:
            columns.insert(position, [value] * len(self.calls))
        if here and self._small:
            return self._call_here(columns)
        return self.launch(
            _rows(columns, len(self.calls)),
            lambda call: [operand.claims[call.home].memory for operand in operands],
            here=here,
        )

    def _call_here(self, columns: list[Any]) -> list[Outputs]:
        """Make the calls in the caller; `columns` has what they take of each operand."""
        count = len(self.calls)
        if not self._one_result or not (columns or self._sites):
            return self.call_rows(_rows(columns, count))
        claims = [self._claim()] * count
        tasks = map(self._kernel_without_out, *self._sites, *columns)
        run = self._run
        values = _quiet.copy().run(list, tasks) if run is quietly else run(list, tasks)
        if not self._plain:
            values = list(map(np.asarray, values))
        return [Outputs(values, claims, True)]

    def call_rows(self, rows: Sequence[Sequence[Any]]) -> list[Outputs]:
        """Make the calls in the caller; `rows` has the arguments of each."""
        claims = [self._claim()] * len(self.calls)
        made = self._run(self._compute_rows, rows)
        return [Outputs(values, claims, True) for values in made]

    def _compute_rows(self, rows: Sequence[Sequence[Any]]) -> list[list[LocalArray]]:
        outs = []
        for call, row in zip(self.calls, rows, strict=True):
            made = self.kernel(*call.site, *row)
            outs.append(made if len(self.dtypes) > 1 else (made,))
        return [[np.asarray(value) for value in column] for column in zip(*outs, strict=True)]

    def launch(
        self,
        rows: Sequence[Sequence[Any]],
        reads: Callable[[Call], list[Memory]],
        *,
        here: bool,
    ) -> list[Outputs]:
        """Give the calls to the devices, or make them in the caller, whom idle threads help.

        If `here`, the caller makes them where memory for the results is free at once. `rows` has
        the arguments of each, `reads` their memory.
        """
        if not self._rehearsed and self.calls:
            self._rehearsed = True
            first = self.calls[0]
            results = list(zip(first.shapes, self.dtypes, strict=True))
            if not first.site:  # others make their results of where these lie
                place = self.devices[first.home].domain.index
                self.runtime.backend.rehearse(self.kernel, rows[0], results, place)
        step = functools.partial(self._submit, rows, reads, here)
        made, tasks = self.runtime.commit(step, self._streams)
        if tasks:
            read = [memory for call in self.calls for memory in reads(call)]
            written = [claim.memory for part in made for claim in part.claims]
            run = functools.partial(self.runtime.backend.run_now, tasks, read, written, self._pace)
            if self._threaded:  # one division for all, rather than one for each and none between
                self.runtime.backend.call_among(len(self.calls), run)
            else:
                run()
            for part in made:
                part.settled = True
        return made

    def _submit(
        self,
        rows: Sequence[Sequence[Any]],
        reads: Callable[[Call], list[Memory]],
        here: bool,
    ) -> tuple[list[Outputs], list[Callable[[], None]]]:
        """Allocate every result; return the calls for the caller, or give them to the devices."""
        results = range(len(self.dtypes))
        joined = here and self._joined is not None
        made = [self._allocate_joined(n) if joined else self._allocate(n, here) for n in results]
        if here and any(claim.memory.busy() for part in made for claim in part.claims):
            here = False
            if joined:  # of streams, each says for itself when it has written
                made = [self._allocate(n, here) for n in results]
        targets: list[Any] = [part.values for part in made]
        outs = targets[0] if len(made) == 1 else list(zip(*targets, strict=True))
        kernel, run, make = self.kernel, self._run, functools.partial
        if here and self._alone:
            return made, [make(run, self._write, rows, outs)]
        tasks: list[Callable[[], None]] = []
        for call, row, out in zip(self.calls, rows, outs, strict=True):
            inside = _quiet.copy().run if run is quietly else run
            tasks.append(make(inside, kernel, *call.site, *row, out=out))
        if here:
            return made, tasks
        submit, name = self.runtime.submit, self.name
        for number, (call, task) in enumerate(zip(self.calls, tasks, strict=True)):
            written = [part.claims[number].memory for part in made]
            submit(self._places[number][1], name, task, tuple(dict.fromkeys(reads(call))), written)
        return made, []

    def _run_among(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """Call kernels that have threads, as some of several calls."""
        run = functools.partial(quietly, function, *given, **named)
        return self.runtime.backend.call_among(len(self.calls), run)

    def _allocate(self, n: int, here: bool) -> Outputs:
        claim, view, dtype = self.runtime.claim_shared, self.runtime.backend.view, self.dtypes[n]
        claims, values = [], []
        for call, (pool, stream, charges) in zip(self.calls, self._places, strict=True):
            charge = charges[n]
            made = claim(pool, (charge,), charge[1], None if here else stream)
            claims.append(made)
            values.append(view(made.memory.raw, call.shapes[n], dtype))
        return Outputs(values, claims, False)

    def _allocate_joined(self, n: int) -> Outputs:
        """Allocate one memory for all blocks of a result, with one claim and not one for each."""
        assert self._joined is not None
        charges, nbytes, starts = self._joined[n]
        claim = self.runtime.claim_shared(self._places[0][0], charges, nbytes, None)
        whole = self.runtime.backend.view(claim.memory.raw, (nbytes,), _BYTES)
        dtype = self.dtypes[n]
        values: list[Any] = [np.ndarray(shape, dtype, whole, start) for shape, start in starts]
        return Outputs(values, [claim] * len(values), False)

    def _write(self, rows: Sequence[Sequence[Any]], outs: Sequence[Any]) -> None:
        for call, row, out in zip(self.calls, rows, outs, strict=True):
            self.kernel(*call.site, *row, out=out)

    def assemble(self, n: int, part: Outputs) -> ShardedBuffer:
        """Return one result: what every device has of the calls."""
        tiling, dtype = self.tilings[n], self.dtypes[n]
        if self._replicated:
            count = len(self.of_device)
            values, claims = [part.values[0]] * count, [part.claims[0]] * count
            return ShardedBuffer(tiling, dtype, values, claims, part.settled)
        if self._everywhere:
            values = [part.values[call] for call in self.of_device]
            claims = [part.claims[call] for call in self.of_device]
            return ShardedBuffer(tiling, dtype, values, claims, part.settled)
        values, claims = [], []
        nothing: Claim | None = None
        for position, call in enumerate(self.of_device):
            if call >= 0:
                values.append(part.values[call])
                claims.append(part.claims[call])
                continue
            place = self.devices[position]
            shape = tiling.shard_shapes[position]
            values.append(self.runtime.backend.empty(place.domain.index, shape, dtype))
            nothing = nothing or claim_nothing(place)
            claims.append(nothing)
        return ShardedBuffer(tiling, dtype, values, claims, part.settled)


def _rows(columns: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """Return the arguments of each call from those of all."""
    return list(zip(*columns, strict=True)) if columns else [()] * count


def calls_of(
    row: Row,
    operands: Sequence[tuple[Tiling, int]],
    results: Sequence[Tiling],
    takes_part: Sequence[bool] | None = None,
) -> tuple[list[Call], list[int]]:
    """List the calls of a row's kernel on blocks, and for each device the number of its call or -1.

    Devices of one domain whose operands and results are the same blocks share a call; it is charged
    to the device that the first result's block is at home on. Operands are (boxes over the devices
    of the results in the same order, bytes of an element). By default devices without a result take
    no part.
    """
    tilings = (*(tiling for tiling, _ in operands), *results)
    domain = holdings(results[0].assignment).device_domain.tolist()
    blocks = [tiling.assignment.flat.tolist() for tiling in tilings]
    volumes = [tiling.volumes.tolist() for tiling in results]
    homes = holdings(results[0].assignment)
    numbers: dict[tuple[int, ...], int] = {}
    calls: list[Call] = []
    of_device: list[int] = []
    for position in range(len(results[0].devices)):
        there = any(volume[position] for volume in volumes)
        if not there or not (takes_part is None or takes_part[position]):
            of_device.append(-1)
            continue
        key = (domain[position], *(block[position] for block in blocks))
        number = numbers.setdefault(key, len(calls))
        if number == len(calls):
            home = int(homes.home[homes.of_device[position]])
            same = all(block[home] == block[position] for block in blocks)
            calls.append(_call(row, operands, results, home if same else position))
        of_device.append(number)
    return calls, of_device


def _call(
    row: Row, operands: Sequence[tuple[Tiling, int]], results: Sequence[Tiling], home: int
) -> Call:
    shapes = tuple(tiling.shard_shapes[home] for tiling in results)
    reads = sum(int(tiling.volumes[home]) * itemsize for tiling, itemsize in operands)
    if not row.positional:
        return Call(home, shapes, (), reads)
    tilings = [*(tiling for tiling, _ in operands), results[0]]
    starts = [tuple(tiling.starts[:, home].tolist()) for tiling in tilings]
    return Call(home, shapes, (Site(tuple(starts[:-1]), starts[-1], shapes[0]),), reads)
