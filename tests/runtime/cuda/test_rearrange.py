"""Rearrangements by the descriptors that kernels get."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._movement.planning import rearrangements
from gpushard._movement.planning.rearrangements import Rearrangement, reshape
from gpushard._movement.rearrange import rearrange
from tests.movement.strategies import numbers
from tests.runtime.cuda.test_backend import cuda

P = gs.P
SHAPE = (6, 10)
DATA = numbers(SHAPE, "int16")
CASES: dict[str, tuple[Rearrangement, np.ndarray]] = {
    "reshape": (reshape(SHAPE, (4, 15)), DATA.reshape(4, 15)),
    "unshared": (reshape(SHAPE, (15, 4)), DATA.reshape(15, 4)),
    "roll": (rearrangements.roll(SHAPE, (1, 3), (0, 1)), np.roll(DATA, (1, 3), (0, 1))),
    "tile": (rearrangements.tile(SHAPE, (2, 2, 2)), np.tile(DATA, (2, 2, 2))),
    "repeat": (rearrangements.repeat(SHAPE, 3, 1), np.repeat(DATA, 3, 1)),
    "diagonal": (rearrangements.diagonal(SHAPE, 2, 0, 1), np.diagonal(DATA, 2)),
    "stack": (rearrangements.stack((SHAPE, SHAPE), 2), np.stack((DATA, DATA), 2)),
    "pad": (
        rearrangements.pad(SHAPE, ((1, 2), (3, 0))),
        np.pad(DATA, ((1, 2), (3, 0)), constant_values=-9),
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    "machine",
    [
        {"partitions": 4},
        {"partitions": 4, "separate_domains": True},
        {"gpus": 2, "partitions": 2},
        {"gpus": 4, "engine_bytes": 8},
    ],
)
def test_kernels_copy_and_fill_what_numpy_does(machine: dict[str, Any], name: str) -> None:
    how, expected = CASES[name]
    with cuda(**machine):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        for spec in (P("x", "y"), P(("y", "x")), P(None, "y"), P()):
            x = gs.device_put(DATA, gs.NamedSharding(mesh, spec))._live()
            sharding = gs.NamedSharding(mesh, P(*("y", "x")[: len(how.shape)]))
            sources = [x] * len(how.sources)
            result = rearrange(sources, how, sharding.tiling(how.shape), fill=-9)
            assert np.array_equal(np.asarray(gs.Array(result, sharding)), expected)


@pytest.mark.parametrize("kind", ["pinned_host", "unpinned_host"])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_between_kinds_of_memory(name: str, back: bool, kind: str) -> None:
    how, expected = CASES[name]
    with cuda(gpus=2, partitions=2):
        mesh = gs.make_mesh((2, 2), ("x", "y"))
        kinds = (kind, "device") if back else ("device", kind)
        old = gs.NamedSharding(mesh, P("x", "y"), memory_kind=kinds[0])
        new = gs.NamedSharding(mesh, P("y"), memory_kind=kinds[1])
        x = gs.device_put(DATA, old)._live()
        for sharding in (new, new.with_memory_kind(kinds[0])):
            result = rearrange([x] * len(how.sources), how, sharding.tiling(how.shape), fill=-9)
            value = np.asarray(gs.Array(result, sharding))
            assert np.array_equal(value, expected)


@pytest.mark.parametrize(
    "kinds", list(itertools.product(["device", "pinned_host", "unpinned_host"], repeat=2))
)
def test_arrays_of_several_kinds_of_memory_are_joined_by_one_movement(kinds: Any) -> None:
    with cuda(gpus=2, partitions=2):
        mesh = gs.make_mesh((4,), "x")
        sources = [
            gs.device_put(DATA, gs.NamedSharding(mesh, P("x"), memory_kind=k)) for k in kinds
        ]
        made = gs.numpy.concatenate(sources)
        assert made.sharding.memory_kind == (kinds[0] if len(set(kinds)) == 1 else "device")
        assert np.array_equal(np.asarray(made), np.concatenate([DATA, DATA]))
