"""Copy boxes: by kernels and copy engines on streams, or at once, while the host waits."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from gpushard._runtime.copy_engine import by_engine
from gpushard._runtime.copy_phase import BoxCopy, Phase
from gpushard._runtime.cuda.devices.topology import Topology
from gpushard._runtime.cuda.driver.driver import Driver, StreamHandle
from gpushard._runtime.cuda.kernels.copy_launches import Launches
from gpushard._runtime.cuda.memory.bounce import Bounce
from gpushard._runtime.cuda.memory.stores import address_of
from gpushard._runtime.traffic import Traffic
from gpushard._typing import LocalArray, LocalArrays


class Copier:
    """Chooses how boxes are copied, copies them, and counts their bytes."""

    def __init__(
        self,
        driver: Driver,
        topology: Topology,
        ordinals: Sequence[int],
        launches: Launches,
        bounces: Sequence[Bounce],
        engine_bytes: int,
    ) -> None:
        self._driver = driver
        self._topology = topology
        self._ordinals = ordinals
        self._launches = launches
        self._bounces = bounces
        self._engine_bytes = engine_bytes
        self.traffic = Traffic()
        """Bytes copied so far."""

    def copy_phase(
        self, phase: Phase, operands: LocalArrays, domain: int, chip: int, stream: StreamHandle
    ) -> None:
        """Copy the boxes of a phase on a stream of a GPU."""
        choose = functools.partial(self._by_engine, domain)
        template = self._launches.launch_phase(phase, operands, chip, stream, choose)
        for span in template.spans:
            target = address_of(self._driver, operands[span.target]) + span.target_offset
            source = address_of(self._driver, operands[span.source]) + span.source_offset
            self._copy_span(target, source, span.nbytes, domain, span.domain, stream)
        self.traffic.add(domain, phase.links)

    def copy_boxes(self, copies: Sequence[BoxCopy], domain: int, stream: StreamHandle) -> None:
        """Copy boxes into memory of a domain, on a stream."""
        boxes = []
        for target, source, source_domain in copies:
            dense = bool(target.flags.c_contiguous and source.flags.c_contiguous)
            if self._by_engine(domain, target.nbytes, source_domain, dense):
                ends = address_of(self._driver, target), address_of(self._driver, source)
                self._copy_span(*ends, target.nbytes, domain, source_domain, stream)
            else:
                boxes.append((target, source))
        self._launches.launch_boxes(boxes, stream)
        self._count_boxes(copies, domain)

    def copy_now(self, copies: Sequence[BoxCopy], domain: int) -> None:
        """Copy while the caller waits; nothing else may use the targets."""
        by_source: dict[int, list[tuple[LocalArray, LocalArray]]] = {}
        for target, source, source_domain in copies:
            by_source.setdefault(source_domain, []).append((target, source))
        for source_domain, boxes in by_source.items():
            self._copy_from(source_domain, boxes, domain)
        self._count_boxes(copies, domain)

    def fill_now(self, targets: LocalArrays, value: np.generic, domain: int) -> None:
        """Fill while the caller waits; nothing else may use the targets."""
        if self._is_device(domain):
            self._bounces[self._topology.chips[domain]].fill(targets, value)
            return
        for target in targets:
            target[...] = value

    def _copy_from(
        self, source_domain: int, boxes: Sequence[tuple[LocalArray, LocalArray]], domain: int
    ) -> None:
        to_device, of_device = self._is_device(domain), self._is_device(source_domain)
        if to_device and of_device:
            self._bounces[self._topology.chips[domain]].within(boxes)
        elif to_device:
            self._bounces[self._topology.chips[domain]].to_device(boxes)
        elif of_device:
            self._bounces[self._topology.chips[source_domain]].to_host(boxes)
        else:
            for target, source in boxes:
                np.copyto(target, source)

    def _is_device(self, domain: int) -> bool:
        return 0 <= domain < self._topology.device_domains

    def _by_engine(self, domain: int, nbytes: int, source: int, dense: bool) -> bool:
        least = self._engine_bytes
        return by_engine(nbytes, dense=dense, crosses=source != domain, least=least)

    def _copy_span(
        self,
        target: int,
        source: int,
        nbytes: int,
        domain: int,
        source_domain: int,
        stream: StreamHandle,
    ) -> None:
        chips = self._topology.chips[domain], self._topology.chips[source_domain]
        both = self._is_device(domain) and self._is_device(source_domain)
        if both and chips[0] != chips[1]:
            gpu, peer = (self._ordinals[chip] for chip in chips)
            self._driver.copy_peer(target, gpu, source, peer, nbytes, stream)
        else:
            self._driver.copy(target, source, nbytes, stream)

    def _count_boxes(self, copies: Sequence[BoxCopy], domain: int) -> None:
        moved: dict[int, int] = {}
        for target, _, source in copies:
            moved[source] = moved.get(source, 0) + target.nbytes
        self.traffic.add(domain, moved)
