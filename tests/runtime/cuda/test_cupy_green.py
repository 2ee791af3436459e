"""Streams of green contexts in CuPy's hands: the real CuPy, with a fake of CUDA under it."""

import functools
import itertools
import types
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from gpushard._runtime.cuda.driver.green_driver import GreenDriver
from gpushard.errors import ConfigurationError
from tests.runtime.cuda import fakes
from tests.runtime.cuda.fake_bindings import Bindings


class Cuda:
    """A driver of CuPy's on a fake of cuda-bindings."""

    def __init__(self, module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bindings = Bindings()
        self.version = 13000
        self.whole = itertools.count(0x9000, 0x10)
        self.freed: list[int] = []
        real = module.cupy.cuda.Stream
        green = functools.partial(
            GreenDriver, libraries=fakes.libraries(**{"cuda.bindings.driver": self.bindings})
        )
        runtime = types.SimpleNamespace(
            getDevice=lambda: 0,
            setDevice=lambda gpu: None,
            free=self.freed.append,
            driverGetVersion=lambda: self.version,
            runtimeGetVersion=lambda: 13000,
        )

        class Stream:
            from_external = staticmethod(real.from_external)

            def __init__(stream, non_blocking: bool) -> None:
                assert non_blocking
                stream.ptr = next(self.whole)

        monkeypatch.setattr(module, "runtime", runtime)
        monkeypatch.setattr(module, "GreenDriver", green)
        monkeypatch.setattr(module.cupy.cuda, "Stream", Stream)
        self.driver = module.CupyDriver()


@pytest.fixture
def cuda(oracle: Callable[[str, str, str], ModuleType], monkeypatch: pytest.MonkeyPatch) -> Any:
    oracle("cupy", "CuPy", "pip install cupy-cuda13x")
    module = pytest.importorskip("gpushard._runtime.cuda.driver.cupy_driver")
    return Cuda(module, monkeypatch)


def test_a_stream_of_a_share_is_the_green_contexts(cuda: Cuda) -> None:
    driver = cuda.driver
    shares = driver.divide(0, 2)
    assert cuda.freed == [0], "the primary context has to be there first"
    streams = [driver.stream(0, share) for share in shares]
    assert [stream.ptr for stream in streams] == [int(made) for made in cuda.bindings.streams]
    assert [stream.stream.ptr for stream in streams] == [stream.ptr for stream in streams]
    assert driver.stream(0).ptr == 0x9000


def test_an_old_driver_is_named(cuda: Cuda) -> None:
    cuda.version = 12030
    with pytest.raises(ConfigurationError, match=r"this one is for CUDA 12\.3"):
        cuda.driver.divide(0, 2)
