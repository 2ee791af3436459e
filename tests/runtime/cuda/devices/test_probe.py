"""Whether CUDA can be used, over all that a machine can be short of."""

import dataclasses
import importlib.util
import operator
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.devices.probe import CUPY_PACKAGES, Availability, probe, version_text
from gpushard._runtime.cuda.driver.cupy_private import lacking
from gpushard._runtime.cuda.driver.libraries import Libraries, one_line
from tests.runtime.cuda.fakes import STATUSES, CUDARuntimeError, cupy, libraries

WHEEL = {"cupy-cuda13x": "14.2.0"}

CASES: dict[str, tuple[Libraries, Availability, tuple[str, ...]]] = {
    "no CuPy": (
        libraries(),
        Availability(False, "", None, None, None, 0),
        ("CuPy is not installed", "pip install 'gpushard[cuda13]'", "'gpushard[cuda12]'"),
    ),
    "two wheels": (
        libraries(WHEEL | {"cupy-cuda12x": "14.1.0"}, cupy=cupy()),
        Availability(False, "", None, None, None, 0),
        (
            "cupy-cuda13x and cupy-cuda12x are both installed",
            "pip uninstall cupy-cuda13x cupy-cuda12x",
            "gpushard[cuda13]",
        ),
    ),
    "a wheel and a build": (
        libraries({"cupy-cuda12x": "14.2.0", "cupy": "13.0.0"}, cupy=cupy()),
        Availability(False, "", None, None, None, 0),
        ("cupy-cuda12x and cupy are both installed", "pip uninstall cupy-cuda12x cupy"),
    ),
    "broken CuPy": (
        libraries(WHEEL, cupy=ImportError("libnvrtc.so.13:\n cannot open shared object file")),
        Availability(False, "", "14.2.0", None, None, 0),
        (
            "does not import",
            "ImportError: libnvrtc.so.13: cannot open shared object file",
            "--force-reinstall cupy-cuda13x",
        ),
    ),
    "CuPy uninstalled in part": (
        libraries(WHEEL),
        Availability(False, "", "14.2.0", None, None, 0),
        ("No module named 'cupy'", "--force-reinstall cupy-cuda13x"),
    ),
    "CuPy without what it needs": (
        libraries(cupy=ModuleNotFoundError("No module named 'numpy'", name="numpy")),
        Availability(False, "", None, None, None, 0),
        ("does not import", "No module named 'numpy'", "--force-reinstall cupy"),
    ),
    "something else called cupy": (
        libraries(WHEEL, cupy=object()),
        Availability(False, "", "14.2.0", None, None, 0),
        ("does not import", "AttributeError", "--force-reinstall cupy-cuda13x"),
    ),
    "no driver": (
        libraries(WHEEL, cupy=cupy(CUDARuntimeError(35), driver=0)),
        Availability(False, "", "14.2.0", None, 13020, 0),
        ("no NVIDIA driver", "nvidia-smi"),
    ),
    "old driver": (
        libraries(WHEEL, cupy=cupy(CUDARuntimeError(35), driver=12040)),
        Availability(False, "", "14.2.0", 12040, 13020, 0),
        ("driver is for CUDA 12.4", "CUDA 13.2 of CuPy 14.2.0", "update", "gpushard[cuda12]"),
    ),
    "no GPU": (
        libraries(WHEEL, cupy=cupy(CUDARuntimeError(100))),
        Availability(False, "", "14.2.0", 13000, 13020, 0),
        ("no GPU is visible", "nvidia-smi", "CUDA_VISIBLE_DEVICES"),
    ),
    "hidden GPUs": (
        libraries(WHEEL, cupy=cupy(0)),
        Availability(False, "", "14.2.0", 13000, 13020, 0),
        ("no GPU is visible", "nvidia-smi", "CUDA_VISIBLE_DEVICES"),
    ),
    "forked child": (
        libraries(WHEEL, cupy=cupy(CUDARuntimeError(3))),
        Availability(False, "", "14.2.0", 13000, 13020, 0),
        ("cudaErrorInitializationError", "forked", "spawn"),
    ),
    "another error of CUDA": (
        libraries(WHEEL, cupy=cupy(CUDARuntimeError(802))),
        Availability(False, "", "14.2.0", 13000, 13020, 0),
        ("cudaErrorSystemNotReady: system not yet initialized", "nvidia-smi"),
    ),
    "an error without a number": (
        libraries(WHEEL, cupy=cupy(driver=OSError("libcuda.so.1 is empty"))),
        Availability(False, "", "14.2.0", None, 13020, 0),
        ("OSError: libcuda.so.1 is empty", "nvidia-smi"),
    ),
    "no NVRTC": (
        libraries(WHEEL, cupy=cupy(compiler=RuntimeError('Failure finding "libnvrtc.so"'))),
        Availability(False, "", "14.2.0", 13000, 13020, 0),
        ('"libnvrtc.so"', "NVRTC", "CUDA 13.2", "pip install 'cupy-cuda13x[ctk]'", "CUDA_PATH"),
    ),
    "no headers": (
        libraries(cupy=cupy(2, runtime=12090, headers=RuntimeError("Failed to find CUDA headers"))),
        Availability(False, "", "14.2.0", 13000, 12090, 0),
        ("Failed to find CUDA headers", "CUDA 12.9", "pip install 'cupy-cuda12x[ctk]'"),
    ),
    "a CuPy without a private name": (
        libraries(WHEEL, cupy=cupy(version="15.0.0", lacks="create_ufunc")),
        Availability(False, "", "15.0.0", None, None, 0),
        ("CuPy 15.0.0 has no cupy._core.create_ufunc", "install", "14.2.0"),
    ),
    "a CuPy without a name that is optional": (
        libraries(WHEEL, cupy=cupy(lacks="multiply")),
        Availability(True, "", "14.2.0", 13000, 13020, 1),
        ("1 GPU,",),
    ),
    "one GPU": (
        libraries(WHEEL, cupy=cupy(1)),
        Availability(True, "", "14.2.0", 13000, 13020, 1),
        ("1 GPU,", "CuPy 14.2.0", "CUDA 13.2", "driver for CUDA 13.0"),
    ),
    "GPUs with a CuPy of no known package": (
        libraries(cupy=cupy(8, driver=12080, runtime=12090, version="15.0.0")),
        Availability(True, "", "15.0.0", 12080, 12090, 8),
        ("8 GPUs", "CuPy 15.0.0", "CUDA 12.9", "driver for CUDA 12.8"),
    ),
}


