"""Layers: modules that hold weights, and those that put them in a row.

linear         `Linear`
convolution    `Conv`
embedding      `Embed`
normalization  `LayerNorm`
dropout        `Dropout`
sequential     `Sequential`
weights        how all of them make their weights, and read them
"""

from gpushard.nnx.layers.convolution import Conv
from gpushard.nnx.layers.dropout import Dropout
from gpushard.nnx.layers.embedding import Embed
from gpushard.nnx.layers.linear import Linear
from gpushard.nnx.layers.normalization import LayerNorm
from gpushard.nnx.layers.sequential import Sequential

__all__ = ["Conv", "Dropout", "Embed", "LayerNorm", "Linear", "Sequential"]
