"""Comparing functions of `gpushard.numpy` with NumPy's of the same name."""

import tracemalloc
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import GpushardError

LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[Any, ...]]] = {
    "even": ((8, 6), ("x", "y")),
    "uneven": ((5, 3), ("y", "x")),
    "joined": ((7, 2), (("x", "y"),)),
    "replicated": ((4, 3), ()),
    "empty": ((0, 3), ("x", "y")),
    "cube": ((3, 4, 2), ("y", None, "x")),
}
"""Shapes, and specs on a mesh of four by two."""


def value(shape: tuple[int, ...], dtype: Any, seed: str = "") -> np.ndarray:
    """Return numbers of mixed sign, zeros and repeated ones among them."""
    rng = np.random.default_rng(zlib.crc32(f"{shape}{dtype}{seed}".encode()))
    kind = np.dtype(dtype).kind
    small = rng.integers(0 if kind in "ub" else -3, 4, shape)
    if kind in "fc":
        found = small * 0.75 + rng.integers(-1, 2, shape) * (0.5j if kind == "c" else 0.25)
        return np.asarray(found).astype(dtype)
    return np.asarray(small).astype(dtype)


def memory_of(function: Callable[..., Any], *arguments: Any, **named: Any) -> int:
    """Return the most bytes of memory that NumPy takes in a second call of a function."""
    function(*arguments, **named)
    tracemalloc.start()
    try:
        function(*arguments, **named)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def put(data: np.ndarray, *entries: Any) -> gs.Array:
    """Place data on a mesh of four by two."""
    array: gs.Array = gs.device_put(
        data, gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))
    )
    return array


def placed(layout: str, dtype: Any = np.float64, seed: str = "") -> tuple[np.ndarray, gs.Array]:
    """Return data and the same as an array."""
    shape, entries = LAYOUTS[layout]
    data = value(shape, dtype, seed)
    return data, put(data, *entries)


def same(found: Any, expected: Any, *, exact: bool = True) -> None:
    """Check that a result is an array of the value, shape and dtype that NumPy gives."""
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other, exact=exact)
        return
    assert isinstance(found, gs.Array), type(found)
    wanted = np.asarray(expected)
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    if exact or wanted.dtype.kind in "biu":
        np.testing.assert_array_equal(np.asarray(found), wanted)
    else:
        eps = 16 * float(np.finfo(wanted.dtype).eps)
        least = eps
        if gs.default_backend() == "gpu" and wanted.size:  # where convolutions are transformed
            least *= np.abs(np.nan_to_num(wanted, posinf=1, neginf=1)).max(initial=1)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=eps, atol=least)


def agree(ours: Callable[[], Any], theirs: Callable[[], Any], *, exact: bool = True) -> None:
    """Check that two calls give the same, or that both refuse."""
    try:
        with np.errstate(all="ignore"):
            expected = theirs()
    except (TypeError, ValueError, IndexError) as error:
        kind = TypeError if isinstance(error, TypeError) else (ValueError, TypeError, IndexError)
        with pytest.raises(kind) as caught:
            ours()
        assert isinstance(caught.value, GpushardError)
        return
    same(ours(), expected, exact=exact)
