"""What is known of the code that calls, however it does so."""

from __future__ import annotations

import functools
import operator
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._array.views import LIBRARIES
from gpushard.errors import ArgumentError

CODE = """
def add(a, x):
    a += x
    return a

def assign(x, value):
    x[0] = value

def call(function, *args):
    return function(*args)

def each(function, *args):
    return list(map(function, *args))

def by_key(function, values):
    return sorted(values, key=function)
"""


def code_of(name: Any) -> Any:
    """Return functions of code whose module calls itself so; without a name for `...`."""
    found: dict[str, Any] = {} if name is ... else {"__name__": name}
    exec(CODE, found)
    return type("Code", (), {k: staticmethod(v) for k, v in found.items() if callable(v)})


def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any) -> Any:
        return function(*args)

    return wrapper


def in_class(function: Callable[..., Any]) -> Callable[..., Any]:
    class Held:
        method = staticmethod(function)

        def __call__(self, *args: Any) -> Any:
            return self.method(*args)

    return Held()


def in_thread(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any) -> Any:
        made: list[Any] = []
        thread = threading.Thread(target=lambda: made.append(function(*args)))
        thread.start()
        thread.join()
        return made[0]

    return run


WAYS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "itself": lambda function: function,
    "wrapper": wrapped,
    "partial": lambda function: functools.partial(function),
    "method": in_class,
    "map": lambda function: lambda *args: next(map(function, *([x] for x in args))),
    "reduce": lambda function: lambda a, x: functools.reduce(function, [x], a),
    "key": lambda function: lambda a, x: (max([x], key=functools.partial(function, a)), a)[1],
    "generator": lambda function: lambda *args: next(function(*args) for _ in range(1)),
    "thread": in_thread,
}
"""Ways to call a function of two arguments."""

NAMES: list[Any] = ["program", "gpushards", None, 3, ...]
"""What code may call its module; the last has none."""


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_a_numpy_array_gets_another_value_by_its_operator(way: str, name: Any) -> None:
    a, x = np.arange(4.0), gs.device_put(np.ones(4))
    made = WAYS[way](code_of(name).add)(a, x)
    if way != "key":  # which forgets what its function returns
        assert isinstance(made, gs.Array) and np.asarray(made).tolist() == [1, 2, 3, 4]
    assert a.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("way", ["itself", "wrapper", "partial", "map", "reduce", "thread"])
def test_a_place_for_the_result_is_no_operator_whoever_calls(way: str) -> None:
    a, x = np.arange(4.0), gs.device_put(np.ones(4))

    def refused(function: Callable[..., Any]) -> bool:
        def call(a: Any, x: Any) -> bool:
            with pytest.raises(ArgumentError, match="out= is not supported"):
                function(a, x)
            return True

        made: bool = WAYS[way](call)(a, x)
        return made

    total = 0
    for function in (operator.iadd, np.ndarray.__iadd__, lambda a, x: np.add(a, x, out=a)):
        total += refused(function)  # an operator that assigns is at work, but another one
    assert total == 3 and a.tolist() == [0, 1, 2, 3]


@pytest.fixture
def _libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, sys.modules.get(name, ModuleType(name)))


@pytest.mark.usefixtures("_libraries")
@pytest.mark.parametrize("way", ["itself", "wrapper", "partial", "method", "map", "thread"])
@pytest.mark.parametrize(
    ("name", "shows"), [("scipy.x", True), ("sklearn", True), *((name, False) for name in NAMES)]
)
def test_the_code_that_assigns_decides_about_views(way: str, name: Any, shows: bool) -> None:
    x = gs.device_put(np.arange(4.0))
    part = x[1:]
    WAYS[way](code_of(name).assign)(part, 9)
    assert np.asarray(part).tolist() == [9, 2, 3]
    assert np.asarray(x).tolist() == ([0, 9, 2, 3] if shows else [0, 1, 2, 3])


@pytest.mark.usefixtures("_libraries")
def test_what_a_library_calls_decides_for_itself_unless_it_has_no_code_of_its_own() -> None:
    library, user = code_of("scipy.x"), code_of("program")
    put = functools.partial(operator.setitem)
    for call, shows in (
        (lambda part: library.call(user.assign, part, 9), False),
        (lambda part: user.call(library.assign, part, 9), True),
        (lambda part: library.each(user.assign, [part], [9]), False),
        (lambda part: user.each(library.assign, [part], [9]), True),
        (lambda part: library.call(put, part, 0, 9), True),
        (lambda part: user.call(put, part, 0, 9), False),
        (lambda part: library.by_key(lambda value: user.assign(part, value) or value, [9]), False),
    ):
        x = gs.device_put(np.arange(4.0))
        part = x[1:]
        call(part)
        assert np.asarray(part).tolist() == [9, 2, 3]
        assert np.asarray(x).tolist() == ([0, 9, 2, 3] if shows else [0, 1, 2, 3])
