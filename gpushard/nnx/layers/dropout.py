"""Dropout: `Dropout`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard import random
from gpushard._array import Array
from gpushard._array.key_array import is_keys
from gpushard._functions.argument_checks import integer
from gpushard._ops.axes import from_end
from gpushard._placement.creation import zeros_like
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.layers.weights import as_input, number
from gpushard.nnx.module import Module
from gpushard.nnx.rngs import Rngs, RngStream
from gpushard.numpy.elementwise import where


class Dropout(Module):
    """A dropout layer: sets random elements to 0, and scales up the rest to keep the mean.

    Args:
      rate: the probability that an element becomes 0, from 0 to 1.
      broadcast_dims: axes along which all elements become 0 together.
      deterministic: whether to return inputs unchanged, as in evaluation; a call can override this.
      rng_collection: the name of the stream of random keys.
      rngs: streams of random keys, or one stream. The layer forks a stream from these. Without
        `rngs`, pass streams in each call.

    Raises:
      ArgumentError: `rate` is not from 0 to 1. In a call, there is no stream, or `deterministic` is
        None both in the layer and in the call.
      ArgumentTypeError: `rate` is not a number, or `rngs` has a wrong type.

    >>> import gpushard as gs
    >>> from gpushard.nnx import Rngs
    >>> layer = Dropout(0.5, rngs=Rngs(0))
    >>> sorted(set(layer(gs.numpy.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer(gs.numpy.ones(3), deterministic=True)
    Array([1., 1., 1.], dtype=float64)
    """

    def __init__(
        self,
        rate: float,
        *,
        broadcast_dims: int | Sequence[int] = (),
        deterministic: bool | None = False,
        rng_collection: str = "dropout",
        rngs: Rngs | RngStream | None = None,
    ) -> None:
        self.rate = number(rate, "Dropout", "rate")
        if not 0 <= self.rate <= 1:
            raise ArgumentError.refusing("rate", rate, "must be from 0 to 1", "Dropout")
        dims = broadcast_dims if isinstance(broadcast_dims, tuple | list) else (broadcast_dims,)
        self.broadcast_dims = tuple(integer(dim, "Dropout", "broadcast_dims") for dim in dims)
        self.deterministic = deterministic
        self.rng_collection = rng_collection
        self.rngs = None
        if rngs is not None:
            self.rngs = self._stream(rngs).fork()

    def __call__(
        self,
        inputs: Any,
        *,
        deterministic: bool | None = None,
        rngs: Any = None,
    ) -> Array:
        """Set a random share of the inputs to 0.

        Args:
          inputs: an array.
          deterministic: whether to return the inputs unchanged; overrides that of the layer.
          rngs: streams, a stream or a key; overrides those of the layer.
        """
        x = as_input(inputs, "Dropout")
        still = self.deterministic if deterministic is None else deterministic
        if still is None:
            raise ArgumentError(
                "Dropout: deterministic is None in the layer and in the call; pass "
                "deterministic=True or False to one of them",
                argument="deterministic",
            )
        if still or self.rate == 0:
            return x
        if self.rate == 1:
            return zeros_like(x)
        key = rngs if is_keys(rngs) else self._stream(self.rngs if rngs is None else rngs)()
        shape = list(x.shape)
        for dim in from_end(self.broadcast_dims, x.ndim, "Dropout", "broadcast_dims"):
            shape[dim] = 1
        keep = 1 - self.rate
        stays = random.bernoulli(key, np.float32(keep), shape)
        return where(stays, x / keep, 0)

    def _stream(self, rngs: Any) -> RngStream:
        if isinstance(rngs, Rngs):
            return rngs[self.rng_collection]
        if isinstance(rngs, RngStream):
            return rngs
        if rngs is None:
            raise ArgumentError(
                "Dropout: there is nothing to draw from; pass rngs to the layer or the call, or "
                "deterministic=True",
                argument="rngs",
            )
        raise ArgumentTypeError.refusing(
            "rngs", rngs, "must be an nnx.Rngs, one of its streams or a key", "Dropout"
        )
