"""Choose the GPUs to use, and the number of devices into which each is divided. Pure."""

from __future__ import annotations

from gpushard._frozen import dataclass
from gpushard.config import Settings, check_partition_count
from gpushard.errors import ConfigurationError


@dataclass(frozen=True)
class SelectedGpu:
    """A GPU that is used."""

    ordinal: int  # CUDA's number of this GPU in this process
    partitions: int  # number of devices into which it is divided


def select(settings: Settings, gpus: int) -> tuple[SelectedGpu, ...]:
    """Select the GPUs that the settings name, in their order; pure.

    Raises:
      ConfigurationError: a GPU does not exist, or `partitions` lacks a number for one.

    >>> for gpu in select(Settings(gpus=(2, 0), partitions=(4, 1)), gpus=3):
    ...     print(gpu)
    SelectedGpu(ordinal=2, partitions=4)
    SelectedGpu(ordinal=0, partitions=1)
    """
    ordinals = tuple(range(gpus)) if settings.gpus is None else settings.gpus
    missing = [ordinal for ordinal in ordinals if ordinal >= gpus]
    if missing:
        raise ConfigurationError(
            f"gpus={settings.gpus!r} names GPU {missing[0]}, but CUDA shows {gpus} to this process "
            f"(0 to {gpus - 1}); name those, or see what CUDA_VISIBLE_DEVICES hides",
            argument="gpus",
            value=settings.gpus,
            gpus=gpus,
        )
    partitions = settings.partitions
    if isinstance(partitions, int):
        partitions = (partitions,) * len(ordinals)
    check_partition_count(partitions, len(ordinals))
    return tuple(map(SelectedGpu, ordinals, partitions))
