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
    """A model of a machine: memory domains, resources with bandwidths, and routes of copies.

    Raises:
      ArgumentError: a pair of domains has no route, a route is empty or names an unknown resource,
        or a bandwidth is not positive.

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
        """The bandwidths of the resources, followed by infinity for the padding in `table`."""
        return np.array([*self.bandwidth.values(), np.inf])

    @functools.cached_property
    def table(self) -> IntArray:
        """The numbers of the resources of each route, padded: shape (domains, domains, longest)."""
        number = {resource: i for i, resource in enumerate(self.bandwidth)}
        longest = max(map(len, self.routes.values()))
        table = np.full((self.domains, self.domains, longest), len(number), np.int64)
        for pair, route in self.routes.items():
            table[pair][: len(route)] = [number[resource] for resource in route]
        return table


def nvlink(domains: int) -> Topology:
    """Return a model of GPUs around a switch, as in one host with NVLink.

    Each GPU sends and receives 450 GB/s, to and from any other. Its memory moves 3.35 TB/s.

    Args:
      domains: the number of GPUs.

    >>> nvlink(8).routes[0, 3]
    ('egress of domain 0', 'ingress of domain 3', 'memory of domain 3')
    """
    return _make(f"NVLink-like, {domains}", domains, 450 * _GB, 3350 * _GB, {}, lambda a, b: ())


def pcie(domains: int) -> Topology:
    """Return a model of GPUs on PCIe: four at each root complex, and links between all roots.

    Each GPU sends and receives 25 GB/s. Each root sends 40 GB/s to the other roots, and receives as
    much. The memory of a GPU moves 900 GB/s.

    Args:
      domains: the number of GPUs.

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
    """Return a model of two hosts, each as in `nvlink`, connected by one NIC per host.

    All GPUs of a host share its NIC, which carries 50 GB/s in each direction.

    Args:
      domains: the number of GPUs in total.

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
