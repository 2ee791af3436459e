"""The libraries that gpushard is compared with; none of them is required."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import numpy as np

DEVICES = 8


class Jax:
    """JAX on virtual CPU devices.

    Args:
      module: the module `jax`, with at least eight devices.
    """

    def __init__(self, module: ModuleType) -> None:
        if len(module.devices()) < DEVICES:
            raise RuntimeError(
                f"JAX was started earlier in this process, with {len(module.devices())} devices of "
                f"{DEVICES}"
            )
        self.jax = module
        self.version: str = module.__version__

    def sharding(
        self, mesh_shape: tuple[int, ...], axis_names: tuple[str, ...], spec: Iterable[Any]
    ) -> Any:
        """Return a `NamedSharding` over the first devices; `spec` may be gpushard's."""
        count = int(np.prod(mesh_shape))
        devices = np.array(self.jax.devices()[:count]).reshape(mesh_shape)
        mesh = self.jax.sharding.Mesh(devices, axis_names)
        return self.jax.sharding.NamedSharding(mesh, self.jax.sharding.PartitionSpec(*spec))

    def put(self, x: Any, sharding: Any) -> Any:
        """Return `jax.device_put(x, sharding)` once it is there."""
        return self.jax.device_put(x, sharding).block_until_ready()


def find_jax() -> Jax | None:
    """Start JAX with eight virtual CPU devices; None if it is not installed."""
    if importlib.util.find_spec("jax") is None:
        return None
    # JAX reads both when it makes its devices, not later.
    flag = f"--xla_force_host_platform_device_count={DEVICES}"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flag}".strip()
    os.environ["JAX_PLATFORMS"] = "cpu"
    # With fewer threads than what runs at a time needs, JAX waits for itself and aborts.
    os.environ.setdefault("PJRT_NPROC", str(2 * DEVICES))
    return Jax(importlib.import_module("jax"))


class Torch:
    """PyTorch on the CPU, with NumPy's names where its own differ.

    Args:
      module: the module `torch`.
    """

    def __init__(self, module: ModuleType) -> None:
        self.torch = module
        self.max, self.min, self.concatenate = module.amax, module.amin, module.cat
        self.roll: Any = lambda x, shift, axis: module.roll(x, shift, axis)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.torch, name)

    def compile(self, function: Any) -> Any:
        """Return what PyTorch's compiler makes of a function, and of no earlier one."""
        self.torch.compiler.reset()  # it compiles few functions of one line of code
        return self.torch.compile(function, dynamic=False)


def find_torch() -> Torch | None:
    """Import PyTorch; None if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        return None
    return Torch(importlib.import_module("torch"))


def delete(*arrays: Any) -> None:
    """Wait for arrays of gpushard or JAX, then give up their memory."""
    for array in arrays:
        array.block_until_ready()
        array.delete()
