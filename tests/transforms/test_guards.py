"""Transfer guards watch the arguments of whatever takes NumPy arrays: each place has a row."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import lax, legacy, nnx, random
from gpushard.errors import TransferGuardError

HOST = np.arange(8.0)
MESH = gs.make_mesh((8,), "x")
OVER = gs.NamedSharding(MESH, gs.P("x"))
COMPILED = gs.jit(lambda x: x + 1).lower(gs.numpy.ones(8)).compile()


def _more(x: Any) -> Any:
    return x + 1


def _within_mesh(call: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def within(x: Any) -> Any:
        with MESH:
            return call(x)

    return within


TAKES: dict[str, Callable[[Any], Any]] = {
    "jit": gs.jit(_more),
    "jit of a tree": lambda x: gs.jit(lambda t: t["a"] + 1)({"a": x}),
    "jit by name": lambda x: gs.jit(_more)(x=x),
    "jit within jit": lambda x: gs.jit(lambda y: gs.jit(_more)(x) + y)(gs.numpy.ones(8)),
    "jit with in_shardings": gs.jit(_more, in_shardings=OVER),
    "jit beside in_shardings": lambda x: gs.jit(lambda a, b: a + b, in_shardings=(OVER, None))(
        gs.numpy.ones(8), x
    ),
    "jit on a device": gs.jit(_more, device=gs.devices()[1]),
    "a compiled function": COMPILED,
    "pjit": _within_mesh(gs.pjit(_more, in_shardings=gs.P("x"))),
    "vmap": gs.vmap(_more),
    "vmap, not mapped": lambda x: gs.vmap(lambda a, b: a + b, (0, None))(gs.numpy.ones(3), x),
    "pmap": gs.pmap(_more),
    "shard_map": gs.shard_map(_more, mesh=MESH, in_specs=gs.P("x"), out_specs=gs.P("x")),
    "xmap": legacy.xmap(_more, {0: "i"}, {0: "i"}),
    "sharded_jit": legacy.sharded_jit(_more, legacy.Parts(8), legacy.Parts(8)),
    "nnx.jit": nnx.jit(_more),
    "cond": lambda x: lax.cond(True, _more, _more, x),
    "scan": lambda x: lax.scan(lambda c, a: (c + a, a), 0.0, x),
    "while_loop": lambda x: lax.while_loop(lambda c: c[0] < 3, _more, x),
    "fori_loop": lambda x: lax.fori_loop(0, 2, lambda i, c: c + 1, x),
    "an operand": lambda x: x + gs.numpy.ones(8),
    "a function": gs.numpy.sin,
    "a function of lax": lambda x: lax.add(x, x),
    "a function of nn": gs.nn.relu,
    "a shuffle": lambda x: random.permutation(random.key(0), x),
    "a covariance": lambda x: random.multivariate_normal(
        random.key(0), gs.numpy.ones(1), abs(x[:1].reshape(1, 1)) + 1
    ),
}


@pytest.mark.parametrize("name", TAKES)
def test_arrays_of_numpy_are_watched(name: str) -> None:
    call = TAKES[name]
    expected = call(HOST)
    for guard in (gs.transfer_guard_host_to_device, gs.transfer_guard):
        with guard("disallow"), pytest.raises(TransferGuardError, match="implicit host_to_device"):
            call(HOST)
    with gs.transfer_guard_host_to_device("disallow"):
        again = call(gs.device_put(HOST))
    for one, other in zip(gs.tree.leaves(again), gs.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", ["jit", "jit of a tree", "nnx.jit", "cond", "a function"])
def test_numbers_pass(name: str) -> None:
    with gs.transfer_guard("disallow"):
        TAKES[name](2.0)
