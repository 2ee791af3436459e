"""Read and change settings, by the names of gpushard and of `jax.config`.

Settings come from environment variables such as `GPUSHARD_HOST_DEVICES`, which are read once, and
from `configure()`. No other module reads the environment.

>>> Settings.from_environment({"GPUSHARD_HOST_DEVICES": "4"}).host_devices
4
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpushard import _options as options
from gpushard._options import read as read
from gpushard._options import update as update
from gpushard.errors import ConfigurationError

BACKENDS = ("host", "cuda")
PARTITION_MODES = ("stream", "green")
NCCL_MODES = ("auto", "always", "never")
MOST_PARTITIONS = 64
"""The most partitions of one GPU."""

_CHOICES = {"backend": BACKENDS, "partition_mode": PARTITION_MODES, "nccl": NCCL_MODES}
_FLAGS = ("separate_domains", "check", "enable_checks", "parallel_functions_output_gda")
_LEAST = {
    "host_devices": 1,
    "host_domains": 1,
    "host_workers": 1,
    "blas_threads": 0,
    "memory_limit": 0,
    "inline_bytes": 0,
    "small_bytes": 0,
    "queue_limit": 1,
    "engine_bytes": 0,
    "pinned_bytes": 64,
    "plan_cache_bytes": 0,
    "relay_bytes": 0,
    "large_move_bytes": 0,
    "slab_bytes": 1 << 20,
}
_MAY_BE_NONE = ("host_workers", "blas_threads", "memory_limit")

_SHARED = 64
"""`shared_bytes` in multiples of `inline_bytes`. Above it, hand-offs to all devices take less than
a tenth of the time."""

_LIGHT = 8
"""`light_bytes` in multiples of `inline_bytes`. A thread writes that many bytes in the time that it
takes to wake a worker, and then the waiting caller.
"""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclasses.dataclass(frozen=True)
class Settings:
    """All settings, as immutable fields; `configure` changes them."""

    backend: str | None = None
    """The backend, "host" or "cuda"; None means CUDA if there are a driver and a GPU, else the
    host.
    """

    gpus: tuple[int, ...] | None = None
    """The GPUs to use, as CUDA numbers them, in this order; None means all."""

    partitions: int | tuple[int, ...] = 1
    """The number of parts of each GPU, each of which is a device; a tuple has a number per GPU in
    use.
    """

    partition_mode: str = "stream"
    """What a part of a GPU has for itself: "stream" means a stream and a memory quota, "green" also
    a share of the multiprocessors.
    """

    separate_domains: bool = False
    """Whether each part of a GPU counts as a memory domain of its own; for tests."""

    pinned_bytes: int = 256 << 20
    """The most bytes of page-locked host memory per GPU, for copies from and to the host."""

    slab_bytes: int = 256 << 20
    """gpushard allocates device memory from the driver in pieces of at least this many bytes."""

    host_devices: int = 8
    """The number of virtual devices of the host backend."""

    host_domains: int = 1
    """The number of memory domains of the host devices; devices of one domain share memory."""

    host_workers: int | None = None
    """The number of worker threads of the host backend; None means one per core, at least two."""

    blas_threads: int | None = None
    """On the host backend, the threads of each call to NumPy's linear algebra when several calls
    run at once. None divides the number that the library uses by the number of calls; 0 leaves the
    library's number unchanged.
    """

    memory_limit: int | None = None
    """The memory quota of each device in bytes; None means no limit."""

    inline_bytes: int = 1 << 20
    """On the host backend, work that touches at most this many bytes runs in the calling thread.
    For work on several devices, see `shared_bytes`.
    """

    small_bytes: int = 64 << 10
    """On the host backend, memory of shards with fewer bytes than this is not cached for new
    arrays.
    """

    queue_limit: int = 1024
    """The most work items that wait in the queue of a stream; a call that submits more waits."""

    engine_bytes: int = 1 << 20
    """Copy engines move dense boxes of at least this many bytes between GPUs, or between a GPU and
    page-locked memory. Kernels move smaller boxes and boxes with strides. 0 uses kernels for
    all."""

    nccl: str = "auto"
    """Which pairs of GPUs use NCCL, if it is installed: "auto" means those that cannot reach each
    other's memory, "always" all, "never" none."""

    cuda_graphs: bool = True
    """Whether consecutive kernels of a traced function run on a GPU as one CUDA graph."""

    plan_cache_bytes: int = 64 << 20
    """The most bytes that cached plans of array movements take in host memory."""

    relay_bytes: int = 2 << 20
    """The bytes that a memory domain can receive during the latency of one work item. If many
    domains need the same data, plans use this number to decide whether a receiver passes the data
    on to others. 0 means always, if that spreads the load.
    """

    large_move_bytes: int = 64 << 20
    """`gather_guard` watches for operations that move more bytes than this because the shardings of
    their operands disagree."""

    compiler: str = "cc"
    """The command of the C compiler for kernels of traced functions on the host. If it is "" or
    does not exist, kernels call NumPy's functions on tiles of the arrays. If it fails, gpushard
    logs that.
    """

    check: bool = False
    """Whether to watch every use of memory, and raise `RaceError` if two uses are not ordered;
    slow.
    """

    enable_checks: bool = False
    """Whether to check arrays that gpushard builds internally like arrays that you build."""

    parallel_functions_output_gda: bool = False
    """Whether `pjit` returns `GlobalDeviceArray`s."""

    def __post_init__(self) -> None:
        """Reject invalid values, naming the setting and the fix."""
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices and not (name == "backend" and value is None):
                known = ", ".join(choices)
                raise ConfigurationError.refusing(name, value, f"is unknown; use one of {known}")
        for name in _FLAGS:
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise ConfigurationError.refusing(name, value, "must be True or False")
        _check_gpus(self.gpus)
        _check_partitions(self.partitions, self.gpus)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            needed = value is not None or name not in _MAY_BE_NONE
            if needed and not _is_integer(value, least):
                why = f"must be an integer of at least {least}"
                raise ConfigurationError.refusing(name, value, why)
        if self.host_devices % self.host_domains:
            why = (
                f"does not divide host_devices={self.host_devices}; every domain needs the same "
                "number of devices"
            )
            raise ConfigurationError.refusing("host_domains", self.host_domains, why)

    @property
    def shared_bytes(self) -> int:
        """Up to this number of bytes, host work for several devices runs in the calling thread.

        Idle workers help the calling thread. So this takes one hand-off between threads or none,
        instead of one per device.
        """
        return _SHARED * self.inline_bytes

    @property
    def light_bytes(self) -> int:
        """Up to this number of bytes, host work that only writes runs in the calling thread.

        For work of a single device; `shared_bytes` is for several.
        """
        return _LIGHT * self.inline_bytes

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings from environment variables.

        Args:
          environment: a mapping from names to values of variables; by default those of this
            process.

        Returns:
          The settings. A setting without a variable has its default.

        Raises:
          ConfigurationError: a variable cannot be read, or its value is invalid.
        """
        fields: dict[str, Any] = {}
        for variable, (name, parse) in _VARIABLES.items():
            text = environment.get(variable, "").strip()
            if text:
                try:
                    fields[name] = parse(text)
                except ValueError:
                    why = f"{variable}={text!r} cannot be read; give {_EXPECTS[parse]}"
                    raise ConfigurationError(why, argument=variable, value=text) from None
        return cls(**fields)


def cache_home(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder for caches from `XDG_CACHE_HOME`; None if it is not set.

    Args:
      environment: a mapping from names to values of variables; by default those of this process.
    """
    return environment.get("XDG_CACHE_HOME") or None


