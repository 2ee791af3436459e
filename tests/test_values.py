"""Arrays are values: assigning to what a function or method returns never changes its operands.

Every public name is called with arrays and with arguments of many kinds, those among them for which
there is nothing to do: no axes, a shape or a dtype that the array has already. What is refused does
not matter, as long as few names refuse all of it.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random, special

VALUES = {
    "matrix": np.array([[2.0, 1.0], [1.0, 3.0]]),
    "integers": np.array([1, 0, 2]),
    "complex": np.array([1j, 2]),
    "scalar": np.array(2.0),
}

IN_PLACE = {
    "fill",
    "fill_diagonal",
    "place",
    "put",
    "put_along_axis",
    "putmask",
    "partition",
    "sort",
}
"""What gives its operand a new value, as it says: functions, or methods."""

THE_ARRAY_ITSELF = {"block_until_ready"}
"""What waits for an array and returns that."""

NOT_CALLED = {
    *("configure", "delete", "devices", "empty_cache", "load", "make_mesh", "save", "use_mesh"),
    *("default_backend", "device_count", "local_device_count", "local_devices", "live_arrays"),
    *("process_count", "process_index", "gather_guard", "register_placeable", "get_mesh"),
    *("set_mesh", "show_config"),
    *("make_array_from_callback", "map_shards", "num_addressable_indices"),
    *("pmap", "shard_map", "smap", "soft_pmap", "vmap", "jit", "pjit", "make_jaxpr", "eval_shape"),
    *("clear_caches", "effects_barrier", "io_callback", "named_scope", "pure_callback"),
}
"""Functions of other things than arrays, or whose results come from functions of the caller."""

MODULES = [gs.numpy, gs.numpy.linalg, gs.numpy.fft, random, special]


def functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    found = {name: getattr(module, name) for name in getattr(module, "__all__", dir(module))}
    return {
        name: value
        for name, value in found.items()
        if inspect.isfunction(value) and value.__module__.startswith("gpushard") and name[0] != "_"
    }


def of_arrays(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that is called with arrays alone: what a list returns may be its own."""

    @functools.wraps(method)
    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, gs.Array):
            raise TypeError
        return method(x, *args, **kwargs)

    return call


def methods() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for name in dir(gs.Array):
        static = inspect.getattr_static(gs.Array, name)
        if isinstance(static, property):
            found[name] = lambda x, name=name: getattr(x, name)
        elif inspect.isfunction(static) and (name[:2] == "__" or name[0] != "_"):
            found[name] = of_arrays(static)
    return {name: found[name] for name in found.keys() - {"__init__", "__setitem__"}}


def leaves(result: Any) -> Iterator[gs.Array]:
    if isinstance(result, gs.Array):
        yield result
    elif isinstance(result, gs.Shard):
        yield from leaves(result.data)
    elif isinstance(result, list | tuple):
        yield from itertools.chain.from_iterable(map(leaves, result))


def calls(function: Any, x: gs.Array) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments."""
    yield (x,), {}
    few = [0, 1, None, (), [], x, x.dtype, x.shape, x.sharding, (0,), [x], lambda *parts: parts[0]]
    yield from (((x, other), {}) for other in few)
    more: list[tuple[Any, ...]] = [(x.shape, x), ([x],), ([x, x],), (x, x, x), (x, x, 1), (2,)]
    more += [(True, x, x), ([True], [x], x), (x, [x > 0], [x]), (x, 0, 0), (x, (), ())]
    more += [(x, None, None), (lambda a: a, x), (lambda a: a, 0, x), (x, 2, 3)]
    more += [(x, 2, 2), (x, gs.devices()[:2]), ([x, x], gs.devices()[:2])]
    key = random.key(0)
    more += [
        (x.shape, x.sharding, [x]),
        (x.sharding, x),
        (key,),
        (key, x),
        (key, x.shape),
        (key, (), x),
        (key, x, x),
        (0,),
    ]
    more += [(key, 2), (key, 0, 1), (key, (), 0, 9), (key, 0, 1, 2), (key, 5, x), (1, 9, 3)]
    yield from ((args, {}) for args in more)
    if not x.ndim or x.dtype.kind == "c":  # others say enough
        return
    for parameter in inspect.signature(function).parameters.values():
        optional = parameter.default is not parameter.empty
        if optional and parameter.name not in ("donate", "device", "out_sharding"):
            for value in (None, 0, (), x.shape):
                yield (x,), {parameter.name: value}


def replace(x: gs.Array) -> None:
    """Give all elements another value."""
    x[...] = gs.random.key(7) if isinstance(x, gs.random.KeyArray) else 7


def refused_by(found: dict[str, Callable[..., Any]]) -> set[str]:
    """Check that assigning to results changes no operand; return which names refused all calls."""
    called = found.keys() - IN_PLACE - THE_ARRAY_ITSELF - NOT_CALLED
    took = set()
    for data, name in itertools.product(VALUES.values(), sorted(called)):
        x = gs.device_put(data)
        for args, kwargs in calls(found[name], x):
            try:
                results = list(leaves(found[name](*args, **kwargs)))
            except Exception:  # whatever: other tests are about that
                continue
            took.add(name)
            for result in results:
                replace(result)
            assert np.array_equal(x, data), (name, args[1:], kwargs)
    return called - took


@pytest.fixture(autouse=True)
def quietly() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_assigning_to_what_a_function_returns_never_changes_an_operand(module: Any) -> None:
    found = functions(module)
    assert len(refused_by(found)) <= len(found) // 10


def test_assigning_to_what_the_package_returns_never_changes_an_operand() -> None:
    assert not refused_by(functions(gs))


def test_assigning_to_what_a_method_returns_never_changes_the_array() -> None:
    left = refused_by(methods())
    assert {name for name in left if name[0] != "_"} == {"device_buffer", "device_buffers"}


def test_deleting_a_result_leaves_the_operand() -> None:
    x = gs.device_put(np.arange(8.0), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    for call in (gs.device_put, gs.numpy.asarray, np.real, np.astype, gs.numpy.ravel):
        made = call(x, x.dtype) if call is np.astype else call(x)
        assert made.sharding == x.sharding and made.committed
        pointers = [part.data.unsafe_buffer_pointer() for part in made.addressable_shards]
        assert pointers == [part.data.unsafe_buffer_pointer() for part in x.addressable_shards]
        made.delete()
        assert x.tolist() == list(range(8))
