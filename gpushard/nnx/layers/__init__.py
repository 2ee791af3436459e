"""Layers: modules with weights, and modules that compose them.

linear         `Linear`
convolution    `Conv`
embedding      `Embed`
normalization  `LayerNorm`
dropout        `Dropout`
sequential     `Sequential`
weights        create and read the weights of all layers
"""

from gpushard.nnx.layers.convolution import Conv
from gpushard.nnx.layers.dropout import Dropout
from gpushard.nnx.layers.embedding import Embed
from gpushard.nnx.layers.linear import Linear
from gpushard.nnx.layers.normalization import LayerNorm
from gpushard.nnx.layers.sequential import Sequential

__all__ = ["Conv", "Dropout", "Embed", "LayerNorm", "Linear", "Sequential"]