def is_colorless(environment: Mapping[str, str] = os.environ) -> bool:
    """Test whether the user has turned colours off, or the terminal has none.

    Args:
      environment: a mapping from names to values of variables; by default those of this process.

    >>> is_colorless({"NO_COLOR": "1"}), is_colorless({"TERM": "xterm-256color"})
    (True, False)
    """
    return bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"


def parse_bytes(text: str) -> int:
    """Convert a text such as `"512M"` to a number of bytes.

    Args:
      text: digits and an optional K, M, G or T (powers of 1024), with or without "B" or "iB".

    >>> parse_bytes("2G"), parse_bytes("64 KiB")
    (2147483648, 65536)
    """
    digits = text.strip().upper().removesuffix("B").removesuffix("I")
    unit = digits[-1:] if digits[-1:] in _UNITS else ""
    return int(digits.removesuffix(unit)) * _UNITS[unit]


def _parse_flag(text: str) -> bool:
    """Read 1/true/yes/on or 0/false/no/off."""
    lowered = text.lower()
    if lowered in ("1", "true", "yes", "on"):
        return True
    if lowered in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def _parse_integers(text: str) -> tuple[int, ...]:
    """Read integers separated by commas.

    >>> _parse_integers("0, 2")
    (0, 2)
    """
    return tuple(int(part) for part in text.split(","))


