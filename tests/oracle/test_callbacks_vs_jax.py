"""Callbacks against JAX's: what functions are called with, how often, and what programs get."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime
from tests.share import some

METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


@pytest.fixture(autouse=True)
def eight_devices(jax: ModuleType) -> Iterator[None]:
    with runtime(host_devices=8):
        yield


def counted(calls: list[Any]) -> Counter[Any]:
    """Return calls, to be compared in any order."""
    return Counter(str([(v.shape, str(v.dtype), v.tolist()) for v in call]) for call in calls)


def random_body(
    rng: np.random.Generator, method: str | None
) -> Callable[[Any, list[Any], Any], Callable[..., Any]]:
    """Return what makes a body with callbacks, for any library with JAX's names."""
    steps = rng.permutation(["tap", "print", "pure", "io"])[: rng.integers(1, 5)].tolist()

    def make(lib: Any, calls: list[Any], io_callback: Any) -> Callable[..., Any]:
        def note(*values: Any) -> None:
            calls.append([np.asarray(v) for v in values])

        def f(x: Any, y: Any) -> Any:
            x, y = np.asarray(x), np.asarray(y)
            if method is not None:
                note(x, y)
            return {"a": x + y, "b": x[..., 0] * y[..., 0]}

        def g(x: Any, y: Any) -> Any:
            note(x, y)
            return np.asarray(x) - np.asarray(y)

        def body(x: Any, y: Any) -> Any:
            for step in steps:
                if step == "tap":
                    lib.debug.callback(note, x, y * 2)
                elif step == "print":
                    lib.debug.print("{} {y}", x.sum(), y=y.sum())
                elif step == "pure":
                    shapes = {
                        "a": lib.ShapeDtypeStruct(x.shape, "float32"),
                        "b": lib.ShapeDtypeStruct((), "float32"),
                    }
                    both = lib.pure_callback(f, shapes, x, y, vmap_method=method)
                    x = both["a"] + both["b"]
                else:
                    shape = lib.ShapeDtypeStruct(x.shape, "float32")
                    x = io_callback(g, shape, x, y)
            return x

        return body

    return make


def lines(text: str) -> Counter[str]:
    """Return printed lines, whose numbers may have been rounded along other ways."""
    return Counter(str([round(float(n), 6) for n in line.split()]) for line in text.splitlines())


def test_vmap_of_vmap(jax: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from jax.experimental import io_callback

    for seed in range(some(6, 200)):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 4, 2).tolist()
        levels = [[(0, 0), (0, None), (None, 0)][rng.integers(3)] for _ in sizes]
        arrays = [
            rng.integers(
                0,
                9,
                (*[n for n, own in zip(sizes, levels, strict=True) if own[arg] is not None], 2),
            ).astype(np.float32)
            for arg in (0, 1)
        ]
        make = random_body(rng, METHODS[seed % 4])
        out = []
        for lib, io in ((gs, gs.io_callback), (jax, io_callback)):
            calls: list[Any] = []
            body = make(lib, calls, io)
            f = lib.vmap(lib.vmap(body, levels[1]), levels[0])
            f = lib.jit(f) if seed % 3 == 2 else f
            value = np.asarray(f(*arrays))
            lib.effects_barrier()
            out.append((value, counted(calls), lines(capsys.readouterr().out)))
        (value, calls_, text), (want, want_calls, want_text) = out
        np.testing.assert_allclose(value, want)
        assert calls_ == want_calls, seed
        assert text == want_text, seed


def test_shard_map(jax: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    from jax.experimental import io_callback

    for seed in range(some(6, 100)):
        rng = np.random.default_rng(1000 + seed)
        axes = [(8,), (4, 2), (2, 2)][seed % 3]
        names = ("x", "y")[: len(axes)]
        arrays = [rng.integers(0, 9, (8, 8)).astype(np.float32) for _ in range(2)]
        # Calls of pure callbacks are fewer here, where what they get is the same on devices.
        make = random_body(rng, None)
        specs = [names[: rng.integers(len(names) + 1)] for _ in arrays]
        mesh = gs.make_mesh(axes, names)
        devices = np.array(jax.devices()[: mesh.size], object).reshape(axes)
        out = []
        for lib, io, where, spec in (
            (gs, gs.io_callback, mesh, gs.P),
            (jax, io_callback, jax.sharding.Mesh(devices, names), jax.sharding.PartitionSpec),
        ):
            calls: list[Any] = []
            body = make(lib, calls, io)
            how = {"check_vma": False, "out_specs": spec(names), "mesh": where}

            def padded(x: Any, y: Any, body: Any = body) -> Any:
                return body(x[0, :4], y[0, :4])

            f = lib.shard_map(padded, in_specs=tuple(spec(*own) for own in specs), **how)
            f = lib.jit(f) if lib is jax or seed % 2 else f
            value = np.asarray(f(*arrays))
            lib.effects_barrier()
            out.append((value, counted(calls), lines(capsys.readouterr().out)))
        (value, calls_, text), (want, want_calls, want_text) = out
        np.testing.assert_allclose(value, want)
        assert calls_ == want_calls, seed
        assert text == want_text, seed


def test_the_order_of_elements(jax: ModuleType) -> None:
    out = []
    for lib in (gs, jax):
        seen: list[float] = []
        nested = lib.vmap(
            lib.vmap(lambda x, lib=lib, seen=seen: lib.debug.callback(seen.append, x, ordered=True))
        )
        nested(np.arange(6, dtype=np.float32).reshape(2, 3))
        lib.effects_barrier()
        out.append([float(v) for v in seen])
    assert out[0] == out[1]


FORMATS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("{}", (np.arange(3.0),), {}),
    ("{x:.2f}", (), {"x": 1.5}),
    ("{0!r} {y}", (np.bool_(True),), {"y": "text"}),
    ("no field", (), {}),
    ("{} {{}}", (np.ones((2, 2)),), {}),
    ("{x}", (1,), {}),
    ("{}", (), {}),
    ("plain", (1,), {}),
    ("{x}", (), {"x": 1, "y": 2}),
    ("{x[0]}", (), {"x": {"a": 1}}),
]


@pytest.mark.parametrize("number", range(len(FORMATS)))
def test_formats(jax: ModuleType, capsys: pytest.CaptureFixture[str], number: int) -> None:
    fmt, args, kwargs = FORMATS[number]
    out = []
    for lib in (gs, jax):
        try:
            lib.debug.print(fmt, *args, **kwargs)
            lib.effects_barrier()
            out.append(capsys.readouterr().out.replace("Array(True, dtype=bool)", "array(True)"))
        except (ValueError, LookupError):
            out.append("refused")
    assert out[0] == out[1]
