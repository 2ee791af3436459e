"""Layer 8: `gpushard.numpy`, functions of sharded arrays under NumPy's and the Array API's names.

A file for each section of the standard (https://data-apis.org/array-api/2025.12): `elementwise`,
`statistical` with `cumulative`, `searching`, `sorting`, `sets` with `uniques`, `linear_algebra`,
`creation` with `ranges` and `grids`, `manipulation` with `joining`, `splitting`, `editing`,
`rearranging` and `padding`, `indexing` with `positions`, `data_type`, `constants`, `info`. NumPy's
own are `comparison`, `number_kinds`, `averages`, `nan_functions`, `quantiles`, `histograms` with
`bin_edges`, `differences`, `signals`, `windows`, `polynomials`, `bits`, `applying`, `products` and
`correlation`. The extensions, `linalg`, `fft` and `special`, are imported when they are first asked
for. `protocol` lets NumPy's own functions take arrays.

Functions take arrays, and what `asarray` takes. They run where their operands lie.

>>> import gpushard as gs
>>> x = gs.numpy.arange(8, out_sharding=gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x")))
>>> gs.numpy.sqrt(x * x).sharding.spec
PartitionSpec('x')
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from gpushard import dtypes
from gpushard.array import Array
from gpushard.array.protocols import provide
from gpushard.numpy import protocol
from gpushard.numpy.applying import (
    apply_along_axis,
    apply_over_axes,
    fromfunction,
    piecewise,
    vectorize,
)
from gpushard.numpy.averages import (
    average,
    ptp,
)
from gpushard.numpy.bits import (
    packbits,
    unpackbits,
)
from gpushard.numpy.comparison import (
    allclose,
    array_equal,
    array_equiv,
    copy,
    isclose,
    ndim,
    shape,
    size,
)
from gpushard.numpy.constants import (
    e,
    euler_gamma,
    inf,
    nan,
    newaxis,
    pi,
)
from gpushard.numpy.correlation import (
    corrcoef,
    cov,
)
from gpushard.numpy.creation import (
    array,
    asarray,
    empty,
    empty_like,
    from_dlpack,
    full,
    full_like,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from gpushard.numpy.cumulative import (
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    nancumprod,
    nancumsum,
)
from gpushard.numpy.data_type import (
    astype,
    bool,
    bool_,
    can_cast,
    cdouble,
    complex64,
    complex128,
    complexfloating,
    csingle,
    double,
    dtype,
    finfo,
    float16,
    float32,
    float64,
    floating,
    generic,
    iinfo,
    inexact,
    int8,
    int16,
    int32,
    int64,
    int_,
    integer,
    intp,
    isdtype,
    issubdtype,
    number,
    promote_types,
    result_type,
    signedinteger,
    single,
    uint,
    uint8,
    uint16,
    uint32,
    uint64,
    uintp,
    unsignedinteger,
)
from gpushard.numpy.differences import (
    diff,
    ediff1d,
    gradient,
    trapezoid,
    unwrap,
)
from gpushard.numpy.editing import (
    append,
    delete,
    insert,
    resize,
    trim_zeros,
)
from gpushard.numpy.elementwise import (
    abs,
    absolute,
    acos,
    acosh,
    add,
    angle,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    around,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_count,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    cbrt,
    ceil,
    clip,
    conj,
    conjugate,
    copysign,
    cos,
    cosh,
    deg2rad,
    degrees,
    divide,
    divmod,
    equal,
    exp,
    exp2,
    expm1,
    fabs,
    float_power,
    floor,
    floor_divide,
    fmax,
    fmin,
    fmod,
    frexp,
    gcd,
    greater,
    greater_equal,
    heaviside,
    hypot,
    imag,
    invert,
    isfinite,
    isinf,
    isnan,
    lcm,
    ldexp,
    left_shift,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    modf,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    power,
    rad2deg,
    radians,
    real,
    reciprocal,
    remainder,
    right_shift,
    rint,
    round,
    sign,
    signbit,
    sin,
    sinh,
    spacing,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    true_divide,
    trunc,
    where,
)
from gpushard.numpy.grids import (
    diag,
    diagflat,
    eye,
    identity,
    indices,
    meshgrid,
    tri,
    tril,
    triu,
    vander,
)
from gpushard.numpy.histograms import (
    bincount,
    histogram,
    histogram2d,
    histogram_bin_edges,
    histogramdd,
)
from gpushard.numpy.host import (
    array2string,
    array_repr,
    array_str,
    errstate,
    frombuffer,
    fromiter,
    get_printoptions,
    iterable,
    mask_indices,
    ndindex,
    printoptions,
    savez,
    set_printoptions,
)
from gpushard.numpy.index_tricks import (
    c_,
    index_exp,
    mgrid,
    ogrid,
    r_,
    s_,
)
from gpushard.numpy.indexing import (
    argwhere,
    choose,
    compress,
    extract,
    fill_diagonal,
    flatnonzero,
    nonzero,
    place,
    put,
    put_along_axis,
    putmask,
    select,
    take,
    take_along_axis,
)
from gpushard.numpy.info import __array_namespace_info__
from gpushard.numpy.joining import (
    column_stack,
    concat,
    concatenate,
    dstack,
    hstack,
    stack,
    unstack,
    vstack,
)
from gpushard.numpy.linear_algebra import (
    dot,
    einsum,
    einsum_path,
    inner,
    matmul,
    matrix_transpose,
    matvec,
    outer,
    tensordot,
    vdot,
    vecdot,
    vecmat,
)
from gpushard.numpy.manipulation import (
    atleast_1d,
    atleast_2d,
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    diagonal,
    expand_dims,
    flip,
    fliplr,
    flipud,
    moveaxis,
    permute_dims,
    ravel,
    repeat,
    reshape,
    roll,
    squeeze,
    swapaxes,
    tile,
    transpose,
)
from gpushard.numpy.nan_functions import (
    nan_to_num,
    nanargmax,
    nanargmin,
    nanmax,
    nanmean,
    nanmin,
    nanprod,
    nanstd,
    nansum,
    nanvar,
)
from gpushard.numpy.number_kinds import (
    fix,
    iscomplex,
    iscomplexobj,
    isneginf,
    isposinf,
    isreal,
    isrealobj,
    isscalar,
    sinc,
)
from gpushard.numpy.padding import (
    pad,
)
from gpushard.numpy.polynomials import (
    poly,
    polyadd,
    polyder,
    polydiv,
    polyfit,
    polyint,
    polymul,
    polysub,
    polyval,
    roots,
)
from gpushard.numpy.positions import (
    diag_indices,
    diag_indices_from,
    ix_,
    ravel_multi_index,
    tril_indices,
    tril_indices_from,
    triu_indices,
    triu_indices_from,
    unravel_index,
)
from gpushard.numpy.products import (
    cross,
    kron,
    trace,
)
from gpushard.numpy.quantiles import (
    median,
    nanmedian,
    nanpercentile,
    nanquantile,
    percentile,
    quantile,
)
from gpushard.numpy.ranges import (
    arange,
    geomspace,
    linspace,
    logspace,
)
from gpushard.numpy.rearranging import (
    atleast_3d,
    block,
    rollaxis,
    rot90,
)
from gpushard.numpy.searching import (
    digitize,
    searchsorted,
)
from gpushard.numpy.sets import (
    intersect1d,
    isin,
    setdiff1d,
    setxor1d,
    union1d,
)
from gpushard.numpy.signals import (
    convolve,
    correlate,
    interp,
)
from gpushard.numpy.sorting import (
    argpartition,
    argsort,
    lexsort,
    partition,
    sort,
    sort_complex,
    topk,
)
from gpushard.numpy.splitting import (
    array_split,
    dsplit,
    hsplit,
    split,
    vsplit,
)
from gpushard.numpy.statistical import (
    all,
    amax,
    amin,
    any,
    argmax,
    argmin,
    count_nonzero,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from gpushard.numpy.uniques import (
    unique,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
)
from gpushard.numpy.windows import (
    bartlett,
    blackman,
    hamming,
    hanning,
    i0,
    kaiser,
)
from gpushard.placement.npy import load, save

ndarray = Array
asanyarray = ascontiguousarray = asarray

__array_api_version__ = protocol.VERSIONS[-1]


if TYPE_CHECKING:
    from gpushard.numpy import fft as fft
    from gpushard.numpy import lib as lib
    from gpushard.numpy import linalg as linalg
else:  # a type checker would take it for a module that has every name

    def __getattr__(name: str) -> Any:
        """Import an extension, or a type of `ml_dtypes`, when it is first asked for."""
        if name in protocol.EXTENSIONS:
            return importlib.import_module(protocol.EXTENSIONS[name])
        if name in dtypes.NAMES and dtypes.is_installed():
            return dtypes.named(name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *protocol.EXTENSIONS, "__array_api_version__"})


def _namespace(x: Any, *, api_version: str | None = None) -> Any:
    return protocol.namespace_of(sys.modules[__name__], api_version)


provide("__array_namespace__", _namespace)
provide("__array_ufunc__", protocol.array_ufunc)
provide("__array_function__", protocol.array_function(globals()))

# fmt: off
__all__ = [
    "__array_namespace_info__", "abs", "absolute", "acos", "acosh", "add", "all", "allclose",
    "amax", "amin", "angle", "any", "append", "apply_along_axis", "apply_over_axes", "arange",
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "argmax", "argmin",
    "argpartition", "argsort", "argwhere", "around", "array", "array2string", "array_equal",
    "array_equiv", "array_repr", "array_split", "array_str", "asanyarray", "asarray",
    "ascontiguousarray", "asin", "asinh", "astype", "atan", "atan2", "atanh", "atleast_1d",
    "atleast_2d", "atleast_3d", "average", "bartlett", "bincount", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "blackman", "block", "bool", "bool_", "broadcast_arrays", "broadcast_shapes",
    "broadcast_to", "c_", "can_cast", "cbrt", "cdouble", "ceil", "choose", "clip", "column_stack",
    "complex64", "complex128", "complexfloating", "compress", "concat", "concatenate", "conj",
    "conjugate", "convolve", "copy", "copysign", "corrcoef", "correlate", "cos", "cosh",
    "count_nonzero", "cov", "cross", "csingle", "cumprod", "cumsum", "cumulative_prod",
    "cumulative_sum", "deg2rad", "degrees", "delete", "diag", "diag_indices", "diag_indices_from",
    "diagflat", "diagonal", "diff", "digitize", "divide", "divmod", "dot", "double", "dsplit",
    "dstack", "dtype", "e", "ediff1d", "einsum", "einsum_path", "empty", "empty_like", "equal",
    "errstate", "euler_gamma", "exp", "exp2", "expand_dims", "expm1", "extract", "eye", "fabs",
    "fill_diagonal", "finfo", "fix", "flatnonzero", "flip", "fliplr", "flipud", "float16",
    "float32", "float64", "float_power", "floating", "floor", "floor_divide", "fmax", "fmin",
    "fmod", "frexp", "from_dlpack", "frombuffer", "fromfunction", "fromiter", "full", "full_like",
    "gcd", "generic", "geomspace", "get_printoptions", "gradient", "greater", "greater_equal",
    "hamming", "hanning", "heaviside", "histogram", "histogram2d", "histogram_bin_edges",
    "histogramdd", "hsplit", "hstack", "hypot", "i0", "identity", "iinfo", "imag", "index_exp",
    "indices", "inexact", "inf", "inner", "insert", "int8", "int16", "int32", "int64", "int_",
    "integer", "interp", "intersect1d", "intp", "invert", "isclose", "iscomplex", "iscomplexobj",
    "isdtype", "isfinite", "isin", "isinf", "isnan", "isneginf", "isposinf", "isreal", "isrealobj",
    "isscalar", "issubdtype", "iterable", "ix_", "kaiser", "kron", "lcm", "ldexp", "left_shift",
    "less", "less_equal", "lexsort", "linspace", "load", "log", "log1p", "log2", "log10",
    "logaddexp", "logaddexp2", "logical_and", "logical_not", "logical_or", "logical_xor",
    "logspace", "mask_indices", "matmul", "matrix_transpose", "matvec", "max", "maximum", "mean",
    "median", "meshgrid", "mgrid", "min", "minimum", "mod", "modf", "moveaxis", "multiply", "nan",
    "nan_to_num", "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean",
    "nanmedian", "nanmin", "nanpercentile", "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
    "ndarray", "ndim", "ndindex", "negative", "newaxis", "nextafter", "nonzero", "not_equal",
    "number", "ogrid", "ones", "ones_like", "outer", "packbits", "pad", "partition", "percentile",
    "permute_dims", "pi", "piecewise", "place", "poly", "polyadd", "polyder", "polydiv", "polyfit",
    "polyint", "polymul", "polysub", "polyval", "positive", "pow", "power", "printoptions", "prod",
    "promote_types", "ptp", "put", "put_along_axis", "putmask", "quantile", "r_", "rad2deg",
    "radians", "ravel", "ravel_multi_index", "real", "reciprocal", "remainder", "repeat", "reshape",
    "resize", "result_type", "right_shift", "rint", "roll", "rollaxis", "roots", "rot90", "round",
    "s_", "save", "savez", "searchsorted", "select", "set_printoptions", "setdiff1d", "setxor1d",
    "shape", "sign", "signbit", "signedinteger", "sin", "sinc", "single", "sinh", "size", "sort",
    "sort_complex", "spacing", "split", "sqrt", "square", "squeeze", "stack", "std", "subtract",
    "sum", "swapaxes", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "topk",
    "trace", "transpose", "trapezoid", "tri", "tril", "tril_indices", "tril_indices_from",
    "trim_zeros", "triu", "triu_indices", "triu_indices_from", "true_divide", "trunc", "uint",
    "uint8", "uint16", "uint32", "uint64", "uintp", "union1d", "unique", "unique_all",
    "unique_counts", "unique_inverse", "unique_values", "unpackbits", "unravel_index",
    "unsignedinteger", "unstack", "unwrap", "vander", "var", "vdot", "vecdot", "vecmat",
    "vectorize", "vsplit", "vstack", "where", "zeros", "zeros_like",
]
# fmt: on
