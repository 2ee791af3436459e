"""Where new data goes by default: on a device, or over a mesh."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._placement.default_placement import cut_spec, spread
from gpushard.errors import ArgumentError, ArgumentTypeError, ShardingError
from gpushard.testing import runtime

gnp = gs.numpy


@pytest.fixture(autouse=True)
def own_runtime() -> Iterator[None]:
    with runtime():
        yield


@pytest.fixture
def mesh() -> gs.Mesh:
    return gs.make_mesh((4, 2), ("x", "y"))


SOURCES: dict[str, Any] = {
    "device_put": lambda shape: gs.device_put(np.zeros(shape)),
    "asarray": lambda shape: gnp.asarray(np.zeros(shape)),
    "zeros": gnp.zeros,
    "full": lambda shape: gnp.full(shape, 3.5),
    "add": lambda shape: gnp.add(np.zeros(shape), 1),
    "zeros_like": lambda shape: gnp.zeros_like(np.zeros(shape)),
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("spec", "shape", "wanted"),
    [
        (gs.P("x", "y"), (8, 6), gs.P("x", "y")),
        (gs.P("x", "y"), (5,), gs.P("x")),
        (gs.P("x", "y"), (1, 6), gs.P(None, "y")),
        (gs.P("x", "y"), (0, 6), gs.P(None, "y")),
        (gs.P("x", "y"), (), gs.P()),
        (gs.P(("y", "x")), (3, 3, 3), gs.P(("y", "x"))),
        (gs.P(), (8, 6), gs.P()),
        ("auto", (8, 6), gs.P("x", "y")),
        ("auto", (6, 8), gs.P("y", "x")),
        ("auto", (3, 100), gs.P(None, ("x", "y"))),
        ("auto", (3,), gs.P("x")),
        ("auto", (1,), gs.P()),
        ("auto", (), gs.P()),
        ("auto", (2, 2), gs.P("x", "y")),
    ],
)
def test_data_without_a_place_goes_to_the_mesh(
    mesh: gs.Mesh, source: str, spec: Any, shape: tuple[int, ...], wanted: gs.P
) -> None:
    with gs.use_mesh(mesh, spec) as used:
        assert used is mesh
        found = SOURCES[source](shape)
    assert not found.committed
    assert found.sharding.is_equivalent_to(gs.NamedSharding(mesh, wanted), len(shape))
    assert found.sharding.mesh is mesh


def test_without_a_spec_there_are_replicas(mesh: gs.Mesh) -> None:
    with gs.use_mesh(mesh):
        assert gnp.arange(8).sharding == gs.NamedSharding(mesh, gs.P())


def test_explicit_places_win(mesh: gs.Mesh) -> None:
    with gs.use_mesh(mesh, "auto"):
        found = gnp.zeros(8, device=gs.devices()[3])
        assert found.devices() == {gs.devices()[3]} and found.committed
        assert gnp.zeros(8, out_sharding=gs.P("y")).sharding == gs.NamedSharding(mesh, gs.P("y"))
        assert gs.device_put(np.zeros(8), gs.P("y")).sharding.spec == gs.P("y")


def test_uncommitted_arrays_follow_committed_ones(mesh: gs.Mesh) -> None:
    with gs.use_mesh(mesh, gs.P("x")):
        x = gnp.ones(8)
    other = gs.device_put(np.ones(8), gs.NamedSharding(gs.make_mesh((8,), "z"), gs.P("z")))
    assert (x + other).sharding == other.sharding
    there = gs.device_put(np.ones(8), gs.devices()[5])
    assert (x + there).devices() == {gs.devices()[5]}


def test_blocks_nest_and_end(mesh: gs.Mesh) -> None:
    device = gs.devices()[2]
    with gs.use_mesh(mesh, gs.P("x")):
        with gs.default_device(device):
            assert gnp.zeros(8).devices() == {device}
            with gs.use_mesh(mesh, gs.P("y")):
                assert gnp.zeros(8).sharding.spec == gs.P("y")
            assert gnp.zeros(8).devices() == {device}
        assert gnp.zeros(8).sharding.spec == gs.P("x")
        with pytest.raises(ZeroDivisionError), gs.use_mesh(mesh):
            raise ZeroDivisionError
        assert gnp.zeros(8).sharding.spec == gs.P("x")
    assert gnp.zeros(8).sharding.num_devices == 1


def test_a_mesh_alone_changes_nothing(mesh: gs.Mesh) -> None:
    with mesh:
        assert gnp.zeros(8).sharding.num_devices == 1
        with gs.use_mesh(gs.make_mesh((8,), "z")):
            assert gs.device_put(np.zeros(8), gs.P("x")).sharding.mesh is mesh


def test_other_threads_and_tasks_are_not_affected(mesh: gs.Mesh) -> None:
    found: list[int] = []
    with gs.use_mesh(mesh):
        thread = threading.Thread(target=lambda: found.append(gnp.zeros(8).sharding.num_devices))
        thread.start()
        thread.join()
    assert found == [1]

    async def inside(spec: gs.P, entered: asyncio.Event, wait: asyncio.Event) -> Any:
        with gs.use_mesh(mesh, spec):
            entered.set()
            await wait.wait()
            return gnp.zeros(8).sharding.spec

    async def both() -> list[Any]:
        one, two = asyncio.Event(), asyncio.Event()
        tasks = [inside(gs.P("x"), one, two), inside(gs.P("y"), two, one)]
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(both()) == [gs.P("x"), gs.P("y")]


def test_files_too(mesh: gs.Mesh, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8))
    with gs.use_mesh(mesh, "auto"):
        assert gs.load(tmp_path / "x.npy").sharding.num_devices == 8


def test_wrong_arguments(mesh: gs.Mesh) -> None:
    for wrong in (None, mesh.abstract_mesh, gs.devices()):
        with (
            pytest.raises(ArgumentTypeError, match="must be a Mesh of devices"),
            gs.use_mesh(wrong),
        ):  # type: ignore[arg-type]
            pass
    with (
        pytest.raises(ArgumentTypeError, match="must be a PartitionSpec or"),
        gs.use_mesh(mesh, "x"),
    ):
        pass
    with pytest.raises(ShardingError, match="axis 'z'"), gs.use_mesh(mesh, gs.P("z")):
        pass
    with pytest.raises(ArgumentError, match="needs a mesh"):
        gnp.zeros(3, device=gs.P("x"))


def test_specs_that_fit_a_shape() -> None:
    assert cut_spec(gs.P("x", ("y", "z")), (3, 2, 4)) == gs.P("x", ("y", "z"))
    assert cut_spec(gs.P("x"), ()) == gs.P()
    assert spread((4, 4), {"x": 2, "y": 2, "z": 2}) == gs.P(("x", "z"), "y")
    assert spread((2, 1), {"x": 2, "y": 2}) == gs.P("x", None)
    assert spread((7, 5), {"x": 1, "y": 3}) == gs.P("y", None)


def test_what_takes_a_single_device_takes_the_first_of_the_mesh() -> None:
    mesh = gs.make_mesh((2,), "x", devices=gs.devices()[5:7])
    with gs.use_mesh(mesh):
        assert gnp.__array_namespace_info__().default_device() == gs.devices()[5]
        imported = gnp.from_dlpack(np.arange(4.0))
    assert imported.devices() == {gs.devices()[5]}
    assert gnp.__array_namespace_info__().default_device() == gs.devices()[0]
