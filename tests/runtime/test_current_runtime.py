"""Which backend is chosen, and that it is the one that runs."""

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.cuda.devices.probe import Availability
from gpushard._runtime.host.backend import HostBackend
from gpushard.config import BACKENDS, Settings
from gpushard.errors import ConfigurationError, ReentrantCallError
from gpushard.testing import runtime
from tests.runtime.cuda import fakes

NO_CUDA = Availability(False, "no GPU today; buy one", None, None, None, 0)
CUDA = Availability(True, "2 GPUs, as new", "14.2.0", 13000, 13020, 2)


@given(st.none() | st.sampled_from(BACKENDS), st.booleans())
def test_a_backend_that_is_named_is_used_or_refused(backend: str | None, usable: bool) -> None:
    settings = Settings(backend=backend)
    look = lambda: CUDA if usable else NO_CUDA  # noqa: E731
    if (backend, usable) == ("cuda", False):
        with pytest.raises(ConfigurationError, match=r"no GPU today; buy one$") as caught:
            choose_backend.choose(settings, look)
        facts = (caught.value.argument, caught.value.value, caught.value.reason)
        assert facts == ("backend", "cuda", NO_CUDA.reason)
        return
    choice = choose_backend.choose(settings, look)
    assert choice.name == (backend or ("cuda" if usable else "host"))
    assert (f"backend={backend!r} is set" in choice.reason) == (backend is not None)
    if backend != "host":
        assert (CUDA if usable else NO_CUDA).reason in choice.reason


def test_who_names_the_host_asks_nothing_of_cuda() -> None:
    def look() -> Availability:
        raise AssertionError("looked for CUDA")

    assert choose_backend.choose(Settings(backend="host"), look).name == "host"


@pytest.mark.parametrize("backend", [None, "cuda"])
@pytest.mark.parametrize(
    ("settings", "argument"),
    [({"gpus": (1, 2)}, "gpus"), ({"partitions": (1, 1, 1)}, "partitions")],
)
def test_gpus_that_are_not_there_are_refused_before_the_backend_is_loaded(
    backend: str | None, settings: dict, argument: str
) -> None:
    with pytest.raises(ConfigurationError, match="2") as caught:
        choose_backend.choose(Settings(backend=backend, **settings), lambda: CUDA)
    assert caught.value.argument == argument
    assert choose_backend.choose(Settings(**settings), lambda: NO_CUDA).name == "host"


@pytest.mark.parametrize("backend", [None, "cuda"])
@pytest.mark.parametrize("check", [False, True])
def test_the_cuda_backend_is_made_where_it_is_chosen(
    backend: str | None, check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fakes.install(monkeypatch)
    with runtime(backend=backend, gpus=(0, 2), partitions=(2, 1), check=check) as made:
        assert (made.backend.name, gs.default_backend()) == ("cuda", "gpu")
        places = [(d.local_hardware_id, d.partition, d.memory_domain) for d in gs.devices("gpu")]
        assert places == [(0, 0, 0), (0, 1, 0), (1, 0, 1)]
        mesh = gs.make_mesh((3,), "x")
        x = gs.device_put(np.arange(7), gs.NamedSharding(mesh, gs.P("x")))
        assert np.array_equal(gs.reshard(x, gs.P()), np.arange(7))


def test_a_mesh_that_is_too_large_names_the_setting_of_the_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fakes.install(monkeypatch)
    for backend, setting in (("cuda", "with GPUSHARD_PARTITIONS$"), ("host", "HOST_DEVICES=99$")):
        with runtime(backend=backend), pytest.raises(gs.errors.MeshError, match=setting):
            gs.make_mesh((99,), "x")


def test_the_host_is_used_where_cuda_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    with runtime(backend="host") as made:
        assert made.backend.name == "host"
    monkeypatch.setitem(sys.modules, "cupy", fakes.cupy(fakes.CUDARuntimeError(100)))
    with runtime(backend=None) as made:
        assert made.backend.name == "host"
    with pytest.raises(ConfigurationError, match="no GPU is visible"):
        choose_backend.make_runtime(Settings(backend="cuda"))


def test_runtimes_for_tests_are_on_the_host_unless_told(monkeypatch: pytest.MonkeyPatch) -> None:
    fakes.install(monkeypatch)
    with runtime() as made:
        assert made.backend.name == "host"


def test_nothing_of_the_backend_is_loaded_before_it_is_chosen() -> None:
    program = (
        "import sys, gpushard as gs, gpushard.testing, gpushard._cli.main\n"
        "gs.configure(backend='host'); gs.devices()\n"
        "print(*{'cupy', 'pynvml', 'gpushard._runtime.cuda.backend'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=Path(__file__).parents[2],
    )
    assert (done.stdout, done.stderr) == ("\n", "")


def test_a_choice_is_a_value() -> None:
    choice = choose_backend.choose(Settings(), lambda: CUDA)
    assert dataclasses.asdict(choice) == {"name": "cuda", "reason": "2 GPUs, as new"}


def test_a_runtime_that_cannot_be_watched_closes_its_backend(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watched: list[Any] = []

    def refuse(made: Any, backend: Any) -> None:
        watched.append(backend)
        raise MemoryError("no room")

    closed: list[Any] = []
    monkeypatch.setattr(choose_backend.forks, "watch", refuse)
    monkeypatch.setattr(HostBackend, "close", lambda backend: closed.append(backend))
    with pytest.raises(MemoryError, match="no room"):
        choose_backend.make_runtime(Settings(backend="host"))
    monkeypatch.undo()
    assert len(watched) == 1 and closed == watched
    watched[0].close()


def test_devices_are_not_asked_for_while_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = [None, None, "a runtime"]

    def make(settings: Settings) -> Any:
        return made.pop(0) or current_runtime.current()  # as a signal handler does

    monkeypatch.setattr(current_runtime, "make_runtime", make)
    before = current_runtime.swap(None)
    try:
        for _ in range(2):  # one that failed stands in nobody's way
            with pytest.raises(ReentrantCallError, match=r"call gpushard\.devices\(\) before"):
                current_runtime.current()
        assert current_runtime.current() == current_runtime.current() == "a runtime"
    finally:
        current_runtime.swap(before)
