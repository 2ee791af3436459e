"""Meshes of names and of fake devices, against nested loops over coordinates."""

import gc
import itertools
import math
import pickle
import sys
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.mesh import (
    AbstractMesh,
    AxisType,
    Mesh,
    create_device_mesh,
    current_mesh,
)
from gpushard.errors import ArgumentTypeError, MeshError

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@dataclass(frozen=True)
class FakeDevice:
    id: int
    is_addressable: bool = True


@st.composite
def grids(draw: st.DrawFn) -> np.ndarray:
    """Strings in an array, in any order."""
    shape = draw(shapes)
    names = draw(st.permutations([f"d{i}" for i in range(math.prod(shape))]))
    return np.array(names, dtype=object).reshape(shape)


def named(grid: np.ndarray) -> tuple[str, ...]:
    return tuple("xyz"[: grid.ndim])


def coordinates(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    return list(itertools.product(*map(range, shape)))


@given(grids())
def test_describes_its_grid(grid: np.ndarray) -> None:
    mesh = Mesh(grid, named(grid))
    assert mesh.devices.tolist() == grid.tolist()
    assert mesh.assignment == tuple(grid[c] for c in coordinates(grid.shape))
    assert list(mesh.shape.items()) == list(zip("xyz", grid.shape, strict=False))
    assert mesh.axis_sizes == grid.shape
    assert mesh.axis_names == named(grid)
    assert mesh.size == grid.size
    assert not mesh.empty
    assert mesh.local_devices == list(mesh.assignment)
    assert mesh.local_mesh is mesh
    assert mesh.abstract_mesh == AbstractMesh(grid.shape, named(grid))


@given(shapes, st.randoms(use_true_random=False))
def test_device_ids_lie_like_the_devices(shape: tuple[int, ...], random: Any) -> None:
    ids = random.sample(range(100), math.prod(shape))
    grid = np.array([FakeDevice(i) for i in ids]).reshape(shape)
    assert Mesh(grid, named(grid)).device_ids.tolist() == np.reshape(ids, shape).tolist()


@given(grids(), grids())
def test_equal_meshes_are_one_object(grid: np.ndarray, other: np.ndarray) -> None:
    mesh = Mesh(grid, named(grid))
    assert mesh is Mesh(grid.tolist(), list(named(grid)))
    assert mesh is pickle.loads(pickle.dumps(mesh))
    assert mesh != Mesh(grid, tuple("abc"[: grid.ndim]))
    assert mesh != Mesh(grid[None], ("w", *named(grid)))
    alike = grid.shape == other.shape and (grid == other).all()
    assert (mesh == Mesh(other, named(other))) == alike
    assert len({mesh, Mesh(grid.copy(), named(grid))}) == 1


def test_is_immutable() -> None:
    grid = np.array(["a", "b"], dtype=object)
    mesh = Mesh(grid, "x")
    grid[0] = "c"
    assert mesh.assignment == tuple(mesh.devices) == ("a", "b")
    with pytest.raises(ValueError, match="read-only"):
        mesh.devices[0] = "c"
    with pytest.raises(TypeError):
        mesh.shape["x"] = 3  # type: ignore[index]


def test_is_forgotten_when_unused() -> None:
    gone = weakref.ref(Mesh(["only", "here"], "x"))
    gc.collect()
    assert gone() is None


def test_is_made_once_by_many_threads() -> None:
    threads, rounds = 4, 200
    barrier = threading.Barrier(threads)

    def make(_: int) -> list[Mesh]:
        made = []
        for i in range(rounds):
            barrier.wait()
            made.append(Mesh([f"a{i}", f"b{i}"], "x"))
        return made

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(threads) as pool:
            columns = list(pool.map(make, range(threads)))
    finally:
        sys.setswitchinterval(interval)
    assert all(len(set(map(id, row))) == 1 for row in zip(*columns, strict=True))


@given(grids())
def test_getitem_keeps_coordinate_0_of_dropped_axes(grid: np.ndarray) -> None:
    mesh = Mesh(grid, named(grid))
    for count in range(1, grid.ndim + 1):
        for axes in itertools.permutations(mesh.axis_names, count):
            part = mesh[axes]
            assert part.axis_names == axes
            assert part.axis_sizes == tuple(mesh.shape[axis] for axis in axes)
            for position in coordinates(part.axis_sizes):
                at = dict(zip(axes, position, strict=True))
                full = tuple(at.get(name, 0) for name in mesh.axis_names)
                assert part.devices[position] == grid[full]
    assert mesh[mesh.axis_names] is mesh
    assert mesh["x"] is mesh[("x",)] is mesh[["x"]]


@pytest.mark.parametrize("axes", ["z", ("x", "x"), ("x", "z")])
def test_getitem_rejects_other_axes(axes: Any) -> None:
    with pytest.raises(MeshError, match=r"'x': 2, 'y': 1"):
        Mesh([["a"], ["b"]], ("x", "y"))[axes]


def local_case(shape: tuple[int, ...], local: set[tuple[int, ...]]) -> np.ndarray:
    devices = [FakeDevice(i, c in local) for i, c in enumerate(coordinates(shape))]
    return np.array(devices).reshape(shape)


def subcubes(shape: tuple[int, ...]) -> list[list[tuple[int, ...]]]:
    sides = [list(itertools.combinations(range(n + 1), 2)) for n in shape]
    return [
        list(itertools.product(*itertools.starmap(range, s))) for s in itertools.product(*sides)
    ]


@given(shapes, st.data())
def test_local_mesh_is_the_subcube_of_addressable_devices(
    shape: tuple[int, ...], data: st.DataObject
) -> None:
    cube = data.draw(st.sampled_from(subcubes(shape)))
    grid = local_case(shape, set(cube))
    mesh = Mesh(grid, named(grid))
    local = mesh.local_mesh
    assert local.axis_names == mesh.axis_names
    assert local.axis_sizes == tuple(max(c) - min(c) + 1 for c in zip(*cube, strict=True))
    assert list(local.assignment) == mesh.local_devices == [grid[c] for c in cube]
    assert mesh.is_multi_process == (len(cube) < grid.size)
    assert (local is mesh) == (not mesh.is_multi_process)


@given(st.sampled_from([(3,), (2, 2), (2, 3), (1, 4), (2, 1, 2)]), st.data())
def test_local_mesh_exists_only_for_subcubes(shape: tuple[int, ...], data: st.DataObject) -> None:
    local = data.draw(st.sets(st.sampled_from(coordinates(shape))))
    mesh = Mesh(local_case(shape, local), tuple("xyz"[: len(shape)]))
    if local in map(set, subcubes(shape)):
        assert set(mesh.local_mesh.assignment) == {d for d in mesh.assignment if d.is_addressable}
    else:
        with pytest.raises(MeshError, match="subcube" if local else "no device"):
            _ = mesh.local_mesh


def test_repr_names_the_sizes() -> None:
    mesh = Mesh([["a"], ["b"]], ("x", "y"))
    assert repr(mesh) == "Mesh('x': 2, 'y': 1)"
    assert repr(mesh.abstract_mesh) == "AbstractMesh('x': 2, 'y': 1)"


def test_zero_axes_hold_one_device() -> None:
    mesh = Mesh(np.array("a", dtype=object), ())
    assert (mesh.size, dict(mesh.shape), mesh.assignment) == (1, {}, ("a",))
    assert mesh.local_mesh is mesh[()] is pickle.loads(pickle.dumps(mesh)) is mesh


def test_with_nests_and_unwinds() -> None:
    outer, inner = Mesh(["a"], "x"), Mesh(["b"], "x")
    assert current_mesh() is None
    with outer as entered:
        assert entered is current_mesh() is outer
        with pytest.raises(KeyError), inner, outer, inner:
            assert current_mesh() is inner
            raise KeyError
        assert current_mesh() is outer
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(current_mesh).result() is None
    assert current_mesh() is None


@pytest.mark.parametrize(
    ("devices", "axis_names", "match"),
    [
        (["a", "b", "a"], "x", "'a' more than once"),
        (["a", "b", "b"], "x", "'b' more than once"),
        ([["a", "b"]], "x", "1 names for 2 axes"),
        (["a", "b"], ("x", "y"), "2 names for 1 axes"),
        ([["a", "b"]], ("x", "x"), "repeats a name"),
        ([], "x", "empty"),
    ],
)
def test_malformed_meshes(devices: Any, axis_names: Any, match: str) -> None:
    with pytest.raises(MeshError, match=match):
        Mesh(devices, axis_names)


def test_axis_names_are_strings() -> None:
    with pytest.raises(ArgumentTypeError, match="got 1"):
        Mesh([["a"]], ("x", 1))


@given(shapes)
def test_create_device_mesh_is_row_major(shape: tuple[int, ...]) -> None:
    count = math.prod(shape)
    devices = [FakeDevice(i) for i in range(count)]
    grid = create_device_mesh(shape, devices)
    assert [grid[c] for c in coordinates(shape)] == devices
    assert grid.shape == shape
    with pytest.raises(MeshError, match=f"needs {count} devices, got {count + 1}"):
        create_device_mesh(shape, [*devices, FakeDevice(count)])


@given(shapes, shapes)
def test_abstract_mesh(shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    names = tuple("xyz"[: len(shape)])
    mesh = AbstractMesh(shape, names)
    assert (mesh.axis_sizes, mesh.axis_names) == (shape, names)
    assert mesh.shape_tuple == tuple(mesh.shape.items()) == tuple(zip(names, shape, strict=True))
    assert mesh.size == len(coordinates(shape))
    assert mesh.abstract_mesh is mesh
    twin = pickle.loads(pickle.dumps(mesh))
    assert (twin, hash(twin)) == (mesh, hash(mesh))
    assert (mesh == AbstractMesh(other, tuple("xyz"[: len(other)]))) == (shape == other)
    assert mesh != AbstractMesh(shape, tuple("abc"[: len(shape)]))
    assert mesh != Mesh(np.array(range(mesh.size), dtype=object).reshape(shape), names)


@pytest.mark.parametrize(
    ("sizes", "names", "error"),
    [
        ((2, 0), ("x", "y"), MeshError),
        ((-1,), "x", MeshError),
        ((2, 2), "x", MeshError),
        ((2, 2), ("x", "x"), MeshError),
        ((2.5,), "x", ArgumentTypeError),
        (("2",), "x", ArgumentTypeError),
        ((None,), "x", ArgumentTypeError),
        (((2, 2),), "x", ArgumentTypeError),
    ],
)
def test_malformed_abstract_meshes(sizes: Any, names: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="axis_"):
        AbstractMesh(sizes, names)


def test_ragged_devices_are_refused():
    with pytest.raises(ArgumentTypeError, match="devices holds"):
        Mesh([["a", "b"], ["c"]], ("x", "y"))


def test_shape_tuple_has_each_axis_in_order() -> None:
    mesh = AbstractMesh((4, 2), ("x", "y"))
    assert mesh.shape_tuple == (("x", 4), ("y", 2))
    assert Mesh(np.arange(6).reshape(2, 3), ("b", "a")).shape_tuple == (("b", 2), ("a", 3))


KINDS = {"auto": AxisType.Auto, "explicit": AxisType.Explicit, "manual": AxisType.Manual}


@pytest.mark.parametrize("kinds", list(itertools.product(KINDS, repeat=2)), ids="-".join)
def test_axes_are_listed_by_their_types(kinds: tuple[str, str]) -> None:
    types = tuple(KINDS[kind] for kind in kinds)
    abstract = AbstractMesh((4, 2), ("x", "y"), types)
    grid = np.array(range(8), dtype=object).reshape(4, 2)
    for mesh in (abstract, Mesh(grid, ("x", "y"), types)):
        for kind in KINDS:
            names = tuple(n for n, own in zip("xy", kinds, strict=True) if own == kind)
            assert getattr(mesh, f"{kind}_axes") == names
            assert getattr(mesh, f"are_all_axes_{kind}") is (names == ("x", "y"))
    for name, kind in itertools.product("xy", KINDS.values()):
        changed = abstract.update_axis_types({name: kind})
        wanted = [kind if n == name else own for n, own in zip("xy", types, strict=True)]
        assert changed == abstract and changed.axis_types == tuple(wanted)
    assert abstract.update_axis_types({}).axis_types == types


def test_what_an_update_does_not_name_stays() -> None:
    types = AxisType.Explicit, AxisType.Manual
    grid = np.arange(8).reshape(4, 2)
    meshes = (
        (Mesh(grid, ("x", "y"), types), "devices", np.arange(6).reshape(2, 3)),
        (AbstractMesh((4, 2), ("x", "y"), types), "axis_sizes", (2, 3)),
    )
    for mesh, first, value in meshes:
        assert mesh.update().axis_types == types
        changes = {first: value, "axis_names": ("p", "q"), "axis_types": types[::-1]}
        for count in range(4):
            for names in itertools.combinations(changes, count):
                made = mesh.update(**{name: changes[name] for name in names})
                assert made.axis_sizes == ((2, 3) if first in names else (4, 2))
                assert made.axis_names == (("p", "q") if "axis_names" in names else ("x", "y"))
                assert made.axis_types == (types[::-1] if "axis_types" in names else types)


def test_meshes_are_equal_by_their_devices_not_by_hashes() -> None:
    one, other = Mesh([-1], "x"), Mesh([-2], "x")
    assert hash(one) == hash(other) and one != other
    assert one == Mesh([-1], "x", (AxisType.Manual,)) and one != "x"


def test_a_mesh_without_axes_has_none_of_any_type() -> None:
    mesh = AbstractMesh((), ())
    assert mesh.empty and not AbstractMesh((1,), "x").empty
    for kind in KINDS:
        assert getattr(mesh, f"{kind}_axes") == ()
        assert getattr(mesh, f"are_all_axes_{kind}") is False
