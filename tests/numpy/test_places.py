"""Where results are: of every public function and method, with arguments made from signatures."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from tests.right_calls import right
from tests.share import some

OF_SHAPES = {"diag_indices_from", "tril_indices_from", "triu_indices_from"}
"""Functions that look at the shape of an array alone."""


@pytest.fixture(autouse=True)
def without_warnings() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def is_of_numbers(value: Any) -> bool:
    return isinstance(value, gs.Array) and not isinstance(value, gs.random.KeyArray)


def arrays(value: Any) -> Iterator[gs.Array]:
    """Yield all arrays in arguments or results."""
    if is_of_numbers(value):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from arrays(one)


def on_no_device(value: Any) -> Any:
    """Return arguments with arrays that nobody has placed."""
    if is_of_numbers(value):
        return gs.device_put(np.asarray(value))
    if isinstance(value, list | tuple):
        return type(value)(map(on_no_device, value))
    return value


def calls() -> Iterator[tuple[str, Any, list[Any], dict[str, Any], set[str]]]:
    for name, (function, (args, named), by_name) in right().items():
        fresh = [x.copy() if isinstance(x, gs.Array) else x for x in args]
        yield name, function, fresh, named, by_name


def test_results_are_committed_as_operands_are() -> None:
    wrong, seen = set(), 0
    for name, function, args, named, _ in calls():
        given = [*arrays(args), *arrays([*named.values()])]
        if name.rpartition(".")[2] in OF_SHAPES:
            given = []
        places = set().union(*(x.sharding.device_set for x in given if x.committed))
        for made in arrays(function(*args, **named)):
            seen += 1
            placed = name == "Array.to_device" or any(x.committed for x in given)
            elsewhere = placed and given and not made.sharding.device_set <= places
            if made.committed != placed or (elsewhere and name != "Array.to_device"):
                wrong.add(name)
    assert wrong == set() and seen > 500


def test_results_of_what_nobody_placed_are_uncommitted() -> None:
    wrong = {
        name
        for name, function, args, named, _ in calls()
        for made in arrays(
            function(*on_no_device(args), **{key: on_no_device(x) for key, x in named.items()})
        )
        if made.committed
    }
    assert wrong == {"Array.to_device"}


@pytest.mark.parametrize(
    "kind", some(["device", "rows"], ["device", "rows", "replicas", "host memory"])
)
def test_results_go_where_they_are_wanted(kind: str) -> None:
    mesh = gs.make_mesh((2,), "y", devices=gs.devices()[:2])
    where = {
        "device": gs.SingleDeviceSharding(gs.devices()[3]),
        "replicas": gs.NamedSharding(mesh, gs.P()),
        "rows": gs.NamedSharding(mesh, gs.P("y")),
        "host memory": gs.NamedSharding(mesh, gs.P(), memory_kind="pinned_host"),
    }[kind]
    wrong, seen = set(), 0
    for name, function, args, named, by_name in calls():
        if "out_sharding" not in by_name or (kind == "device" and name.startswith("random.")):
            continue  # numbers are made where their parameters are
        plain = [*arrays(function(*args, **named))]
        if kind == "rows" and not all(x.ndim for x in plain):
            continue
        args = [x.copy() if isinstance(x, gs.Array) else x for x in args]
        placed = [*arrays(function(*args, **named, out_sharding=where))]
        if "histogram" in name:
            del placed[1:], plain[1:]  # edges lie where they were
        for one, other in zip(placed, plain, strict=True):
            seen += 1
            same = name.endswith("empty") or np.array_equal(one, other, equal_nan=True)
            if one.sharding != where or not one.committed or one.dtype != other.dtype or not same:
                wrong.add(name)
    assert wrong == set() and seen > 300
