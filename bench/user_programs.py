"""Programs that users write, each in the names that NumPy, JAX, PyTorch and gpushard share.

Each program is a function of a module `m` and of arrays. `m` has NumPy's names, and `m.erf`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bench.floor import HostArray

ROWS, WHOLE = "rows", "whole"
"""How an argument is split over devices: its first axis, or not at all."""

LARGE, MIDDLE, SMALL = "large", "middle", "small"
"""Sizes: too large for a cache, about 1 MB, and about 8 KB."""

Shapes = Sequence[tuple[int, ...]]


@dataclasses.dataclass(frozen=True)
class Program:
    """A function, and what it is called with."""

    name: str
    run: Callable[..., Any]
    """Gets the module and the arguments; returns an array or a tuple of them."""
    shapes: dict[str, Shapes]
    """For each size the shapes of the arguments, all float32."""
    split: tuple[str, ...]
    """How each argument is split."""
    products: Callable[..., Shapes] = lambda *shapes: ()
    """From the shapes of the arguments the (batch, m, k, n) of products that the program cannot do
    without."""
    positive: bool = False
    """Whether arguments are between 0.5 and 1.5, and not normal."""

    def arguments(self, size: str) -> list[HostArray]:
        """Draw the arguments of a size."""
        rng = np.random.default_rng(0)
        drawn = []
        for shape, split in zip(self.shapes[size], self.split, strict=True):
            x = rng.standard_normal(shape, dtype=np.float32)
            if split == WHOLE and len(shape) == 2:
                x /= np.float32(math.sqrt(len(x)))  # weights, as they are initialized
            drawn.append(1 + np.tanh(x) / 2 if self.positive else x)
        return drawn


def chain(m: Any, a: Any) -> Any:
    """Elementwise operations one after the other."""
    return m.tanh(2 * a + 1) * a - a / 3


def softmax_rows(m: Any, a: Any) -> Any:
    """Softmax along the last axis."""
    e = m.exp(a - m.max(a, axis=-1, keepdims=True))
    return e / m.sum(e, axis=-1, keepdims=True)


def softmax_first(m: Any, a: Any) -> Any:
    """Softmax along the first axis."""
    e = m.exp(a - m.max(a, axis=0, keepdims=True))
    return e / m.sum(e, axis=0, keepdims=True)


def layer_norm(m: Any, a: Any, scale: Any, shift: Any) -> Any:
    """Layer normalization of rows."""
    apart = a - m.mean(a, axis=-1, keepdims=True)
    spread = m.mean(apart * apart, axis=-1, keepdims=True)
    return apart / m.sqrt(spread + 1e-5) * scale + shift


def rms_norm(m: Any, a: Any, scale: Any) -> Any:
    """Normalize rows by their root mean square."""
    return a / m.sqrt(m.mean(a * a, axis=-1, keepdims=True) + 1e-6) * scale


def batch_norm(m: Any, a: Any, scale: Any, shift: Any) -> Any:
    """Batch normalization of images in NCHW."""
    axes = (0, 2, 3)
    apart = a - m.mean(a, axis=axes, keepdims=True)
    spread = m.mean(apart * apart, axis=axes, keepdims=True)
    return apart / m.sqrt(spread + 1e-5) * scale[:, None, None] + shift[:, None, None]


def standardize(m: Any, a: Any) -> Any:
    """Give columns a mean of 0 and a deviation of 1."""
    apart = a - m.mean(a, axis=0)
    return apart / m.sqrt(m.mean(apart * apart, axis=0))


def pairwise(m: Any, points: Any) -> Any:
    """Squared distances of all points from one another."""
    apart = points[:, None, :] - points[None, :, :]
    return m.sum(apart * apart, axis=-1)


def k_means(m: Any, points: Any, centres: Any) -> Any:
    """The number of the nearest centre of each point."""
    apart = m.sum(points * points, axis=1)[:, None] - 2 * (points @ centres.T)
    return m.argmin(apart + m.sum(centres * centres, axis=1), axis=1)


def attention(m: Any, q: Any, k: Any, v: Any) -> Any:
    """Attention of several heads."""
    scores = m.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(q.shape[-1])
    return m.einsum("bhts,bhsk->bhtk", softmax_rows(m, scores), v)


def stencil(m: Any, a: Any) -> Any:
    """One step of diffusion on a torus."""
    around = m.roll(a, 1, 0) + m.roll(a, -1, 0) + m.roll(a, 1, 1) + m.roll(a, -1, 1)
    return a + 0.1 * (around - 4 * a)


def heat(m: Any, a: Any) -> Any:
    """The inner points of one step of diffusion, by slices."""
    around = a[1:-1, :-2] + a[1:-1, 2:] + a[:-2, 1:-1] + a[2:, 1:-1]
    return a[1:-1, 1:-1] + 0.1 * (around - 4 * a[1:-1, 1:-1])


def logistic(m: Any, x: Any, y: Any, w: Any) -> Any:
    """A step of logistic regression."""
    p = 1 / (1 + m.exp(-(x @ w)))
    return w - 0.1 * (x.T @ (p - y)) / x.shape[0]


def mlp(m: Any, x: Any, first: Any, second: Any) -> Any:
    """Two layers with ReLU between them."""
    return m.maximum(x @ first, 0 * first[0]) @ second


def transformer(
    m: Any, x: Any, qkv: Any, out: Any, up: Any, down: Any, scale: Any, shift: Any
) -> Any:
    """One block of a transformer with 4 heads."""
    batch, steps, width = x.shape
    heads = 4
    parts = layer_norm(m, x, scale, shift) @ qkv
    q, k, v = (
        m.reshape(parts[..., n * width : (n + 1) * width], (batch, steps, heads, width // heads))
        for n in range(3)
    )
    scores = m.einsum("bthk,bshk->bhts", q, k) / math.sqrt(width // heads)
    seen = m.einsum("bhts,bshk->bthk", softmax_rows(m, scores), v)
    x = x + m.reshape(seen, (batch, steps, width)) @ out
    inner = layer_norm(m, x, scale, shift) @ up
    gelu = 0.5 * inner * (1 + m.tanh(0.79788456 * (inner + 0.044715 * inner * inner * inner)))
    return x + gelu @ down


def cross_entropy(m: Any, logits: Any, wanted: Any) -> Any:
    """The mean cross entropy of logits and soft labels."""
    apart = logits - m.max(logits, axis=-1, keepdims=True)
    logs = apart - m.log(m.sum(m.exp(apart), axis=-1, keepdims=True))
    return -m.mean(m.sum(logs * wanted, axis=-1))


def adam(m: Any, p: Any, g: Any, mean: Any, square: Any) -> Any:
    """A step of Adam."""
    mean = 0.9 * mean + 0.1 * g
    square = 0.999 * square + 0.001 * g * g
    return p - 0.001 * (mean / 0.1) / (m.sqrt(square / 0.001) + 1e-8), mean, square


def black_scholes(m: Any, price: Any, strike: Any, years: Any) -> Any:
    """Prices of European calls."""
    rate, spread = 0.02, 0.3
    root = m.sqrt(years)
    first = (m.log(price / strike) + (rate + spread * spread / 2) * years) / (spread * root)
    second = first - spread * root
    below = [0.5 * (1 + m.erf(d * 0.70710678)) for d in (first, second)]
    return price * below[0] - strike * m.exp(-rate * years) * below[1]


def cosine(m: Any, x: Any) -> Any:
    """Cosine similarities of all rows."""
    unit = x / m.sqrt(m.sum(x * x, axis=-1, keepdims=True))
    return unit @ unit.T


def covariance(m: Any, x: Any) -> Any:
    """The covariance matrix of columns."""
    apart = x - m.mean(x, axis=0)
    return apart.T @ apart / (x.shape[0] - 1)


def n_body(m: Any, places: Any) -> Any:
    """Accelerations of bodies by gravity."""
    apart = places[None, :, :] - places[:, None, :]
    near = m.sum(apart * apart, axis=-1) + 0.01
    return m.sum(apart / (near * m.sqrt(near))[..., None], axis=1)


def density(m: Any, at: Any, points: Any) -> Any:
    """A Gaussian kernel density estimate."""
    apart = at[:, None] - points[None, :]
    return m.mean(m.exp(-50 * apart * apart), axis=1)


def layer_gradient(m: Any, x: Any, y: Any, cotangent: Any) -> Any:
    """The gradient of a layer with tanh with respect to its weights and its bias."""
    inner = cotangent * (1 - y * y)
    return m.einsum("bo,bi->io", inner, x), m.sum(inner, axis=0)


def _squares(large: int, *more: Callable[[int], tuple[int, ...]]) -> dict[str, Shapes]:
    """Return shapes of a square array, and of others by its columns."""
    return {
        size: [(rows, columns), *[shape(columns) for shape in more]]
        for size, (rows, columns) in {
            LARGE: (large, large), MIDDLE: (512, 512), SMALL: (32, 64),
        }.items()
    }  # fmt: skip


def _of(large: Shapes, middle: Shapes, small: Shapes) -> dict[str, Shapes]:
    return {LARGE: large, MIDDLE: middle, SMALL: small}


def _vector(columns: int) -> tuple[int, ...]:
    return (columns,)


def _many(shape: tuple[int, ...], count: int) -> list[tuple[int, ...]]:
    return [shape] * count


def _attention_products(q: Any, k: Any, v: Any) -> Shapes:
    batch, heads, steps, width = q
    return [(batch * heads, steps, width, k[2]), (batch * heads, steps, k[2], width)]


def _transformer_shapes(batch: int, steps: int, width: int) -> Shapes:
    w = width
    return [(batch, steps, w), (w, 3 * w), (w, w), (w, 4 * w), (4 * w, w), (w,), (w,)]


def _transformer_products(x: Any, *weights: Any) -> Shapes:
    batch, steps, width = x
    heads = 4
    scores = batch * heads, steps, width // heads, steps
    seen = batch * heads, steps, steps, width // heads
    return [*[(1, batch * steps, *w) for w in weights[:4]], scores, seen]


PROGRAMS = [
    Program("chain", chain, _squares(4096), (ROWS,)),
    Program("softmax over rows", softmax_rows, _squares(4096), (ROWS,)),
    Program("softmax over the first axis", softmax_first, _squares(4096), (ROWS,)),
    Program(
        "layer norm", layer_norm, _squares(4096, _vector, _vector), (ROWS, WHOLE, WHOLE)
    ),
    Program("RMS norm", rms_norm, _squares(4096, _vector), (ROWS, WHOLE)),
    Program(
        "batch norm", batch_norm,
        _of([(32, 64, 56, 56), (64,), (64,)], [(8, 16, 48, 48), (16,), (16,)],
            [(8, 4, 8, 8), (4,), (4,)]),
        (ROWS, WHOLE, WHOLE),
    ),
    Program(
        "standardize columns", standardize,
        _of([(400_000, 32)], [(8192, 32)], [(64, 32)]), (ROWS,),
    ),
    Program("pairwise distances", pairwise, _of([(4096, 3)], [(512, 3)], [(48, 3)]), (ROWS,)),
    Program(
        "k-means distances", k_means,
        _of([(200_000, 16), (32, 16)], [(16_384, 16), (32, 16)], [(128, 16), (32, 16)]),
        (ROWS, WHOLE), lambda points, centres: [(1, *points, centres[0])],
    ),
    Program(
        "attention", attention,
        _of(_many((8, 8, 256, 64), 3), _many((8, 4, 128, 64), 3), _many((8, 2, 16, 8), 3)),
        (ROWS, ROWS, ROWS), _attention_products,
    ),
    Program("stencil by roll", stencil, _squares(4096), (ROWS,)),
    Program("heat by slices", heat, _squares(4096), (ROWS,)),
    Program(
        "logistic step", logistic,
        _of([(100_000, 50), (100_000,), (50,)], [(5_000, 50), (5_000,), (50,)],
            [(40, 50), (40,), (50,)]),
        (ROWS, ROWS, WHOLE),
        lambda x, y, w: [(1, *x, 1), (1, x[1], x[0], 1)],
    ),
    Program(
        "MLP", mlp,
        _of([(4096, 512), (512, 1024), (1024, 512)], [(512, 512), (512, 256), (256, 512)],
            [(32, 64), (64, 32), (32, 64)]),
        (ROWS, WHOLE, WHOLE), lambda x, first, second: [(1, *x, first[1]), (1, x[0], *second)],
    ),
    Program(
        "transformer block", transformer,
        _of(_transformer_shapes(8, 256, 256), _transformer_shapes(8, 64, 128),
            _transformer_shapes(8, 8, 32)),
        (ROWS, *[WHOLE] * 6), _transformer_products,
    ),
    Program(
        "cross entropy", cross_entropy,
        _of(_many((8192, 1024), 2), _many((512, 512), 2), _many((32, 64), 2)), (ROWS, ROWS),
    ),
    Program(
        "Adam step", adam,
        _of(_many((2048, 2048), 4), _many((512, 512), 4), _many((32, 64), 4)), (ROWS,) * 4,
        positive=True,
    ),
    Program(
        "Black-Scholes", black_scholes,
        _of(_many((4_000_000,), 3), _many((262_144,), 3), _many((2048,), 3)), (ROWS,) * 3,
        positive=True,
    ),
    Program(
        "cosine similarities", cosine, _of([(4096, 64)], [(512, 64)], [(32, 64)]), (ROWS,),
        lambda x: [(1, *x, x[0])],
    ),
    Program(
        "covariance", covariance, _of([(200_000, 64)], [(4096, 64)], [(64, 32)]), (ROWS,),
        lambda x: [(1, x[1], *x)],
    ),
    Program("N-body", n_body, _of([(1200, 3)], [(512, 3)], [(48, 3)]), (ROWS,)),
    Program(
        "kernel density", density, _of(_many((4096,), 2), _many((512,), 2), _many((48,), 2)),
        (ROWS, WHOLE),
    ),
    Program(
        "gradient of a layer", layer_gradient,
        _of([(4096, 512), *_many((4096, 1024), 2)], [(512, 512), *_many((512, 512), 2)],
            [(32, 64), *_many((32, 64), 2)]),
        (ROWS, ROWS, ROWS), lambda x, y, g: [(1, g[1], g[0], x[1])],
    ),
]  # fmt: skip
"""All of them."""
