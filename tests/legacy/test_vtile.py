"""`vtile` against its definition: reshape, map over the tiles, reshape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard.legacy import vtile
from tests.share import some

MATRIX = np.arange(24.0).reshape(4, 6)


def defined(
    f: Callable[..., Any], into: int, out: int, tiles: int | None, x: Any, other: Any
) -> Any:
    """Return what NumPy makes of the tiles of one of two arguments."""
    parts = np.split(x, x.shape[into] if tiles is None else tiles, into)
    return np.concatenate([f(part, other) for part in parts], out)


BODIES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x * 2 + y,
    lambda x, y: x[::-1] - x.sum(),
    lambda x, y: x.cumsum(-1),
    lambda x, y: x.T + y,
    lambda x, y: x[..., None] * y,
]


def test_tiles_are_mapped_and_joined() -> None:
    with testing.runtime(host_devices=4):
        mesh = gs.make_mesh((4,), ("x",))
        for seed in range(some(40, 300)):
            rng = np.random.default_rng(seed)
            value = rng.random((4, 12))
            into = int(rng.integers(-2, 2))
            size = value.shape[into]
            tiles = rng.choice(np.array([n for n in range(1, size + 1) if size % n == 0])).item()
            tiles = tiles if rng.random() < 0.8 else None
            body = BODIES[int(rng.integers(len(BODIES)))]
            ndim = body(value, 1.0).ndim
            out = int(rng.integers(-ndim, ndim))
            spec = gs.P("x") if rng.random() < 0.5 else gs.P(None, "x")
            x = gs.device_put(value, gs.NamedSharding(mesh, spec))
            made = vtile(body, (into, None), out, tiles)(x, 2.0)
            want = defined(body, into, out, tiles, value, 2.0)
            np.testing.assert_allclose(np.asarray(made), want, err_msg=str(seed))


def test_trees_names_and_what_does_not_differ() -> None:
    def body(t: dict[str, Any], *, z: Any) -> Any:
        return {"a": t["a"] + z.sum(), "b": gs.lax.psum(t["a"].sum(), "t"), "c": t["b"]}

    f = vtile(body, ({"a": 1, "b": None},), {"a": 0, "b": None, "c": None}, 2, "t")
    made = f({"a": MATRIX, "b": 3.0}, z=MATRIX)
    one, two = (MATRIX[:, :3] + MATRIX[:2].sum(), MATRIX[:, 3:] + MATRIX[2:].sum())
    np.testing.assert_allclose(np.asarray(made["a"]), np.concatenate([one, two]))
    assert float(made["b"]) == MATRIX.sum() and float(made["c"]) == 3
    whole = vtile(lambda x: gs.lax.psum(x, "t"), 0, 0, 1, "t")(MATRIX)
    np.testing.assert_array_equal(np.asarray(whole), MATRIX)
    sums = vtile(lambda x: x.sum(axis=0, keepdims=True), tile_size=2)(MATRIX)
    np.testing.assert_allclose(np.asarray(sums), [MATRIX[:2].sum(axis=0), MATRIX[2:].sum(axis=0)])
    inside = gs.vmap(vtile(lambda x: x[::-1], 0, 0, 2))(MATRIX)
    np.testing.assert_array_equal(np.asarray(inside), MATRIX[:, [2, 1, 0, 5, 4, 3]])


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "none": (lambda: vtile(abs, None, None)(MATRIX), ValueError, "no argument is cut"),
    "ragged": (
        lambda: vtile(abs, 1, 0, 4)(MATRIX),
        ValueError,
        r"axis 1 of argument .* has 6 elements, which do not come in 4 tiles",
    ),
    "other first": (
        lambda: vtile(lambda x, y: x, (0, 1), 0)(MATRIX, MATRIX),
        ValueError,
        "axis 1 of argument y .* has 6 elements, which do not come in 4 tiles",
    ),
    "zero": (lambda: vtile(abs, tile_size=0), ValueError, "tile_size=0 must be a positive"),
    "type": (lambda: vtile(abs, tile_size=2.0), TypeError, "tile_size=2.0 must be"),
    "bool": (lambda: vtile(abs, tile_size=True), TypeError, "tile_size=True must be"),
    "axis": (lambda: vtile(abs, 2)(MATRIX), ValueError, "in_axes=2 is out of range"),
    "out": (
        lambda: vtile(lambda x: x, 0, 2)(MATRIX),
        ValueError,
        "out_axes=2 is out of range",
    ),
    "varies": (lambda: vtile(lambda x: x, 0, None)(MATRIX), ValueError, "out_axes=None"),
    "function": (lambda: vtile(3), TypeError, "f=3 must be a function"),
    "prefix": (lambda: vtile(lambda x: x, (0, 0))(MATRIX), ValueError, "in_axes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with testing.runtime(host_devices=4), pytest.raises(builtin, match=message) as caught:
        call()
    assert isinstance(caught.value, gs.errors.GpushardError)
