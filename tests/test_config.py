"""Settings: from the environment, from `configure()`, and in runtimes of their own."""

import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard.config import Settings, parse_bytes
from gpushard.errors import ConfigurationError
from gpushard.runtime import current
from gpushard.testing import runtime


def test_defaults() -> None:
    assert dataclasses.asdict(Settings()) == {
        "backend": None,
        "host_devices": 8,
        "host_domains": 1,
        "host_workers": None,
        "memory_limit": None,
        "inline_bytes": 1 << 20,
        "small_bytes": 64 << 10,
        "queue_limit": 1024,
        "plan_cache_bytes": 64 << 20,
        "relay_bytes": 2 << 20,
        "check": False,
        "enable_checks": False,
    }
    assert Settings.from_environment({}) == Settings()


VARIABLES: list[tuple[str, str, str, Any]] = [
    ("GPUSHARD_BACKEND", "backend", "host", "host"),
    ("GPUSHARD_HOST_DEVICES", "host_devices", "4", 4),
    ("GPUSHARD_HOST_DOMAINS", "host_domains", " 2 ", 2),
    ("GPUSHARD_HOST_WORKERS", "host_workers", "3", 3),
    ("GPUSHARD_MEMORY_LIMIT", "memory_limit", "2G", 2 << 30),
    ("GPUSHARD_RELAY_BYTES", "relay_bytes", "4M", 4 << 20),
    ("GPUSHARD_ENABLE_CHECKS", "enable_checks", "yes", True),
]


@pytest.mark.parametrize(("variable", "name", "text", "value"), VARIABLES)
def test_every_variable_is_one_setting(variable: str, name: str, text: str, value: Any) -> None:
    expected = dataclasses.replace(Settings(), **{name: value})
    assert Settings.from_environment({variable: text, "HOME": "/"}) == expected
    assert Settings.from_environment({variable: ""}) == Settings()
    assert Settings.from_environment({variable: "  "}) == Settings()


@pytest.mark.parametrize("text", ["1", "true", "Yes", "ON"])
def test_flags_that_are_set(text: str) -> None:
    assert Settings.from_environment({"GPUSHARD_ENABLE_CHECKS": text}).enable_checks
    assert not Settings.from_environment({"GPUSHARD_ENABLE_CHECKS": "0"}).enable_checks
    for off in ("false", "No", "OFF"):
        assert not Settings.from_environment({"GPUSHARD_ENABLE_CHECKS": off}).enable_checks


@given(st.integers(0, 1 << 20), st.sampled_from(["", "K", "M", "G", "T"]), st.data())
def test_sizes(number: int, unit: str, data: st.DataObject) -> None:
    suffix = data.draw(st.sampled_from(["", "B", "iB", "b", "ib"]))
    space = data.draw(st.sampled_from(["", " ", "  "]))
    text = f"{space}{number}{space}{unit}{suffix}{space}"
    assert parse_bytes(text) == number * 1024 ** " KMGT".index(unit or " ")
    assert parse_bytes(text.lower()) == parse_bytes(text)


@pytest.mark.parametrize("text", ["", "G", "1.5G", "2 gigs", "1KK", "0x10", "one"])
def test_texts_that_are_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"invalid literal"):
        parse_bytes(text)


WRONG: list[tuple[str, Any, int]] = [
    ("host_devices", 0, 1),
    ("host_devices", 2.0, 1),
    ("host_devices", "4", 1),
    ("host_devices", None, 1),
    ("host_domains", -1, 1),
    ("host_domains", None, 1),
    ("host_workers", 0, 1),
    ("memory_limit", -1, 0),
    ("memory_limit", "2G", 0),
    ("inline_bytes", -1, 0),
    ("inline_bytes", None, 0),
    ("small_bytes", True, 0),
    ("plan_cache_bytes", -5, 0),
    ("plan_cache_bytes", None, 0),
    ("relay_bytes", -1, 0),
    ("relay_bytes", None, 0),
]


@pytest.mark.parametrize(("name", "value", "least"), WRONG)
def test_wrong_values_are_named(name: str, value: Any, least: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(**{name: value})
    assert f"{name}={value!r} must be an integer of at least {least}" in str(caught.value)
    assert (caught.value.argument, caught.value.value) == (name, value)


def test_settings_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().host_devices = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    "settings",
    [
        {"host_devices": 3},
        {"host_devices": 6, "host_domains": 3},
        {"memory_limit": 1000},
        {"host_devices": 1},
    ],
)
def test_a_runtime_has_its_settings(settings: dict[str, int]) -> None:
    with runtime(**settings) as made:
        assert current.settings() is made.settings
        assert made.settings == Settings(**settings)
        assert gs.device_count() == settings.get("host_devices", 8)
        domains = {device.memory_domain for device in gs.devices()}
        assert len(domains) == settings.get("host_domains", 1)
        limits = {device.memory_stats()["bytes_limit"] for device in gs.devices()}
        assert limits == {settings.get("memory_limit")}


def test_enable_checks_rechecks_what_the_library_makes() -> None:
    for checks in (False, True):
        with runtime(enable_checks=checks):
            x = gs.device_put([1.0], gs.devices()[0])[0]
            buffer = dataclasses.replace(x._live(), values=[])
            if checks:
                with pytest.raises((AssertionError, ValueError)):
                    gs.Array(buffer, x.sharding)
            else:
                assert gs.Array(buffer, x.sharding).shape == ()


def configured(program: str, **environment: str) -> Any:
    """Run a program in a fresh interpreter and return what it prints, as JSON."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUSHARD_")}
    done = subprocess.run(
        [sys.executable, "-c", f"import json, gpushard as gs\n{program}"],
        env=clean | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_configure_comes_before_the_first_use() -> None:
    program = """
first = gs.configure(host_devices=4)
second = gs.configure(memory_limit=1 << 20)
try:
    gs.configure(host_domains=3)
    refused = None
except gs.errors.ConfigurationError as error:
    refused = error.argument
third = gs.configure()
count = gs.device_count()
try:
    gs.configure(host_devices=2)
    late = None
except gs.errors.ConfigurationError as error:
    late = str(error)
limit = gs.devices()[0].memory_stats()["bytes_limit"]
print(json.dumps([first.host_devices, second.host_devices, refused, third == second, count, late,
                  limit, gs.device_count()]))
"""
    first, second, refused, same, count, late, limit, after = configured(program)
    assert (first, second, refused, same) == (4, 4, "host_domains", True)
    assert (count, limit, after) == (4, 1 << 20, 4)
    assert "before the first array" in late


def test_configure_overrides_the_environment() -> None:
    program = """
gs.configure(host_domains=3)
print(json.dumps([gs.device_count(), len({d.memory_domain for d in gs.devices()})]))
"""
    environment = {"GPUSHARD_HOST_DEVICES": "6", "GPUSHARD_HOST_DOMAINS": "2"}
    assert configured(program, **environment) == [6, 3]
    plain = "print(json.dumps([gs.device_count(), len({d.memory_domain for d in gs.devices()})]))"
    assert configured(plain, **environment) == [6, 2]


@pytest.mark.parametrize("call", ["gs.devices()", "gs.device_put(1)", "gs.make_mesh((2,), 'x')"])
def test_any_use_ends_configuration(call: str) -> None:
    program = f"""
{call}
try:
    gs.configure(host_devices=2)
    print("null")
except gs.errors.ConfigurationError as error:
    print(json.dumps(error.argument))
"""
    assert configured(program) == "host_devices"
