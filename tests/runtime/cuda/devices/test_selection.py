"""Which GPUs are used, over all settings that name them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._runtime.cuda.devices.selection import select
from gpushard.config import MOST_PARTITIONS, Settings
from gpushard.errors import ConfigurationError

counts = st.integers(1, MOST_PARTITIONS)


@st.composite
def machines(draw: st.DrawFn) -> tuple[int, tuple[int, ...] | None, int | tuple[int, ...]]:
    """Return the number of GPUs, and `gpus` and `partitions` that fit it."""
    gpus = draw(st.integers(1, 9))
    named = draw(st.none() | st.lists(st.integers(0, gpus - 1), min_size=1, unique=True))
    used = gpus if named is None else len(named)
    weights = st.lists(counts, min_size=used, max_size=used).map(tuple)
    return gpus, None if named is None else tuple(named), draw(counts | weights)


@given(machines())
def test_each_gpu_used_has_its_place_and_its_partitions(machine) -> None:
    gpus, named, partitions = machine
    chosen = select(Settings(gpus=named, partitions=partitions), gpus)
    assert [gpu.ordinal for gpu in chosen] == list(range(gpus) if named is None else named)
    for position, gpu in enumerate(chosen):
        expected = partitions if isinstance(partitions, int) else partitions[position]
        assert gpu.partitions == expected


@given(machines(), st.integers(1, 5))
def test_gpus_that_are_not_there_are_refused(machine, fewer: int) -> None:
    gpus, named, partitions = machine
    if named is not None and max(named) >= gpus - fewer >= 1:
        with pytest.raises(ConfigurationError, match=f"but CUDA shows {gpus - fewer} ") as caught:
            select(Settings(gpus=named, partitions=partitions), gpus - fewer)
        assert (caught.value.argument, caught.value.gpus) == ("gpus", gpus - fewer)
    if named is None and isinstance(partitions, tuple):
        with pytest.raises(ConfigurationError, match=f"for {gpus + fewer} GPUs") as caught:
            select(Settings(partitions=partitions), gpus + fewer)
        assert (caught.value.argument, caught.value.gpus) == ("partitions", gpus + fewer)
