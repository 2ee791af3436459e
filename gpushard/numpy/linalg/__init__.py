"""Linear algebra under the names of `numpy.linalg` and of the Array API's extension.

Matrices are the last two dims. Dims before them, stacks, stay split; where a dim of matrices is
split, it is moved so that matrices are whole, from shard to shard, and results get the split back.

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
from gpushard.numpy.linalg.decompositions import (
    EighResult,
    EigResult,
    QRResult,
    SVDResult,
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    qr,
    svd,
    svdvals,
)
from gpushard.numpy.linalg.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from gpushard.numpy.linalg.products import (
    cross,
    diagonal,
    matrix_power,
    multi_dot,
    outer,
    trace,
)
from gpushard.numpy.linalg.solving import (
    SlogdetResult,
    det,
    inv,
    lstsq,
    pinv,
    slogdet,
    solve,
    tensorinv,
    tensorsolve,
)
from gpushard.numpy.linear_algebra import matmul, matrix_transpose, tensordot, vecdot

__all__ = [
    "EigResult",
    "EighResult",
    "LinAlgError",
    "QRResult",
    "SVDResult",
    "SlogdetResult",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


def __dir__() -> list[str]:
    return list(__all__)