@pytest.mark.parametrize(("there", "expected", "words"), CASES.values(), ids=CASES)
def test_the_answer_names_cause_and_way_out(
    there: Libraries, expected: Availability, words: tuple[str, ...]
) -> None:
    found = probe(there)
    assert dataclasses.replace(found, reason="") == expected
    assert [word for word in words if word not in found.reason] == []
    assert "\n" not in found.reason


def test_what_has_compiled_need_not_compile_again() -> None:
    calls: list[Any] = []
    there = cupy()
    there.cuda.compiler.compile_using_nvrtc = lambda *given, **_: calls.append(given[0])
    for _ in range(3):
        assert probe(libraries(WHEEL, cupy=there)).usable
    assert len(calls) == 1
    assert not probe(libraries(WHEEL, cupy=cupy(compiler=RuntimeError("no NVRTC")))).usable


packages = st.dictionaries(st.sampled_from(CUPY_PACKAGES), st.just("1.0"))
statuses = st.sampled_from(sorted(STATUSES)).map(CUDARuntimeError)
anything = statuses | st.sampled_from([ValueError("x"), OSError(), AttributeError("y" * 1000)])


@given(
    packages,
    st.integers(0, 16) | anything,
    st.sampled_from([0, 12040, 13020]) | anything,
    st.none() | anything,
)
def test_it_never_raises_and_usable_means_a_gpu(
    wheels: dict[str, str], gpus: Any, driver: Any, compiler: Any
) -> None:
    found = probe(libraries(wheels, cupy=cupy(gpus, driver=driver, compiler=compiler)))
    answered = isinstance(gpus, int) and isinstance(driver, int) and compiler is None
    assert found.usable == (len(wheels) < 2 and answered and gpus > 0)
    assert found.gpus == (gpus if found.usable else 0)
    assert 10 < len(found.reason) < 600


@given(packages, anything)
def test_an_import_may_raise_anything(wheels: dict[str, str], error: Exception) -> None:
    found = probe(libraries(wheels, cupy=error))
    assert (found.usable, found.driver, found.runtime, found.gpus) == (False, None, None, 0)
    assert len(wheels) > 1 or type(error).__name__ in found.reason


@given(st.integers(1, 99), st.integers(0, 99))
def test_versions_are_written_as_cuda_does(major: int, minor: int) -> None:
    assert version_text(major * 1000 + minor * 10) == f"{major}.{minor}"


def test_this_process_is_answered() -> None:
    """With or without CuPy, driver and GPU."""
    found = probe()
    assert found.usable == (found.gpus > 0)
    assert found.reason
    if importlib.util.find_spec("cupy") is None:
        assert (found.cupy, found.reason.partition(";")[0]) == (None, "CuPy is not installed")


@pytest.mark.parametrize("status", STATUSES)
def test_the_real_cupy_raises_what_the_fake_does(
    status: int, oracle: Callable[[str, str, str], ModuleType]
) -> None:
    real = oracle("cupy", "CuPy", "pip install cupy-cuda13x")
    with warnings.catch_warnings(action="ignore"):
        error = real.cuda.runtime.CUDARuntimeError(status)
    fake = CUDARuntimeError(status)
    assert (error.status, str(error)) == (fake.status, str(fake))
    for part in ("cuda.runtime", "cuda.compiler"):
        for name in vars(operator.attrgetter(part)(cupy())):
            assert callable(operator.attrgetter(f"{part}.{name}")(real))
    assert not lacking(real)


@pytest.mark.parametrize("length", [299, 300, 301, 400])
def test_long_messages_are_cut(length: int) -> None:
    text = f"{'x' * length}"[len("ValueError: ") :]
    found = one_line(ValueError(text))
    whole = f"ValueError: {text}"
    assert found == (whole if length <= 300 else f"{whole[:297]}...") and len(found) <= 300
    assert one_line(ValueError()) == "ValueError"
