"""On a GPU: kernels of all its partitions at once, as streams and as green contexts."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bench.case import OURS, Case, Config, Side, Target
from bench.chip import Lab, Part, cases_on_gpu
from bench.measure import timed
from gpushard._runtime.cuda.driver.libraries import installed_version
from gpushard._runtime.runtime import Device, Runtime

ONE, TURNS = "one alone", "one after the other"

PARTITIONS = (2, 4, 8)

NEAR = Target(times=1.25, column=ONE)
"""Partitions that do not hinder each other take as long together as one of them alone."""

KERNELS = r"""
extern "C" __global__ void wait(float* out, long long steps) {
  const long long start = clock64();
  while (clock64() - start < steps * 8) {
  }
  if (threadIdx.x == 0) out[blockIdx.x] = 1;
}

extern "C" __global__ void compute(float* out, long long steps) {
  float x = threadIdx.x + 1;
  for (long long i = 0; i < steps; ++i) x = fmaf(x, 0.5f, 1.0f);
  if (threadIdx.x == 0) out[blockIdx.x] = x;
}
"""
"""Both take about eight cycles for a step. `wait` has one block; `compute` one for each
multiprocessor of its partition."""

THREADS = 256
STEPS = 400_000
"""About 2 ms, beside which submitting is little."""


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there is a GPU."""
    return cases_on_gpu(config, PARTS)


def _streams(lab: Lab, config: Config) -> Iterator[Case]:
    """Partitions that share all multiprocessors."""
    return _divided(lab, config, "stream")


def _green(lab: Lab, config: Config) -> Iterator[Case]:
    """Partitions that have multiprocessors of their own."""
    if lab.cupy is not None and installed_version("cuda-bindings") is None:
        print("Green contexts were not measured: cuda-bindings is not installed\n")
        return iter(())
    return _divided(lab, config, "green")


PARTS: tuple[Part, ...] = (_streams, _green)
"""In the order of the tables; `--group gpu_parallel:green` runs one of them."""


def _divided(lab: Lab, config: Config, mode: str) -> Iterator[Case]:
    steps = config.pick(STEPS, 10)
    for partitions in config.pick(PARTITIONS, PARTITIONS[:1]):
        with lab.runtime(partitions, partition_mode=mode) as runtime:
            for kernel in ("wait", "compute"):
                yield _case(lab, runtime, mode, kernel, steps)


def _case(lab: Lab, runtime: Runtime, mode: str, kernel: str, steps: int) -> Case:
    devices = runtime.devices
    infos = runtime.backend.describe()
    # Green partitions know their multiprocessors; those of streams share the GPU's.
    shared = 1 if mode == "green" else len(devices)
    blocks = [1 if kernel == "wait" else max(1, i.multiprocessors // shared) for i in infos]
    outs = [lab.xp.zeros(count, np.float32) for count in blocks]
    lab.synchronize()
    launch = _launcher(lab, kernel, steps)
    works = [functools.partial(launch, out) for out in outs]

    def check() -> None:
        for device, work in zip(devices, works, strict=True):
            _submit(runtime, device, kernel, work)
        _wait(devices)
        assert all(float(out.min()) > 0 for out in outs), "a kernel did not run"

    def at_once(_: object) -> None:
        for device, work in zip(devices, works, strict=True):
            _submit(runtime, device, kernel, work)
        _wait(devices)

    def in_turn(_: object, count: int = len(devices)) -> None:
        for device, work in zip(devices[:count], works[:count], strict=True):
            _submit(runtime, device, kernel, work)
            _wait([device])

    return Case(
        name=f"{len(devices)} partitions, {kernel}",
        table=f"kernels of all partitions, {mode}",
        sides=[
            Side(OURS, timed(at_once)),
            Side(TURNS, timed(in_turn)),
            Side(ONE, timed(functools.partial(in_turn, count=1))),
        ],
        check=check,
        target=NEAR,
        facts={"blocks": blocks, "steps": steps},
        note=f"{sum(blocks)} blocks",
        floor=ONE,
    )


def _launcher(lab: Lab, kernel: str, steps: int) -> Callable[[Any], None]:
    """Return what launches a kernel on the current stream, or does as much without a GPU."""
    if lab.cupy is None:
        return lambda out: out.fill(1)
    function = lab.cupy.RawModule(code=KERNELS).get_function(kernel)

    def launch(out: Any) -> None:
        function((len(out),), (THREADS,), (out, np.int64(steps)))

    return launch


def _submit(runtime: Runtime, device: Device, name: str, work: Callable[[], None]) -> None:
    stream = device.stream
    runtime.commit(lambda: runtime.submit(stream, name, work, [], []), [stream])


def _wait(devices: Any) -> None:
    for device in devices:
        device.stream.synchronize(device.stream.issued)
