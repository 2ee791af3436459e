"""Calls of green contexts, on a fake of cuda-bindings, which is compared with the real one."""

import importlib
import inspect
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from gpushard._runtime.cuda.driver.green_driver import GreenDriver
from gpushard._runtime.cuda.driver.libraries import Libraries
from gpushard.errors import ConfigurationError
from tests.runtime.cuda import fake_bindings, fakes
from tests.runtime.cuda.fake_bindings import FUNCTIONS, Bindings, CUresult

NAME = "cuda.bindings.driver"
NEW = 13000


def libraries(bindings: Any) -> Libraries:
    return fakes.libraries(**{NAME: bindings})


def on(bindings: Bindings) -> GreenDriver:
    return GreenDriver(NEW, NEW, libraries(bindings))


def test_a_gpu_is_divided_and_united() -> None:
    bindings = Bindings()
    green = on(bindings)
    shares = green.divide(1, 4)
    assert [share.multiprocessors for share in shares] == [32] * 4
    assert all(context.device.ordinal == 1 for context in bindings.contexts)
    members = [set(context.members) for context in bindings.contexts]
    assert len(set().union(*members)) == sum(map(len, members)) == 128
    addresses = [green.stream(share) for share in shares for _ in range(2)]
    assert addresses == [int(stream) for stream in bindings.streams]
    owners = [stream.context for stream in bindings.streams]
    assert owners == [context for context in bindings.contexts for _ in range(2)]
    green.unite(shares)  # the fake sees to the order
    assert not bindings.contexts and not bindings.streams
    assert len(on(bindings).divide(1, 2)) == 2


def test_groups_that_cannot_be_had_are_made_smaller() -> None:
    """16 groups of 8 would be 128, but clusters of 18 have room for two of 8 each."""
    bindings = Bindings(total=126, spans=18)
    assert [share.multiprocessors for share in on(bindings).divide(0, 2)] == [56, 56]
    with pytest.raises(ConfigurationError, match="at most 14 groups, of at least 8") as caught:
        on(Bindings(total=126, spans=18)).divide(0, 15)
    facts = caught.value.facts
    assert (facts["multiprocessors"], facts["most"], facts["least"]) == (126, 14, 8)


@pytest.mark.parametrize("step", [1, 2, 4, 8])
def test_granularity_is_cudas(step: int) -> None:
    shares = on(Bindings(total=82, step=step)).divide(0, 3)
    assert [share.multiprocessors for share in shares] == [82 // 3 // step * step] * 3


def test_a_gpu_that_makes_no_groups() -> None:
    with pytest.raises(
        ConfigurationError, match="CUDA makes no groups of them; use partition_mode"
    ):
        on(Bindings(total=6, step=8)).divide(0, 2)


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if not n.endswith(("Destroy", "Create"))])
def test_what_cuda_refuses_says_so(name: str) -> None:
    bindings = Bindings(fail=(name, CUresult.CUDA_ERROR_NOT_SUPPORTED, 0))
    with pytest.raises(ConfigurationError) as caught:
        on(bindings).divide(2, 2)
    assert str(caught.value) == (
        f"partition_mode='green' cannot be used on GPU 2: {name} failed with "
        "CUDA_ERROR_NOT_SUPPORTED; use partition_mode='stream'"
    )
    assert not bindings.contexts


def test_a_context_that_fails_leaves_none() -> None:
    bindings = Bindings(fail=("cuGreenCtxCreate", CUresult.CUDA_ERROR_OUT_OF_MEMORY, 2))
    with pytest.raises(ConfigurationError, match="cuGreenCtxCreate failed with CUDA_ERROR_OUT_OF"):
        on(bindings).divide(0, 4)
    assert bindings.log.count("cuGreenCtxDestroy") == 2 and not bindings.contexts


