"""Runtimes and random sharded arrays for the tests of this folder."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.testing import runtime

SETTINGS: dict[str, dict[str, Any]] = {
    "one-domain": {},
    "two-domains": {"host_domains": 2, "enable_checks": True},
    "eight-domains-queued": {"host_domains": 8, "small_bytes": 0, "inline_bytes": 0},
}

MESHES = [(1,), (8,), (3,), (4, 2), (2, 3), (2, 2, 2)]

DTYPES = [np.dtype(code) for code in "?bhilBHILefdFD"]


@dataclasses.dataclass(frozen=True)
class Case:
    """A value and where to put it, whatever runtime is the current one."""

    mesh_shape: tuple[int, ...]
    entries: tuple[Any, ...]
    value: np.ndarray

    @property
    def sharding(self) -> gs.NamedSharding:
        names = tuple("xyz"[: len(self.mesh_shape)])
        return gs.NamedSharding(gs.make_mesh(self.mesh_shape, names), gs.P(*self.entries))

    def put(self) -> gs.Array:
        array: gs.Array = gs.device_put(self.value, self.sharding)
        return array


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    mesh_shape = draw(st.sampled_from(MESHES))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), max_size=3)))
    groups: list[list[str]] = [[] for _ in shape]
    for axis in draw(st.permutations("xyz"[: len(mesh_shape)])):
        dim = draw(st.integers(0, len(shape)))
        if dim < len(shape):
            groups[dim].append(axis)
    dtype = draw(st.sampled_from(DTYPES))
    return Case(mesh_shape, tuple(map(tuple, groups)), random_value(draw, shape, dtype))


def random_value(draw: st.DrawFn, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Any bits at all, NaNs included; they have to come back as they were."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape))
    return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).reshape(shape)


@pytest.fixture(scope="session")
def cases() -> st.SearchStrategy[Case]:
    """Values of any dtype and shape, uneven, empty and 0-d ones too, with a sharding."""
    return _cases()


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def rt(request: pytest.FixtureRequest) -> Iterator[Runtime]:
    """A runtime of eight devices in one, two or eight memory domains."""
    with runtime(**request.param) as made:
        yield made
