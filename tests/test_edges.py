"""The last value that is taken and the first that is refused, of arguments that have bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard.errors import GpushardError

gnp = gs.numpy
Call = Callable[[Any], Any]


def split(*shape: int, dtype: Any = float) -> gs.Array:
    mesh = gs.make_mesh((2,), "x", devices=gs.devices()[:2])
    value = (np.arange(np.prod(shape)) % 7).astype(dtype).reshape(shape)
    return gs.device_put(value, gs.NamedSharding(mesh, gs.P("x") if shape else gs.P()))


def key() -> Any:
    return random.key(3)


def weighted(least: float) -> np.ndarray:
    return np.array([least, 1.0, 2, 3])


EDGES: dict[str, tuple[Call, list[Any], list[Any]]] = {
    "array_split": (lambda n: gnp.array_split(split(4), n), [1, 5], [0, -1]),
    "axis": (lambda axis: split(4, 2).sum(axis), [-2, 1], [-3, 2]),
    "axis of sort": (lambda axis: gnp.sort(split(4, 2), axis), [-2, 1], [-3, 2]),
    "bincount": (lambda n: gnp.bincount(np.array([n, 1])), [0], [-1]),
    "bins": (lambda n: gnp.histogram(split(4), n), [1], [0]),
    "bins in a range": (lambda n: gnp.histogram(split(4), 2, (1, n)), [1, 2], [0.5]),
    "choice": (lambda n: random.choice(key(), 4, (n,), replace=False), [0, 4], [5]),
    "choose": (lambda n: gnp.choose(np.array([n]), [split(1), split(1)]), [0, 1], [-1, 2]),
    "commas of r_": (lambda s: gnp.r_[s, np.ones(2)], ["0,2,1", "0,2"], ["0,2,1,0"]),
    "cov": (lambda n: gnp.cov(np.ones((n, 4)) if n else np.ones((1, 1, 4))), [1, 2], [0]),
    "diff": (lambda n: gnp.diff(split(4), n), [0, 4, 9], [-1]),
    "edges": (lambda n: gnp.histogram(split(4), [0, 2, n]), [2, 3], [1.5]),
    "fft": (lambda n: gnp.fft.fft(split(4), n), [1], [0]),
    "fft of several": (lambda n: gnp.fft.fftn(split(4, 2), (n, 2)), [1], [0]),
    "fftfreq": (lambda n: gnp.fft.fftfreq(n), [1], [0]),
    "fill_diagonal": (lambda s: gnp.fill_diagonal(split(*s), 1), [(2, 4), (2, 2, 2)], [(4,)]),
    "fill_diagonal of many": (
        lambda s: gnp.fill_diagonal(split(*s), 1),
        [(2, 2, 2)],
        [(2, 2, 4), (2, 4, 2), (4, 2, 2)],
    ),
    "diag_indices_from": (
        lambda s: gnp.diag_indices_from(split(*s)),
        [(2, 2), (2, 2, 2)],
        [(4,), (2, 3), (2, 2, 4)],
    ),
    "fold_in": (lambda n: random.fold_in(key(), n), [-(2**31), 2**32 - 1], [-(2**31) - 1, 2**32]),
    "fweights": (lambda n: gnp.cov(split(2, 4), fweights=[n, 1, 1, 1]), [0, 1], [-1]),
    "aweights": (lambda n: gnp.cov(split(2, 4), aweights=weighted(n)), [0.0, 1.0], [-0.5]),
    "gradient": (lambda n: gnp.gradient(split(n)), [2, 3], [1]),
    "gradient of parabolas": (lambda n: gnp.gradient(split(n), edge_order=2), [3, 4], [2]),
    "key": (random.key, [-(2**63), 2**64 - 1], [-(2**63) - 1, 2**64]),
    "linspace": (lambda n: gnp.linspace(0, 1, n), [0, 1], [-1]),
    "make_mesh": (lambda n: gs.make_mesh((n, 2), ("x", "y")), [1, 4], [0, -1, 5]),
    "matrix_norm": (
        lambda s: gnp.linalg.matrix_norm(split(*s)),
        [(2, 2), (4, 2, 2)],
        [(2,), ()],
    ),
    "matrix_power": (
        lambda s: gnp.linalg.matrix_power(split(*s), 2),
        [(2, 2), (4, 2, 2)],
        [(2,), (2, 3)],
    ),
    "multi_dot": (lambda n: gnp.linalg.multi_dot([split(2, 2)] * n), [2, 3], [0, 1]),
    "multigammaln": (lambda n: gs.special.multigammaln(split(4) + 9, n), [1, 2], [0, -1, 1.5]),
    "num_addressable_indices": (
        lambda dim: gs.num_addressable_indices(split(4, 2).sharding, dim, (4, 2)),
        [0, 1],
        [-1, 2],
    ),
    "pad": (lambda n: gnp.pad(split(4), (n, 1)), [0, 1], [-1]),
    "partition": (lambda n: gnp.partition(split(4), n), [-4, 3], [-5, 4]),
    "percentile": (
        lambda q: gnp.percentile(split(4), q),
        [0, 100, np.array([0.0, 100])],
        [np.nextafter(0, -1), np.nextafter(100, 101)],
    ),
    "permutation": (lambda n: random.permutation(key(), n), [0, 1], [-1]),
    "polyder": (lambda n: gnp.polyder(split(4), n), [0, 4, 5], [-1]),
    "polyfit": (lambda n: gnp.polyfit(split(4), split(4), n), [0, 3], [-1]),
    "polyfit with covariances": (
        lambda n: gnp.polyfit(np.arange(n), np.arange(n) ** 2, 1, cov=True),
        [3, 4],
        [2],
    ),
    "polyint": (lambda n: gnp.polyint(split(4), n), [0, 1], [-1]),
    "polyint with constants": (
        lambda n: gnp.polyint(split(4), 3, np.ones(n)),
        [1, 3, 4],
        [2, 0],
    ),
    "power of integers": (lambda n: split(4, dtype=int) ** n, [0, 1], [-1]),
    "prefetch": (lambda n: [*gs.prefetch([np.ones(2)], gs.devices()[0], size=n)], [1], [0, -1]),
    "quantile": (
        lambda q: gnp.quantile(split(4), q),
        [0, 1, [0.0, 1.0]],
        [np.nextafter(0, -1), np.nextafter(1, 2)],
    ),
    "repeat": (lambda n: gnp.repeat(split(2), [n, 1]), [0, 1], [-1]),
    "rollaxis": (lambda n: gnp.rollaxis(split(4, 2), 0, n), [-2, 2], [-3, 3]),
    "row": (lambda n: split(4)[n], [-4, 3], [-5, 4]),
    "rows": (lambda n: split(4)[[0, n]], [-4, 3], [-5, 4]),
    "rows of an array": (lambda n: split(4)[gs.device_put(np.array([0, n]))], [-4, 3], [-5, 4]),
    "rows of two dims": (lambda n: split(4, 2)[[0, n], [0, 1]], [-4, 3], [-5, 4]),
    "put": (lambda n: gnp.put(split(4), [n], 1), [-4, 3], [-5, 4]),
    "ravel_multi_index": (
        lambda n: gnp.ravel_multi_index(([n], [0]), (4, 2)),
        [0, 3],
        [-1, 4],
    ),
    "unravel_index": (lambda n: gnp.unravel_index(np.array([n]), (4, 2)), [0, 7], [8]),
    "shard": (lambda n: split(4).addressable_data(n), [-2, 1], [-3, 2]),
    "shape": (lambda n: gnp.zeros((n, 2)), [0, 1], [-1]),
    "sliding_window_view": (
        lambda n: gnp.lib.stride_tricks.sliding_window_view(split(4), n),
        [1, 4],
        [0, 5, -1],
    ),
    "spec": (lambda dims: gs.device_put(np.ones((2,) * dims), split(2, 2).sharding), [1, 2], [0]),
    "split": (lambda n: gnp.split(split(4), n), [1, 2, 4], [0, 3]),
    "take": (lambda n: gnp.take(split(4), np.array([n])), [-4, 3], [-5, 4]),
    "tensordot": (lambda n: gnp.tensordot(split(2, 2), split(2, 2), n), [0, 2], [-1, 3]),
    "tensorinv": (lambda n: gnp.linalg.tensorinv(np.eye(4), n), [1], [0, -1]),
    "top": (lambda n: gnp.topk(split(4), n)[0], [0, 4], [5]),
    "tril": (lambda s: gnp.tril(split(*s)), [(2, 2), (4, 2, 2)], [(2,), ()]),
    "vsplit": (lambda s: gnp.vsplit(split(*s), 1), [(2, 2), (4, 2, 2)], [(2,)]),
    "hsplit": (lambda s: gnp.hsplit(split(*s), 1), [(2,), (4, 2)], [()]),
    "dsplit": (lambda s: gnp.dsplit(split(*s), 1), [(4, 2, 2)], [(2, 2)]),
    "entries of an index": (lambda n: split(4, 2)[(0,) * n], [1, 2], [3]),
    "mT": (lambda s: split(*s).mT, [(2, 2)], [(2,), ()]),
}


@pytest.mark.parametrize("name", EDGES)
def test_what_lies_at_an_edge_is_taken_and_what_lies_beyond_is_not(name: str) -> None:
    call, taken, refused = EDGES[name]
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for value in taken:
            gs.block_until_ready(call(value))
        for value in refused:
            with pytest.raises((GpushardError, TypeError)) as caught:
                call(value)
            assert isinstance(caught.value, GpushardError), value