def test_a_stream_that_fails_is_not_kept() -> None:
    bindings = Bindings(fail=("cuGreenCtxStreamCreate", CUresult.CUDA_ERROR_OUT_OF_MEMORY, 1))
    green = on(bindings)
    shares = green.divide(0, 2)
    green.stream(shares[0])
    with pytest.raises(ConfigurationError, match="GPU 0: cuGreenCtxStreamCreate failed"):
        green.stream(shares[0])
    green.unite(shares)
    assert not bindings.contexts and not bindings.streams


def test_a_function_that_the_drivers_library_lacks() -> None:
    lacking = RuntimeError('Function "cuGreenCtxCreate" not found')
    with pytest.raises(ConfigurationError, match='"cuGreenCtxCreate" not found'):
        on(Bindings(raises=("cuGreenCtxCreate", lacking))).divide(0, 2)


@pytest.mark.parametrize(("runtime", "extra"), [(12090, "green12"), (13020, "green13")])
def test_without_cuda_bindings(runtime: int, extra: str) -> None:
    with pytest.raises(ConfigurationError, match="is not installed") as caught:
        GreenDriver(NEW, runtime, fakes.libraries())
    assert f"pip install 'gpushard[{extra}]'" in str(caught.value)
    broken = {NAME: ImportError("undefined symbol")}
    with pytest.raises(ConfigurationError, match=r"does not import \(ImportError: undefined"):
        GreenDriver(NEW, runtime, fakes.libraries(**broken))
    lost = {NAME: ModuleNotFoundError("No module named 'cuda.pathfinder'", name="cuda.pathfinder")}
    with pytest.raises(ConfigurationError, match=r"does not import \(ModuleNotFound"):
        GreenDriver(NEW, runtime, fakes.libraries(**lost))


def test_an_old_driver_is_not_asked() -> None:
    with pytest.raises(ConfigurationError, match=r"this one is for CUDA 12\.3"):
        GreenDriver(12030, 12090, fakes.libraries())


@pytest.fixture(scope="module")
def real(oracle: Callable[[str, str, str], ModuleType]) -> Any:
    for name in ("cuda", "cuda.bindings"):  # other packages have their modules in `cuda` too
        oracle(name, "cuda-bindings", "pip install cuda-bindings")
    return importlib.import_module(NAME)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_fake_has_the_functions_of_the_real_one(name: str, real: Any) -> None:
    """Parameters and results, which its text lists, agree but for two names of CUDA 12."""
    function = getattr(real, name)
    ours = list(inspect.signature(getattr(Bindings(), name)).parameters)
    theirs = [p.replace("useFlags", "flags") for p in inspect.signature(function).parameters]
    assert ours == theirs
    returns = function.__doc__.partition("Returns\n")[2].partition("See Also")[0]
    listed = re.findall(r"^(\w+)(?: : |$)", returns.replace("remaining", "remainder"), re.MULTILINE)
    assert listed == ["CUresult", *RESULTS[name]]


RESULTS = {
    "cuInit": [],
    "cuDeviceGet": ["device"],
    "cuDeviceGetDevResource": ["resource"],
    "cuDevSmResourceSplitByCount": ["result", "nbGroups", "remainder"],
    "cuDevResourceGenerateDesc": ["phDesc"],
    "cuGreenCtxCreate": ["phCtx"],
    "cuGreenCtxStreamCreate": ["phStream"],
    "cuStreamDestroy": [],
    "cuGreenCtxDestroy": [],
}
"""What each returns after its status, in the order that the driver reads."""


@pytest.mark.parametrize(
    "name", ["CUresult", "CUdevResourceType", "CUgreenCtxCreate_flags", "CUstream_flags"]
)
def test_the_fake_has_the_numbers_of_the_real_one(name: str, real: Any) -> None:
    for member in getattr(fake_bindings, name):
        assert getattr(getattr(real, name), member.name) == member.value


def test_the_real_resources_are_read_alike(real: Any) -> None:
    assert real.CUdevResource().sm.smCount == 0
    assert int(real.CUstream(48)) == 48
