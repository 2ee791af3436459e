"""Everything that can fail is made to fail, at every point of every call that places or moves."""

import contextlib
import dataclasses
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._placement import device_put as device_put_module
from gpushard._placement import make_array as make_array_module
from gpushard._runtime import current_runtime
from gpushard._runtime.choose_backend import make_runtime
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import ExecutionError, OutOfMemoryError
from gpushard.testing.actor import updated
from gpushard.testing.deferred import deferred
from gpushard.testing.faults import (
    CALLBACK,
    COPY,
    ITEM,
    MEMORY,
    ROOM,
    Attempt,
    Faults,
    InjectedError,
    Point,
    walk,
)
from gpushard.testing.programs import check_nothing_left
from gpushard.testing.sim import SimRuntime


@pytest.fixture(autouse=True)
def _what_is_there_already_is_not_collected():
    """Every shortage of memory asks the collector, hundreds of times in a walk."""
    gc.freeze()


SETTINGS: dict[str, dict[str, Any]] = {
    "small": {},
    "pooled": {"small_bytes": 0},
    "quota": {"small_bytes": 0, "memory_limit": 1 << 16},
    "streamed": {"small_bytes": 0, "inline_bytes": 0},
    "streamed-domains": {"small_bytes": 0, "inline_bytes": 0, "host_domains": 4},
}


def host(settings: Settings) -> Runtime:
    return make_runtime(settings)


def sim_exact(settings: Settings) -> Runtime:
    return SimRuntime(settings, 3, exact=True, host_readable=True)


def sim_odd(settings: Settings) -> Runtime:
    return SimRuntime(settings, 8, exact=False, host_readable=False)


def sim_without_peers(settings: Settings) -> Runtime:
    runtime = sim_odd(settings)
    runtime.sim._strangers = 1.0
    return runtime


class World:
    """A fresh runtime with a few arrays that are there."""

    def __init__(self, runtime: Runtime, folder: Path) -> None:
        self.runtime = runtime
        self.folder = folder
        self.devices = runtime.devices
        self.mesh = gs.make_mesh((2, 2), ("x", "y"))
        self.rows, self.columns = self.named("x"), self.named(None, "y")
        self.value = np.arange(35.0).reshape(5, 7)
        self.sources = [
            gs.device_put(self.value, self.rows),
            gs.device_put(3 - self.value, self.columns),
        ]
        self.values = [self.value, 3 - self.value]
        np.save(folder / "in.npy", self.value)
        for stream in runtime.streams:
            stream.synchronize(stream.issued)

    @property
    def x(self) -> gs.Array:
        return self.sources[0]

    def named(self, *spec: Any) -> gs.NamedSharding:
        return gs.NamedSharding(self.mesh, gs.P(*spec))


