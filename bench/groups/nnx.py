"""Functions of modules under nnx.jit, beside the same functions of pytrees under jit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import FLOOR, JAX, OURS, Case, Config, Side, Target
from bench.measure import timed
from gpushard import nnx
from gpushard.testing import runtime

PYTREE = "jit of a pytree"
"""The same function of the same arrays, in a dict that it takes and returns."""

LEAST = "jit, one returned"
"""The same function of that dict, which returns the array alone that is new."""

BURST = 200
COUNT = 100


class _Flat(nnx.Module):
    """A module with all its Variables."""

    def __init__(self) -> None:
        for n in range(COUNT):
            setattr(self, f"v{n:02}", nnx.Param(gs.numpy.full(8, float(n))))


class _Pair(nnx.Module):
    def __init__(self, n: int) -> None:
        self.kernel = nnx.Param(gs.numpy.full(8, float(n)))
        self.bias = nnx.Param(gs.numpy.full(8, float(n + 1)))


class _Nested(nnx.Module):
    """A module with a list of modules of two Variables each."""

    def __init__(self) -> None:
        self.layers = [_Pair(2 * n) for n in range(COUNT // 2)]


def cases(config: Config) -> Iterator[Case]:
    """Calls that are all dispatch, of modules with 100 Variables of which one is new each time."""
    with runtime(host_devices=8):
        values = {f"{n:02}": gs.numpy.full(8, float(n)) for n in range(COUNT)}
        step = gs.numpy.ones(8)
        of_pytree = gs.jit(lambda own, x: {**own, "50": own["50"] + x})
        least = gs.jit(lambda own, x: own["50"] + x)
        flat, nested = _Flat(), _Nested()

        @nnx.jit
        def of_flat(m: Any, x: Any) -> None:
            m.v50.value = m.v50.value + x

        @nnx.jit
        def of_nested(m: Any, x: Any) -> None:
            m.layers[25].kernel.value = m.layers[25].kernel.value + x

        def check() -> None:
            new = (_Flat(), _Nested())
            of_flat(new[0], step)
            of_nested(new[1], step)
            expected = np.full(8, 51.0)
            for got in (
                new[0].v50.value, new[1].layers[25].kernel.value, least(values, step),
                of_pytree(values, step)["50"],
            ):  # fmt: skip
                np.testing.assert_array_equal(got, expected)
            assert float(new[0].v49.sum()) == 8 * 49

        for name, ours in (
            ("one of 100 Variables", lambda: of_flat(flat, step)),
            ("one of 50 modules of 2 Variables", lambda: of_nested(nested, step)),
        ):
            for base in (PYTREE, LEAST):
                yield Case(
                    name=f"{name}, 50 us over {base}",
                    table="an update",
                    sides=[
                        Side(OURS, timed(lambda _, call=ours: call())),
                        Side(PYTREE, timed(lambda _: of_pytree(values, step))),
                        Side(LEAST, timed(lambda _: least(values, step))),
                        Side(JAX, None),
                        Side(FLOOR, None),
                    ],
                    check=check,
                    target=Target(times=1, seconds=50e-6, column=base),
                    burst=config.pick(BURST, 2),
                )
