"""Topologies: what a route occupies, and which ones are refused."""

import dataclasses
from collections.abc import Callable

import pytest

from gpushard.errors import ArgumentError
from gpushard.testing import Topology, nvlink, pcie, two_hosts

PRESETS = (nvlink, pcie, two_hosts)
BUS = Topology("bus", 2, {"bus": 1.0}, {(a, b): ("bus",) for a in (0, 1) for b in (0, 1)}, 0.0)


@pytest.mark.parametrize("make", PRESETS)
@pytest.mark.parametrize("domains", [1, 2, 6, 8, 64])
def test_every_route_leaves_enters_and_writes(
    make: Callable[[int], Topology], domains: int
) -> None:
    topology = make(domains)
    assert len(topology.routes) == domains**2
    for (source, destination), route in topology.routes.items():
        assert route[-1] == f"memory of domain {destination}"
        ports = (f"egress of domain {source}", f"ingress of domain {destination}")
        assert (route[0], route[-2]) == ports if source != destination else len(route) == 1


def test_what_lies_between() -> None:
    assert all(len(route) <= 3 for route in nvlink(8).routes.values())
    for make, per_group, inner in ((pcie, 4, "root"), (two_hosts, 8, "NIC")):
        topology = make(16)
        for (source, destination), route in topology.routes.items():
            between = [resource for resource in route if inner in resource]
            assert len(between) == (0 if source // per_group == destination // per_group else 2)
    assert pcie(16).routes[5, 14][1:3] == ("egress of root 1", "ingress of root 3")
    assert two_hosts(16).routes[9, 7][1:3] == ("NIC of host 1, out", "NIC of host 0, in")


def test_the_table_names_the_resources_of_the_routes() -> None:
    topology = pcie(8)
    names = [*topology.bandwidth, None]
    for (source, destination), route in topology.routes.items():
        named = [names[number] for number in topology.table[source, destination]]
        assert named == [*route, *[None] * (len(named) - len(route))]
    assert list(topology.capacity) == [*topology.bandwidth.values(), float("inf")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bandwidth": {"bus": 0.0}}, "bandwidth of 'bus' is 0.0; it must be positive"),
        ({"bandwidth": {"bus": float("nan")}}, "must be positive"),
        ({"domains": 3}, "route 0 -> 2 is ()"),
        ({"routes": {**BUS.routes, (1, 0): ()}}, "route 1 -> 0 is ()"),
        ({"routes": {**BUS.routes, (1, 1): ("bus", "air")}}, "route 1 -> 1 is ('bus', 'air')"),
    ],
)
def test_a_topology_that_makes_no_sense(change: dict[str, object], message: str) -> None:
    with pytest.raises(ArgumentError) as refused:
        dataclasses.replace(BUS, **change)
    assert message in str(refused.value)
    assert refused.value.argument in change or refused.value.argument == "routes"
