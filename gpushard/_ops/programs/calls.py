"""Calls of local kernels on the shards of operands, ready to be made again and again."""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.buffer import ShardedBuffer, claim_nothing
from gpushard._movement.planning.aliasing import ALIGNMENT
from gpushard._movement.planning.holdings import holdings
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.row import Kernel, Row, Site
from gpushard._runtime.claims import Claim
from gpushard._runtime.host.ufuncs import without_out
from gpushard._runtime.launch import Outputs, launch, one_room, room_on
from gpushard._runtime.memory import Memory
from gpushard._runtime.pool import Room
from gpushard._runtime.runtime import Device, Runtime
from gpushard._runtime.work_sharing import Pace
from gpushard._typing import Dtype, LocalArray, Shape

T = TypeVar("T")

THREADED_BYTES = 64 << 10
"""A call of linear algebra that reads and writes fewer bytes runs on one thread anyway."""

_quiet = contextvars.Context()
_quiet.run(np.seterr, all="ignore")


def quietly(function: Callable[..., T], *given: Any, **named: Any) -> T:
    """Call a function that warns of nothing: devices do not warn of overflow and the like."""
    return _quiet.copy().run(function, *given, **named)


@dataclass(frozen=True, slots=True, eq=False)
class KernelCall:
    """One call of a kernel."""

    # Position of the device that pays, whose operands are taken, and on whose stream it runs.
    home: int
    shapes: tuple[Shape, ...]  # shapes of what it writes
    site: tuple[Any, ...]  # what the kernel takes before its operands: nothing, or a `Site`
    reads: int = 0  # bytes of operands, or of values within, where they may be more than results


@dataclass(frozen=True, eq=False)
class CallPlan:
    """Calls of a kernel, and which device has the results of which call."""

    runtime: Runtime  # of the devices
    name: str  # of the operation, for errors
    kernel: Kernel  # what is called
    calls: Sequence[KernelCall]
    # For each device the call whose results it has; -1 for none: no elements.
    of_device: Sequence[int]
    tilings: Sequence[Tiling]  # of the results
    dtypes: Sequence[Dtype]  # of the results


