"""Functions of neural networks as their definitions say, in NumPy; and calls of attention."""

import math
from typing import Any

import numpy as np

from tests.numpy.matrices import numbers


def sigmoid(x: Any) -> Any:
    return np.exp(-np.logaddexp(0, -x))


def elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def normal_cdf(x: Any) -> Any:
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])(x)


def quick_gelu(x: Any) -> Any:
    return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


ACTIVATIONS: dict[str, Any] = {
    "celu": elu,
    "elu": elu,
    "gelu": quick_gelu,
    "hard_sigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hard_silu": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "identity": lambda x: x,
    "leaky_relu": lambda x: np.maximum(x, 0.01 * x),
    "log_sigmoid": lambda x: -np.logaddexp(0, -x),
    "mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "relu": lambda x: np.where(x > 0, x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "selu": lambda x: 1.0507009873554805 * elu(x, 1.6732632423543772),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "soft_sign": lambda x: x / (1 + np.abs(x)),
    "softplus": lambda x: np.logaddexp(0, x),
    "sparse_plus": lambda x: np.where(x > 1, x, np.where(x < -1, 0, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "squareplus": lambda x: (x + np.sqrt(x * x + 4)) / 2,
    "tanh": np.tanh,
}


def softmax(x: Any, axis: Any = -1, where: Any = True) -> Any:
    terms = np.exp(x - np.max(x, axis, keepdims=True)) * where
    return terms / terms.sum(axis, keepdims=True)


def attention(
    q: Any, k: Any, v: Any, bias: Any = None, mask: Any = None, **how: Any
) -> tuple[Any, Any]:
    """Attend, one query after the other; and the logarithms of the sums."""
    batch, length, heads, features = q.shape
    found, sums = np.zeros(q.shape), np.zeros((batch, length, heads))
    wide = (batch, heads, length, k.shape[1])
    bias = np.broadcast_to(0.0 if bias is None else bias, wide)
    mask = np.broadcast_to(True if mask is None else mask, wide)
    window = how.get("local_window_size")
    before, after = (window, window) if isinstance(window, int) else window or (99, 99)
    after = 0 if how.get("is_causal") else after
    queries = how.get("query_seq_lengths", [99] * batch)
    keys = how.get("key_value_seq_lengths", [99] * batch)
    for b, t, h in np.ndindex(batch, length, heads):
        row = np.full(k.shape[1], -0.7 * float(np.finfo(np.float32).max))
        for s in range(k.shape[1]):
            shared = h * k.shape[2] // heads
            if mask[b, h, t, s] and -before <= s - t <= after and (t < queries[b] and s < keys[b]):
                dot = q[b, t, h] @ k[b, s, shared]
                row[s] = dot * how.get("scale", features**-0.5) + bias[b, h, t, s]
        sums[b, t, h] = row.max() + np.log(np.exp(row - row.max()).sum())
        if t < queries[b]:
            found[b, t, h] = softmax(row) @ v[b, :, h * k.shape[2] // heads]
    return found, sums


Q, K, V = numbers((2, 5, 4, 3), "d", "q"), numbers((2, 6, 2, 3), "d", "k"), numbers((2, 6, 2, 3))
LENGTHS = np.array([3, 5], np.int32)
CALLS: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"is_causal": True},
    "bias": {"bias": numbers((1, 4, 5, 6), "d", "b")},
    "mask": {"mask": numbers((2, 1, 5, 6), "d", "m") > -0.5},
    "mask of each head": {"mask": numbers((2, 4, 5, 6), "d", "n") > 0, "is_causal": True},
    "window": {"local_window_size": 1},
    "window before": {"local_window_size": (2, 0), "bias": numbers((4, 5, 6), "d", "c")},
    "lengths": {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS[::-1].copy()},
}
