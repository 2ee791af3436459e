"""`Plan`: what a movement allocates, keeps, copies and fills. Data only, and nothing changes it.

A destination block that a memory domain already holds is aliased or viewed; everything else is
written once per domain, and only what the domain lacks is received. Both amounts are the least:

- W(M): elements of the distinct destination boxes of domain M that are neither aliased nor viewed;
- R(M): distinct source elements that those boxes read and that no device of M holds.

The arrays of a plan are its *operands*, numbered in one row: the shards of all sources, then the
blocks that it allocates. What takes time in proportion to the copies is made when it is asked for.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from gpushard._frozen import dataclass
from gpushard._geometry.tiling import Tiling
from gpushard._movement.planning.aliasing import ALIAS, COPY, VIEW, Aliases
from gpushard._movement.planning.holdings import Holdings, holdings, volumes
from gpushard._movement.planning.strided import StridedCopies
from gpushard._movement.staging_slots import Staging, staging_of
from gpushard._runtime.chunks import align
from gpushard._runtime.copy_engine import by_engine
from gpushard._runtime.copy_phase import Copy, Phase
from gpushard._runtime.strided_view import View, dense_strides
from gpushard._typing import Device, IntArray, Shape

_KINDS = ("aliased", "viewed", "copied", "empty")

Table = tuple[int, StridedCopies]
"""(source, copies of it into wanted pairs)."""

Fill = tuple[int, View]
"""(wanted pair, or operand; the part of it that gets the constant)."""

FLAT = 4  # a view that no index of its dims selects
Slot = tuple[int, int, Any]
"""(ALIAS, VIEW, COPY, EMPTY or FLAT; the operand, or the number of a new block; for a view, its
index in the operand, or the slice of its elements in a row)."""


class Reach(Protocol):
    """What a backend says of its memory domains."""

    def reaches(self, domain: int, source: int) -> bool:
        """Whether work in `domain` can read memory of `source`."""

    def sends(self, domain: int, source: int) -> bool:
        """Whether `domain` gets memory of `source` by messages rather than by copies."""


class Copied(Protocol):
    """What a planner says of copies, once that is asked for."""

    @property
    def count(self) -> int:
        """About how many there are."""

    def received(self) -> IntArray:
        """Return the elements that each wanted pair receives from other domains."""

    def tables(self) -> Sequence[Table]:
        """Return the copies."""


@dataclass(frozen=True, eq=False)
class Step:
    """What is written in one memory domain: one item of its copy stream."""

    domain: int  # the memory domain
    part: int  # 0 for the first step that writes its blocks, more for those that add to them
    # What gets the constant, after what the phases write; what these read is not among it.
    fills: tuple[Fill, ...]
    # They run one after the other; a later one may use what an earlier one wrote.
    phases: tuple[Phase, ...]
    reads: tuple[int, ...]  # operands that must be there: shards, and blocks that other steps write
    writes: tuple[int, ...]  # operands that it writes
    # (operand, step) for each block of another domain that it reads: what it reads of it is there
    # after that step of the plan; later ones may add to it.
    after: tuple[tuple[int, int], ...] = ()


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Plan:
    """The copies that compute an array from others, as in a reshard, before anything runs.

    Get a plan from `Array.plan`, print `explain()`, and compare `bytes_received`. A wanted pair is
    a distinct block of the result in one memory domain; arrays of a plan have an entry per wanted
    pair.
    """

    verb: str
    """The operation, "move", "rearrange" or "update", for messages."""

    sources: tuple[Tiling, ...]
    """The boxes of each source on its devices."""

    destination: Tiling
    """The boxes of the result on its devices."""

    itemsize: int
    """Bytes of an element."""

    kept: Aliases
    """For each wanted pair, whether it is copied or reuses memory of a source, and of which one."""

    volume: IntArray
    """Number of elements of each wanted pair."""

    written_elements: IntArray
    """Number of elements of each wanted pair that are written."""

    how: Copied
    """The copies."""

    filled: Sequence[Fill] = ()
    """Boxes of wanted pairs that are filled with a constant."""

    in_place: bool = False
    """Whether the plan writes to the blocks of the first source and allocates none."""

    engine_bytes: int | None = None
    """A copy engine moves dense boxes of at least this many bytes between domains; None if there
    are no copy engines.
    """

    reach: Reach | None = None
    """Which domains can read which others, and how; None if each can read all others."""

    pinned_bytes: int = 0
    """Bytes of page-locked memory for copies between domains that cannot read each other."""

    def __repr__(self) -> str:
        return (
            f"<Plan: {self._summary}, with {self.bytes_written:,} bytes written and "
            f"{self.bytes_received:,} received from other domains; explain() says more>"
        )

    @property
    def _summary(self) -> str:
        shapes = " and ".join(str(tiling.shape) for tiling in self.sources)
        count = len(self.domains)
        return (
            f"{self.verb} {shapes} on {len(self.source.devices)} devices to "
            f"{self.destination.shape} on {len(self.destination.devices)} devices in "
            f"{count} memory domain{'s' * (count != 1)}"
        )

    @property
    def source(self) -> Tiling:
        """The boxes of the first source on its devices."""
        return self.sources[0]

    @functools.cached_property
    def wanted(self) -> Holdings:
        """The wanted pairs: the distinct blocks of the result in each memory domain."""
        return holdings(self.destination.assignment)

    @functools.cached_property
    def copied(self) -> IntArray:
        """The indices of the wanted pairs that are written."""
        return np.flatnonzero(self.kept.kind == COPY)

    @functools.cached_property
    def domains(self) -> list[int]:
        """The memory domains that hold blocks of the result, ascending."""
        return _numbers_in(self.wanted.domain)

    @functools.cached_property
    def writers(self) -> list[int]:
        """The memory domains in which blocks are written, ascending."""
        return _numbers_in(self.wanted.domain[self.copied])

    @functools.cached_property
    def written(self) -> dict[int, int]:
        """Bytes written in each domain."""
        return self._per_domain(self.written_elements)

    @functools.cached_property
    def received(self) -> dict[int, int]:
        """Bytes that each domain receives from other domains."""
        return self._per_domain(self.how.received())

    @property
    def bytes_written(self) -> int:
        """Bytes written in all domains together."""
        return sum(self.written.values())

    @property
    def bytes_received(self) -> int:
        """Bytes that all domains together receive from other domains."""
        return sum(self.received.values())

    @functools.cached_property
    def allocations(self) -> tuple[tuple[int, Shape, int], ...]:
        """Position of the charged device, shape and bytes of each block that the plan allocates."""
        if self.in_place:
            return ()
        shapes, homes = self.destination.shard_shapes, self.wanted.home[self.copied]
        nbytes = (self._block_elements * self.itemsize).tolist()
        return tuple(
            (home, shapes[home], n) for home, n in zip(homes.tolist(), nbytes, strict=True)
        )

    @functools.cached_property
    def covers(self) -> IntArray:
        """For each wanted pair, 1 if all of its elements are written, else 0."""
        covers = np.zeros(len(self.kept.kind), np.int64)
        covers[self.copied] = self.written_elements[self.copied] == self._block_elements
        return covers

    @functools.cached_property
    def largest(self) -> int:
        """Bytes of the largest block that the plan allocates."""
        return max((nbytes for _, _, nbytes in self.allocations), default=0)

    @functools.cached_property
    def total(self) -> int:
        """Bytes of all blocks that the plan allocates."""
        return sum(nbytes for _, _, nbytes in self.allocations)

    @functools.cached_property
    def slots(self) -> list[Slot]:
        """For each device of the result, the kind and the operand of the block that it gets."""
        kept, wanted = self.kept, self.wanted.of_device
        number = np.cumsum(kept.kind == COPY) - 1
        slots: list[Slot] = [
            (kind, new, None)
            for kind, new in zip(kept.kind[wanted].tolist(), number[wanted].tolist(), strict=True)
        ]
        for position, (kind, *_) in enumerate(slots):
            if kind in (ALIAS, VIEW):
                slots[position] = self._slot_of(int(wanted[position]), position)
        return slots

    def _slot_of(self, pair: int, position: int) -> Slot:
        """Return what a device gets that lies in a source."""
        kept = self.kept
        kind, number, device = (int(row[pair]) for row in (kept.kind, kept.source, kept.device))
        first, source = self._first_operands[number], self.sources[number]
        if kind == VIEW:  # all of one root, should devices hold copies of their own
            offset = int(kept.offset[pair])
            index = self._index_of(source.shard_shapes[device], position, offset)
            return VIEW if isinstance(index, tuple) else FLAT, first + device, index
        of_device = holdings(source.assignment).of_device
        mine = self._positions[number].get(self.destination.devices[position], device)
        return ALIAS, first + (mine if of_device[mine] == of_device[device] else device), None

    @functools.cached_property
    def _positions(self) -> list[dict[Device, int]]:
        """For each source, the position of each of its devices."""
        return [{device: i for i, device in enumerate(of.devices)} for of in self.sources]

    @functools.cached_property
    def writes_all(self) -> bool:
        """Whether every device gets a newly written block."""
        return all(kind == COPY for kind, _, _ in self.slots)

    @functools.cached_property
    def order(self) -> list[int] | None:
        """For each device, the number of its written block, or of the operand that it reuses.

        None if some devices get written blocks and others reuse operands, or if a device gets a
        view.
        """
        shapes, wanted = self.operand_shapes, self.destination.shard_shapes
        as_they_lie = all(
            kind == ALIAS and shapes[of] == shape
            for (kind, of, _), shape in zip(self.slots, wanted, strict=True)
        )
        return [of for _, of, _ in self.slots] if as_they_lie or self.writes_all else None

    @functools.cached_property
    def steps(self) -> tuple[Step, ...]:
        """The copies and fills, in an order in which every read follows its write."""
        return _make_steps(self)

    @functools.cached_property
    def staging(self) -> dict[int, Staging]:
        """The page-locked memory of each domain that others read through such memory."""
        groups: dict[int, list[int]] = {}  # bytes that each phase of a step reads, by domain
        for step in self.steps:
            far = self.out_of_reach(step)
            for phase in step.phases if far else ():
                sums: Counter[int] = Counter()
                for _, target, _, _, of in phase.moves:
                    if of in far:
                        sums[of] += align(math.prod(target.shape) * self.itemsize)
                for of, nbytes in sums.items():
                    groups.setdefault(of, []).append(nbytes)
        return {of: staging_of(sizes, self.pinned_bytes) for of, sizes in sorted(groups.items())}

    def out_of_reach(self, step: Step) -> set[int]:
        """Return the domains that a step has to read although its own domain cannot reach them."""
        if self.reach is None:
            return set()
        return {of for of in _others(step) if not self.reach.reaches(step.domain, of)}

    def sent(self, step: Step) -> set[int]:
        """Return the domains that send messages to a step."""
        if self.reach is None:
            return set()
        return {of for of in _others(step) if self.reach.sends(step.domain, of)}

    @functools.cached_property
    def operand_of(self) -> IntArray:
        """For each wanted pair that is written, the number of its operand."""
        if self.in_place:
            return self.wanted.home
        numbers = np.full(len(self.kept.kind), -1, np.int64)
        numbers[self.copied] = self._first_operands[-1] + np.arange(len(self.copied))
        return numbers

    @functools.cached_property
    def operand_shapes(self) -> list[Shape]:
        """The shapes of all operands: the shards of the sources, then the allocated blocks."""
        shards = [shape for tiling in self.sources for shape in tiling.shard_shapes]
        return [*shards, *(shape for _, shape, _ in self.allocations)]

    @functools.cached_property
    def copies_made(self) -> int:
        """Number of copies of boxes."""
        return sum(len(copies.block) for _, copies in self.how.tables())

    @functools.cached_property
    def relays(self) -> int:
        """Number of copies of boxes that a domain received in the wave before, and passes on."""
        tables = self.how.tables()
        return sum(int((copies.remote & (copies.read_pair >= 0)).sum()) for _, copies in tables)

    @functools.cached_property
    def waves(self) -> int:
        """Number of waves of copies, one after the other; 1 if no domain passes data on."""
        return 1 + max(int(copies.wave.max(initial=0)) for _, copies in self.how.tables())

    @functools.cached_property
    def link_bytes(self) -> dict[tuple[int, int], int]:
        """Bytes copied for each (source domain, destination domain), including local copies."""
        links: dict[tuple[int, int], int] = {}
        for _, copies in self.how.tables():
            to, of = self.wanted.domain[copies.block], copies.source_domain
            domains = int(max(of.max(initial=0), to.max(initial=0))) + 1
            keys, inverse = np.unique(of * domains + to, return_inverse=True)
            sums = np.bincount(inverse, copies.volume, len(keys)).astype(np.int64) * self.itemsize
            for key, nbytes in zip(keys.tolist(), sums.tolist(), strict=True):
                link = divmod(key, domains)
                links[link] = links.get(link, 0) + nbytes
        return links

    @functools.cached_property
    def peak(self) -> dict[Device, int]:
        """The most bytes that each device holds while the plan runs: sources and new blocks."""
        parts = []
        for tiling in self.sources:
            held = holdings(tiling.assignment)
            parts.append((tiling.devices, held.home, volumes(held, tiling)))
        if not self.in_place:
            homes = self.wanted.home[self.copied]
            parts.append((self.destination.devices, homes, self._block_elements))
        sums: list[tuple[tuple[Device, ...], IntArray]] = []
        for devices, homes, elements in parts:
            more = np.bincount(homes, elements, len(devices)).astype(np.int64) * self.itemsize
            if sums and sums[-1][0] == devices:
                more += sums.pop()[1]
            sums.append((devices, more))
        peak = dict(zip(sums[0][0], sums[0][1].tolist(), strict=True))
        for devices, nbytes in sums[1:]:
            for device, n in zip(devices, nbytes.tolist(), strict=True):
                peak[device] = peak.get(device, 0) + n
        return peak

    @property
    def nbytes(self) -> int:
        """Bytes of host memory that this plan itself takes, approximately."""
        maps = len(self.destination.shape)
        return 4000 + 300 * len(self.kept.kind) + self.how.count * (600 + 100 * maps)

    def explain(self) -> str:
        """Describe the plan in a few lines of text: blocks, bytes, peak memory and links."""
        counts = np.bincount(self.kept.kind, minlength=len(_KINDS)).tolist()
        blocks = ", ".join(f"{n} {name}" for n, name in zip(counts, _KINDS, strict=True) if n)
        lines = [
            self._summary,
            f"  blocks, once per domain: {blocks}",
            f"  written: {self.bytes_written:,} bytes, "
            + ("with what stays of new blocks" if self.verb == "update" else "the least possible"),
            f"  received from other domains: {self.bytes_received:,} bytes, the least possible",
            f"  peak: {max(self.peak.values()):,} bytes on one device",
        ]
        between = {link: n for link, n in self.link_bytes.items() if link[0] != link[1]}
        if between:
            link, most = max(between.items(), key=lambda entry: entry[1])
            lines.append(
                f"  links: {len(between)} between domains, the busiest {link[0]} -> {link[1]} with "
                f"{most:,} bytes"
            )
        sent = {(of, step.domain) for step in self.steps for of in self.sent(step)}
        if sent:
            lines.append(
                f"  by messages between GPUs: all that goes over {len(sent)} of these links"
            )
        elif between and self.engine_bytes is not None:
            engines, kernels = self._crossings(self.engine_bytes)
            lines.append(
                f"  between domains: {engines:,} dense boxes of at least {self.engine_bytes:,} "
                f"bytes by copy engines, {kernels:,} boxes by kernels"
            )
        for of, staging in () if sent else self.staging.items():
            lines.append(
                f"  out of reach in domain {of}: {staging.chunks:,} chunks through "
                f"{staging.slots} x {staging.slot_bytes:,} bytes of page-locked memory, in "
                f"{staging.rounds:,} round{'s' * (staging.rounds > 1)}"
            )
        if self.relays:
            lines.append(
                f"  relayed: {self.relays:,} of {self.copies_made:,} box copies read what another "
                f"domain received before, in {self.waves} waves"
            )
        return "\n".join(lines)

    @functools.cached_property
    def _block_elements(self) -> IntArray:
        """Elements of each block that is written."""
        return self.volume[self.copied]

    @functools.cached_property
    def _first_operands(self) -> list[int]:
        """The operand that is the first shard of each source, and the first new block."""
        counts = (len(tiling.devices) for tiling in self.sources)
        return list(itertools.accumulate(counts, initial=0))

    def _per_domain(self, elements: IntArray) -> dict[int, int]:
        domain = self.wanted.domain
        sums = np.bincount(domain, elements).astype(np.int64)
        return {domain: int(sums[domain]) * self.itemsize for domain in self.domains}

    def _index_of(self, held: Shape, position: int, offset: int) -> Any:
        """Return the index of a block in a shard that has it as a dense part."""
        shape = self.destination.shard_shapes[position]
        view = View(offset * self.itemsize, shape, dense_strides(shape, self.itemsize))
        index = view.index_in(held, self.itemsize)
        return slice(offset, offset + math.prod(shape)) if index is None else index

    def _crossings(self, engine_bytes: int) -> tuple[int, int]:
        """Return how many box copies between domains go by copy engines, and how many do not."""
        engines = kernels = 0
        for step in self.steps:
            for _, target, _, source, domain in itertools.chain(*(p.moves for p in step.phases)):
                if domain == step.domain:
                    continue
                dense = target.is_dense(self.itemsize) and source.is_dense(self.itemsize)
                nbytes = math.prod(target.shape) * self.itemsize
                if by_engine(nbytes, dense=dense, crosses=True, least=engine_bytes):
                    engines += 1
                else:
                    kernels += 1
        return engines, kernels


def _others(step: Step) -> set[int]:
    """Return the domains that a step reads beside its own."""
    return {of for phase in step.phases for of in phase.links} - {step.domain}


def _numbers_in(domain: IntArray) -> list[int]:
    """Return the distinct numbers of domains, ascending."""
    numbers: list[int] = np.flatnonzero(np.bincount(domain)).tolist()
    return numbers


@dataclass(frozen=True, eq=False)
class _Group:
    """The copies of one step."""

    phases: dict[int, list[Copy]]
    reads: set[int]
    others: dict[int, int]  # blocks of other domains that are read, with these domains


def _make_steps(plan: Plan) -> tuple[Step, ...]:
    """Return one step for each domain that writes something; with relays, one for each wave."""
    groups: dict[tuple[int, int], _Group] = {}
    for source, copies in plan.how.tables():
        _group(plan, plan._first_operands[source], copies, groups)
    first: dict[int, int] = {}  # the wave in which each domain begins
    for wave, domain in sorted(groups):
        first.setdefault(domain, wave)
    for domain in plan.writers:
        if domain not in first:
            groups[0, domain] = _Group({}, set(), {})
            first[domain] = 0
    numbers = {key: n for n, key in enumerate(sorted(groups))}
    blocks: dict[int, list[int]] = {domain: [] for domain in first}
    operands, domains = plan.operand_of[plan.copied], plan.wanted.domain[plan.copied]
    for operand, domain in zip(operands.tolist(), domains.tolist(), strict=True):
        blocks[domain].append(operand)
    fills: dict[int, list[Fill]] = {domain: [] for domain in first}
    for pair, view in plan.filled:
        fills[int(plan.wanted.domain[pair])].append((int(plan.operand_of[pair]), view))
    steps = []
    for (wave, domain), number in numbers.items():
        group, begins = groups[wave, domain], first[domain] == wave
        phases = [tuple(group.phases[n]) for n in sorted(group.phases)]
        writes = {to for moves in phases for to, *_ in moves}
        others = sorted(group.others)
        steps.append(
            Step(
                domain=domain,
                part=0 if begins else number,
                fills=tuple(fills[domain]) if begins else (),
                phases=tuple(Phase(moves, plan.itemsize, plan.operand_shapes) for moves in phases),
                reads=(*sorted(group.reads), *others),
                writes=tuple(sorted(writes.union(blocks[domain] if begins else ()))),
                after=tuple((of, numbers[wave - 1, group.others[of]]) for of in others),
            )
        )
    return tuple(steps)


def _group(
    plan: Plan, shards: int, copies: StridedCopies, groups: dict[tuple[int, int], _Group]
) -> None:
    """Add the copies of a table to steps."""
    if not len(copies.block):
        return
    domain, again = plan.wanted.domain[copies.block], copies.read_pair >= 0
    phases, domains = int(copies.phase.max()) + 1, int(domain.max()) + 1
    key = (copies.wave * domains + domain) * phases + copies.phase
    if (key[1:] < key[:-1]).any():
        order = np.argsort(key, kind="stable")
        copies, domain, again, key = copies.take(order), domain[order], again[order], key[order]
    of, relays = shards + copies.device, bool(again.any())
    if relays:
        of = np.where(again, plan.operand_of[copies.read_pair], of)
    moves = _moves(copies, plan.operand_of[copies.block], of, plan.itemsize)
    edges = np.flatnonzero(key[1:] != key[:-1]) + 1
    starts = [0, *edges.tolist(), len(moves)]
    for start, stop in itertools.pairwise(starts):
        rest, phase = divmod(int(key[start]), phases)
        wave, to = divmod(rest, domains)
        group = groups.setdefault((wave, to), _Group({}, set(), {}))
        group.phases.setdefault(phase, []).extend(moves[start:stop])
        at = slice(start, stop)
        if not relays:
            group.reads.update(of[at].tolist())
            continue
        group.reads.update(of[at][~again[at]].tolist())
        far = again[at] & copies.remote[at]
        others = of[at][far].tolist(), copies.source_domain[at][far].tolist()
        group.others.update(zip(*others, strict=True))


def _moves(copies: StridedCopies, to: IntArray, of: IntArray, itemsize: int) -> list[Copy]:
    """Return copies as Python objects, their dims in the order of what is written."""
    axes = (copies.length > 1).any(axis=1)
    steps = copies.target_stride[axes] * itemsize
    rows = zip(
        to.tolist(),
        of.tolist(),
        (copies.target_offset * itemsize).tolist(),
        (copies.source_offset * itemsize).tolist(),
        map(tuple, copies.length[axes].T.tolist()),
        map(tuple, steps.T.tolist()),
        map(tuple, (copies.source_stride[axes] * itemsize).T.tolist()),
        copies.source_domain.tolist(),
        strict=True,
    )
    size = np.abs(steps)
    if (size[:-1] >= size[1:]).all():
        return [
            (to, View(at, shape, steps), of, View(of_at, shape, of_steps), domain)
            for to, of, at, of_at, shape, steps, of_steps, domain in rows
        ]
    return [
        (to, *_sorted(at, of, of_at, shape, steps, of_steps), domain)
        for to, of, at, of_at, shape, steps, of_steps, domain in rows
    ]


def _sorted(
    at: int, of: int, of_at: int, shape: Shape, steps: Sequence[int], of_steps: Sequence[int]
) -> tuple[View, int, View]:
    """Return both sides of a copy, its dims in the order of what is written."""
    dims = [dim for dim in zip(shape, steps, of_steps, strict=True) if dim[0] > 1]
    dims.sort(key=lambda dim: -abs(dim[1]))
    shape = tuple([extent for extent, _, _ in dims])
    target = View(at, shape, tuple([step for _, step, _ in dims]))
    return target, of, View(of_at, shape, tuple([step for _, _, step in dims]))
