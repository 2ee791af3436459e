"""Divide the multiprocessors of a GPU among partitions, and explain why it cannot be done. Pure.

The multiprocessors of a partition must lie together. So CUDA rounds their number up, by how much
depends on the GPU, and some are left over. This module knows no rules of architectures: it asks
CUDA for splits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from gpushard._frozen import dataclass
from gpushard._runtime.cuda.devices.probe import version_text
from gpushard.errors import ConfigurationError

LEAST_DRIVER = 12040  # the first driver with green contexts, for CUDA 12.4


@dataclass(frozen=True)
class Partition:
    """A set of multiprocessors of a GPU, disjoint from the others of its split."""

    multiprocessors: int  # number of multiprocessors
    resource: Any = None  # CUDA's own description of them


Split: TypeAlias = Callable[[int, int], Sequence[Partition]]
"""Asks CUDA for a split of a GPU: split(most, least) returns at most `most` partitions of at least
`least` multiprocessors each; fewer, or none, if CUDA cannot make that many."""


def equal_groups(gpu: int, multiprocessors: int, parts: int, split: Split) -> Sequence[Partition]:
    """Split a GPU into equal partitions that are as large as possible; pure but for `split`.

    Raises:
      ConfigurationError: CUDA does not make that many partitions of this GPU.

    >>> def eights(most, least):
    ...     size = -(-least // 8) * 8
    ...     return [Partition(size)] * min(most, 132 // size)
    >>> [partition.multiprocessors for partition in equal_groups(0, 132, 3, eights)]
    [40, 40, 40]
    """
    for least in range(multiprocessors // parts, 0, -1):
        groups = split(parts, least)
        if len(groups) >= parts:
            return groups
    smallest = split(multiprocessors, 1)
    raise too_few(gpu, multiprocessors, parts, smallest)


def too_few(
    gpu: int, multiprocessors: int, parts: int, smallest: Sequence[Partition]
) -> ConfigurationError:
    """Make the error that a GPU cannot be divided into so many partitions.

    `smallest` are the partitions that CUDA makes if they may be as small as possible.
    """
    most = len(smallest)
    least = min((group.multiprocessors for group in smallest), default=None)
    groups = "group" if most == 1 else "groups"
    limit = f"CUDA makes at most {most} {groups}, of at least {least}, of them" if most else ""
    lost = "; those of a group have to lie together, which leaves some over"
    fits = f"use partitions={most} or fewer for it, or " if most > 1 else "use "
    return ConfigurationError(
        f"partition_mode='green' cannot divide GPU {gpu} into {parts} partitions: it has "
        f"{multiprocessors} multiprocessors, and {limit or 'CUDA makes no groups of them'}"
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
    """Check that a driver has green contexts; `version` is its CUDA version, such as 12040.

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
    """Return the extra of this package that installs the library of green contexts.

    >>> extra(12090), extra(13020)
    ('green12', 'green13')
    """
    return "green12" if runtime < 13000 else "green13"


def no_library(runtime: int, problem: str) -> ConfigurationError:
    """Make the error that the library of green contexts cannot be used."""
    return ConfigurationError(
        f"partition_mode='green' needs cuda-bindings, which {problem}; CuPy is built with CUDA "
        f"{version_text(runtime)}, so get it with pip install 'gpushard[{extra(runtime)}]', or use "
        "partition_mode='stream'",
        argument="partition_mode",
        value="green",
        extra=extra(runtime),
    )


def refused(gpu: int, problem: str) -> ConfigurationError:
    """Make the error that CUDA refuses to make a green context."""
    return ConfigurationError(
        f"partition_mode='green' cannot be used on GPU {gpu}: {problem}; use "
        "partition_mode='stream'",
        argument="partition_mode",
        value="green",
        gpu=gpu,
    )
