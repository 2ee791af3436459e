"""Settings: from the environment, from `configure()`, and in runtimes of their own."""

import dataclasses
import json
import os
import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime import current_runtime
from gpushard.config import Settings, parse_bytes
from gpushard.errors import ConfigurationError
from gpushard.testing import runtime


def test_defaults() -> None:
    assert dataclasses.asdict(Settings()) == {
        "backend": None,
        "gpus": None,
        "partitions": 1,
        "partition_mode": "stream",
        "separate_domains": False,
        "pinned_bytes": 256 << 20,
        "engine_bytes": 1 << 20,
        "slab_bytes": 256 << 20,
        "host_devices": 8,
        "host_domains": 1,
        "host_workers": None,
        "blas_threads": None,
        "memory_limit": None,
        "inline_bytes": 1 << 20,
        "small_bytes": 64 << 10,
        "queue_limit": 1024,
        "nccl": "auto",
        "cuda_graphs": True,
        "plan_cache_bytes": 64 << 20,
        "relay_bytes": 2 << 20,
        "large_move_bytes": 64 << 20,
        "compiler": "cc",
        "check": False,
        "enable_checks": False,
        "parallel_functions_output_gda": False,
    }
    assert Settings.from_environment({}) == Settings()


VARIABLES: list[tuple[str, str, str, Any]] = [
    ("GPUSHARD_BACKEND", "backend", "host", "host"),
    ("GPUSHARD_BACKEND", "backend", "cuda", "cuda"),
    ("GPUSHARD_GPUS", "gpus", "0, 2", (0, 2)),
    ("GPUSHARD_GPUS", "gpus", "3", (3,)),
    ("GPUSHARD_PARTITIONS", "partitions", "4", 4),
    ("GPUSHARD_PARTITIONS", "partitions", "2,1", (2, 1)),
    ("GPUSHARD_PARTITION_MODE", "partition_mode", "green", "green"),
    ("JAX_PARALLEL_FUNCTIONS_OUTPUT_GDA", "parallel_functions_output_gda", "true", True),
    ("GPUSHARD_PARALLEL_FUNCTIONS_OUTPUT_GDA", "parallel_functions_output_gda", "1", True),
    ("GPUSHARD_SEPARATE_DOMAINS", "separate_domains", "on", True),
    ("GPUSHARD_PINNED_BYTES", "pinned_bytes", "64K", 64 << 10),
    ("GPUSHARD_ENGINE_BYTES", "engine_bytes", "2M", 2 << 20),
    ("GPUSHARD_SLAB_BYTES", "slab_bytes", "1 GiB", 1 << 30),
    ("GPUSHARD_HOST_DEVICES", "host_devices", "4", 4),
    ("GPUSHARD_HOST_DOMAINS", "host_domains", " 2 ", 2),
    ("GPUSHARD_HOST_WORKERS", "host_workers", "3", 3),
    ("GPUSHARD_BLAS_THREADS", "blas_threads", "0", 0),
    ("GPUSHARD_MEMORY_LIMIT", "memory_limit", "2G", 2 << 30),
    ("GPUSHARD_CUDA_GRAPHS", "cuda_graphs", "0", False),
    ("GPUSHARD_NCCL", "nccl", "never", "never"),
    ("GPUSHARD_RELAY_BYTES", "relay_bytes", "4M", 4 << 20),
    ("GPUSHARD_LARGE_MOVE_BYTES", "large_move_bytes", "1G", 1 << 30),
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
    ("blas_threads", -1, 0),
    ("memory_limit", -1, 0),
    ("memory_limit", "2G", 0),
    ("inline_bytes", -1, 0),
    ("inline_bytes", None, 0),
    ("small_bytes", True, 0),
    ("plan_cache_bytes", -5, 0),
    ("plan_cache_bytes", None, 0),
    ("relay_bytes", -1, 0),
    ("relay_bytes", None, 0),
    ("pinned_bytes", 63, 64),
    ("pinned_bytes", None, 64),
    ("slab_bytes", (1 << 20) - 1, 1 << 20),
    ("queue_limit", 0, 1),
    ("engine_bytes", -1, 0),
    ("large_move_bytes", -1, 0),
]


@pytest.mark.parametrize(("name", "value", "least"), WRONG)
def test_wrong_values_are_named(name: str, value: Any, least: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        Settings(**{name: value})
    assert f"{name}={value!r} must be an integer of at least {least}" in str(caught.value)
    assert (caught.value.argument, caught.value.value) == (name, value)


counts = st.integers(1, 64)


@given(st.lists(st.integers(0, 99), min_size=1, unique=True), st.data())
def test_gpus_and_partitions_are_read_as_they_are_written(
    gpus: list[int], data: st.DataObject
) -> None:
    weights = data.draw(st.lists(counts, min_size=len(gpus), max_size=len(gpus)))
    comma = data.draw(st.sampled_from([",", ", ", " ,"]))
    variables = {
        "GPUSHARD_GPUS": comma.join(map(str, gpus)),
        "GPUSHARD_PARTITIONS": comma.join(map(str, weights)),
    }
    partitions = tuple(weights) if len(weights) > 1 else weights[0]
    expected = Settings(gpus=tuple(gpus), partitions=partitions)
    assert Settings.from_environment(variables) == expected


BAD_GPUS = [(), (-1,), (0, 0), (1, 2, 1), [0], 0, "0", (0.0,), (True,), (None,)]
BAD_PARTITIONS = [0, 65, -1, None, "2", 2.0, True, (), (1, 0), (65,), (1, 2.0), [2, 1]]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("gpus", value) for value in BAD_GPUS),
        *(("partitions", value) for value in BAD_PARTITIONS),
        *((name, value) for name in ("separate_domains", "check") for value in (1, "on", None)),
        *(("partition_mode", value) for value in ("mig", "", None, 1)),
        *(("nccl", value) for value in ("sometimes", "", None, True)),
        *(("backend", value) for value in ("", "gpu", 0)),
    ],
)
def test_what_makes_no_sense_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}={re.escape(repr(value))} ") as caught:
        Settings(**{name: value})
    assert (caught.value.argument, caught.value.value) == (name, value)


def test_a_gpu_may_have_64_partitions() -> None:
    assert Settings(partitions=64).partitions == 64
    assert Settings(partitions=(1, 64)).partitions == (1, 64)


@given(st.integers(1, 5), st.integers(1, 5))
def test_a_tuple_of_partitions_has_one_for_each_gpu(gpus: int, partitions: int) -> None:
    values: dict[str, Any] = {"gpus": tuple(range(gpus)), "partitions": (2,) * partitions}
    if gpus == partitions:
        assert dataclasses.asdict(Settings(**values)).items() >= values.items()
        return
    with pytest.raises(ConfigurationError, match=f"{partitions} numbers for {gpus} GPUs"):
        Settings(**values)


@pytest.mark.parametrize("name", ["GPUSHARD_GPUS", "GPUSHARD_PARTITIONS"])
@pytest.mark.parametrize("text", ["all", "0-2", "1;2", ",", "1,", "1.5", "0x1", "1 2"])
def test_texts_that_are_no_list_of_integers(name: str, text: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name}='{text}' cannot be read; give .*,"):
        Settings.from_environment({name: text})


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
        assert current_runtime.settings() is made.settings
        assert made.settings == Settings(backend="host", **settings)
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
    """Run a program in a fresh interpreter, on the host, and return what it prints, as JSON."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GPUSHARD_")}
    clean["GPUSHARD_BACKEND"] = "host"
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
