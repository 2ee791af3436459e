"""The names of the namespace, what they take, and functions of types."""

import inspect
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._functions.docstrings import complete, described, named
from gpushard.errors import ArgumentError, ArgumentTypeError
from tests.numpy.compare import placed, put

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")

ARRAY_API: dict[str, str] = {
    "elementwise": "abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift "
    "bitwise_invert bitwise_or bitwise_right_shift bitwise_xor ceil clip conj copysign cos cosh "
    "divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite isinf "
    "isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or "
    "logical_xor maximum minimum multiply negative nextafter not_equal positive pow real "
    "reciprocal remainder round sign signbit sin sinh square sqrt subtract tan tanh trunc where",
    "statistical": "cumulative_prod cumulative_sum max mean min prod std sum var all any "
    "argmax argmin count_nonzero diff",
    "linear algebra": "matmul matrix_transpose tensordot vecdot",
    "creation": "arange asarray empty empty_like eye full full_like linspace meshgrid ones "
    "ones_like tril triu zeros zeros_like",
    "manipulation": "broadcast_arrays broadcast_shapes broadcast_to concat expand_dims flip "
    "moveaxis permute_dims repeat reshape roll squeeze stack tile unstack",
    "searching": "argmax argmin count_nonzero nonzero searchsorted where",
    "sets": "isin unique_all unique_counts unique_inverse unique_values",
    "sorting": "argsort sort",
    "indexing": "take take_along_axis",
    "data type": "astype can_cast finfo iinfo isdtype result_type",
    "dtypes": "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 "
    "complex128",
    "constants": "e inf nan newaxis pi",
}
NAMES = [name for names in ARRAY_API.values() for name in names.split()]

KEYWORDS: dict[str, set[str]] = {
    "sum": {"axis", "dtype", "keepdims"},
    "prod": {"axis", "dtype", "keepdims"},
    "mean": {"axis", "keepdims"},
    "min": {"axis", "keepdims"},
    "max": {"axis", "keepdims"},
    "all": {"axis", "keepdims"},
    "any": {"axis", "keepdims"},
    "var": {"axis", "correction", "keepdims"},
    "std": {"axis", "correction", "keepdims"},
    "argmax": {"axis", "keepdims"},
    "argmin": {"axis", "keepdims"},
    "count_nonzero": {"axis", "keepdims"},
    "clip": {"min", "max"},
    "cumulative_sum": {"axis", "dtype", "include_initial"},
    "cumulative_prod": {"axis", "dtype", "include_initial"},
    "diff": {"axis", "n", "prepend", "append"},
    "tensordot": {"axes"},
    "vecdot": {"axis"},
    "arange": {"stop", "step", "dtype", "device"},
    "asarray": {"dtype", "device", "copy"},
    "empty": {"dtype", "device"},
    "empty_like": {"dtype", "device"},
    "eye": {"k", "dtype", "device"},
    "full": {"dtype", "device"},
    "full_like": {"dtype", "device"},
    "linspace": {"dtype", "device", "endpoint"},
    "meshgrid": {"indexing"},
    "ones": {"dtype", "device"},
    "ones_like": {"dtype", "device"},
    "zeros": {"dtype", "device"},
    "zeros_like": {"dtype", "device"},
    "tril": {"k"},
    "triu": {"k"},
    "concat": {"axis"},
    "stack": {"axis"},
    "unstack": {"axis"},
    "expand_dims": {"axis"},
    "flip": {"axis"},
    "permute_dims": {"axes"},
    "repeat": {"axis"},
    "reshape": {"shape", "copy"},
    "roll": {"shift", "axis"},
    "squeeze": {"axis"},
    "astype": {"copy", "device"},
    "searchsorted": {"side", "sorter"},
    "isin": {"invert"},
    "argsort": {"axis", "descending", "stable"},
    "sort": {"axis", "descending", "stable"},
    "take": {"axis"},
    "take_along_axis": {"axis"},
}

FUNCTIONS = sorted(n for n in gnp.__all__ if inspect.isfunction(getattr(gnp, n)))
MAKE_NO_ARRAY = {
    "__array_namespace_info__",
    "allclose",
    "array_equal",
    "array_equiv",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shapes",
    "can_cast",
    "from_dlpack",
    "fill_diagonal",
    "finfo",
    "frompyfunc",
    "get_printoptions",
    "iinfo",
    "iscomplexobj",
    "isdtype",
    "isrealobj",
    "iterable",
    "load",
    "ndim",
    "place",
    "einsum_path",
    "isscalar",
    "issubdtype",
    "promote_types",
    "printoptions",
    "put",
    "put_along_axis",
    "putmask",
    "result_type",
    "save",
    "savez",
    "set_printoptions",
    "shape",
    "size",
    "vectorize",
}


