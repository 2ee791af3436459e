"""Draw random numbers as in `jax.random`: from a key, without hidden state.

    keys          keys of Threefry-2x32: `key`, `split`, `fold_in`, `KeyArray`
    distributions distributions of numbers: `normal`, `uniform`, `randint` and others
    vectors       `dirichlet`, `multivariate_normal`, `multinomial`, `orthogonal`, `ball`
    permutations  `permutation`
    choices       `choice`, `categorical`
    sampling      check arguments and draw
    placing       place keys and results

An element depends only on the key and on its position in the array. So results are equal for every
sharding, and each device draws its own shard.

>>> from gpushard import random
>>> key = random.key(0)
>>> key, now = random.split(key)
>>> random.normal(now, (2, 3)).shape
(2, 3)
"""

from gpushard._array.key_array import KeyArray
from gpushard.random import choices, distributions, keys, permutations, vectors
from gpushard.random.choices import *
from gpushard.random.distributions import *
from gpushard.random.keys import *
from gpushard.random.permutations import *
from gpushard.random.vectors import *

__all__ = ["KeyArray"]
__all__ += distributions.__all__
__all__ += keys.__all__
__all__ += choices.__all__ + permutations.__all__
__all__ += vectors.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
