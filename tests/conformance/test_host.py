"""The host backend passes the suites, alone and under the checker."""

from typing import Any

from gpushard.config import Settings
from gpushard.runtime.checking.checker import Checker
from gpushard.runtime.host import HostBackend
from gpushard.runtime.runtime import Runtime
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
