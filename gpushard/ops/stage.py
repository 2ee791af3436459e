"""Calls of local kernels on the shards of operands, ready to be made again and again."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from gpushard.frozen import dataclass
from gpushard.geometry.tiling import Tiling
from gpushard.movement.buffer import ShardedBuffer, claim_nothing, devices_of
from gpushard.ops.row import Kernel
from gpushard.runtime.backend import Pace
from gpushard.runtime.memory import Claim, Memory
from gpushard.runtime.runtime import Device, Runtime
from gpushard.typing import LocalArray, Shape

T = TypeVar("T")

THREADED_BYTES = 64 << 10
"""Calls of linear algebra that read and write fewer bytes together run on one thread anyway."""

_quiet = contextvars.Context()
_quiet.run(np.seterr, all="ignore")


def quietly(function: Callable[..., T], *given: Any, **named: Any) -> T:
    """Call a function that warns of nothing: devices do not warn of overflow and the like."""
    return _quiet.copy().run(function, *given, **named)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One call of a kernel."""

    home: int
    """Position of the device that pays, whose operands are taken, and on whose stream it runs."""

    shapes: tuple[Shape, ...]
    """Shapes of what it writes."""

    site: tuple[Any, ...]
    """What the kernel takes before its operands: nothing, or a `Site`."""

    reads: int = 0
    """Bytes of its operands, where they may be larger than what it writes."""


@dataclasses.dataclass(slots=True)
class Parts:
    """What the calls of a stage made, for one result: an array for each."""

    values: list[LocalArray]
    """The arrays."""

    claims: list[Claim]
    """What keeps their memory."""

    settled: bool
    """Whether they are known to be there."""


