"""The host backend passes the suites, alone and under the checker."""

from typing import Any

from gpushard._runtime.checking.checker import Checker
from gpushard._runtime.host import HostBackend
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.testing.conformance import ArrayConformance, BackendConformance


class Host:
    def make_runtime(self, **settings: Any) -> Runtime:
        chosen = Settings(**settings)
        return Runtime(chosen, HostBackend(chosen))


class CheckedHost:
    def make_runtime(self, **settings: Any) -> Runtime:
        chosen = Settings(**settings)
        return Runtime(chosen, Checker(HostBackend(chosen)))


class TestBackend(Host, BackendConformance):
    pass


class TestArrays(Host, ArrayConformance):
    pass


class TestCheckedBackend(CheckedHost, BackendConformance):
    pass


class TestCheckedArrays(CheckedHost, ArrayConformance):
    pass
