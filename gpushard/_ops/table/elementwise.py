"""Elementwise operations: a row for every NumPy ufunc, and a few other functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpushard._ops import rule
from gpushard._ops.aval import Aval, Dtype
from gpushard._ops.host_remainder import remainder
from gpushard._ops.host_where import where_on_host
from gpushard._ops.narrow_floats import in_single
from gpushard._ops.programs.local import Local
from gpushard._ops.row import Kernel, Params, Row, broadcasting
from gpushard._ops.rule import Rule
from gpushard._runtime.host.ufuncs import host_ufunc
from gpushard._runtime.namespace import own_kernels, special_functions
from gpushard._typing import LocalArray, Shape
from gpushard.dtypes import is_custom, real_of, result_type, wide
from gpushard.errors import ArgumentError, ArgumentTypeError

_LOGICAL = (np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
_COMPARISONS = (np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
_HALF = np.dtype(np.float16)
_OF_ANGLES = (np.rad2deg, np.deg2rad, np.degrees, np.radians)
"""Ufuncs for which CuPy multiplies by a constant, rounded to the type of the operand."""


def broadcast(name: str, shapes: Sequence[Shape]) -> Shape:
    """Return the common broadcast shape."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ArgumentError(
            f"{name}: operands of shapes {', '.join(map(str, shapes))} do not broadcast; aligned "
            "at the last axis, lengths must be equal or 1",
            argument="x",
            shapes=tuple(shapes),
        ) from None


def _rule(avals: Sequence[Aval], params: Params, results: int = 1) -> Rule:
    shapes = [aval.shape for aval in avals]
    return rule.elementwise(shapes, np.broadcast_shapes(*shapes), results)


@functools.lru_cache(maxsize=1024)
def _loop(ufunc: np.ufunc, promoting: tuple[Any, ...]) -> tuple[tuple[Dtype, ...], ...]:
    """Return the types in which a ufunc computes, and those of its results."""
    try:
        if _is_narrow(ufunc, promoting):
            return _narrow_loop(ufunc, promoting)
        types = ufunc.resolve_dtypes((*promoting, *[None] * ufunc.nout))
    except TypeError:
        names = ", ".join(getattr(t, "__name__", None) or str(t) for t in promoting)
        raise ArgumentTypeError(
            f"{ufunc.__name__} is not defined for {names}; convert the operands with astype",
            argument="x",
            dtypes=promoting,
        ) from None
    return types[: ufunc.nin], types[ufunc.nin :]


def _is_narrow(ufunc: np.ufunc, promoting: tuple[Any, ...]) -> bool:
    """Test for floats of a type for which the ufunc may have no loop.

    These are types of `ml_dtypes`, and float16 in SciPy's ufuncs.
    """
    types = [t for t in promoting if isinstance(t, np.dtype)]
    if any(map(is_custom, types)):
        return True
    return _HALF in types and not _is_numpys(ufunc) and result_type(*promoting) == _HALF


def _narrow_loop(ufunc: np.ufunc, promoting: tuple[Any, ...]) -> tuple[tuple[Dtype, ...], ...]:
    """Return the types of a ufunc as `_loop` does, for narrow floats.

    Ufuncs without a loop for such a type compute in single precision and round their results.
    """
    common = result_type(*promoting)
    results = (None,) * ufunc.nout
    types = () if ufunc is np.ldexp else ufunc.resolve_dtypes((*[common] * ufunc.nin, *results))
    if not types or types[0] != common:
        operand_types = (
            (wide(common), *promoting[1:]) if ufunc is np.ldexp else (wide(common),) * ufunc.nin
        )
        types = ufunc.resolve_dtypes((*operand_types, *results))
    outer = (common if t == wide(common) else t for t in types[ufunc.nin :])
    return types[: ufunc.nin], tuple(outer)


def promoting(avals: Sequence[Aval]) -> tuple[Any, ...]:
    """Return the types of operands for NumPy's promotion."""
    if all(aval.weak for aval in avals):
        return tuple(aval.dtype for aval in avals)
    return tuple(aval.promoting for aval in avals)


