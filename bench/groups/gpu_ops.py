"""On a GPU: operations, beside the memory's bandwidth, CuPy, PyTorch and JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import gpushard as gs
from bench.case import JAX, OURS, Case, Config, Sampler, Side, Target
from bench.chip import Lab, cases_on_gpu
from bench.measure import timed

BANDWIDTH = "device copy"
"""`memcpyAsync` within the GPU that reads and writes as many bytes together."""
CUPY, TORCH = "CuPy", "PyTorch"
EAGER = "not traced"
MESH, AXES, SPEC = (4, 2), ("x", "y"), gs.P("x", "y")
ENOUGH = Target(times=1 / 0.85, column=BANDWIDTH)


def cases(config: Config) -> Iterator[Case]:
    """Everything, if there is a GPU."""
    return cases_on_gpu(config, PARTS)


class _Operands:
    """Two square float32 arrays on all sides.

    Args:
      lab: what is measured with.
      size: of both dims.
    """

    def __init__(self, lab: Lab, size: int) -> None:
        generator = np.random.default_rng(0)
        self.host = [generator.random((size, size), np.float32) for _ in range(2)]
        sharding = gs.NamedSharding(gs.make_mesh(MESH, AXES), SPEC)
        self.ours = [gs.device_put(value, sharding) for value in self.host]
        self.cupy = [lab.xp.asarray(value) for value in self.host]
        self.torch: list[Any] = []
        if lab.torch is not None:
            self.torch = [lab.torch.from_dlpack(value) for value in self.cupy]
        self.jax: list[Any] = []
        if lab.jax is not None:
            put, device = lab.jax.jax.device_put, lab.jax.device
            self.jax = [put(value, device) for value in self.host]

    def check(self, function: Callable[..., Any]) -> None:
        """Compare with NumPy."""
        found = np.asarray(function(*self.ours))
        np.testing.assert_allclose(found, function(*self.host), rtol=1e-4)


def _add(x: Any, y: Any) -> Any:
    return x + y


def _sum(x: Any, y: Any) -> Any:
    return x.sum()


def _large(lab: Lab, config: Config) -> Iterator[Case]:
    """Time on the GPU for arrays of 1 GiB."""
    size, repeats = config.pick(1 << 14, 64), config.pick(20, 1)
    with lab.runtime() as runtime:
        operands = _Operands(lab, size)
        nbytes = operands.host[0].nbytes
        # x + y reads two arrays and writes one, a sum reads one; a copy does one of each.
        for name, function, copied in (
            ("x + y", _add, nbytes * 3 // 2),
            ("sum", _sum, nbytes // 2),
        ):
            run = functools.partial(function, *operands.ours)
            yield Case(
                name=name,
                table=f"operations on {nbytes >> 20} MiB",
                sides=[
                    Side(OURS, lab.ours(runtime, run, repeats)),
                    Side(JAX, _on(lab.on_jax, function, operands.jax, repeats)),
                    Side(CUPY, _on(lab.on_cupy, function, operands.cupy, repeats)),
                    Side(TORCH, _on(lab.on_torch, function, operands.torch, repeats)),
                    Side(BANDWIDTH, lab.device_copy(copied, repeats)),
                ],
                check=functools.partial(operands.check, function),
                target=ENOUGH,
                facts={"bytes": nbytes},
                floor=BANDWIDTH,
            )


TRACED: dict[str, Callable[[Any, Any], Any]] = {
    "tanh(2x + 1) * x - x / 3": lambda m, x: m.tanh(2 * x + 1) * x - x / 3,
    "softmax": lambda m, x: _shares(m.exp(x - x.max(axis=-1, keepdims=True))),
    "less mean, over deviation": lambda m, x: _standard(m, x - x.mean(axis=-1, keepdims=True)),
}
"""Functions of rows that read an array once and write one, as a copy does."""


def _shares(x: Any) -> Any:
    return x / x.sum(axis=-1, keepdims=True)


def _standard(m: Any, x: Any) -> Any:
    return x / m.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def _traced(lab: Lab, config: Config) -> Iterator[Case]:
    """Time on the GPU of functions that are traced, beside their operations one by one."""
    size, repeats = config.pick(1 << 13, 64), config.pick(20, 1)
    host = np.random.default_rng(0).random((size, size), np.float32)
    with lab.runtime() as runtime:
        x = gs.device_put(host, gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
        on_cupy = lab.xp.asarray(host)
        for name, function in TRACED.items():
            eager = functools.partial(function, gs.numpy, x)
            traced = functools.partial(gs.jit(functools.partial(function, gs.numpy)), x)
            theirs = None
            if lab.jax is not None:
                jitted = lab.jax.jax.jit(functools.partial(function, lab.jax.numpy))
                put = lab.jax.jax.device_put(host, lab.jax.device)
                theirs = lab.on_jax(functools.partial(jitted, put), repeats)
            cupy = lab.on_cupy(functools.partial(function, lab.xp, on_cupy), repeats)
            yield Case(
                name=name,
                table=f"traced functions of {host.nbytes >> 20} MiB",
                sides=[
                    Side(OURS, lab.ours(runtime, traced, repeats)),
                    Side(EAGER, lab.ours(runtime, eager, repeats)),
                    Side(JAX, theirs),
                    Side(CUPY, cupy),
                    Side(BANDWIDTH, lab.device_copy(host.nbytes, repeats)),
                ],
                check=functools.partial(_same, traced, function, host),
                target=ENOUGH,
                facts={"bytes": host.nbytes},
                floor=BANDWIDTH,
            )


def _same(run: Callable[[], Any], function: Callable[[Any, Any], Any], host: Any) -> None:
    np.testing.assert_allclose(np.asarray(run()), function(np, host), rtol=1e-3, atol=1e-5)


def _on(measure: Any, function: Any, operands: list[Any], repeats: int) -> Sampler | None:
    """Return how long a peer takes; None if it does not take part."""
    if not operands:
        return None
    sampler: Sampler | None = measure(functools.partial(function, *operands), repeats)
    return sampler


def _small(lab: Lab, config: Config) -> Iterator[Case]:
    """What the caller waits for with arrays of 8x8, and what submitting takes."""
    burst = config.pick(200, 2)
    with lab.runtime():
        operands = _Operands(lab, 8)
        for name, function in (("x + y", _add), ("sum", _sum)):
            run = functools.partial(function, *operands.ours)
            cupy = functools.partial(function, *operands.cupy)
            torch = operands.torch and functools.partial(function, *operands.torch)
            jax = operands.jax and functools.partial(function, *operands.jax)
            check = functools.partial(operands.check, function)
            yield Case(
                name=f"{name}, submit",
                table="dispatch, 8x8 over 8 partitions of a GPU",
                sides=[
                    Side(OURS, timed(lambda _, run=run: run())),
                    Side(JAX, timed(lambda _, run=jax: run()) if jax else None),
                    Side(CUPY, timed(lambda _, run=cupy: run()) if lab.cupy else None),
                    Side(TORCH, timed(lambda _, run=torch: run()) if torch else None),
                ],
                check=check,
                burst=burst,
            )


PARTS = (_large, _small, _traced)
"""In the order of the tables; `--group gpu_ops:large` runs one of them."""
