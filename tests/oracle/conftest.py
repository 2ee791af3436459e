"""The libraries that the tests of this folder compare gpushard with."""

import os
from collections.abc import Callable
from types import ModuleType

import pytest

DEVICES = 8


@pytest.fixture(scope="session")
def jax(oracle: Callable[[str, str, str], ModuleType]) -> ModuleType:
    """JAX with eight virtual CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    with pytest.MonkeyPatch.context() as patch:
        # JAX reads both when it makes its devices, not later.
        patch.setenv("XLA_FLAGS", flags.strip())
        patch.setenv("JAX_PLATFORMS", "cpu")
        module = oracle("jax", "JAX", "pip install 'gpushard[bench]'")
        count = len(module.devices())
    if count != DEVICES:
        pytest.fail(f"JAX was started earlier in this process, with {count} devices of {DEVICES}")
    return module
