"""Which tests run, how much of each, and in how many processes.

Modules of the package that need a library which is not installed have no doctests to run.
"""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import share
from tests.softgpu import options as softgpu

_NEED = {"torch": ["gpushard/interop/torch.py"]}
_NEED["cupy"] = [
    str(module.relative_to(Path(__file__).parent))
    for module in Path(__file__).parent.glob("gpushard/_runtime/cuda/**/*.py")
    if re.search(r"^(import|from) cupy", module.read_text(encoding="utf-8"), re.MULTILINE)
]

collect_ignore = [
    m for library, modules in _NEED.items() if not find_spec(library) for m in modules
]

PROCESSES = 8
"""How many processes share the whole suite at most."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what the suite can be asked for."""
    parser.addoption(
        "--require-oracles",
        action="store_true",
        help="fail, rather than skip, where a library to compare with is not installed",
    )
    parser.addoption(
        "--all",
        action="store_true",
        help="run every example, seed and case of each test, not the share that finds most",
    )
    softgpu.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Settle how much runs before tests are collected, which ask for it as they are defined."""
    share.take(everything=config.getoption("--all"))
    softgpu.count_work(config)


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Run the whole suite in a process for each core, unless `-n` says how many, or `-s`, `--pdb`.

    That takes pytest-xdist, whose own hook comes next and reads what is set here. With `--softgpu`
    pytest begins anew on the software GPU.
    """
    softgpu.begin_anew(config)
    option = config.option
    alone = option.usepdb or option.capture == "no" or hasattr(config, "workerinput")
    whole = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if whole and not alone and getattr(option, "numprocesses", 0) is None:
        option.numprocesses = min(PROCESSES, len(os.sched_getaffinity(0)))
        option.dist = "worksteal"
