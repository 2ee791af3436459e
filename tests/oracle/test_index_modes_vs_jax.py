"""`x.at[index]` with modes, hints and fill values against JAX's: the same calls on both."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime

UPDATES = ["set", "add", "subtract", "multiply", "divide", "power", "min", "max"]
SPECS = [("x", "y"), ("y", None), (("x", "y"),), (None, ("y", "x")), ()]


@pytest.fixture(autouse=True)
def wide_types(jax: ModuleType) -> Iterator[None]:
    """Run with eight devices here, and 64-bit types in JAX."""
    with runtime(host_domains=2), jax.enable_x64(True):
        yield


def arrays(seed: int, dtype: Any) -> tuple[np.ndarray, gs.Array]:
    rng = np.random.default_rng(seed)
    data = rng.integers(1, 9, (5, 6)).astype(dtype)
    sharding = gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*SPECS[seed % len(SPECS)]))
    return data, gs.device_put(data, sharding)


def indices(seed: int) -> list[tuple[Any, Any]]:
    """Indices for JAX, with positions out of bounds, and the same in other forms for us."""
    rng = np.random.default_rng(seed)
    mesh = gs.make_mesh((4, 2), ("x", "y"))
    at = rng.permutation(np.arange(-9, 12))[:7]
    other = rng.integers(-4, 4, 7)
    there = gs.device_put(at, gs.NamedSharding(mesh, gs.P("x")))
    return [
        (at, at),
        (at, there),
        ((slice(None), at), (slice(None), there)),
        ((at, other), (there, other.astype(np.int8))),
        ((at[:, None], slice(1, 5, 2)), (there[:, None], slice(1, 5, 2))),
    ]


def test_reads(jax: ModuleType) -> None:
    modes = ["fill", "clip", "promise_in_bounds", "drop"]
    for seed, dtype in enumerate(["f4", "i8", "u2", "c16", "?"]):
        data, x = arrays(seed, dtype)
        for number, (theirs, ours) in enumerate(indices(seed)):
            if number % 2 == seed % 2:
                continue
            mode = modes[(seed // 2 + number) % 4]
            fill: Any = 3 if mode == "fill" and number % 3 else None
            expected = jax.numpy.asarray(data).at[theirs].get(mode=mode, fill_value=fill)
            hints: Any = {"indices_are_sorted": False, "unique_indices": False}
            found = x.at[ours].get(mode=mode, fill_value=fill, **hints)
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_updates(jax: ModuleType) -> None:
    modes = ["fill", "clip", "drop", "promise_in_bounds"]
    for seed, name in enumerate(UPDATES):
        dtype = "f8" if seed % 2 == 0 else "i4"  # a quotient of integers is a float in JAX
        data, x = arrays(seed, dtype)
        for number, (theirs, ours) in enumerate(indices(seed)):
            mode = modes[(seed // 2 + number) % 4]
            if number % 2 == seed // 2 % 2:
                continue
            value = np.random.default_rng(seed).integers(1, 3, ()).astype(dtype)
            expected = getattr(jax.numpy.asarray(data).at[theirs], name)(value, mode=mode)
            found = getattr(x.at[ours], name)(value, mode=mode, unique_indices=False)
            assert found.dtype == expected.dtype and found.sharding == x.sharding
            np.testing.assert_allclose(np.asarray(found), np.asarray(expected), 1e-14)


def test_integers_out_of_bounds(jax: ModuleType) -> None:
    data, x = arrays(0, "f8")
    theirs = jax.numpy.asarray(data)
    for at, mode in ((2, "fill"), (-1, "clip"), (7, "fill"), (-9, "clip")):
        expected = theirs.at[at].get(mode=mode)
        np.testing.assert_array_equal(x.at[at].get(mode=mode), expected)
        expected = theirs.at[at, 1:].set(0, mode=mode)
        np.testing.assert_array_equal(x.at[at, 1:].set(0, mode=mode), expected)


def test_nonzero_of_a_known_size(jax: ModuleType) -> None:
    for seed, (size, fill) in enumerate(((0, None), (3, -1), (40, (7, 8)), (12, None))):
        data, x = arrays(seed, "i4")
        expected = jax.numpy.nonzero(data > 4, size=size, fill_value=fill)
        found = gs.numpy.nonzero(x > 4, size=size, fill_value=fill)
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
