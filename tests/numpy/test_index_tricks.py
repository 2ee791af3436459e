"""What programs reach for: windows, grids and joins by an index, functions of functions."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError
from tests.numpy.compare import agree, put, same, value

gnp = gs.numpy
pytestmark = pytest.mark.usefixtures("rt")

LINE = np.arange(3.0)
MATRIX = np.arange(6).reshape(2, 3)

INDEXED: dict[str, Callable[[Any], Any]] = {
    "a grid": lambda m: m.mgrid[:3, 2:8:2],
    "a grid of floats": lambda m: m.mgrid[0:1:5j, :2],
    "a grid of one dim": lambda m: m.mgrid[1:4],
    "an open grid": lambda m: m.ogrid[:3, 0:1:2j][1],
    "an open grid of integers and floats": lambda m: m.ogrid[:3, 0:1:2j][0],
    "an open line": lambda m: m.ogrid[-1:1:4j],
    "a row": lambda m: m.r_[1:4, 0, LINE],
    "a row of numbers": lambda m: m.r_[1, 2.5, 3],
    "a row of small floats": lambda m: m.r_[LINE.astype("f"), 1, 2.5],
    "rows": lambda m: m.r_[MATRIX, MATRIX],
    "rows along the last dim": lambda m: m.r_["-1", MATRIX, MATRIX],
    "rows of vectors": lambda m: m.r_["0,2", LINE, LINE, 1:4],
    "cubes of vectors": lambda m: m.r_["0,3", LINE, LINE],
    "columns of vectors": lambda m: m.r_["1,2,0", LINE, LINE, 1:4],
    "cubes": lambda m: m.r_["0,3,1", MATRIX, MATRIX],
    "cubes from the end": lambda m: m.r_["-1,3,-2", MATRIX, MATRIX],
    "columns": lambda m: m.c_[LINE, LINE],
    "columns of a matrix": lambda m: m.c_[MATRIX, [7, 8]],
    "a column of numbers": lambda m: m.c_[1, 2],
    "an index": lambda m: m.asarray(MATRIX)[m.s_[:, 1:]],
    "an index by name": lambda m: m.asarray(MATRIX)[m.index_exp[0, ::-1]],
    "a function of a grid": lambda m: m.fromfunction(lambda i, j: i * 10 + j, (3, 4), dtype=int),
    "a function of floats": lambda m: m.fromfunction(lambda i: i / 4, (5,)),
    "a mask's index": lambda m: m.stack(m.mask_indices(4, m.triu, 1)),
    "a buffer": lambda m: m.frombuffer(LINE.tobytes(), offset=8),
    "an iterator": lambda m: m.fromiter(iter([3, 1, 2]), np.float32),
}


@pytest.mark.parametrize("name", INDEXED)
def test_what_an_index_makes(name: str) -> None:
    agree(lambda: INDEXED[name](gnp), lambda: INDEXED[name](np))


def test_arrays_in_an_index_stay_sharded() -> None:
    x = put(np.arange(8.0), "x")
    found = gnp.r_[x, x]
    same(found, np.r_[np.arange(8.0), np.arange(8.0)])
    assert found.sharding.spec == gs.P("x")


@pytest.mark.parametrize("key", ["r", "0,1,2,3", "rows"])
def test_texts_in_an_index(key: str) -> None:
    with pytest.raises((ArgumentError, TypeError), match=f"r_\\['{key}'"):
        gnp.r_[key, 1, 2]


WINDOWS = [((3,), 1), (2, 0), ((2, 3), None), ((2, 2), (0, 0)), ((1, 6), (1, -1)), (8, 0)]


@pytest.mark.parametrize(("window", "axis"), WINDOWS)
@pytest.mark.parametrize("spec", [("x",), (None, "y"), ("y", "x")])
def test_windows(window: Any, axis: Any, spec: tuple[Any, ...]) -> None:
    data = value((8, 6), "d")
    x = put(data, *spec)
    view = np.lib.stride_tricks.sliding_window_view
    agree(
        lambda: gnp.lib.stride_tricks.sliding_window_view(x, window, axis),
        lambda: view(data, window, axis),
    )
    agree(lambda: view(x, window, axis), lambda: view(data, window, axis))


@pytest.mark.parametrize(("window", "axis"), [((3,), None), (9, 0), (0, 0)])
def test_windows_that_do_not_slide(window: Any, axis: Any) -> None:
    with pytest.raises(ArgumentError, match=r"sliding_window_view: .*window"):
        gnp.lib.stride_tricks.sliding_window_view(put(value((8, 6), "d"), "x"), window, axis)


def test_functions_of_elements() -> None:
    data = value((8, 6), "d")
    x = put(data, "x", "y")

    def distance(a: Any, b: Any, *, scale: float = 1) -> Any:
        """Return how far numbers are apart."""
        return gnp.where(a > b, a - b, b - a) * scale

    far = gnp.vectorize(distance, excluded=["scale"])
    same(far(x, data[0], scale=2), np.abs(data - data[0]) * 2)
    assert far(x, 1).sharding == x.sharding and far.__doc__ == distance.__doc__
    halves = gnp.vectorize(lambda a: (a // 2, a % 2), otypes=["f4", "f8"], doc="Halves.")
    for found, wanted in zip(halves(x), (data // 2, data % 2), strict=True):
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)
    assert halves(x)[0].dtype == np.float32 and halves.__doc__ == "Halves."
    same(gnp.vectorize(lambda a: a.sum() - a.max())(x), np.zeros((8, 6)))


SIGNATURES: dict[str, Callable[[Any], Any]] = {
    "(n),(n)->()": lambda m: lambda a, b: m.sum(a * b),
    "(n),()->(n)": lambda m: lambda a, b: m.sort(a) * b,
    "(m,n)->(n,m)": lambda m: lambda a: m.transpose(a),
    "(m,n),(n)->(m),()": lambda m: lambda a, b: (a @ b, m.sum(b)),
}


@pytest.mark.parametrize("signature", SIGNATURES)
def test_functions_of_lines(signature: str) -> None:
    data, line = value((2, 4, 3), "d"), np.arange(3.0)
    given = (data, line, 2.0)
    second = 2.0 if "()->" in signature and "," in signature.split("->")[0][4:] else line
    many = signature.split("->")[0].count("(")
    arguments = [data, given[2] if signature == "(n),()->(n)" else second][:many]
    ours = gnp.vectorize(SIGNATURES[signature](gnp), signature=signature)
    theirs = np.vectorize(SIGNATURES[signature](np), signature=signature)
    found, wanted = ours(put(data, "x"), *arguments[1:]), theirs(*arguments)
    if not isinstance(wanted, tuple):
        found, wanted = (found,), (wanted,)
    for one, other in zip(found, wanted, strict=True):
        same(one, other, exact=False)


@pytest.mark.parametrize("signature", ["(n)", "n->()", "(n->()", "(n),,(m)->()"])
def test_signatures_that_are_none(signature: str) -> None:
    with pytest.raises(ArgumentError, match="signature="):
        gnp.vectorize(abs, signature=signature)


@pytest.mark.parametrize("shapes", [[(3,), (4,)], [(3,)], [(), (3,)]])
def test_arguments_that_do_not_fit_a_signature(shapes: list[tuple[int, ...]]) -> None:
    call = gnp.vectorize(lambda a, b: a @ b, signature="(n),(n)->()")
    with pytest.raises(ArgumentError, match="do not fit the signature"):
        call(*map(np.ones, shapes))


@pytest.mark.parametrize("spec", [("x", "y"), (None, "x"), ()])
@pytest.mark.parametrize("to", ["i8", "u8", "f4", "u1", "F", "D", "f8"])
def test_bytes_as_another_type(to: str, spec: tuple[Any, ...]) -> None:
    data = value((8, 6), "d")
    x = put(data, *spec)
    agree(lambda: x.view(to), lambda: data.view(to))
    agree(lambda: x.view(to).view("f8"), lambda: data)
    if np.dtype(to).itemsize == 8:
        assert x.view(to).sharding == x.sharding


def test_a_view_shares_nothing() -> None:
    x = put(np.arange(8), "x")
    for other in (x.view(), x.view("i8"), x.view("u8")):
        other[0] = 9
    assert x.tolist() == list(range(8))
    x.fill(3)
    assert x.tolist() == [3] * 8
    with pytest.raises(ArgumentError, match=r"view: int8 of shape \(3,\) cannot be viewed as int"):
        gnp.zeros(3, "i1").view("i2")
    with pytest.raises(ArgumentError, match="view: float64 of shape"):
        gnp.asarray(1.0).view("f4")


def test_files_and_texts(tmp_path: Path) -> None:
    x = put(np.arange(8.0), "x")
    gnp.save(tmp_path / "x.npy", x)
    same(gnp.load(tmp_path / "x.npy"), np.arange(8.0))
    gnp.savez(tmp_path / "x.npz", x, y=x + 1, n=3)
    with np.load(tmp_path / "x.npz") as found:
        assert {name: found[name].tolist() for name in found} == {
            "arr_0": np.arange(8.0).tolist(),
            "y": np.arange(1.0, 9).tolist(),
            "n": 3,
        }
    with gnp.printoptions(precision=2):
        assert gnp.array2string(x / 3)[:10] == "[0.   0.33"
    assert gnp.array_str(x) == str(np.arange(8.0))
    assert isinstance(x, gnp.ndarray) and gnp.iterable(x)
    same(gnp.ascontiguousarray(x), np.arange(8.0))


OBJECTS: Any = np.array([{"a": 1}, None], object)
RECORDS = np.zeros(2, [("n", "i4"), ("o", object)])


@pytest.mark.parametrize(
    ("name", "args", "kwds"),
    [("arr_1", (LINE, OBJECTS), {}), ("arr_0", (RECORDS,), {}), ("y", (), {"y": OBJECTS})],
)
def test_savez_pickles_objects_only_if_allowed(
    name: str, args: tuple[Any, ...], kwds: dict[str, Any], tmp_path: Path
) -> None:
    """As NumPy does, but gpushard refuses before it writes a file."""
    path, numpys = tmp_path / "x.npz", tmp_path / "numpy.npz"
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        with pytest.raises(ValueError, match="allow_pickle=False"):
            np.savez(numpys, *args, allow_pickle=False, **kwds)
    with pytest.raises(ArgumentError, match=f"allow_pickle=False forbids {name},") as raised:
        gnp.savez(path, *args, allow_pickle=False, **kwds)
    assert raised.value.argument == "allow_pickle"
    assert not path.exists()
    gnp.savez(path, *args, **kwds)
    with np.load(path, allow_pickle=True) as archive:
        assert archive[name].dtype.hasobject


def test_savez_needs_no_pickle_for_numbers(tmp_path: Path) -> None:
    x = put(LINE, "x")
    gnp.savez(tmp_path / "x.npz", x, allow_pickle=False, y=x)
    with np.load(tmp_path / "x.npz") as archive:
        assert {name: archive[name].tolist() for name in archive} == {
            "arr_0": LINE.tolist(),
            "y": LINE.tolist(),
        }


def test_makers_of_indices_show_their_names() -> None:
    for name in ("ogrid", "mgrid", "r_", "c_"):
        assert repr(getattr(gs.numpy, name)) == name