class LocalCalls:
    """Calls of one kernel, ready to be made.

    Args:
      plan: the calls.
      threaded: whether the kernel calls a library that has threads of its own.
      light: whether a call reads nothing, and so takes little longer than to write its results.
      steps: about how many functions of NumPy's a call uses on the host.
    """

    takes_blocks = True
    """Whether each call takes of every operand the block of one device."""

    def __init__(
        self, plan: CallPlan, *, threaded: bool = False, light: bool = False, steps: int = 1
    ) -> None:
        self.runtime = runtime = plan.runtime
        self.name = plan.name
        self.kernel = plan.kernel
        self._kernel_without_out = without_out(plan.kernel)
        self.calls = calls = plan.calls
        self.of_device = of_device = plan.of_device
        self.tilings = tilings = plan.tilings
        self.dtypes = dtypes = plan.dtypes
        self.devices: tuple[Device, ...] = tuple(p.device for p in devices_of(tilings[0]))
        self._homes = [call.home for call in calls]
        self._in_order = self._homes == list(range(len(of_device)))
        at = [self.devices[home] for home in self._homes]
        by_result = [
            [room_on(of, c.shapes[n], t, of.stream) for of, c in zip(at, calls, strict=True)]
            for n, t in enumerate(dtypes)
        ]
        # What is written: of each result what every call makes.
        self._rooms = [room for of in by_result for room in of]
        self.writes = [sum(room.nbytes for room in of) for of in by_result]
        """The bytes of each result."""
        self._streams = list(dict.fromkeys(device.stream for device in at))
        charges = tuple(
            (device.account, sum(room.nbytes for room in of))
            for device, *of in zip(at, *by_result, strict=True)
        )
        pool = self.devices[0].domain.pool
        written = sum(self.writes)
        self.charges = charges
        """The account of each call, and the bytes of its results."""
        self.count = functools.partial(runtime.count, Room(pool, charges, written))
        """Claims all results, as arrays that own their bytes."""
        total = written + sum(call.reads for call in calls)
        largest = max((room.nbytes for room in self._rooms), default=0)
        settings = runtime.settings
        # What is for one device goes there: others may have work, too, and the caller goes on.
        single = settings.light_bytes if light else settings.inline_bytes
        limit = settings.shared_bytes if len(calls) > 1 else single
        self._here = runtime.backend.host_readable and bool(calls) and total <= limit
        self._alone = total <= settings.inline_bytes
        one_pool = len({room.pool for room in self._rooms}) == 1 and not pool.is_limited
        joined = self._here and one_pool and written <= settings.light_bytes
        # One memory for each small result, if the caller writes it.
        self._joined = [one_room(of, ALIGNMENT) for of in by_result] if joined else []
        self._pace = Pace(steps)
        few = total <= settings.light_bytes  # too few for others to help
        self._small = self._here and few and largest < settings.small_bytes
        most = max(
            (call.reads + nbytes for call, (_, nbytes) in zip(calls, charges, strict=True)),
            default=0,
        )
        self._threaded = threaded and most > THREADED_BYTES
        self._run = self._run_among if self._threaded else quietly
        self._one_result = len(dtypes) == 1
        # Kernels return numbers, not arrays, for no dims.
        self._plain = all(shape for call in calls for shape in call.shapes)
        self._everywhere = min(of_device, default=-1) >= 0
        self.order = None if list(of_device) == list(range(len(calls))) else of_device
        """The number of the call that gives each device its results; None if it is the device's."""
        self._direct = self._one_result and self.order is None
        self._replicated = self._everywhere and len(calls) == 1
        self._sites = list(zip(*(call.site for call in calls), strict=True))
        self._rehearsed = runtime.backend.host_readable
        unlimited = settings.memory_limit is None  # under a quota each result counts by itself
        self.at_once = self._small and self._everywhere and unlimited and not self._threaded
        """Whether the caller may make the calls among others, see `AtOnce`."""

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
        count, run = len(self.calls), self._run
        if not self._one_result or not (columns or self._sites):
            return self._call_rows(_rows(columns, count))
        claims = [self.count()] * count
        tasks = map(self._kernel_without_out, *self._sites, *columns)
        values = _quiet.copy().run(list, tasks) if run is quietly else run(list, tasks)
        if not self._plain:
            values = list(map(np.asarray, values))
        return [Outputs(values, claims, True)]

    def _call_rows(self, rows: Sequence[Sequence[Any]]) -> list[Outputs]:
        """Make the calls in the caller; `rows` has the arguments of each."""
        claims = [self.count()] * len(self.calls)
        made = self._run(self._compute_rows, rows)
        return [Outputs(values, claims, True) for values in made]

    def compute(self, *columns: Sequence[Any]) -> list[list[LocalArray]]:
        """Make the calls in the caller, for arrays that no one claims; see `at_once`.

        Args:
          *columns: what the devices have of each operand; of a number it is the number.

        Returns:
          For each result what every call made.
        """
        if not self._in_order:
            columns = tuple([[of[home] for home in self._homes] for of in columns])
        return self._compute_rows(_rows(columns, len(self.calls)))

    def as_map(self) -> Callable[..., Iterator[LocalArray]] | None:
        """Return `compute` for kernels that give each device one array; None for others."""
        if not (self.takes_blocks and self._in_order and self._direct and self._plain):
            return None
        return functools.partial(map, self._kernel_without_out, *self._sites)

    def _compute_rows(self, rows: Sequence[Sequence[Any]]) -> list[list[LocalArray]]:
        outs = []
        for call, row in zip(self.calls, rows, strict=True):
            made = self.kernel(*call.site, *row)
            outs.append(made if len(self.dtypes) > 1 else (made,))
        return [[np.asarray(value) for value in column] for column in zip(*outs, strict=True)]

    def launch(
        self,
        rows: Sequence[Sequence[Any]],
        reads: Callable[[KernelCall], list[Memory]],
        *,
        here: bool,
    ) -> list[Outputs]:
        """Give the calls to the devices, or make them in the caller, whom idle threads help.

        If `here`, the caller makes them where memory for the results is free at once. `rows` has
        the arguments of each, `reads` their memory.
        """
        if here and self._small:
            return self._call_rows(rows)
        if not self._rehearsed and self.calls:
            self._rehearsed = True
            first = self.calls[0]
            results = list(zip(first.shapes, self.dtypes, strict=True))
            if not first.site:  # others make their results of where these lie
                place = self.devices[first.home].domain.index
                self.runtime.backend.rehearse(self.kernel, rows[0], results, place)
        submit = functools.partial(self._submit, rows, reads)
        rooms, streams = self._rooms, self._streams
        outputs = launch(self.runtime, rooms, submit, streams, here=here, joined=self._joined)
        if outputs.settled:
            self._run_here(rows, outputs, [of for call in self.calls for of in reads(call)])
        return self._by_result(outputs)

    def _by_result(self, outputs: Outputs) -> list[Outputs]:
        """Return what each result is made of."""
        if self._one_result:
            return [outputs]
        count = len(self.calls)
        parts = [slice(count * n, count * (n + 1)) for n in range(len(self.dtypes))]
        return [Outputs(outputs.values[p], outputs.claims[p], outputs.settled) for p in parts]

    def _by_call(self, outputs: Outputs) -> list[Any]:
        """Return what each call writes."""
        each = [part.values for part in self._by_result(outputs)]
        return each[0] if self._one_result else list(zip(*each, strict=True))

    def _submit(
        self,
        rows: Sequence[Sequence[Any]],
        reads: Callable[[KernelCall], list[Memory]],
        outputs: Outputs,
    ) -> None:
        """Give the calls to the devices; inside `commit`."""
        submit, name, count = self.runtime.submit, self.name, len(self.calls)
        tasks = self._tasks(rows, outputs)
        for number, (call, task) in enumerate(zip(self.calls, tasks, strict=True)):
            written = [claim.memory for claim in outputs.claims[number::count]]
            stream = self.devices[call.home].stream
            submit(stream, name, task, tuple(dict.fromkeys(reads(call))), written)

    def _tasks(self, rows: Sequence[Sequence[Any]], outputs: Outputs) -> list[Callable[[], None]]:
        """Return what makes each call."""
        kernel, run = self.kernel, self._run
        tasks: list[Callable[[], None]] = []
        for call, row, out in zip(self.calls, rows, self._by_call(outputs), strict=True):
            inside = _quiet.copy().run if run is quietly else run
            tasks.append(functools.partial(inside, kernel, *call.site, *row, out=out))
        return tasks

    def _run_here(
        self, rows: Sequence[Sequence[Any]], outputs: Outputs, read: Sequence[Memory]
    ) -> None:
        """Make the calls in the caller, whom idle threads help."""
        tasks: list[Callable[[], None]]
        if self._alone:
            outs = self._by_call(outputs)
            tasks = [functools.partial(self._run, self._write, rows, outs)]
        else:
            tasks = self._tasks(rows, outputs)
        written = [claim.memory for claim in outputs.claims]
        run = functools.partial(self.runtime.backend.run_now, tasks, read, written, self._pace)
        if self._threaded:  # one division for all, rather than one for each and none between
            self.runtime.backend.call_among(len(self.calls), run)
        else:
            run()

    def _run_among(self, function: Callable[..., T], *given: Any, **named: Any) -> T:
        """Call kernels that have threads, as some of several calls."""
        run = functools.partial(quietly, function, *given, **named)
        return self.runtime.backend.call_among(len(self.calls), run)

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


