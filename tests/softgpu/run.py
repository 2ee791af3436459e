"""Runs Python on the software GPU: which interpreter, with which environment.

Both are settled before Python starts, so whoever wants the software GPU starts anew:

    python -m pytest --softgpu tests/gpu
    python -m tests.softgpu --seed 1 -- script.py
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence

from tests.softgpu.build import CUDA, ROOT, SoftGpu, make

ACTIVE = "SOFTGPU_HOME"
"""The variable that is set in a process with the software GPU."""

DEVICES = 8
"""How many devices tests count on, by partitions of the GPUs unless they say otherwise."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How the software GPU works."""

    seed: int | None = None
    """Chooses the order in which streams run, late; without one, work runs at once."""
    devices: int = 1
    """How many GPUs there are."""
    memory: int | None = None
    """Bytes of memory of each; 8 GiB if it is None."""
    peers: bool = True
    """Whether GPUs can reach each other's memory."""
    cuda: str | None = None
    """Which CUDA it is, 12 or 13; as `SOFTGPU_CUDA` says, or 12, if it is None."""
    guard: bool = True
    """Whether the host is caught when it touches the memory of a GPU, where the CPU can tell."""


def is_active() -> bool:
    """Whether this process has the software GPU."""
    return ACTIVE in os.environ


def environment(made: SoftGpu, options: Options) -> dict[str, str]:
    """Return the environment of a process with the software GPU.

    What the caller has set for gpushard stays, but for the backend.
    """
    own = {
        ACTIVE: str(made.build),
        CUDA: str(made.toolkit.version[0]),
        "SOFTGPU_DEVICES": str(options.devices),
        "SOFTGPU_PEERS": str(int(options.peers)),
        "SOFTGPU_GUARD": str(int(options.guard)),
        "LD_LIBRARY_PATH": f"{made.build / 'lib'}:{made.build / 'nccl'}",
        # CUB's kernels are made for warps that run in step.
        "CUPY_ACCELERATORS": "",
        "CUPY_CACHE_DIR": str(made.kernels),
        "PYTHONPATH": str(ROOT),
        "GPUSHARD_BACKEND": "cuda",
    }
    partitions = str(max(1, DEVICES // options.devices))
    own["GPUSHARD_PARTITIONS"] = os.environ.get("GPUSHARD_PARTITIONS", partitions)
    if options.seed is not None:
        own["SOFTGPU_SEED"] = str(options.seed)
    if options.memory is not None:
        own["SOFTGPU_MEMORY"] = str(options.memory)
    return {**os.environ, **own}


def replace_process(options: Options, arguments: Sequence[str]) -> None:
    """Go on as Python with these arguments on the software GPU; makes it first if need be."""
    made = make(options.cuda)
    python = str(made.python)
    os.execve(python, [python, *arguments], environment(made, options))