@functools.cache
def ufunc_row(ufunc: np.ufunc) -> Row:
    """Make the row of a ufunc without core dims.

    >>> ufunc_row(np.add)
    Row(add)
    """

    def loop(avals: Sequence[Aval]) -> tuple[Dtype, ...]:
        types, results = _loop(ufunc, promoting(avals))
        if _is_narrow(ufunc, promoting(avals)):  # numbers take the type of the arrays
            common = result_type(*promoting(avals))
            types = tuple(common if t == wide(common) else t for t in types)
        return *types, *results

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        shape = broadcast(ufunc.__name__, [aval.shape for aval in avals])
        weak = all(aval.weak for aval in avals)
        result_types = _loop(ufunc, promoting(avals))[1]
        return tuple(Aval(shape, t, weak and t.kind in "iufc") for t in result_types)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        types, results = _loop(ufunc, promoting(avals))
        if xp is np and ufunc is np.remainder and types[0].kind in "iu":
            return remainder
        operand_types = (*types, *(aval.dtype for aval in avals))
        as_bool = xp is not np and ufunc in _LOGICAL and any(t.kind == "c" for t in operand_types)
        if as_bool:  # CuPy has these only for real numbers
            types = (np.dtype(np.bool_),) * ufunc.nin
        function = host_ufunc(ufunc) if xp is np else _elsewhere(xp, ufunc, types)
        if xp is not np and ufunc in _OF_ANGLES and (inside := tuple(map(wide, types))) != types:
            return _giving(_in_types(function, inside), results)
        if _is_narrow(ufunc, promoting(avals)):
            return _giving(_in_types(function, types), results)
        loops = None if xp is np else getattr(function, "types", ())
        if loops is not None and not (loops and _is_numpys(ufunc)):
            # Some loops of CuPy's special functions differ from SciPy's; our own have none.
            exact = all(a.dtype == t for a, t in zip(avals, types, strict=True))
            if not exact or _loop_name(types, results) not in loops:
                return _in_types(function, types)
        if as_bool or any(a.weak and a.dtype != t for a, t in zip(avals, types, strict=True)):
            return _in_types(function, types)
        return function

    return Row(
        name=ufunc.__name__,
        infer=infer,
        rule=functools.partial(_rule, results=ufunc.nout),
        kernel=kernel,
        strategies=(Local(),),
        loop=loop,
        compares=ufunc in _COMPARISONS,
        stacked=broadcasting,
    )


def _elsewhere(xp: Any, ufunc: np.ufunc, types: Sequence[Dtype]) -> Any:
    functions = xp if _is_numpys(ufunc) else special_functions(xp)
    function = getattr(functions, ufunc.__name__, None)
    if function is None:
        raise ArgumentTypeError(
            f"{ufunc.__name__} is not available on GPUs: CuPy has no function of that name; "
            "compute it from others, or on the host",
            argument="x",
        )
    loops: Sequence[str] | None = getattr(function, "types", None)
    if loops is not None and not any(_takes(loop, types) for loop in loops):
        names = ", ".join(map(str, types))
        raise ArgumentTypeError(
            f"{ufunc.__name__} is not available for {names} on GPUs: CuPy has no such function; "
            "convert the operands with astype, take real parts, or compute it on the host",
            argument="x",
            dtypes=tuple(types),
        )
    return function


def _takes(loop: str, types: Sequence[Dtype]) -> bool:
    """Test whether a loop, such as "dd->d", accepts operands of given types, maybe converted."""
    pairs = zip(loop.partition("->")[0], types, strict=True)
    return all(
        t.char == char or (char in np.typecodes["All"] and np.can_cast(t, char))
        for char, t in pairs
    )


def _loop_name(types: Sequence[Dtype], results: Sequence[Dtype]) -> str:
    """Return the name of a loop as ufuncs list it, such as "dd->d"."""
    return "->".join("".join(t.char for t in side) for side in (types, results))


def _is_numpys(ufunc: np.ufunc) -> bool:
    return getattr(np, ufunc.__name__, None) is ufunc


def _in_types(function: Any, types: Sequence[Dtype]) -> Kernel:
    """Convert operands before a ufunc."""

    def kernel(*operands: Any, **out: Any) -> Any:
        converted = [x.astype(t, copy=False) for x, t in zip(operands, types, strict=True)]
        return function(*converted, **out)

    return kernel


