"""`config` against `jax.config`: each of its names is there, and those that work work alike."""

import threading
from types import ModuleType
from typing import Any

import pytest

import gpushard as gs
import gpushard.testing
from gpushard.errors import ConfigurationError, UnknownSettingError


def test_every_name_of_jax_works_or_is_refused_with_what_to_use(jax: ModuleType) -> None:
    unknown = []
    for name, default in jax.config.values.items():
        if not name.startswith("jax_"):
            continue  # of other libraries
        try:
            gs.config.read(name)
        except UnknownSettingError:
            unknown.append(name)
            continue
        before = gs.config.read(name)
        try:
            gs.config.update(name, getattr(default, "value", default))
        except ConfigurationError as error:
            assert "; " in str(error), (name, str(error))
        else:
            gs.config.update(name, before)
    assert unknown == []


def test_a_name_that_there_is_not(jax: ModuleType) -> None:
    for config in (gs.config, jax.config):
        for call in (
            lambda c=config: c.update("jax_nope", 1),
            lambda c=config: c.read("jax_nope"),
            lambda c=config: c.jax_nope,
        ):
            with pytest.raises(AttributeError):
                call()


def placed(module: Any, log: list[Any]) -> None:
    """Note the device of new arrays."""
    log.append([device.id for device in module.numpy.zeros(1).devices()])


def default_devices(module: Any) -> list[Any]:
    log: list[Any] = []
    devices = module.devices()
    try:
        module.config.update("jax_default_device", devices[2])
        placed(module, log)
        thread = threading.Thread(target=placed, args=(module, log))
        thread.start()
        thread.join()
        with module.default_device(devices[1]):
            module.config.update("jax_default_device", devices[3])
            placed(module, log)
            with module.default_device(None):
                placed(module, log)
            with module.default_device("cpu"):
                placed(module, log)
        placed(module, log)
        log.append(module.config.jax_default_device == devices[3])
        module.config.update("jax_default_device", "cpu")
        placed(module, log)
    finally:
        module.config.update("jax_default_device", None)
    for wrong in ("gpu", 3):
        with pytest.raises((RuntimeError, ValueError, TypeError)), module.default_device(wrong):
            module.numpy.zeros(1)
    return log


def test_default_device(jax: ModuleType) -> None:
    with gs.testing.runtime():
        assert default_devices(gs) == default_devices(jax)


def flags(module: Any) -> list[Any]:
    calls: list[int] = []

    @module.jit
    def f(x: Any) -> Any:
        calls.append(1)
        return x

    def count() -> int:
        f(1.0)
        return len(calls)

    log = [count(), count()]
    try:
        module.config.update("jax_disable_jit", True)
        log += [count(), count(), module.config.jax_disable_jit]
        with module.disable_jit(False):
            log.append(count())
    finally:
        module.config.update("jax_disable_jit", False)
    with module.disable_jit():
        log.append(count())
    return [*log, count(), module.config.jax_disable_jit]


def test_disabled_jit(jax: ModuleType) -> None:
    assert flags(gs) == flags(jax)
