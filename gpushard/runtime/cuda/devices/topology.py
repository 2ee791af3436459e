"""Devices and memory domains of the GPUs that are used. Pure.

Domains are numbered: those of devices first, then page-locked memory beside each GPU, then ordinary
host memory.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpushard.frozen import dataclass
from gpushard.runtime.backend import DeviceInfo
from gpushard.runtime.cuda.devices.selection import SelectedGpu
from gpushard.runtime.cuda.driver.driver import Gpu, Share


@dataclass(frozen=True)
class Topology:
    """What the GPUs are divided into."""

    devices: tuple[DeviceInfo, ...]
    """The devices, in order."""

    chips: tuple[int, ...]
    """For each domain of devices and of page-locked memory, the position of its GPU."""

    device_domains: int
    """How many domains belong to devices."""

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
    """Lay out devices.

    Args:
      selected: the GPUs that are used.
      gpus: what each of them is.
      peers: positions of the others that each of them reaches.
      shares: those of the devices of each, none where its devices have all of it.
      separate_domains: whether the devices of one GPU pose as having memories of their own.
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
