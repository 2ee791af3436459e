"""How the multiprocessors of a GPU are divided among its partitions, and what keeps from it. Pure.

CUDA makes groups of multiprocessors that lie together, so that their number is rounded up, by how
much depends on the GPU, and some are left over. Nothing here knows the rules of an architecture:
CUDA is asked what it would make.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gpushard.errors import ConfigurationError
from gpushard.frozen import dataclass
from gpushard.runtime.cuda.devices.probe import version_text

LEAST_DRIVER = 12040  # the first driver that has green contexts, that of CUDA 12.4


@dataclass(frozen=True)
class Group:
    """Multiprocessors of a GPU that no other group of the same split has."""

    multiprocessors: int  # how many
    resource: Any = None  # CUDA's own description of them


Split: TypeAlias = Callable[[int, int], Sequence[Group]]
"""What CUDA makes of a GPU: split(most, least) returns at most `most` groups of at least `least`
multiprocessors each, fewer or none where it cannot."""


def equal_groups(gpu: int, multiprocessors: int, parts: int, split: Split) -> Sequence[Group]:
    """Return a group for each part of a GPU, as large as they can all be; pure but for `split`.

    Raises:
      ConfigurationError: CUDA does not make that many groups of it.

    >>> def eights(most, least):
    ...     size = -(-least // 8) * 8
    ...     return [Group(size)] * min(most, 132 // size)
    >>> equal_groups(0, 132, 3, eights)
    [Group(multiprocessors=40, ...), Group(multiprocessors=40, ...), Group(multiprocessors=40, ...)]
    """
    for least in range(multiprocessors // parts, 0, -1):
        groups = split(parts, least)
        if len(groups) >= parts:
            return groups
    smallest = split(multiprocessors, 1)
    raise too_few(gpu, multiprocessors, parts, smallest)


def too_few(
    gpu: int, multiprocessors: int, parts: int, smallest: Sequence[Group]
) -> ConfigurationError:
    """Return the error that a GPU has fewer groups than it is to have parts.

    `smallest` are all that CUDA makes of it where they may be as small as they can.
    """
    most = len(smallest)
    least = min((group.multiprocessors for group in smallest), default=None)
    groups = "group" if most == 1 else "groups"
    made = f"CUDA makes at most {most} {groups}, of at least {least}, of them" if most else ""
    lost = "; those of a group have to lie together, which leaves some over"
    fits = f"use partitions={most} or fewer for it, or " if most > 1 else "use "
    return ConfigurationError(
        f"partition_mode='green' cannot divide GPU {gpu} into {parts} partitions: it has "
        f"{multiprocessors} multiprocessors, and {made or 'CUDA makes no groups of them'}"
        f"{lost if least and parts * least <= multiprocessors else ''}; {fits}"
        "partition_mode='stream'",
        argument="partitions",
        value=parts,
        gpu=gpu,
        multiprocessors=multiprocessors,
        least=least,
        most=most,
    )


def check_driver(version: int) -> None:
    """Check that a driver, of a CUDA version such as 12040, has green contexts.

    Raises:
      ConfigurationError: it is too old.
    """
    if version < LEAST_DRIVER:
        raise ConfigurationError(
            "partition_mode='green' needs a driver for CUDA "
            f"{version_text(LEAST_DRIVER)} or newer, and this one is for CUDA "
            f"{version_text(version)}; update the NVIDIA driver, or use partition_mode='stream'",
            argument="partition_mode",
            value="green",
            driver=version,
        )


def extra(runtime: int) -> str:
    """Return the extra of this package with the library that green contexts need.

    >>> extra(12090), extra(13020)
    ('green12', 'green13')
    """
    return "green12" if runtime < 13000 else "green13"


def no_library(runtime: int, problem: str) -> ConfigurationError:
    """Return the error that the library that green contexts need cannot be used."""
    return ConfigurationError(
        f"partition_mode='green' needs cuda-bindings, which {problem}; CuPy is built with CUDA "
        f"{version_text(runtime)}, so get it with pip install 'gpushard[{extra(runtime)}]', or use "
        "partition_mode='stream'",
        argument="partition_mode",
        value="green",
        extra=extra(runtime),
    )


def refused(gpu: int, problem: str) -> ConfigurationError:
    """Return the error that CUDA makes no green context."""
    return ConfigurationError(
        f"partition_mode='green' cannot be used on GPU {gpu}: {problem}; use "
        "partition_mode='stream'",
        argument="partition_mode",
        value="green",
        gpu=gpu,
    )