def _giving(function: Kernel, types: Sequence[Dtype]) -> Kernel:
    """Convert results; NumPy converts them itself if it writes to `out`."""

    def kernel(*operands: Any, **out: Any) -> Any:
        results = function(*operands, **out)
        if out:
            return results
        if isinstance(results, tuple):
            return tuple(x.astype(t, copy=False) for x, t in zip(results, types, strict=True))
        return results.astype(types[0], copy=False)

    return kernel


def writing(function: Callable[..., Any]) -> Kernel:
    """Add `out` to a function that returns a new array, or a tuple of new arrays."""

    def kernel(*operands: Any, out: Any = None) -> Any:
        result = function(*operands)
        if out is None:
            return result
        if isinstance(out, tuple):
            for target, array in zip(out, result, strict=True):
                target[...] = array
        else:
            out[...] = result[0] if isinstance(result, tuple) else result
        return out

    return kernel


def function_row(
    name: str,
    dtype_of: Callable[[Sequence[Aval], Params], Dtype],
    make: Callable[[Any, Params, Dtype], Callable[..., Any]],
    *,
    writes: bool = False,
    beside_keys: frozenset[int] | None = None,
    strong: bool = False,
) -> Row:
    """Make the row of an elementwise function that is not a ufunc."""

    def infer(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
        shape = broadcast(name, [aval.shape for aval in avals])
        weak = not strong and all(aval.weak for aval in avals)
        return (Aval(shape, dtype_of(avals, params), weak),)

    def kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
        function = make(xp, params, dtype_of(avals, params))
        return function if writes else writing(function)

    return Row(
        name, infer, _rule, kernel, (Local(),), beside_keys=beside_keys, stacked=broadcasting
    )


def common_dtype(avals: Sequence[Aval], who: str = "") -> Dtype:
    """Return the common type of operands; errors begin with `who`."""
    try:
        return result_type(*promoting(avals))
    except TypeError:
        raise ArgumentTypeError(
            f"{who}operands of dtypes {', '.join(str(a.dtype) for a in avals)} have no common "
            "type; convert one with astype",
            argument="x",
        ) from None


def _real(avals: Sequence[Aval], params: Params) -> Dtype:
    return real_of(avals[0].dtype)


def _rounded_dtype(avals: Sequence[Aval], params: Params) -> Dtype:
    dtype = avals[0].dtype
    try:
        return np.round(np.zeros(1, dtype), *params).dtype
    except TypeError:
        raise ArgumentTypeError(
            f"round to decimals is not defined for {dtype}; convert it with astype",
            argument="x",
            dtype=dtype,
        ) from None


def _copy_part(part: Callable[[Any], Any]) -> Callable[[Any, Params, Dtype], Kernel]:
    """Make the kernel maker that copies and converts the real or imaginary part."""

    def make(xp: Any, params: Params, dtype: Dtype) -> Kernel:
        def kernel(x: Any, out: Any = None) -> Any:
            if out is None:
                return part(x).astype(dtype, order="C")
            out[...] = part(x)
            return out

        return kernel

    return make


def _where(xp: Any, params: Params, dtype: Dtype) -> Kernel:
    if xp is np:
        return functools.partial(where_on_host, dtype)

    def where(condition: Any, x: Any, y: Any) -> Any:
        return xp.where(condition, *(each.astype(dtype, copy=False) for each in (x, y)))

    kernels = own_kernels(xp) if dtype.isbuiltin == 1 else None
    return writing(where) if kernels is None else kernels.where


def _clip(xp: Any, params: Params, dtype: Dtype) -> Kernel:
    """Make the kernel of `clip` with one or both bounds, as the parameters say."""
    low, high = params

    def clip(x: Any, *bounds: Any, out: Any = None) -> Any:
        remaining = iter(bounds)
        least = next(remaining) if low else None
        most = next(remaining) if high else None
        if is_custom(dtype) or (
            xp is not np and dtype.kind in "?bc"
        ):  # `clip` has no loop for these
            result = x.astype(dtype, copy=False)
            result = result if least is None else xp.maximum(result, least.astype(dtype))
            result = result if most is None else xp.minimum(result, most.astype(dtype))
        elif out is not None and xp is np:
            return np.clip(x, least, most, out, casting="unsafe")
        elif out is not None and x.dtype == dtype:
            return xp.clip(x, least, most, out)
        else:
            result = xp.clip(x, least, most).astype(dtype, copy=False)
        if out is None:
            return result
        out[...] = result
        return out

    return clip


ASTYPE = function_row(
    "astype",
    lambda avals, params: params[0],
    _copy_part(lambda x: x),
    writes=True,
    strong=True,
)
"""Parameters: (dtype,)."""
COPY = function_row(
    "copy",
    lambda avals, params: avals[0].dtype,
    _copy_part(lambda x: x),
    writes=True,
    beside_keys=frozenset(),
)
WHERE = function_row(
    "where",
    lambda avals, params: common_dtype(avals[1:]),
    _where,
    writes=True,
    beside_keys=frozenset([0]),
)
"""No parameters; the condition comes first."""
CLIP = function_row("clip", lambda avals, params: common_dtype(avals), _clip, writes=True)
"""Parameters: whether there are a lower and an upper bound; the bounds are operands."""
REAL = function_row("real", _real, _copy_part(lambda x: x.real), writes=True)
IMAG = function_row("imag", _real, _copy_part(lambda x: x.imag), writes=True)
ROUND = in_single(
    function_row(
        "round",
        _rounded_dtype,
        lambda xp, params, dtype: lambda x, out=None: xp.round(x, *params, out),
        writes=True,
    )
)
"""Parameters: (decimals,)."""


def _of_bessel(avals: Sequence[Aval], params: Params) -> Dtype:
    dtype = avals[0].dtype
    if dtype.kind == "c":
        raise ArgumentTypeError(
            f"i0 is not defined for {dtype}; take real parts", argument="x", dtype=dtype
        )
    return dtype if dtype.kind == "f" else np.dtype(np.float64)


I0 = in_single(
    function_row(
        "i0", _of_bessel, lambda xp, params, dtype: lambda x: xp.i0(x.astype(dtype, copy=False))
    )
)


def _viewed_shape(avals: Sequence[Aval], params: Params) -> tuple[Aval, ...]:
    """Return the shape of elements with their bytes reinterpreted as another type."""
    (x,), (dtype,) = avals, params
    if dtype.itemsize == x.dtype.itemsize:
        return (Aval(x.shape, dtype),)
    size = x.shape[-1] * x.dtype.itemsize if x.shape else 1
    if size % dtype.itemsize or not x.shape:
        raise ArgumentError(
            f"view: {x.dtype} of shape {x.shape} cannot be viewed as {dtype}; it needs a last axis "
            f"with a multiple of {dtype.itemsize} bytes",
            argument="dtype",
            dtype=dtype,
            shape=x.shape,
        )
    return (Aval((*x.shape[:-1], size // dtype.itemsize), dtype),)


def _viewed_rule(avals: Sequence[Aval], params: Params) -> Rule:
    if params[0].itemsize == avals[0].dtype.itemsize:
        return _rule(avals, params)
    return rule.along([avals[0].shape], [-1])


def _view_kernel(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    (dtype,) = params

    def view(x: LocalArray, out: Any = None) -> LocalArray:
        seen = xp.ascontiguousarray(x).view(dtype).reshape(_local(x, dtype))
        if out is None:
            return seen.copy()
        out[...] = seen
        return out

    return view


def _local(x: LocalArray, dtype: Dtype) -> Shape:
    if dtype.itemsize == x.dtype.itemsize:
        return tuple(x.shape)
    return (*x.shape[:-1], x.shape[-1] * x.dtype.itemsize // dtype.itemsize)


VIEW = Row(
    "view",
    _viewed_shape,
    _viewed_rule,
    _view_kernel,
    (Local("several elements become one, or one several"),),
    stacked=broadcasting,
)
"""Parameters: (dtype,). The last dim is whole if the sizes of elements differ."""


def _nan_to_num(xp: Any, avals: Sequence[Aval], params: Params) -> Kernel:
    kernels = own_kernels(xp)
    if kernels is not None and avals[0].dtype.kind == "f":
        return lambda x, out=None: kernels.finite(x, params, out)
    return writing(lambda x: xp.nan_to_num(x, True, *params))


NAN_TO_NUM = in_single(
    Row(
        "nan_to_num",
        lambda avals, params: (avals[0],),
        lambda avals, params: rule.elementwise([avals[0].shape], avals[0].shape),
        _nan_to_num,
        (Local(),),
        stacked=broadcasting,
        exact=True,
    )
)
"""Parameters: the replacements of NaN, infinity and minus infinity."""