@dataclass(frozen=True, eq=False)
class SmallCalls:
    """Calls that the caller may make among others, for arrays that no one claims."""

    calls: LocalCalls
    scalars: Sequence[tuple[int, Any]]  # numbers that they take, as for `LocalCalls.run`
    # For each result the call that each device, or part, has it from; None for all in order.
    orders: Sequence[Sequence[int] | None]
    parts: frozenset[int] = frozenset()  # the results that are in parts


def _rows(columns: Sequence[Any], count: int) -> list[tuple[Any, ...]]:
    """Return the arguments of each call from those of all."""
    return list(zip(*columns, strict=True)) if columns else [()] * count


def calls_of(
    row: Row,
    operands: Sequence[tuple[Tiling, int]],
    results: Sequence[Tiling],
    takes_part: Sequence[bool] | None = None,
) -> tuple[list[KernelCall], list[int]]:
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
    calls: list[KernelCall] = []
    of_device: list[int] = []
    for position in range(len(results[0].devices)):
        writes = any(volume[position] for volume in volumes)
        if not writes or not (takes_part is None or takes_part[position]):
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
) -> KernelCall:
    shapes = tuple(tiling.shard_shapes[home] for tiling in results)
    reads = sum(int(tiling.volumes[home]) * itemsize for tiling, itemsize in operands)
    if not row.positional:
        return KernelCall(home, shapes, (), reads)
    tilings = [*(tiling for tiling, _ in operands), results[0]]
    starts = [tuple(tiling.starts[:, home].tolist()) for tiling in tilings]
    return KernelCall(home, shapes, (Site(tuple(starts[:-1]), starts[-1], shapes[0]),), reads)
