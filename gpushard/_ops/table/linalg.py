"""Functions of matrices, which are whole on a device; dims before the last two are stacks.

Stacks stay split. If a dim of matrices is split, dispatch gathers it first. The dim of the result
with the same letter gets its mesh axes.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import broadcast, writing
from gpushard.dtypes import wide
from gpushard.errors import ArgumentError, ArgumentTypeError, LinearAlgebraError

_REAL: dict[Dtype, Dtype] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
_COMPLEX: dict[Dtype, Dtype] = {real: dtype for dtype, real in _REAL.items()}


def linalg_dtype(name: str, avals: Sequence[Aval]) -> Dtype:
    """Return the working type of matrices: single or double precision, real or complex.

    Integers are computed in double precision, also together with single precision.
    """
    for aval in avals:
        if wide(aval.dtype) != aval.dtype:
            raise ArgumentTypeError(
                f"{name} is not defined for {aval.dtype}; convert with astype to float32",
                argument="x",
                dtype=aval.dtype,
            )
    types = [aval.dtype for aval in avals]
    single = all(t in (np.float32, np.complex64) for t in types)
    parts = np.dtype(np.float32 if single else np.float64)
    return _COMPLEX[parts] if any(t.kind == "c" for t in types) else parts


def own(dtype: Dtype) -> Dtype:
    """Return the type unchanged."""
    return dtype


def real(dtype: Dtype) -> Dtype:
    """Return the type of an absolute value."""
    return _REAL.get(dtype, dtype)


def complex_of(dtype: Dtype) -> Dtype:
    """Return the complex type of the same precision."""
    return _COMPLEX.get(dtype, dtype)


Sizes: TypeAlias = Mapping[str, int]
"""Length of each letter of an operand."""


@dataclass(frozen=True)
class Core:
    """The shapes and types of a function of matrices; it may depend on parameters."""

    inputs: tuple[str, ...]  # a letter for each of the last dims of every operand
    outputs: tuple[str, ...]  # a letter for each of the last dims of every result
    # Takes the working type, returns that of each result.
    types: tuple[Callable[[Dtype], Dtype], ...] = (own,)
    # Returns the lengths of letters in no operand.
    lengths: Callable[[Sizes], dict[str, int]] = lambda sizes: {}
    square: bool = True  # whether the first operand must have as many rows as columns
    free: str = ""  # letters that need not be whole


def matrix_row(
    name: str, core: Callable[..., Core], make: Callable[..., Callable[..., Any]]
) -> Row:
    """Make the row of a function of matrices."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        form = core(*params)
        sizes = _sizes(name, form, avals)
        loops = [a.shape[: len(a.shape) - len(i)] for a, i in zip(avals, form.inputs, strict=True)]
        lead = broadcast(name, loops)
        dtype = linalg_dtype(name, avals)
        return tuple(
            Aval(lead + tuple(sizes[letter] for letter in letters), of(dtype))
            for letters, of in zip(form.outputs, form.types, strict=True)
        )

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        form = core(*params)
        core_rule = rule.cores([a.shape for a in avals], form.inputs, form.outputs)
        lead = len(core_rule.results[0]) - len(form.outputs[0])
        letters = dict.fromkeys("".join((*form.inputs, *form.outputs)))
        loose = {at for at, letter in enumerate(letters, lead) if letter in form.free}
        return dataclasses.replace(core_rule, whole=core_rule.whole - loose)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        types = tuple(aval.dtype for aval in infer(avals, params))
        dtype = linalg_dtype(name, avals)
        return writing(_wrap_linalg(name, xp, make(xp, *params), dtype, types))

    return Row(
        name,
        infer,
        rule_of,
        kernel,
        (Local("LAPACK factors a matrix as one"),),
        threaded=True,
        stacked=broadcasting,
    )


def _sizes(name: str, core: Core, avals: Sequence[Aval]) -> dict[str, int]:
    shapes = tuple(aval.shape for aval in avals)
    sizes: dict[str, int] = {}
    for letters, shape in zip(core.inputs, shapes, strict=True):
        if len(shape) < len(letters):
            raise ArgumentError(
                f"{name}: an operand of shape {shape} must have at least {len(letters)} axes: "
                "matrices are in the last two",
                argument="x",
                shape=shape,
            )
        for letter, n in zip(letters, shape[len(shape) - len(letters) :], strict=True):
            if sizes.setdefault(letter, n) != n:
                raise ArgumentError(
                    f"{name}: operands of shapes {', '.join(map(str, shapes))} do not fit: "
                    f"lengths {sizes[letter]} and {n} must be equal",
                    argument="x",
                    shapes=shapes,
                )
    if core.square and len(set(shapes[0][-2:])) > 1:
        raise ArgumentError(
            f"{name}: matrices of shape {shapes[0][-2:]} are not square; the last two axes must "
            "have equal lengths",
            argument="x",
            shape=shapes[0],
        )
    return sizes | core.lengths(sizes)


