"""`ShapeDtypeStruct` and what takes placements, against JAX's."""

from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime


def outcome(function: Any) -> Any:
    """Return what a function returns, or that it refuses to."""
    try:
        return function()
    except (TypeError, RuntimeError, ValueError):
        return "refused"


def described(struct: Any) -> Any:
    if not hasattr(struct, "weak_type"):
        return struct
    sharding = struct.sharding
    spec = sharding and getattr(sharding, "spec", None)
    return [struct.shape, str(struct.dtype), struct.ndim, struct.size, bool(struct.weak_type), (
        tuple(spec) if spec is not None else sharding is None
    )]  # fmt: skip


def structs(module: Any) -> list[Any]:
    new = module.ShapeDtypeStruct
    mesh = module.make_mesh((2,), ("x",))
    split = module.NamedSharding(mesh, module.P("x"))
    x = module.device_put(np.ones(4, np.float32), split)
    key = module.random.key(0)
    a = new((4, 3), "float32")
    later = new((4,), np.float32, sharding=module.P("x"))
    calls = [
        lambda: a,
        lambda: repr(a),
        lambda: len(a),
        lambda: len(new((), np.int8)),
        lambda: a == new([4, 3], np.float32),
        lambda: hash(a) == hash(new((4, 3), np.dtype("float32"))),
        lambda: a == new((4, 3), np.float32, weak_type=True),
        lambda: a == new((4, 3), np.float32, sharding=split),
        lambda: a == (4, 3),
        lambda: a.update(shape=(2,)),
        lambda: a.update(dtype=np.int8, weak_type=True),
        lambda: repr(a.update(dtype=np.int8, weak_type=True)),
        lambda: a.update(sharding=split),
        lambda: a.update(sharding=split).update(shape=(8,)),
        lambda: a.format.sharding,
        lambda: new((4,), np.float32, sharding=x.format),
        lambda: new((4,), np.float32, sharding=module.P("x", "y")),
        lambda: new((3,), key.dtype),
        lambda: setattr(a, "shape", (1,)),
        lambda: new.like(a),
        lambda: new.like(x),
        lambda: new.like(module.numpy.zeros(3, "int8")),
        lambda: new.like(np.ones(3, "int8")),
        lambda: new.like(key),
        lambda: new.like(1.0).weak_type,
        lambda: new.like(True).dtype.name,
        lambda: new.like("x"),
        lambda: new.like([1, 2]),
        lambda: later.sharding,
        lambda: later.shape,
    ]
    results = [described(outcome(call)) for call in calls]
    with module.set_mesh(mesh):
        results.append(described(later))
        compiled = module.jit(lambda x: x + 1).lower(later).compile()
        results.append(tuple(compiled.input_shardings[0][0].spec))
    return results


def test_structs(jax: ModuleType) -> None:
    with runtime():
        ours, theirs = structs(gs), structs(jax)
    for number, (mine, wanted) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == wanted, number


def places(module: Any) -> list[Any]:
    """Return where arrays are that are made with each kind of placement."""
    mesh = module.make_mesh((2,), ("x",))
    device, spec = module.devices()[1], module.P("x")
    value = np.arange(4, dtype=np.int32)
    from_local = module.make_array_from_process_local_data

    def read(index: Any) -> Any:
        return value[index]

    calls = [
        lambda: from_local(device, value),
        lambda: from_local(spec, value),
        lambda: from_local([device, module.NamedSharding(mesh, spec)], [value, value])[1],
        lambda: from_local({"a": spec, "b": device}, {"a": value, "b": value})["a"],
        lambda: from_local(spec, value, (4,)),
        lambda: from_local(3, value),
        lambda: module.make_array_from_callback((4,), module.NamedSharding(mesh, spec), read),
        lambda: module.device_put(value, spec),
        lambda: module.device_put(value, device),
    ]

    def layout(x: Any) -> Any:
        if not hasattr(x, "addressable_shards"):
            return x
        return {shard.device.id: np.asarray(shard.data).tolist() for shard in x.addressable_shards}

    results = [layout(outcome(call)) for call in calls if call is not calls[1]]
    with module.set_mesh(mesh):
        results += [layout(outcome(call)) for call in calls]
    return results


def test_placements(jax: ModuleType) -> None:
    with runtime():
        ours, theirs = places(gs), places(jax)
    for number, (mine, wanted) in enumerate(zip(ours, theirs, strict=True)):
        assert mine == wanted, number


def test_a_spec_needs_a_mesh(jax: ModuleType) -> None:
    for module in (gs, jax):
        with pytest.raises((ValueError, RuntimeError), match=r"(?i)mesh"):
            module.make_array_from_process_local_data(module.P("x"), np.arange(4))
