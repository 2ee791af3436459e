"""NumPy's own functions on arrays: results stay on the devices, and nothing gathers unseen."""

import io
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, ArgumentTypeError, GpushardError
from tests.numpy.compare import placed, put, same, value

pytestmark = pytest.mark.usefixtures("rt")

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda x, y: np.sin(x),
    "add": lambda x, y: np.add(x, y),
    "add of a number": lambda x, y: np.add(x, 2),
    "number first": lambda x, y: np.subtract(2.5, x),
    "divmod": lambda x, y: np.divmod(x, 2),
    "type": lambda x, y: np.add(x, 1, dtype="f"),
    "what holds anyway": lambda x, y: np.add(x, 1, where=True, order="C", subok=True),
    "matmul": lambda x, y: np.matmul(x, y.T),
    "matmul of types of a kind": lambda x, y: np.matmul(x, y.T, casting="same_kind"),
    "vecdot": lambda x, y: np.vecdot(x, y),
    "add.reduce": lambda x, y: np.add.reduce(x),
    "add.reduce of all": lambda x, y: np.add.reduce(x, axis=None, keepdims=True),
    "add.reduce in a type": lambda x, y: np.add.reduce(x, axis=1, dtype="D"),
    "maximum.reduce": lambda x, y: np.maximum.reduce(x, axis=(0, 1)),
    "logical_and.reduce": lambda x, y: np.logical_and.reduce(x, axis=1),
    "concatenate": lambda x, y: np.concatenate([x, y], axis=1),
    "stack": lambda x, y: np.stack([x, y]),
    "vstack": lambda x, y: np.vstack([x, y]),
    "sum": lambda x, y: np.sum(x, axis=0),
    "sum by position": lambda x, y: np.sum(x, 0),
    "mean": lambda x, y: np.mean(x, axis=(0, 1), keepdims=True),
    "std": lambda x, y: np.std(x, ddof=1),
    "amax": lambda x, y: np.amax(x, 1),
    "argmin": lambda x, y: np.argmin(x, axis=1),
    "where": lambda x, y: np.where(x > 0, x, y),
    "reshape": lambda x, y: np.reshape(x, (3, 5)),
    "sum by name": lambda x, y: np.sum(a=x, axis=1),
    "transpose": lambda x, y: np.transpose(x),
    "moveaxis": lambda x, y: np.moveaxis(x, 0, 1),
    "roll": lambda x, y: np.roll(x, 2, axis=0),
    "pad": lambda x, y: np.pad(x, 1, mode="edge"),
    "tile": lambda x, y: np.tile(x, (2, 1)),
    "clip": lambda x, y: np.clip(x, 0, 1),
    "clip by name": lambda x, y: np.clip(x, a_min=0, a_max=None),
    "round": lambda x, y: np.round(x, 1),
    "zeros_like": lambda x, y: np.zeros_like(x),
    "full_like": lambda x, y: np.full_like(x, 3),
    "zeros": lambda x, y: np.zeros(3, like=x) if isinstance(x, gs.Array) else np.zeros(3),
    "dot": lambda x, y: np.dot(x, y.T),
    "einsum": lambda x, y: np.einsum("ij,kj->ik", x, y),
    "tensordot": lambda x, y: np.tensordot(x, y, axes=([1], [1])),
    "outer": lambda x, y: np.outer(x, y),
    "broadcast_to": lambda x, y: np.broadcast_to(x, (2, *x.shape)),
    "real": lambda x, y: np.real(x),
    "isclose": lambda x, y: np.isclose(x, y),
    "tril": lambda x, y: np.tril(x, -1),
    "squeeze": lambda x, y: np.squeeze(x[:1]),
    "expand_dims": lambda x, y: np.expand_dims(x, 0),
    "copy": lambda x, y: np.copy(x),
    "trace": lambda x, y: np.trace(x, 1),
    "kron": lambda x, y: np.kron(x, y[:2]),
    "cross": lambda x, y: np.cross(x, y),
    "cov": lambda x, y: np.cov(x, y, rowvar=False),
    "corrcoef": lambda x, y: np.corrcoef(x, rowvar=False),
    "linalg.inv": lambda x, y: np.linalg.inv(x.T @ x),
    "linalg.solve": lambda x, y: np.linalg.solve(a=x.T @ x, b=y.T),
    "linalg.svdvals": lambda x, y: np.linalg.svdvals(x),
    "linalg.norm": lambda x, y: np.linalg.norm(x, axis=1),
    "linalg.trace": lambda x, y: np.linalg.trace(x, offset=-1),
    "linalg.multi_dot": lambda x, y: np.linalg.multi_dot([x, y.T, x]),
    "fft.fft": lambda x, y: np.fft.fft(x, axis=0),
    "fft.rfftn": lambda x, y: np.fft.rfftn(x, s=(4, 6), axes=(0, 1)),
    "fft.fftshift": lambda x, y: np.fft.fftshift(x, axes=0),
    "meshgrid": lambda x, y: np.meshgrid(x[0], y[0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_sharded_and_nothing_is_gathered(name: str) -> None:
    (a, x), (b, y) = placed("uneven"), placed("uneven", seed="other")
    wanted = CALLS[name](a, b)
    with gs.transfer_guard("disallow"):
        found = CALLS[name](x, y)
    same(found, wanted, exact=False)
    for one in found if isinstance(found, tuple | list) else [found]:
        assert one.sharding.num_devices == 8 or name == "zeros"


@pytest.mark.parametrize(
    "name", ["add", "matmul", "concatenate", "stack", "where", "einsum", "dot"]
)
def test_data_of_the_host_beside_arrays(name: str) -> None:
    (a, x), (b, y) = placed("uneven"), placed("uneven", seed="other")
    same(CALLS[name](a, y), CALLS[name](a, b), exact=False)
    same(CALLS[name](x, b), CALLS[name](a, b), exact=False)


OPERATORS: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a / 2 * b,
    lambda a, b: a == b,
    lambda a, b: a < b,
    lambda a, b: a % 3 + b,
    lambda a, b: a @ b.T,
]


@pytest.mark.parametrize("operate", OPERATORS)
def test_numpy_on_the_left(operate: Callable[[Any, Any], Any]) -> None:
    (a, _), (b, y) = placed("uneven"), placed("uneven", seed="other")
    same(operate(a, y), operate(a, b), exact=False)
    assert operate(a, y).sharding.num_devices == 8


@pytest.mark.parametrize("number", [np.float64(2), np.float32(0.5), np.int8(3), np.bool_(True)])
def test_scalars_on_the_left(number: Any) -> None:
    for dtype in ("f", "l"):
        data, x = placed("uneven", dtype)
        same(number * x, number * data)
        same(number + x, number + data)
        same(number < x, number < data)
        same(number == x, number == data)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "out, ours": (lambda x: np.add(x, 1, out=x), ArgumentError, "out= is not supported"),
    "out, NumPy's": (
        lambda x: np.add(x, 1, out=np.zeros(x.shape)),
        ArgumentError,
        "out= is not supported",
    ),
    "out of sum": (lambda x: np.sum(x, out=np.zeros(())), ArgumentError, "out= is not supported"),
    "where": (lambda x: np.add(x, 1, where=np.zeros(3, bool)), ArgumentTypeError, "where= is not"),
    "subok": (lambda x: np.zeros_like(x, subok=False), ArgumentTypeError, "'subok'"),
    "signature": (
        lambda x: np.add(x, x, signature="dd->d"),
        ArgumentTypeError,
        "signature= is not supported",
    ),
    "a type that depends on values": (
        lambda x: np.real_if_close(x),
        ArgumentTypeError,
        r"real_if_close is not .*numpy\.asarray\(x\)",
    ),
    "linalg": (
        lambda x: np.linalg.lstsq(x, x, rcond="no"),
        ArgumentTypeError,
        "rcond='no' must be a number",
    ),
    "out of linalg": (
        lambda x: np.linalg.multi_dot([x, x.T], out=np.zeros((5, 5))),
        ArgumentError,
        "out= is not supported",
    ),
    "half of a choice": (lambda x: np.where(x, 1), ArgumentError, "give both x and y"),
    "casting": (
        lambda x: np.add(x, 1, dtype="f", casting="safe"),
        ArgumentTypeError,
        "not defined under casting='safe'",
    ),
    "casting to integers": (
        lambda x: np.add(x, 1, dtype="l"),
        ArgumentTypeError,
        "casting='same_kind'",
    ),
    "axes of a product": (
        lambda x: np.matmul(x, x.T, axes=[(0, 1)] * 3),
        ArgumentTypeError,
        "matmul: axes= is not",
    ),
    "dims kept of a product": (
        lambda x: np.matmul(x, x.T, keepdims=True),
        ArgumentTypeError,
        "matmul: keepdims= is not",
    ),
    "ufuncs of two results": (
        lambda x: np.divmod.outer(x, x),
        ArgumentTypeError,
        r"numpy\.divmod\.outer is not supported",
    ),
    "ufuncs of objects": (
        lambda x: np.frompyfunc(max, 2, 1).reduce(x),
        ArgumentTypeError,
        r"\.reduce is not supported",
    ),
    "order": (lambda x: np.add(x, 1, order="F"), ArgumentTypeError, "add: order= is not"),
    "masked": (
        lambda x: np.add(x, np.ma.masked_array(np.zeros(x.shape))),
        ArgumentTypeError,
        "masked",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSED[name]
    _, x = placed("uneven")
    with pytest.raises(kind, match=words) as caught:
        call(x)
    assert isinstance(caught.value, GpushardError)


def test_in_place_on_numpy_arrays_gives_the_name_another_value() -> None:
    (a, _), (b, y) = placed("uneven"), placed("uneven", seed="other")
    kept = a.copy()
    added = divided = multiplied = powered = integers = a
    added += y
    divided /= y + 10
    multiplied @= y.T
    powered **= y * 0 + 2
    same(added, kept + b)
    same(divided, kept / (b + 10), exact=False)
    same(multiplied, kept @ b.T, exact=False)
    same(powered, kept**2)
    assert added.sharding == divided.sharding == y.sharding
    integers = np.arange(3)
    integers -= y
    same(integers, np.arange(3) - b)
    part = kept.copy()
    part[1:3] += y[1:3]
    assert np.array_equal(part[1:3], (kept + b)[1:3]) and np.array_equal(part[3:], kept[3:])
    assert np.array_equal(a, kept)


def test_a_place_on_the_host_is_refused() -> None:
    (a, _), (_, y) = placed("uneven"), placed("uneven", seed="other")
    kept = a.copy()
    calls: list[Callable[[], Any]] = [
        lambda: np.add(a, y, out=a),
        lambda: np.add(a, y, a),
        lambda: operator.iadd(a, y),
        lambda: np.add(y, y, out=a),
        lambda: np.matmul(a, y.T, out=a[:, :1]),
    ]
    for call in calls:
        with pytest.raises(ArgumentError, match="out= is not supported"):
            call()
    assert np.array_equal(a, kept)


def test_what_ends_on_the_host_takes_the_value_there() -> None:
    data, x = placed("uneven")
    assert np.array_repr(x) == np.array_repr(data)
    assert np.array_str(x) == np.array_str(data)
    assert np.array2string(x) == np.array2string(data)
    file = io.BytesIO()
    np.save(file, x)
    file.seek(0)
    assert np.array_equal(np.load(file), data)
    target = np.zeros_like(data)
    np.copyto(target, x)
    assert np.array_equal(target, data)
    np.testing.assert_array_equal(x, data)
    np.testing.assert_allclose(x, data)
    assert np.array_equal(x, data) and np.allclose(x, data) and not np.array_equal(x, data + 1)
    assert np.asarray([x[0], x[1]]).shape == (2, 3)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((5, 3), 2, 15)


class Foreign:
    """An array of another library, which knows what to do."""

    __array_priority__ = 1000

    def __array_ufunc__(self, *_: Any, **__: Any) -> str:
        return "theirs"

    def __array_function__(self, *_: Any, **__: Any) -> str:
        return "theirs"


def test_other_libraries_get_their_turn() -> None:
    _, x = placed("uneven")
    assert np.add(x, Foreign()) == "theirs"
    assert np.concatenate([x, Foreign()]) == "theirs"  # type: ignore[list-item]


def test_ufuncs_that_are_not_numpys() -> None:
    data, x = placed("uneven")
    third = np.frompyfunc(lambda v: v / 3, 1, 1)
    with pytest.raises(ArgumentTypeError, match="is not supported"):
        third(x)
    same(np.vecmat(put(value((5,), "d"), "x"), x), np.vecmat(value((5,), "d"), data), exact=False)


def test_no_initial_value_is_none() -> None:
    data, x = placed("uneven")
    for ufunc in (np.add, np.maximum, np.subtract):
        for initial in (np._NoValue, 2.5):
            same(ufunc.reduce(x, 0, initial=initial), ufunc.reduce(data, 0, initial=initial))
    with pytest.raises(GpushardError, match="has no elements along the axes"):
        np.maximum.reduce(x[:0], initial=np._NoValue)
