"""Objects of other classes that offer an array by `__jax_array__`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax

VALUE = np.arange(1.0, 9.0)


class Offers:
    """Offers an array, and is nothing else."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __jax_array__(self) -> Any:
        return self.array


TAKE: dict[str, Callable[[Any, Any], Any]] = {
    "sin": lambda o, x: gnp.sin(o),
    "add": lambda o, x: gnp.add(o, 1),
    "add of two": lambda o, x: gnp.add(o, o),
    "add to an array": lambda o, x: gnp.add(x, o),
    "sum": lambda o, x: gnp.sum(o),
    "dot": lambda o, x: gnp.dot(o, x),
    "where": lambda o, x: gnp.where(x > 2, o, 0),
    "stack": lambda o, x: gnp.stack([o, o]),
    "concatenate": lambda o, x: gnp.concatenate([x, o]),
    "asarray": lambda o, x: gnp.asarray(o),
    "array of a list": lambda o, x: gnp.array([o, x]),
    "zeros_like": lambda o, x: gnp.zeros_like(o),
    "reshape": lambda o, x: gnp.reshape(o, (2, 4)),
    "sort": lambda o, x: gnp.sort(o),
    "lax": lambda o, x: lax.exp(o),
    "x + o": lambda o, x: x + o,
    "o - x": lambda o, x: o - x,
    "x < o": lambda o, x: x < o,
}


@pytest.mark.parametrize("name", TAKE)
def test_functions_take_what_is_offered(name: str) -> None:
    sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
    x = gs.device_put(VALUE, sharding)
    plain = TAKE[name](x, x)
    with gs.transfer_guard("disallow"):  # it stays on its devices
        taken = TAKE[name](Offers(x), x)
        traced = gs.jit(lambda x: TAKE[name](Offers(x), x))(x)
    for result in (taken, traced):
        np.testing.assert_array_equal(np.asarray(result), np.asarray(plain))
    assert taken.sharding == plain.sharding


def test_something_else_is_refused() -> None:
    for call in (gnp.sin, lambda o: gnp.ones(3) + o, gnp.asarray):
        with pytest.raises(gs.errors.ArgumentTypeError, match="__jax_array__ of a Offers"):
            call(Offers([1.0]))
