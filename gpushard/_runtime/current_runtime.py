"""The runtime that module-level functions use."""

from __future__ import annotations

import atexit
import copyreg
import dataclasses
import functools
import threading
from typing import Any

from gpushard._cache import hold_while_forking
from gpushard._options import offer
from gpushard._runtime.choose_backend import choose, make_runtime
from gpushard._runtime.runtime import Device, Runtime
from gpushard.config import Settings
from gpushard.errors import ConfigurationError, DeserializationError, ReentrantCallError

_LATER = {"enable_checks", "parallel_functions_output_gda"}
"""Settings that may change while devices are in use."""

_BACKEND_OF = {"": None, "cpu": "host", "gpu": "cuda", "cuda": "cuda"}
"""Backends by JAX's names of platforms."""

_lock = threading.RLock()
hold_while_forking(_lock)
_runtime: Runtime | None = None
_making = False
_settings: Settings | None = None


def current() -> Runtime:
    """Return the runtime of this process; the first call creates it.

    Raises:
      ReentrantCallError: this thread is creating it already.
    """
    global _runtime, _making
    if _runtime is None:
        with _lock:
            if _making:
                raise ReentrantCallError(
                    "a signal handler or a finalizer uses gpushard on the thread that is creating "
                    "its devices; call gpushard.devices() before you install handlers"
                )
            if _runtime is None:
                try:
                    _making = True
                    _runtime = make_runtime(_initial_settings())
                finally:
                    _making = False
    return _runtime


@atexit.register
def _close() -> None:
    """Finish work with outside effects and end the threads; later work runs at once."""
    if _runtime is not None:
        _runtime.close()


def swap(runtime: Runtime | None) -> Runtime | None:
    """Replace the current runtime and return the previous one; for tests and tools."""
    global _runtime
    with _lock:
        before, _runtime = _runtime, runtime
    return before


def _initial_settings() -> Settings:
    """Return the settings before there is a runtime: from the environment and `configure`."""
    global _settings
    if _settings is None:
        _settings = Settings.from_environment()
    return _settings


def settings() -> Settings:
    """Return the current settings."""
    return _runtime.settings if _runtime is not None else _initial_settings()


def configure(**changes: Any) -> Settings:
    """Change settings. Call this before the first array is created and before `devices()`.

    Args:
      **changes: new values of fields of `Settings`, such as `host_devices=4` or `memory_limit=2 <<
        30`. You can change `enable_checks` and `parallel_functions_output_gda` at any time.

    Returns:
      The new settings.

    Raises:
      ConfigurationError: a setting is unknown, its value is invalid, or devices are in use already.
    """
    global _settings
    unknown = sorted(set(changes) - {field.name for field in dataclasses.fields(Settings)})
    if unknown:
        known = ", ".join(field.name for field in dataclasses.fields(Settings))
        raise ConfigurationError(
            f"configure() has no setting {unknown[0]!r}; the settings are {known}",
            argument=unknown[0],
        )
    with _lock:
        if _runtime is not None:
            before = _runtime.settings
            late = [k for k, v in changes.items() if k not in _LATER and v != getattr(before, k)]
            if not late:
                _runtime.settings = dataclasses.replace(before, **changes)
                return _runtime.settings
            raise ConfigurationError(
                "devices are in use already; call configure() before the first array or "
                "gpushard.devices(), or set the environment variables before the start",
                argument=late[0],
            )
        _settings = dataclasses.replace(_initial_settings(), **changes)
        return _settings


def _set_platforms(value: Any) -> None:
    """Choose the backend by JAX's names of platforms: the first known one counts."""
    names = str(value or "").split(",")
    backends = [_BACKEND_OF[name] for name in names if name in _BACKEND_OF]
    if not backends:
        why = "names no platform of gpushard; use 'cpu', 'cuda', or None for the best one here"
        raise ConfigurationError.refusing("platforms", value, why)
    if _runtime is None or backends[0] not in (None, choose(_runtime.settings).name):
        configure(backend=backends[0])


def _set_gpus(value: Any) -> None:
    """Choose GPUs by their numbers, in a string as in JAX: "0,2"."""
    numbers = str(value).split(",")
    if value != "all" and not all(number.strip().isdigit() for number in numbers):
        why = "must be 'all', or integers separated by commas, such as '0,2'"
        raise ConfigurationError.refusing("cuda_visible_devices", value, why)
    configure(gpus=None if value == "all" else tuple(map(int, numbers)))


def _set_host_devices(value: Any) -> None:
    """Set the number of devices of the host backend; -1 means the default."""
    configure(host_devices=Settings().host_devices if value == -1 else value)


def _gpus() -> str:
    gpus = settings().gpus
    return "all" if gpus is None else ",".join(map(str, gpus))


def _platforms() -> str | None:
    """Return the platform of the backend in use, or of the one that settings name."""
    backend = settings().backend if _runtime is None else choose(_runtime.settings).name
    return {"host": "cpu", "cuda": "cuda", None: None}[backend]


for _field in dataclasses.fields(Settings):
    offer(
        _field.name,
        functools.partial(lambda name: getattr(settings(), name), _field.name),
        functools.partial(lambda name, value: configure(**{name: value}), _field.name),
    )
offer("platforms", _platforms, _set_platforms)
offer("platform_name", _platforms, _set_platforms)
offer("cuda_visible_devices", _gpus, _set_gpus)
offer("num_cpu_devices", lambda: settings().host_devices, _set_host_devices)


def find_device(platform: str, id: int) -> Device:
    """Look up a device by platform and id; this is how devices are unpickled.

    Raises:
      DeserializationError: this process has no such device.
    """
    for device in current().devices:
        if device.platform == platform and device.id == id:
            return device
    raise DeserializationError(
        f"the pickle names device {id} of platform {platform!r}; this process has "
        f"{len(current().devices)} of {current().backend.platform!r}. Unpickle with as many "
        "devices, or pickle numpy.asarray(x) instead",
        platform=platform,
        id=id,
    )


def _reduce_device(device: Device) -> tuple[Any, ...]:
    return find_device, (device.platform, device.id)


copyreg.pickle(Device, _reduce_device)
