"""Embedding: `Embed`."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpushard._array import Array
from gpushard.dtypes import kind_of
from gpushard.errors import ArgumentTypeError
from gpushard.nn import initializers
from gpushard.nnx.layers.weights import (
    as_input,
    check_features,
    compute_type,
    features,
    in_type,
    value_of,
    weights,
)
from gpushard.nnx.module import Module
from gpushard.nnx.rngs import Rngs
from gpushard.numpy.indexing import take

_TABLE = initializers.variance_scaling(1.0, "fan_in", "normal", out_axis=0)


class Embed(Module):
    """An embedding layer: a table with a row of features for each integer below `num_embeddings`.

    Args:
      num_embeddings: number of rows.
      features: number of features of a row.
      dtype: the dtype to which the table, and queries of `attend`, are converted; by default that
        of the table.
      param_dtype: dtype of the table.
      embedding_init: an initializer of the table, which has shape (num_embeddings, features).
      rngs: streams of random keys; the stream `params` draws the table.

    Raises:
      ArgumentError: a size is less than 1. In `attend`, queries have another number of features.
      ArgumentTypeError: `rngs` is not an `Rngs`. In a call, inputs are not integers.

    >>> from gpushard.nnx import Rngs
    >>> table = Embed(10, 3, rngs=Rngs(0))
    >>> table([[0, 4], [9, 9]]).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        features: int,
        *,
        dtype: Any = None,
        param_dtype: Any = np.float32,
        embedding_init: initializers.Initializer = _TABLE,
        rngs: Rngs,
    ) -> None:
        self.num_embeddings = _size(num_embeddings, "Embed", "num_embeddings")
        self.features = _size(features, "Embed", "features")
        self.dtype = compute_type(dtype, "Embed")
        shape = self.num_embeddings, self.features
        (self.embedding,) = weights(
            "Embed", rngs, param_dtype, ("embedding_init", embedding_init, shape)
        )

    def __call__(self, inputs: Any) -> Array:
        """Look up rows by number. Numbers beyond the table have rows of NaN.

        Args:
          inputs: integers of any shape.
        """
        numbers = as_input(inputs, "Embed")
        if kind_of(numbers.dtype) not in "iu":
            raise ArgumentTypeError(
                f"Embed: inputs have dtype {numbers.dtype}, and must be integers: the numbers of "
                "rows. Try: inputs.astype(int)",
                argument="inputs",
                dtype=numbers.dtype,
            )
        (table,) = in_type(self.dtype, value_of(self.embedding))
        return take(table, numbers, axis=0, mode="fill")

    def attend(self, query: Any) -> Array:
        """Compute the dot product of each query with each row of the table.

        Args:
          query: an array of shape (..., features).
        """
        table = value_of(self.embedding)
        x, table = in_type(self.dtype or table.dtype, as_input(query, "Embed.attend"), table)
        check_features("Embed.attend", x, table.shape[1], table)
        return x @ table.T


_size = features
