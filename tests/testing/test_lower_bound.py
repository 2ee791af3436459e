"""The bound: met by the best schedule of simple cases, never beaten by any plan."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from bench.boxes import places, volume
from bench.makespan import needs_of
from gpushard.testing import Needs, Topology, Work, lower_bound, record_work, runtime, simulate
from tests.movement.strategies import DEVICES, numbers, sharding_of, sides
from tests.testing.strategies import needs, plans, topologies
from tests.testing.test_simulated_time import star


def spread(holders: list[set[int]], wanting: list[set[int]], nbytes: int, domains: int) -> Needs:
    """Cells of equal size, given by who holds and who wants each; nothing is written needlessly."""
    held, wanted = (np.zeros((domains, len(holders)), bool) for _ in range(2))
    for cell, (have, want) in enumerate(zip(holders, wanting, strict=True)):
        held[list(have), cell] = True
        wanted[list(want), cell] = True
    size = np.full(len(holders), nbytes)
    return Needs(size, held, wanted, (wanted & ~held) @ size)


def hosts(latency: float = 0.0) -> Topology:
    """Two hosts of two domains; 10 bytes a second in a host, 2 between them."""
    routes = {
        (a, b): ("memory",) if a == b else (f"out {a}", f"in {b}", *(["nic"] * (a // 2 != b // 2)))
        for a in range(4)
        for b in range(4)
    }
    ports = {f"{way} {i}": 10.0 for way in ("out", "in") for i in range(4)}
    return Topology("hosts", 4, {**ports, "memory": 5.0, "nic": 2.0}, routes, latency)


def bus() -> Topology:
    return Topology("bus", 3, {"bus": 10.0}, dict.fromkeys(np.ndindex(3, 3), ("bus",)), 0.0)


@pytest.mark.parametrize(
    ("case", "topology", "seconds"),
    [
        (spread([{0}], [{1}], 50, 2), star(2, latency=0.5), 5.5),
        (spread([{0}, {0}], [{1}, {2}], 20, 3), star(3), 4.0),  # all that 0 alone holds leaves it
        (spread([{0}, {1}], [{2}, {2}], 20, 3), star(3), 4.0),
        (spread([{i} for i in range(8)], [{(i + 1) % 8} for i in range(8)], 40, 8), star(8), 4.0),
        (spread([{0}], [{1, 2, 3, 4}], 80, 5), star(5), 8.0),  # relays may do it in that time
        (spread([{0, 1}], [{0, 1}], 80, 2), star(2), 0.0),
        (spread([{0}], [{2, 3}], 40, 4), hosts(), 20.0),  # once between hosts is enough
        (spread([{0}, {1}], [{2}, {3}], 40, 4), hosts(), 40.0),
        (spread([{0, 1}], [{2}], 40, 4), hosts(), 20.0),
        (spread([{0}, {0}], [{1}, {2}], 40, 3), bus(), 8.0),
        (spread([{0}], [{1, 2}], 40, 3), bus(), 8.0),  # it crosses for each of them
        (spread([{0}, {2}], [{2, 3}, {0, 1}], 40, 4), hosts(), 40.0),  # one NIC for both ways
    ],
)
def test_known_bounds(case: Needs, topology: Topology, seconds: float) -> None:
    assert lower_bound(case, topology) == pytest.approx(seconds)


def test_what_must_be_written_takes_memory() -> None:
    """Nothing is lacked; the bytes may come from anywhere, but they end in domain 0."""
    rewritten = dataclasses.replace(spread([{0}], [{0}], 40, 4), written=np.array([40, 0, 0, 0]))
    local = {(a, b): ("local",) if a == b else ("link",) for a, b in np.ndindex(4, 4)}
    into = {(a, b): (*route, f"memory {b}") for (a, b), route in local.items()}
    widths = {"local": 1.0, "link": 1.0}
    memory = {f"memory {i}": 16.0 for i in range(4)}
    assert lower_bound(rewritten, Topology("", 4, widths, local, 0.5)) == 0.0
    assert lower_bound(rewritten, Topology("", 4, widths | memory, into, 0.5)) == 3.0


@pytest.mark.parametrize(
    ("work", "case"),
    [
        ([Work("a", 1, flows={(0, 1): 50})], spread([{0}], [{1}], 50, 2)),
        (
            [Work("a", 1, flows={(0, 1): 20}), Work("b", 1, flows={(0, 2): 20})],
            spread([{0}, {0}], [{1}, {2}], 20, 3),
        ),
        (
            [Work(i, 1, flows={(i, (i + 1) % 8): 40}) for i in range(8)],
            spread([{i} for i in range(8)], [{(i + 1) % 8} for i in range(8)], 40, 8),
        ),
    ],
)
def test_simple_plans_meet_the_bound(work: list[Work], case: Needs) -> None:
    topology = star(len(case.held), latency=0.25)
    assert simulate(work, topology).makespan == pytest.approx(lower_bound(case, topology))


@given(st.data())
def test_no_plan_beats_the_bound(data: st.DataObject) -> None:
    domains = data.draw(st.integers(2, 8))
    topology, case = data.draw(topologies(domains)), data.draw(needs(domains))
    makespan = simulate(data.draw(plans(case)), topology).makespan
    assert makespan >= lower_bound(case, topology) * (1 - 1e-6)


@given(st.data())
def test_no_reshard_beats_the_bound(data: st.DataObject) -> None:
    """Also: what is recorded brings every domain at least what it lacks and has to write."""
    shape = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    topology = data.draw(topologies(DEVICES))
    streams = {"inline_bytes": 0, "small_bytes": 0}
    with runtime(host_devices=DEVICES, host_domains=DEVICES, **streams) as used:
        here, there = (sharding_of(used, data.draw(sides(len(shape)))) for _ in range(2))
        host = numbers(shape, "float32")
        x = gs.device_put(host, here).block_until_ready()
        work, y = record_work(used, lambda: gs.device_put(x, there))
        assert np.array_equal(np.asarray(y), host)
        case = needs_of(here, there, shape, host.itemsize, DEVICES)
    assert (case.held.any(axis=0)).all()
    for domain in range(DEVICES):
        into = [(a, n) for item in work for (a, b), n in item.flows.items() if b == domain]
        assert sum(n for a, n in into if a != domain) >= case.lacked([domain])
        assert sum(n for _, n in into) >= case.written[domain] >= case.lacked([domain])
    assert simulate(work, topology).makespan >= lower_bound(case, topology) * (1 - 1e-6)


@given(st.data())
def test_cells_are_the_elements(data: st.DataObject) -> None:
    """The cells of every domain hold as many bytes as its distinct boxes, element by element."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3)))
    with runtime(host_devices=DEVICES, host_domains=4) as used:
        pair = [sharding_of(used, data.draw(sides(len(shape)))) for _ in range(2)]
        case = needs_of(pair[0], pair[1], shape, 4, 4)
        present = [np.zeros((4, *shape), bool) for _ in pair]
        for mask, sharding in zip(present, pair, strict=True):
            for domain, box in places(sharding, shape):
                assert volume(box)
                mask[domain][tuple(slice(*span) for span in box)] = True
    for cells, elements in zip((case.held, case.wanted), present, strict=True):
        assert (cells @ case.nbytes).tolist() == [4 * int(e.sum()) for e in elements]
    for inside in ([0], [1, 2], [0, 1, 2, 3]):
        lacked = present[1][inside].any(axis=0) & ~present[0][inside].any(axis=0)
        assert case.lacked(inside) == 4 * int(lacked.sum())
