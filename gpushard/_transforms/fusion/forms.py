"""Operations of a graph as candidates for regions: what they read, and what they reduce."""

from __future__ import annotations

import dataclasses
import functools
import math
import shutil
from collections.abc import Callable, Mapping, Sequence

from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.local import Local
from gpushard._ops.programs.reduce import Reduce
from gpushard._ops.rule import Rule, elementwise, reduction
from gpushard._runtime.host.nests.expressions import TYPES, expression, is_reduction
from gpushard._runtime.kernel_tree import Atom
from gpushard._runtime.nests import LARGE, MOST_SHORT, REDUCTIONS, SHORT
from gpushard._transforms.fusion.layout import Member, op_of
from gpushard._transforms.fusion.views import RegionView
from gpushard._transforms.graph.graph import Operation, Var
from gpushard._transforms.graph.ops import RowOp

_CALL = 4
"""What an operation that calls a function in C, such as `exp`, counts as. Compilers inline about 20
calls in a loop. With more calls they go from element to element, which is 30 times slower."""

_PRODUCTS = ("matmul", "dot", "einsum", "tensordot", "vecdot")


@dataclasses.dataclass(eq=False)
class Form:
    """An operation as a candidate for regions."""

    step: Operation
    op: RowOp  # its kind and parameters
    rule: Rule  # of all operands, including numbers
    views: list[RegionView]  # its arrays, as views of their bases
    reduced: tuple[int, ...]  # factors that it reduces, in the order in which it counts positions
    expressible: bool  # whether it has an expression in C
    name: str = ""  # of the reduction
    # On GPUs: whether a kernel can reduce so many elements and then use the result.
    serves: Callable[[int], bool] | None = None
    weight: int = 1  # operations that it counts as

    @property
    def pays_alone(self) -> bool:
        """Whether a kernel of this operation alone is faster than NumPy's function.

        That is so for functions such as `exp`. It is so for reductions of arrays with short rows,
        too: NumPy takes longer to begin a row than to reduce it.
        """
        short_rows = self.name in REDUCTIONS and self.step.arrays[0].shape[-1] <= SHORT
        large = math.prod(self.rule.sizes) >= LARGE and self.expressible
        return large and (short_rows or self.weight > 1) and _has_compiler(self.step)

    @property
    def factors(self) -> list[tuple[int | None, ...]]:
        """The factors of the dims of each of its arrays."""
        return [dims for n, dims in enumerate(self.rule.operands) if n not in self.op.scalars]

    def along(self, loops: Mapping[int, int]) -> Member:
        """Return the operation in a region, from the loops that its factors are."""

        def as_loops(dims: Sequence[int | None]) -> tuple[int | None, ...]:
            return tuple([None if n is None else loops.get(n) for n in dims])

        reduced = tuple([loops[n] for n in self.reduced if n in loops])
        operands, dims = list(map(as_loops, self.factors)), as_loops(self.rule.results[0])
        return Member(self.step, self.op, self.views, operands, dims, reduced, self.name)


def form_of(step: Operation, views: dict[Var, RegionView]) -> Form | None:
    """Read an operation as a candidate; None if it cannot be in a region."""
    op, arrays = step.op, step.arrays
    if not isinstance(op, RowOp) or op.row.creates or len(step.results) != 1 or not arrays:
        return None
    if len(arrays) < len(step.operands):
        return None
    row, result = op.row, step.results[0]
    if result.sharding.memory_kind != "device":
        return None
    if any(0 in x.shape for x in (*arrays, result)):
        return None
    seen = [views.get(x) or RegionView.of(x) for x in arrays]
    avals = op.avals(arrays)
    rule = row.rule_for(avals, op.params)
    if len(row.strategies) == 1:
        if row.positional or type(row.strategies[0]) is not Local or rule.whole:
            return None
        full = elementwise([aval.shape for aval in avals], result.shape)
        if rule.operands != full.operands or rule.results != full.results:
            return None
        types = tuple(row.loop(avals)[: len(avals)] if row.loop else [a.dtype for a in avals])
        numbers = iter(op.numbers)
        values = [next(numbers) if at in op.scalars else None for at in range(len(avals))]
        if not _is_on_host(step):
            return _gpu_form(Form(step, op, rule, seen, (), True))
        text = expression(row.name, [Atom("x")] * len(avals), types, result.dtype, values)
        calls = text is not None and "gs_" in str(text)  # a function of the prelude
        return Form(step, op, rule, seen, (), text is not None, weight=_CALL if calls else 1)
    form = _reduction_form(step, op, rule, seen)
    return form if form is None or _is_on_host(step) else _gpu_form(form)


