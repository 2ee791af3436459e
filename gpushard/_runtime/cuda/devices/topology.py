"""Lay out the devices and memory domains of the GPUs that are used. Pure.

Domains are numbered: first those of devices, then page-locked memory for each GPU, then ordinary
host memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpushard._frozen import dataclass
from gpushard._runtime.backend import DeviceInfo
from gpushard._runtime.cuda.devices.selection import SelectedGpu
from gpushard._runtime.cuda.driver.driver import Gpu, Share


@dataclass(frozen=True)
class Topology:
    """The devices and memory domains of all GPUs."""

    devices: tuple[DeviceInfo, ...]
    """The devices, in order."""

    chips: tuple[int, ...]
    """For each domain of devices and of page-locked memory, the position of its GPU."""

    device_domains: int
    """Number of domains that belong to devices."""

    @property
    def pageable(self) -> int:
        """The domain of ordinary host memory."""
        return len(self.chips)

    def kind(self, domain: int) -> str:
        """Return the kind of memory of a domain."""
        if domain < self.device_domains:
            return "device"
        return "pinned_host" if domain < self.pageable else "unpinned_host"


def make_topology(
    selected: Sequence[SelectedGpu],
    gpus: Sequence[Gpu],
    peers: Sequence[frozenset[int]],
    shares: Sequence[Sequence[Share]],
    *,
    separate_domains: bool,
) -> Topology:
    """Lay out devices and memory domains.

    Args:
      selected: the GPUs that are used.
      gpus: the facts about each GPU.
      peers: for each GPU, positions of the others with memory that it can use.
      shares: for each GPU, the shares of its devices; none if each device has the whole GPU.
      separate_domains: whether the devices of a GPU act as if they had memories of their own.
    """
    chips = []
    for chip, choice in enumerate(selected):
        chips += [chip] * (choice.partitions if separate_domains else 1)
    domains = len(chips)
    pageable = domains + len(selected)
    devices = []
    for chip, choice in enumerate(selected):
        first = chips.index(chip)
        devices += [
            DeviceInfo(
                kind=gpus[chip].name,
                hardware_id=chip,
                partition=partition,
                domain=first + partition if separate_domains else first,
                pinned_domain=domains + chip,
                pageable_domain=pageable,
                bus_id=gpus[chip].bus_id,
                peers=peers[chip],
                multiprocessors=(
                    shares[chip][partition].multiprocessors
                    if shares[chip]
                    else gpus[chip].multiprocessors
                ),
            )
            for partition in range(choice.partitions)
        ]
    return Topology(tuple(devices), (*chips, *range(len(selected))), domains)
