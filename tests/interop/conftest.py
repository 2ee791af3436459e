"""Runtimes and random arrays for the tests of this folder."""

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
    "queued": {"small_bytes": 0, "inline_bytes": 0, "enable_checks": True},
    "eight-domains-checked": {
        "host_domains": 8,
        "small_bytes": 0,
        "inline_bytes": 0,
        "check": True,
    },
}

MESHES = [(1,), (8,), (3,), (4, 2)]

DTYPES = [np.dtype(code) for code in "?bhilBHILefdFD"]


@pytest.fixture(scope="module")
def backend() -> dict[str, Any]:
    """Where tests run; modules that are about memory of the host have their own."""
    return {}


@pytest.fixture(scope="module", params=SETTINGS.values(), ids=SETTINGS)
def rt(request: pytest.FixtureRequest, backend: dict[str, Any]) -> Iterator[Runtime]:
    """A runtime of eight devices; the last one finds races."""
    with runtime(**request.param, **backend) as made:
        yield made
        assert not getattr(made.backend, "races", None)


@dataclasses.dataclass(frozen=True)
class Case:
    """A value and where to put it, whatever runtime is the current one."""

    mesh_shape: tuple[int, ...]
    entries: tuple[Any, ...]
    value: np.ndarray

    @property
    def sharding(self) -> gs.NamedSharding:
        mesh = gs.make_mesh(self.mesh_shape, tuple("xy"[: len(self.mesh_shape)]))
        return gs.NamedSharding(mesh, gs.P(*self.entries))

    def put(self) -> gs.Array:
        array: gs.Array = gs.device_put(self.value, self.sharding)
        return array


@st.composite
def _cases(draw: st.DrawFn) -> Case:
    mesh_shape = draw(st.sampled_from(MESHES))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 5, 8]), max_size=3)))
    groups: list[list[str]] = [[] for _ in shape]
    for axis in draw(st.permutations("xy"[: len(mesh_shape)])):
        dim = draw(st.integers(0, len(shape)))
        if dim < len(shape):
            groups[dim].append(axis)
    return Case(mesh_shape, tuple(map(tuple, groups)), _value(draw, shape))


def _value(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    """Any bits at all, NaNs included; they have to come back as they were."""
    dtype = draw(st.sampled_from(DTYPES))
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    size = int(np.prod(shape))
    return np.frombuffer(rng.bytes(size * dtype.itemsize), dtype).reshape(shape)


@st.composite
def _views(draw: st.DrawFn) -> np.ndarray:
    """A value that may start anywhere, be strided, transposed, reversed or read-only."""
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 4, 6]), max_size=3)))
    padded = tuple(2 * n + 2 for n in shape)
    root = _value(draw, padded)
    whole = np.array(root)
    index: list[slice] = []
    for n in shape:
        start, step = draw(st.sampled_from([(0, 1), (1, 1), (0, 2), (2, 1), (n, -1)]))
        stop = start + n * step
        index.append(slice(start, None if stop < 0 else stop, step))
    view = whole[tuple(index)] if shape else whole
    view = view[tuple(slice(n) for n in shape)] if shape else view
    if draw(st.booleans()):
        view = view.T
    elif draw(st.booleans()):
        view = np.ascontiguousarray(view)
    view.flags.writeable = draw(st.booleans())
    return view


@pytest.fixture(scope="session")
def cases() -> st.SearchStrategy[Case]:
    """Values of any dtype and shape, uneven, empty and 0-d ones too, with a sharding."""
    return _cases()


@pytest.fixture(scope="session")
def views() -> st.SearchStrategy[np.ndarray]:
    """NumPy arrays of any dtype, strides and alignment."""
    return _views()