class Stage:
    """Calls of one kernel, and which device has the results of which call.

    Args:
      runtime: of the devices.
      name: of the operation, for errors.
      kernel: what is called.
      jobs: the calls.
      of_device: for each device the job whose results it has; -1 for none: no elements.
      tilings: of the results.
      dtypes: of the results.
      threaded: whether the kernel calls a library that has threads of its own.
      light: whether a call reads nothing, and so takes little longer than to write its results.
      steps: about how many functions of NumPy's a call uses on the host.
    """

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        kernel: Kernel,
        jobs: Sequence[Job],
        of_device: Sequence[int],
        tilings: Sequence[Tiling],
        dtypes: Sequence[np.dtype[Any]],
        *,
        threaded: bool = False,
        light: bool = False,
        steps: int = 1,
    ) -> None:
        self.runtime = runtime
        self.name = name
        self.kernel = kernel
        self.jobs = jobs
        self.of_device = of_device
        self.tilings = tilings
        self.dtypes = dtypes
        self.devices: tuple[Device, ...] = tuple(p.device for p in devices_of(tilings[0]))
        self._homes = [job.home for job in jobs]
        self._in_order = self._homes == list(range(len(of_device)))
        self._sizes = [
            [math.prod(shape) * t.itemsize for shape, t in zip(job.shapes, dtypes, strict=True)]
            for job in jobs
        ]
        self._places = [
            (device.domain.pool, device.stream, tuple((device.account, n) for n in sizes))
            for device, sizes in zip(
                map(self.devices.__getitem__, self._homes), self._sizes, strict=True
            )
        ]
        """Of each job: where the memory of results comes from, who pays for each and how much."""
        self._streams = list(dict.fromkeys(self.devices[home].stream for home in self._homes))
        charges = tuple(
            (self.devices[job.home].account, sum(size))
            for job, size in zip(jobs, self._sizes, strict=True)
        )
        pool = self.devices[0].domain.pool
        written = sum(map(sum, self._sizes))
        self._claim = functools.partial(runtime.claim_at_once, pool, charges, written)
        """Counts all results."""
        total = written + sum(job.reads for job in jobs)
        largest = max((max(size) for size in self._sizes), default=0)
        settings = runtime.settings
        # What is for one device goes there: others may have work, too, and the caller goes on.
        single = settings.light_bytes if light else settings.inline_bytes
        limit = settings.shared_bytes if len(jobs) > 1 else single
        self._here = runtime.backend.host_readable and bool(jobs) and total <= limit
        self._alone = total <= settings.inline_bytes
        self._pace = Pace(steps)
        self._small = self._here and largest < settings.small_bytes
        self._threaded = threaded and total > THREADED_BYTES
        self._run = self._run_among if self._threaded else quietly
        self._one_result = len(dtypes) == 1
        # Kernels return numbers, not arrays, for no dims.
        self._plain = all(shape for job in jobs for shape in job.shapes)
        self._direct = self._one_result and list(of_device) == list(range(len(jobs)))
        self._everywhere = min(of_device, default=-1) >= 0
        self._sites = list(zip(*(job.site for job in jobs), strict=True))
        self._rehearsed = runtime.backend.host_readable

    def run(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[ShardedBuffer]:
        """Make the calls.

        Args:
          operands: laid out as the jobs expect.
          scalars: (position among all that the kernel takes, value), ascending.

        Raises:
          OutOfMemoryError: a device has no room; nothing has changed.
        """
        parts = self.run_parts(operands, scalars)
        if self._direct:
            (only,) = parts
            return [
                ShardedBuffer(
                    self.tilings[0], self.dtypes[0], only.values, only.claims, only.settled
                )
            ]
        return [self.assemble(n, part) for n, part in enumerate(parts)]

    def run_parts(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]] = ()
    ) -> list[Parts]:
        """Make the calls, and return for each result what every call made."""
        here, columns = self._here, []
        if here:
            for operand in operands:
                if not (operand.settled or operand.is_settled()):
                    here = False
                    break
                columns.append(operand.values)
            else:
                if self._small:
                    return self._call_here(columns, scalars)
        return self._call_there(operands, scalars, here)

    def _call_there(
        self, operands: Sequence[ShardedBuffer], scalars: Sequence[tuple[int, Any]], here: bool
    ) -> list[Parts]:
        """Make the calls where memory for the results has to be found."""

        def arguments(job: Job) -> list[Any]:
            found: list[Any] = [operand.values[job.home] for operand in operands]
            for position, value in scalars:
                found.insert(position, value)
            return found

        return self.launch(
            arguments,
            lambda job: [operand.claims[job.home].memory for operand in operands],
            here=here,
        )

    def _call_here(self, columns: list[Any], scalars: Sequence[tuple[int, Any]]) -> list[Parts]:
        """Make the calls in the caller; `columns` has what the devices have of each operand."""
        if not self._in_order:
            columns = [[of[home] for home in self._homes] for of in columns]
        count = len(self.jobs)
        for position, value in scalars:
            columns.insert(position, (value,) * count)
        if not self._one_result or not (columns or self._sites):
            return self.call_rows(list(zip(*columns, strict=True)) if columns else [()] * count)
        claims = [self._claim()] * count
        calls = map(self.kernel, *self._sites, *columns)
        run = self._run
        values = _quiet.copy().run(list, calls) if run is quietly else run(list, calls)
        if not self._plain:
            values = list(map(np.asarray, values))
        return [Parts(values, claims, True)]

    def call_rows(self, rows: Sequence[Sequence[Any]]) -> list[Parts]:
        """Make the calls in the caller; `rows` has the arguments of each."""
        claims = [self._claim()] * len(self.jobs)
        made = self._run(self._compute_rows, rows)
        return [Parts(values, claims, True) for values in made]

    def _compute_rows(self, rows: Sequence[Sequence[Any]]) -> list[list[LocalArray]]:
        outs = []
        for job, row in zip(self.jobs, rows, strict=True):
            made = self.kernel(*job.site, *row)
            outs.append(made if len(self.dtypes) > 1 else (made,))
        return [[np.asarray(value) for value in column] for column in zip(*outs, strict=True)]

    def launch(
        self,
        arguments: Callable[[Job], list[Any]],
        reads: Callable[[Job], list[Memory]],
        *,
        here: bool,
    ) -> list[Parts]:
        """Give the calls to the devices, or make them in the caller, whom idle threads help.

        Args:
          arguments: what the kernel takes in a job, after the site.
          reads: the memory of these.
          here: whether the caller makes the calls, if memory for the results is free at once.
        """
        if not self._rehearsed and self.jobs:
            self._rehearsed = True
            first = self.jobs[0]
            results = list(zip(first.shapes, self.dtypes, strict=True))
            if not first.site:  # others make their results of where these lie
                place = self.devices[first.home].domain.index
                self.runtime.backend.rehearse(self.kernel, arguments(first), results, place)
        step = functools.partial(self._submit, arguments, reads, here)
        made, calls = self.runtime.commit(step, self._streams)
        if calls:
            read = [memory for job in self.jobs for memory in reads(job)]
            written = [claim.memory for part in made for claim in part.claims]
            if self._alone:
                calls = [functools.partial(_run_all, calls)]
            run = functools.partial(self.runtime.backend.run_now, calls, read, written, self._pace)
            if self._threaded:  # one division for all, rather than one for each and none between
                self.runtime.backend.call_among(len(self.jobs), run)
            else:
                run()
            for part in made:
                part.settled = True
        return made

    def _submit(
        self,
        arguments: Callable[[Job], list[Any]],
        reads: Callable[[Job], list[Memory]],
        here: bool,
    ) -> tuple[list[Parts], list[Callable[[], None]]]:
        """Allocate every result; return the calls for the caller, or give them to the devices."""
        made = [self._allocate(n, here) for n in range(len(self.dtypes))]
        targets: list[Any] = [part.values for part in made]
        outs = targets[0] if len(made) == 1 else list(zip(*targets, strict=True))
        kernel, run, make = self.kernel, self._run, functools.partial
        calls: list[Callable[[], None]] = []
        for job, out in zip(self.jobs, outs, strict=True):
            inside = _quiet.copy().run if run is quietly else run
            calls.append(make(inside, kernel, *job.site, *arguments(job), out=out))
        if here and not any(claim.memory.busy() for part in made for claim in part.claims):
            return made, calls
        submit, name = self.runtime.submit, self.name
        for number, (job, call) in enumerate(zip(self.jobs, calls, strict=True)):
            written = [part.claims[number].memory for part in made]
            submit(self._places[number][1], name, call, tuple(dict.fromkeys(reads(job))), written)
        return made, []

    def _run_among(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """Call kernels that have threads, as some of several calls."""
        run = functools.partial(quietly, function, *given, **named)
        return self.runtime.backend.call_among(len(self.jobs), run)

    def _allocate(self, n: int, here: bool) -> Parts:
        """Make memory for one result of every call."""
        claim, view, dtype = self.runtime.claim_shared, self.runtime.backend.view, self.dtypes[n]
        claims, values = [], []
        for job, (pool, stream, charges) in zip(self.jobs, self._places, strict=True):
            charge = charges[n]
            made = claim(pool, (charge,), charge[1], None if here else stream)
            claims.append(made)
            values.append(view(made.memory.raw, job.shapes[n], dtype))
        return Parts(values, claims, False)

    def assemble(self, n: int, part: Parts) -> ShardedBuffer:
        """Return one result: what every device has of the calls."""
        tiling, dtype = self.tilings[n], self.dtypes[n]
        if self._everywhere:
            values = [part.values[job] for job in self.of_device]
            claims = [part.claims[job] for job in self.of_device]
            return ShardedBuffer(tiling, dtype, values, claims, part.settled)
        values, claims = [], []
        nothing: Claim | None = None
        for position, job in enumerate(self.of_device):
            if job >= 0:
                values.append(part.values[job])
                claims.append(part.claims[job])
                continue
            place = self.devices[position]
            shape = tiling.shard_shapes[position]
            values.append(self.runtime.backend.empty(place.domain.index, shape, dtype))
            nothing = nothing or claim_nothing(place)
            claims.append(nothing)
        return ShardedBuffer(tiling, dtype, values, claims, part.settled)


def _run_all(calls: Sequence[Callable[[], None]]) -> None:
    for run in calls:
        run()
