"""`pmap(...).lower`: what is known of a call before it is done."""

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
    assert made.in_avals[0][0].shape == ABSTRACT.shape
    assert "multiply" in made.as_text()
    assert isinstance(made.compile().output_shardings, gs.sharding.PmapSharding)


def test_a_compiled_call_is_a_call() -> None:
    run = lowered().compile()
    x = gs.device_put(VALUE)
    made = run(x, {"a": 1.0}, z=VALUE)
    np.testing.assert_array_equal(np.asarray(made), VALUE * 3 + 1 + VALUE)
    assert x.is_deleted() and made.sharding.num_devices == 4
    x = gs.device_put(VALUE)
    lowered(x)
    assert not x.is_deleted()  # nothing was done


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "structure": (lambda: lowered().compile()(VALUE, 1.0, z=VALUE), TypeError, "compiled for"),
    "shape": (
        lambda: lowered().compile()(VALUE[:, :2], {"a": 1.0}, z=VALUE),
        TypeError,
        r"float32\[4, 2\], compiled for float32\[4, 3\]",
    ),
    "in a function": (
        lambda: gs.vmap(lambda x: lowered().compile()(VALUE, {"a": 1.0}, z=VALUE))(VALUE),
        TypeError,
        "mapped or traced",
    ),
    "sizes": (
        lambda: gs.pmap(lambda x, y: x).lower(ABSTRACT, gs.ShapeDtypeStruct((5,), "f4")),
        ValueError,
        r"5 along axis 0 of argument y of shape \(5,\)",
    ),
    "devices": (
        lambda: gs.pmap(lambda x: x).lower(gs.ShapeDtypeStruct((9, 2), "f4")),
        ValueError,
        "needs 9 devices, there are 8",
    ),
    "argument": (lambda: gs.pmap(lambda x: x).lower("a"), TypeError, "str"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_arguments_are_refused(name: str) -> None:
    call, builtin, message = REFUSED[name]
    with pytest.raises(builtin, match=message):
        call()