def _parse_partitions(text: str) -> int | tuple[int, ...]:
    """Read one integer for all GPUs, or integers separated by commas.

    >>> _parse_partitions("4"), _parse_partitions("2,1")
    (4, (2, 1))
    """
    return _parse_integers(text) if "," in text else int(text)


def _is_integer(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _check_gpus(gpus: object) -> None:
    if gpus is None:
        return
    if not isinstance(gpus, tuple) or not gpus or not all(_is_integer(gpu, 0) for gpu in gpus):
        why = (
            "must be a tuple of at least one integer of at least 0, such as (0, 2), or None for "
            "all GPUs"
        )
        raise ConfigurationError.refusing("gpus", gpus, why)
    if len(set(gpus)) < len(gpus):
        why = "names a GPU more than once; name each once, and divide it with partitions"
        raise ConfigurationError.refusing("gpus", gpus, why)


def _check_partitions(partitions: object, gpus: tuple[int, ...] | None) -> None:
    counts = partitions if isinstance(partitions, tuple) else (partitions,)
    if not counts or not all(_is_integer(n, 1) and n <= MOST_PARTITIONS for n in counts):
        why = (
            f"must be an integer from 1 to {MOST_PARTITIONS}, or a tuple with such an integer for "
            "each GPU, such as (2, 1)"
        )
        raise ConfigurationError.refusing("partitions", partitions, why)
    if gpus is not None and isinstance(partitions, tuple):
        check_partition_count(partitions, len(gpus))


def check_partition_count(partitions: tuple[int, ...], gpus: int) -> None:
    """Check that a tuple of partitions has a number for each GPU in use."""
    if len(partitions) != gpus:
        raise ConfigurationError(
            f"partitions={partitions!r} has {len(partitions)} numbers for {gpus} GPUs; give one "
            "for each GPU used, or one integer for all",
            argument="partitions",
            value=partitions,
            gpus=gpus,
        )


_EXPECTS: dict[Any, str] = {
    int: "an integer",
    str: "a name",
    parse_bytes: "a number of bytes such as 512M or 2G",
    _parse_flag: "0 or 1",
    _parse_integers: "integers separated by commas, such as 0,2",
    _parse_partitions: "an integer, or one for each GPU separated by commas, such as 2,1",
}

_VARIABLES: dict[str, tuple[str, Any]] = {
    "GPUSHARD_BACKEND": ("backend", str),
    "GPUSHARD_GPUS": ("gpus", _parse_integers),
    "GPUSHARD_PARTITIONS": ("partitions", _parse_partitions),
    "GPUSHARD_PARTITION_MODE": ("partition_mode", str),
    "GPUSHARD_SEPARATE_DOMAINS": ("separate_domains", _parse_flag),
    "GPUSHARD_PINNED_BYTES": ("pinned_bytes", parse_bytes),
    "GPUSHARD_SLAB_BYTES": ("slab_bytes", parse_bytes),
    "GPUSHARD_HOST_DEVICES": ("host_devices", int),
    "GPUSHARD_HOST_DOMAINS": ("host_domains", int),
    "GPUSHARD_HOST_WORKERS": ("host_workers", int),
    "GPUSHARD_BLAS_THREADS": ("blas_threads", int),
    "GPUSHARD_MEMORY_LIMIT": ("memory_limit", parse_bytes),
    "GPUSHARD_ENGINE_BYTES": ("engine_bytes", parse_bytes),
    "GPUSHARD_NCCL": ("nccl", str),
    "GPUSHARD_CUDA_GRAPHS": ("cuda_graphs", _parse_flag),
    "GPUSHARD_RELAY_BYTES": ("relay_bytes", parse_bytes),
    "GPUSHARD_LARGE_MOVE_BYTES": ("large_move_bytes", parse_bytes),
    "GPUSHARD_CHECK": ("check", _parse_flag),
    "GPUSHARD_ENABLE_CHECKS": ("enable_checks", _parse_flag),
    "JAX_PARALLEL_FUNCTIONS_OUTPUT_GDA": ("parallel_functions_output_gda", _parse_flag),
    "GPUSHARD_PARALLEL_FUNCTIONS_OUTPUT_GDA": ("parallel_functions_output_gda", _parse_flag),
}

if not TYPE_CHECKING:  # a type checker would take it for a module that has every name

    def __getattr__(name: str) -> Any:
        """Return the value of a setting by its name in JAX, or all of them."""
        if name == "values":
            return options.values()
        if name.startswith("jax_"):
            return options.read(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
