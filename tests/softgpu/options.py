"""Options of pytest that run tests on the software GPU."""

from __future__ import annotations

from typing import Any

import pytest

from tests.softgpu import counters, excluded
from tests.softgpu.run import Options, is_active, replace_process


def add_options(parser: pytest.Parser) -> None:
    """Add `--softgpu` and how it works."""
    group = parser.getgroup("softgpu", "the software GPU of tests/softgpu")
    add = group.addoption
    add("--softgpu", action="store_true", help="run on the software GPU; makes it, if need be")
    add("--softgpu-seed", type=int, metavar="N", help="let streams run late, ordered by this seed")
    add("--softgpu-devices", type=int, default=1, metavar="N", help="how many GPUs (1)")
    add("--softgpu-memory", type=int, metavar="BYTES", help="memory of each GPU (8 GiB)")
    add("--softgpu-no-peers", action="store_true", help="GPUs cannot reach each other's memory")
    add("--softgpu-no-guard", action="store_true", help="do not catch the host in device memory")


def begin_anew(config: pytest.Config) -> None:
    """Replace the process by pytest on the software GPU, if asked for and not there yet."""
    option = config.option
    if not option.softgpu or is_active():
        return
    # Pytest's own place for what is printed ends with this process.
    config.pluginmanager.getplugin("capturemanager").stop_global_capturing()
    options = Options(
        seed=option.softgpu_seed,
        devices=option.softgpu_devices,
        memory=option.softgpu_memory,
        peers=not option.softgpu_no_peers,
        guard=not option.softgpu_no_guard,
    )
    arguments = [str(argument) for argument in config.invocation_params.args]
    replace_process(options, ["-m", "pytest", *arguments])


def header(config: pytest.Config) -> list[str]:
    """Return what pytest says first."""
    return [f"software GPU: {counters.describe()}"] if is_active() else []


def mark_excluded(items: list[Any]) -> None:
    """Skip what the software GPU cannot run, with the reason."""
    if not is_active():
        return
    for item in items:
        reason = excluded.reason(item.nodeid)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"not on the software GPU: {reason}"))
