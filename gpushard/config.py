"""Settings: read once, from the environment or from `configure()`; what `jax.config` has.

No other module reads the environment.

>>> Settings.from_environment({"GPUSHARD_HOST_DEVICES": "4"}).host_devices
4
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gpushard import options
from gpushard.errors import ConfigurationError
from gpushard.options import read as read
from gpushard.options import update as update

BACKENDS = ("host", "cuda")
PARTITION_MODES = ("stream", "green")
NCCL_MODES = ("auto", "always", "never")
MOST_PARTITIONS = 64
"""Of one GPU."""

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
"""How many times as many bytes as `inline_bytes` the caller works on with others. Above, hand-offs
to all devices take less than a tenth of the time."""

_LIGHT = 8
"""How many times as many bytes as `inline_bytes` a thread writes in the time that it takes to wake
a worker, and then the caller who waits for it."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


@dataclasses.dataclass(frozen=True)
class Settings:
    """Everything that can be set, with its default."""

    backend: str | None = None
    """Which backend to use: "host" or "cuda"; None takes CUDA where there is a driver and a GPU,
    and the host elsewhere."""

    gpus: tuple[int, ...] | None = None
    """Which GPUs to use, by CUDA's numbers, in this order; None means all."""

    partitions: int | tuple[int, ...] = 1
    """Into how many devices each GPU is divided; a tuple has a number for each GPU used."""

    partition_mode: str = "stream"
    """What a part of a GPU is: "stream" has a stream and a quota of its own, "green" also has
    multiprocessors of its own."""

    separate_domains: bool = False
    """Let the parts of one GPU pose as separate memory domains, for tests."""

    pinned_bytes: int = 256 << 20
    """Most pinned host memory, for each GPU, that copies from and to the host go through."""

    slab_bytes: int = 256 << 20
    """Device memory is taken from the driver in slabs of at least this many bytes."""

    host_devices: int = 8
    """How many virtual devices the host backend has."""

    host_domains: int = 1
    """Into how many memory domains they are divided; devices of one domain share memory."""

    host_workers: int | None = None
    """Worker threads of the host backend; None means one per core, at least two."""

    blas_threads: int | None = None
    """How many threads each call of NumPy's linear algebra may use where the host backend makes
    several at once; None divides the library's own number by the calls, 0 leaves it as it is."""

    memory_limit: int | None = None
    """Quota of each device in bytes; None means no limit."""

    inline_bytes: int = 1 << 20
    """Host work that touches fewer bytes than this runs in the caller; see `shared_bytes`."""

    small_bytes: int = 64 << 10
    """Host shards smaller than this are not pooled."""

    queue_limit: int = 1024
    """How many items a stream queues; who submits more waits."""

    engine_bytes: int = 1 << 20
    """A dense box of at least this many bytes goes between GPUs, or between a GPU and page-locked
    memory, by a copy engine; smaller ones, and boxes with strides, by a kernel. 0 uses kernels for
    all."""

    nccl: str = "auto"
    """Between which GPUs data goes through NCCL, where that is installed: "auto" between those that
    do not reach each other's memory, "always" between all, "never" between none."""

    cuda_graphs: bool = True
    """Replay kernels of traced functions that follow one another on a GPU as one CUDA graph."""

    plan_cache_bytes: int = 64 << 20
    """How many bytes of movement plans are kept for reuse."""

    relay_bytes: int = 2 << 20
    """Bytes that a domain could receive in the time that one more item of work takes; relays are
    planned by it. 0 relays whatever that spreads the load better."""

    large_move_bytes: int = 64 << 20
    """An operation that moves more bytes than this because the shardings of its operands disagree
    is what `gather_guard` watches for."""

    compiler: str = "cc"
    """The C compiler for kernels of traced functions on the host; they are NumPy's functions, in
    tiles, where it is empty, or there is none of that name. A compiler that fails is logged."""

    check: bool = False
    """Watch every use of memory and raise `RaceError` where two are not ordered; slow."""

    enable_checks: bool = False
    """Check arrays that are built inside the library as if a user had built them."""

    parallel_functions_output_gda: bool = False
    """Let `pjit` give its results as `GlobalDeviceArray`s."""

    def __post_init__(self) -> None:
        """Reject values that make no sense, naming the setting and the fix."""
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
        """Host work for several devices that touches fewer bytes runs in the caller, too.

        Idle workers help, so that it takes one hand-off or none, and not one for each device.
        """
        return _SHARED * self.inline_bytes

    @property
    def light_bytes(self) -> int:
        """Host work for one device that only writes fewer bytes runs in the caller, too."""
        return _LIGHT * self.inline_bytes

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Settings:
        """Read the settings that the environment names.

        Args:
          environment: variables by name; the process's own by default.

        Returns:
          Settings; what the environment does not name keeps its default.

        Raises:
          ConfigurationError: a variable cannot be read, or its value makes no sense.
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
    """Return the folder that the user has chosen for caches; None for the usual one.

    Args:
      environment: variables by name; the process's own by default.
    """
    return environment.get("XDG_CACHE_HOME") or None


def is_colorless(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether a user wants no colours on terminals, or the terminal has none.

    Args:
      environment: variables by name; the process's own by default.

    >>> is_colorless({"NO_COLOR": "1"}), is_colorless({"TERM": "xterm-256color"})
    (True, False)
    """
    return bool(environment.get("NO_COLOR")) or environment.get("TERM") == "dumb"


def parse_bytes(text: str) -> int:
    """Read a number of bytes such as `"512M"`.

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
    """Read integers between commas.

    >>> _parse_integers("0, 2")
    (0, 2)
    """
    return tuple(int(part) for part in text.split(","))


def _parse_partitions(text: str) -> int | tuple[int, ...]:
    """Read one integer for all, or integers between commas.

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
    """Check that there is a number of partitions for each of the GPUs used."""
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
    _parse_integers: "integers between commas, such as 0,2",
    _parse_partitions: "an integer, or one for each GPU between commas, such as 2,1",
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
