"""Products that sum over shared dims of operands.

Each is an Einstein sum; parameters: (subscripts,), with a letter for each dim and no ellipsis.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._frozen import dataclass
from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.merge_in_order import InOrder
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.row import Kernel, Params, Row, Stack, only
from gpushard._ops.rule import Rule
from gpushard._ops.table.elementwise import common_dtype
from gpushard._typing import LocalArray, Shape
from gpushard.dtypes import is_custom, wide
from gpushard.errors import ArgumentError

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
"""The letters for dims."""


def product_dtype(name: str, avals: Sequence[Aval]) -> Dtype:
    """Return the type of a sum of products."""
    return common_dtype(avals, f"{name}: ")


def _sizes(name: str, avals: Sequence[Aval], subscripts: str) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for letters, aval in zip(subscripts.split("->")[0].split(","), avals, strict=True):
        for dim, (letter, n) in enumerate(zip(letters, aval.shape, strict=True)):
            known = sizes.get(letter, 1)
            if n != known and 1 not in (n, known):
                why = f"axis {dim} of one has length {n}, and the axis to match has {known}"
                raise _unfit(name, avals, why)
            if letter not in sizes or known == 1:
                sizes[letter] = n
    return sizes


def _unfit(name: str, avals: Sequence[Aval], why: str) -> ArgumentError:
    shapes = tuple(a.shape for a in avals)
    return ArgumentError(
        f"{name}: operands of shapes {', '.join(map(str, shapes))} do not fit: {why}",
        argument="x",
        shapes=shapes,
    )


def _check_summed(name: str, avals: Sequence[Aval], subscripts: str, sizes: dict[str, int]) -> None:
    left, right = subscripts.split("->")
    for letters, aval in zip(left.split(","), avals, strict=True):
        for letter, n in zip(letters, aval.shape, strict=True):
            if name != "einsum" and letter not in right and n != sizes[letter]:
                why = f"the axes to sum over have lengths {n} and {sizes[letter]}"
                raise _unfit(name, avals, why)


def _whole(subscripts: str) -> str:
    """Return the letters that are twice in an operand: diagonals, which no mesh axis can split."""
    names = subscripts.split("->")[0].split(",")
    return "".join(
        letter for letters in names for letter in set(letters) if letters.count(letter) > 1
    )


def _product(name: str) -> Row:
    """Make the row of a product.

    Only `einsum` broadcasts a summed dim of length 1.
    """

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        (subscripts,) = params
        sizes = _sizes(name, avals, subscripts)
        _check_summed(name, avals, subscripts, sizes)
        shape: Shape = tuple(sizes[letter] for letter in subscripts.split("->")[1])
        return (Aval(shape, product_dtype(name, avals), all(a.weak for a in avals)),)

    def rule_of(avals: Sequence[Aval], params: Params) -> Rule:
        (subscripts,) = params
        return rule.parse(subscripts, [a.shape for a in avals], _whole(subscripts))

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        dtype = product_dtype(name, avals)
        function = product_of(xp, params[0], avals)
        single = _in_type(function, avals, wide(dtype), dtype)
        if xp is np or wide(dtype) == dtype or is_custom(dtype):
            return single
        return _of_halves(_in_type(function, avals, dtype, dtype), single, params[0])

    def local(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        (state,) = states(avals, params)
        return _in_type(product_of(xp, params[0], avals), avals, state, state)

    def states(avals: Sequence[Aval], params: Params) -> tuple[Dtype, ...]:
        return (wide(product_dtype(name, avals)),)

    def merge(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        return InOrder(xp, "add")  # for booleans: or

    def finish(xp: Any, avals: Sequence[Aval], params: Params) -> Any:
        dtype = product_dtype(name, avals)
        return only if wide(dtype) == dtype else lambda s, n: s[0].astype(dtype, copy=False)

    def product_of(xp: Any, subscripts: str, avals: Sequence[Aval]) -> Kernel:
        by_matmul = name == "matmul" and _is_broadcast(subscripts)
        return (_matmul if by_matmul else _kernel)(xp, subscripts, avals)

    reduction = Reduce(states, local, merge, finish)
    twice = "a letter that an operand has twice is a diagonal, which no mesh axis splits"
    diagonal = Local(twice if name == "einsum" else "")
    return Row(
        name,
        infer,
        rule_of,
        kernel,
        (reduction, diagonal),
        threaded=True,
        turned=_transpose_subscripts,
        stacked=_stack_subscripts,
    )


@functools.lru_cache(maxsize=1024)
def _stack_subscripts(
    params: Params, shapes: tuple[Shape, ...], dims: tuple[tuple[int, ...], ...], lead: int
) -> Stack:
    """Return the parameters for operands with more dims in front.

    >>> _stack_subscripts(("ab,bc->ac",), (), ((0, 1), (1,)), 2).params
    ('ABab,Bbc->ABac',)
    """
    left, right = params[0].split("->")
    free = sorted(set(LETTERS) - set(params[0]))[:lead]
    names = (
        "".join(free[dim] for dim in dims_of_operand) + letters
        for dims_of_operand, letters in zip(dims, left.split(","), strict=True)
    )
    return Stack((f"{','.join(names)}->{''.join(free)}{right}",), (None,) * len(dims))


@functools.lru_cache(maxsize=1024)
def _transpose_subscripts(params: Params, position: int, axes: tuple[int, ...]) -> Params:
    """Return the parameters for the source of a transposed operand.

    >>> _transpose_subscripts(("ab,bc->ac",), 0, (-1, -2))
    ('ba,bc->ac',)
    """
    left, right = params[0].split("->")
    names = left.split(",")
    letters: list[str] = [""] * len(axes)
    for axis, letter in zip(axes, names[position], strict=True):
        letters[axis] = letter
    names[position] = "".join(letters)
    return (f"{','.join(names)}->{right}",)


def _in_type(kernel: Kernel, avals: Sequence[Aval], work: Dtype, dtype: Dtype) -> Kernel:
    """Adapt a kernel to operands of any type: it computes in one type and returns another."""
    if all(aval.dtype == work for aval in avals):  # results then have it too
        return kernel

    def converted(*operands: Any, out: Any = None) -> Any:
        typed = [x.astype(work, copy=False) for x in operands]
        if work == dtype:
            return kernel(*typed, out=out)
        if out is None:
            return kernel(*typed).astype(dtype)
        out[...] = kernel(*typed)
        return out

    return converted


def _of_halves(kernel: Kernel, single: Kernel, subscripts: str) -> Kernel:
    """Make a kernel for halves on GPUs: in halves for two matrices, else in single precision.

    cuBLAS adds up products of halves in single precision. If CuPy does not call cuBLAS, as for
    vectors, products are rounded to halves, and so are intermediate results of three operands.
    """
    names = subscripts.split("->")[0].split(",")

    def chosen(*operands: Any, out: Any = None) -> Any:
        matrices = len(names) == 2 and all(
            any(n > 1 for letter, n in zip(names_of_x, x.shape, strict=True) if letter not in other)
            for names_of_x, x, other in zip(names, operands, reversed(names), strict=True)
        )
        return (kernel if matrices else single)(*operands, out=out)

    return chosen


def _matmul(xp: Any, subscripts: str, avals: Sequence[Aval]) -> Kernel:
    """Make the kernel of `matmul`, which broadcasts, for operands that may be transposed."""
    first, second = subscripts.split("->")[0].split(",")
    orders = [_order(first, "ba"), _order(second, "ac")]
    function: Kernel = xp.matmul
    if all(order == sorted(order) for order in orders):
        return function

    def kernel(x: Any, y: Any, out: Any = None) -> Any:
        return function(x.transpose(orders[0]), y.transpose(orders[1]), out=out)

    return kernel


@functools.lru_cache(maxsize=1024)
def _is_broadcast(subscripts: str) -> bool:
    """Test whether one `matmul` computes the subscripts, with operands in any order of dims.

    >>> _is_broadcast("ba,dac->dbc"), _is_broadcast("Aa,Aac->Ac")
    (True, False)
    """
    left, right = subscripts.split("->")
    batch = sorted(set(right) - set("bc"))
    for letters, column in zip(left.split(","), "bc", strict=True):
        more = sorted(set(letters) - {"a", column})
        if more != batch[len(batch) - len(more) :] or (more and column not in letters):
            return False
    return True


def _order(letters: str, last: str) -> list[int]:
    """Return the order of dims of an operand of `matmul` with its matrices last.

    >>> _order("abd", "ba")
    [2, 1, 0]
    """
    return sorted(range(len(letters)), key=lambda dim: (last.find(letters[dim]), letters[dim]))


def _kernel(xp: Any, subscripts: str, avals: Sequence[Aval]) -> Kernel:
    """Make the kernel of a product of one type: `matmul`, a call of BLAS, if possible."""
    left, right = subscripts.split("->")
    names = left.split(",")
    if len(names) == 2 and right == "".join(names):
        return _outer(xp, len(names[1]))
    if len(names) == 2:
        product = _as_matmul(xp, names[0], names[1], right, avals)
        if product is not None:
            return product
    more = {"optimize": True} if len(names) > 2 else {}

    def kernel(*operands: Any, out: Any = None) -> Any:
        result = xp.einsum(subscripts, *operands, **more)
        if out is None:
            return result if result.flags.c_contiguous and result.base is None else result.copy()
        out[...] = result
        return out

    return kernel


def _outer(xp: Any, ndim: int) -> Kernel:
    """Make the kernel of a product without sums; adding -0 to 0 would lose the sign."""

    def kernel(x: Any, y: Any, out: Any = None) -> Any:
        return xp.multiply(x.reshape(x.shape + (1,) * ndim), y, out=out)

    return kernel


def _as_matmul(xp: Any, a: str, b: str, right: str, avals: Sequence[Aval]) -> Kernel | None:
    """Make the kernel of a matrix product as a call of `matmul`; None for other products."""
    shared = [x for x in a if x in b and x not in right]
    once = len(set(a)) == len(a) and len(set(b)) == len(b)
    summed = set(a + b) - set(right)
    if not shared or not once or len(shared) < len(summed):
        return None
    sizes = [avals[0].shape[a.index(x)] == avals[1].shape[b.index(x)] for x in a if x in b]
    if not all(sizes):  # an operand is broadcast
        return None
    plan = _matrices(a, b, right, tuple(x.shape for x in avals))
    if xp is np and set(a) == set(b):
        if a != b or not a.startswith(right):
            return None  # einsum sums elements in place and transposes nothing
        if not right:
            return _inner
    if xp is not np and plan.target != tuple(range(len(right))):
        return None  # CuPy's matmul writes to dense arrays only
    if plan.is_plain:
        function: Kernel = xp.matmul
        return function
    return functools.partial(_multiply, xp, plan)


@dataclass(frozen=True)
class _Matrices:
    """A product of two operands as matrices: (batch, rows, shared) and (batch, shared, columns)."""

    flipped: bool  # whether the rows are of the second operand
    first: tuple[int, ...]  # order of the dims of what has the rows
    second: tuple[int, ...]  # of what has the columns
    target: tuple[int, ...]  # of the result: batch, rows, columns
    counts: tuple[int, int, int]  # of dims: batch, rows, shared
    dense: tuple[bool, bool, bool]  # of each of the three, whether it is read or written in place
    copied: int  # elements that are copied first, or last

    @property
    def is_plain(self) -> bool:
        """Whether it is what `matmul` does."""
        orders = (self.first, self.second, self.target)
        in_order = all(order == tuple(range(len(order))) for order in orders)
        single = self.counts[1:] == (1, 1) and len(self.second) == self.counts[0] + 2
        return in_order and single and not self.flipped and all(self.dense)


@functools.lru_cache(maxsize=1024)
def _matrices(a: str, b: str, right: str, shapes: tuple[Shape, ...]) -> _Matrices:
    """Choose the matrices of a product, so that few elements are copied.

    BLAS takes matrices that are dense along rows or columns, and writes one that is dense along
    its last dim. Others are copied. The operands may change places: the result is transposed then.

    >>> _matrices("bo", "bi", "io", ((9, 2), (9, 3))).flipped
    True
    >>> _matrices("bhts", "bhsk", "bthk", ((1, 2, 3, 4), (1, 2, 4, 5))).target
    (0, 2, 1, 3)
    """
    plans = []
    for flipped in (False, True):
        x, y = (b, a) if flipped else (a, b)
        size_x, size_y = (math.prod(shape) for shape in (reversed(shapes) if flipped else shapes))
        batch = [letter for letter in right if letter in x and letter in y]
        rows = [letter for letter in right if letter in x and letter not in y]
        columns = [letter for letter in right if letter in y and letter not in x]
        sizes = dict(zip(a + b, (*shapes[0], *shapes[1]), strict=True))
        for letters in (x, y):
            shared = [letter for letter in letters if letter in x and letter in y]
            shared = [letter for letter in shared if letter not in right]
            dense = (
                _is_matrix(x, rows, shared), _is_matrix(y, shared, columns),
                _is_matrix(right, rows, columns) and (not columns or right[-1] == columns[-1]),
            )  # fmt: skip
            size = math.prod(sizes[letter] for letter in right)
            copied = sum(n for n, own in zip((size_x, size_y, size), dense, strict=True) if not own)
            plans.append(_Matrices(
                flipped,
                tuple([x.index(letter) for letter in batch + rows + shared]),
                tuple([y.index(letter) for letter in batch + shared + columns]),
                tuple([right.index(letter) for letter in batch + rows + columns]),
                (len(batch), len(rows), len(shared)),
                dense,
                copied,
            ))  # fmt: skip
    return min(plans, key=lambda plan: (plan.copied, plan.flipped))


def _is_matrix(letters: str, rows: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether a dense array is a stack of matrices for BLAS, without a copy.

    >>> _is_matrix("bthk", "t", "k"), _is_matrix("bthk", "th", "k"), _is_matrix("bthk", "t", "h")
    (True, True, False)
    """
    in_place = all("".join(group) in letters for group in (rows, columns))
    last = [group[-1] for group in (rows, columns) if group]
    return in_place and (not letters or letters[-1] in last)


