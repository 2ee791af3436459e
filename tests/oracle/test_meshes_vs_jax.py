"""Meshes and specs as objects against JAX's: fields, updates, and what is refused."""

import itertools
import pickle
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.testing import runtime


def outcome(function: Any) -> Any:
    """Return what a function returns, or the builtin error that it raises."""
    try:
        return function()
    except (ValueError, TypeError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError


def fields(mesh: Any) -> list[Any]:
    """Return what a mesh says of its axes."""
    return [
        mesh.axis_names,
        tuple(mesh.axis_sizes),
        dict(mesh.shape),
        mesh.shape_tuple,
        mesh.size,
        mesh.empty,
        [kind.name for kind in mesh.axis_types],
        mesh.auto_axes,
        mesh.explicit_axes,
        mesh.manual_axes,
        mesh.are_all_axes_auto,
        mesh.are_all_axes_explicit,
        mesh.are_all_axes_manual,
    ]


def types_of(module: Any, names: Any) -> Any:
    return tuple([getattr(module.sharding.AxisType, name) for name in names])


TYPES = [None, *itertools.product(("Auto", "Explicit", "Manual"), repeat=2)]


@pytest.mark.parametrize("names", TYPES)
def test_types_of_axes(jax: ModuleType, names: Any) -> None:
    results = []
    for module in (gs, jax):
        types = None if names is None else types_of(module, names)
        auto = module.sharding.AxisType.Auto
        mesh = module.make_mesh((4, 2), ("x", "y"), axis_types=types)
        sizes = ((4, 2), ("x", "y"))
        abstract = module.sharding.AbstractMesh(*sizes, axis_types=types)
        results.append(
            [
                fields(mesh),
                fields(module.sharding.Mesh(mesh.devices, ("x", "y"), axis_types=types)),
                fields(abstract),
                fields(mesh.abstract_mesh),
                fields(mesh.update(axis_names=("a", "b"))),
                fields(mesh.update(axis_types=(auto, auto))),
                fields(mesh.update(devices=mesh.devices.T)),
                fields(abstract.update(axis_sizes=(2, 8))),
                fields(abstract.update(axis_names=("a", "b"), axis_types=(auto, auto))),
                fields(abstract.update_axis_types({"y": auto})),
                mesh == module.make_mesh((4, 2), ("x", "y"), axis_types=types),
                mesh == module.make_mesh((2, 4), ("x", "y"), axis_types=types),
                abstract == module.sharding.AbstractMesh(*sizes, axis_types=types),
            ]
        )
    assert results[0] == results[1]


def test_what_is_no_list_of_types(jax: ModuleType) -> None:
    results = []
    for module in (gs, jax):
        auto = module.sharding.AxisType.Auto
        mesh = module.make_mesh((4, 2), ("x", "y"))
        calls = [
            lambda m=mesh, t=types: fields(m.update(axis_types=t))
            for types in ((auto,), ("Auto", "Auto"), 3, (auto,) * 3)
        ]
        calls.append(lambda m=mesh: m.update(axis_names=("x",)))
        results.append([outcome(call) for call in calls])
    assert results[0] == results[1]


def decorated(module: Any) -> list[Any]:
    mesh = module.sharding.Mesh(module.devices()[:4], ("x",))

    @mesh
    def split(x: Any) -> Any:
        """Split it."""
        constrained = module.lax.with_sharding_constraint
        return module.jit(lambda x: constrained(x + 1, module.P("x")))(x)

    x = split(np.arange(8))
    return [split.__name__, split.__doc__, x.sharding.spec == module.P("x"), x.tolist()]


def test_a_mesh_decorates_functions(jax: ModuleType) -> None:
    with runtime():
        assert decorated(gs) == decorated(jax)


SPECS = [
    ((), {}),
    (("x",), {}),
    (("x", None, ("y", "z")), {}),
    ((("x",),), {}),
    (("x",), {"unreduced": {"y"}}),
    (("x",), {"reduced": frozenset("yz")}),
    ((None,), {"unreduced": {"x"}, "reduced": {"y"}}),
    (("x",), {"unreduced": {"x"}}),
    ((("x", "y"),), {"reduced": {"y"}}),
    ((), {"unreduced": {"x"}, "reduced": {"x"}}),
    ((), {"unreduced": "x"}),
    ((), {"reduced": ["x"]}),
    ((), {"unreduced": set()}),
]


def described(spec: Any) -> list[Any]:
    return [spec.partitions, spec.unreduced, spec.reduced, len(spec)]


def test_fields_of_specs(jax: ModuleType) -> None:
    built: list[list[Any]] = []
    for module in (gs, jax):
        specs = [outcome(lambda m=module, a=a, k=k: m.P(*a, **k)) for a, k in SPECS]
        built.append(specs)
    ours, theirs = built
    for mine, wanted in zip(ours, theirs, strict=True):
        if isinstance(wanted, type):
            assert mine is wanted
            continue
        assert described(mine) == described(wanted)
        for change in (
            {"partitions": ("q",)},
            {"unreduced": {"r"}},
            {"reduced": {"s"}, "partitions": ("t", None)},
        ):
            assert described(mine.update(**change)) == described(wanted.update(**change))
        again = pickle.loads(pickle.dumps(mine))
        assert (again == mine, hash(again) == hash(mine)) == (True, True)
    pairs = [
        [a == b for a, b in itertools.product(specs, repeat=2) if not isinstance(a, type)]
        for specs in built
    ]
    assert pairs[0] == pairs[1]
    sums = [
        [
            outcome(lambda a=a, b=b: described(a + b))
            for a, b in itertools.product(specs[:7], repeat=2)
        ]
        for specs in built
    ]
    assert sums[0] == sums[1]


def test_reduced_axes_make_no_difference_to_values(jax: ModuleType) -> None:
    results = []
    for module in (gs, jax):
        mesh = module.make_mesh((2, 2), ("x", "y"))
        sharding = module.NamedSharding(mesh, module.P("x", reduced={"y"}))
        x = module.device_put(np.arange(4.0), sharding)
        results.append(
            [
                x.tolist(),
                sharding.shard_shape((4, 4)),
                sharding == module.NamedSharding(mesh, module.P("x")),
                outcome(lambda m=module, h=mesh: m.NamedSharding(h, m.P("x", reduced={"q"}))),
            ]
        )
    assert results[0] == results[1]
