"""Runtimes and layouts for the tests of this folder."""

from collections.abc import Iterator

import pytest

from gpushard._runtime.runtime import Runtime
from gpushard.testing import runtime


@pytest.fixture(scope="module", params=[1, 4], ids=["one-domain", "four-domains"])
def domains(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime of eight devices in one or four memory domains."""
    with runtime(host_domains=request.param, enable_checks=True) as made:
        yield made


@pytest.fixture(scope="module")
def rt() -> Iterator[Runtime]:
    """A runtime of eight devices in one memory domain."""
    with runtime(enable_checks=True) as made:
        yield made