def _multiply(xp: Any, plan: _Matrices, x: Any, y: Any, out: Any = None) -> Any:
    """Multiply by one call of `matmul` for all matrices."""
    if plan.flipped:
        x, y = y, x
    x, y = x.transpose(plan.first), y.transpose(plan.second)
    n, r, k = plan.counts
    lead, tall, wide = x.shape[:n], x.shape[n : n + r], y.shape[n + k :]
    depth = math.prod(x.shape[n + r :])
    left = x.reshape(*lead, math.prod(tall), depth)
    other = y.reshape(*lead, depth, math.prod(wide))
    if not plan.dense[0]:
        left = xp.ascontiguousarray(left)
    if not plan.dense[1]:
        other = xp.ascontiguousarray(other)
    shape = (*lead, *tall, *wide)
    if out is None:  # a result of `matmul` may have its dims in another order in memory
        back = sorted(range(len(shape)), key=plan.target.__getitem__)
        out = xp.empty([shape[at] for at in back], left.dtype)
    seen = out.transpose(plan.target)
    if plan.dense[2] and out.flags.c_contiguous:
        xp.matmul(left, other, out=seen.reshape(*lead, math.prod(tall), math.prod(wide)))
    else:
        seen[...] = xp.matmul(left, other).reshape(shape)
    return out


