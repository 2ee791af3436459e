"""Models of memory domains and their links, for simulated times. Pure.

The presets have round numbers of a realistic order. None was measured, so no simulated time is that
of hardware.

In all of them a byte that is written to a domain, from anywhere, occupies "memory of domain d". Its
bandwidth is half of that of the memory, since a local copy reads each byte that it writes. Reads of
other domains are not counted.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from gpushard._typing import IntArray
from gpushard.errors import ArgumentError

LATENCY = 10e-6  # seconds per item of work in the presets: about a launch and a wait for an event
_GB = 1e9
_CARDS_PER_ROOT = 4

Pair = tuple[int, int]
"""(source domain, destination domain)."""


@dataclasses.dataclass(frozen=True, eq=False)
class Topology:
    """Memory domains, resources with a bandwidth, and the resources that each copy occupies.

    Raises:
      ArgumentError: a pair of domains has no route, a route is empty or names a resource that does
        not exist, or a bandwidth is not positive.

    >>> bus = {(a, b): ("bus",) for a in range(2) for b in range(2)}
    >>> Topology("bus", 2, {"bus": 1e9}, bus, latency=0.0).table.tolist()
    [[[0], [0]], [[0], [0]]]
    """

    name: str
    """A readable name."""

    domains: int
    """The number of memory domains, which are numbered from 0."""

    bandwidth: Mapping[str, float]
    """Bytes per second of each resource, such as "ingress of domain 3"."""

    routes: Mapping[Pair, tuple[str, ...]]
    """The resources that a byte occupies on its way, for every (source, destination) domain."""

    latency: float
    """Seconds between the start of an item of work and its first byte."""

    def __post_init__(self) -> None:
        for resource, width in self.bandwidth.items():
            if not width > 0:
                raise ArgumentError(
                    f"the bandwidth of {resource!r} is {width}; it must be positive",
                    argument="bandwidth",
                )
        for pair in np.ndindex(self.domains, self.domains):
            route = self.routes.get((pair[0], pair[1]), ())
            if not route or any(resource not in self.bandwidth for resource in route):
                raise ArgumentError(
                    f"the route {pair[0]} -> {pair[1]} is {route}; give at least one resource, and "
                    "the bandwidth of each",
                    argument="routes",
                )

    @functools.cached_property
    def capacity(self) -> npt.NDArray[np.float64]:
        """The bandwidths in order and, after them, an infinite one that pads routes."""
        return np.array([*self.bandwidth.values(), np.inf])

    @functools.cached_property
    def table(self) -> IntArray:
        """The numbers of the resources of all routes, shape (domains, domains, longest), padded."""
        number = {resource: i for i, resource in enumerate(self.bandwidth)}
        longest = max(map(len, self.routes.values()))
        table = np.full((self.domains, self.domains, longest), len(number), np.int64)
        for pair, route in self.routes.items():
            table[pair][: len(route)] = [number[resource] for resource in route]
        return table


def nvlink(domains: int) -> Topology:
    """Return a model of cards around a switch, like those of one NVLink host.

    450 GB/s out of and into each card, all to all; memory that moves 3.35 TB/s.

    Args:
      domains: number of cards.

    >>> nvlink(8).routes[0, 3]
    ('egress of domain 0', 'ingress of domain 3', 'memory of domain 3')
    """
    return _make(f"NVLink-like, {domains}", domains, 450 * _GB, 3350 * _GB, {}, lambda a, b: ())


def pcie(domains: int) -> Topology:
    """Return a model of cards on PCIe: four to a root complex, and links between all roots.

    25 GB/s out of and into each card; 40 GB/s out of and into each root, from and to the other
    roots; memory that moves 900 GB/s.

    Args:
      domains: number of cards.

    >>> pcie(8).routes[0, 4][:3]
    ('egress of domain 0', 'egress of root 0', 'ingress of root 1')
    """
    roots = -(-domains // _CARDS_PER_ROOT)
    between = {
        f"{way} of root {i}": 40 * _GB for way in ("egress", "ingress") for i in range(roots)
    }

    def join(source: int, destination: int) -> tuple[str, ...]:
        a, b = source // _CARDS_PER_ROOT, destination // _CARDS_PER_ROOT
        return () if a == b else (f"egress of root {a}", f"ingress of root {b}")

    return _make(f"PCIe-like, {domains}", domains, 25 * _GB, 900 * _GB, between, join)


def two_hosts(domains: int) -> Topology:
    """Return a model of two hosts: `nvlink` within each half, one NIC per host between them.

    50 GB/s in each direction through the NICs, which all cards of a host share.

    Args:
      domains: number of cards in total.

    >>> two_hosts(8).routes[0, 4][:3]
    ('egress of domain 0', 'NIC of host 0, out', 'NIC of host 1, in')
    """
    between = {f"NIC of host {host}, {way}": 50 * _GB for host in (0, 1) for way in ("out", "in")}

    def join(source: int, destination: int) -> tuple[str, ...]:
        a, b = 2 * source // domains, 2 * destination // domains
        return () if a == b else (f"NIC of host {a}, out", f"NIC of host {b}, in")

    return _make(f"two hosts, {domains}", domains, 450 * _GB, 3350 * _GB, between, join)


def _make(
    name: str,
    domains: int,
    port: float,
    memory: float,
    between: Mapping[str, float],
    join: Callable[[int, int], tuple[str, ...]],
) -> Topology:
    """Make a topology of domains with memory and a port in both directions; `join` links ports."""
    bandwidth = {
        **{f"{way} of domain {i}": port for way in ("egress", "ingress") for i in range(domains)},
        **{f"memory of domain {i}": memory / 2 for i in range(domains)},
        **between,
    }
    routes: dict[Pair, tuple[str, ...]] = {}
    for a, b in np.ndindex(domains, domains):
        ports = (f"egress of domain {a}", *join(a, b), f"ingress of domain {b}")
        routes[a, b] = (*(() if a == b else ports), f"memory of domain {b}")
    return Topology(name, domains, bandwidth, routes, LATENCY)