def _is_on_host(step: Operation) -> bool:
    """Whether kernels of an operation run on the host."""
    return devices_of(step.results[0].tiling)[0].runtime.backend.host_readable


def _has_compiler(step: Operation) -> bool:
    """Whether kernels of an operation on the host are compiled if they are large."""
    settings = devices_of(step.results[0].tiling)[0].runtime.settings
    return _is_on_host(step) and shutil.which(settings.compiler) is not None


def _gpu_form(form: Form) -> Form | None:
    """Complete a candidate for kernels of a GPU; None if it cannot be in one."""
    step = form.step
    op = op_of(step, form.op, form.name, range(len(step.operands)))
    numbers = [(value.dtype, t) for (at, value), t in zip(op.operands, op.types, strict=False)
               if at is None]  # fmt: skip
    if form.op.row.loop and any(dtype != t for dtype, t in numbers):
        return None  # a number beyond the type, which acts as an infinite one
    arrays = iter(step.arrays)
    types = [value.dtype if at is None else next(arrays).dtype for at, value in op.operands]
    fuses = devices_of(step.results[0].tiling)[0].runtime.backend.fuses
    form.serves, form.expressible = functools.partial(fuses, op, types), True
    return form if fuses(op, types, 0) else None


def _reduction_form(step: Operation, op: RowOp, rule: Rule, seen: list[RegionView]) -> Form | None:
    """Read a reduction as a candidate; None if it cannot be in a region."""
    row, avals, result = op.row, op.avals(step.operands), step.results[0]
    if op.numbers or not isinstance(row.strategies[0], Reduce):
        return None
    types = [aval.dtype for aval in avals]
    if _is_on_host(step):
        known = {result.dtype, *types} <= TYPES.keys()
        if not known or all(rule.sizes[factor] == 1 for factor in rule.reduced):
            return None
    if not rule.reduced:
        return None
    if row.name in _PRODUCTS:
        if _is_on_host(step) and not _has_compiler(step):
            return None  # without a compiler, a library is faster
        (a, b) = rule.operands if len(rule.operands) == 2 else ((), ())
        factors = set(rule.reduced)
        plain = len(set(a)) == len(a) and len(set(b)) == len(b) and None not in (*a, *b)
        whole = (
            not rule.whole and result.dtype.kind in "f" and all(t == result.dtype for t in types)
        )
        if not (plain and whole and factors <= set(a) and factors <= set(b)):
            return None
        short = sum(n <= SHORT for n in rule.sizes) >= len(rule.sizes) - 1
        if not short or math.prod(n for n in rule.sizes if n <= SHORT) > MOST_SHORT:
            return None
        return Form(step, op, rule, seen, rule.reduced, True, "product")
    if row.name not in REDUCTIONS or len(avals) != 1:
        return None
    x, axes = avals[0], op.params[0]
    dims = [len(x.shape) + axis if axis < 0 else axis for axis in axes]
    if rule != reduction(x.shape, dims, keepdims=op.params[1]):
        return None
    if REDUCTIONS[row.name].position and any(x.shape[dim] > SHORT for dim in dims):
        return None
    if row.name == "mean" and result.dtype.kind in "biu":  # the quotient is rounded down
        return None
    known = is_reduction(row.name, x.dtype, result.dtype)
    return Form(step, op, rule, seen, tuple(dims), known, row.name)