def _inner(x: LocalArray, y: LocalArray, out: Any = None) -> Any:
    """Sum the products of all elements, as vectors, in the order of memory."""
    return np.matmul(x.ravel(), y.ravel(), out=out)


@functools.lru_cache(maxsize=1024)
def matmul_subscripts(x: Shape, y: Shape) -> str:
    """Return the subscripts of a matrix product.

    >>> matmul_subscripts((2, 3), (3, 4)), matmul_subscripts((3,), (5, 3, 4))
    ('ba,ac->bc', 'a,dac->dc')
    """
    if not x or not y:
        raise ArgumentError(
            f"matmul: operands of shapes {x} and {y} need at least one axis each; use x * y",
            argument="x",
            shapes=(x, y),
        )
    rows, columns = "b" * (len(x) > 1), "c" * (len(y) > 1)
    batch = LETTERS[3:][: max(len(x), len(y), 2) - 2]
    first = batch[len(batch) - max(len(x) - 2, 0) :]
    second = batch[len(batch) - max(len(y) - 2, 0) :]
    return f"{first}{rows}a,{second}a{columns}->{batch}{rows}{columns}"


EINSUM = _product("einsum")
MATMUL = _product("matmul")
DOT = _product("dot")
VECDOT = _product("vecdot")
TENSORDOT = _product("tensordot")
OUTER = _product("outer")
