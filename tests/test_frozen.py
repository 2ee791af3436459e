"""`gpushard._frozen.dataclass` beside the standard library's, of which it must be an image."""

import copy
import dataclasses
import inspect
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import pytest

from gpushard._frozen import dataclass

T = TypeVar("T")


def classes(decorate: Callable[..., Any]) -> types.SimpleNamespace:
    """Return classes of many kinds, made by one of the two decorators."""

    @decorate(frozen=True)
    class Values:
        """Fields with and without defaults."""

        shape: tuple[int, ...]
        self_: Any = None
        put: int = 3

    @decorate(frozen=True)
    class More(Values):
        """Fields of a base, one of them with another default."""

        put: int = 4
        last: str = "z"

        def __hash__(self) -> int:
            return 5

    @decorate(frozen=True, eq=False)
    class Same:
        """Equal only to itself, with a text of its own."""

        x: int

        def __repr__(self) -> str:
            return f"<{self.x}>"

    @decorate(frozen=True, slots=True)
    class Slots(Generic[T]):
        """Slots, some with defaults."""

        x: T
        y: int = 2

    @decorate(frozen=True)
    class Single:
        """A single field."""

        x: Any

    return types.SimpleNamespace(Values=Values, More=More, Same=Same, Slots=Slots, Single=Single)


def moved(made: types.SimpleNamespace, name: str) -> types.SimpleNamespace:
    """Put classes where `pickle` finds them."""
    module: Any = types.ModuleType(name)
    for own in vars(made).values():
        own.__module__, own.__qualname__ = name, own.__name__
        setattr(module, own.__name__, own)
    sys.modules[name] = module
    return made


OURS = moved(classes(dataclass), "gpushard_frozen_ours")
THEIRS = moved(classes(dataclasses.dataclass), "gpushard_frozen_theirs")

ARGUMENTS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Values", ((1, 2),), {}),
    ("Values", ((1, 2), None, 3), {}),
    ("Values", ((2,),), {"put": 9, "self_": "s"}),
    ("More", ((1, 2),), {}),
    ("More", ((1, 2), 0), {"last": "y"}),
    ("Same", (1,), {}),
    ("Slots", (1,), {}),
    ("Slots", (), {"y": 3, "x": (4,)}),
    ("Single", (float("inf"),), {}),
    ("Single", ((1,),), {}),
]


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return what a call gives, or the kind and the text of its error."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error), str(error).rpartition("__init__() ")[2]


@pytest.mark.parametrize(("name", "args", "kwargs"), ARGUMENTS)
def test_values_are_what_the_standard_librarys_are(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    ours, theirs = (getattr(made, name)(*args, **kwargs) for made in (OURS, THEIRS))
    for of in (repr, dataclasses.asdict, dataclasses.astuple, lambda x: x.__match_args__):
        assert str(of(ours)) == str(of(theirs))
    for x, name in ((ours, "other"), (ours, first := ours.__match_args__[0]), (theirs, first)):
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"assign to field '{name}'"):
            setattr(x, name, 1)
        with pytest.raises(dataclasses.FrozenInstanceError, match=f"delete field '{name}'"):
            delattr(x, name)
    if type(theirs).__eq__ is not object.__eq__:
        assert hash(copy.deepcopy(ours)) == hash(ours) and ours != theirs
    copies = (copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x)))
    for again in (*copies, dataclasses.replace):
        assert (again(ours) == ours) == (again(theirs) == theirs)
        assert repr(again(ours)) == repr(ours)
    assert hasattr(ours, "__dict__") == hasattr(theirs, "__dict__")


@pytest.mark.parametrize("a", ARGUMENTS)
@pytest.mark.parametrize("b", ARGUMENTS)
def test_what_is_equal_is_equal(a: Any, b: Any) -> None:
    found = []
    for made in (OURS, THEIRS):
        x, y = (getattr(made, name)(*args, **kwargs) for name, args, kwargs in (a, b))
        found.append((x == y, x != y, len({x, y})))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("name", "args", "kwargs"),
    [
        ("Values", (), {}),
        ("Values", (1, 2, 3, 4), {}),
        ("Values", (1,), {"shape": 2}),
        ("Slots", (1,), {"z": 2}),
    ],
)
def test_wrong_arguments_are_refused_in_the_same_words(
    name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    ours, theirs = (outcome(getattr(made, name), *args, **kwargs) for made in (OURS, THEIRS))
    assert ours == theirs and ours[0] is TypeError


@pytest.mark.parametrize("name", vars(OURS))
def test_parameters_are_the_same(name: str) -> None:
    ours, theirs = (
        [
            (p.name, p.default, p.kind)
            for p in inspect.signature(getattr(made, name)).parameters.values()
        ]
        for made in (OURS, THEIRS)
    )
    assert ours == theirs


def test_each_class_takes_its_own_fields_and_defaults() -> None:
    made = [classes(kind).More((1, 2), last="y") for kind in (dataclass, dataclasses.dataclass)]
    assert vars(made[0]) == vars(made[1])
    assert vars(made[0]) == {"shape": (1, 2), "self_": None, "put": 4, "last": "y"}


def test_a_value_that_holds_itself_has_a_text() -> None:
    loop: list[Any] = []
    loop.append(OURS.Single(loop))
    assert repr(loop[0]) == "Single(x=[...])"