class Placeable:
    """Data of a kind that is registered."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self.read = read


class ArrayLike:
    """Data that offers `__array__`."""

    def __init__(self, read: Callable[[], Any]) -> None:
        self.read = read

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.read()


def put_placeable(world: World, found: Faults) -> Any:
    gs.register_placeable(Placeable, lambda data: data.read())
    try:
        return gs.device_put(Placeable(found.callback(lambda: world.value)), world.rows)
    finally:
        del device_put_module._converters[Placeable]


def put_tree(world: World, found: Faults) -> Any:
    like = ArrayLike(found.callback(lambda: world.value))
    placed = gs.device_put({"a": world.value, "b": world.x, "c": like}, world.columns)
    return list(placed.values())


def put_aliased(world: World, found: Faults) -> Any:
    aligned = np.zeros(48)[: 48 - 48 % 8]
    start = -aligned.ctypes.data % 64 // 8
    data = aligned[start : start + 35].reshape(5, 7)
    data[...] = world.value
    return gs.device_put(data, gs.NamedSharding(world.mesh, gs.P("x", "y")), may_alias=True)


def by_callback(world: World, found: Faults) -> Any:
    before = make_array_module._BATCH_NBYTES
    make_array_module._BATCH_NBYTES = 100  # so that several batches are copied
    try:
        read = found.callback(lambda index: world.value[index])
        return gs.make_array_from_callback((5, 7), world.named("x", "y"), read)
    finally:
        make_array_module._BATCH_NBYTES = before


def of_parts(world: World, found: Faults) -> Any:
    parts = [gs.device_put(world.value[:, :3] + i, d) for i, d in enumerate(world.devices)]
    return gs.make_array_from_single_device_arrays((10, 6), world.named("x", "y"), parts)


def read_later(world: World, found: Faults) -> Any:
    world.x.copy_to_host_async()
    return np.asarray(world.x)


def saved(world: World, found: Faults) -> Any:
    gs.save(world.folder / "out.npy", world.x)
    return np.load(world.folder / "out.npy")


def update_part(world: World, found: Faults) -> Any:
    new = gs.device_put(-world.value[1:4, ::2], world.named("y"))
    return updated(world.x, (slice(1, 4), slice(None, None, 2)), new)


def mapped(world: World, found: Faults) -> Any:
    def f(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> None:
        out[...] = a - b

    other = gs.reshard(world.sources[1], world.rows)
    return gs.map_shards(f, world.x, other, out=gs.ShapeDtypeStruct((5, 7), np.float64))


def updated_value(value: Any) -> Any:
    result = value.copy()
    result[1:4, ::2] *= -1
    return result


def parts_value(value: Any) -> Any:
    part = value[:, :3]
    return np.block([[part, part + 1], [part + 2, part + 3]])


@dataclasses.dataclass(frozen=True)
class Case:
    """A call, what it must give, and which sources it may give up."""

    run: Callable[[World, Faults], Any]
    expected: Callable[[Any], Any] = lambda value: value
    gives_up: int = 0


CASES = {
    "device_put": Case(lambda w, f: gs.device_put(w.value, w.named("x", "y"))),
    "device_put to one device": Case(lambda w, f: gs.device_put(w.value, w.devices[3])),
    "device_put replicated": Case(lambda w, f: gs.device_put(w.value, w.named())),
    "device_put of an array": Case(lambda w, f: gs.device_put(w.x, w.columns)),
    "device_put of a tree": Case(put_tree, lambda value: [value] * 3),
    "device_put of a donated tree": Case(
        lambda w, f: gs.device_put(w.sources, w.named("y", "x"), donate=True),
        lambda value: [value, 3 - value],
        gives_up=2,
    ),
    "device_put may_alias": Case(put_aliased),
    "device_put of __array__": Case(
        lambda w, f: gs.device_put(ArrayLike(f.callback(lambda: w.value)), w.rows)
    ),
    "device_put of a registered type": Case(put_placeable),
    "reshard": Case(lambda w, f: gs.reshard(w.x, w.named("y", "x"))),
    "reshard a tree": Case(
        lambda w, f: gs.reshard(w.sources, w.named(("y", "x"))),
        lambda value: [value, 3 - value],
    ),
    "reshard donated": Case(lambda w, f: gs.reshard(w.x, w.columns, donate=True), gives_up=1),
    "to_device": Case(lambda w, f: w.x.to_device(w.devices[2])),
    "slice": Case(lambda w, f: w.x[1:4, 2:], lambda value: value[1:4, 2:]),
    "slice with steps": Case(lambda w, f: w.x[::-2, ::3], lambda value: value[::-2, ::3]),
    "element": Case(lambda w, f: w.x[2, 3], lambda value: value[2, 3]),
    "empty slice": Case(lambda w, f: w.x[3:3], lambda value: value[3:3]),
    "transpose": Case(lambda w, f: w.x.T, lambda value: value.T),
    "update": Case(update_part, updated_value),
    "update of everything": Case(lambda w, f: updated(w.x, ..., w.sources[1]), lambda v: 3 - v),
    "make_array_from_callback": Case(by_callback),
    "make_array_from_process_local_data": Case(
        lambda w, f: gs.make_array_from_process_local_data(w.columns, w.value)
    ),
    "make_array_from_single_device_arrays": Case(of_parts, parts_value),
    "copy_to_host_async": Case(read_later),
    "asarray": Case(lambda w, f: np.asarray(w.x)),
    "device_get": Case(lambda w, f: gs.device_get(w.sources), lambda value: [value, 3 - value]),
    "repr": Case(lambda w, f: repr(w.x) and None, lambda value: None),
    "load": Case(lambda w, f: gs.load(w.folder / "in.npy", w.columns, progress=f.callback(id))),
    "save": Case(saved),
    "from_dlpack": Case(lambda w, f: gs.from_dlpack(w.value, device=w.devices[1], copy=True)),
    "from_dlpack of an array": Case(
        lambda w, f: gs.from_dlpack(w.x.addressable_data(0), copy=False), lambda value: value[:3]
    ),
    "map_shards": Case(mapped, lambda value: value - (3 - value)),
    "pickle": Case(lambda w, f: pickle.loads(pickle.dumps(w.x))),
}


@contextlib.contextmanager
def world_of(
    make: Callable[[Settings], Runtime], settings: Settings, folder: Path
) -> Iterator[World]:
    runtime = make(settings)
    before = current_runtime.swap(runtime)
    try:
        yield World(runtime, folder)
    finally:
        current_runtime.swap(before)
        runtime.close()


def listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list) else [] if result is None else [result]


def read_all(results: list[Any], expected: list[Any], found: Faults) -> int:
    """Read results, which must be right or fail as was planned; return how many failed."""
    failed = 0
    for result, value in zip(results, expected, strict=True):
        try:
            got = np.asarray(result)
        except ExecutionError as error:
            check_failed_item(error, found)
            failed += 1
        else:
            assert np.array_equal(got, value)
    return failed


def check_failed_item(error: BaseException, found: Faults) -> None:
    assert isinstance(error, ExecutionError) and error.__cause__ in found.errors
    assert error.operation and error.operation in str(error)
    assert error.__cause__.__traceback__ is None, "the cause keeps what its frames hold"


def check_out_of_memory(error: BaseException, world: World) -> None:
    assert isinstance(error, OutOfMemoryError) and isinstance(error, MemoryError)
    text = str(error)
    assert error.device == "the host" or error.device in map(repr, world.devices)
    assert error.device in text and f"{error.nbytes:,} bytes" in text
    assert f"{error.in_use:,} in use" in text
    on_device = error.device != "the host"
    assert error.limit == (world.runtime.settings.memory_limit if on_device else None)
    assert ("no quota" if error.limit is None else f"quota of {error.limit:,}") in text
    assert any("float64[5, 7] 280 bytes" in entry for entry in error.largest)
    assert all(entry in text for entry in error.largest)


def judge(attempt: Attempt[World], case: Case, lasting: bool) -> None:
    """Check one run of a call in which one point failed, or none."""
    world, found, point = attempt.world, attempt.faults, attempt.faults.failed
    expected = listed(case.expected(world.value))
    if attempt.error is None:
        failed = read_all(listed(attempt.result), expected, found)
        fetch = point is not None and "copy to host" in point.what  # a read does without it
        if not (fetch and lasting):  # then later items fail, too, or there are none
            assert (failed > 0) == (point is not None and point.kind == ITEM and not fetch)
        ring = point is not None and of_a_ring(point, world)  # copies do without it, too
        shortage = point is not None and point.kind in (ROOM, MEMORY)
        assert point is None or point.kind == ITEM or (shortage and (not lasting or ring))
    else:
        assert point is not None
        if point.kind in (ROOM, MEMORY):
            check_out_of_memory(attempt.error, world)
        elif point.kind == ITEM:
            check_failed_item(attempt.error, found)
        else:
            assert point.kind in (COPY, CALLBACK) and attempt.error is found.errors[0]
    given_up = case.gives_up if attempt.error is None else 0
    check_sources(world, given_up)
    attempt.result = attempt.error = None
    if not given_up:
        again = case.run(world, Faults(None, False))
        assert read_all(listed(again), expected, found) == 0
    world.sources.clear()
    found.errors.clear()


def of_a_ring(point: Point, world: World) -> bool:
    """Whether a shortage may be one of page-locked memory that copies go through."""
    pinned = [d.index for d in world.runtime.domains if d.kind == "pinned_host"]
    return "of a ring" in point.what or any(
        point.what.endswith(f"from domain {index}") for index in pinned
    )


def check_sources(world: World, given_up: int) -> None:
    for position, (source, value) in enumerate(zip(world.sources, world.values, strict=True)):
        assert source.is_deleted() == (position < given_up)
        if position >= given_up:
            assert np.array_equal(np.asarray(source), value)
            assert np.array_equal(np.asarray(source[...]), value)


RUNTIMES = [
    *[(host, name) for name in SETTINGS],
    (sim_exact, "pooled"),
    (sim_odd, "streamed"),
    (sim_odd, "streamed-domains"),
    (sim_without_peers, "streamed-domains"),
]


@pytest.mark.one_of(9)
@pytest.mark.parametrize(
    ("make", "settings", "lasting"),
    [
        pytest.param(
            *how, lasting, id=f"{'lasting' if lasting else 'once'}-{how[0].__name__}-{how[1]}"
        )
        for lasting in (False, True)
        for how in RUNTIMES
    ],
)
@pytest.mark.parametrize("name", CASES)
def test_a_fault_anywhere_is_a_typed_error_and_harms_nothing_else(
    make: Callable[[Settings], Runtime],
    settings: str,
    lasting: bool,
    name: str,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    case = CASES[name]
    chosen = Settings(host_devices=4, **SETTINGS[settings])
    walked = 0
    for attempt in walk(case.run, lambda: world_of(make, chosen, tmp_path), lasting=lasting):
        judge(attempt, case, lasting)
        check_nothing_left(attempt.world.runtime)
        walked += attempt.faults.failed is not None
    record_property("points", walked)


def assigned(world: World, found: Faults) -> None:
    world.x[1:4, ::2] = world.sources[1][1:4, ::2]


@pytest.mark.one_of(2)
@pytest.mark.parametrize("lasting", [False, True])
@pytest.mark.parametrize(("make", "settings"), RUNTIMES)
def test_an_assignment_that_did_not_begin_leaves_the_array_as_it_was(
    make: Callable[[Settings], Runtime], settings: str, lasting: bool, tmp_path: Path
) -> None:
    chosen = Settings(host_devices=4, **SETTINGS[settings])
    for attempt in walk(assigned, lambda: world_of(make, chosen, tmp_path), lasting=lasting):
        world, point = attempt.world, attempt.faults.failed
        if isinstance(attempt.error, OutOfMemoryError | ExecutionError):
            assert point is not None
            check_sources(world, 0)
        elif attempt.error is None and (point is None or point.kind != ITEM):
            expected = world.value.copy()
            expected[1:4, ::2] = 3 - expected[1:4, ::2]
            assert np.array_equal(np.asarray(world.x), expected)
        attempt.error = None
        world.sources.clear()
        attempt.faults.errors.clear()


MAKERS = [host, sim_exact, sim_odd]


@pytest.mark.parametrize("make", MAKERS)
def test_failed_work_fails_what_needs_it_and_nothing_else(
    make: Callable[[Settings], Runtime], tmp_path: Path
) -> None:
    ran = []
    with world_of(make, Settings(host_devices=4, **SETTINGS["streamed"]), tmp_path) as world:
        cause = InjectedError("planned")
        failed = deferred(world.x, lambda shard: shard, error=cause)
        needs_it = deferred(failed, lambda shard: ran.append(1) or shard)
        unrelated = deferred(world.x, lambda shard: shard + 1)  # on the same streams
        moved = gs.reshard(needs_it, world.columns)
        errors = []
        for array in (failed, failed, needs_it, moved, moved):
            with pytest.raises(ExecutionError) as caught:
                array.block_until_ready()
            errors.append(caught.value)
        assert len(set(map(id, errors))) == len(errors), "an exception was raised twice"
        assert all(error.__cause__ is cause for error in errors)
        assert all(error.operation == "deferred work" for error in errors)
        assert not ran, "work ran whose input had failed"
        assert np.array_equal(np.asarray(unrelated), world.value + 1)
        assert all(error.__traceback__ is not None for error in errors)
        read = weakref.ref(failed)
        del caught, array, failed, needs_it, moved, unrelated
        world.sources.clear()
        gc.collect()
        assert read() is not None, "this test no longer shows what it is meant to"
        assert world.runtime.claimed_bytes() == 0, "the errors hold memory"
        errors.clear()
        check_nothing_left(world.runtime)
