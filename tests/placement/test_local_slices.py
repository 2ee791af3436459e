"""Which part of a process's data goes where: pure, with devices of two made-up processes."""

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._placement.process_local_data import global_shape_of, local_slices
from gpushard.errors import ShardingError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class FakeDevice:
    """A device of a process; seen from process 0."""

    id: int
    process: int

    @property
    def is_addressable(self) -> bool:
        return self.process == 0


def process_mesh(owners: np.ndarray) -> gs.Mesh:
    fakes = [FakeDevice(i, int(owner)) for i, owner in enumerate(owners.flat)]
    return gs.Mesh(np.array(fakes).reshape(owners.shape), tuple("xy"[: owners.ndim]))


OWNERS = {
    "rows": np.array([[0, 0], [1, 1]]),
    "columns": np.array([[0, 1], [0, 1]]),
    "striped": np.array([0, 1, 0, 1]),
    "one of four": np.array([1, 1, 0, 1]),
    "first three": np.array([[0, 0, 0], [1, 1, 1]]),
    "all": np.array([[0, 0], [0, 0]]),
}


@pytest.mark.parametrize("owners", OWNERS.values(), ids=OWNERS)
@given(data=st.data())
def test_local_data_is_whole_or_packed_in_each_dim(owners: np.ndarray, data: Any) -> None:
    mesh = process_mesh(owners)
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 4, 5, 8, 12]), min_size=2, max_size=2)))
    entries = data.draw(st.permutations([*mesh.axis_names, None, None]))[:2]
    sharding = gs.NamedSharding(mesh, gs.P(*entries))
    value = np.arange(math.prod(shape)).reshape(shape)
    mine = sharding.addressable_devices_indices_map(shape)
    # What this process addresses in each dim, element by element.
    wanted = [
        sorted(set(itertools.chain(*(range(*index[dim].indices(n)) for index in mine.values()))))
        for dim, n in enumerate(shape)
    ]
    for dim in range(2):
        assert gs.num_addressable_indices(sharding, dim, shape) == len(wanted[dim])
    for packed in itertools.product([False, True], repeat=2):
        local = value
        for dim in range(2):
            if packed[dim]:
                local = np.take(local, wanted[dim], axis=dim)
        to_local = local_slices(sharding.tiling(shape), local.shape)
        for index in mine.values():
            assert np.array_equal(local[to_local(index)], value[index])


@pytest.mark.parametrize(
    ("owners", "entries", "local", "match"),
    [
        ("rows", ("x",), (3, 8), r"3 elements along axis 0; give all 8 .*or the 4"),
        ("rows", ("x", "y"), (4, 4), r"4 elements along axis 1; give all 8 .*or the 8"),
        ("columns", (None, "y"), (8, 2), r"2 elements along axis 1; give all 8 .*or the 4"),
        ("striped", ("x",), (4, 8, 1), r"ndim=3, and global_shape=\(8, 8\) has 2"),
    ],
)
def test_local_data_that_fits_neither_rule(
    owners: str, entries: Any, local: Shape, match: str
) -> None:
    tiling = gs.NamedSharding(process_mesh(OWNERS[owners]), gs.P(*entries)).tiling((8, 8))
    with pytest.raises(ShardingError, match=match):
        local_slices(tiling, local)


@pytest.mark.parametrize(
    ("owners", "entries", "times"),
    [
        ("rows", ("x", "y"), (2, 1)),
        ("rows", (None, "x"), (1, 2)),
        ("rows", ("y",), (1, 1)),
        ("columns", (("x", "y"),), (2, 1)),
        ("striped", ("x",), (2, 1)),
        ("one of four", (None, "x"), (1, 4)),
        ("first three", ("x", "y"), (2, 1)),
        ("all", ("x", "y"), (1, 1)),
    ],
)
def test_a_dim_is_as_long_as_its_share_says(owners: str, entries: Any, times: Shape) -> None:
    sharding = gs.NamedSharding(process_mesh(OWNERS[owners]), gs.P(*entries))
    assert global_shape_of(sharding, (12, 24)) == (12 * times[0], 24 * times[1])
