"""A plugin of pytest: of the files that it collects, runs the tests that the file `chosen` lists.

Tests that are not there are left out, which as arguments would end the run: some are named by what
the package has.
"""

from pathlib import Path

import pytest


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep the tests of the list, in its order; a file or a function stands for all its tests."""
    order = {name: n for n, name in enumerate(Path("chosen").read_text("utf-8").splitlines())}

    def place(item: pytest.Item) -> int:
        names = item.nodeid, item.nodeid.partition("[")[0], item.nodeid.partition("::")[0]
        return min((order[name] for name in names if name in order), default=len(order))

    items[:] = sorted((item for item in items if place(item) < len(order)), key=place)
