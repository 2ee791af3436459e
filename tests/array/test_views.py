"""Libraries that are written for NumPy's views find what they count on; all others find values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._array.views import LIBRARIES
from tests.movement.strategies import indices
from tests.share import examples

CODE = """
def assign(x, index, value):
    x[index] = value

def add(x, value):
    x += value

def add_to_part(x, index, value):
    x[index] += value

def put(xp, x, positions, values):
    xp.put(x, positions, values)
"""


def code_of(module: str) -> Any:
    """Return functions as if a module had them."""
    found: dict[str, Any] = {"__name__": module}
    exec(CODE, found)
    return type("Code", (), {k: staticmethod(v) for k, v in found.items() if callable(v)})


@pytest.fixture(autouse=True, scope="module")
def libraries() -> Iterator[None]:
    """Have the libraries, or what looks like them, imported."""
    with pytest.MonkeyPatch.context() as patch:
        for name in LIBRARIES:
            patch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))
        yield


LIBRARY, USER = code_of("scipy.signal"), code_of("program")


def named(*entries: Any) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4, 2), ("x", "y")), gs.P(*entries))


def taken(draw: Any, x: np.ndarray) -> Callable[[Any], Any]:
    """Draw what takes a view of an array."""
    how = draw(st.sampled_from(["part", "turned", "reshaped", "flat", "new dim", "swapped"]))
    if how == "part":
        index = draw(indices(x.shape))
        return lambda x: x[index]
    if how == "swapped" and x.ndim > 1:
        return lambda x: np.swapaxes(x, 0, -1)
    calls: dict[str, Callable[[Any], Any]] = {
        "turned": lambda x: x.T,
        "reshaped": lambda x: x.reshape(x.shape[::-1]),
        "flat": lambda x: x.ravel(),
    }
    return calls.get(how, lambda x: np.expand_dims(x, 0))


@given(data=st.data())
@examples(60)
def test_libraries_have_views(data: st.DataObject) -> None:
    """Any views of views, any assignments: all arrays are what NumPy's are at any time."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    value = np.arange(float(np.prod(shape))).reshape(shape)
    x: Any = gs.device_put(value, named(*"xy"[: len(shape)]))
    theirs, ours = [value, value[...]], [x, x[...]]
    for step in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(theirs) - 1))
        x, y = theirs[at], ours[at]
        how = data.draw(st.sampled_from(["take", "take", "assign", "mask", "add", "add to part"]))
        if how == "take":
            take = taken(data.draw, x)
            made, mine = take(x), take(y)
            if isinstance(made, np.ndarray) and made.ndim and made.ndim < 5 and made.size:
                theirs.append(made)
                ours.append(mine)
            continue
        index = x % 2 == 0 if how == "mask" else (slice(None, None, 2), ...)
        for array in (x, y):
            if how == "add":
                LIBRARY.add(array, step)
            elif how == "add to part":
                LIBRARY.add_to_part(array, index, step)
            else:
                LIBRARY.assign(array, index, step)
        for one, other in zip(theirs, ours, strict=True):
            np.testing.assert_array_equal(np.asarray(other), one)


def test_programs_have_values() -> None:
    value = np.arange(24.0).reshape(4, 6)
    for take in (lambda x: x[1:], lambda x: x.T, lambda x: x.reshape(24), lambda x: x[2]):
        x = gs.device_put(value, named("x", "y"))
        part, other = take(x), take(x)
        USER.assign(part, ..., -1)
        assert np.array_equal(x, value) and np.array_equal(other, take(value))
        USER.assign(x, ..., -2)
        assert (np.asarray(part) == -1).all() and np.array_equal(other, take(value))
        LIBRARY.assign(part, ..., -3)  # a value of its own by now
        LIBRARY.assign(other, ..., -4)  # of an array that has another value since
        assert (np.asarray(x) == -2).all()


@pytest.mark.parametrize("gone", [False, True])
def test_an_array_has_the_strides_of_what_it_was_taken_from(gone: bool) -> None:
    """Reshaping what is turned copies, also where the array that it is of is gone."""
    x = gs.device_put(np.arange(6.0).reshape(2, 3), named("x"))
    turned = x.T
    again = turned if gone else x.T
    if gone:
        del x
    copied, flat = turned.reshape(2, 3), turned.T.reshape(6)
    part = copied.reshape(6)[::2]
    LIBRARY.assign(part, ..., 7)
    assert np.array_equal(copied, [[7, 3, 7], [4, 7, 5]])
    assert np.array_equal(turned, [[0, 3], [1, 4], [2, 5]]) and np.array_equal(again, turned)
    LIBRARY.assign(flat, 0, 9)
    assert turned[0, 0] == again[0, 0] == 9 and copied[0, 0] == 7


