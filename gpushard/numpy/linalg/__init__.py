"""Compute with matrices, under the names of `numpy.linalg` and the Array API.

Arguments are stacks of matrices: the last two axes are rows and columns. The other axes stay split
over devices. If rows or columns are split, elements first move between devices so that each device
has whole matrices. The results are then split like the arguments.

    decompositions  QR, Cholesky, singular values, eigenvalues
    solving         equations, inverses, determinants
    norms           norms, condition numbers, ranks
    products        products, powers, diagonals

>>> import gpushard as gs
>>> x = gs.numpy.eye(4, out_sharding=gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
>>> inv(x).sharding.spec
PartitionSpec('x')
"""

from gpushard.errors import LinearAlgebraError as LinAlgError
from gpushard.numpy.linalg import decompositions, norms, products, solving
from gpushard.numpy.linalg.decompositions import *
from gpushard.numpy.linalg.norms import *
from gpushard.numpy.linalg.products import *
from gpushard.numpy.linalg.solving import *
from gpushard.numpy.linear_algebra import matmul, matrix_transpose, tensordot, vecdot

__all__ = ["LinAlgError", "matmul", "matrix_transpose", "tensordot", "vecdot"]
__all__ += decompositions.__all__
__all__ += norms.__all__
__all__ += products.__all__
__all__ += solving.__all__


def __dir__() -> list[str]:
    return sorted(__all__)
