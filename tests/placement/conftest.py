"""Runtimes for the tests of this folder."""

from collections.abc import Iterator
from typing import Any

import pytest

from gpushard._runtime.runtime import Runtime
from gpushard.testing import runtime

SETTINGS: dict[str, dict[str, Any]] = {
    "one-domain": {},
    "two-domains": {"host_domains": 2, "enable_checks": True},
    "eight-domains": {"host_domains": 8},
    "queued": {"small_bytes": 0, "inline_bytes": 0},
    "eight-domains-queued": {"host_domains": 8, "small_bytes": 0, "inline_bytes": 0},
}


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime of eight devices, with memory apart or shared, and work inline or queued."""
    with runtime(**request.param) as made:
        yield made