def _wrap_linalg(
    name: str, xp: Any, function: Callable[..., Any], dtype: Dtype, types: Sequence[Dtype]
) -> Callable[..., Any]:
    """Adapt a function to matrices of any type; its results are dense and have the right types."""

    def dense(result: Any, of: Dtype) -> Any:
        return xp.ascontiguousarray(result, of) if result.ndim else xp.asarray(result, of)

    def checked(*operands: Any) -> Any:
        try:
            results = function(*(x.astype(dtype, copy=False) for x in operands))
        except np.linalg.LinAlgError as error:
            shape = operands[0].shape
            raise LinearAlgebraError(
                f"{name} failed on matrices of shape {shape}: {str(error).lower()}; check its "
                "matrices with cond or matrix_rank, or use pinv or lstsq",
                operation=name,
                shape=shape,
            ) from None
        if len(types) == 1:
            return dense(results, types[0])
        return tuple(dense(part, of) for part, of in zip(results, types, strict=True))

    return checked


def function_of(xp: Any, name: str) -> Callable[..., Any]:
    """Return the function of NumPy's or CuPy's linalg with a name."""
    function: Callable[..., Any] | None = getattr(xp.linalg, name, None)
    if function is None:
        raise ArgumentTypeError(
            f"{name} is not available on GPUs: this CuPy has no linalg.{name}; compute it on the "
            "host, or install CuPy 14",
            argument="x",
        )
    return function


def _same(*params: Any) -> Core:
    return Core(("mn",), ("mn",))


def _cholesky(xp: Any, upper: bool) -> Callable[..., Any]:
    if not upper:
        return function_of(xp, "cholesky")
    # CuPy has no `upper`: the upper factor is the lower one of the conjugate transpose.
    return lambda x: _conjugate(xp.linalg.cholesky(_conjugate(x)))


def _conjugate(x: Any) -> Any:
    return x.swapaxes(-1, -2).conj()


def _inverse(xp: Any, quiet: bool) -> Callable[..., Any]:
    """Make the kernel of `inv`; singular matrices give NaN if `quiet`."""
    inv = xp.linalg.inv
    if not quiet:
        return lambda x: inv(x)
    return functools.partial(_inverse_or_nan, xp)


def _inverse_or_nan(xp: Any, x: Any) -> Any:
    """Invert matrices; NaN for singular ones."""
    try:
        return xp.linalg.inv(x)
    except np.linalg.LinAlgError:
        if x.ndim == 2:
            return xp.full_like(x, np.nan)
        return xp.stack([_inverse_or_nan(xp, matrix) for matrix in x])


def _solve(xp: Any) -> Callable[..., Any]:
    solve: Callable[..., Any] = xp.linalg.solve
    if xp is np:
        return solve

    def broadcast_first(a: Any, b: Any) -> Any:  # CuPy's does not
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return solve(*(xp.broadcast_to(x, lead + x.shape[-2:]) for x in (a, b)))

    return broadcast_first


CHOLESKY = matrix_row("cholesky", _same, _cholesky)
"""Parameters: whether to return the upper factor."""
INV = matrix_row("inv", _same, _inverse)
"""Parameters: whether singular matrices give NaN instead of an error."""
DET = matrix_row("det", lambda: Core(("mn",), ("",)), lambda xp: xp.linalg.det)
SLOGDET = matrix_row(
    "slogdet", lambda: Core(("mn",), ("", ""), (own, real)), lambda xp: xp.linalg.slogdet
)
SOLVE = matrix_row("solve", lambda: Core(("mn", "mk"), ("nk",), free="k"), _solve)
"""Columns of the right sides may stay split."""


def _as_int32(dtype: Dtype) -> Dtype:
    return np.dtype(np.int32)