@pytest.mark.parametrize(
    "take",
    [
        lambda x: x[0, ::-2], lambda x: x[:, 1], lambda x: x[:, :1], lambda x: x[1:, :],
        lambda x: x.T, lambda x: x[0], lambda x: x[2:3, 1:2], lambda x: x[::2, :1],
    ],
)  # fmt: skip
@pytest.mark.parametrize("flat", ["ravel", "reshape"])
def test_what_lies_with_gaps_is_copied_where_it_becomes_dense(take: Any, flat: str) -> None:
    value = np.arange(12.0).reshape(4, 3)
    x: Any = gs.device_put(value, named("x"))
    theirs, ours = (
        take(of).ravel() if flat == "ravel" else take(of).reshape(-1) for of in (value, x)
    )
    LIBRARY.assign(value, ..., 7)
    LIBRARY.assign(x, ..., 7)
    assert np.array_equal(ours, theirs)
    LIBRARY.assign(theirs, slice(0, 1), 9)
    LIBRARY.assign(ours, slice(0, 1), 9)
    assert np.array_equal(x, value)


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_library_does(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in set(LIBRARIES) - {library}:
        monkeypatch.delitem(sys.modules, other)
    x = gs.device_put(np.zeros((4, 2)), named("x"))
    part = x[1:3]
    code_of(f"{library}.somewhere").assign(part, 0, 5)
    assert x.tolist() == [[0, 0], [5, 5], [0, 0], [0, 0]]
    code_of(f"{library}like").assign(part, 0, 7)
    assert x.tolist() == [[0, 0], [5, 5], [0, 0], [0, 0]]


def test_what_numpy_copies_is_no_view() -> None:
    value = np.arange(12.0).reshape(4, 3)
    copies: list[Callable[[Any], Any]] = [
        lambda x: x.flatten(),
        lambda x: x.copy(),
        lambda x: x.T.reshape(12),
        lambda x: x[[0, 1]],
        lambda x: np.roll(x, 0, 0),
        lambda x: np.delete(x, [], 0),
        lambda x: x.astype(x.dtype),
        lambda x: x.clip(0, 100),
        lambda x: x + 0,
        lambda x: x[2, 1],
    ]
    for take in copies:
        x = gs.device_put(value, named("x"))
        made = take(x)
        LIBRARY.assign(made, ..., -1)
        assert np.array_equal(x, value)
        assert (np.asarray(made) == -1).all()


def test_functions_that_change_an_array_change_what_it_is_a_view_of() -> None:
    x = gs.device_put(np.zeros((4, 3)), named("x"))
    part = x[1]
    LIBRARY.put(gs.numpy, part, [0, 2], [5.0, 6.0])
    assert x[1].tolist() == part.tolist() == [5, 0, 6]


def test_the_sharding_stays() -> None:
    x = gs.device_put(np.zeros((8, 6)), named("x", "y"))
    part = x.T
    LIBRARY.add(part, gs.device_put(np.arange(8.0), gs.devices()[0]).to_device(named()))
    assert x.sharding == named("x", "y") and part.sharding == named("y", "x")
    assert x.tolist() == np.outer(np.arange(8.0), np.ones(6)).tolist()


def test_a_refused_assignment_changes_nothing() -> None:
    x = gs.device_put(np.zeros((4, 3)), named("x"))
    part = x[1:]
    with pytest.raises(ValueError, match="broadcast"):
        LIBRARY.assign(part, ..., [1.0, 2.0])
    assert not np.asarray(x).any() and not np.asarray(part).any()


def test_arrays_that_are_gone_leave_nothing_behind() -> None:
    x = gs.device_put(np.zeros(64), named("x"))
    for _ in range(100):
        x = x[::-1]
    assert x._view is not None and x._view.depth <= 16
    LIBRARY.assign(x, ..., 1)
    assert (np.asarray(x) == 1).all()
