"""A plugin of pytest: of the files that it collects, runs the tests that a file lists.

Tests that are not there are left out, which as arguments would end the run: some are named by what
the package has.
"""

from pathlib import Path

import pytest

from tests import share


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the name of the list."""
    parser.addoption("--chosen", default="chosen", help="the file that lists the tests to run")
    parser.addoption("--every-case", action="store_true", help="whether it lists single cases")


def pytest_configure(config: pytest.Config) -> None:
    """Collect the cases that are listed: which take their turn depends on those before them."""
    if config.getoption("--every-case"):
        share.take_every_case()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the tests of the list, in its order; a file, class or function stands for its tests."""
    lines = Path(config.getoption("--chosen")).read_text("utf-8").splitlines()
    order = {name: n for n, name in enumerate(lines)}

    def place(item: pytest.Item) -> int:
        path, *rest = item.nodeid.partition("[")[0].split("::")
        names = [item.nodeid, path]
        for name in rest:
            names.append(f"{names[-1]}::{name}")
        return min((order[name] for name in names if name in order), default=len(order))

    items[:] = sorted((item for item in items if place(item) < len(order)), key=place)
