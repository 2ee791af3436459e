"""Arrays of keys as other arrays: their type as `dtype=`, conversions, callbacks, against JAX."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard.testing import runtime


def outcome(function: Any) -> Any:
    """Return the words of keys, other values as they are, or that the function refuses."""
    try:
        x = function()
    except (TypeError, ValueError, NotImplementedError):
        return "refused"
    if hasattr(x, "dtype") and str(x.dtype).startswith("key"):
        module = gs if isinstance(x, gs.Array) else __import__("jax")
        return ["keys", x.shape, np.asarray(module.random.key_data(x)).tolist()]
    return np.asarray(x).tolist() if hasattr(x, "shape") else x


def creations(module: Any) -> list[Any]:
    n, lax = module.numpy, module.lax
    key = module.random.key(7)
    keys = module.random.split(key)
    of_keys = key.dtype
    numbers = n.zeros(2, "int32")
    calls = [
        *(lambda f=f: f((2,), dtype=of_keys) for f in (n.empty, n.zeros, n.ones)),
        lambda: n.full((3,), key),
        lambda: n.full((3,), key, dtype=of_keys),
        lambda: n.full((2,), 3, dtype=of_keys),
        lambda: n.full((2, 2), keys),
        lambda: n.zeros_like(keys),
        lambda: n.ones_like(keys),
        lambda: n.empty_like(keys),
        lambda: n.full_like(keys, key),
        lambda: n.full_like(keys, 3),
        lambda: n.full_like(numbers, key),
        lambda: n.zeros_like(keys, dtype="int8"),
        lambda: n.array(key),
        lambda: n.array(key, dtype=of_keys),
        lambda: n.asarray(keys, dtype=of_keys),
        lambda: n.asarray([key, key]),
        lambda: n.asarray([key, key], dtype=of_keys),
        lambda: n.array(keys, dtype="uint32"),
        lambda: n.asarray([1, 2], dtype=of_keys),
        lambda: n.asarray(3, dtype=of_keys),
        lambda: n.astype(keys, of_keys),
        lambda: n.astype(keys, "uint32"),
        lambda: numbers.astype(of_keys),
        lambda: n.eye(2, dtype=of_keys),
        lambda: n.arange(2, dtype=of_keys),
        lambda: n.linspace(0, 1, dtype=of_keys),
        lambda: lax.full((2,), key),
        lambda: lax.full((2,), key, dtype=of_keys),
        lambda: lax.full_like(keys, key),
        lambda: lax.empty((2,), of_keys),
        lambda: module.jit(lambda k: n.full((2,), k))(key),
        lambda: module.jit(lambda: n.zeros((2,), dtype=of_keys))(),
        lambda: module.vmap(lambda k: n.full_like(k, k))(keys),
        lambda: module.vmap(n.zeros_like)(keys),
        lambda: module.eval_shape(lambda: n.zeros(2, dtype=of_keys)).shape,
    ]
    return [outcome(call) for call in calls]


def test_creation_and_conversion(jax: ModuleType) -> None:
    with runtime():
        ours, theirs = creations(gs), creations(jax)
    for number, (mine, wanted) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == wanted, number


def types(module: Any) -> list[Any]:
    d, of_keys = module.dtypes, module.random.key(0).dtype
    abstract = (d.prng_key, d.extended, np.generic, np.number, np.floating, np.float32, np.integer)
    given = (of_keys, d.prng_key, "float32", np.int8, np.dtype("uint16"), np.floating)
    log: list[Any] = []
    for issubdtype in (d.issubdtype, module.numpy.issubdtype):
        log += [issubdtype(a, b) for a in given for b in abstract]
    log += [d.scalar_type_of(x) for x in (1, 2.0, True, 1j, np.float32, np.dtype("uint8"))]
    log += [d.itemsize_bits(x) for x in (np.int8, "float32", np.complex64)]
    log += [str(d.canonicalize_dtype(x)) for x in ("float32", np.int8, bool)]
    log.append(d.canonicalize_dtype(of_keys, allow_extended_dtype=True) == of_keys)
    log += [of_keys.name, of_keys.itemsize, str(of_keys), of_keys.type.__name__]
    return log


def test_types(jax: ModuleType) -> None:
    assert types(gs) == types(jax)


def words(module: Any) -> list[Any]:
    """Return what callbacks get of keys in traced functions."""
    seen: list[Any] = []
    key = module.random.key(7)
    keys = module.random.split(key, 3)

    def note(x: Any) -> None:
        data = x if str(x.dtype) == "uint32" else module.random.key_data(x)
        seen.append(np.asarray(data).tolist())

    module.debug.callback(note, key)
    module.jit(lambda k: module.debug.callback(note, k))(keys)
    module.effects_barrier()
    module.vmap(lambda k: module.debug.callback(note, k))(keys)
    module.effects_barrier()
    shape = module.ShapeDtypeStruct((2,), "uint32")
    data = module.random.key_data
    if module is gs:
        data = np.asarray
    seen.append(
        np.asarray(module.pure_callback(lambda k: np.asarray(data(k)), shape, key)).tolist()
    )
    return seen


def test_callbacks_of_keys(jax: ModuleType) -> None:
    with runtime():
        assert words(gs) == words(jax)


def test_lines_that_are_printed(jax: ModuleType, capfd: pytest.CaptureFixture[str]) -> None:
    lines = []
    with runtime():
        for module in (gs, jax):
            key, x = module.random.key(5), module.numpy.arange(3)
            module.jit(lambda k, m=module: m.debug.print("key {}", k))(key)
            module.debug.print("{} {y}", x, y=1, partitioned=True)
            module.debug.print("{}", x, partitioned=False, ordered=True)
            module.debug.print("{}", 3, skip_format_check=True)
            module.effects_barrier()
            lines.append(capfd.readouterr().out)
            with pytest.raises((LookupError, ValueError)):
                module.debug.print("{partitioned}", partitioned=True)
    assert lines[0] == lines[1]


def test_arrays_of_keys_go_where_they_are_told() -> None:
    with runtime():
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        of_keys = gs.random.key(0).dtype
        keys = gnp.zeros((8,), of_keys, device=sharding)
        assert (keys.sharding, gnp.ones_like(keys).sharding) == (sharding, sharding)
        with pytest.raises(gs.errors.ArgumentRangeError, match="fill_value=-1"):
            gnp.full(2, -1, of_keys)