@pytest.mark.parametrize("name", NAMES)
def test_the_array_api_has_it(name: str) -> None:
    assert name in gnp.__all__
    assert hasattr(gnp, name)


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_those_of_the_standard(name: str) -> None:
    taken = inspect.signature(getattr(gnp, name)).parameters
    assert KEYWORDS[name] <= set(taken)
    for keyword in KEYWORDS[name]:
        assert taken[keyword].kind is not inspect.Parameter.POSITIONAL_ONLY


def test_all_is_whole() -> None:
    modules = {n for n, v in vars(gnp).items() if inspect.ismodule(v)}
    public = {n for n in vars(gnp) if not n.startswith("_")} - modules
    public |= {"__array_namespace_info__"}
    assert public - {"Any", "Array", "TYPE_CHECKING", "provide", "annotations"} == set(gnp.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_documented_and_place_their_results(name: str) -> None:
    function = getattr(gnp, name)
    text = inspect.getdoc(function) or ""
    assert text.partition("\n")[0].endswith(".")
    if name not in MAKE_NO_ARRAY:
        assert "out_sharding" in inspect.signature(function).parameters
        for argument in inspect.signature(function).parameters:
            assert argument in text, argument


def _example(x: Any, y: Any, *rest: Any, axis: Any, out_sharding: Any, **more: Any) -> Any:
    """Return all.

    Args:
      y: another one,
        of any kind.
      **more: hints.

    Raises:
      ValueError: there is none.
    """


def test_docstrings_are_completed_in_the_order_of_arguments() -> None:
    def bare(x: Any, out_sharding: Any, unknown: Any) -> Any:
        """Return one of them."""

    def nothing() -> Any:
        pass

    def lines(function: Any, *how: Any, **more: Any) -> list[str]:
        return complete(function, *how, **more).split("\n")

    texts = {"*rest": "others."}
    others = [
        "  y: another one,",
        "    of any kind.",
        "  *rest: others.",
        "  axis: the axes, an integer or a tuple of integers; all by default.",
    ]
    place = "  out_sharding: the sharding or `PartitionSpec` of the"
    several = f"{place} results; gpushard chooses by default."
    one = f"{place} result; gpushard chooses by default."
    end = ["  **more: hints.", "", "Raises:", "  ValueError: there is none."]
    first = ["", "Args:", "  x: an array."]
    assert lines(_example, texts) == ["Return all.", *first, *others, several, *end]
    assert lines(_example, texts, bound=True) == ["Return all.", *first[:2], *others, several, *end]
    there = lines(bare, {**texts, "out_sharding": "there."}, _example)
    assert there == ["Return one of them.", *first, *others, "  out_sharding: there.", end[0]]
    assert lines(bare) == ["Return one of them.", *first, several]
    assert lines(nothing) == [""]
    bare.__annotations__["return"] = "Array"
    assert lines(bare) == ["Return one of them.", *first, one]
    assert lines(_example, texts, bare)[-1] == "  ValueError: there is none."
    assert lines(nothing, like=bare) == ["", *first, one]
    made = described(x="the first one.")(bare)
    assert made is bare
    wanted = ["Return one of them.", "", "Args:", "  x: the first one.", one]
    assert (bare.__doc__ or "").split("\n") == wanted
    assert named(nothing, "all_of_it", "Return all.") is nothing
    assert (nothing.__name__, nothing.__qualname__) == ("all_of_it", "all_of_it")
    assert nothing.__doc__ == "Return all."


def test_the_door_of_the_standard() -> None:
    _, x = placed("even")
    assert x.__array_namespace__() is gnp
    assert x.__array_namespace__(api_version="2025.12") is gnp
    with pytest.raises(ArgumentError, match=r"api_version='1999\.12' is unknown"):
        x.__array_namespace__(api_version="1999.12")


def test_functions_of_types() -> None:
    _, x = placed("even", "f")
    weak = gs.device_put(1.0)
    assert gnp.result_type(x, 1, "l") == np.result_type(np.float32, 1, "l")
    assert gnp.result_type(x, weak) == np.float32
    assert gnp.can_cast(x, "d") and not gnp.can_cast(x, "l")
    assert gnp.finfo(x).eps == np.finfo("f").eps
    assert gnp.iinfo("b").max == 127
    assert gnp.isdtype(x.dtype, "real floating")
    assert gnp.astype(x, "d").dtype == gnp.float64
    assert gnp.astype(x, "d", device=gs.devices()[1]).devices() == {gs.devices()[1]}
    with pytest.raises(ArgumentTypeError, match="finfo: int64 is no type of floats"):
        gnp.finfo("l")
    with pytest.raises(ArgumentTypeError, match="iinfo: float32 is no type of integers"):
        gnp.iinfo(x)
    with pytest.raises(ArgumentTypeError, match="nothing has no common type"):
        gnp.result_type()


def test_constants() -> None:
    assert (gnp.pi, gnp.e, gnp.inf, gnp.newaxis) == (np.pi, np.e, np.inf, None)
    assert gnp.nan != gnp.nan


@pytest.mark.parametrize("equal_nan", [False, True])
def test_comparisons(equal_nan: bool) -> None:
    data, x = placed("uneven")
    data = data.copy()
    data[0, 0] = np.nan
    y = gs.device_put(data, x.sharding)
    nearly = gs.device_put(data * (1 + 1e-9), x.sharding)
    others: list[Any] = [(x, np.asarray(x)), (y, data), (nearly, np.asarray(nearly))]
    for one, a in others:
        for two, b in others:
            for name in ("array_equal", "allclose"):
                wanted = getattr(np, name)(a, b, equal_nan=equal_nan)
                assert getattr(gnp, name)(one, two, equal_nan=equal_nan) is wanted
                assert getattr(gnp, name)(one, b, equal_nan=equal_nan) is wanted
            close = gnp.isclose(one, two, equal_nan=equal_nan)
            assert np.asarray(close).tolist() == np.isclose(a, b, equal_nan=equal_nan).tolist()
    for dtype in ("?", "B", "b", "l"):  # differences that do not fit the type
        a, b = np.array([0, 1, 1, 100], dtype), np.array([255, 0, 1, -100]).astype(dtype)
        there = put(a, "x")
        for other in (b, put(b, "y"), 1, 255, True):
            wanted = np.isclose(a, np.asarray(other), atol=1.5)
            assert np.asarray(gnp.isclose(there, other, atol=1.5)).tolist() == wanted.tolist()
    assert gnp.array_equiv(x, x) and not gnp.array_equiv(x, x[:2])
    assert gnp.array_equiv(x[:1], np.broadcast_to(np.asarray(x)[:1], x.shape))
    assert not gnp.array_equal(x, x[:2])
    there = gs.device_put(x, gs.devices()[3])
    assert gnp.array_equal(x, there) and gnp.allclose(there, x)
    pinned = gs.device_put(x, x.sharding.with_memory_kind("pinned_host"))
    assert gnp.array_equal(x, pinned) and gnp.allclose(x, pinned, pinned * 0 + 1e-5)
    assert (gnp.shape(x), gnp.ndim(x), gnp.size(x), gnp.size(x, 0)) == ((5, 3), 2, 15, 5)


def test_arrays_are_compared_with_numbers_where_they_lie() -> None:
    with testing.runtime(host_devices=8, host_domains=8) as runtime:
        x = gs.device_put(np.full(64, 3.0), gs.NamedSharding(gs.make_mesh((8,), ("x",)), gs.P("x")))
        before = dict(runtime.backend.traffic)
        assert gnp.allclose(x, 3) and gnp.allclose(3.0 + 1e-9, x) and not gnp.allclose(x, 3.1)
        assert gnp.allclose(x * np.nan, np.nan, equal_nan=True)
        assert not gnp.allclose(x, np.float32(2)) and gnp.allclose(x, 2, atol=1.0)
        moved = {k: n - before.get(k, 0) for k, n in runtime.backend.traffic.items()}
        assert sum(n for (_, domain), n in moved.items() if domain < 0) <= 6
    assert gnp.allclose(3, 3.0) and not gnp.allclose(np.arange(3), 1)


def test_what_programs_may_ask() -> None:
    info = gnp.__array_namespace_info__()
    assert info.default_device() == gs.devices()[0] and info.devices() == tuple(gs.devices())
    sizes = (8, 16, 32, 64)
    integers = {f"{kind}{n}" for kind in ("int", "uint") for n in sizes}
    assert set(info.dtypes(kind="integral")) == integers
    assert set(info.dtypes()) == set(ARRAY_API["dtypes"].split())
    assert set(info.dtypes(kind=("bool", "real floating"))) == {"bool", "float32", "float64"}
    assert info.default_dtypes()["real floating"] == gnp.zeros(1).dtype
    assert info.default_dtypes()["integral"] == gnp.arange(1).dtype
    assert info.capabilities() == np.__array_namespace_info__().capabilities()
    with pytest.raises(ArgumentError, match="kind='text' is unknown"):
        info.dtypes(kind="text")
