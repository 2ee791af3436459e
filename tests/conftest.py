"""What all tests share: how much of them runs, and the way to a library that is compared with.

A test that compares gpushard with another library takes that library from a fixture, `jax`,
`flax` or `torch`. Where the library is missing the test is skipped and says how
to install it; under `--require-oracles` it fails instead, so that no comparison is lost unseen.
"""

import gc
import importlib
import itertools
import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

from gpushard._geometry import sharding
from tests import share
from tests.gpu.device import FOUND
from tests.softgpu import options as softgpu

# Tests that do not choose a backend count on the host's eight devices, on machines with GPUs too.
os.environ.setdefault("GPUSHARD_BACKEND", "host")

# SciPy and scikit-learn look it up when they are imported: whether to take arrays of any library.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

DEVICES = 8
"""How many virtual CPU devices JAX has in tests."""


ON_GPUS = {"conformance", "gpu", "softgpu"}
"""Folders of tests that run on GPUs, or on drivers that need none."""


def _is_skipped(item: pytest.Item) -> bool:
    """Whether a mark skips a test."""
    return any(mark.args[:1] == (True,) for mark in item.iter_markers("skipif"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Start with the tests that take minutes, so that no process waits for another in the end.

    Whatever asks for a library to compare with can be chosen: `-m oracle`. Cases that take turns
    by `one_of` are left out, unless all run, or they are asked for by name. So are the tests that
    need a GPU where there is none, which one line in the end says; alone they are skipped instead.
    """
    left = [item for item in share.out_of_turn(items) if item.nodeid not in config.args]
    if not FOUND.usable:
        need = [item for item in items if item.path.parent.name in ON_GPUS and _is_skipped(item)]
        left = [*dict.fromkeys(left + need)] if len(need) < len(items) else left
    config.hook.pytest_deselected(items=left)
    items[:] = itertools.filterfalse({*left}.__contains__, items)
    items.sort(key=lambda item: item.get_closest_marker("minutes") is None)
    for item in items:
        if "oracle" in getattr(item, "fixturenames", ()):
            item.add_marker("oracle")
    softgpu.mark_excluded(items)


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Say how the software GPU works, if tests run on it."""
    return softgpu.header(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the operations that make a split dim whole, for now, and how many behaviours work."""
    listed = Path(__file__).parent.joinpath("ops", "whole.txt").read_text(encoding="utf-8")
    names = ", ".join(line.partition(":")[0] for line in listed.splitlines())
    terminalreporter.write_line(f"operations that need dims whole: {names}")
    if find_spec("jax") is None:
        terminalreporter.write_line("left out: tests/oracle (JAX: pip install 'gpushard[bench]')")
    if not FOUND.usable:
        terminalreporter.write_line(f"left out: tests that need a GPU ({FOUND.reason})")
    passed = terminalreporter.stats.get("passed", [])
    probes = [each for each in passed if each.nodeid.startswith("tests/systems/")]
    if probes:
        differ = sum("differs" in each.keywords for each in probes)
        terminalreporter.write_line(
            f"behaviours of the systems: {len(probes) - differ} work, {differ} differ on purpose"
        )


@pytest.fixture(autouse=True, scope="module")
def spare_the_collector() -> None:
    """Keep what lives to the end from the collector, which many tests ask for all that is left.

    These are tests, libraries and caches, most of all JAX's; runtimes that cached tilings keep go.
    """
    sharding._tilings.clear()
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config) -> Callable[[str, str, str], ModuleType]:
    """Return `oracle(module, title, install)`, which imports a module or skips the test.

    `title` is the library's name for people, `install` the command that brings it.
    """

    def find(module: str, title: str, install: str) -> ModuleType:
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:
                raise
        reason = f"{title} is not installed: {install}"
        if pytestconfig.getoption("--require-oracles"):
            pytest.fail(reason)
        pytest.skip(reason)

    return find


@pytest.fixture(scope="session")
def jax(oracle: Callable[[str, str, str], ModuleType]) -> ModuleType:
    """JAX with eight virtual CPU devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    with pytest.MonkeyPatch.context() as patch:
        # JAX reads both when it makes its devices, not later.
        patch.setenv("XLA_FLAGS", flags.strip())
        patch.setenv("JAX_PLATFORMS", "cpu")
        patch.setenv("PJRT_NPROC", "16")  # or collectives of eight devices wait for threads
        module = oracle("jax", "JAX", "pip install 'gpushard[bench]'")
        count = len(module.devices())
    gc.collect()
    gc.freeze()
    if count != DEVICES:
        pytest.fail(f"JAX was started earlier in this process, with {count} devices of {DEVICES}")
    return module


@pytest.fixture(scope="session")
def flax(jax: ModuleType, oracle: Callable[[str, str, str], ModuleType]) -> ModuleType:
    """Flax's `nnx`, on the devices of JAX."""
    oracle("flax", "Flax", "pip install 'gpushard[bench]'")
    return importlib.import_module("flax.nnx")


@pytest.fixture(scope="session")
def torch(oracle: Callable[[str, str, str], ModuleType]) -> ModuleType:
    """PyTorch."""
    return oracle("torch", "PyTorch", "pip install 'gpushard[torch]'")
