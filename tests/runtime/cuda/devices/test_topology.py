"""Which kind of memory each domain is."""

from __future__ import annotations

from gpushard._runtime.cuda.devices.topology import Topology
from tests.runtime.cuda.test_backend import cuda


def test_each_gpu_has_pinned_memory_and_the_host_has_the_rest() -> None:
    with cuda(gpus=2, separate_domains=True, partitions=2) as (runtime, _):
        topology: Topology = runtime.backend._topology
        kinds = [topology.kind(domain) for domain in range(topology.pageable + 1)]
        assert kinds == ["device"] * 4 + ["pinned_host"] * 2 + ["unpinned_host"]
