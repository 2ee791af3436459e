"""`config.update` and `config.read`: each name works, or is refused with what to use instead."""

import contextlib
import logging
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import _options as options
from gpushard._runtime import current_runtime
from gpushard.config import Settings
from gpushard.errors import ConfigurationError, UnknownSettingError
from gpushard.testing import runtime


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Give each test a runtime of its own, and options as they were."""
    with runtime():
        yield
    for name in ("disable_jit", "log_compiles"):
        gs.config.update(name, False)
    gs.config.update("transfer_guard", None)
    gs.config.update("default_device", None)


def in_a_thread(function: Any) -> Any:
    results: list[Any] = []
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def new_device() -> int:
    return int(gs.numpy.zeros(1).device.id)


def test_a_default_device_for_all_threads() -> None:
    gs.config.update("jax_default_device", gs.devices()[2])
    assert (new_device(), in_a_thread(new_device)) == (2, 2)
    with gs.default_device(gs.devices()[1]):
        gs.config.update("jax_default_device", gs.devices()[3])
        assert (new_device(), in_a_thread(new_device)) == (1, 3)
        with gs.default_device(None):
            assert new_device() == 0
    assert (new_device(), gs.config.jax_default_device) == (3, gs.devices()[3])
    gs.config.update("jax_default_device", "cpu")
    assert new_device() == 0


def test_jit_is_disabled_and_compiles_are_logged_for_all_threads(
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls: list[int] = []

    @gs.jit
    def f(x: Any) -> Any:
        calls.append(1)
        return x + 1

    f(1.0), f(2.0)
    assert len(calls) == 1
    gs.config.update("jax_disable_jit", True)
    in_a_thread(lambda: f(3.0))
    with gs.disable_jit(False):
        f(4.0)
    assert len(calls) == 2
    gs.config.update("jax_disable_jit", False)
    gs.config.update("jax_log_compiles", True)
    with caplog.at_level(logging.WARNING, "gpushard.jit"):
        in_a_thread(lambda: f(np.ones(3)))
    assert "compiled" in caplog.text


@pytest.mark.parametrize("name", ["transfer_guard", "transfer_guard_device_to_host"])
def test_guards_for_all_threads(name: str) -> None:
    x = gs.device_put(1.0)

    def read() -> Any:
        with contextlib.suppress(gs.errors.TransferGuardError):
            return float(gs.numpy.add(x, 1.0))
        return None

    gs.config.update(f"jax_{name}", "disallow")
    assert gs.config.read(name) == "disallow"
    assert (read(), in_a_thread(read)) == (None, None)
    with gs.transfer_guard("allow"):
        assert read() == 2.0
    gs.config.update(f"jax_{name}", None)
    assert read() == 2.0


def test_settings_have_their_names_and_some_change_while_devices_are_used() -> None:
    gs.numpy.zeros(1)
    for name in ("enable_checks", "jax_parallel_functions_output_gda"):
        gs.config.update(name, True)
        assert gs.config.read(name) is True
        gs.config.update(name, False)
    gs.config.update("host_devices", 8)  # as it is
    gs.config.update("jax_platforms", "cpu")
    gs.config.update("jax_platform_name", "tpu,cpu")
    for name, value in (("jax_num_cpu_devices", 4), ("jax_platforms", "cuda"), ("gpus", (1,))):
        with pytest.raises(ConfigurationError, match="in use already"):
            gs.config.update(name, value)
    assert {name.removeprefix("jax_") for name in gs.config.values} >= set(vars(Settings()))


@pytest.mark.parametrize(
    ("name", "value", "settings"),
    [
        ("jax_cuda_visible_devices", "all", {"gpus": None}),
        ("jax_cuda_visible_devices", "2", {"gpus": (2,)}),
        ("cuda_visible_devices", "3, 0,11", {"gpus": (3, 0, 11)}),
    ],
)
def test_texts_of_jax_are_settings(
    name: str, value: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(current_runtime, "configure", lambda **changes: asked.append(changes))
    gs.config.update(name, value)
    assert asked == [settings]


@pytest.mark.parametrize("name", options._FIXED)
def test_what_cannot_change_is_refused_with_another_way(name: str) -> None:
    accepted, instead = options._FIXED[name]
    gs.config.update(f"jax_{name}", accepted[0])
    for wrong in ("nonsense", None):
        with pytest.raises(ConfigurationError) as caught:
            gs.config.update(f"jax_{name}", wrong)
        assert instead in str(caught.value)
    assert gs.config.read(name) == accepted[0]


def test_what_cannot_change_is_as_this_library_works() -> None:
    fixed = {"enable_x64": True, "random_seed_offset": 0, "default_prng_impl": "threefry2x32"}
    assert {name: gs.config.read(f"jax_{name}") for name in fixed} == fixed


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jax_disable_jit", "x"),
        ("jax_transfer_guard", "nope"),
        ("jax_platforms", "tpu"),
        ("jax_cuda_visible_devices", "first"),
        ("jax_cuda_visible_devices", "0,second"),
        ("jax_enable_checks", "on"),
    ],
)
def test_values_that_make_no_sense(name: str, value: Any) -> None:
    before = gs.config.read(name)
    with pytest.raises(ConfigurationError) as caught:
        gs.config.update(name, value)
    assert repr(value) in str(caught.value)
    assert gs.config.read(name) == before


@pytest.mark.parametrize(("name", "hint"), [("jax_enable_x46", "enable_x64"), (3, "text")])
def test_names_that_there_are_not(name: Any, hint: str) -> None:
    for call in (lambda: gs.config.update(name, 1), lambda: gs.config.read(name)):
        with pytest.raises(UnknownSettingError, match=hint) as caught:
            call()
        assert isinstance(caught.value, AttributeError)
    assert not hasattr(gs.config, "jax_nothing")
    assert not hasattr(gs.config, "nothing")


def test_names_without_effect_are_kept() -> None:
    gs.config.update("jax_compilation_cache_dir", "/tmp/x")
    assert gs.config.jax_compilation_cache_dir == "/tmp/x"
    gs.config.update("jax_compilation_cache_dir", None)


def test_the_version_is_written_once() -> None:
    project = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "gpushard/_version.py"}
    assert all(part.isdigit() for part in gs.__version__.split("."))
