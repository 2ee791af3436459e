"""The fluid model: known times, the definition of max-min fairness, the order of items."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard.errors import ArgumentError
from gpushard.testing import Topology, Work, simulate
from gpushard.testing.simulated_time import max_min
from tests.testing.strategies import needs, plans, topologies


def star(domains: int, latency: float = 0.0, memory: float = 1e12) -> Topology:
    """Ports of 10 bytes a second in each direction, around a switch."""
    width = {f"{way} {i}": 10.0 for way in ("out", "in") for i in range(domains)}
    width |= {f"memory {i}": memory for i in range(domains)}
    routes = {
        (a, b): (f"out {a}", f"in {b}") if a != b else (f"memory {a}",)
        for a in range(domains)
        for b in range(domains)
    }
    return Topology("star", domains, width, routes, latency)


def ends(work: list[Work], topology: Topology) -> list[float]:
    return [round(end, 6) for end in simulate(work, topology).end]


def test_one_flow() -> None:
    assert ends([Work("s", 1, flows={(0, 1): 50})], star(2, latency=0.5)) == [5.5]


def test_nothing_takes_no_time_and_an_empty_item_its_latency() -> None:
    assert simulate([], star(2)).makespan == 0
    work = [Work("s", 1), Work("s", 2, flows={(0, 1): 0}), Work("s", 3, flows={(0, 1): 10})]
    assert ends(work, star(2, latency=0.5)) == [0.5, 1.0, 2.5]


def test_two_flows_share_a_link_until_the_shorter_ends() -> None:
    work = [Work("a", 1, flows={(0, 1): 10}), Work("b", 1, flows={(0, 2): 30})]
    assert ends(work, star(3)) == [2.0, 4.0]
    assert ends([Work("a", 1, flows={(0, 1): 10, (0, 2): 30})], star(3)) == [4.0]


def test_what_a_slow_flow_leaves_is_taken_by_others() -> None:
    """Two flows into domain 2 get 5 each; the other flow out of domain 0 gets the rest."""
    work = [Work(i, 1, flows={link: 100}) for i, link in enumerate([(0, 2), (1, 2), (0, 3)])]
    assert ends(work, star(4)) == [20.0, 20.0, 20.0]
    work.append(Work(3, 1, flows={(4, 2): 100}))  # 3.33 each into domain 2, 6.67 into 3
    assert ends(work, star(5)) == [30.0, 30.0, 15.0, 30.0]


def test_a_ring_uses_every_link_at_once() -> None:
    ring = [Work(i, 1, flows={(i, (i + 1) % 8): 40}) for i in range(8)]
    assert simulate(ring, star(8)).makespan == pytest.approx(4.0)


def test_fan_out_directly_and_in_a_chain_of_chunks() -> None:
    direct = [Work(i, 1, flows={(0, i): 80}) for i in range(1, 5)]
    assert simulate(direct, star(5)).makespan == pytest.approx(32.0)
    chain = [
        Work(i, tick, ((i - 1, tick),) if i > 1 else (), {(i - 1, i): 10})
        for tick in range(1, 9)
        for i in range(1, 5)
    ]
    assert simulate(chain, star(5)).makespan == pytest.approx(8.0 + 3.0)


def test_streams_are_in_order_and_waits_hold() -> None:
    work = [
        Work("a", 5, flows={(0, 1): 10}),
        Work("b", 1, flows={(2, 3): 30}),
        Work("a", 6, (("b", 1),), {(0, 1): 10}),
        Work("c", 1, (("a", 5), ("b", 9), ("d", 2), ("a", 4)), {(4, 5): 10}),
        Work("c", 2, flows={(4, 5): 10}),
    ]
    timeline = simulate(work, star(6, latency=1.0))
    assert [round(t, 6) for t in timeline.start] == [0, 0, 4, 4, 6]
    assert [round(t, 6) for t in timeline.end] == [2, 4, 6, 6, 8]
    assert timeline.makespan == pytest.approx(8)


def test_items_that_wait_for_one_another() -> None:
    work = [Work("a", 1, (("b", 1),)), Work("b", 1, (("a", 1),)), Work("c", 1)]
    with pytest.raises(ArgumentError, match=r"items \[0, 1\] of the work wait for one another"):
        simulate(work, star(2))


@pytest.mark.parametrize("link", [(-1, 0), (0, 2)])
def test_a_domain_that_the_topology_lacks(link: tuple[int, int]) -> None:
    with pytest.raises(ArgumentError, match=f"copies {link[0]} -> {link[1]}; star has .* 0 to 1"):
        simulate([Work("a", 1, flows={link: 1})], star(2))


@given(st.data())
def test_rates_are_max_min_fair(data: st.DataObject) -> None:
    """Each flow has a full resource on which nothing is faster; no resource is over-full."""
    resources = data.draw(st.integers(1, 6))
    number = st.integers(0, resources - 1)
    widths = st.lists(st.floats(0.01, 100), min_size=resources, max_size=resources)
    capacity = np.array([*data.draw(widths), np.inf])
    flows = data.draw(st.lists(st.sets(number, min_size=1), min_size=1, max_size=12))
    longest = max(map(len, flows))
    routes = np.array([[*flow, *[resources] * (longest - len(flow))] for flow in flows])
    rate = max_min(routes, capacity)
    for resource in range(resources):
        used = sum(r for r, flow in zip(rate, flows, strict=True) if resource in flow)
        assert used <= capacity[resource] * (1 + 1e-9)
    for own, flow in zip(rate, flows, strict=True):
        bottlenecks = []
        for resource in flow:
            others = [r for r, other in zip(rate, flows, strict=True) if resource in other]
            full = sum(others) >= capacity[resource] * (1 - 1e-6)
            bottlenecks.append(full and own >= max(others) * (1 - 1e-6))
        assert any(bottlenecks)


@given(st.data())
def test_items_are_in_order_and_take_as_long_as_they_must(data: st.DataObject) -> None:
    domains = data.draw(st.integers(2, 6))
    topology = data.draw(topologies(domains))
    work = data.draw(plans(data.draw(needs(domains))))
    timeline = simulate(work, topology)
    end = {(item.stream, item.tick): t for item, t in zip(work, timeline.end, strict=True)}
    for item, start, stop in zip(work, timeline.start, timeline.end, strict=True):
        before = [end[wait] for wait in item.waits]
        before += [end[item.stream, item.tick - 1]] if item.tick > 1 else []
        assert start == max(before, default=0.0)
        alone = max(
            (n / min(topology.bandwidth[r] for r in topology.routes[link]))
            for link, n in item.flows.items()
        )
        assert stop >= (start + topology.latency + alone) * (1 - 1e-6)
    assert timeline.makespan == max(timeline.end)
