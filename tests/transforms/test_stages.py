"""What `lower` knows of a call, and what `compile` makes of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing, tree

VALUE = np.arange(12.0, dtype=np.float32).reshape(4, 3)
ABSTRACT = gs.ShapeDtypeStruct(VALUE.shape, VALUE.dtype)


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


def body(x: Any, k: int, t: Any, *, z: Any) -> Any:
    return x * k + t["a"] + z


def lowered(x: Any = ABSTRACT, a: Any = 1.0, z: Any = ABSTRACT) -> Any:
    f = gs.pmap(
        body, in_axes=(0, None), static_broadcasted_argnums=1, donate_argnums=0, axis_size=4
    )
    return f.lower(x, 3, {"a": a}, z=z)


def test_what_is_known_before_a_call() -> None:
    made = lowered()
    (x, t), named = made.args_info
    assert (x.shape, x.dtype, x.donated) == ((4, 3), np.float32, True)
    assert (t["a"].shape, t["a"].donated) == ((), False) and not named["z"].donated
    assert made.donate_argnums == (0,)
    assert made.in_tree == tree.structure(((0, {"a": 0}), {"z": 0}))
    assert made.in_avals[0][0] == ABSTRACT


def test_a_compiled_call_is_a_call() -> None:
    run = lowered().compile()
    x = gs.device_put(VALUE)
    made = run(x, {"a": 1.0}, z=VALUE)
    np.testing.assert_array_equal(np.asarray(made), VALUE * 3 + 1 + VALUE)
    assert x.is_deleted() and made.sharding.num_devices == 4
    assert run.in_tree == lowered().in_tree and run.donate_argnums == (0,)
    x = gs.device_put(VALUE)
    lowered(x)
    assert not x.is_deleted()  # nothing was done


def test_lowering_does_not_call_the_function() -> None:
    calls: list[Any] = []
    gs.pmap(calls.append).lower(VALUE).compile()
    assert not calls


def test_memory_of_abstract_arguments_is_not_taken() -> None:
    huge = gs.ShapeDtypeStruct((4, 1 << 50), "float32")
    assert gs.pmap(lambda x: x).lower(huge).args_info[0][0].shape == huge.shape


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "structure": (lambda: lowered().compile()(VALUE, 1.0, z=VALUE), TypeError, "compiled for arg"),
    "shape": (
        lambda: lowered().compile()(VALUE[:, :2], {"a": 1.0}, z=VALUE),
        TypeError,
        r"0: float32\[4, 3\] is float32\[4, 2\]",
    ),
    "types": (
        lambda: lowered().compile()(VALUE.astype(int), {"a": 1}, z=VALUE),
        TypeError,
        r"0: float32\[4, 3\] is int64\[4, 3\]; 1: float64\[\] is int64\[\]; lower it",
    ),
    "in a function": (
        lambda: gs.vmap(lambda x: lowered().compile()(VALUE, {"a": 1.0}, z=VALUE))(VALUE),
        TypeError,
        "can't be called in a function that is mapped",
    ),
    "program": (lambda: lowered().as_text(), NotImplementedError, "as_text is of a program"),
    "results": (lambda: lowered().compile().out_tree, NotImplementedError, "out_tree is of a"),
    "attribute": (lambda: lowered().nothing, AttributeError, "nothing"),
    "sizes": (
        lambda: gs.pmap(lambda x, y: x).lower(ABSTRACT, gs.ShapeDtypeStruct((5,), "f4")),
        ValueError,
        r"5 in dim 0 of argument y of shape \(5,\)",
    ),
    "devices": (
        lambda: gs.pmap(lambda x: x).lower(gs.ShapeDtypeStruct((9, 2), "f4")),
        ValueError,
        "needs 9 devices, there are 8",
    ),
    "argument": (lambda: gs.pmap(lambda x: x).lower("a"), TypeError, "argument x is a str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with pytest.raises(builtin, match=message):
        call()
