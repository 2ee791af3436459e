"""Random topologies, needs and plans that meet them, without any planner."""

import dataclasses

import numpy as np
from hypothesis import strategies as st

from gpushard.testing import Needs, Topology, Work, nvlink, pcie, two_hosts


@st.composite
def topologies(draw: st.DrawFn, domains: int) -> Topology:
    """A preset in small numbers, or one whose routes share a few resources at random."""
    latency = draw(st.sampled_from([0.0, 1.0]))
    if draw(st.booleans()):
        preset = draw(st.sampled_from([nvlink, pcie, two_hosts]))(domains)
        slow = {resource: width / 1e9 for resource, width in preset.bandwidth.items()}
        return dataclasses.replace(preset, bandwidth=slow, latency=latency)
    widths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    names = [f"link {i}" for i in range(len(widths))]
    some = st.lists(st.sampled_from(names), min_size=1, unique=True).map(tuple)
    routes = {(a, b): draw(some) for a in range(domains) for b in range(domains)}
    return Topology("random", domains, dict(zip(names, widths, strict=True)), routes, latency)


@st.composite
def needs(draw: st.DrawFn, domains: int) -> Needs:
    """Cells of a few bytes, each held somewhere; a domain may write more than it lacks."""
    cells = draw(st.integers(1, 6))
    some = st.sets(st.integers(0, domains - 1))
    held = np.zeros((domains, cells), bool)
    wanted = np.zeros((domains, cells), bool)
    for cell in range(cells):
        held[list(draw(some) or {draw(st.integers(0, domains - 1))}), cell] = True
        wanted[list(draw(some)), cell] = True
    nbytes = np.array(draw(st.lists(st.integers(1, 999), min_size=cells, max_size=cells)))
    more = draw(st.lists(st.integers(0, 999), min_size=domains, max_size=domains))
    return Needs(nbytes, held, wanted, (wanted & ~held) @ nbytes + np.array(more))


@st.composite
def plans(draw: st.DrawFn, needs: Needs) -> list[Work]:
    """Work that meets needs: each lacked cell from a holder or one that received it before."""
    work: list[Work] = []
    where = {}
    lacked = [(int(d), int(c)) for d, c in np.argwhere(needs.wanted & ~needs.held)]
    detours = [(d, c) for d, c in np.argwhere(~needs.wanted & ~needs.held).tolist()]
    todo = lacked + draw(
        st.lists(st.sampled_from(detours), unique=True) if detours else st.just([])
    )
    for domain, cell in draw(st.permutations(todo)):
        holders = np.flatnonzero(needs.held[:, cell]).tolist()
        holders += [d for d, c in where if c == cell]
        source = draw(st.sampled_from(holders))
        waits = (where[source, cell],) if (source, cell) in where else ()
        stream = draw(st.integers(0, 3))
        tick = 1 + sum(item.stream == stream for item in work)
        where[domain, cell] = (stream, tick)
        work.append(Work(stream, tick, waits, {(source, domain): int(needs.nbytes[cell])}))
    received = (needs.wanted & ~needs.held) @ needs.nbytes
    for domain, nbytes in enumerate((needs.written - received).tolist()):
        source = draw(st.integers(0, len(needs.held) - 1))  # from others, for what it may be worth
        work.append(Work(f"rest {domain}", 1, flows={(source, domain): nbytes}))
    return work