def _lu(xp: Any) -> Callable[..., Any]:
    """Make the kernel of an LU factorization with partial pivoting, column by column.

    Trefethen and Bau, Numerical Linear Algebra, algorithm 21.1.
    """

    def factor(x: Any) -> tuple[Any, Any, Any]:
        *lead, m, n = x.shape
        a = x.reshape(math.prod(lead), m, n).copy()
        each, steps = xp.arange(a.shape[0]), min(m, n)
        pivots = xp.zeros((a.shape[0], steps), np.int32)
        order = xp.tile(xp.arange(m, dtype=np.int32), (a.shape[0], 1))
        for j in range(steps):
            pivots[:, j] = at = abs(a[:, j:, j]).argmax(1) + j
            for lines in (a, order):
                mine, theirs = lines[:, j].copy(), lines[each, at]
                lines[each, at], lines[:, j] = mine, theirs
            pivot = a[:, j, j]
            a[:, j + 1 :, j] /= xp.where(pivot == 0, 1, pivot)[:, None]
            a[:, j + 1 :, j + 1 :] -= a[:, j + 1 :, j, None] * a[:, j, None, j + 1 :]
        return a.reshape(x.shape), pivots.reshape(*lead, steps), order.reshape(*lead, m)

    return factor


_QR_PARTS = {"reduced": ("mk", "kn"), "complete": ("mp", "pn"), "r": ("kn",), "raw": ("nm", "k")}


def _lengths(sizes: Sizes) -> dict[str, int]:
    """Return the lengths of new letters: k the shorter dim, p and q as m and n."""
    m, n = sizes["m"], sizes["n"]
    return {"k": min(m, n), "p": m, "q": n}


LU = matrix_row(
    "lu",
    lambda: Core(("mn",), ("mn", "k", "m"), (own, _as_int32, _as_int32), _lengths, square=False),
    _lu,
)


def _qr_core(mode: str) -> Core:
    parts = _QR_PARTS[mode]
    return Core(("mn",), parts, (own,) * len(parts), _lengths, square=False)


def _qr(xp: Any, mode: str) -> Callable[..., Any]:
    return lambda x: xp.linalg.qr(x, mode)


def _svd_core(full: bool, vectors: bool, hermitian: bool) -> Core:
    if not vectors:
        return Core(("mn",), ("k",), (real,), _lengths, square=hermitian)
    parts = ("mp", "k", "qn") if full else ("mk", "k", "kn")
    return Core(("mn",), parts, (own, real, own), _lengths, square=hermitian)


def _svd(xp: Any, full: bool, vectors: bool, hermitian: bool) -> Callable[..., Any]:
    if hermitian:
        return _svd_by_eigenvalues(xp, vectors)
    return lambda x: xp.linalg.svd(x, full_matrices=full, compute_uv=vectors)


def _svd_by_eigenvalues(xp: Any, vectors: bool) -> Callable[..., Any]:
    """Make the kernel of singular values of Hermitian matrices: the sizes of the eigenvalues."""

    def values(x: Any) -> Any:
        return xp.sort(abs(xp.linalg.eigvalsh(x)), axis=-1)[..., ::-1]

    def parts(x: Any) -> Any:
        values, u = xp.linalg.eigh(x)
        order = xp.argsort(abs(values), axis=-1)[..., ::-1]
        values = xp.take_along_axis(values, order, axis=-1)
        u = xp.take_along_axis(u, order[..., None, :], axis=-1)
        signs = xp.where(values < 0, -1, 1).astype(values.dtype)
        return u, abs(values), (u * signs[..., None, :]).swapaxes(-1, -2).conj()

    return parts if vectors else values


QR = matrix_row("qr", _qr_core, _qr)
"""Parameters: the mode; results as in NumPy."""
SVD = matrix_row("svd", _svd_core, _svd)
"""Parameters: whether factors are full, whether to return any, whether operands are Hermitian."""
EIGH = matrix_row(
    "eigh",
    lambda part: Core(("mn",), ("m", "mn"), (real, own)),
    lambda xp, part: lambda x: xp.linalg.eigh(x, part),
)
"""Parameters: "L" or "U", the triangle to use."""
EIGVALSH = matrix_row(
    "eigvalsh",
    lambda part: Core(("mn",), ("m",), (real,)),
    lambda xp, part: lambda x: xp.linalg.eigvalsh(x, part),
)
"""Parameters: as for `EIGH`."""
EIG = matrix_row(
    "eig",
    lambda: Core(("mn",), ("m", "mn"), (complex_of, complex_of)),
    lambda xp: function_of(xp, "eig"),
)
EIGVALS = matrix_row(
    "eigvals", lambda: Core(("mn",), ("m",), (complex_of,)), lambda xp: function_of(xp, "eigvals")
)
