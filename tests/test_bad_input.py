"""One table of bad input: what each wrong call raises, and that it leaves nothing half done.

A row holds a call, the exact class of its error, the builtin that a user would catch, parts of the
message (the argument, the sizes involved and the fix), and facts that programs can read from the
error. After the error: no array more or less is alive, no byte more or less is in use, all inputs
can be read, no file is left over, and a correct call works.
"""

import functools
import gc
import operator
import os
import pickle
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpushard as gs
from gpushard import errors, legacy, random, special
from gpushard._runtime import choose_backend, current_runtime
from gpushard._runtime.cuda.backend import CudaBackend
from gpushard._runtime.cuda.devices.probe import probe
from gpushard._runtime.cuda.driver.green_driver import GreenDriver
from gpushard._runtime.cuda.driver.libraries import Libraries
from gpushard._runtime.runtime import Runtime
from gpushard.config import Settings
from gpushard.errors import (
    ArgumentError,
    ArgumentRangeError,
    ArgumentTypeError,
    ArrayIndexError,
    AxisError,
    ConfigurationError,
    DeletedArrayError,
    DeletedShardsError,
    DeserializationError,
    ExecutionError,
    ExportError,
    FileAccessError,
    FileFormatError,
    ImmutableError,
    MeshError,
    NoDeviceError,
    NoLeavesError,
    NoMeshError,
    OutOfMemoryError,
    ParseError,
    ProtocolError,
    ShardingError,
    TransferGuardError,
    TreeError,
    UnstackedError,
    UnsupportedError,
)
from gpushard.testing import gated, runtime
from gpushard.testing.runtime import using
from tests.runtime.cuda import fakes
from tests.runtime.cuda.fake_bindings import Bindings, CUresult
from tests.runtime.cuda.fake_driver import FakeDriver
from tests.share import some

QUOTA = 64 << 10
SUBMODULES = (gs.lax, gs.nnx, gs.sharding, gs.numpy, gs.numpy.linalg)


@functools.cache
def internal_classes() -> set[str]:
    """Return the names of classes that users do not know, which no message may say."""
    classes = {
        kind
        for name, module in list(sys.modules.items())
        if name.startswith("gpushard.")
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__.startswith("gpushard.")
    }
    public = {name for module in (gs, errors, legacy, random, *SUBMODULES) for name in vars(module)}
    return {kind.__name__ for kind in classes} - public


class World:
    """A mesh, arrays and files, in a runtime of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.devices = gs.devices()
        self.mesh = gs.make_mesh((4, 2), ("x", "y"))
        self.value = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
        self.x = gs.device_put(self.value, self.named("x", "y"))
        self.parts = [shard.data for shard in self.x.addressable_shards]
        self.one = gs.device_put(self.value, self.devices[3])
        self.scalar = gs.device_put(2.5)
        self.small = gs.device_put(np.arange(8, dtype=np.int8), self.named("x"))
        self.gone = gs.device_put(self.value, self.named("x"))
        self.gone.delete()
        self.donated = gs.device_put(self.value, self.named("x"))
        self.moved = gs.reshard(self.donated, gs.P("y"), donate=True)
        self.file = folder / "x.npy"
        np.save(self.file, self.value)

    def named(self, *entries: Any) -> gs.NamedSharding:
        return gs.NamedSharding(self.mesh, gs.P(*entries))

    def written(self, content: bytes | np.ndarray) -> Path:
        """Return the path of a file with this content."""
        path = self.folder / "bad.npy"
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.save(path, content, allow_pickle=True)
        return path

    def state(self) -> Any:
        """Return what a refused call must not change."""
        held = [device.memory_stats()["bytes_in_use"] for device in gs.devices()]
        files = sorted({*os.listdir()} - {"bad.npy"})
        return held, sorted(map(id, gs.live_arrays())), current_runtime.current(), files

    def check_inputs(self) -> None:
        for array in (self.x, self.one, self.moved):
            assert not array.is_deleted()
            assert np.array_equal(array, self.value)
        for part, shard in zip(self.parts, self.x.addressable_shards, strict=True):
            assert np.array_equal(part, self.value[shard.index])
        assert float(self.scalar) == 2.5
        assert np.array_equal(self.small, np.arange(8))
        assert np.array_equal(np.load(self.file), self.value)

    def check_correct_calls(self) -> None:
        for sharding in (self.named("y", "x"), self.named()):
            assert np.array_equal(gs.device_put(self.value, sharding), self.value)
            assert np.array_equal(gs.reshard(self.x, sharding), self.value)
        again = gs.make_array_from_callback((8, 6), self.named("x"), self.value.__getitem__)
        assert np.array_equal(again, self.value)
        joined = gs.make_array_from_single_device_arrays((8, 6), self.named("x", "y"), self.parts)
        assert np.array_equal(joined, self.value)
        assert np.array_equal(gs.load(self.file, self.named("x")), self.value)
        assert np.array_equal(self.x[2:4, ::-1], self.value[2:4, ::-1])


@dataclass
class Case:
    """One wrong call."""

    call: Callable[[World], Any]
    error: type[Exception]
    builtin: type[Exception]
    words: tuple[str, ...]
    facts: dict[str, Any] = field(default_factory=dict)


class Boxes(gs.Sharding):
    """A user's own sharding: some rows for each of the first devices."""

    def __init__(self, rows: list[slice]) -> None:
        self.boxes = {
            device: (part, slice(None)) for device, part in zip(gs.devices(), rows, strict=False)
        }

    @property
    def device_set(self) -> set[gs.Device]:
        return set(self.boxes)

    def devices_indices_map(self, global_shape: tuple[int, ...]) -> dict[Any, Any]:
        return self.boxes


def fail(error: BaseException) -> Callable[..., Any]:
    """Return a callback that raises."""

    def callback(*_: Any) -> Any:
        raise error

    return callback


def changing(first: Any, then: Any) -> Callable[..., Any]:
    """Return a callback that gives one answer for the first box and another one for the rest."""
    return lambda index: first if index[0].start == 0 else then


def inside(manager: Any, call: Callable[[], Any]) -> Any:
    with manager:
        return call()


class Uncooperative:
    """Raises when it is asked for its data."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise KeyError("no data today")


def put(value: Any, *place: Any, **options: Any) -> Callable[[World], Any]:
    """Return a call of `device_put` with a value that does not depend on the world."""
    return lambda w: gs.device_put(value, *place, **options)


def join(change: Callable[[World], list[Any]], **options: Any) -> Callable[[World], Any]:
    """Return a call of `make_array_from_single_device_arrays` with other parts."""
    return lambda w: gs.make_array_from_single_device_arrays(
        (8, 6), w.named("x", "y"), change(w), **options
    )


def from_callback(callback: Any, **options: Any) -> Callable[[World], Any]:
    """Return a call of `make_array_from_callback`, for boxes of shape (2, 6)."""
    return lambda w: gs.make_array_from_callback((8, 6), w.named("x"), callback, **options)


def local(shape: tuple[int, ...], global_shape: Any = (8, 6)) -> Callable[[World], Any]:
    return lambda w: gs.make_array_from_process_local_data(
        w.named("x"), np.zeros(shape), global_shape
    )


def assign(index: Any, value: Any) -> Callable[[World], Any]:
    """Return a call of `x[index] = value`."""
    return lambda w: operator.setitem(w.x, index, value)


BOX = np.zeros((2, 6), np.float32)

MESHES: dict[str, Case] = {
    "repeated device": Case(
        lambda w: gs.Mesh([w.devices[0], w.devices[1], w.devices[0]], "x"),
        MeshError,
        ValueError,
        ("devices", "CpuDevice(id=0)", "more than once", "each device once"),
        {"argument": "devices"},
    ),
    "repeated axis name": Case(
        lambda w: gs.make_mesh((2, 2), ("x", "x")),
        MeshError,
        ValueError,
        ("axis_names=('x', 'x')", "repeats", "name of its own"),
        {"argument": "axis_names", "names": ("x", "x")},
    ),
    "fewer names than axes": Case(
        lambda w: gs.make_mesh((2, 2), "x"),
        MeshError,
        ValueError,
        ("axis_names", "1 names for 2 axes", "one name per axis"),
        {"argument": "axis_names", "ndim": 2},
    ),
    "axis name that is no string": Case(
        lambda w: gs.make_mesh((2, 2), ("x", 1)),
        ArgumentTypeError,
        TypeError,
        ("axis_names=('x', 1)", "must be a string", "got 1"),
        {"argument": "axis_names", "name": 1},
    ),
    "sizes that do not multiply out": Case(
        lambda w: gs.make_mesh((3, 2), ("x", "y"), devices=w.devices),
        MeshError,
        ValueError,
        ("axis_shapes=(3, 2)", "needs 6 devices", "got 8", "change the sizes"),
        {"argument": "axis_shapes", "sizes": (3, 2), "devices": 8},
    ),
    "sizes that do not multiply out, as a grid": Case(
        lambda w: gs.create_device_mesh((3,), w.devices[:2]),
        MeshError,
        ValueError,
        ("mesh_shape=(3,)", "needs 3 devices", "got 2", "pass that many"),
        {"argument": "mesh_shape", "sizes": (3,), "devices": 2},
    ),
    "too few devices": Case(
        lambda w: gs.make_mesh((4, 4), ("x", "y")),
        MeshError,
        ValueError,
        ("axis_shapes=(4, 4)", "needs 16 devices", "there are 8", "GPUSHARD_HOST_DEVICES=16"),
        {"argument": "axis_shapes", "devices": 8},
    ),
    "axis of size zero": Case(
        lambda w: gs.make_mesh((4, 0), ("x", "y")),
        MeshError,
        ValueError,
        ("axis_shapes=(4, 0)", "positive", "leave out"),
        {"argument": "axis_shapes", "sizes": (4, 0)},
    ),
    "axis of negative size": Case(
        lambda w: gs.make_mesh((-2,), "x"),
        ArgumentError,
        ValueError,
        ("axis_shapes=(-2,)", "negative", "start at 0"),
        {"argument": "axis_shapes"},
    ),
    "axis of negative size without devices": Case(
        lambda w: gs.AbstractMesh((2, -1), ("x", "y")),
        MeshError,
        ValueError,
        ("axis_sizes=(2, -1)", "positive", "leave out"),
        {"argument": "axis_sizes", "sizes": (2, -1)},
    ),
    "axis size that is no integer": Case(
        lambda w: gs.make_mesh((2.0,), "x"),
        ArgumentTypeError,
        TypeError,
        ("axis_shapes=(2.0,)", "tuple of integers"),
        {"argument": "axis_shapes"},
    ),
    "no devices": Case(
        lambda w: gs.Mesh([], "x"),
        MeshError,
        ValueError,
        ("devices is empty", "at least one"),
        {"argument": "devices"},
    ),
    "unknown axis taken from a mesh": Case(
        lambda w: w.mesh["z"],
        MeshError,
        ValueError,
        ("axes=('z',)", "distinct axes", "'x': 4, 'y': 2"),
        {"argument": "axes", "axes": ("z",)},
    ),
}

SHARDINGS: dict[str, Case] = {
    "unknown axis": Case(
        lambda w: w.named("x", "z"),
        ShardingError,
        ValueError,
        ("PartitionSpec('x', 'z')", "axis 'z'", "{'x': 4, 'y': 2}", "use one of its axes"),
        {"argument": "spec", "axis": "z", "mesh_shape": {"x": 4, "y": 2}},
    ),
    "axis used twice": Case(
        lambda w: w.named("x", ("y", "x")),
        ShardingError,
        ValueError,
        ("PartitionSpec('x', ('y', 'x'))", "axis 'x' 2 times", "only one axis of an array"),
        {"argument": "spec", "axis": "x"},
    ),
    "spec entry that is no name": Case(
        lambda w: gs.P("x", 3),
        ArgumentTypeError,
        TypeError,
        ("entry 1", "is 3", "axis name"),
        {"argument": "entries", "position": 1, "entry": 3},
    ),
    "unconstrained dim of an array": Case(
        lambda w: gs.device_put(w.value, w.named("x", gs.P.UNCONSTRAINED)),
        ShardingError,
        ValueError,
        ("UNCONSTRAINED", "Only lax.with_sharding_constraint"),
        {"argument": "spec"},
    ),
    "spec longer than the rank": Case(
        lambda w: gs.device_put(w.value, w.named("x", None, "y")),
        ShardingError,
        ValueError,
        ("PartitionSpec('x', None, 'y')", "3 entries", "ndim=2", "at most one entry per axis"),
        {"argument": "spec", "ndim": 2},
    ),
    "spec longer than the rank of one leaf": Case(
        lambda w: gs.device_put([w.value, np.zeros(8)], w.named("x", "y")),
        ShardingError,
        ValueError,
        ("2 entries", "ndim=1"),
        {"argument": "spec", "ndim": 1},
    ),
    "reshard to a spec longer than the rank": Case(
        lambda w: gs.reshard(w.x, gs.P("x", None, "y"), donate=True),
        ShardingError,
        ValueError,
        ("3 entries", "ndim=2", "at most one entry per axis"),
        {"argument": "spec", "ndim": 2},
    ),
    "spec instead of a sharding": Case(
        lambda w: gs.NamedSharding(w.mesh, ("x",)),
        ArgumentTypeError,
        TypeError,
        ("spec=('x',)", "PartitionSpec", "P('x')"),
        {"argument": "spec"},
    ),
    "boxes that leave a gap": Case(
        lambda w: gs.device_put(w.value, Boxes([slice(0, 3), slice(4, 8)])),
        ShardingError,
        ValueError,
        ("devices_indices_map((8, 6))", "no device holds", "such as (3, 0)", "every element"),
        {"argument": "devices_indices_map", "shape": (8, 6), "index": (3, 0)},
    ),
    "reshard to boxes that overlap and leave a gap": Case(
        lambda w: gs.reshard(w.x, Boxes([slice(0, 5), slice(2, 7)]), donate=True),
        ShardingError,
        ValueError,
        ("no device holds", "such as (7, 0)"),
        {"argument": "devices_indices_map", "index": (7, 0)},
    ),
    "devices instead of a mesh": Case(
        lambda w: gs.NamedSharding(w.devices, gs.P("x")),
        ArgumentTypeError,
        TypeError,
        ("mesh=", "must be a Mesh"),
        {"argument": "mesh"},
    ),
    "abstract mesh": Case(
        lambda w: gs.device_put(w.value, gs.NamedSharding(w.mesh.abstract_mesh, gs.P("x"))),
        ShardingError,
        ValueError,
        ("'x': 4, 'y': 2", "abstract mesh", "use a Mesh"),
        {"argument": "mesh"},
    ),
    "devices that hold no data": Case(
        lambda w: gs.device_put(w.value, gs.NamedSharding(gs.Mesh(["a", "b"], "x"), gs.P("x"))),
        ArgumentTypeError,
        TypeError,
        ("sharding", "'a'", "gpushard.devices()"),
        {"argument": "sharding", "device": "a"},
    ),
    "unknown memory kind": Case(
        lambda w: w.named("x").with_memory_kind("hbm"),
        ArgumentError,
        ValueError,
        ("memory_kind='hbm'", "unknown", "pinned_host"),
        {"argument": "memory_kind", "kind": "hbm"},
    ),
    "prefetch of nothing ahead": Case(
        lambda w: gs.prefetch([w.value], size=0),
        ArgumentError,
        ValueError,
        ("size=0", "at least 1"),
        {"argument": "size", "value": 0},
    ),
    "prefetch of no batches": Case(
        lambda w: gs.prefetch(3),
        ArgumentTypeError,
        TypeError,
        ("batches", "int", "generator"),
        {"argument": "batches", "type": int},
    ),
    "unknown memory of a device": Case(
        lambda w: gs.devices()[0].memory("hbm"),
        ArgumentError,
        ValueError,
        ("memory_kind='hbm'", "unknown", "pinned_host"),
        {"argument": "memory_kind", "kind": "hbm"},
    ),
    "single arrays in another memory": Case(
        lambda w: gs.make_array_from_single_device_arrays(
            w.x.shape,
            w.x.sharding.with_memory_kind("pinned_host"),
            [shard.data for shard in w.x.addressable_shards],
        ),
        ShardingError,
        ValueError,
        ("memory_kind='device'", "'pinned_host'", "device_put"),
        {"argument": "arrays", "kind": "device", "expected": "pinned_host"},
    ),
    "layout without an order": Case(
        lambda w: gs.device_put(w.value, gs.Format(gs.Layout.AUTO, w.named("x"))),
        ArgumentTypeError,
        TypeError,
        ("layout=AUTO", "concrete order", "Layout((0, 1))"),
        {"argument": "layout"},
    ),
    "layout that leaves out a dim": Case(
        lambda w: gs.Layout((0, 2)),
        ArgumentError,
        ValueError,
        ("major_to_minor=(0, 2)", "each axis once, counted from 0"),
        {"argument": "major_to_minor", "value": (0, 2)},
    ),
    "ufunc with an order": Case(
        lambda w: np.add(w.x, 1, order="F"),
        ArgumentTypeError,
        TypeError,
        ("add: order= is not supported", "leave it out"),
        {"argument": "order"},
    ),
    "layout that is not row-major": Case(
        lambda w: gs.device_put(w.value, gs.Format(gs.Layout((1, 0)), w.named("x"))),
        ArgumentError,
        ValueError,
        ("layout=", "(1, 0)", "ndim=2", "use Layout((0, 1))"),
        {"argument": "layout", "ndim": 2},
    ),
}


def both(x: Any, y: Any) -> Any:
    return x + y


FIRST = {0: "i"}
TWICE: dict[str, Callable[[World], Any]] = {
    "device_put": lambda w: gs.device_put({"a": w.x, "b": [w.x]}, w.devices[0], donate=True),
    "reshard": lambda w: gs.reshard([w.x, w.x], gs.P("y"), donate=True),
    "jit of both": lambda w: gs.jit(both, donate_argnums=(0, 1))(w.x, w.x),
    "jit of <lambda>": lambda w: gs.jit(lambda x: x, donate_argnums=0)([w.x, {"a": w.x}]),
    "jit of both, compiled": lambda w: (
        gs.jit(both, donate_argnums=(0, 1)).lower(w.x, w.x).compile()(w.x, w.x)
    ),
    "pjit of both": lambda w: gs.pjit(both, donate_argnames=("x", "y"))(x=w.x, y=w.x),
    "pmap of both": lambda w: gs.pmap(both, donate_argnums=(0, 1))(w.x, w.x),
    "xmap of both": lambda w: legacy.xmap(both, (FIRST, FIRST), FIRST, donate_argnums=(0, 1))(
        w.x, w.x
    ),
}

PLACEMENTS: dict[str, Case] = {
    "text": Case(
        put("text"),
        ArgumentTypeError,
        TypeError,
        ("x holds a str", "numbers, arrays"),
        {"argument": "x", "type": str},
    ),
    "text in a tree": Case(
        lambda w: gs.device_put({"a": w.value, "b": "text"}, w.devices[0]),
        ArgumentTypeError,
        TypeError,
        ("x holds a str", "pytrees of them"),
        {"argument": "x", "type": str},
    ),
    "array of text": Case(
        put(np.array(["a", "b"])),
        ArgumentTypeError,
        TypeError,
        ("x has dtype <U1", "Convert it first"),
        {"argument": "x", "dtype": np.dtype("<U1")},
    ),
    "array of objects": Case(
        put(np.array([None, 1])),
        ArgumentTypeError,
        TypeError,
        ("x has dtype object", "Convert it first"),
        {"argument": "x", "dtype": np.dtype(object)},
    ),
    "times": Case(
        put(np.array(["2026-01-01"], "M8[D]")),
        ArgumentTypeError,
        TypeError,
        ("x has dtype datetime64[D]", "Convert it first"),
        {"argument": "x"},
    ),
    "time spans": Case(
        put(np.timedelta64(3, "s")),
        ArgumentTypeError,
        TypeError,
        ("x has dtype timedelta64[s]", "Convert it first"),
        {"argument": "x"},
    ),
    "records": Case(
        put(np.zeros(2, "i4,f8")),
        ArgumentTypeError,
        TypeError,
        ("x has dtype [('f0'", "Convert it first"),
        {"argument": "x"},
    ),
    "masked array": Case(
        put(np.ma.masked_array([1, 2], [True, False])),
        ArgumentTypeError,
        TypeError,
        ("x is a masked array", "x.filled"),
        {"argument": "x"},
    ),
    "integer beyond 64 bits": Case(
        put(1 << 70),
        ArgumentTypeError,
        TypeError,
        ("x has dtype object", "Convert it first"),
        {"argument": "x"},
    ),
    "an object": Case(
        put(object()),
        ArgumentTypeError,
        TypeError,
        ("x holds a object", "numbers, arrays"),
        {"argument": "x", "type": object},
    ),
    "an object that fails": Case(
        lambda w: gs.device_put([w.value, Uncooperative()], w.named()),
        KeyError,
        KeyError,
        ("no data today",),
    ),
    "name of a device": Case(
        put(1.0, "cpu:0"),
        ArgumentTypeError,
        TypeError,
        ("device='cpu:0'", "gpushard.devices()", "PartitionSpec"),
        {"argument": "device", "value": "cpu:0"},
    ),
    "reshard to a number": Case(
        lambda w: gs.reshard(w.x, 3),
        ArgumentTypeError,
        TypeError,
        ("sharding=3", "a Sharding"),
        {"argument": "sharding", "value": 3},
    ),
    "move to a number": Case(
        lambda w: w.x.to_device(3),
        ArgumentTypeError,
        TypeError,
        ("device=3", "gpushard.devices()"),
        {"argument": "device", "value": 3},
    ),
    "reshard of NumPy data": Case(
        lambda w: gs.reshard([w.x, w.value], gs.P(), donate=True),
        ArgumentTypeError,
        TypeError,
        ("x holds a ndarray", "use device_put"),
        {"argument": "x", "type": np.ndarray},
    ),
    "spec without a mesh": Case(
        put(np.zeros(4), gs.P("x")),
        NoMeshError,
        ValueError,
        ("device=PartitionSpec('x')", "needs a mesh", "with mesh:"),
        {"argument": "device", "spec": gs.P("x")},
    ),
    "too many devices for a list": Case(
        lambda w: gs.device_put([w.value, w.value], w.devices[:3]),
        TreeError,
        ValueError,
        ("device is not a prefix of x", "list of size 3", "list of size 2"),
        {"argument": "device"},
    ),
    "list of devices for one array": Case(
        lambda w: gs.device_put(w.value, w.devices),
        TreeError,
        ValueError,
        ("device is not a prefix of x", "list of size 8", "x is a leaf"),
        {"argument": "device"},
    ),
    "donate of another structure": Case(
        lambda w: gs.device_put([w.x, w.one], w.devices[0], donate=[True]),
        TreeError,
        ValueError,
        ("donate is not a prefix of x", "size 1", "size 2"),
        {"argument": "donate"},
    ),
    "donate list for one array": Case(
        lambda w: gs.device_put(w.x, w.devices[0], donate=[True]),
        TreeError,
        ValueError,
        ("donate is not a prefix of x", "size 1", "x is a leaf"),
        {"argument": "donate"},
    ),
    "may_alias of another structure": Case(
        lambda w: gs.device_put({"a": w.value}, w.devices[0], may_alias={"b": True}),
        TreeError,
        ValueError,
        ("may_alias is not a prefix of x", "'a'", "'b'"),
        {"argument": "may_alias"},
    ),
    "default device that is none": Case(
        lambda w: inside(gs.default_device(0), lambda: gs.device_put(1.0)),  # type: ignore[arg-type]
        ArgumentTypeError,
        TypeError,
        ("device=0", "gpushard.devices()"),
        {"argument": "device"},
    ),
    **{
        f"donation of one array twice, {name}": Case(
            call,
            ArgumentError,
            ValueError,
            (
                name.partition(",")[0].replace("pjit", "jit"),
                "donates one array of shape (8, 6) twice",
                "x.copy()",
            ),
            {"argument": "donate" if name in ("device_put", "reshard") else "donate_argnums"},
        )
        for name, call in TWICE.items()
    },
    "donation when something else is wrong": Case(
        lambda w: gs.device_put([w.x, "text"], w.devices[0], donate=True),
        ArgumentTypeError,
        TypeError,
        ("x holds a str",),
        {"argument": "x"},
    ),
    "more than the quota": Case(
        lambda w: gs.device_put(np.zeros(QUOTA), w.devices[0]),
        OutOfMemoryError,
        MemoryError,
        ("CpuDevice(id=0)", f"{QUOTA * 8:,} bytes", f"quota of {QUOTA:,}", "in use", "Delete"),
        {"device": "CpuDevice(id=0)", "nbytes": QUOTA * 8, "limit": QUOTA},
    ),
    "more than the quota, in the last leaf": Case(
        lambda w: gs.device_put([w.x, w.value, np.zeros(QUOTA)], w.devices[7], donate=True),
        OutOfMemoryError,
        MemoryError,
        ("CpuDevice(id=7)", "memory_limit"),
        {"device": "CpuDevice(id=7)", "limit": QUOTA},
    ),
    "more than the quota, from a callback": Case(
        lambda w: gs.make_array_from_callback(
            (8, QUOTA), w.named("x"), lambda i: np.broadcast_to(1.0, (2, QUOTA))
        ),
        OutOfMemoryError,
        MemoryError,
        (f"{QUOTA * 16:,} bytes", "shard over more devices"),
        {"nbytes": QUOTA * 16, "limit": QUOTA},
    ),
}

MAKING: dict[str, Case] = {
    "callback of the wrong shape": Case(
        from_callback(lambda index: np.zeros((3, 6))),
        ShardingError,
        ValueError,
        ("data_callback", "(3, 6)", "(2, 6)", "exactly the data of its slices"),
        {"argument": "data_callback", "shape": (3, 6), "expected": (2, 6)},
    ),
    "callback of the wrong shape, later": Case(
        from_callback(changing(BOX, np.zeros((2, 5)))),
        ShardingError,
        ValueError,
        ("data_callback", "(2, 5)", "(2, 6)"),
        {"shape": (2, 5), "expected": (2, 6)},
    ),
    "callback of another dtype, later": Case(
        from_callback(changing(BOX, BOX.astype(np.int64))),
        ArgumentTypeError,
        TypeError,
        ("data_callback", "int64", "float32", "one dtype for all"),
        {"argument": "data_callback", "dtype": np.int64, "expected": np.float32},
    ),
    "callback of a dtype that does not fit": Case(
        from_callback(lambda index: BOX * 1j, dtype=np.float32),
        ArgumentTypeError,
        TypeError,
        ("data_callback", "complex64", "dtype=float32", "convert"),
        {"argument": "data_callback", "dtype": np.complex64, "expected": np.float32},
    ),
    "callback of text": Case(
        from_callback(lambda index: np.full((2, 6), "a")),
        ArgumentTypeError,
        TypeError,
        ("data_callback", "<U1", "Convert"),
        {"argument": "data_callback"},
    ),
    "callback of nothing": Case(
        from_callback(lambda index: None),
        ArgumentTypeError,
        TypeError,
        ("data_callback", "NoneType", "numbers, arrays"),
        {"argument": "data_callback", "type": type(None)},
    ),
    "callback that raises": Case(
        from_callback(fail(ZeroDivisionError("mine"))),
        ZeroDivisionError,
        ArithmeticError,
        ("mine",),
    ),
    "callback that raises later": Case(
        from_callback(lambda index: BOX if index[0].start == 0 else {}[index[0].start]),
        KeyError,
        KeyError,
        ("2",),
    ),
    "callback that is none": Case(
        from_callback(BOX),
        ArgumentTypeError,
        TypeError,
        ("data_callback=", "function from slices"),
        {"argument": "data_callback", "type": np.ndarray},
    ),
    "dtype that is none": Case(
        from_callback(lambda index: BOX, dtype="float33"),
        ArgumentTypeError,
        TypeError,
        ("dtype='float33'", "NumPy"),
        {"argument": "dtype", "value": "float33"},
    ),
    "dtype of text": Case(
        from_callback(lambda index: BOX, dtype="U3"),
        ArgumentTypeError,
        TypeError,
        ("dtype", "<U3"),
        {"argument": "dtype"},
    ),
    "negative size": Case(
        lambda w: gs.make_array_from_callback((8, -6), w.named("x"), lambda i: BOX),
        ArgumentError,
        ValueError,
        ("shape=(8, -6)", "negative", "start at 0"),
        {"argument": "shape", "value": (8, -6)},
    ),
    "size that is no integer": Case(
        lambda w: gs.make_array_from_callback((8, 6.0), w.named("x"), lambda i: BOX),
        ArgumentTypeError,
        TypeError,
        ("shape=(8, 6.0)", "tuple of integers"),
        {"argument": "shape"},
    ),
    "callback onto a spec longer than the rank": Case(
        lambda w: gs.make_array_from_callback((8,), w.named("x", "y"), lambda i: BOX),
        ShardingError,
        ValueError,
        ("2 entries", "ndim=1"),
        {"argument": "spec", "ndim": 1},
    ),
    "parts of the wrong shape": Case(
        lambda w: gs.make_array_from_single_device_arrays((8, 8), w.named("x", "y"), w.parts),
        ShardingError,
        ValueError,
        ("arrays", "(2, 3)", "CpuDevice(id=0)", "(8, 8)", "(2, 4)"),
        {"argument": "arrays", "shape": (2, 3), "expected": (2, 4)},
    ),
    "one part of the wrong rank": Case(
        join(lambda w: [*w.parts[:7], gs.device_put(np.zeros(6, np.float32), w.devices[7])]),
        ShardingError,
        ValueError,
        ("arrays", "(6,)", "CpuDevice(id=7)", "(2, 3)"),
        {"argument": "arrays", "shape": (6,), "expected": (2, 3)},
    ),
    "one part of another dtype": Case(
        join(lambda w: [gs.device_put(np.zeros((2, 3), np.int8), w.devices[0]), *w.parts[1:]]),
        ArgumentTypeError,
        TypeError,
        ("arrays", "int8", "float32", "one dtype"),
        {"argument": "arrays"},
    ),
    "parts of another dtype than said": Case(
        join(lambda w: w.parts, dtype=np.float64),
        ArgumentTypeError,
        TypeError,
        ("arrays", "float32", "float64", "one dtype"),
        {"argument": "arrays", "dtype": np.float32, "expected": np.float64},
    ),
    "one part on the wrong device": Case(
        lambda w: gs.make_array_from_single_device_arrays(
            (4, 3),
            gs.NamedSharding(gs.make_mesh((2,), "z"), gs.P("z")),
            [w.parts[0], w.parts[5]],
        ),
        ShardingError,
        ValueError,
        ("arrays", "Without an array: [CpuDevice(id=1)]", "not in the sharding: [CpuDevice(id=5)]"),
        {"argument": "arrays"},
    ),
    "one part too few": Case(
        join(lambda w: w.parts[:7]),
        ShardingError,
        ValueError,
        ("arrays", "7 in number", "has 8", "CpuDevice(id=7)", "one array per device"),
        {"argument": "arrays"},
    ),
    "one part twice": Case(
        join(lambda w: [*w.parts, w.parts[0]]),
        ShardingError,
        ValueError,
        ("arrays lie on 8 devices", "9 in number", "one array per device"),
        {"argument": "arrays", "missing": [], "surplus": []},
    ),
    "a part on several devices": Case(
        join(lambda w: [w.x, *w.parts[1:]]),
        ShardingError,
        ValueError,
        ("arrays[0]", "8 devices", "must lie on one"),
        {"argument": "arrays", "position": 0},
    ),
    "a part that is NumPy data": Case(
        join(lambda w: [*w.parts[:7], np.zeros((2, 3), np.float32)]),
        ArgumentTypeError,
        TypeError,
        ("arrays[7]", "ndarray", "device_put(x, device)"),
        {"argument": "arrays", "position": 7},
    ),
    "parts without a sharding": Case(
        lambda w: gs.make_array_from_single_device_arrays((8, 6), gs.P("x", "y"), w.parts),  # type: ignore[arg-type]
        NoMeshError,
        RuntimeError,
        ("sharding=PartitionSpec('x', 'y')", "needs a mesh"),
        {"argument": "sharding"},
    ),
    "process data that fits neither rule": Case(
        local((5, 6)),
        ShardingError,
        ValueError,
        ("local_data", "5 elements along axis 0", "all 8", "(8, 6)", "addresses"),
        {"argument": "local_data", "dim": 0, "local_shape": (5, 6), "global_shape": (8, 6)},
    ),
    "process data of another rank": Case(
        local((8,)),
        ShardingError,
        ValueError,
        ("local_data", "ndim=1", "global_shape=(8, 6)", "2"),
        {"argument": "local_data"},
    ),
    "process data for a negative size": Case(
        local((8, 6), (8, -1)),
        ArgumentError,
        ValueError,
        ("global_shape=(8, -1)", "negative"),
        {"argument": "global_shape"},
    ),
    "process data of objects": Case(
        lambda w: gs.make_array_from_process_local_data(w.named(), np.array([None])),
        ArgumentTypeError,
        TypeError,
        ("local_data", "object", "Convert"),
        {"argument": "local_data"},
    ),
}

ARRAYS: dict[str, Case] = {
    "an index with two ellipses": Case(
        lambda w: w.x[..., [0], ...],
        ArrayIndexError,
        IndexError,
        ("one '...'",),
        {"argument": "index"},
    ),
    "an index that holds None": Case(
        lambda w: w.x[[None]],
        ArrayIndexError,
        IndexError,
        ("[None]", "no list of integers"),
        {"argument": "index"},
    ),
    "a buffer of a type that Python lacks": Case(
        lambda w: w.one.astype(ml_dtypes.bfloat16).__buffer__(0),
        ExportError,
        BufferError,
        ("bfloat16", "float32"),
        {"argument": "self"},
    ),
    "index out of bounds": Case(
        lambda w: w.x[8],
        ArrayIndexError,
        IndexError,
        ("index 8", "axis 0 of length 8", "-8 to 7"),
        {"argument": "index", "dim": 0, "size": 8, "position": 8},
    ),
    "a position that 64 bits with a sign do not hold": Case(
        lambda w: GNP.take(w.x, np.array([2**64 - 1], np.uint64), axis=0),
        ArrayIndexError,
        IndexError,
        ("index 18446744073709551615", "axis 0 of length 8", "-8 to 7"),
        {"argument": "index", "dim": 0, "size": 8, "position": 2**64 - 1},
    ),
    "negative index out of bounds": Case(
        lambda w: w.x[:, -7],
        ArrayIndexError,
        IndexError,
        ("index -7", "axis 1 of length 6", "-6 to 5"),
        {"dim": 1, "size": 6, "position": -7},
    ),
    "too many indices": Case(
        lambda w: w.x[0, 0, 0],
        ArrayIndexError,
        IndexError,
        ("3 entries", "(8, 6)", "at most one per axis"),
        {"argument": "index", "shape": (8, 6)},
    ),
    "index of a 0-d array": Case(
        lambda w: w.scalar[0],
        ArrayIndexError,
        IndexError,
        ("1 entries", "shape ()"),
        {"argument": "index", "shape": ()},
    ),
    "two ellipses": Case(
        lambda w: w.x[..., ...],
        ArrayIndexError,
        IndexError,
        ("index", "only one '...'"),
        {"argument": "index"},
    ),
    "two ellipses beside positions": Case(
        lambda w: w.x[..., np.array([0, 1]), ...],
        ArrayIndexError,
        IndexError,
        ("index", "only one '...'"),
        {"argument": "index"},
    ),
    "two ellipses beside positions of an update": Case(
        lambda w: w.x.at[..., np.array([0, 1]), ...].add(1),
        ArrayIndexError,
        IndexError,
        ("index", "only one '...'"),
        {"argument": "index"},
    ),
    "float index": Case(
        lambda w: w.x[1.0],
        ArrayIndexError,
        IndexError,
        ("entry 1.0", "integers, slices"),
        {"argument": "index", "entry": 1.0},
    ),
    "array of floats as an index": Case(
        lambda w: w.x[np.array([0.0, 1.0])],
        ArrayIndexError,
        IndexError,
        ("array([0., 1.])", "float64", "integers or booleans"),
        {"argument": "index"},
    ),
    "array of floats on devices as an index": Case(
        lambda w: w.x[w.x],
        ArrayIndexError,
        IndexError,
        ("shape (8, 6) on devices", "float32", "integers or booleans"),
        {"argument": "index"},
    ),
    "uneven lists as an index": Case(
        lambda w: w.x[[[0], [1, 2]]],
        ArrayIndexError,
        IndexError,
        ("entry [[0], [1, 2]]", "different lengths", "equally long"),
        {"argument": "index"},
    ),
    "list of words as an index": Case(
        lambda w: w.x[["a"]],
        ArrayIndexError,
        IndexError,
        ("entry ['a']", "integers or booleans"),
        {"argument": "index"},
    ),
    "position out of bounds in a list": Case(
        lambda w: w.x[:, [0, 6]],
        ArrayIndexError,
        IndexError,
        ("index 6", "axis 1 of length 6", "-6 to 5"),
        {"argument": "index", "dim": 1, "size": 6, "position": 6},
    ),
    "position out of bounds on devices": Case(
        lambda w: w.x[w.small - 9],
        ArrayIndexError,
        IndexError,
        ("index -9", "axis 0 of length 8", "-8 to 7"),
        {"argument": "index", "dim": 0, "size": 8, "position": -9},
    ),
    "mask of another length": Case(
        lambda w: w.x[:, np.ones(5, bool)],
        ArrayIndexError,
        IndexError,
        ("shape (5,)", "length 5 where axis 1", "has length 6"),
        {"argument": "index", "dim": 1, "size": 6, "length": 5},
    ),
    "mask of another length on devices": Case(
        lambda w: w.x.T[w.small > 2],
        ArrayIndexError,
        IndexError,
        ("shape (8,)", "length 8 where axis 0", "has length 6"),
        {"argument": "index", "dim": 0, "size": 6, "length": 8},
    ),
    "mask of too many dims": Case(
        lambda w: w.small[np.ones((8, 6), bool)],
        ArrayIndexError,
        IndexError,
        ("2 entries", "shape (8,)", "at most one per axis"),
        {"argument": "index", "shape": (8,)},
    ),
    "index arrays that do not broadcast": Case(
        lambda w: w.x[[0, 1, 2], [0, 1]],
        ArrayIndexError,
        IndexError,
        ("shapes (3,), (2,)", "do not broadcast"),
        {"argument": "index", "shapes": ((3,), (2,))},
    ),
    "index arrays for more dims than there are": Case(
        lambda w: w.x[[0], [0], [0]],
        ArrayIndexError,
        IndexError,
        ("3 entries", "shape (8, 6)", "at most one per axis"),
        {"argument": "index", "shape": (8, 6)},
    ),
    "unknown mode of an update": Case(
        lambda w: w.x.at[[0]].add(1, mode="bounce"),
        ArgumentError,
        ValueError,
        ("mode='bounce'", "clip", "None to raise"),
        {"argument": "mode", "mode": "bounce"},
    ),
    "unknown hint of an update": Case(
        lambda w: w.x.at[[0]].add(1, sorted=True),
        ArgumentTypeError,
        TypeError,
        ("sorted=", "indices_are_sorted="),
        {"argument": "sorted"},
    ),
    "update out of bounds": Case(
        lambda w: w.x.at[[8]].add(1),
        ArrayIndexError,
        IndexError,
        ("index 8", "axis 0 of length 8"),
        {"position": 8},
    ),
    "update by a number that does not fit": Case(
        lambda w: w.small.at[[0]].add(300),
        ArgumentRangeError,
        OverflowError,
        ("300", "int8"),
        {"number": 300},
    ),
    "update by complex numbers": Case(
        lambda w: w.x.at[[0]].multiply(1j),
        ArgumentTypeError,
        TypeError,
        ("complex64", "float32", "value.real"),
        {"argument": "value"},
    ),
    "put beyond the end": Case(
        lambda w: w.x.put([48], 1),
        ArrayIndexError,
        IndexError,
        ("index 48", "length 48"),
        {"position": 48},
    ),
    "step of zero": Case(
        lambda w: w.x[::0],
        ArgumentError,
        ValueError,
        ("slice(None, None, 0)", "step", "zero"),
        {"argument": "index"},
    ),
    "float bound of a slice": Case(
        lambda w: w.x[:2.0],
        ArgumentTypeError,
        TypeError,
        ("slice(None, 2.0, None)", "integers or None"),
        {"argument": "index"},
    ),
    "shard out of range": Case(
        lambda w: w.x.addressable_data(8),
        ArrayIndexError,
        IndexError,
        ("index=8", "8 shards"),
        {"argument": "index", "index": 8, "shards": 8},
    ),
    "pointer of a sharded array": Case(
        lambda w: w.x.unsafe_buffer_pointer(),
        ArgumentError,
        ValueError,
        ("8 shards", "addressable_data"),
        {"shards": 8},
    ),
    "matrix transpose of one dim": Case(
        lambda w: w.x[0].mT,
        ArgumentError,
        ValueError,
        ("mT", "two axes", "(6,)", "x.T"),
        {"shape": (6,)},
    ),
    "iteration over a 0-d array": Case(
        lambda w: iter(w.scalar), TypeError, TypeError, ("iteration over a 0-d array",)
    ),
    "length of a 0-d array": Case(
        lambda w: len(w.scalar), TypeError, TypeError, ("len() of unsized object",)
    ),
    "hash": Case(lambda w: hash(w.x), TypeError, TypeError, ("unhashable", "'Array'")),
    "truth of many elements": Case(
        lambda w: bool(w.x), ValueError, ValueError, ("truth value", "more than one element")
    ),
    "integer of many elements": Case(lambda w: int(w.x), TypeError, TypeError, ("scalar",)),
    "index of a float": Case(
        lambda w: operator.index(w.scalar), TypeError, TypeError, ("integer scalar",)
    ),
    "item out of bounds": Case(
        lambda w: w.x.item(48), ArrayIndexError, IndexError, ("48", "size 48", "-48 to 47")
    ),
    "item before the first": Case(
        lambda w: w.x.item(-49), ArrayIndexError, IndexError, ("-49", "size 48", "-48 to 47")
    ),
    "item out of bounds of a dim": Case(
        lambda w: w.x.item(0, 6), ArrayIndexError, IndexError, ("index 6", "(8, 6)")
    ),
    "attribute of old": Case(
        lambda w: w.x.device_buffers, AttributeError, AttributeError, ("addressable_shards",)
    ),
    "assignment to the shape": Case(
        lambda w: setattr(w.x, "shape", (48,)), AttributeError, AttributeError, ("shape",)
    ),
    "write to the host value": Case(
        lambda w: operator.setitem(np.asarray(w.x), 0, 1), ValueError, ValueError, ("read-only",)
    ),
    "pickle of devices that are not there": Case(
        lambda w: inside(
            runtime(host_devices=2), functools.partial(pickle.loads, pickle.dumps(w.one))
        ),
        DeserializationError,
        RuntimeError,
        ("device 3", "has 2", "numpy.asarray(x)"),
        {"platform": "cpu", "id": 3},
    ),
    "value that was never made": Case(
        lambda w: np.asarray(failed(w)),
        ExecutionError,
        RuntimeError,
        ("deferred work", "KeyError", "lost"),
        {"operation": "deferred work"},
    ),
}


def failed(w: World) -> gs.Array:
    x, gate = gated(w.one, error=KeyError("lost"))
    gate.open()
    return x


def guarded(direction: str, level: str, call: Callable[[World], Any], *words: str) -> Case:
    """Return the case of a call that one direction's guard forbids."""
    guard = getattr(gs, f"transfer_guard_{direction}")
    return Case(
        lambda w: inside(guard(level), lambda: call(w)),
        TransferGuardError,
        RuntimeError,
        (*words, direction, f"transfer_guard({level!r})", "leave the guard"),
        {"direction": direction, "level": level},
    )


ASSIGNMENTS: dict[str, Case] = {
    "assignment out of bounds": Case(
        assign((8, 0), 1),
        ArrayIndexError,
        IndexError,
        ("index 8", "axis 0 of length 8", "-8 to 7"),
        {"argument": "index", "position": 8},
    ),
    "assignment to a mask of another length": Case(
        assign(np.ones(7, bool), 1),
        ArrayIndexError,
        IndexError,
        ("length 7 where axis 0", "has length 8"),
        {"argument": "index"},
    ),
    "assignment of too many values to a mask": Case(
        assign(np.ones((8, 6), bool), np.zeros(5)),
        ArgumentError,
        ValueError,
        ("value has shape (5,)", "(48,)", "cannot be broadcast"),
        {"argument": "value", "shape": (5,), "expected": (48,)},
    ),
    "assignment of the wrong shape to index arrays": Case(
        lambda w: operator.setitem(w.x, [0, 1, 2], w.x[:2]),
        ArgumentError,
        ValueError,
        ("value has shape (2, 6)", "(3, 6)", "cannot be broadcast"),
        {"argument": "value", "shape": (2, 6), "expected": (3, 6)},
    ),
    "assignment of complex numbers to index arrays": Case(
        assign([0, 1], 1j),
        ArgumentTypeError,
        TypeError,
        ("complex128", "float32", "value.real"),
        {"argument": "value"},
    ),
    "assignment of too many values": Case(
        assign(2, np.zeros(5)),
        ArgumentError,
        ValueError,
        ("(5,)", "part of the array (6,)", "cannot be broadcast"),
        {"argument": "value", "shape": (5,), "expected": (6,)},
    ),
    "assignment of too many dims": Case(
        assign(2, np.zeros((2, 6))),
        ArgumentError,
        ValueError,
        ("(2, 6)", "part of the array (6,)", "cannot be broadcast"),
        {"argument": "value", "shape": (2, 6), "expected": (6,)},
    ),
    "assignment of values to a part without elements": Case(
        assign(slice(3, 3), np.zeros((2, 6))),
        ArgumentError,
        ValueError,
        ("(2, 6)", "(0, 6)"),
        {"argument": "value"},
    ),
    "assignment of a complex number": Case(
        assign(2, 1j),
        ArgumentTypeError,
        TypeError,
        ("complex128", "float32", "imaginary", "value.real"),
        {"argument": "value", "expected": np.dtype(np.float32)},
    ),
    "assignment of complex numbers": Case(
        assign(2, np.ones(6, np.complex64)),
        ArgumentTypeError,
        TypeError,
        ("complex64", "float32", "imaginary"),
        {"argument": "value", "dtype": np.dtype(np.complex64)},
    ),
    "assignment of a number that is too large": Case(
        lambda w: w.small.__setitem__(0, 300),
        ArgumentRangeError,
        OverflowError,
        ("300", "int8", "convert it"),
        {"argument": "value", "dtype": np.dtype(np.int8)},
    ),
    "assignment of numbers that are too large": Case(
        lambda w: w.small.__setitem__(slice(2), [1, -(2**80)]),
        ArgumentRangeError,
        OverflowError,
        ("int8", "does not fit"),
        {"argument": "value"},
    ),
    "assignment of infinity": Case(
        lambda w: w.small.__setitem__(0, float("inf")),
        ArgumentRangeError,
        OverflowError,
        ("infinity", "int8"),
        {"argument": "value"},
    ),
    "assignment of NaN": Case(
        lambda w: w.small.__setitem__(0, float("nan")),
        ArgumentError,
        ValueError,
        ("NaN", "int8"),
        {"argument": "value"},
    ),
    "assignment of text": Case(
        assign(0, "text"),
        ArgumentTypeError,
        TypeError,
        ("value has dtype <U4", "numbers"),
        {"argument": "value"},
    ),
    "assignment of nothing": Case(
        assign(0, None),
        ArgumentTypeError,
        TypeError,
        ("value has dtype object", "numbers"),
        {"argument": "value"},
    ),
    "assignment of lists of several lengths": Case(
        assign(0, [[1], [1, 2]]),
        ArgumentError,
        ValueError,
        ("value is no array", "one length"),
        {"argument": "value"},
    ),
    "assignment of a masked array": Case(
        assign(0, np.ma.masked_array(np.zeros(6), True)),
        ArgumentTypeError,
        TypeError,
        ("masked", "filled"),
        {"argument": "value"},
    ),
    "assignment of a complex array": Case(
        lambda w: w.x.__setitem__(0, gs.device_put(np.ones(6, np.complex64))),
        ArgumentTypeError,
        TypeError,
        ("complex64", "float32", "imaginary"),
        {"argument": "value", "dtype": np.dtype(np.complex64)},
    ),
    "assignment of an array that is too short": Case(
        lambda w: w.x.__setitem__(slice(2), w.one[0, :5]),
        ArgumentError,
        ValueError,
        ("(5,)", "(2, 6)", "cannot be broadcast"),
        {"argument": "value", "shape": (5,), "expected": (2, 6)},
    ),
    "assignment of an array of another shape": Case(
        lambda w: w.x.__setitem__(0, w.one),
        ArgumentError,
        ValueError,
        ("(8, 6)", "(6,)", "cannot be broadcast"),
        {"argument": "value"},
    ),
    "assignment to a deleted array": Case(
        lambda w: w.gone.__setitem__(0, 1),
        DeletedArrayError,
        RuntimeError,
        ("(8, 6)", "deleted or donated"),
    ),
    "assignment of a deleted array": Case(
        lambda w: w.x.__setitem__(0, w.gone),
        DeletedArrayError,
        RuntimeError,
        ("(8, 6)", "deleted or donated"),
    ),
    "set of too many values": Case(
        lambda w: w.x.at[2].set(np.zeros(5)),
        ArgumentError,
        ValueError,
        ("(5,)", "(6,)"),
        {"argument": "value"},
    ),
    "assignment that is not allowed": Case(
        lambda w: inside(gs.transfer_guard("disallow"), lambda: assign(2, np.zeros(6))(w)),
        TransferGuardError,
        RuntimeError,
        ("x[index] = value", "implicit", "host_to_device"),
        {"direction": "host_to_device"},
    ),
}

GUARDS: dict[str, Case] = {
    "implicit read": guarded(
        "device_to_host", "disallow", lambda w: np.asarray(w.x), "implicit", "numpy.asarray(x)"
    ),
    "printing": guarded("device_to_host", "disallow", lambda w: str(w.x), "implicit", "str(x)"),
    "explicit read": guarded(
        "device_to_host", "disallow_explicit", lambda w: gs.device_get(w.x), "explicit"
    ),
    "implicit read under the stronger guard": guarded(
        "device_to_host", "disallow_explicit", lambda w: float(w.scalar), "implicit", "float(x)"
    ),
    "saving": guarded(
        "device_to_host", "disallow_explicit", lambda w: gs.save("y.npy", w.x), "explicit", "save"
    ),
    "placing": guarded(
        "host_to_device",
        "disallow_explicit",
        lambda w: gs.device_put([w.value, 1.0], w.devices[1]),
        "explicit",
        "device_put(x)",
    ),
    "placing by callback": guarded(
        "host_to_device",
        "disallow_explicit",
        from_callback(fail(AssertionError("must not be called"))),
        "make_array_from_callback",
    ),
    "an argument of jit": guarded(
        "host_to_device", "disallow", lambda w: gs.jit(of_rows)(w.value), "implicit", "jit of"
    ),
    "an argument of jit under the stronger guard": guarded(
        "host_to_device", "disallow_explicit", lambda w: gs.jit(of_rows)(w.value), "implicit"
    ),
    "loading": guarded(
        "host_to_device", "disallow_explicit", lambda w: gs.load(w.file, w.named("x")), "explicit"
    ),
    "moving": guarded(
        "device_to_device",
        "disallow_explicit",
        lambda w: gs.reshard(w.x, gs.P("y"), donate=True),
        "explicit",
        "reshard",
    ),
    "unknown level": Case(
        lambda w: inside(gs.transfer_guard("forbid"), lambda: None),
        ArgumentError,
        ValueError,
        ("level='forbid'", "allow, log, disallow"),
        {"argument": "level", "level": "forbid"},
    ),
}


def head(w: World, nbytes: int) -> Path:
    return w.written(w.file.read_bytes()[:nbytes])


def unreadable(call: Callable[[World], Any], *words: str, **facts: Any) -> Case:
    """Return the case of a file that is none of an array."""
    return Case(call, FileFormatError, ValueError, words, {"argument": "file", **facts})


def inaccessible(call: Callable[[World], Any], *words: str, **facts: Any) -> Case:
    """Return the case of a file that the system refuses to read or write."""
    return Case(call, FileAccessError, OSError, words, {"argument": "file", **facts})


FILES: dict[str, Case] = {
    "missing file": inaccessible(
        lambda w: gs.load("none.npy", w.named()),
        "none.npy cannot be read",
        "No such file",
        "numpy.save",
        file="none.npy",
    ),
    "folder": inaccessible(lambda w: gs.load(w.folder), "cannot be read", "Is a directory"),
    "empty file": unreadable(lambda w: gs.load(w.written(b"")), "bad.npy cannot be read", "EOF"),
    "file of another kind": unreadable(
        lambda w: gs.load(w.written(b"%PDF-1.7 and more")), "bad.npy cannot be read", "magic"
    ),
    "file cut in its header": unreadable(
        lambda w: gs.load(head(w, 40)), "bad.npy cannot be read", "expected 118 bytes got 30"
    ),
    "file cut in its data": unreadable(
        lambda w: gs.load(head(w, -5), w.named("x")), "bad.npy cannot be read", "file size"
    ),
    "file of objects": unreadable(
        lambda w: gs.load(w.written(np.array([None, 1]))), "bad.npy cannot be read", "objects"
    ),
    "file of records": unreadable(
        lambda w: gs.load(w.written(np.zeros(3, "i4,f8"))),
        "bad.npy has dtype [('f0'",
        "Convert it first",
        dtype=np.dtype("i4,f8"),
    ),
    "file of text": unreadable(
        lambda w: gs.load(w.written(np.array(["a"]))), "bad.npy has dtype <U1", "Convert it first"
    ),
    "file with code in its header": unreadable(
        lambda w: gs.load(
            w.written(w.file.read_bytes().replace(b"'<f4'", b"exit ", 1)), w.named("x")
        ),
        "bad.npy cannot be read",
    ),
    "file onto a spec longer than its rank": Case(
        lambda w: gs.load(w.file, w.named("x", None, "y")),
        ShardingError,
        ValueError,
        ("3 entries", "ndim=2"),
        {"argument": "spec", "ndim": 2},
    ),
    "file onto a number": Case(
        lambda w: gs.load(w.file, 3),
        ArgumentTypeError,
        TypeError,
        ("sharding=3", "a Sharding"),
        {"argument": "sharding"},
    ),
    "file larger than the quota": Case(
        lambda w: gs.load(w.written(np.zeros(QUOTA))),
        OutOfMemoryError,
        MemoryError,
        (f"{QUOTA * 8:,} bytes", f"quota of {QUOTA:,}"),
        {"limit": QUOTA},
    ),
    "progress that raises": Case(
        lambda w: gs.load(w.file, w.named("x"), progress=fail(InterruptedError("stop"))),
        InterruptedError,
        OSError,
        ("stop",),
    ),
    "no path": Case(
        lambda w: gs.load(3),  # type: ignore[arg-type]
        ArgumentTypeError,
        TypeError,
        ("file=3", "must be a path"),
        {"argument": "file", "type": int},
    ),
    "no path to write": Case(
        lambda w: gs.save(None, w.x),  # type: ignore[arg-type]
        ArgumentTypeError,
        TypeError,
        ("file=None", "must be a path"),
        {"argument": "file"},
    ),
    "saving no numbers": Case(
        lambda w: gs.save("y.npy", object()),
        ArgumentTypeError,
        TypeError,
        ("arr holds a object", "place numbers, arrays"),
        {"argument": "arr"},
    ),
    "saving into a missing folder": inaccessible(
        lambda w: gs.save("none/y.npy", w.x), "none/y.npy cannot be written", "No such file"
    ),
    "saving into a file": inaccessible(
        lambda w: gs.save(w.file / "y.npy", w.x), "cannot be written", "Not a directory"
    ),
    "saving over a folder": inaccessible(
        lambda w: gs.save(w.folder, w.x), "cannot be written", "Is a directory"
    ),
    "saving to no name": inaccessible(lambda w: gs.save("", w.x), "cannot be written"),
    "loading a type that NumPy cannot name": unreadable(
        lambda w: gs.load(w.written(np.zeros(3, [("float8_of_the_future", "V1")]))),
        "float8_of_the_future",
        "import ml_dtypes",
    ),
    "saving a failed value": Case(
        lambda w: gs.save("y.npy", failed(w)),
        ExecutionError,
        RuntimeError,
        ("deferred work failed", "lost"),
        {"operation": "deferred work"},
    ),
}


def setting(call: Callable[[World], Any], *words: str, **facts: Any) -> Case:
    """Return the case of a setting that makes no sense."""
    return Case(call, ConfigurationError, ValueError, words, facts)


def cuda_on(libraries: Libraries, **settings: Any) -> Callable[[World], Any]:
    """Return a call that asks for CUDA on a machine with these libraries."""
    return lambda w: choose_backend.choose(
        Settings(backend="cuda", **settings), functools.partial(probe, libraries)
    )


def green_on(multiprocessors: int, partitions: int) -> Callable[[World], Any]:
    """Return a call that divides a GPU with so many multiprocessors, made of eights."""
    chosen = Settings(backend="cuda", partitions=partitions, partition_mode="green")
    return lambda w: CudaBackend(chosen, FakeDriver(multiprocessors=multiprocessors))


def green_with(
    module: Bindings | Exception | None, parts: int = 2, *, driver: int = 13000, cuda: int = 13020
) -> Callable[[World], Any]:
    """Return a call that divides GPU 0 with this cuda-bindings, none, or one that fails."""
    modules = {} if module is None else {"cuda.bindings.driver": module}
    return lambda w: GreenDriver(driver, cuda, fakes.libraries(**modules)).divide(0, parts)


def on_gpu(
    work: Callable[[gs.Array], Any], dtype: Any = "f4", *, split: bool = False, **settings: Any
) -> Callable[[World], Any]:
    """Return a call that does something with an array of six elements on two parts of a GPU."""

    def call(w: World) -> Any:
        chosen = Settings(backend="cuda", partitions=2, **settings)
        with using(Runtime(chosen, CudaBackend(chosen, FakeDriver(1)))):
            place: Any = gs.devices()[1]
            if split:
                place = gs.NamedSharding(gs.make_mesh((2,), ("x",)), gs.P("x"))
            return work(gs.device_put(np.arange(6).astype(dtype), place))

    return call


def stored(work: Callable[[gs.Array], Any], name: str, dtype: Any = "g") -> Case:
    """Return the case of a function of numbers that GPUs only store."""
    own = np.dtype(dtype)
    words = (f"{name} is not available for {own} on gpu", "on the host", "numpy.asarray(x)")
    facts = {"argument": "x", "dtype": own}
    return Case(on_gpu(work, dtype), ArgumentTypeError, TypeError, words, facts)


GPUS: dict[str, Case] = {
    "longdouble added up on a GPU": stored(lambda x: x.sum(), "sum"),
    "longdouble converted on a GPU": stored(lambda x: x.astype("f8"), "astype"),
    "longdouble sorted on a GPU": stored(gs.numpy.sort, "sort"),
    "conversion to float8 on a GPU": Case(
        on_gpu(lambda x: x.astype(ml_dtypes.float8_e5m2)),
        ArgumentTypeError,
        TypeError,
        ("astype is not available for float8_e5m2 on gpu", "ask for another type"),
        {"argument": "x", "dtype": np.dtype(ml_dtypes.float8_e5m2)},
    ),
    "longdouble complex numbers on a GPU": stored(lambda x: x * 2, "multiply", "G"),
    "conversion to longdouble on a GPU": Case(
        on_gpu(lambda x: x.astype(np.longdouble)),
        ArgumentTypeError,
        TypeError,
        ("astype is not available for", "on gpu devices", "numpy.asarray(x)"),
        {"argument": "x", "dtype": np.dtype(np.longdouble)},
    ),
    "longdouble zeros on a GPU": Case(
        on_gpu(lambda x: gs.numpy.zeros(3, np.longdouble, device=x.device)),
        ArgumentTypeError,
        TypeError,
        ("is not available for", "on gpu devices", "numpy.asarray(x)"),
        {"argument": "x", "dtype": np.dtype(np.longdouble)},
    ),
    "export to a stream that is none": Case(
        on_gpu(lambda x: x.__dlpack__(stream=0)),
        ArgumentError,
        ValueError,
        ("stream=0", "None, -1, 1, 2 or the address of a CUDA stream"),
        {"argument": "stream", "stream": 0},
    ),
    "export of a copy to a stream by name": Case(
        on_gpu(lambda x: x.__dlpack__(stream="main", copy=True)),
        ArgumentError,
        ValueError,
        ("stream='main'", "address of a CUDA stream"),
        {"argument": "stream"},
    ),
    "export of a copy that is half one": Case(
        on_gpu(lambda x: x.__dlpack__(copy=0.5)),
        ArgumentTypeError,
        TypeError,
        ("copy=0.5", "True, False or None"),
        {"argument": "copy"},
    ),
    "export to another GPU": Case(
        on_gpu(lambda x: x.__dlpack__(dl_device=(2, 1), copy=True)),
        ExportError,
        BufferError,
        ("dl_device=(2, 1) (CUDA)", "the array is on (2, 0) (CUDA)", "x.to_device"),
        {"argument": "dl_device", "dl_device": (2, 1), "device": (2, 0)},
    ),
    "export of a GPU's memory to the CPU without a copy": Case(
        on_gpu(lambda x: x.__dlpack__(dl_device=(1, 0), copy=False)),
        ExportError,
        BufferError,
        ("dl_device=(1, 0) (CPU) with copy=False", "ask for the CPU with copy=None"),
        {"argument": "dl_device"},
    ),
    "array interface of several shards": Case(
        on_gpu(lambda x: x.__cuda_array_interface__, split=True),
        ProtocolError,
        AttributeError,
        ("2 shards", "addressable_data(i)"),
        {"shards": 2},
    ),
    "copy of several shards for others": Case(
        on_gpu(lambda x: x.__dlpack__(copy=True), split=True),
        ExportError,
        BufferError,
        ("2 shards", "addressable_data(i)"),
        {"shards": 2, "argument": "self"},
    ),
}

SETTINGS: dict[str, Case] = {
    "negative quota": setting(
        lambda w: Settings(memory_limit=-1),
        "memory_limit=-1",
        "at least 0",
        argument="memory_limit",
    ),
    "zero devices": setting(
        lambda w: inside(runtime(host_devices=0), gs.devices),
        "host_devices=0",
        "at least 1",
        argument="host_devices",
        value=0,
    ),
    "domains that do not divide the devices": setting(
        lambda w: inside(runtime(host_devices=8, host_domains=3), gs.devices),
        "host_domains=3 does not divide host_devices=8",
        "same number of devices",
        argument="host_domains",
        value=3,
    ),
    "half a worker": setting(
        lambda w: Settings(host_workers=0.5),  # type: ignore[arg-type]
        "host_workers=0.5",
        "integer of at least 1",
        argument="host_workers",
    ),
    "devices by flag": setting(
        lambda w: Settings(host_devices=True),
        "host_devices=True",
        "integer",
        argument="host_devices",
    ),
    "unknown backend": setting(
        lambda w: Settings(backend="tpu"),
        "backend='tpu'",
        "one of host, cuda",
        argument="backend",
        value="tpu",
    ),
    "CUDA without CuPy": setting(
        cuda_on(fakes.libraries()),
        "backend='cuda' cannot be used here",
        "CuPy is not installed",
        "pip install 'gpushard[cuda13]'",
        argument="backend",
        value="cuda",
    ),
    "CUDA with two CuPy wheels": setting(
        cuda_on(fakes.libraries({"cupy-cuda12x": "14.2.0", "cupy-cuda13x": "14.2.0"})),
        "cupy-cuda13x and cupy-cuda12x are both installed",
        "pip uninstall cupy-cuda13x cupy-cuda12x",
        argument="backend",
    ),
    "CUDA without a driver": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(fakes.CUDARuntimeError(35), driver=0))),
        "backend='cuda' cannot be used here",
        "no NVIDIA driver",
        "install one",
        argument="backend",
    ),
    "CUDA with an old driver": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(fakes.CUDARuntimeError(35), driver=12040))),
        "driver is for CUDA 12.4",
        "CUDA 13.2 of CuPy 14.2.0",
        "update the NVIDIA driver",
        argument="backend",
    ),
    "CUDA without a GPU": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(fakes.CUDARuntimeError(100)))),
        "no GPU is visible",
        "CUDA_VISIBLE_DEVICES",
        argument="backend",
    ),
    "CUDA in a forked child": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(fakes.CUDARuntimeError(3)))),
        "forked child",
        '"spawn"',
        argument="backend",
    ),
    "CUDA without NVRTC": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(compiler=RuntimeError("no libnvrtc.so.13")))),
        "kernels cannot be compiled (RuntimeError: no libnvrtc.so.13)",
        "pip install 'cupy-cuda13x[ctk]'",
        argument="backend",
    ),
    "CUDA without its headers": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(headers=RuntimeError("no CUDA headers")))),
        "kernels cannot be compiled (RuntimeError: no CUDA headers)",
        "pip install 'cupy-cuda13x[ctk]'",
        "CUDA_PATH",
        argument="backend",
    ),
    "a GPU that is not there": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(2)), gpus=(0, 2)),
        "gpus=(0, 2) names GPU 2",
        "shows 2",
        "0 to 1",
        argument="gpus",
        value=(0, 2),
        gpus=2,
    ),
    "partitions for other GPUs than there are": setting(
        cuda_on(fakes.libraries(cupy=fakes.cupy(3)), partitions=(4, 4)),
        "partitions=(4, 4) has 2 numbers for 3 GPUs",
        "one for each GPU",
        argument="partitions",
        value=(4, 4),
        gpus=3,
    ),
    "partitions for other GPUs than are named": setting(
        lambda w: Settings(gpus=(0, 2), partitions=(1, 2, 3)),
        "partitions=(1, 2, 3) has 3 numbers for 2 GPUs",
        "one integer for all",
        argument="partitions",
        value=(1, 2, 3),
        gpus=2,
    ),
    "no partition": setting(
        lambda w: inside(runtime(partitions=0), gs.devices),
        "partitions=0",
        "from 1 to 64",
        argument="partitions",
        value=0,
    ),
    "too many partitions of one GPU": setting(
        lambda w: Settings(partitions=(1, 65)),
        "partitions=(1, 65)",
        "from 1 to 64",
        argument="partitions",
        value=(1, 65),
    ),
    "the same GPU twice": setting(
        lambda w: Settings(gpus=(1, 0, 1)),
        "gpus=(1, 0, 1)",
        "more than once",
        "partitions",
        argument="gpus",
        value=(1, 0, 1),
    ),
    "negative GPU": setting(
        lambda w: Settings(gpus=(0, -1)), "gpus=(0, -1)", "at least 0", argument="gpus"
    ),
    "no GPU named": setting(
        lambda w: Settings(gpus=()), "gpus=()", "None for all GPUs", argument="gpus", value=()
    ),
    "unknown way to divide a GPU": setting(
        lambda w: Settings(partition_mode="mig"),
        "partition_mode='mig'",
        "one of stream, green",
        argument="partition_mode",
        value="mig",
    ),
    "green contexts without their library": setting(
        green_with(None),
        "partition_mode='green' needs cuda-bindings, which is not installed",
        "CUDA 13.2",
        "pip install 'gpushard[green13]'",
        "partition_mode='stream'",
        argument="partition_mode",
        value="green",
        extra="green13",
    ),
    "green contexts without their library for CUDA 12": setting(
        green_with(None, cuda=12090),
        "CuPy is built with CUDA 12.9",
        "pip install 'gpushard[green12]'",
        extra="green12",
    ),
    "green contexts with a broken library": setting(
        green_with(ImportError("undefined symbol: cuInit")),
        "does not import (ImportError: undefined symbol: cuInit)",
        "pip install 'gpushard[green13]'",
        argument="partition_mode",
    ),
    "green contexts with an old driver": setting(
        green_with(Bindings(), driver=12030),
        "needs a driver for CUDA 12.4 or newer",
        "this one is for CUDA 12.3",
        "update the NVIDIA driver",
        argument="partition_mode",
        value="green",
        driver=12030,
    ),
    "green contexts where CUDA has none": setting(
        green_with(Bindings(fail=("cuGreenCtxCreate", CUresult.CUDA_ERROR_NOT_SUPPORTED, 1))),
        "partition_mode='green' cannot be used on GPU 0",
        "cuGreenCtxCreate failed with CUDA_ERROR_NOT_SUPPORTED",
        "partition_mode='stream'",
        argument="partition_mode",
        gpu=0,
    ),
    "too few multiprocessors": setting(
        green_on(24, 4),
        "cannot divide GPU 0 into 4 partitions",
        "24 multiprocessors",
        "at most 3 groups, of at least 8",
        "partitions=3 or fewer",
        argument="partitions",
        value=4,
        gpu=0,
        multiprocessors=24,
        least=8,
        most=3,
    ),
    "too few multiprocessors for two": setting(
        green_on(14, 2),
        "GPU 0 into 2 partitions",
        "14 multiprocessors",
        "at most 1 group, of at least 8",
        "use partition_mode='stream'",
        most=1,
    ),
    "too few multiprocessors that lie together": setting(
        green_with(Bindings(total=126, spans=18), parts=15),
        "GPU 0 into 15 partitions",
        "126 multiprocessors",
        "at most 14 groups, of at least 8",
        "have to lie together",
        "partitions=14 or fewer",
        argument="partitions",
        most=14,
    ),
    "hardly any pinned memory": setting(
        lambda w: Settings(pinned_bytes=32),
        "pinned_bytes=32",
        "at least 64",
        argument="pinned_bytes",
        value=32,
    ),
    "tiny slabs": setting(
        lambda w: Settings(slab_bytes=1 << 19),
        "slab_bytes=524288",
        "at least 1048576",
        argument="slab_bytes",
    ),
    "domains by text": setting(
        lambda w: Settings(separate_domains="yes"),  # type: ignore[arg-type]
        "separate_domains='yes'",
        "True or False",
        argument="separate_domains",
    ),
    "unreadable GPUs": setting(
        lambda w: Settings.from_environment({"GPUSHARD_GPUS": "all"}),
        "GPUSHARD_GPUS='all'",
        "such as 0,2",
        argument="GPUSHARD_GPUS",
        value="all",
    ),
    "unreadable partitions": setting(
        lambda w: Settings.from_environment({"GPUSHARD_PARTITIONS": "2x1"}),
        "GPUSHARD_PARTITIONS='2x1'",
        "such as 2,1",
        argument="GPUSHARD_PARTITIONS",
        value="2x1",
    ),
    "unreadable variable": setting(
        lambda w: Settings.from_environment({"GPUSHARD_HOST_DEVICES": "eight"}),
        "GPUSHARD_HOST_DEVICES='eight'",
        "integer",
        argument="GPUSHARD_HOST_DEVICES",
        value="eight",
    ),
    "unreadable size": setting(
        lambda w: Settings.from_environment({"GPUSHARD_MEMORY_LIMIT": "2 gigs"}),
        "GPUSHARD_MEMORY_LIMIT='2 gigs'",
        "512M",
        argument="GPUSHARD_MEMORY_LIMIT",
    ),
    "unreadable flag": setting(
        lambda w: Settings.from_environment({"GPUSHARD_ENABLE_CHECKS": "maybe"}),
        "GPUSHARD_ENABLE_CHECKS='maybe'",
        "0 or 1",
        argument="GPUSHARD_ENABLE_CHECKS",
    ),
    "configure after use": setting(
        lambda w: gs.configure(host_devices=4),
        "in use already",
        "before the first array",
        argument="host_devices",
    ),
    "unknown setting": setting(
        lambda w: gs.configure(host_device=4),
        "'host_device'",
        "host_devices",
        argument="host_device",
    ),
    "node registered twice": Case(
        lambda w: gs.tree.register_node(dict, lambda d: ((), None), lambda aux, c: {}),
        TreeError,
        ValueError,
        ("dict", "already", "once per process"),
        {"cls": dict},
    ),
}


def yielding(x: Any) -> Iterator[Any]:
    """Yield what it takes: no function that can be traced."""
    yield x


class Foreign:
    """A NumPy array that says it is somewhere else, or gives something odd."""

    def __init__(self, place: Any = (1, 0), capsule: Any = None) -> None:
        self.place, self.capsule = place, capsule

    def __dlpack__(self, **_: Any) -> Any:
        return np.zeros(4).__dlpack__() if self.capsule is None else self.capsule

    def __dlpack_device__(self) -> Any:
        return self.place


def twice() -> Foreign:
    """Return a producer whose one capsule was used before."""
    producer = Foreign(capsule=np.zeros(4).__dlpack__())
    np.from_dlpack(producer)  # type: ignore[arg-type]
    return producer


def mapping(f: Any, *arrays: Any, out: Any = None, **options: Any) -> Callable[[World], Any]:
    """Return a call of `map_shards` on `w.x`, or on other arrays if there are."""
    return lambda w: gs.map_shards(
        f,
        *(arrays or (w.x,)),
        out=gs.ShapeDtypeStruct((8, 6), "f4") if out is None else out,
        **options,
    )


def raising(*_: Any) -> None:
    raise KeyError("mine")


UNALIGNED = np.zeros(65, np.uint8)[1:]

INTEROP: dict[str, Case] = {
    "export of several shards": Case(
        lambda w: w.x.__dlpack__(max_version=(1, 0)),
        ExportError,
        BufferError,
        ("(8, 6)", "8 shards", "P('x', 'y')", "x.addressable_data(i)", "x.to_device(device)"),
        {"argument": "self", "shards": 8, "shape": (8, 6)},
    ),
    "place of several shards": Case(
        lambda w: np.from_dlpack(w.x),
        ExportError,
        BufferError,
        ("8 shards", "x.addressable_data(i)"),
        {"shards": 8},
    ),
    "a buffer to write to": Case(
        lambda w: w.x.__buffer__(1),
        ExportError,
        BufferError,
        ("read-only", "numpy.array(x)"),
        {"argument": "flags", "flags": 1},
    ),
    "export of several shards to the CPU without a copy": Case(
        lambda w: w.x.__dlpack__(dl_device=(1, 0), copy=False),
        ExportError,
        BufferError,
        ("8 shards", "copy=True"),
        {"argument": "self", "shards": 8},
    ),
    "export to a GPU": Case(
        lambda w: w.one.__dlpack__(dl_device=(2, 0)),
        ExportError,
        BufferError,
        ("dl_device=(2, 0) (CUDA)", "on (1, 0) (CPU)", "x.to_device(device)"),
        {"argument": "dl_device", "dl_device": (2, 0), "device": (1, 0)},
    ),
    "export to a GPU without a copy": Case(
        lambda w: w.one.__dlpack__(dl_device=(2, 0), copy=False),
        ExportError,
        BufferError,
        ("dl_device=(2, 0)", "copy=False"),
        {"argument": "dl_device"},
    ),
    "export to what is no place": Case(
        lambda w: w.one.__dlpack__(dl_device="cpu"),
        ArgumentTypeError,
        TypeError,
        ("dl_device='cpu'", "pair of integers", "(1, 0)"),
        {"argument": "dl_device", "value": "cpu"},
    ),
    "export for a version that is no pair": Case(
        lambda w: w.one.__dlpack__(max_version=1),
        ArgumentTypeError,
        TypeError,
        ("max_version=1", "pair of integers", "(1, 0)"),
        {"argument": "max_version", "value": 1},
    ),
    "export on a stream of the CPU": Case(
        lambda w: w.one.__dlpack__(stream=2),
        ArgumentError,
        ValueError,
        ("stream=2", "must be None", "CPU"),
        {"argument": "stream", "stream": 2},
    ),
    "export with a copy of the wrong type": Case(
        lambda w: w.one.__dlpack__(copy="yes"),
        ArgumentTypeError,
        TypeError,
        ("copy='yes'", "True, False or None"),
        {"argument": "copy"},
    ),
    "export of a long double": Case(
        lambda w: gs.device_put(np.zeros(3, np.longdouble)).__dlpack__(),
        ExportError,
        BufferError,
        ("dtype", "float", "convert it first"),
        {"argument": "self", "dtype": np.longdouble},
    ),
    "CUDA arrays on the CPU": Case(
        lambda w: w.one.__cuda_array_interface__,
        ProtocolError,
        AttributeError,
        ("on the cpu", "__cuda_array_interface__", "use DLPack"),
        {"platform": "cpu"},
    ),
    "import of a list": Case(
        lambda w: gs.from_dlpack([1.0, 2.0]),
        ProtocolError,
        AttributeError,
        ("x is a list", "__dlpack__", "use device_put"),
        {"argument": "x", "type": list},
    ),
    "import of a capsule": Case(
        lambda w: gs.from_dlpack(np.zeros(4).__dlpack__()),
        ArgumentTypeError,
        TypeError,
        ("x is a DLPack capsule", "pass the array"),
        {"argument": "x"},
    ),
    "import of a capsule that was used": Case(
        lambda w: gs.from_dlpack(twice()),
        ArgumentError,
        ValueError,
        ("x.__dlpack__() of a Foreign", "used before", "new capsule"),
        {"argument": "x", "type": Foreign},
    ),
    "import of something else than a capsule": Case(
        lambda w: gs.from_dlpack(Foreign(capsule="text")),
        ArgumentTypeError,
        TypeError,
        ("Foreign gave a str", "new capsule"),
        {"argument": "x", "type": Foreign},
    ),
    "import from a GPU that is not there": Case(
        lambda w: gs.from_dlpack(Foreign((2, 3))),
        ArgumentError,
        ValueError,
        ("x is on (2, 3) (CUDA)", "CpuDevice(id=0) on (1, 0) (CPU)", "copy x to the CPU"),
        {"argument": "x", "place": (2, 3)},
    ),
    "import without a copy of what is not aligned": Case(
        lambda w: gs.from_dlpack(UNALIGNED[::2], copy=False),
        ArgumentError,
        ValueError,
        ("copy=False", "(32,)", "uint8", "aligned to 16 bytes", "Try: copy=None"),
        {"argument": "copy", "shape": (32,)},
    ),
    "import with a copy of the wrong type": Case(
        lambda w: gs.from_dlpack(w.value, copy=0),  # type: ignore[arg-type]
        ArgumentTypeError,
        TypeError,
        ("copy=0", "True, False or None"),
        {"argument": "copy"},
    ),
    "import to a sharding": Case(
        lambda w: gs.from_dlpack(w.value, device=w.named("x")),  # type: ignore[arg-type]
        ArgumentTypeError,
        TypeError,
        ("device=NamedSharding", "gpushard.devices()", "with device_put"),
        {"argument": "device"},
    ),
    "import under a guard": Case(
        lambda w: inside(gs.transfer_guard("disallow_explicit"), lambda: gs.from_dlpack(w.value)),
        TransferGuardError,
        RuntimeError,
        ("from_dlpack(x)", "host_to_device", "disallow_explicit"),
        {"level": "disallow_explicit"},
    ),
    "a generator function": Case(
        lambda w: gs.jit(yielding),
        ArgumentTypeError,
        TypeError,
        ("no generator", "return all results"),
        {"argument": "f"},
    ),
    "mapping of no function": Case(
        mapping(3),
        ArgumentTypeError,
        TypeError,
        ("f=3", "must be a function"),
        {"argument": "f", "type": int},
    ),
    "mapping over NumPy data": Case(
        mapping(raising, np.zeros(3)),
        ArgumentTypeError,
        TypeError,
        ("arrays[0] is a ndarray", "use device_put"),
        {"argument": "arrays", "position": 0, "type": np.ndarray},
    ),
    "mapping to a shape alone": Case(
        mapping(raising, out=[(8, 6)]),
        ArgumentTypeError,
        TypeError,
        ("out holds 8", "ShapeDtypeStruct(shape, dtype)"),
        {"argument": "out", "type": int},
    ),
    "a struct of text": Case(
        lambda w: gs.ShapeDtypeStruct((8, 6), "U3"),
        ArgumentTypeError,
        TypeError,
        ("dtype <U3", "Convert it first"),
        {"argument": "dtype"},
    ),
    "a struct without a type": Case(
        lambda w: gs.ShapeDtypeStruct((8, 6), None),
        ArgumentTypeError,
        TypeError,
        ("dtype is None", "numpy.float64"),
        {"argument": "dtype"},
    ),
    "a struct on a device": Case(
        lambda w: gs.ShapeDtypeStruct((8, 6), "f4", w.devices[0]),
        ArgumentTypeError,
        TypeError,
        ("sharding=CpuDevice(id=0)", "must be a Sharding"),
        {"argument": "sharding"},
    ),
    "a struct in a sharding of more dims": Case(
        lambda w: gs.ShapeDtypeStruct((8,), "f4", w.named("x", "y")),
        ShardingError,
        ValueError,
        ("PartitionSpec('x', 'y') has 2 entries", "ndim=1"),
        {},
    ),
    "a platform without devices": Case(
        lambda w: gs.devices("gpu"),
        errors.NoDeviceError,
        RuntimeError,
        ("backend='gpu'", "there are cpu"),
        {"argument": "backend", "backend": "gpu"},
    ),
    "axis types that are none": Case(
        lambda w: gs.make_mesh((4, 2), ("x", "y"), axis_types=("auto", "auto")),
        ArgumentTypeError,
        TypeError,
        ("axis_types=('auto', 'auto')", "gpushard.sharding.AxisType"),
        {"argument": "axis_types"},
    ),
    "too few axis types": Case(
        lambda w: gs.make_mesh((4, 2), ("x", "y"), axis_types=(gs.sharding.AxisType.Auto,)),
        MeshError,
        ValueError,
        ("1 types for the 2 axes", "one per axis"),
        {"argument": "axis_types"},
    ),
    "an array of sums that are open": Case(
        lambda w: gs.device_put(w.value, gs.NamedSharding(w.mesh, gs.P(unreduced={"x"}))),
        ShardingError,
        ValueError,
        ("unreduced={'x'}", "lax.psum"),
        {"argument": "spec"},
    ),
    "a mapped function that leaves sums open": Case(
        lambda w: gs.shard_map(lambda x: x, w.mesh, gs.P("x"), gs.P(unreduced={"x"}))(w.small),
        ShardingError,
        ValueError,
        ("unreduced={'x'}", "lax.psum"),
        {"argument": "spec"},
    ),
    "an axis of two meanings": Case(
        lambda w: gs.P("x", unreduced={"x"}),
        ArgumentError,
        ValueError,
        ("'x' in entries and in unreduced",),
        {"argument": "unreduced", "axis": "x"},
    ),
    "axes of a spec in a text": Case(
        lambda w: gs.P(reduced="xy"),
        ArgumentTypeError,
        TypeError,
        ("reduced='xy'", "set of names"),
        {"argument": "reduced"},
    ),
    "a field that no spec has": Case(
        lambda w: gs.P("x").update(entries=()),
        ArgumentTypeError,
        TypeError,
        ("'entries'", "partitions"),
        {"argument": "entries"},
    ),
    "an axis in reduced that no mesh has": Case(
        lambda w: gs.NamedSharding(w.mesh, gs.P(reduced={"q"})),
        ShardingError,
        ValueError,
        ("'q' in reduced", "use one of its axes"),
        {"argument": "spec", "axis": "q"},
    ),
    "setting what is no mesh": Case(
        lambda w: gs.set_mesh(gs.P("x")),
        ArgumentTypeError,
        TypeError,
        ("mesh=PartitionSpec('x')", "make_mesh"),
        {"argument": "mesh"},
    ),
    "shardings that are no prefix of local data": Case(
        lambda w: gs.make_array_from_process_local_data([w.named()], {"a": w.value}),
        TreeError,
        ValueError,
        ("sharding", "local_data"),
        {},
    ),
    "a reduction of no leaves": Case(
        lambda w: gs.tree.reduce(max, []),
        NoLeavesError,
        TypeError,
        ("no leaves", "initializer"),
        {},
    ),
    "an associative reduction of no leaves": Case(
        lambda w: gs.tree.reduce_associative(max, []),
        NoLeavesError,
        TypeError,
        ("no leaves", "identity"),
        {},
    ),
    "a structure composed with a tree": Case(
        lambda w: gs.tree.structure(0).compose([0]),
        ArgumentTypeError,
        TypeError,
        ("inner=[0]", "tree.structure"),
        {"argument": "inner"},
    ),
    "a node that is a value": Case(
        lambda w: gs.tree.is_node(3),
        ArgumentTypeError,
        TypeError,
        ("typ=3", "type(x)"),
        {"argument": "typ"},
    ),
    "one level of a leaf": Case(
        lambda w: gs.tree_util.flatten_one_level(3),
        TreeError,
        ValueError,
        ("int", "leaf"),
        {"argument": "tree"},
    ),
    "a choice of JAX's that it has not": Case(
        lambda w: GNP.searchsorted(w.small, 3, method="best"),
        ArgumentError,
        ValueError,
        ("method='best'", "'scan'"),
        {"argument": "method"},
    ),
    "a precision that JAX has not": Case(
        lambda w: GNP.dot(w.x, w.x.T, precision=("high", "low")),
        ArgumentError,
        ValueError,
        ("precision='low'", "'highest'"),
        {"argument": "precision"},
    ),
    "a fill value and no filling": Case(
        lambda w: GNP.take(w.small, [1], fill_value=3),
        ArgumentError,
        ValueError,
        ("fill_value= is for mode=", "'raise'"),
        {"argument": "fill_value"},
    ),
    "elements or positions": Case(
        lambda w: GNP.where(w.small, 1, 0, size=3),
        ArgumentError,
        ValueError,
        ("where: size=", "leave them out"),
        {"argument": "size"},
    ),
    "a keyword that a method has not": Case(
        lambda w: w.x.sum(axes=0),
        TypeError,
        TypeError,
        ("Array.sum() got an unexpected keyword argument 'axes'",),
        {},
    ),
    "a keyword that x.at has not": Case(
        lambda w: w.x.at[0].set(values=0),
        TypeError,
        TypeError,
        ("x.at[index].set() got an unexpected keyword argument 'values'",),
        {},
    ),
    "mapping over arrays on other devices": Case(
        lambda w: mapping(raising, w.x, w.one)(w),
        ShardingError,
        ValueError,
        ("arrays[1] is on [CpuDevice(id=3)]", "arrays[0] on [CpuDevice(id=0)", "reshard"),
        {"argument": "arrays"},
    ),
    "mapping over arrays in host memory": Case(
        lambda w: mapping(
            raising, gs.device_put(w.x, w.x.sharding.with_memory_kind("pinned_host"))
        )(w),
        ShardingError,
        ValueError,
        ("arrays[0] is in memory_kind='pinned_host'", "with_memory_kind"),
        {"argument": "arrays", "kind": "pinned_host"},
    ),
    "mapping to other devices": Case(
        lambda w: mapping(raising, sharding=w.devices[0])(w),
        ShardingError,
        ValueError,
        ("output 0 is on [CpuDevice(id=0)]", "arrays[0]", "same order"),
        {"argument": "sharding"},
    ),
    "mapping to more axes than dims": Case(
        lambda w: mapping(raising, out=gs.ShapeDtypeStruct((8,), "f4"))(w),
        ShardingError,
        ValueError,
        ("2 entries", "ndim=1"),
        {"argument": "spec"},
    ),
    "mapping of nothing to nothing": Case(
        lambda w: gs.map_shards(raising, out=()),
        ArgumentError,
        ValueError,
        ("no inputs and no outputs", "pass arrays or out="),
        {"argument": "out"},
    ),
    "mapping of nothing to nowhere": Case(
        lambda w: gs.map_shards(raising, out=gs.ShapeDtypeStruct((8, 6), "f4")),
        ArgumentError,
        ValueError,
        ("the output of shape (8, 6)", "pass sharding="),
        {"argument": "sharding", "shape": (8, 6)},
    ),
    "mapping with a function that raises": Case(
        mapping(raising),
        ExecutionError,
        RuntimeError,
        ("f failed on CpuDevice(id=0)", "KeyError: 'mine'", "inputs are unchanged"),
        {"operation": "map_shards"},
    ),
    "mapping with a function that returns": Case(
        mapping(lambda a, out: a + 1),
        ArgumentTypeError,
        TypeError,
        ("f returned a ndarray on CpuDevice(id=0)", "in place", "return None"),
        {"argument": "f", "type": np.ndarray},
    ),
    "mapping with a function that writes inputs": Case(
        mapping(lambda a, out: a.fill(0)),
        ExecutionError,
        RuntimeError,
        ("f failed on CpuDevice(id=0)", "read-only"),
        {"operation": "map_shards"},
    ),
    "mapping without room": Case(
        mapping(raising, out=gs.ShapeDtypeStruct((8 * QUOTA, 6), "f4")),
        OutOfMemoryError,
        MemoryError,
        ("CpuDevice(id=0)", f"quota of {QUOTA:,}"),
        {"limit": QUOTA},
    ),
}


def wrong(
    call: Callable[[World], Any],
    *words: str,
    error: type[Exception] = ArgumentError,
    argument: str | None = "x",
    **facts: Any,
) -> Case:
    """Return the case of a wrong operation; the builtin follows from the error."""
    builtin = next(base for base in error.__mro__ if base.__module__ == "builtins")
    known = {} if argument is None else {"argument": argument}
    return Case(call, error, builtin, words, known | facts)


def in_place(operate: Callable[[Any, Any], Any], value: Any, other: Any) -> Callable[[World], Any]:
    """Return a call of `x += y` or the like on a sharded array."""
    return lambda w: operate(gs.device_put(value, w.named()), other)


GNP = gs.numpy
FLAGS = np.zeros((8, 6), bool)
INTEGERS = np.ones((8, 6), np.int64)

OPERATIONS: dict[str, Case] = {
    "shapes that do not broadcast": wrong(
        lambda w: w.x + np.zeros((8, 5)),
        "add",
        "(8, 6), (8, 5)",
        "equal or 1",
        shapes=((8, 6), (8, 5)),
    ),
    "shapes of where": wrong(
        lambda w: GNP.where(w.x > 0, w.x, np.zeros(5)), "where", "(5,)", "do not broadcast"
    ),
    "axis out of range": wrong(
        lambda w: GNP.sum(w.x, axis=2),
        "sum: axis=2",
        "ndim=2",
        "-2 to 1",
        argument="axis",
        error=AxisError,
        axis=2,
        ndim=2,
    ),
    "axis given twice": wrong(
        lambda w: GNP.mean(w.x, axis=(0, -2)), "mean", "(0, -2)", "once", argument="axis", ndim=2
    ),
    "axis that is no integer": wrong(
        lambda w: GNP.max(w.x, axis=0.5),
        "max: axis=0.5",
        "an integer",
        error=ArgumentTypeError,
        argument="axis",
    ),
    "several axes of argmax": wrong(
        lambda w: GNP.argmax(w.x, axis=(0, 1)),
        "argmax: axis=(0, 1)",
        "an integer",
        error=ArgumentTypeError,
        argument="axis",
    ),
    "bits of floats": wrong(
        lambda w: GNP.bitwise_and(w.x, 1),
        "bitwise_and is not defined for float32, int",
        "astype",
        error=ArgumentTypeError,
    ),
    "negative of booleans": wrong(
        lambda w: -gs.device_put(FLAGS, w.named("x")),
        "negative is not defined for bool",
        "astype",
        error=ArgumentTypeError,
    ),
    "difference of booleans": wrong(
        lambda w: gs.device_put(FLAGS, w.named("x")) - FLAGS,
        "subtract is not defined for bool, bool",
        error=ArgumentTypeError,
    ),
    "order of complex numbers": wrong(
        lambda w: GNP.argmin(w.x + 1j),
        "argmin",
        "no order",
        "real part",
        error=ArgumentTypeError,
    ),
    "committed arrays on different devices": wrong(
        lambda w: w.x + w.one,
        "add",
        "CpuDevice(id=3)",
        "8 in all",
        "reshard one",
        error=ShardingError,
    ),
    "committed arrays of which one is on four devices": wrong(
        lambda w: w.one + gs.device_put(w.value, gs.NamedSharding(w.mesh["x"], gs.P("x"))),
        "on CpuDevice(id=3)",
        "on CpuDevice(id=0), CpuDevice(id=2), CpuDevice(id=4), CpuDevice(id=6);",
        error=ShardingError,
    ),
    "concatenated arrays on different devices": wrong(
        lambda w: GNP.concat([w.x, w.one]), "CpuDevice(id=3)", "reshard one", error=ShardingError
    ),
    "least of nothing": wrong(
        lambda w: GNP.min(w.x[:0], axis=0),
        "min",
        "(0, 6)",
        "no elements",
        "check its size",
        shape=(0, 6),
    ),
    "in place with floats on integers": wrong(
        in_place(operator.iadd, INTEGERS, 1.5),
        "x += y gives float64",
        "int64",
        "x = x + y",
        error=ArgumentTypeError,
        argument="y",
    ),
    "number that does not fit": wrong(
        lambda w: gs.device_put(INTEGERS.astype(np.int8), w.named("x")) + 300,
        "add",
        "300 does not fit int8",
        error=ArgumentRangeError,
        number=300,
    ),
    "integers to a negative power": wrong(
        lambda w: gs.device_put(INTEGERS, w.named("x")) ** -1,
        "power: int64 to the power of -1",
        "floats first",
        number=-1,
    ),
    "decimals that are no integer": wrong(
        lambda w: GNP.round(w.x, 0.5), "decimals=0.5", error=ArgumentTypeError, argument="decimals"
    ),
    "unknown casting": wrong(
        lambda w: GNP.concat([w.x], casting="any"), "casting='any'", "safe", argument="casting"
    ),
    "fill that does not fit": wrong(
        lambda w: GNP.full((8, 6), -1, dtype=np.uint8, out_sharding=w.named("x")),
        "full: fill_value=-1",
        "uint8",
        error=ArgumentRangeError,
        argument="fill_value",
    ),
    "matrix product of wrong lengths": wrong(
        lambda w: w.x @ w.x,
        "matmul",
        "(8, 6), (8, 6)",
        "6",
        "8",
        shapes=((8, 6), (8, 6)),
    ),
    "matrix product of a number": wrong(
        lambda w: GNP.matmul(w.x, w.scalar), "matmul", "(8, 6) and ()", "x * y"
    ),
    "tensordot over too many dims": wrong(
        lambda w: GNP.tensordot(w.x, w.x, 3), "axes=3", "0 to 2", argument="axes", axes=3
    ),
    "tensordot over different numbers of dims": wrong(
        lambda w: GNP.tensordot(w.x, w.x, ((0, 1), (0,))), "2 axes", "1 of", argument="axes"
    ),
    "einsum with too few operands": wrong(
        lambda w: GNP.einsum("ij,jk->ik", w.x),
        "'ij,jk->ik'",
        "names 2 operands, there are 1",
        argument="subscripts",
        subscripts="ij,jk->ik",
    ),
    "einsum with too few letters": wrong(
        lambda w: GNP.einsum("i->i", w.x), "1 letters", "(8, 6)", argument="subscripts"
    ),
    "einsum with an unknown result": wrong(
        lambda w: GNP.einsum("ij->ik", w.x), "'k' in the result", argument="subscripts"
    ),
    "einsum with a strange letter": wrong(
        lambda w: GNP.einsum("i!->i", w.x), "has '!'", "use letters", argument="subscripts"
    ),
    "einsum over no diagonal": wrong(
        lambda w: GNP.einsum("ii->i", w.x), "'i'", "8 and 6", "equal", argument="subscripts"
    ),
    "reshape to another size": wrong(
        lambda w: GNP.reshape(w.x, (7, 7)),
        "(8, 6) of 48 elements",
        "(7, 7)",
        "-1",
        argument="shape",
        shape=(8, 6),
    ),
    "reshape with two unknown sizes": wrong(
        lambda w: GNP.reshape(w.x, (-1, -1)), "(-1, -1)", "one of them", argument="shape"
    ),
    "concatenation of other sizes": wrong(
        lambda w: GNP.concat([w.x, w.x[:, :5]], axis=0),
        "(8, 6) and (8, 5)",
        "axis=0",
        "equal along all other axes",
        argument="arrays",
        shapes=((8, 6), (8, 5)),
    ),
    "concatenation of nothing": wrong(
        lambda w: GNP.concat([]), "concat got no arrays", "at least one", argument="arrays"
    ),
    "stack of other shapes": wrong(
        lambda w: GNP.stack([w.x, w.x[:4]]), "(8, 6) and (4, 6)", argument="arrays"
    ),
    "broadcast to a smaller shape": wrong(
        lambda w: GNP.broadcast_to(w.x, (8, 3)), "(8, 6), (8, 3)", argument="shape"
    ),
    "arrays that do not broadcast": wrong(
        lambda w: GNP.broadcast_arrays(w.x, np.ones(4)), "(8, 6), (4,)", argument="shape"
    ),
    "broadcast to more elements than there are": wrong(
        lambda w: GNP.broadcast_to(w.x[:1, :1], (1 << 32, 1 << 32)),
        "shape=(4294967296, 4294967296)",
        "2**58",
        argument="shape",
        shape=(1 << 32, 1 << 32),
    ),
    "size that 64 bits cannot hold": wrong(
        lambda w: GNP.zeros(1 << 63), "shape=(9223372036854775808,)", "smaller", argument="shape"
    ),
    "size that 64 bits cannot hold, beside none": wrong(
        lambda w: GNP.zeros((1 << 63, 0)), "2**58", argument="shape", shape=(1 << 63, 0)
    ),
    "size that 64 bits cannot hold, placed": wrong(
        lambda w: GNP.ones((1 << 63, 2), device=w.named("x")), "2**58", argument="shape"
    ),
    "repeats that 64 bits cannot hold": wrong(
        lambda w: GNP.repeat(w.x, 1 << 62, axis=0), "2**58", argument="shape"
    ),
    "tiles that 64 bits cannot hold": wrong(
        lambda w: np.tile(w.x, 1 << 63), "2**58", argument="shape"
    ),
    "numbers that 64 bits cannot count": wrong(
        lambda w: GNP.arange(2.0**63), "2**58", argument="shape"
    ),
    "pad that 64 bits cannot hold": wrong(
        lambda w: GNP.pad(w.x, 1 << 62), "2**58", argument="shape"
    ),
    "transpose that leaves out a dim": wrong(
        lambda w: GNP.permute_dims(w.x, (0,)), "axes=(0,)", "ndim=2", argument="axes"
    ),
    "squeeze of a long dim": wrong(
        lambda w: GNP.squeeze(w.x, axis=0), "axis 0", "length 8", argument="axis"
    ),
    "negative pad": wrong(
        lambda w: GNP.pad(w.x, (-1, 0)), "pad_width=(-1, 0)", "negative", argument="pad_width"
    ),
    "unknown mode of pad": wrong(
        lambda w: GNP.pad(w.x, 1, "bounce"), "mode='bounce'", "reflect", argument="mode"
    ),
    "a keyword of another mode of pad": wrong(
        lambda w: GNP.pad(w.x, 1, "edge", stat_length=2),
        "mode='edge' takes no stat_length=",
        "'median'",
        argument="stat_length",
        mode="edge",
    ),
    "a keyword that pad has not": wrong(
        lambda w: GNP.pad(w.x, 1, "edge", scale=2), "no scale=", "leave it out", argument="scale"
    ),
    "statistics of no elements around an array": wrong(
        lambda w: GNP.pad(w.x, 1, "maximum", stat_length=0),
        "stat_length=0",
        "mode='maximum'",
        argument="stat_length",
    ),
    "statistics of fewer than no elements": wrong(
        lambda w: GNP.pad(w.x, 1, "mean", stat_length=-1),
        "stat_length=-1",
        "negative",
        argument="stat_length",
    ),
    "an end value that is no number": wrong(
        lambda w: GNP.pad(w.x, 1, "linear_ramp", end_values="a"),
        "end_values='a'",
        error=ArgumentTypeError,
        argument="end_values",
    ),
    "another way to reflect": wrong(
        lambda w: GNP.pad(w.x, 1, "reflect", reflect_type="both"),
        "reflect_type='both'",
        "odd",
        argument="reflect_type",
    ),
    "pad of nothing by its edge": wrong(
        lambda w: GNP.pad(w.x[:0], 1, "edge"), "axis 0", "(0, 6)", '"constant"', argument="mode"
    ),
    "roll by too many shifts": wrong(
        lambda w: GNP.roll(w.x, (1, 2, 3), (0, 1)), "3 numbers for the 2 axes", argument="shift"
    ),
    "negative repeats": wrong(
        lambda w: GNP.repeat(w.x, -1, axis=0), "repeats=-1", "negative", argument="repeats"
    ),
    "too few repeats": wrong(
        lambda w: GNP.repeat(w.x, [1, 2], axis=0),
        "repeats of shape (2,)",
        "8 elements along axis 0",
        argument="repeats",
    ),
    "negative repeat of an element": wrong(
        lambda w: w.x.repeat(np.arange(8) - 1, axis=0), "-1", "negative", argument="repeats"
    ),
    "repeats that are no integers": wrong(
        lambda w: w.x.repeat([0.5] * 8, axis=0),
        "float64",
        "integers",
        error=ArgumentTypeError,
        argument="repeats",
    ),
    "running sum along no axis": wrong(
        lambda w: GNP.cumulative_sum(w.x), "(8, 6)", "2 axes", "axis=", argument="axis"
    ),
    "running sum along two axes": wrong(
        lambda w: w.x.cumsum((0, 1)), "axis=(0, 1)", error=ArgumentTypeError, argument="axis"
    ),
    "reduction of no elements": wrong(
        lambda w: GNP.subtract.reduce(w.x[:0]), "no identity", "initial=", argument="initial"
    ),
    "ufunc of other operands": wrong(
        lambda w: GNP.negative.at(w.x, 0, 1), "takes 1 operand", argument="b", nin=1
    ),
    "slices beyond the end": wrong(
        lambda w: GNP.add.reduceat(w.x, [0, 9]),
        "position 9",
        "0 to 7",
        error=ArrayIndexError,
        argument="indices",
        size=8,
    ),
    "ufunc of no function": wrong(
        lambda w: GNP.frompyfunc(w.x, 1, 1),
        "must be a function",
        error=ArgumentTypeError,
        argument="func",
    ),
    "method of a ufunc of two results": wrong(
        lambda w: GNP.frompyfunc(divmod, 2, 2).reduce(w.x), "2 results", argument="self", nout=2
    ),
    "segments that are no integers": wrong(
        lambda w: gs.lax.segment_sum(w.x, w.x[:, 0]),
        "float32",
        "integers",
        error=ArgumentTypeError,
        argument="segment_ids",
    ),
    "segments of booleans": wrong(
        lambda w: gs.lax.segment_prod(w.x > 1, [0] * 8),
        "dtype bool",
        "astype(int)",
        error=ArgumentTypeError,
        argument="data",
    ),
    "groups of other lengths": wrong(
        lambda w: gs.lax.ragged_dot(w.x, w.x[None, :6], [1, 2]),
        "(8, 6), (1, 6, 6), (2,)",
        argument="rhs",
    ),
    "sizes of groups that are no integers": wrong(
        lambda w: gs.lax.ragged_dot(w.x, w.x[None, :6], [1.5]),
        "float64",
        error=ArgumentTypeError,
        argument="group_sizes",
    ),
    "an offset of groups": wrong(
        lambda w: gs.lax.ragged_dot(w.x, w.x[None, :6], [1], None, None, 1),
        "must be None",
        argument="group_offset",
    ),
    "factors of a vector": wrong(
        lambda w: gs.lax.linalg.lu(w.x[0]), "(6,)", "two axes", argument="x"
    ),
    "factors of integers": wrong(
        lambda w: gs.lax.linalg.qr(w.x.astype(int)),
        "int64",
        error=ArgumentTypeError,
        argument="x",
    ),
    "pivots that are no integers": wrong(
        lambda w: gs.lax.linalg.lu_pivots_to_permutation(w.x, 8),
        "float32",
        error=ArgumentTypeError,
        argument="pivots",
    ),
    "share above one": wrong(
        lambda w: GNP.quantile(w.x, [0.5, 1.5]), "q=[0.5, 1.5]", "from 0 to 1", argument="q"
    ),
    "percentage that is no number": wrong(
        lambda w: GNP.percentile(w.x, 1j), "complex128", error=ArgumentTypeError, argument="q"
    ),
    "unknown method of quantiles": wrong(
        lambda w: GNP.quantile(w.x, 0.5, method="best"), "'best'", "linear", argument="method"
    ),
    "weights of a method without": wrong(
        lambda w: GNP.quantile(w.x, 0.5, weights=w.x), "inverted_cdf", argument="method"
    ),
    "quantile of complex numbers": wrong(
        lambda w: GNP.quantile(w.x + 1j, 0.5),
        "complex",
        "no order",
        error=ArgumentTypeError,
        argument="x",
    ),
    "quantile of nothing": wrong(
        lambda w: GNP.quantile(w.x[:0], 0.5), "(0, 6)", "no elements", argument="x"
    ),
    "median of an axis that is not there": wrong(
        lambda w: GNP.median(w.x, 2), "axis=2", "ndim=2", argument="axis", error=AxisError
    ),
    "weights of another shape": wrong(
        lambda w: GNP.average(w.x, axis=0, weights=[1, 2]),
        "(2,)",
        "(8, 6)",
        argument="weights",
    ),
    "weights without an axis": wrong(
        lambda w: GNP.average(w.x, weights=np.ones(8)),
        "(8,)",
        "axis=",
        error=ArgumentTypeError,
        argument="axis",
    ),
    "no bins": wrong(lambda w: GNP.histogram(w.x, 0), "bins=0", "positive", argument="bins"),
    "bins that descend": wrong(
        lambda w: GNP.histogram(w.x, [1, 0]), "ascend", "sort", argument="bins"
    ),
    "bins by an unknown rule": wrong(
        lambda w: GNP.histogram(w.x, "best"), "'best'", "sturges", argument="bins"
    ),
    "bins that are no number": wrong(
        lambda w: GNP.histogram(w.x, 2.5), "2.5", error=ArgumentTypeError, argument="bins"
    ),
    "range of bins that descends": wrong(
        lambda w: GNP.histogram(w.x, 3, range=(1, 0)), "range=(1, 0)", argument="range"
    ),
    "weights of another shape than the array": wrong(
        lambda w: GNP.histogram(w.x, weights=np.ones(5)),
        "weights of shape (5,)",
        "(8, 6)",
        argument="weights",
    ),
    "histogram of complex numbers": wrong(
        lambda w: GNP.histogram(w.x + 1j), "complex", error=ArgumentTypeError, argument="x"
    ),
    "too many ranges of bins": wrong(
        lambda w: GNP.histogramdd(w.x, 2, range=[None]), "1 entries for 6", argument="range"
    ),
    "counts of floats": wrong(
        lambda w: GNP.bincount(w.x), "astype", error=ArgumentTypeError, argument="x"
    ),
    "counts of a matrix": wrong(
        lambda w: GNP.bincount(w.x.astype("l")), "(8, 6)", "x.ravel()", argument="x"
    ),
    "counts of what is negative": wrong(
        lambda w: GNP.bincount(gs.device_put(np.array([2, -3]))), "-3", argument="x"
    ),
    "negative number of differences": wrong(
        lambda w: GNP.diff(w.x, -1), "n=-1", "negative", argument="n"
    ),
    "coordinates of a gradient": wrong(
        lambda w: GNP.gradient(w.x, np.arange(7.0), axis=0), "(7,)", "8", argument="spacings"
    ),
    "gradient of one element": wrong(
        lambda w: GNP.gradient(w.x[:1], axis=0), "(1, 6)", "needs 2", argument="x"
    ),
    "points that do not match": wrong(
        lambda w: GNP.interp(w.x, [0, 1], [2]), "(2,)", "(1,)", argument="fp"
    ),
    "convolution of a matrix": wrong(
        lambda w: GNP.convolve(w.x, [1]), "(8, 6)", "vectors", argument="a"
    ),
    "unknown mode of a convolution": wrong(
        lambda w: GNP.convolve(w.x[0], [1], "some"), "'some'", "valid", argument="mode"
    ),
    "parts that are not even": wrong(
        lambda w: GNP.split(w.x, 3),
        "length 8",
        "3 parts",
        "array_split",
        argument="indices_or_sections",
    ),
    "no parts": wrong(
        lambda w: GNP.array_split(w.x, 0), "0 parts", "positive", argument="indices_or_sections"
    ),
    "deletion out of bounds": wrong(
        lambda w: GNP.delete(w.x, 8, axis=0),
        "position 8",
        "-8 to 7",
        error=ArrayIndexError,
        argument="obj",
    ),
    "insertion out of bounds": wrong(
        lambda w: GNP.insert(w.x, [0, -9], 1, axis=0),
        "position -9",
        "-8 to 8",
        error=ArrayIndexError,
        argument="obj",
    ),
    "zeros trimmed in the middle": wrong(
        lambda w: GNP.trim_zeros(w.x, "m"), "trim='m'", argument="trim"
    ),
    "diagonal of a vector": wrong(
        lambda w: GNP.diagonal(w.x[0]), "diagonal needs at least two axes", "(6,)"
    ),
    "diagonal of a stack": wrong(
        lambda w: GNP.diag(w.x[None]), "(1, 8, 6)", "diagonal", argument="x"
    ),
    "ratios through zero": wrong(
        lambda w: GNP.geomspace(-1, 2), "start=-1", "one sign", argument="start"
    ),
    "coefficients of a matrix": wrong(
        lambda w: GNP.polyval(w.x, 2), "(8, 6)", "vector", argument="p"
    ),
    "cases without functions": wrong(
        lambda w: GNP.piecewise(w.x, [w.x > 0], []),
        "0 functions",
        "1 conditions",
        argument="funclist",
    ),
    "blocks at different depths": wrong(
        lambda w: GNP.block([[w.x], w.x]), "different depths", argument="arrays"
    ),
    "out": wrong(lambda w: GNP.add(w.x, 1, out=w.x), "add: out= is not", "values", argument="out"),
    "out of NumPy": wrong(
        lambda w: np.add(w.value, w.x, out=w.value.copy()),
        "out= is not",
        "numpy.asarray(x)",
        argument="out",
    ),
    "part of a ufunc": wrong(
        lambda w: np.add(w.x, 1, where=FLAGS),
        "where= is not supported",
        error=ArgumentTypeError,
        argument="where",
    ),
    "function that is not there": wrong(
        lambda w: np.real_if_close(w.x),
        "numpy.real_if_close",
        "numpy.asarray(x)",
        error=ArgumentTypeError,
        argument="func",
    ),
    "order other than row-major": wrong(
        lambda w: GNP.ravel(w.x, order="F"), "order='F'", '"C"', argument="order"
    ),
    "order of zeros_like": wrong(
        lambda w: GNP.zeros_like(w.x, order="F"), "order='F'", '"C"', argument="order"
    ),
    "order of ones_like": wrong(
        lambda w: GNP.ones_like(w.x, order="F"), "order='F'", '"C"', argument="order"
    ),
    "order of empty_like": wrong(
        lambda w: GNP.empty_like(w.x, order="F"), "order='F'", '"C"', argument="order"
    ),
    "order of full_like": wrong(
        lambda w: GNP.full_like(w.x, 1, order="F"), "order='F'", '"C"', argument="order"
    ),
    "operand of objects": wrong(
        lambda w: w.x + np.array([object()] * 6), "dtype object", error=ArgumentTypeError
    ),
    "a third number that does not fit": wrong(
        lambda w: GNP.arange(110, 131, 10, dtype="int8"),
        "stop=130 does not fit int8",
        error=ArgumentRangeError,
        argument="stop",
    ),
    "range without end": wrong(
        lambda w: GNP.arange(0, 1, 0), "steps of 0", "other than 0", argument="step", step=0
    ),
    "negative shape": wrong(
        lambda w: GNP.zeros((8, -1)), "shape=(8, -1)", "start at 0", argument="shape"
    ),
    "two places": wrong(
        lambda w: GNP.zeros(8, device=w.devices[0], out_sharding=w.named("x")),
        "device= and out_sharding=",
        "give one",
        argument="out_sharding",
    ),
    "operand that is text": wrong(
        lambda w: GNP.add(w.x, "1"), "holds a str", error=ArgumentTypeError
    ),
    "booleans rounded to decimals": wrong(
        lambda w: GNP.round(w.x > 0, 2),
        "not defined for bool",
        error=ArgumentTypeError,
        argument="x",
    ),
    "areas with a number of places": wrong(
        lambda w: GNP.trapezoid(w.x, 2), "x is a number", error=ArgumentError, argument="x"
    ),
    "rounding to no integer": wrong(
        lambda w: GNP.tril(w.x, 0.5), "tril: k=0.5", error=ArgumentTypeError, argument="k"
    ),
    "triangle of a vector": wrong(
        lambda w: GNP.triu(w.x[0]), "triu needs at least two axes", "(6,)", shape=(6,)
    ),
    "result split over more dims than there are": wrong(
        lambda w: GNP.sum(w.x, axis=0, out_sharding=gs.P("x", "y")),
        "2 entries",
        "ndim=1",
        error=ShardingError,
        argument="spec",
    ),
    "sort along no dim": wrong(
        lambda w: GNP.sort(w.scalar),
        "sort: axis=-1",
        "ndim=0",
        argument="axis",
        ndim=0,
        error=AxisError,
    ),
    "sort in an unknown way": wrong(
        lambda w: GNP.sort(w.x, kind="bubble"), "sort: kind='bubble'", "'stable'", argument="kind"
    ),
    "sort by a field": wrong(
        lambda w: w.x.argsort(order="a"), "argsort: order='a'", "leave it out", argument="order"
    ),
    "sort in place along no such dim": wrong(
        lambda w: w.x.sort(2), "sort: axis=2", "-2 to 1", argument="axis", axis=2, error=AxisError
    ),
    "partition beyond the end": wrong(
        lambda w: GNP.partition(w.x, 6), "kth=6", "6 elements", "-6 to 5", argument="kth", size=6
    ),
    "partition at no integer": wrong(
        lambda w: w.x.partition(1.5), "kth=1.5", error=ArgumentTypeError, argument="kth"
    ),
    "keys of different shapes": wrong(
        lambda w: GNP.lexsort((w.x, w.x[:, :5])),
        "lexsort: keys have shapes",
        "(8, 6)",
        "(8, 5)",
        "one shape",
        argument="keys",
    ),
    "no keys": wrong(
        lambda w: GNP.lexsort(()), "no keys", error=ArgumentTypeError, argument="keys"
    ),
    "more of the greatest than there are": wrong(
        lambda w: GNP.topk(w.x, 9, axis=0), "k=9 of 8", "at most 8", argument="k", k=9, size=8
    ),
    "search in a matrix": wrong(
        lambda w: GNP.searchsorted(w.x, 1.0), "x1 of shape (8, 6)", argument="x1", shape=(8, 6)
    ),
    "search on no side": wrong(
        lambda w: w.x[0].searchsorted(1.0, "up"), "side='up'", '"left"', argument="side"
    ),
    "sorter of another length": wrong(
        lambda w: GNP.searchsorted(w.x[0], 1.0, sorter=[0, 1]),
        "sorter has shape (2,)",
        "(6,)",
        "argsort(x1)",
        argument="sorter",
    ),
    "sorter that is no position": wrong(
        lambda w: GNP.searchsorted(w.x[0], 1.0, sorter=w.x[0]),
        "sorter has dtype float32",
        error=ArgumentTypeError,
        argument="sorter",
    ),
    "bins in no order": wrong(
        lambda w: GNP.digitize(w.x, [1, 3, 2]), "neither ascend nor descend", argument="bins"
    ),
    "bins of complex numbers": wrong(
        lambda w: GNP.digitize(w.x + 1j, [1.0]), "real part", error=ArgumentTypeError
    ),
    "negative size of a set": wrong(
        lambda w: GNP.unique(w.x, size=-1), "unique: size=-1", "negative", argument="size"
    ),
    "size without an element to fill it": wrong(
        lambda w: GNP.unique_values(w.x[:0], size=2),
        "size=2",
        "fill_value=",
        argument="fill_value",
        size=2,
    ),
    "fill of a set that does not fit": wrong(
        lambda w: GNP.union1d(w.small, w.small, size=99, fill_value=300),
        "union1d: fill_value=300",
        "int8",
        error=ArgumentRangeError,
        argument="fill_value",
    ),
    "a function over axes that gives more dims": wrong(
        lambda w: GNP.apply_over_axes(lambda x, axis: x[None], w.x, [0]),
        "ndim=3 for ndim=2",
        argument="func",
    ),
    "a function whose results are not of its signature": wrong(
        lambda w: GNP.vectorize(lambda x: GNP.ones(3), signature="(n)->(n)")(w.x),
        "vectorize: the function gives results of shapes [(3,)]",
        "change one of them",
        argument="pyfunc",
        shapes=((3,),),
    ),
    "a function of an element that gives an array": wrong(
        lambda w: GNP.vectorize(lambda x: GNP.ones(3))(w.x),
        "must give a number for each element",
        "signature=",
        argument="pyfunc",
    ),
    "more results than a signature has": wrong(
        lambda w: GNP.vectorize(lambda x: (x, x), signature="(n)->(n)")(w.x),
        "gives results of shapes",
        argument="pyfunc",
    ),
    "types of other results": wrong(
        lambda w: GNP.vectorize(lambda x: x, otypes="dd")(w.x),
        "otypes= has 2 types, and the function gives 1",
        argument="otypes",
    ),
    "elements of arrays that do not broadcast": wrong(
        lambda w: GNP.vectorize(lambda x, y: x)(w.x, [1, 2, 3]), "vectorize", "do not broadcast"
    ),
    "lists of different lengths": wrong(
        lambda w: GNP.sum([[1, 2], [3]]), "sum got nested lists", "equally long"
    ),
    "lists of different lengths where a mask is": wrong(
        lambda w: operator.setitem(w.x, w.x[:, 0] > 5, [[1, 2], [3]]),
        "value is no array",
        argument="value",
    ),
    "a list with too great a number where a mask is": wrong(
        lambda w: operator.setitem(w.small, w.small > 5, [300]),
        "300",
        "int8",
        error=ArgumentRangeError,
        argument="value",
    ),
    "a rule for bins with weights": wrong(
        lambda w: GNP.histogram(w.x, "auto", weights=w.x),
        "bins='auto'",
        "a number of bins",
        error=ArgumentTypeError,
        argument="bins",
    ),
    "a rule for bins of a part": wrong(
        lambda w: GNP.histogram(w.x, "auto", range=(0.0, 9.0)),
        "(0.0, 9.0)",
        "from 0.0 to 47.0",
        argument="range",
    ),
    "a rule for bins of the upper part": wrong(
        lambda w: GNP.histogram(w.x, "auto", range=(1.0, 99.0)),
        "(1.0, 99.0)",
        "from 0.0 to 47.0",
        argument="range",
    ),
    "complex weights of counts": wrong(
        lambda w: GNP.bincount(w.small, np.ones(8, complex)),
        "weights of complex128",
        "real",
        error=ArgumentTypeError,
        argument="weights",
    ),
    "another dtype without a copy": wrong(
        lambda w: GNP.asarray(w.x, "i4", copy=False), "copy=False", argument="copy"
    ),
    "a range of indices without an end": wrong(
        lambda w: GNP.mgrid[1:], "slice(1, None, None)", "where it stops", argument="index"
    ),
    "a join that loses digits": wrong(
        lambda w: GNP.concatenate([w.x, w.x], dtype="i4"),
        "float32",
        "dtype=int32",
        "'same_kind'",
        error=ArgumentTypeError,
        argument="dtype",
    ),
    "a conversion that loses digits": wrong(
        lambda w: w.x.astype("i4", casting="safe"),
        "float32",
        "int32",
        "casting='safe'",
        error=ArgumentTypeError,
        argument="dtype",
    ),
    "a name of a conversion": wrong(
        lambda w: w.x.astype("i4", casting="soft"),
        "casting='soft'",
        "same_kind",
        argument="casting",
    ),
    "a name of a conversion of operands": wrong(
        lambda w: np.add(w.x, 1, dtype="f4", casting="soft"),
        "casting='soft'",
        "same_kind",
        argument="casting",
    ),
    "complex ratios": wrong(
        lambda w: GNP.geomspace(1, 2j),
        "stop=2j",
        "real",
        error=ArgumentTypeError,
        argument="start",
    ),
    "a range to a text": wrong(
        lambda w: GNP.arange(np.str_("4")),
        "arange",
        "must be a number",
        error=ArgumentTypeError,
        argument="stop",
    ),
    "a range to several numbers": wrong(
        lambda w: GNP.arange(0, [4]),
        "stop=[4]",
        "must be a number",
        error=ArgumentTypeError,
        argument="stop",
    ),
    "a text beside points": wrong(
        lambda w: GNP.interp(w.x, [1.0, 2.0], [1.0, 2.0], left="a"),
        "left='a'",
        "extrapolate",
        argument="left",
    ),
    "a list beside points": wrong(
        lambda w: GNP.interp(w.x, [1.0, 2.0], [1.0, 2.0], left=[1.0]),
        "left=[1.0]",
        error=ArgumentTypeError,
        argument="left",
    ),
    "a period of 0": wrong(
        lambda w: GNP.interp(w.x, [1.0, 2.0], [1.0, 2.0], period=0), "period=0", argument="period"
    ),
    "NumPy data to change": wrong(
        lambda w: GNP.fill_diagonal(w.value, 1.0),
        "changes a gpushard array",
        "inplace=False",
        error=ArgumentTypeError,
        argument="a",
    ),
    "a traced diagonal that is no integer": wrong(
        lambda w: gs.jit(lambda k: GNP.eye(3, k=k))(0.5),
        "k has dtype float64",
        "integer",
        error=ArgumentTypeError,
        argument="k",
    ),
    "vectors of a plane for linalg": wrong(
        lambda w: LINALG.cross(w.x[:, :2], w.x[:, :2]),
        "must have 3",
        "gpushard.numpy.cross",
        argument="x1",
    ),
    "a complex number beside real points": wrong(
        lambda w: GNP.interp(w.x, [1.0, 2.0], [1.0, 2.0], right=2j),
        "right=2j",
        error=ArgumentTypeError,
        argument="right",
    ),
    "an axis that is a boolean": wrong(
        lambda w: GNP.sum(w.x, axis=True),
        "axis=True",
        error=ArgumentTypeError,
        argument="axis",
    ),
    "narrow types without a common one": wrong(
        lambda w: GNP.einsum(
            "ij,jk", w.x.astype(ml_dtypes.bfloat16), GNP.ones((6, 2), ml_dtypes.float8_e4m3fn)
        ),
        "bfloat16, float8_e4m3fn",
        "astype",
        error=ArgumentTypeError,
    ),
    "dims of three operands": wrong(
        lambda w: GNP.tensordot(w.x, w.x, (0, 0, 1)), "(0, 0, 1)", "a pair", argument="axes"
    ),
    "dims to sum over, more of one": wrong(
        lambda w: GNP.tensordot(w.x, w.x, ((0, 1), 0)), "2 axes", "as many", argument="axes"
    ),
    "a buffer of half an element": wrong(
        lambda w: GNP.frombuffer(b"abc", "i4"), "frombuffer", "multiple", argument="buffer"
    ),
    "a buffer that is none": wrong(
        lambda w: GNP.frombuffer(3, "i4"),
        "frombuffer",
        "bytes-like",
        error=ArgumentTypeError,
        argument="buffer",
    ),
    "a keyword that NumPy's functions lack": Case(
        lambda w: np.sum(w.x, foo=3), TypeError, TypeError, ("foo",)
    ),
    "a subclass of arrays": wrong(
        lambda w: GNP.add(object.__new__(type("Mine", (gs.Array,), {})), 1),
        "subclasses of Array",
        error=ArgumentTypeError,
    ),
    "a sharding by another name": wrong(
        lambda w: w.x.sum(0, out_sharding=gs.P("y")),
        "out_sharding=PartitionSpec('y')",
        "must be a Sharding",
        error=ArgumentTypeError,
        argument="out_sharding",
    ),
    "an order of bytes": wrong(lambda w: w.x.tobytes("X"), "order='X'", '"F"', argument="order"),
    "operation without room": wrong(
        lambda w: GNP.zeros((8 * QUOTA, 6), out_sharding=w.named("x")),
        "quota",
        error=OutOfMemoryError,
        argument=None,
    ),
    "gather that a guard forbids": wrong(
        lambda w: inside(gs.gather_guard("disallow"), lambda: GNP.einsum("ii->i", w.x[:6, :])),
        "einsum gathers its operand of shape (6, 6)",
        "gather_guard('disallow')",
        error=TransferGuardError,
        argument=None,
        level="disallow",
    ),
    "data of the host under a guard": wrong(
        lambda w: inside(gs.transfer_guard("disallow"), lambda: w.x + w.value),
        "an operand of add on the host",
        error=TransferGuardError,
        argument=None,
        level="disallow",
    ),
}


KEY = np.array([0, 42], np.uint32)

RANDOM: dict[str, Case] = {
    "negative size": wrong(lambda w: random.normal(KEY, (2, -1)), "(2, -1)", argument="shape"),
    "size that is no integer": wrong(
        lambda w: random.bits(KEY, (2.5,)),
        "shape=(2.5,)",
        error=ArgumentTypeError,
        argument="shape",
    ),
    "integers as normal numbers": wrong(
        lambda w: random.normal(KEY, (2,), int),
        "normal: dtype=int64",
        "float32",
        error=ArgumentTypeError,
        argument="dtype",
    ),
    "signed bits": wrong(
        lambda w: random.bits(KEY, (2,), "int32"),
        "unsigned",
        "uint64",
        error=ArgumentTypeError,
        argument="dtype",
    ),
    "a bound that is no integer": wrong(
        lambda w: random.randint(KEY, (2,), 0.5, 3),
        "minval has dtype float64",
        error=ArgumentTypeError,
        argument="minval",
    ),
    "a bound of uniform that is infinite": wrong(
        lambda w: random.uniform(KEY, (2,), None, 0, np.inf), "maxval=inf", argument="maxval"
    ),
    "a probability above 1": wrong(
        lambda w: random.bernoulli(KEY, [0.5, 1.5]), "p=1.5", "between 0 and 1", argument="p"
    ),
    "a probability below 0": wrong(
        lambda w: random.binomial(KEY, 5, -0.5), "binomial: p=-0.5", argument="p", value=-0.5
    ),
    "a negative rate": wrong(
        lambda w: random.poisson(KEY, -2.0), "lam=-2.0", "at least 0", argument="lam"
    ),
    "a shape parameter of 0": wrong(
        lambda w: random.gamma(KEY, 0.0), "a=0.0", "positive", argument="a"
    ),
    "parameters that do not fit the shape": wrong(
        lambda w: random.gamma(KEY, np.ones(3), (2, 4)),
        "gamma",
        "(3,)",
        "shape=(2, 4)",
        argument="shape",
        shape=(2, 4),
    ),
    "parameters that do not fit one another": wrong(
        lambda w: random.beta(KEY, np.ones(3), np.ones(4)), "(3,), (4,)", argument="shape"
    ),
    "complex parameters": wrong(
        lambda w: random.t(KEY, 2j),
        "df has dtype complex128",
        error=ArgumentTypeError,
        argument="df",
    ),
    "probabilities that do not sum to 1": wrong(
        lambda w: random.choice(KEY, 2, (3,), p=[0.5, 0.6]), "1.1", "p / p.sum()", argument="p"
    ),
    "probabilities of another length": wrong(
        lambda w: random.choice(KEY, 3, (3,), p=[0.5, 0.5]), "(2,)", "3 elements", argument="p"
    ),
    "too many without replacement": wrong(
        lambda w: random.choice(KEY, w.x, (9,), replace=False),
        "8 elements",
        "9 are to be chosen",
        argument="shape",
        chosen=9,
    ),
    "a choice of nothing": wrong(lambda w: random.choice(KEY, 0, (1,)), "0 elements", argument="a"),
    "a key of three words": wrong(
        lambda w: random.normal(np.zeros(3, np.uint32)), "shape (3,)", "length 2", argument="key"
    ),
    "a key of floats": wrong(
        lambda w: random.normal(w.one), "float32", "uint32", error=ArgumentTypeError, argument="key"
    ),
    "a seed as a key": wrong(
        lambda w: random.normal(42),
        "int",
        "random.key(seed)",
        error=ArgumentTypeError,
        argument="key",
    ),
    "several keys": wrong(
        lambda w: random.normal(random.split(KEY)), "(2,)", "keys[0]", argument="key", shape=(2,)
    ),
    "a seed that is no integer": wrong(
        lambda w: random.key(1.5), "seed=1.5", error=ArgumentTypeError, argument="seed"
    ),
    "a seed of 65 bits": wrong(lambda w: random.key(1 << 64), "64 bits", argument="seed"),
    "another generator": wrong(lambda w: random.key(1, impl="rbg"), "threefry", argument="impl"),
    "a negative number of keys": wrong(lambda w: random.split(KEY, -1), "(-1,)", argument="num"),
    "several numbers in a key": wrong(
        lambda w: random.fold_in(KEY, [1, 2]), "(2,)", "one after another", argument="data"
    ),
    "33 bits in a key": wrong(lambda w: random.fold_in(KEY, 1 << 32), "32 bits", argument="data"),
    "an axis that is not there": wrong(
        lambda w: random.permutation(KEY, w.x, 2),
        "axis=2",
        "ndim=2",
        argument="axis",
        error=AxisError,
    ),
    "a permutation of -1": wrong(lambda w: random.permutation(KEY, -1), "x=-1", argument="x"),
    "a permutation of 2.5": wrong(
        lambda w: random.permutation(KEY, 2.5),
        "x=2.5 must be an integer",
        error=ArgumentTypeError,
        argument="x",
    ),
    "a choice of 2.5": wrong(
        lambda w: random.choice(KEY, 2.5), "a=2.5", error=ArgumentTypeError, argument="a"
    ),
    "a permutation of a number on devices": wrong(
        lambda w: random.permutation(KEY, w.scalar), "int(x)", error=ArgumentTypeError
    ),
    "categories of another shape": wrong(
        lambda w: random.categorical(KEY, w.x, shape=(3,)), "(3,)", "(8,)", argument="shape"
    ),
    "categories that broadcast without replacement": wrong(
        lambda w: random.categorical(KEY, w.x[:, None], shape=(8, 3), replace=False),
        "(8, 3)",
        "(8, 1)",
        "must end in (8, 1)",
        argument="shape",
    ),
    "a covariance of another size": wrong(
        lambda w: random.multivariate_normal(KEY, [1, 2], np.eye(3)),
        "(3, 3)",
        "(2, 2)",
        argument="cov",
    ),
    "a mean without dims": wrong(
        lambda w: random.multivariate_normal(KEY, 1, np.eye(1)), "mean", argument="mean"
    ),
    "a factor of another kind": wrong(
        lambda w: random.multivariate_normal(KEY, [1, 2], np.eye(2), method="lu"),
        "method='lu'",
        "eigh",
        argument="method",
    ),
    "a mode of Gumbel numbers": wrong(
        lambda w: random.gumbel(KEY, (2,), mode="most"), "mode='most'", argument="mode"
    ),
    "a mode of booleans": wrong(
        lambda w: random.bernoulli(KEY, 0.5, (2,), "most"), "mode='most'", argument="mode"
    ),
    "a mode of categories": wrong(
        lambda w: random.categorical(KEY, w.x, mode="most"), "mode='most'", argument="mode"
    ),
    "narrow integers as normal numbers": wrong(
        lambda w: random.normal(KEY, (2,), ml_dtypes.int4),
        "dtype=int4",
        error=ArgumentTypeError,
        argument="dtype",
    ),
    "no end of trials as an integer": wrong(
        lambda w: random.binomial(KEY, np.inf, 0.5, dtype=int), "n=inf", "finite", argument="n"
    ),
    "a chance that is no number, of an integer": wrong(
        lambda w: random.geometric(KEY, np.nan), "p=nan", argument="p"
    ),
    "a ball without a norm": wrong(lambda w: random.ball(KEY, 3, 0), "p=0", argument="p"),
    "a ball of half a dim": wrong(
        lambda w: random.ball(KEY, 2.5), "d=2.5", error=ArgumentTypeError, argument="d"
    ),
    "a matrix of -1 rows": wrong(lambda w: random.orthogonal(KEY, -1), "n=-1", argument="n"),
    "a matrix of half a column": wrong(
        lambda w: random.orthogonal(KEY, 2, m=1.5), "m=1.5", error=ArgumentTypeError, argument="m"
    ),
    "a mean of 0": wrong(lambda w: random.wald(KEY, 0.0), "mean=0.0", "positive", argument="mean"),
    "no degrees of freedom": wrong(
        lambda w: random.f(KEY, 2, -1), "dfden=-1", "positive", argument="dfden"
    ),
    "outcomes without dims": wrong(
        lambda w: random.multinomial(KEY, 3, 0.5), "()", "1 axis", argument="p"
    ),
    "outcomes that do not fit": wrong(
        lambda w: random.multinomial(KEY, 3, np.ones(3) / 3, shape=(3, 4)),
        "(3, 4)",
        argument="shape",
    ),
    "outcomes of fewer than 0 trials": wrong(
        lambda w: random.multinomial(KEY, -1, [1.0]), "n=-1", "at least 0", argument="n"
    ),
    "another type of keys": wrong(
        lambda w: random.key(1, dtype="key<rbg>"), "threefry", argument="impl"
    ),
    "a spec of the words of keys": Case(
        lambda w: gs.device_put(random.split(random.key(0), 8), w.named(None, "x")),
        ShardingError,
        ValueError,
        ("ndim=1",),
    ),
    "keys as numbers": wrong(
        lambda w: np.asarray(random.key(0)), "key_data", error=ArgumentTypeError, argument="self"
    ),
    "a sum of keys": wrong(
        lambda w: random.split(random.key(0)).sum(),
        "key_data",
        error=ArgumentTypeError,
        argument="self",
    ),
    "keys and numbers": wrong(
        lambda w: gs.numpy.add(random.split(random.key(0)), 1),
        "add",
        "key_data",
        error=ArgumentTypeError,
        argument="self",
    ),
    "a number in place of a key": wrong(
        lambda w: random.split(random.key(0)).at[0].set(1),
        "int",
        "keys",
        error=ArgumentTypeError,
        argument="value",
    ),
    "a spec without a mesh": wrong(
        lambda w: random.normal(KEY, (8,), out_sharding=gs.P("x")),
        "needs a mesh",
        error=NoMeshError,
        argument="out_sharding",
    ),
    "a sharding of more dims": Case(
        lambda w: random.normal(KEY, (8,), out_sharding=w.named(None, "x")),
        ShardingError,
        ValueError,
        ("2 entries", "ndim=1"),
    ),
    "too many numbers": Case(
        lambda w: random.normal(KEY, (1 << 20,), out_sharding=w.named("x")),
        OutOfMemoryError,
        MemoryError,
        (f"quota of {QUOTA:,}",),
    ),
}


LINALG, FFT = GNP.linalg, GNP.fft

MATRICES: dict[str, Case] = {
    "half precision": wrong(
        lambda w: LINALG.svd(w.x.astype("e")),
        "svd is not defined for float16",
        "float32",
        error=ArgumentTypeError,
        dtype=np.float16,
    ),
    "a matrix that is not square": wrong(
        lambda w: LINALG.inv(w.x),
        "inv",
        "(8, 6) are not square",
        "must have equal lengths",
        shape=(8, 6),
    ),
    "an inverse of a vector": wrong(
        lambda w: LINALG.det(w.small), "det", "(8,)", "at least 2 axes", shape=(8,)
    ),
    "right sides of another length": wrong(
        lambda w: LINALG.solve(w.x[:6], w.x),
        "solve",
        "(6, 6), (8, 6)",
        "lengths 6 and 8 must be equal",
        shapes=((6, 6), (8, 6)),
    ),
    "mode of qr": wrong(
        lambda w: LINALG.qr(w.x, "thin"),
        "mode='thin'",
        "reduced, complete, r, raw",
        argument="mode",
        value="thin",
    ),
    "norm of matrices": wrong(
        lambda w: LINALG.norm(w.x, 3),
        "ord=3 is no norm of matrices",
        "'fro'",
        argument="ord",
        value=3,
    ),
    "shares given twice": wrong(
        lambda w: LINALG.pinv(w.x, 0.1, rtol=0.1), "rcond= and rtol=", "give one", argument="rtol"
    ),
    "least squares of other rows": wrong(
        lambda w: LINALG.lstsq(w.x, w.x[:5]), "(8, 6) and (5, 6)", "as many rows", argument="a"
    ),
    "vectors of a plane": wrong(
        lambda w: GNP.cross(w.x, w.x), "vectors of 6 and 6 elements", "2 or 3", argument="x1"
    ),
    "weights of observations": wrong(
        lambda w: GNP.cov(w.x, aweights=np.ones(5)), "(5,)", "6 numbers", argument="aweights"
    ),
    "frequencies that are no integers": wrong(
        lambda w: GNP.cov(w.x, fweights=np.ones(6)),
        "fweights of float64",
        "astype",
        error=ArgumentTypeError,
        argument="fweights",
    ),
    "half a transform of complex numbers": wrong(
        lambda w: FFT.rfft(w.x.astype("F")),
        "rfft is not defined for complex64",
        "real part",
        error=ArgumentTypeError,
        dtype=np.complex64,
    ),
    "no elements to transform": wrong(
        lambda w: FFT.fft(w.x, 0), "0 elements", "at least one", argument="n", value=0
    ),
    "norm of a transform": wrong(
        lambda w: FFT.fftn(w.x, norm="half"), "norm='half'", "'ortho'", argument="norm"
    ),
    "lengths of a transform": wrong(
        lambda w: FFT.fft2(w.x, (8,)),
        "1 lengths, and axes=(-2, -1) names 2",
        "one length",
        argument="s",
    ),
    "a picture without a sharding": wrong(
        lambda w: gs.debug.visualize_sharding((8, 6), gs.P("x")),
        "sharding=PartitionSpec('x')",
        "NamedSharding",
        error=ArgumentTypeError,
        argument="sharding",
    ),
    "a picture of a negative size": wrong(
        lambda w: gs.debug.visualize_sharding((-8, 6), w.x.sharding),
        "(-8, 6)",
        "0 and more",
        argument="shape",
    ),
    "a picture of a size that is no integer": wrong(
        lambda w: gs.debug.visualize_sharding((8.5, 6), w.x.sharding),
        "(8.5, 6)",
        "integers",
        error=ArgumentTypeError,
        argument="shape",
    ),
    "a picture of no size": wrong(
        lambda w: gs.debug.visualize_array_sharding(w.x, scale=0),
        "scale=0",
        "greater than 0",
        argument="scale",
        value=0,
    ),
    "a picture of what is no array": wrong(
        lambda w: gs.debug.visualize_array_sharding(w.value),
        "must be a gpushard.Array",
        "device_put",
        error=ArgumentTypeError,
        argument="arr",
    ),
    "shardings of what is no array": wrong(
        lambda w: gs.debug.inspect_array_sharding([w.x, 1], callback=fail(ZeroDivisionError())),
        "value has 1",
        "device_put",
        error=ArgumentTypeError,
        argument="value",
    ),
    "shardings handed to nothing": wrong(
        lambda w: gs.debug.inspect_array_sharding(w.x, callback=None),
        "callback=None",
        "a function",
        error=ArgumentTypeError,
        argument="callback",
    ),
    "a dim that has no halves": wrong(
        lambda w: gs.nn.glu(w.x[:, :5]), "5 elements", "even number", argument="axis", size=5
    ),
    "no algorithm of a variance": wrong(
        lambda w: gs.nn.standardize(w.x, algorithm="slow"),
        "algorithm='slow'",
        "'stable'",
        argument="algorithm",
    ),
    "a negative number of classes": wrong(
        lambda w: gs.nn.one_hot(INTEGERS, -1), "num_classes=-1", argument="num_classes", value=-1
    ),
    "classes without a number": wrong(
        lambda w: gs.nn.one_hot(INTEGERS, 2.5),
        "num_classes=2.5",
        "integer",
        error=ArgumentTypeError,
        argument="num_classes",
    ),
    "queries without heads": wrong(
        lambda w: gs.nn.dot_product_attention(w.x, w.x, w.x),
        "query of shape (8, 6)",
        "heads, features",
        argument="query",
    ),
    "keys of other features": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None, :, :5], w.x[None]),
        "key of shape (1, 1, 8, 5)",
        "6 features",
        argument="key",
    ),
    "values without keys": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None], w.x[None, :, :5]),
        "value of shape (1, 1, 8, 5)",
        "(1, 1, 8, 6)",
        argument="value",
    ),
    "keys of more heads": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None, :3], w.x[None], w.x[None]),
        "divides the 3 of query",
        argument="key",
    ),
    "keys without heads": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None, :0], w.x[None, :0]),
        "key of shape (1, 1, 0, 6)",
        "divides the 8 of query",
        argument="key",
    ),
    "keys of another type": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None].astype("d"), w.x[None]),
        "key of float64",
        "float32",
        error=ArgumentTypeError,
        argument="key",
    ),
    "a mask of numbers": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None], w.x[None], mask=INTEGERS),
        "mask of int64",
        "booleans",
        error=ArgumentTypeError,
        argument="mask",
    ),
    "a bias of another shape": wrong(
        lambda w: gs.nn.dot_product_attention(w.x[None], w.x[None], w.x[None], w.x),
        "bias of shape (1, 1, 8, 6)",
        "(1, 8, 1, 1)",
        argument="bias",
    ),
    "a bias of more dims": wrong(
        lambda w: gs.nn.dot_product_attention(
            w.x[None], w.x[None], w.x[None], np.ones((1, 1, 1, 1, 1))
        ),
        "bias of shape (1, 1, 1, 1, 1)",
        "(1, 8, 1, 1)",
        argument="bias",
    ),
    "another way to attend": wrong(
        lambda w: gs.nn.dot_product_attention(
            w.x[None], w.x[None], w.x[None], implementation="cudnn"
        ),
        "implementation='cudnn'",
        "xla",
        argument="implementation",
    ),
    "lengths of other batches": wrong(
        lambda w: gs.nn.dot_product_attention(
            w.x[None], w.x[None], w.x[None], query_seq_lengths=[1, 2]
        ),
        "query_seq_lengths of shape (2,)",
        "(1,)",
        argument="query_seq_lengths",
    ),
    "data without a spec": wrong(
        lambda w: gs.multihost.host_local_array_to_global_array(w.x, w.mesh, None),
        "pspecs has None",
        "P()",
        error=ArgumentTypeError,
        argument="pspecs",
        value=None,
    ),
    "data of a mesh that is none": wrong(
        lambda w: gs.multihost.host_local_array_to_global_array(w.x, None, gs.P()),
        "global_mesh=None",
        "a Mesh",
        error=ArgumentTypeError,
        argument="global_mesh",
    ),
    "a global array that is none": wrong(
        lambda w: gs.multihost.global_array_to_host_local_array(w.value, w.mesh, gs.P()),
        "global_inputs has a ndarray",
        error=ArgumentTypeError,
        argument="global_inputs",
    ),
    "nobody to broadcast from": wrong(
        lambda w: gs.multihost.broadcast_one_to_all(w.x, is_source=False),
        "0 of 1 processes",
        "must be on one",
        argument="is_source",
        sources=[],
    ),
    "a type of a special function": wrong(
        lambda w: special.erfinv(w.x.astype("F")),
        "erfinv is not defined for complex64",
        "astype",
        error=ArgumentTypeError,
    ),
    "a matrix of coefficients": wrong(
        lambda w: GNP.polyadd(w.x, [1]),
        "a1 of shape (8, 6)",
        "must be a vector",
        argument="a1",
    ),
    "no coefficients": wrong(
        lambda w: GNP.polydiv([1.0], []), "v has no coefficients", "give one", argument="v"
    ),
    "a derivative of a negative order": wrong(
        lambda w: GNP.polyder([1, 2], -1), "m=-1", "not be negative", argument="m", value=-1
    ),
    "too few constants": wrong(
        lambda w: GNP.polyint([1, 2], 3, [1, 2]),
        "2 constants for m=3",
        "give one, or 3",
        argument="k",
    ),
    "points that do not fit": wrong(
        lambda w: GNP.polyfit(w.x[:, 0], w.x[0], 1), "(8,)", "(6,)", argument="y"
    ),
    "a negative power of a fit": wrong(
        lambda w: GNP.polyfit(w.x[:, 0], w.x[:, 0], -1), "deg=-1", argument="deg", value=-1
    ),
    "weights of a fit": wrong(
        lambda w: GNP.polyfit(w.x[:, 0], w.x[:, 0], 1, w=[1.0, 2.0]),
        "(2,)",
        "8 points",
        argument="w",
    ),
    "too few points for a covariance": wrong(
        lambda w: GNP.polyfit(w.x[:2, 0], w.x[:2, 0], 1, cov=True),
        "2 points",
        '"unscaled"',
        argument="cov",
    ),
    "roots in three dims": wrong(
        lambda w: GNP.poly(GNP.ones((2, 2, 2))),
        "(2, 2, 2)",
        "square matrix",
        argument="seq_of_zeros",
    ),
    "bits of floats": wrong(
        lambda w: GNP.packbits(w.x), "float32", "a != 0", error=ArgumentTypeError, argument="a"
    ),
    "an order of bits": wrong(
        lambda w: GNP.packbits(w.small, bitorder="middle"),
        "'middle'",
        '"little"',
        argument="bitorder",
    ),
    "bits of other bytes": wrong(
        lambda w: GNP.unpackbits(w.small), "int8", "uint8", error=ArgumentTypeError, argument="a"
    ),
    "fewer bits than none": wrong(
        lambda w: GNP.unpackbits(w.small.astype("B"), count=-65),
        "count=-65",
        "64 bits",
        argument="count",
    ),
    "a Bessel function of complex numbers": wrong(
        lambda w: GNP.i0(w.x.astype("F")),
        "i0 is not defined",
        "complex64",
        error=ArgumentTypeError,
    ),
    "a window without a shape": wrong(
        lambda w: GNP.kaiser(8, "wide"),
        "beta='wide'",
        "number",
        error=ArgumentTypeError,
        argument="beta",
    ),
    "no kind of types": wrong(
        lambda w: GNP.isdtype(np.float32, "float"),
        "kind='float'",
        "real floating",
        argument="kind",
    ),
    "no type of a kind": wrong(
        lambda w: GNP.issubdtype("no", float),
        "'no'",
        "types",
        error=ArgumentTypeError,
        argument="arg1",
    ),
    "a path of a product": wrong(
        lambda w: GNP.einsum_path("ij,jk", w.x), "einsum_path", argument="subscripts"
    ),
    "an initial number that does not fit": wrong(
        lambda w: GNP.max(w.small, initial=300),
        "initial=300",
        "int8",
        error=ArgumentRangeError,
        argument="initial",
    ),
    "a first term of complex powers": wrong(
        lambda w: special.zeta(w.x.astype("F"), 2),
        "zeta with a first term is not defined for complex64",
        "leave it out",
        error=ArgumentTypeError,
    ),
    "a dimension of a gamma function": wrong(
        lambda w: special.multigammaln(w.x, 2.5), "d=2.5", "positive integer", argument="d"
    ),
}

USES: dict[str, Callable[[World, gs.Array], Any]] = {
    "asarray": lambda w, x: np.asarray(x),
    "device_get": lambda w, x: gs.device_get({"a": x}),
    "device_put": lambda w, x: gs.device_put(x, w.devices[0]),
    "device_put nowhere": lambda w, x: gs.device_put(x),
    "device_put in a tree": lambda w, x: gs.device_put([w.x, x], w.named(), donate=True),
    "reshard": lambda w, x: gs.reshard([w.x, x], gs.P("y"), donate=True),
    "block_until_ready of a tree": lambda w, x: gs.block_until_ready([x]),
    "save": lambda w, x: gs.save("y.npy", x),
    "join": lambda w, x: gs.make_array_from_single_device_arrays((8, 6), w.named(), [x]),
    "index": lambda w, x: x[0],
    "iteration": lambda w, x: list(x),
    "T": lambda w, x: x.T,
    "operand": lambda w, x: w.x + x,
    "function": lambda w, x: gs.numpy.sin(x),
    "function of NumPy": lambda w, x: np.concatenate([w.x, x]),
    "reduction": lambda w, x: gs.numpy.sum(x, axis=0),
    "mT": lambda w, x: x.mT,
    "addressable_shards": lambda w, x: x.addressable_shards,
    "global_shards": lambda w, x: x.global_shards,
    "addressable_data": lambda w, x: x.addressable_data(0),
    "devices": lambda w, x: x.devices(),
    "platform": lambda w, x: x.platform(),
    "on_device_size_in_bytes": lambda w, x: x.on_device_size_in_bytes(),
    "unsafe_buffer_pointer": lambda w, x: x.unsafe_buffer_pointer(),
    "block_until_ready": lambda w, x: x.block_until_ready(),
    "is_ready": lambda w, x: x.is_ready(),
    "__dlpack__": lambda w, x: x.__dlpack__(),
    "__dlpack_device__": lambda w, x: x.__dlpack_device__(),
    "from_dlpack": lambda w, x: gs.from_dlpack(x),
    "map_shards": lambda w, x: gs.map_shards(print, x, out=gs.ShapeDtypeStruct((8, 6), "f4")),
    "map_shards beside another": lambda w, x: gs.map_shards(
        print, w.moved, x, out=gs.ShapeDtypeStruct((8, 6), "f4")
    ),
    "copy_to_host_async": lambda w, x: x.copy_to_host_async(),
    "to_device": lambda w, x: x.to_device(w.devices[0]),
    "plan": lambda w, x: x.plan(w.named()),
    "item": lambda w, x: x.item(0),
    "tolist": lambda w, x: x.tolist(),
    "tobytes": lambda w, x: x.tobytes(),
    "bool": lambda w, x: bool(x),
    "int": lambda w, x: int(x),
    "float": lambda w, x: float(x),
    "complex": lambda w, x: complex(x),
    "hex": lambda w, x: hex(x),
    "format": lambda w, x: format(x, ""),
    "str": lambda w, x: str(x),
    "pickle": lambda w, x: pickle.dumps(x),
}


def after(end: str, use: Callable[[World, gs.Array], Any]) -> Case:
    """Return the case of a use of the array that was deleted or donated."""
    return Case(
        lambda w: use(w, getattr(w, end)),
        DeletedArrayError,
        RuntimeError,
        ("(8, 6)", "float32", "P('x')", "deleted or donated", "do not donate it"),
        {"shape": (8, 6), "dtype": np.float32},
    )


GONE = {f"{name} after delete": after("gone", use) for name, use in USES.items()}
DONATED = {f"{name} after donation": after("donated", use) for name, use in USES.items()}


def older(
    call: Callable[[World], Any],
    error: type[Exception],
    builtin: type[Exception],
    *words: str,
    **facts: Any,
) -> Case:
    return Case(call, error, builtin, words, facts)


def spec_of(*sharding: Any, mapping: Any = None) -> legacy.ShardingSpec:
    """Return a spec of one cut, unless its axes are given."""
    return legacy.ShardingSpec(sharding, [AXIS(0)] if mapping is None else mapping)


def rows_of(w: World) -> list[gs.Array]:
    """Return the rows of the value, each on a device of its own."""
    return [gs.device_put(row, device) for row, device in zip(w.value, w.devices, strict=True)]


def deleted_rows(w: World) -> legacy.ShardedDeviceArray:
    x = legacy.ShardedDeviceArray(gs.ShapeDtypeStruct((8, 6), np.float32), rows_of(w))
    x.delete()
    return x


def gda(w: World, axes: Any = ("x", "y"), parts: Any = None, shape: Any = (8, 6)) -> Any:
    return legacy.GlobalDeviceArray(shape, w.mesh, axes, w.parts if parts is None else parts)


AVAL = gs.ShapeDtypeStruct((8, 6), np.float32)
CHUNKED, UNSTACKED, AXIS = legacy.Chunked, legacy.Unstacked, legacy.ShardedAxis
PARSED = legacy.OpSharding.from_string
KINDS = legacy.OpSharding.Type

OLDER: dict[str, Case] = {
    "chunks that are set": older(
        lambda w: setattr(CHUNKED(2), "chunks", (3,)),
        ImmutableError,
        RuntimeError,
        "Chunked((2,))",
        "'chunks'",
        "make another",
        argument="chunks",
    ),
    "chunks that are deleted": older(
        lambda w: delattr(CHUNKED(2), "chunks"),
        ImmutableError,
        RuntimeError,
        "Chunked((2,))",
        "make another",
        argument="chunks",
    ),
    "chunks that are no integers": older(
        lambda w: CHUNKED((2, 1.5)),
        ArgumentTypeError,
        TypeError,
        "chunks=1.5",
        "integer",
        value=1.5,
    ),
    "no chunks": older(lambda w: CHUNKED(0), ShardingError, ValueError, "chunks=0", "positive"),
    "cut on no axis": older(
        lambda w: spec_of(CHUNKED(2), mapping=[]),
        ShardingError,
        ValueError,
        "mesh_mapping=()",
        "ShardedAxis(0)",
        "once each",
        axes=(),
        cuts=1,
    ),
    "cut on two axes": older(
        lambda w: spec_of(CHUNKED(2), mapping=[AXIS(0)] * 2),
        ShardingError,
        ValueError,
        "cuts [0, 0]",
        "once each",
        axes=(0, 0),
        cuts=1,
    ),
    "axis of a cut that there is not": older(
        lambda w: spec_of(None, mapping=[AXIS(0)]),
        ShardingError,
        ValueError,
        "cuts [0]",
        "has none",
        axes=(0,),
        cuts=0,
    ),
    "entry of a spec that is none": older(
        lambda w: spec_of(4), ArgumentTypeError, TypeError, "sharding[0]=4", "Chunked(n)"
    ),
    "entry of a mapping that is none": older(
        lambda w: spec_of(mapping=["x"]),
        ArgumentTypeError,
        TypeError,
        "mesh_mapping[0]='x'",
        "Replicated(n)",
    ),
    "spec of another rank": older(
        lambda w: spec_of(CHUNKED(2)).indices((8, 6)),
        ShardingError,
        ValueError,
        "(8, 6)",
        "ndim=2",
        "is for ndim=1",
        shape=(8, 6),
        ndim=1,
    ),
    "unstacked dim of another length": older(
        lambda w: legacy.spec_to_indices((8, 6), spec_of(UNSTACKED(4), None)),
        ShardingError,
        ValueError,
        "axis 0",
        "8 elements",
        "Unstacked(4)",
        dim=0,
        size=4,
    ),
    "chunks that do not divide": older(
        lambda w: spec_of(None, CHUNKED(4)).indices((8, 6)),
        ShardingError,
        ValueError,
        "axis 1",
        "6 elements",
        "4 chunks",
        "pad it",
        dim=1,
        chunks=(4,),
    ),
    "proto of an unstacked dim": older(
        lambda w: spec_of(UNSTACKED(8), None).sharding_proto(),
        UnstackedError,
        RuntimeError,
        "axis 0",
        "use Chunked",
        dims=(0,),
    ),
    "spec of an order of no grid": older(
        lambda w: legacy.ShardingSpec.from_sharding_proto(PARSED("{devices=[4]0,1,3,2}"), 1),
        ShardingError,
        ValueError,
        "no grid",
        "GSPMDSharding",
        argument="proto",
    ),
    "partitions that do not multiply out": older(
        lambda w: legacy.partitioned_sharding_spec(8, (2, 2), AVAL),
        ShardingError,
        ValueError,
        "partitions=(2, 2)",
        "num_partitions=8",
        num_partitions=8,
    ),
    "replicas that do not divide": older(
        lambda w: legacy.pmap_sharding_spec(8, 3, 1, None, AVAL, 0),
        ShardingError,
        ValueError,
        "nrep=8",
        "multiple of axis_size=3",
        nrep=8,
        axis_size=3,
    ),
    "mapped axis that there is not": older(
        lambda w: legacy.pmap_sharding_spec(8, 8, 1, None, AVAL, 3),
        ShardingError,
        ValueError,
        "map_axis=3",
        "0 to 2",
        map_axis=3,
    ),
    "tile that axes do not divide": older(
        lambda w: legacy.tile_aval_nd({"x": 4}, {"x": 1}, AVAL),
        ShardingError,
        ValueError,
        "in_axes={'x': 1}",
        "axis 1",
        "does not divide 6",
        axis="x",
        dim=1,
    ),
    "tile along an unknown axis": older(
        lambda w: legacy.untile_aval_nd({"x": 4}, {"z": 1}, AVAL),
        ShardingError,
        ValueError,
        "out_axes={'z': 1}",
        "'z'",
        "{'x': 4}",
        axis="z",
    ),
    "spec over a mesh of a dim that there is not": older(
        lambda w: legacy.mesh_sharding_specs({"x": 4}, ["x"])(AVAL, {"x": 2}),
        ShardingError,
        ValueError,
        "axis 2",
        "ndim=2",
        axis="x",
        dim=2,
        ndim=2,
    ),
    "text of no sharding": older(
        lambda w: PARSED("{devices=[2,2]<=[4}"),
        ParseError,
        ValueError,
        "'}' at position 18",
        "']'",
        position=18,
    ),
    "text that goes on": older(
        lambda w: PARSED("{replicated} now"),
        ParseError,
        ValueError,
        "position 13",
        "the end",
        position=13,
    ),
    "text of an unknown kind": older(
        lambda w: PARSED("{sharded}"),
        ParseError,
        ValueError,
        "'sharded' at position 1",
        "'devices='",
        position=1,
    ),
    "text of a tile too many": older(
        lambda w: PARSED("{devices=[2,2]0,1,2}"),
        ParseError,
        ValueError,
        "position 0",
        "below 4",
        position=0,
    ),
    **{
        f"text of very many devices, {text}": older(
            lambda w, text=text: PARSED(text), ParseError, ValueError, *words
        )
        for text, *words in (
            ("{devices=[99999999999]<=[99999999999]}", "at position 24", "1,048,576 devices"),
            ("{devices=[99999999999]0,1}", "position 0", "below 99999999999"),
            (f"{{maximal device={'9' * 5000}}}", "position 16", "18 digits"),
        )
    },
    "text that is none": older(
        lambda w: PARSED(b"{replicated}"), ArgumentTypeError, TypeError, "text=", "a string"
    ),
    "proto with a device twice": older(
        lambda w: legacy.OpSharding(KINDS.OTHER, (2,), (1, 1)),
        ArgumentError,
        ValueError,
        "(1, 1)",
        "once each",
        dimensions=(2,),
    ),
    **{
        f"proto of no devices, {dims}": older(
            lambda w, dims=dims, devices=devices: legacy.OpSharding(KINDS.OTHER, dims, devices),
            ArgumentError,
            ValueError,
            "tile_assignment_devices",
            dimensions=dims,
        )
        for dims, devices in (((1, -1, -1), (0,)), ((2, 0), ()))
    },
    "proto of tuples of tuples": older(
        lambda w: legacy.OpSharding(KINDS.TUPLE, tuple_shardings=[PARSED("{}")]),
        ArgumentError,
        ValueError,
        "flat",
        argument="tuple_shardings",
    ),
    "manual layout of an array": older(
        lambda w: gs.sharding.GSPMDSharding(w.devices, "{manual}"),
        ShardingError,
        ValueError,
        "{manual}",
        "does not say",
        argument="op_sharding",
    ),
    "tiles for other devices": older(
        lambda w: gs.sharding.GSPMDSharding(w.devices, "{devices=[4]<=[4]}"),
        ShardingError,
        ValueError,
        "4 devices, got 8",
        needed=4,
        devices=8,
    ),
    "tiles of another rank": older(
        lambda w: gs.device_put(w.one, gs.sharding.GSPMDSharding(w.devices, "{devices=[8]<=[8]}")),
        ShardingError,
        ValueError,
        "ndim=1",
        "ndim=2",
        ndim=2,
    ),
    "maximal device that there is not": older(
        lambda w: gs.sharding.GSPMDSharding(w.devices, "{maximal device=8}"),
        ShardingError,
        ValueError,
        "device 8",
        "there are 8",
        position=8,
        devices=8,
    ),
    "layout that is none": older(
        lambda w: gs.sharding.GSPMDSharding(w.devices, 3),
        ArgumentTypeError,
        TypeError,
        "op_sharding=3",
        value=3,
    ),
    "pmap's sharding for other devices": older(
        lambda w: gs.sharding.PmapSharding(w.devices, spec_of(UNSTACKED(4))),
        ShardingError,
        ValueError,
        "4 devices, got 8",
        needed=4,
    ),
    "pmap's sharding of one device twice": older(
        lambda w: gs.sharding.PmapSharding([w.devices[0]] * 2, spec_of(UNSTACKED(2))),
        ShardingError,
        ValueError,
        "CpuDevice(id=0)",
        "more than once",
    ),
    "pmap's sharding without a spec": older(
        lambda w: gs.sharding.PmapSharding(w.devices, gs.P("x")),
        ArgumentTypeError,
        TypeError,
        "sharding_spec=",
        "a ShardingSpec",
    ),
    "pmap's sharding of no dim": older(
        lambda w: gs.sharding.PmapSharding.default((8, 6), 2),
        ArgumentError,
        ValueError,
        "sharded_dim=2",
        "(8, 6)",
        sharded_dim=2,
    ),
    "pmap's sharding of neither dim nor devices": older(
        lambda w: gs.sharding.PmapSharding.default((8, 6), None),
        ArgumentError,
        ValueError,
        "both None",
        argument="sharded_dim",
    ),
    "pmap's sharding of a longer dim": older(
        lambda w: gs.sharding.PmapSharding.default((9, 6)),
        ShardingError,
        ValueError,
        "9 devices, got 8",
        needed=9,
        devices=8,
    ),
    "value of another length in pmap's sharding": older(
        lambda w: gs.device_put(w.one[:7], gs.sharding.PmapSharding.default((8, 6))),
        ShardingError,
        ValueError,
        "7 elements",
        "Unstacked(8)",
        dim=0,
        size=8,
    ),
    "shards with a dim too many": older(
        lambda w: gs.make_array_from_single_device_arrays(
            (8, 6), gs.sharding.PmapSharding.default((8, 6)), [row[None] for row in rows_of(w)]
        ),
        ShardingError,
        ValueError,
        "(1, 6)",
        "needs (6,)",
        shape=(1, 6),
        expected=(6,),
    ),
    "boxes with a dim too many": older(
        lambda w: gs.make_array_from_callback(
            (8, 6), gs.sharding.PmapSharding.default((8, 6)), lambda i: w.value[i][None]
        ),
        ShardingError,
        ValueError,
        "(1, 6)",
        "of shape (6,)",
        shape=(1, 6),
        expected=(6,),
    ),
    "fewer shards than devices": older(
        lambda w: gs.device_put_sharded([1, 2], w.devices),
        ArgumentError,
        ValueError,
        "2 shards",
        "8 devices",
        shards=2,
        devices=8,
    ),
    "shards of several shapes": older(
        lambda w: gs.device_put_sharded([BOX, BOX[:1]], w.devices[:2]),
        ShardingError,
        ValueError,
        "shards[1]",
        "(1, 6)",
        "(2, 6)",
        position=1,
    ),
    "shards of several types": older(
        lambda w: gs.device_put_sharded([1, 1.5], w.devices[:2]),
        ArgumentTypeError,
        TypeError,
        "shards[1]",
        "float64",
        "int64",
        position=1,
    ),
    "shards of several structures": older(
        lambda w: gs.device_put_sharded([{"a": 1}, {"b": 1}], w.devices[:2]),
        TreeError,
        ValueError,
        "shards[1]",
        "one structure",
        position=1,
    ),
    "replicas on no devices": older(
        lambda w: gs.device_put_replicated(1.0, []),
        ArgumentError,
        ValueError,
        "devices is empty",
        argument="devices",
    ),
    "more replicas than devices": older(
        lambda w: gs.replicate(1.0, 9, 9),
        NoDeviceError,
        RuntimeError,
        "nrep=9",
        "there are 8",
        "CpuDevice(id=0)",
        nrep=9,
        devices=8,
    ),
    "fewer replicas than devices": older(
        lambda w: gs.replicate(1.0, 4, 4, w.devices),
        ArgumentError,
        ValueError,
        "nrep=4",
        "8",
        nrep=4,
        devices=8,
    ),
    "rows for another number of devices": older(
        lambda w: legacy.ShardedDeviceArray(AVAL, rows_of(w)[:7]),
        ShardingError,
        ValueError,
        "8 devices, got 7",
        needed=8,
        devices=7,
    ),
    "rows of another type": older(
        lambda w: legacy.make_sharded_device_array(
            gs.ShapeDtypeStruct((8, 6), float), None, rows_of(w)
        ),
        ArgumentTypeError,
        TypeError,
        "float32",
        "float64",
        argument="arrays",
    ),
    "rows that are on the host": older(
        lambda w: legacy.ShardedDeviceArray(AVAL, list(w.value)),
        ArgumentTypeError,
        TypeError,
        "device_buffers[0]",
        "ndarray",
        "device_put",
        position=0,
    ),
    "rows with other indices": older(
        lambda w: legacy.ShardedDeviceArray(AVAL, None, rows_of(w), list(range(8))),
        ShardingError,
        ValueError,
        "indices=(0, 1",
        "leave them out",
        argument="indices",
    ),
    "buffers of deleted rows": older(
        lambda w: deleted_rows(w).device_buffers,
        DeletedShardsError,
        ValueError,
        "ShardedDeviceArray of shape (8, 6)",
        "was deleted",
        shape=(8, 6),
    ),
    "deleted rows in an operation": older(
        lambda w: deleted_rows(w) + 1, DeletedShardsError, RuntimeError, "was deleted"
    ),
    "class of arrays on one device": older(
        lambda w: legacy.DeviceArray(w.one),
        ArgumentTypeError,
        TypeError,
        "device_put",
        "make_device_array",
    ),
    "device that the data is not on": older(
        lambda w: legacy.make_device_array(AVAL, w.devices[0], w.one),
        ShardingError,
        ValueError,
        "CpuDevice(id=0)",
        "CpuDevice(id=3)",
        "move it first",
        argument="device",
    ),
    "global array of buffers in another order": older(
        lambda w: gda(w, parts=w.parts[::-1]),
        ShardingError,
        ValueError,
        "order",
        "global_mesh.local_devices",
        argument="device_buffers",
    ),
    "global array of too few buffers": older(
        lambda w: gda(w, parts=w.parts[1:]),
        ShardingError,
        ValueError,
        "7 devices",
        "Without an array",
    ),
    "global array of other blocks": older(
        lambda w: gda(w, ("y", "x")), ShardingError, ValueError, "(2, 3)", "needs (4, 2)"
    ),
    "global array of too many axes": older(
        lambda w: gda(w, ("x", "y", None)), ShardingError, ValueError, "3 entries", "ndim=2"
    ),
    "global array of an unknown axis": older(
        lambda w: gda(w, ("z",)), ShardingError, ValueError, "'z'", "{'x': 4, 'y': 2}", axis="z"
    ),
    "global array of one name": older(
        lambda w: gda(w, "x"), ArgumentTypeError, TypeError, "mesh_axes='x'", "for each axis"
    ),
    "global array without a mesh": older(
        lambda w: legacy.GlobalDeviceArray((8, 6), w.devices, ("x",), w.parts),
        ArgumentTypeError,
        TypeError,
        "global_mesh=",
        "a Mesh",
    ),
    "global arrays compared": older(
        lambda w: gda(w) == w.x, UnsupportedError, NotImplementedError, "==", "no process has all"
    ),
    "batched callback that gives too few": older(
        lambda w: legacy.GlobalDeviceArray.from_batched_callback(
            (8, 6), w.mesh, ("x",), lambda indices: [BOX]
        ),
        ArgumentError,
        ValueError,
        "returned 1 arrays",
        "8 are needed",
        returned=1,
        needed=8,
    ),
    "batched callback that puts data elsewhere": older(
        lambda w: legacy.GlobalDeviceArray.from_batched_callback_with_devices(
            (8, 6), w.mesh, ("x", "y"), lambda pairs: w.parts[::-1]
        ),
        ShardingError,
        ValueError,
        "[CpuDevice(id=7)] for CpuDevice(id=0)",
        "in the order",
    ),
    "pieces for another number of devices": older(
        lambda w: legacy.shard_args(w.devices, [[0]], [w.one]),
        ArgumentError,
        ValueError,
        "lengths [1]",
        "length 8",
        lengths=[1],
        devices=8,
    ),
    "pieces of what has none": older(
        lambda w: legacy.shard_args(w.devices[:1], [[0]], ["abc"]),
        ArgumentTypeError,
        TypeError,
        "args[0]",
        "str",
    ),
    "element along a dim of another length": older(
        lambda w: legacy.shard_aval(8, 1, AVAL),
        ArgumentError,
        ValueError,
        "size=8",
        "axis 1",
        "of length 6",
        size=8,
        axis=1,
    ),
    "element along a dim that there is not": older(
        lambda w: legacy.shard_aval(8, 2, AVAL), ArgumentError, ValueError, "axis=2", "shape (8, 6)"
    ),
    "element of a type without shards": older(
        lambda w: legacy.shard_aval(8, 0, w.value),
        ArgumentTypeError,
        TypeError,
        "aval=",
        "ShapeDtypeStruct",
    ),
    "live buffers of a device": older(
        lambda w: w.devices[0].live_buffers, AttributeError, AttributeError, "live_arrays"
    ),
}


def mapped(
    body: Callable[[Any], Any],
    into: Any = ("x",),
    out: Any = ("x",),
    **how: Any,
) -> Callable[[World], Any]:
    """Return a call of `shard_map` of a body of one argument."""
    into, out = gs.P(*into), gs.P(*out)
    return lambda w: gs.shard_map(body, w.mesh, into, out, **how)(w.x)


def collective(name: str, *args: Any, **how: Any) -> Callable[[World], Any]:
    """Return a call of a collective, on blocks of shape (2, 6) along x."""
    return mapped(lambda x: getattr(gs.lax, name)(x, *args, **how), check_rep=False)


def refused(
    call: Callable[[World], Any], error: type[Exception], builtin: type[Exception], *words: str
) -> Case:
    return Case(call, error, builtin, words)


HERE = "test_bad_input.py:"
"""A line of a user's own."""

SCALAR = gs.ShapeDtypeStruct((), "float64")

CALLBACKS: dict[str, Case] = {
    "callback that is none": refused(
        lambda w: gs.debug.callback(3, w.x), ArgumentTypeError, TypeError, "callback=3", "function"
    ),
    "arguments without a callback": Case(
        lambda w: gs.debug.callback(x=w.x),
        ArgumentTypeError,
        TypeError,
        ("['x'] without", "first"),
        {"argument": "callback"},
    ),
    "arguments without a format": Case(
        lambda w: gs.debug.print(x=w.x),
        ArgumentTypeError,
        TypeError,
        ("['x'] without", "first"),
        {"argument": "fmt"},
    ),
    "callback of a deleted array": refused(
        lambda w: gs.debug.callback(print, w.gone), DeletedArrayError, RuntimeError, "was deleted"
    ),
    "keys of numbers": refused(
        lambda w: GNP.asarray([1, 2], random.key(0).dtype), ArgumentTypeError, TypeError,
        "asarray of numbers as keys",
    ),
    "keys filled with a number that no word holds": refused(
        lambda w: GNP.full(2, -1, random.key(0).dtype), ArgumentRangeError, OverflowError,
        "fill_value=-1", "uint32",
    ),
    "format without an argument": refused(
        lambda w: gs.debug.print("{x}", w.x), ArgumentError, ValueError, "fmt='{x}'", "1 argument"
    ),
    "format given later without an argument": refused(
        lambda w: gs.debug.print()("{x}", w.x), ArgumentError, ValueError, "fmt='{x}'", "1 argument"
    ),
    "format that leaves an argument": refused(
        lambda w: gs.debug.print("text", x=w.x), ArgumentError, ValueError, "['x']", "f-string"
    ),
    "callback that is forbidden to read": refused(
        lambda w: forbidden(lambda: gs.debug.print("{}", w.x)),
        TransferGuardError, RuntimeError, "copy_to_host_async()",
    ),
    "pure_callback of no function": refused(
        lambda w: gs.pure_callback(None, SCALAR), ArgumentTypeError, TypeError, "callback=None"
    ),
    "pure_callback of text": refused(
        lambda w: gs.pure_callback(len, SCALAR, "text"),
        ArgumentTypeError, TypeError, "argument [0][0] is a str",
    ),
    "pure_callback without a shape": refused(
        lambda w: gs.pure_callback(len, {"n": int}, w.x),
        ArgumentTypeError, TypeError, "result_shape_dtypes['n'] is a type", "ShapeDtypeStruct",
    ),
    "pure_callback with another vmap_method": refused(
        lambda w: gs.pure_callback(len, SCALAR, w.x, vmap_method="loop"),
        ArgumentError, ValueError, "vmap_method='loop'", "'sequential'",
    ),
    "pure_callback in vmap without a vmap_method": refused(
        lambda w: gs.vmap(lambda x: gs.pure_callback(np.sum, SCALAR, x))(w.x),
        UnsupportedError, NotImplementedError, "vmap_method is None", "sequential",
    ),
    "pure_callback to a place in shard_map": refused(
        mapped(lambda x: gs.pure_callback(np.sum, SCALAR, x, sharding=gs.P())),
        UnsupportedError, NotImplementedError, "sharding=", "leave it out",
    ),
    "io_callback in order under vmap": refused(
        lambda w: gs.vmap(lambda x: gs.io_callback(np.sum, SCALAR, x, ordered=True))(w.x),
        ArgumentError, ValueError, "ordered=True", "vmap",
    ),
    "io_callback in order under vmap in shard_map": refused(
        mapped(gs.vmap(lambda row: gs.io_callback(np.sum, SCALAR, row, ordered=True))),
        ArgumentError, ValueError, "ordered=True", "vmap",
    ),
    "pure_callback that raises": refused(
        mapped(lambda x: gs.pure_callback(lambda v: v[9], SCALAR, x)),
        errors.CallbackError, RuntimeError, "raised IndexError", "index 9", HERE,
    ),
    "pure_callback that gives another shape": refused(
        lambda w: gs.pure_callback(lambda v: {"a": v[0]}, {"a": SCALAR}, w.x),
        errors.CallbackError, RuntimeError, "float32[6] for result['a']", "float64[]", HERE,
    ),
    "pure_callback that gives another type": refused(
        mapped(lambda x: gs.pure_callback(lambda v: np.float32(v.sum()), SCALAR, x)),
        errors.CallbackError, RuntimeError, "returned float32[]", "declared as float64[]", HERE,
    ),
    "pure_callback that gives another structure": refused(
        lambda w: gs.pure_callback(lambda v: {"a": v}, {"b": SCALAR}, w.x),
        errors.CallbackError, RuntimeError, "results [\"['a']\"], and [\"['b']\"] are", HERE,
    ),
    "io_callback that gives what was not said": refused(
        lambda w: gs.io_callback(lambda v: v, None, w.x),
        errors.CallbackError, RuntimeError, "returned results [''], and [] are declared", HERE,
    ),
    "callback that raises": refused(
        lambda w: [gs.debug.callback(lambda v: v[9], w.x), gs.effects_barrier()],
        errors.CallbackError, RuntimeError, "debug.callback", "raised IndexError", HERE,
    ),
    "barrier in a callback": refused(
        lambda w: [gs.debug.callback(gs.effects_barrier), gs.effects_barrier()],
        errors.CallbackError, RuntimeError, "ReentrantCallError", "waits for all callbacks",
    ),
    "tap of no function": refused(
        lambda w: legacy.id_tap("text", w.x), ArgumentTypeError, TypeError, "id_tap", "'text'"
    ),
    "tap of text": refused(
        lambda w: legacy.id_print({"a": "text"}), ArgumentTypeError, TypeError, "['a'] is a str"
    ),
    "call of no function": refused(
        lambda w: legacy.call(3, w.x), ArgumentTypeError, TypeError, "call", "3", "function"
    ),
    "call of what raises": refused(
        lambda w: legacy.call(lambda v: v[9], w.x, result_shape=SCALAR),
        errors.CallbackError, RuntimeError, "function of call", "IndexError", HERE,
    ),
}  # fmt: skip


def forbidden(call: Callable[[], Any]) -> Any:
    """Call what copies to the host where that is forbidden."""
    with gs.transfer_guard_device_to_host("disallow_explicit"):
        return call()


MAPPED: dict[str, Case] = {
    "shard_map of a generator": refused(
        lambda w: gs.shard_map(yielding, w.mesh, gs.P(), gs.P()),
        ArgumentTypeError, TypeError, "shard_map: f=", "no generator",
    ),
    "a place for what a mapped function adds": wrong(
        lambda w: gs.vmap(lambda x: GNP.add(x, 1, out_sharding=w.named("x")))(w.x),
        "add: out_sharding=NamedSharding", "in a mapped function", "leave out_sharding= out",
        argument="out_sharding",
    ),
    "shard_map over no mesh": refused(
        lambda w: gs.shard_map(abs, 3, gs.P(), gs.P()), ArgumentTypeError, TypeError, "mesh=3"
    ),
    "shard_map where no mesh is": refused(
        lambda w: gs.shard_map(lambda x: x, None, gs.P(), gs.P())(w.value),
        MeshError, ValueError, "mesh=None has no devices", "set_mesh",
    ),
    "shard_map over another abstract mesh": refused(
        lambda w: gs.shard_map(lambda x: x, gs.AbstractMesh((2,), "x"), gs.P(), gs.P())(w.x),
        MeshError, ValueError, "differs from the mesh around the call, {'x': 4, 'y': 2}",
    ),
    "auto axis that the mesh lacks": refused(
        mapped(abs, auto={"z"}), ArgumentError, ValueError, "auto names ['z']", "'x': 4"
    ),
    "axis_names that the mesh lacks": refused(
        mapped(abs, axis_names={"q"}), ArgumentError, ValueError, "axis_names names ['q']"
    ),
    "in_specs that is longer than the rank": refused(
        mapped(lambda a: a, ("x", None, "y")),
        ArgumentError, ValueError, "in_specs for argument a of shape (8, 6)", "3 entries", "ndim=2",
    ),
    "in_specs with an unknown axis": refused(
        mapped(lambda a: a, ("q",)), ArgumentError, ValueError, "'q' is not in the mesh {'x': 4,"
    ),
    "in_specs with an axis twice": refused(
        mapped(lambda a: a, ("x", "x")), ArgumentError, ValueError, "'x' is named 2", "each once"
    ),
    "in_specs with a dim that is left open": refused(
        mapped(lambda a: a, (gs.P.UNCONSTRAINED,)),
        ArgumentError, ValueError, "in_specs has PartitionSpec(UNCONSTRAINED)", "or None",
    ),
    "in_specs with an auto axis": refused(
        mapped(lambda a: a, ("y",), auto={"y"}), ArgumentError, ValueError, "'y' is in auto"
    ),
    "in_specs that is no spec": refused(
        lambda w: gs.shard_map(abs, w.mesh, "x", gs.P())(w.x),
        ArgumentTypeError, TypeError, "in_specs holds 'x'", "P('x')",
    ),
    "in_specs that is no prefix": refused(
        lambda w: gs.shard_map(abs, w.mesh, (gs.P(), gs.P()), gs.P())(w.x),
        TreeError, ValueError, "in_specs", "args is",
    ),
    "dim that axes do not divide": refused(
        mapped(lambda a: a, (None, "x")),
        ArgumentError, ValueError, "axis 1 of argument a of shape (8, 6)", "length 6", "{'x': 4}",
        "pad it", "map_shards",
    ),
    "argument of shard_map that is no array": refused(
        lambda w: gs.shard_map(lambda s: s, w.mesh, gs.P(), gs.P())("text"),
        ArgumentTypeError, TypeError, "argument s is a str", "pytrees",
    ),
    "result of shard_map that is no array": refused(
        mapped(lambda x: "text", out=()), ArgumentTypeError, TypeError, "the result is a str", HERE
    ),
    "result that varies along an axis its spec lacks": refused(
        mapped(lambda x: x, out=()),
        ArgumentError, ValueError, "the result varies along 'x'", "PartitionSpec()", "psum", HERE,
    ),
    "part of a result that varies": refused(
        lambda w: gs.shard_map(
            lambda x: {"a": x, "b": x}, w.mesh, gs.P("x"), {"a": gs.P("x"), "b": gs.P()}
        )(w.x),
        ArgumentError, ValueError, "the result['b'] varies along 'x'", HERE,
    ),
    "result without dims under a spec with axes": refused(
        mapped(lambda x: x.sum()), ArgumentError, ValueError, "the result", "1 entries", "ndim=0"
    ),
    "out_specs with an unknown axis": refused(
        mapped(lambda x: x, out=("q",)), ArgumentError, ValueError, "out_specs", "'q'"
    ),
    "out_specs that is no prefix": refused(
        lambda w: gs.shard_map(lambda x: (x, x), w.mesh, gs.P("x"), (gs.P("x"),))(w.x),
        TreeError, ValueError, "out_specs", "the result is",
    ),
    "shard_map over another mesh inside": refused(
        lambda w: gs.shard_map(
            gs.shard_map(abs, gs.make_mesh((8,), "z"), gs.P(), gs.P()), w.mesh, gs.P(), gs.P()
        )(w.x),
        MeshError, ValueError, "{'z': 8} is not the mesh {'x': 4, 'y': 2}",
    ),
    "deleted argument": refused(
        lambda w: gs.shard_map(abs, w.mesh, gs.P("x"), gs.P("x"))(w.gone),
        DeletedArrayError, RuntimeError, "was deleted",
    ),
    "if on a block": refused(
        mapped(lambda a: a if a.sum() > 0 else -a),
        errors.TracedBoolError, TypeError, "argument a of shape (8, 6)", "where(", HERE,
    ),
    "block as a size": refused(
        mapped(lambda a: gs.numpy.zeros(a[0, 0].astype(int))),
        errors.TracedIntegerError, TypeError, "argument a", "Python's integers", HERE,
    ),
    "block as a count": refused(
        mapped(lambda a: a.repeat(a[0].astype(int), 1)),
        errors.ConcretizationError, TypeError, "argument a", HERE,
    ),
    "block as a number": refused(
        mapped(lambda a: a * float(a[0, 0])),
        errors.ConcretizationError, TypeError, "float(x) needs elements", "argument a", HERE,
    ),
    "block for NumPy": refused(
        mapped(lambda a: np.asarray(a)),
        errors.TracedArrayError, TypeError, "numpy.asarray(x)", "gpushard.numpy", HERE,
    ),
    "block in a mask": refused(
        mapped(lambda a: a[a > 1]), errors.ConcretizationError, TypeError, "size=", HERE
    ),
    "place of a block": refused(
        mapped(lambda a: a.sharding), errors.TracedArrayError, TypeError, "x.sharding", HERE
    ),
    "shards of a block": refused(
        mapped(lambda a: a.addressable_shards), errors.TracedArrayError, TypeError, HERE
    ),
    "place for a block": refused(
        mapped(lambda a: gs.numpy.add(a, 1, out_sharding=gs.P("x"))),
        errors.TracedArrayError, TypeError, "argument a", HERE,
    ),
    "block put on a device": refused(
        lambda w: gs.shard_map(
            lambda a: gs.device_put(a, w.devices[0]), w.mesh, gs.P("x"), gs.P("x")
        )(w.x),
        errors.TracedArrayError, TypeError, "device_put", HERE,
    ),
    "block as a shard": refused(
        mapped(
            lambda a: gs.make_array_from_single_device_arrays(
                (8,), gs.SingleDeviceSharding(gs.devices()[0]), [a]
            )
        ),
        errors.TracedArgumentError, ValueError, "types traced float32[", "argument a", HERE,
    ),
    "block for a callback": refused(
        mapped(
            lambda a: gs.make_array_from_callback(
                (8,), gs.SingleDeviceSharding(gs.devices()[0]), lambda index: a
            )
        ),
        errors.TracedArgumentError, TypeError, "types traced float32[", "argument a", HERE,
    ),
    "GlobalDeviceArray for pmap": refused(
        lambda w: gs.pmap(lambda row: row + 1)(
            legacy.GlobalDeviceArray.from_callback((8,), w.mesh, [], lambda index: np.ones(8))
        ),
        ArgumentTypeError, TypeError, "argument row of shape (8,) is a GlobalDeviceArray", "jit",
    ),
    "block assigned to an array of outside": refused(
        lambda w: gs.shard_map(
            lambda a: operator.setitem(w.one, 0, a[0]), w.mesh, gs.P("x"), gs.P("x")
        )(w.x),
        errors.TracedValueError, TypeError, "argument a", HERE,
    ),
    "assignment to a value of the function around": refused(
        mapped(lambda a: gs.vmap(lambda row: operator.setitem(a, 0, row))(a)),
        errors.TracedValueError, TypeError, "argument a", "a copy", HERE,
    ),
    "value of a function that has returned": refused(
        lambda w: [(gs.vmap(kept.append)(w.x), kept[0] + 1) for kept in [[]]],
        errors.TracedValueError, TypeError, "vmap of append, which has returned", HERE,
    ),
    "collective over no axis": refused(
        collective("psum", "q"),
        errors.UnboundAxisError, NameError, "axis_name='q' is unbound", "'x', 'y'",
    ),
    "collective outside of a mapped function": refused(
        lambda w: gs.lax.psum(w.x, "x"), errors.UnboundAxisError, NameError, "none is here"
    ),
    "collective over an auto axis": refused(
        mapped(lambda x: gs.lax.psum(x, "y"), auto={"y"}),
        errors.UnboundAxisError, NameError, "axis_name='y' is unbound: it is an auto mesh axis",
    ),
    "collective over an axis twice": refused(
        collective("pmax", ("x", "x")), ArgumentError, ValueError, "names 'x' twice"
    ),
    "collective of what is no array": refused(
        mapped(lambda x: gs.lax.psum("text", "x")), ArgumentTypeError, TypeError, "x is a str"
    ),
    "groups that overlap": refused(
        collective("psum", "x", axis_index_groups=[[0, 1], [1, 2, 3]]),
        ArgumentError, ValueError, "overlap in [1]", "4 elements",
    ),
    "groups that leave one out": refused(
        collective("psum", "x", axis_index_groups=[[0, 1], [3]]),
        ArgumentError, ValueError, "lack [2]",
    ),
    "groups beyond the axis": refused(
        collective("pmin", "x", axis_index_groups=[[0, 1], [2, 3, 4]]),
        ArgumentError, ValueError, "have [4]",
    ),
    "groups that are no lists": refused(
        collective("psum", "x", axis_index_groups=[0, 1]),
        ArgumentTypeError, TypeError, "[[0, 1], [2, 3]]",
    ),
    "gathering in unequal groups": refused(
        collective("all_gather", "x", axis_index_groups=[[0], [1, 2, 3]]),
        ArgumentError, ValueError, "different sizes",
    ),
    "gathering along a dim that is not there": refused(
        collective("all_gather", "x", axis=5), ArgumentError, ValueError, "axis=5", "ndim=3"
    ),
    "scattering a dim of another length": refused(
        collective("psum_scatter", "x"),
        ArgumentError, ValueError, "axis scatter_dimension=0", "length 2", "4; with tiled=True",
    ),
    "scattering a dim that is no multiple": refused(
        collective("psum_scatter", "x", scatter_dimension=1, tiled=True),
        ArgumentError, ValueError, "length 6", "a multiple of 4",
    ),
    "exchanging a dim of another length": refused(
        collective("all_to_all", "x", 0, 1), ArgumentError, ValueError, "axis split_axis=0", "4"
    ),
    "exchanging a dim that is not there": refused(
        collective("all_to_all", "x", 0, 7), ArgumentError, ValueError, "concat_axis=7"
    ),
    "permutation that sends twice": refused(
        collective("ppermute", "x", [(0, 1), (0, 2)]), ArgumentError, ValueError, "0 sends twice"
    ),
    "permutation that receives twice": refused(
        collective("ppermute", "x", [(0, 1), (2, 1)]),
        ArgumentError, ValueError, "1 receives twice",
    ),
    "permutation beyond the axis": refused(
        collective("ppermute", "x", [(0, 4)]), ArgumentError, ValueError, "there are 4 elements"
    ),
    "permutation that is none": refused(
        collective("ppermute", "x", [0, 1]), ArgumentTypeError, TypeError, "pairs of integers"
    ),
    "shuffle that is no permutation": refused(
        collective("pshuffle", "x", [0, 1, 1, 2]),
        ArgumentError, ValueError, "no permutation of the 4 elements",
    ),
    "broadcast from nowhere": refused(
        collective("pbroadcast", "x", 4), ArgumentError, ValueError, "source=4", "4 elements"
    ),
    "vmap of nothing": refused(
        lambda w: gs.vmap(abs, None)(w.x), ArgumentError, ValueError, "no argument is mapped"
    ),
    "vmap of lengths that differ": refused(
        lambda w: gs.vmap(lambda a, b: a)(w.x, w.one[:3]),
        ArgumentError, ValueError, "8 along axis 0 of argument a", "3 along axis 0 of argument b",
    ),
    "vmap beyond the rank": refused(
        lambda w: gs.vmap(abs, 2)(w.x),
        ArgumentError, ValueError, "in_axes=2 is out of range", "ndim=2", "count from 0",
    ),
    "vmap of a negative length": refused(
        lambda w: gs.vmap(lambda: 1, axis_size=-1)(), ArgumentError, ValueError, "axis_size=-1"
    ),
    "soft_pmap of half an element": refused(
        lambda w: gs.soft_pmap(lambda: 1, axis_size=1.5)(),
        errors.ArgumentTypeError, TypeError, "axis_size=1.5", "integer",
    ),
    "vmap over a list of names": refused(
        lambda w: gs.vmap(abs, axis_name=["i"]),
        errors.ArgumentTypeError, TypeError, "axis_name=['i']", "hash",
    ),
    "pshuffle by names": refused(
        lambda w: gs.vmap(lambda row: gs.lax.pshuffle(row, "i", "abcd"), axis_name="i")(w.x),
        errors.ArgumentTypeError, TypeError, "perm='abcd'", "integers",
    ),
    "pmap of no element": Case(
        lambda w: gs.pmap(abs)(np.ones((0, 3))),
        ArgumentError, ValueError, ("0 elements", "vmap"), {"argument": "axis_size", "size": 0},
    ),
    "vmap of a number": refused(
        lambda w: gs.vmap(lambda a: a)(2.5),
        ArgumentError, ValueError, "argument a", "ndim=0", "pass None",
    ),
    "vmap whose result differs": refused(
        lambda w: gs.vmap(lambda a: a, 0, None)(w.x),
        ArgumentError, ValueError, "the result varies along an axis of 8", "Try: out_axes=0", HERE,
    ),
    "vmap over a mesh axis that is not there": refused(
        lambda w: gs.vmap(abs, spmd_axis_name="q")(w.x),
        MeshError, ValueError, "spmd_axis_name='q'", "set_mesh",
    ),
    "pmap over too many": refused(
        lambda w: gs.pmap(lambda a: a)(np.ones(9)),
        errors.NoDeviceError, ValueError, "9 devices, there are 8", "soft_pmap",
    ),
    "pmap over other devices than elements": refused(
        lambda w: gs.pmap(lambda a: a, devices=w.devices[:3])(w.x),
        ArgumentError, ValueError, "3 devices for an axis of 8",
    ),
    "pmap of a static argument without a hash": refused(
        lambda w: gs.pmap(lambda a, k: a, static_broadcasted_argnums=1)(w.x, []),
        ArgumentTypeError, TypeError, "the static argument 1 is a list",
    ),
    "pmap whose result differs": refused(
        lambda w: gs.pmap(lambda a: a, out_axes=None)(w.x),
        ArgumentError, ValueError, "the result varies along an axis of 8", "Try: out_axes=0", HERE,
    ),
    "shard_map whose specs are longer than the ranks of several": refused(
        lambda w: gs.shard_map(
            lambda a, b, c: a, w.mesh, (gs.P("x", None, None), gs.P("x"), gs.P("x", "y")), gs.P("x")
        )(w.x, w.x, w.small),
        ArgumentError, ValueError, "argument a of shape (8, 6)", "argument c of shape (8,)",
        "one entry per axis",
    ),
    "pmap of a static argument given by name": refused(
        lambda w: gs.pmap(lambda a, k: a, static_broadcasted_argnums=1)(w.x, k=2),
        ArgumentError, ValueError, "static_broadcasted_argnums has 1", "by position",
    ),
    "pmap that gives up what is not there": refused(
        lambda w: gs.pmap(lambda a: a, donate_argnums=(0, 2))(w.x),
        ArgumentError, ValueError, "donate_argnums has 2", "1 positional",
    ),
    "pmap that gives up a static argument": refused(
        lambda w: gs.pmap(lambda a, k: a, static_broadcasted_argnums=1, donate_argnums=1)(w.x, 2),
        ArgumentError, ValueError, "both static and donated", "hold no arrays",
    ),
    "pmap that gives up an argument by name": refused(
        lambda w: gs.pmap(lambda a: a, donate_argnums="a"),
        ArgumentTypeError, TypeError, "donate_argnums='a'", "the number",
    ),
    "pmap with another shape for all processes": refused(
        lambda w: gs.pmap(lambda a: a, global_arg_shapes=((8, 6),))(w.x),
        ArgumentError, ValueError, "global_arg_shapes has (8, 6)", "the function sees (6,)",
    ),
    "pmap with no shape for all processes": refused(
        lambda w: gs.pmap(lambda a: a, global_arg_shapes=(6.5,))(w.x),
        ArgumentError, ValueError, "global_arg_shapes has 6.5", "give that shape, or None",
    ),
    "pmap lowered for too many": refused(
        lambda w: gs.pmap(lambda a: a).lower(gs.ShapeDtypeStruct((9,), "f4")),
        errors.NoDeviceError, ValueError, "9 devices, there are 8", "soft_pmap",
    ),
    "pmap compiled for another shape": refused(
        lambda w: gs.pmap(lambda a: a).lower(w.x).compile()(w.x[:, :2]),
        ArgumentTypeError, TypeError, "float32[8, 2], compiled for float32[8, 6]",
    ),
    "pmap compiled for other arguments": refused(
        lambda w: gs.pmap(lambda a: a).lower(w.x).compile()(w.x, w.x),
        ArgumentTypeError, TypeError, "compiled for", "call it as it was lowered",
    ),
    "compiled pmap in a function": refused(
        mapped(lambda a: gs.pmap(lambda b: b).lower(np.ones(4)).compile()(np.ones(4))),
        ArgumentTypeError, TypeError, "lower it", "outside",
    ),
    "tiles that do not divide": refused(
        lambda w: legacy.vtile(lambda a: a, 1, 1, 4)(w.x),
        ArgumentError, ValueError, "axis 1 of argument a", "6 elements", "4 tiles",
    ),
    "tiles of no argument": refused(
        lambda w: legacy.vtile(lambda a: a, None)(w.x),
        ArgumentError, ValueError, "no argument is cut", "tile_size=",
    ),
    "tiles of no number": refused(
        lambda w: legacy.vtile(lambda a: a, tile_size="2"),
        ArgumentTypeError, TypeError, "tile_size='2'", "positive integer",
    ),
    "groups in chunks that overlap": refused(
        lambda w: gs.soft_pmap(
            lambda a: gs.lax.psum(a, "i", axis_index_groups=[[*range(9)], [*range(8, 16)]]), "i"
        )(np.ones(16)),
        ArgumentError, ValueError, "overlap in [8]", "16 elements",
    ),
    "soft_pmap in chunks that differ": refused(
        lambda w: gs.soft_pmap(lambda a: a)(np.ones(12)),
        ArgumentError, ValueError, "12 elements", "8 devices", "pad it",
    ),
    "exception of a body": refused(
        mapped(lambda a: fail(ZeroDivisionError("mine"))()), ZeroDivisionError, ArithmeticError,
        "mine",
    ),
}  # fmt: skip

EINSUM = gs.numpy.einsum
XMAP = legacy.xmap
PARTS = legacy.Parts


def named(
    body: Any = lambda a: a, ins: Any = ("i", ...), outs: Any = ("i", ...), **more: Any
) -> Callable[..., Any]:
    """Return a function whose dim has a name."""
    as_lists = [list(axes) if isinstance(axes, tuple) else axes for axes in (ins, outs)]
    return XMAP(body, *as_lists, **more)


def on_mesh(w: World, f: Callable[..., Any], *args: Any) -> Any:
    with w.mesh:
        return f(*args)


NAMED_AXES: dict[str, Case] = {
    "xmap of a name that is there twice": refused(
        lambda w: named(ins=["i", "i"]), ArgumentError, ValueError, "names 'i' twice", "one axis"
    ),
    "xmap of a negative dim": refused(
        lambda w: named(ins={-1: "i"}), ArgumentError, ValueError, "axis -1", "count axes from 0"
    ),
    "xmap of a negative dim of results": refused(
        lambda w: named(outs={-1: "i"}), ArgumentError, ValueError, "out_axes", "axis -1"
    ),
    "xmap of no such entry": refused(
        lambda w: named(ins="i"), ArgumentTypeError, TypeError, "in_axes has 'i'", "{0: 'i'}"
    ),
    "xmap of None as an entry": refused(
        lambda w: XMAP(abs, (None, {0: "i"}), {0: "i"}),
        ArgumentTypeError,
        TypeError,
        "in_axes has None",
        "a list with a name",
    ),
    "xmap with dots that are not last": refused(
        lambda w: named(ins=[..., "i"]), ArgumentError, ValueError, "... can only be last"
    ),
    "xmap of no function": refused(
        lambda w: XMAP(3, {}, {}), ArgumentTypeError, TypeError, "xmap", "must be a function"
    ),
    "xmap of sizes that disagree": refused(
        lambda w: XMAP(lambda a, b: a, (["i", ...], ["i", ...]), ["i", ...])(w.x, w.value[:4]),
        ArgumentError,
        ValueError,
        "'i' has size 8 in axis 0 of argument a",
        "and size 4 in axis 0",
        "argument b of shape (4, 6)",
    ),
    "xmap of a size that is not what is said": refused(
        lambda w: named(axis_sizes={"i": 4})(w.x),
        ArgumentError,
        ValueError,
        "'i' has size 4 in axis_sizes, and size 8",
    ),
    "xmap of a size that is no integer": refused(
        lambda w: named(axis_sizes={"i": 2.5}), ArgumentTypeError, TypeError, "axis_sizes=2.5"
    ),
    "xmap of a negative size": refused(
        lambda w: named(axis_sizes={"i": -2}), ArgumentError, ValueError, "axis_sizes=-2", "'i'"
    ),
    "xmap of results with another name": refused(
        lambda w: named(outs=["j", ...]),
        ArgumentError,
        ValueError,
        "out_axes names ['j']",
        "['i']",
        "axis_sizes=",
    ),
    "xmap with resources for another name": refused(
        lambda w: named(axis_resources={"j": "x"}),
        ArgumentError,
        ValueError,
        "axis_resources names ['j']",
        "['i']",
    ),
    "xmap of a size that nothing gives": refused(
        lambda w: XMAP(lambda a, b: b, (["i", ...], {}), {})({}, w.x),
        ArgumentError,
        ValueError,
        "sizes of ['i'] follow from no argument",
        "axis_sizes=",
    ),
    "xmap with a resource twice for one name": refused(
        lambda w: named(axis_resources={"i": ("x", "x")}),
        ArgumentError,
        ValueError,
        "'x' twice for 'i'",
    ),
    "xmap with a resource for two names of an argument": refused(
        lambda w: on_mesh(
            w, named(ins=["i", "j"], outs=["i", "j"], axis_resources={"i": "x", "j": "x"}), w.x
        ),
        ArgumentError,
        ValueError,
        "['i', 'j'] for argument a",
        "both 'i' and 'j'",
    ),
    "xmap with a resource for two names of a result": refused(
        lambda w: on_mesh(
            w,
            XMAP(
                lambda a, b: fail(AssertionError("called"))(),
                (["i"], ["j"]),
                ["i", "j"],
                axis_resources={"i": "x", "j": "x"},
            ),
            w.value[0, :4],
            w.value[0, :4],
        ),
        ArgumentError,
        ValueError,
        "['i', 'j'] for a result",
        "both 'i' and 'j'",
    ),
    "xmap with a resource for two names of a value": refused(
        lambda w: on_mesh(
            w,
            XMAP(
                lambda a, b: gs.lax.psum(a * b, ("i", "j")),
                (["i"], ["j"]),
                [],
                axis_resources={"i": "x", "j": "x"},
            ),
            w.value[0, :4],
            w.value[0, :4],
        ),
        ArgumentError,
        ValueError,
        HERE,
        "'i': 4 and 'j': 4",
        "which share 'x'",
    ),
    "xmap over an axis that is mapped over": refused(
        lambda w: gs.shard_map(
            named(axis_resources={"i": "x"}), w.mesh, gs.P(None, "x"), gs.P(None, "x")
        )(np.ones((4, 4))),
        ArgumentError,
        ValueError,
        HERE,
        "'x': 4 and 'i': 4",
        "which share 'x'",
    ),
    "xmap with resources that are not there": refused(
        lambda w: named(axis_resources={"i": "x"})(w.x),
        ArgumentError,
        ValueError,
        "axis_resources names ['x']",
        "with mesh:",
        "serial_loop",
    ),
    "xmap of what resources do not divide": refused(
        lambda w: on_mesh(w, named(axis_resources={"i": ("x", legacy.SerialLoop(3))}), w.x),
        ArgumentError,
        ValueError,
        "'i' has 8 elements",
        "'x': 4, SerialLoop(3)",
        "12 parts",
        "pad",
    ),
    "xmap of another rank": refused(
        lambda w: named(ins=["i"])(w.x),
        ArgumentError,
        ValueError,
        "['i'] for argument a",
        "entry is for ndim=1",
        "end the list",
    ),
    "xmap of a dim beyond the rank": refused(
        lambda w: named(ins={2: "i"})(w.x),
        ArgumentError,
        ValueError,
        "'i' is axis 2",
        "ndim is 2",
    ),
    "xmap of results of another rank": refused(
        lambda w: named(outs=["i"])(w.x),
        ArgumentError,
        ValueError,
        "out_axes has ['i'] for the result",
        "entry is for ndim=1",
    ),
    "xmap that returns nothing": refused(
        lambda w: named(lambda a: None)(w.x),
        ArgumentError,
        ValueError,
        HERE,
        "returns None",
        "at least one",
    ),
    "xmap whose result has a name left over": refused(
        lambda w: named(outs=[...])(w.x),
        ArgumentError,
        ValueError,
        HERE,
        "varies along 'i', and out_axes=[Ellipsis] has no place",
        "psum(x, 'i')",
    ),
    "xmap with keyword arguments": refused(
        lambda w: named()(a=w.x), ArgumentTypeError, TypeError, "['a'] have no in_axes", "position"
    ),
    "xmap that gives up what is not there": refused(
        lambda w: named(donate_argnums=1)(w.x),
        ArgumentError,
        ValueError,
        "donate_argnums has 1",
        "1 positional",
    ),
    "xmap that gives up an argument by name": refused(
        lambda w: named(donate_argnums="a")(w.x),
        ArgumentTypeError,
        TypeError,
        "donate_argnums='a'",
        "the number",
    ),
    "pmap in xmap": refused(
        lambda w: named(lambda a: gs.pmap(abs)(a))(w.x),
        ArgumentError,
        ValueError,
        "pmap of abs in the xmap of",
        "use vmap",
    ),
    "soft_pmap in xmap": refused(
        lambda w: named(lambda a: gs.soft_pmap(abs)(a))(w.x),
        ArgumentError,
        ValueError,
        "soft_pmap of abs in the xmap of",
        "axis_resources",
    ),
    "sharded_jit in xmap": refused(
        lambda w: named(lambda a: legacy.sharded_jit(abs, None, PARTS(2))(a))(w.x),
        ArgumentError,
        ValueError,
        "sharded_jit of abs in the xmap of",
    ),
    "a sum over a loop": refused(
        lambda w: named(
            lambda a: a.sum("i"), outs=[...], axis_resources={"i": legacy.SerialLoop(2)}
        )(w.x),
        ArgumentError,
        ValueError,
        "axis_name=('i',)",
        "the loop SerialLoop(2)",
        "mesh axes",
    ),
    "a loop of no turns": refused(
        lambda w: legacy.SerialLoop(0), ArgumentError, ValueError, "length=0", "positive"
    ),
    "a loop of half a turn": refused(
        lambda w: legacy.serial_loop("l", 0.5).__enter__(),
        ArgumentTypeError,
        TypeError,
        "length=0.5",
    ),
    "a loop in one of its name": refused(
        lambda w: in_loop(lambda: legacy.serial_loop("l", 2).__enter__()),
        ArgumentError,
        ValueError,
        "name='l'",
        "another name",
    ),
    "a sum over a name that nothing has": refused(
        lambda w: named(lambda a: a.sum("j"))(w.x),
        errors.UnboundAxisError,
        NameError,
        "sum: axis_name='j' is unbound",
        "'i'",
    ),
    "a sum over a name that the value lacks": refused(
        lambda w: named(lambda a: gs.numpy.sum(gs.numpy.ones(3), axis="i") + a)(w.x),
        ArgumentError,
        ValueError,
        "axis='i' is no named axis of the value",
        "psum",
    ),
    "a sum over a name outside": refused(
        lambda w: w.x.sum("i"), ArgumentTypeError, TypeError, "axis='i' must be an integer"
    ),
    "einsum of a name that the value lacks": refused(
        lambda w: named(lambda a: EINSUM("a{j}->a", a))(w.x),
        errors.UnboundAxisError,
        NameError,
        "'j' is unbound",
    ),
    "a place of what is summed over a name": refused(
        lambda w: named(lambda a: GNP.sum(a, axis="i", out_sharding=w.named()))(w.x),
        ArgumentError,
        ValueError,
        "sum: out_sharding=NamedSharding",
        "does not go with the name of an axis; leave it out",
    ),
    "a greatest element over a name, beside another number": refused(
        lambda w: named(lambda a: GNP.max(a, axis="i", initial=0))(w.x),
        ArgumentTypeError,
        TypeError,
        "max: axis='i' must be an integer",
    ),
    "einsum that keeps a name that the value lacks": refused(
        lambda w: named(lambda a: EINSUM("a{j}->a{j}", a))(w.x),
        ArgumentError,
        ValueError,
        "has 'j' for operand 0, which has ['i']. Try: name only these",
    ),
    "einsum over chunks": refused(
        lambda w: gs.soft_pmap(lambda a: EINSUM("a{i}->a", a), "i")(w.value[[0] * 16]),
        ArgumentError,
        ValueError,
        "sums over a named axis that lies on devices in chunks. Try: use gpushard.lax.psum",
    ),
    "einsum of a name outside": refused(
        lambda w: EINSUM("a{i}->a{i}", w.x), ArgumentError, ValueError, "operand 0", "no names"
    ),
    "einsum that names what another operand has": refused(
        lambda w: named(lambda a: EINSUM("a{i},a->a", a, a))(w.x),
        ArgumentError,
        ValueError,
        "sums over 'i', which operand 1 has, too",
    ),
    "einsum with a name of the result alone": refused(
        lambda w: named(lambda a: EINSUM("a{i}->{j}", a))(w.x),
        ArgumentError,
        ValueError,
        "'j' in the result, and in no operand",
    ),
    "einsum with names and no result": refused(
        lambda w: named(lambda a: EINSUM("a{i}", a))(w.x),
        ArgumentError,
        ValueError,
        "has no result",
        "->",
    ),
    "einsum with a brace that does not close": refused(
        lambda w: named(lambda a: EINSUM("a{i->a", a))(w.x),
        ArgumentError,
        ValueError,
        "'a{i'",
        "{i,j}",
    ),
    "einsum with a name twice": refused(
        lambda w: named(lambda a: EINSUM("a{i,i}->a", a))(w.x),
        ArgumentError,
        ValueError,
        "'a{i,i}'",
        "each name once",
    ),
    "einsum with names for another number of operands": refused(
        lambda w: named(lambda a: EINSUM("a{i}->a", a, a))(w.x),
        ArgumentError,
        ValueError,
        "names 1 operands, there are 2",
    ),
    "parts that are no integers": refused(
        lambda w: PARTS(2, 0.5), ArgumentTypeError, TypeError, "counts=0.5", "integer"
    ),
    "no parts": refused(lambda w: PARTS(2, 0), ArgumentError, ValueError, "counts=0", "positive"),
    "sharded_jit of parts of different numbers": refused(
        lambda w: legacy.sharded_jit(abs, (PARTS(2, 2), None), PARTS(2, 1)),
        ArgumentError,
        ValueError,
        "Parts(2, 2)",
        "[2, 4] devices",
    ),
    "sharded_jit of another number of parts": refused(
        lambda w: legacy.sharded_jit(abs, PARTS(2), None, 4),
        ArgumentError,
        ValueError,
        "num_partitions=4",
        "2 devices",
    ),
    "sharded_jit of half a part": refused(
        lambda w: legacy.sharded_jit(abs, None, None, 0.5),
        ArgumentTypeError,
        TypeError,
        "num_partitions=0.5",
    ),
    "sharded_jit of mesh axes": refused(
        lambda w: legacy.sharded_jit(abs, gs.P("x"), None),
        ArgumentTypeError,
        TypeError,
        "in_parts=PartitionSpec('x')",
        "Parts(2, 1)",
    ),
    "sharded_jit with keyword arguments": refused(
        lambda w: legacy.sharded_jit(lambda a: a, None, None)(a=w.one),
        UnsupportedError,
        NotImplementedError,
        "['a'] have no in_parts",
        "position",
    ),
    "sharded_jit over too many devices": refused(
        lambda w: legacy.sharded_jit(lambda a: a, PARTS(16), None)(np.ones(16)),
        NoDeviceError,
        ValueError,
        "16 parts need 16 devices, there are 8",
    ),
    "sharded_jit over too many devices for each": refused(
        lambda w: gs.pmap(legacy.sharded_jit(lambda a: a, PARTS(4), None))(np.ones((4, 4))),
        NoDeviceError,
        ValueError,
        "4 parts for each of 4 need 16 devices",
    ),
    "sharded_jit of parts that do not divide": refused(
        lambda w: legacy.sharded_jit(lambda a: a, PARTS(1, 4), None)(w.value),
        ArgumentError,
        ValueError,
        "axis 1 of argument a of shape (8, 6) has 6",
        "4 equal parts",
    ),
    "sharded_jit of parts of another rank": refused(
        lambda w: legacy.sharded_jit(lambda a: a, PARTS(2), None)(w.value),
        ArgumentError,
        ValueError,
        "has 1 numbers",
        "2 axes",
    ),
    "sharded_jit whose results do not divide": refused(
        lambda w: legacy.sharded_jit(lambda a: a, None, PARTS(1, 4))(w.value),
        ArgumentError,
        ValueError,
        "axis 1 of the result has 6",
    ),
    "sharded_jit with other parts of a process": refused(
        lambda w: legacy.sharded_jit(abs, PARTS(4), None, None, PARTS(2)),
        ArgumentError,
        ValueError,
        "local_in_parts=Parts(2)",
        "leave local_in_parts out",
    ),
    "sharded_jit in one over another number of devices": refused(
        lambda w: legacy.sharded_jit(legacy.sharded_jit(abs, PARTS(2, 1), None), PARTS(4, 1), None)(
            w.value
        ),
        ArgumentError,
        ValueError,
        "is for 2 devices",
        "around it for 4",
    ),
    "a constraint by parts outside": refused(
        lambda w: legacy.with_sharding_constraint(w.x, PARTS(2, 1)),
        UnsupportedError,
        NotImplementedError,
        "within a function of sharded_jit",
        "with a sharding",
    ),
    "a constraint by another number of parts": refused(
        lambda w: legacy.sharded_jit(
            lambda a: legacy.with_sharding_constraint(a, PARTS(4, 1)), PARTS(2, 1), None
        )(w.value),
        ArgumentError,
        ValueError,
        "Parts(4, 1)",
        "for 4 devices",
        "over 2",
    ),
    "the shape of a process that does not come out": refused(
        lambda w: legacy.get_local_aval(AVAL, PARTS(1, 4), PARTS(1, 1)),
        ArgumentError,
        ValueError,
        "axis 1 of shape (8, 6)",
        "4 equal parts",
    ),
    "the shape of all processes from parts that do not divide": refused(
        lambda w: legacy.get_global_aval(AVAL, PARTS(3, 1), PARTS(2, 1)),
        ArgumentError,
        ValueError,
        "3 parts in all, and 2",
    ),
    "the shape of all processes from parts of another rank": refused(
        lambda w: legacy.get_global_aval(AVAL, PARTS(3), PARTS(2)),
        ArgumentError,
        ValueError,
        "local_parts=Parts(2)",
        "one number for each axis",
    ),
    "pjit with both names of the arguments": refused(
        lambda w: gs.pjit(abs, in_shardings=gs.P(), in_axis_resources=gs.P()),
        ArgumentError,
        ValueError,
        "in_shardings and in_axis_resources",
        "alone",
    ),
    "pjit with both names of the results": refused(
        lambda w: gs.pjit(abs, out_shardings=gs.P(), out_axis_resources=gs.P()),
        ArgumentError,
        ValueError,
        "out_shardings and out_axis_resources",
        "alone",
    ),
    "pjit without a mesh": refused(
        lambda w: gs.pjit(abs, in_axis_resources=gs.P("x"))(w.x),
        errors.NoMeshError,
        RuntimeError,
        "PartitionSpec('x') needs a mesh",
        "with mesh:",
    ),
    "pjit of an array as a global one": refused(
        lambda w: on_mesh(w, gs.pjit(lambda a: a, in_axis_resources=legacy.FROM_GDA), w.x),
        ArgumentError,
        ValueError,
        "FROM_GDA for argument a of shape (8, 6)",
        "is a Array",
    ),
    "pjit of a global array that lies otherwise": refused(
        lambda w: on_mesh(w, gs.pjit(lambda a: a, in_axis_resources=gs.P("y")), gda(w)),
        ShardingError,
        ValueError,
        "argument a",
        "give FROM_GDA",
    ),
    "pjit of results as global arguments": refused(
        lambda w: gs.pjit(abs, out_axis_resources=(None, legacy.FROM_GDA)),
        ArgumentError,
        ValueError,
        "has FROM_GDA, which is for arguments",
        "give specs",
    ),
    "pjit with a static argument that is given up": refused(
        lambda w: gs.pjit(lambda a, k: a, static_argnums=1, donate_argnums=1),
        ArgumentError,
        ValueError,
        "both static and donated",
    ),
}


def in_loop(f: Callable[[], Any]) -> Any:
    with legacy.serial_loop("l", 2):
        return f()


def traced_product(x: Any, n: Any) -> Any:
    return x * n


def of_rows(x: Any) -> Any:
    return x.sum()


def jitted(body: Callable[[Any], Any], **how: Any) -> Callable[[World], Any]:
    """Return a call of `jit` of a body of one argument."""
    return lambda w: gs.jit(body, **how)(w.x)


def with_options(**how: Any) -> Callable[[World], Any]:
    """Return a call of `jit` that should refuse its options."""
    return lambda w: gs.jit(traced_product, **how)


def compiled(body: Callable[[Any], Any], *args: Any, **named: Any) -> Callable[[World], Any]:
    """Return a call of what was compiled for `w.x`, with other arguments."""
    return lambda w: (
        gs.jit(body)
        .lower(w.x)
        .compile()(*[arg(w) if callable(arg) else arg for arg in args], **named)
    )


TRACED_FUNCTIONS: dict[str, Case] = {
    "jit of no function": refused(
        lambda w: gs.jit(3), ArgumentTypeError, TypeError, "jit: f=3", "function"
    ),
    "values of a function of any arguments on two devices": refused(
        lambda w: gs.jit(lambda n, *a, **k: a, static_argnums=0)(3, w.one, w.parts[0], z=w.scalar),
        ShardingError, ValueError, "argument a[0] of shape (8, 6)", "argument a[1] of shape (2, 3)",
    ),
    "values by name on two devices": refused(
        lambda w: gs.jit(lambda *a, **k: a)(w.one, z=w.parts[0]),
        ShardingError, ValueError, "argument a[0] of shape (8, 6)", "argument z of shape (2, 3)",
    ),
    "static number beyond": refused(
        with_options(static_argnums=2), ArgumentError, ValueError,
        "static_argnums has 2", "2 positional", "count from 0",
    ),
    "static number before": refused(
        with_options(static_argnums=(-3,)), ArgumentError, ValueError, "static_argnums has -3"
    ),
    "static number that is none": refused(
        with_options(static_argnums="n"), ArgumentTypeError, TypeError,
        "static_argnums='n'", "integer",
    ),
    "static number that is a float": refused(
        with_options(static_argnums=(1.0,)), ArgumentTypeError, TypeError, "static_argnums=(1.0,)"
    ),
    "static number that is a boolean": refused(
        with_options(static_argnums=True), ArgumentTypeError, TypeError, "static_argnums=True"
    ),
    "static name that is unknown": refused(
        with_options(static_argnames=("n", "k")), ArgumentError, ValueError,
        "static_argnames has 'k'", "n, x",
    ),
    "static name that is a number": refused(
        with_options(static_argnames=1), ArgumentTypeError, TypeError, "static_argnames=1", "name"
    ),
    "static names of which one is a number": refused(
        with_options(static_argnames=["n", 1]), ArgumentTypeError, TypeError, "static_argnames="
    ),
    "static name without names": refused(
        lambda w: gs.jit(lambda *args: args, static_argnames="a"), ArgumentError, ValueError,
        "static_argnames has 'a'", "no arguments with names",
    ),
    "static name by position only": refused(
        lambda w: gs.jit(lambda a, /, b: a, static_argnames="a"), ArgumentError, ValueError,
        "static_argnames has 'a'", "b. Try: use",
    ),
    "donated number beyond": refused(
        with_options(donate_argnums=(0, 5)), ArgumentError, ValueError, "donate_argnums has 5"
    ),
    "donated name that is unknown": refused(
        with_options(donate_argnames="k"), ArgumentError, ValueError, "donate_argnames has 'k'"
    ),
    "donated number that is none": refused(
        with_options(donate_argnums=[None]), ArgumentTypeError, TypeError, "donate_argnums=[None]"
    ),
    "static and donated": refused(
        with_options(static_argnums=1, donate_argnums=-1), ArgumentError, ValueError,
        "both static and donated", "leave them out",
    ),
    "static by name and donated by number": refused(
        with_options(static_argnames="n", donate_argnums=1), ArgumentError, ValueError,
        "['1', 'n'] are both",
    ),
    "static without a hash": refused(
        lambda w: gs.jit(traced_product, static_argnums=1)(w.x, [2]), ArgumentError, ValueError,
        "static argument 1 is a list", "no hash", "tuple",
    ),
    "static by name without a hash": refused(
        lambda w: gs.jit(traced_product, static_argnames="n")(w.x, n=w.value),
        ArgumentError, ValueError, "static argument 'n' is a ndarray",
    ),
    "static array": refused(
        lambda w: gs.jit(traced_product, static_argnums=0)(w.x, 2), ArgumentError, ValueError,
        "static argument 0 is a Array", "leave it out of static_argnums",
    ),
    "device and backend": refused(
        lambda w: gs.jit(traced_product, device=w.devices[0], backend="cpu"),
        ArgumentError, ValueError, "device and backend", "one of them",
    ),
    "device and in_shardings": refused(
        lambda w: gs.jit(of_rows, device=w.devices[0], in_shardings=w.named()),
        ArgumentError, ValueError, "device and in_shardings",
    ),
    "backend and out_shardings": refused(
        lambda w: gs.jit(of_rows, backend="cpu", out_shardings=w.named()),
        ArgumentError, ValueError, "backend and out_shardings",
    ),
    "device that is none": refused(
        with_options(device="cpu:0"), ArgumentTypeError, TypeError, "device='cpu:0'", "devices()"
    ),
    "backend that is not there": refused(
        with_options(backend="tpu"), NoDeviceError, RuntimeError, "backend='tpu'", "there are cpu"
    ),
    "backend that is no name": refused(
        with_options(backend=1), ArgumentTypeError, TypeError, "backend=1", '"cpu"'
    ),
    "option of a compiler": refused(
        with_options(compiler_options={"fast": 1}), ArgumentError, ValueError,
        "compiler_options has ['fast']", "leave it out",
    ),
    "options that are no dict": refused(
        with_options(compiler_options="fast"), ArgumentTypeError, TypeError,
        "compiler_options='fast'", "dict",
    ),
    "abstracted axes": refused(
        with_options(abstracted_axes={0: "n"}), ArgumentError, ValueError, "abstracted_axes", "None"
    ),
    "argument that is text": refused(
        lambda w: gs.jit(traced_product)(w.x, "2"), ArgumentTypeError, TypeError,
        "argument n is a str", HERE,
    ),
    "argument in a tree": refused(
        lambda w: gs.jit(lambda tree: tree)({"a": [w.x, object()]}), ArgumentTypeError, TypeError,
        "argument tree['a'][1] is a object",
    ),
    "result that is text": refused(
        jitted(lambda x: {"a": "text"}), ArgumentTypeError, TypeError, "the result['a'] is a str"
    ),
    "generator": refused(
        jitted(lambda x: (y for y in x)), ArgumentTypeError, TypeError, "the result is a generator"
    ),
    "deleted argument": refused(
        lambda w: gs.jit(of_rows)(w.gone), DeletedArrayError, RuntimeError, "was deleted"
    ),
    "deleted array of outside": refused(
        lambda w: gs.jit(lambda x: x + w.gone)(w.x), DeletedArrayError, RuntimeError, "was deleted"
    ),
    "if": refused(
        jitted(lambda x: x if x.sum() > 0 else -x), errors.TracedBoolError, TypeError,
        "argument x of shape (8, 6)", HERE, "where",
    ),
    "and": refused(
        jitted(lambda x: (x[0, 0] > 0) and 1), errors.TracedBoolError, TypeError, "bool(", HERE
    ),
    "in": refused(
        jitted(lambda x: 3.0 in x), errors.TracedBoolError, TypeError, "argument x", HERE
    ),
    "sorted": refused(
        jitted(lambda x: sorted(x[0])), errors.TracedBoolError, TypeError, "argument x", HERE
    ),
    "list index": refused(
        jitted(lambda x: [1, 2][x[0, 0].astype(int)]), errors.TracedIntegerError, TypeError, HERE
    ),
    "size": refused(
        jitted(lambda x: gs.numpy.zeros(x[0, 0].astype(int))), errors.TracedIntegerError,
        TypeError, "Python's integers",
    ),
    "bound of a slice": refused(
        jitted(lambda x: x[: x[0, 0].astype(int)]), errors.TracedIntegerError, TypeError, HERE
    ),
    "mask": refused(
        jitted(lambda x: x[x > 3]), errors.ConcretizationError, TypeError, "size=", HERE
    ),
    "data of a traced array": refused(
        jitted(lambda x: np.linalg.inv(np.asarray(x))), errors.TracedArrayError, TypeError, HERE
    ),
    "copy to the host": refused(
        jitted(gs.device_get), errors.ConcretizationError, TypeError, "copy to the host", HERE
    ),
    "assignment to an array of outside": refused(
        lambda w: gs.jit(lambda v: w.x.__setitem__(0, v))(1.0), errors.TracedValueError, TypeError,
        "an array from outside", "argument v", HERE, ".at[index].set",
    ),
    "assignment to a value of the function around": refused(
        jitted(lambda x: gs.lax.fori_loop(0, 2, lambda i, c: x.__setitem__(0, c) or c, 0.0)),
        errors.TracedValueError, TypeError, "of the one around it", "argument x", HERE,
    ),
    "shapes that do not fit": refused(
        jitted(lambda x: x + gs.numpy.ones(5)), ArgumentError, ValueError, "broadcast"
    ),
    "exception of a traced function": refused(
        jitted(fail(KeyError("mine"))), KeyError, LookupError, "mine"
    ),
    "eval_shape of no function": refused(
        lambda w: gs.eval_shape(3, w.x), ArgumentTypeError, TypeError, "eval_shape: f=3"
    ),
    "eval_shape of text": refused(
        lambda w: gs.eval_shape(lambda x: x, "a"), ArgumentTypeError, TypeError, "argument x is a"
    ),
    "eval_shape of a condition": refused(
        lambda w: gs.eval_shape(lambda x: 1 if x else 2, SCALAR), errors.TracedBoolError,
        TypeError, "argument x", HERE,
    ),
    "make_jaxpr of no function": refused(
        lambda w: gs.make_jaxpr(None), ArgumentTypeError, TypeError, "make_jaxpr: f=None"
    ),
    "make_jaxpr, static number": refused(
        lambda w: gs.make_jaxpr(of_rows, static_argnums=1), ArgumentError, ValueError,
        "static_argnums has 1",
    ),
    "make_jaxpr, static without a hash": refused(
        lambda w: gs.make_jaxpr(traced_product, static_argnums=1)(w.x, {}), ArgumentError,
        ValueError, "is a dict",
    ),
    "name that is no text": refused(
        lambda w: gs.named_scope(3), ArgumentTypeError, TypeError, "named_scope: name=3", "string"
    ),
    "typeof of text": refused(
        lambda w: gs.typeof("a"), ArgumentTypeError, TypeError, "typeof: x is a str"
    ),
    "lowered with text": refused(
        lambda w: gs.jit(of_rows).lower("a"), ArgumentTypeError, TypeError, "argument x is a str"
    ),
    "lowered for nowhere": refused(
        lambda w: gs.jit(of_rows).trace(w.x).lower(lowering_platforms=("tpu",)), ArgumentError,
        ValueError, "lowering_platforms", "cpu or gpu",
    ),
    "lowered within": refused(
        jitted(lambda x: gs.jit(of_rows).lower(x)), ArgumentTypeError, TypeError, "outside"
    ),
    "unknown dialect": refused(
        lambda w: gs.jit(of_rows).lower(w.x).compiler_ir("hlo"), ArgumentError, ValueError,
        "dialect='hlo'", "gpushard",
    ),
    "unknown option": refused(
        lambda w: gs.jit(of_rows).lower(w.x).compile({"fast": 1}), ArgumentError, ValueError, "fast"
    ),
    "compiled, another tree": refused(
        compiled(of_rows, lambda w: (w.x,)), ArgumentTypeError, TypeError, "compiled for"
    ),
    "compiled, by name": refused(
        compiled(of_rows, x=1.0), ArgumentTypeError, TypeError, "compiled for"
    ),
    "compiled, too many": refused(
        compiled(of_rows, lambda w: w.x, 2), ArgumentTypeError, TypeError, "compiled for"
    ),
    "compiled, another shape": refused(
        compiled(of_rows, lambda w: w.x[:4]), ArgumentTypeError, TypeError, "float32[4, 6]",
        "float32[8, 6]",
    ),
    "compiled, another type": refused(
        compiled(of_rows, lambda w: w.x.astype(int)), ArgumentTypeError, TypeError, "int64[8, 6]"
    ),
    "compiled, elsewhere": refused(
        compiled(of_rows, lambda w: w.one), ShardingError, ValueError, "elsewhere", "reshard"
    ),
    "compiled, within": refused(
        lambda w: gs.jit(gs.jit(of_rows).lower(w.x).compile())(w.x), ArgumentTypeError, TypeError,
        "within a traced or mapped function",
    ),
}  # fmt: skip

LOOPS: dict[str, Case] = {
    "jit of a place without a hash": wrong(
        lambda w: gs.jit(abs, in_shardings={1})(w.value),
        "in_shardings={1}", "gpushard.devices()", error=ArgumentTypeError,
        argument="in_shardings",
    ),
    "cond of an operand beside others": wrong(
        lambda w: gs.lax.cond(True, abs, abs, 1, operand=2),
        "cond: operand= was given next to 1 positional operand",
        "by position",
        error=ArgumentTypeError,
        argument="operand",
    ),
    "switch of an operand beside others": wrong(
        lambda w: gs.lax.switch(0, [max], 1, 3, operand=2),
        "switch: operand= was given next to 2 positional operand",
        error=ArgumentTypeError,
        argument="operand",
    ),
    "cond without functions": refused(
        lambda w: gs.lax.cond(True, 1, 2), ArgumentTypeError, TypeError, "cond: f=1", "function"
    ),
    "cond of an array": refused(
        lambda w: gs.lax.cond(w.x > 0, of_rows, of_rows, w.x), ArgumentTypeError, TypeError,
        "cond: pred is bool[8, 6]", "scalar", "Try: numpy.where",
    ),
    "cond of text": refused(
        lambda w: gs.lax.cond("yes", of_rows, of_rows, w.x), ArgumentTypeError, TypeError,
        "cond: pred", "str",
    ),
    "cond of a complex number": refused(
        lambda w: gs.lax.cond(1j, of_rows, of_rows, w.x), ArgumentTypeError, TypeError, "boolean"
    ),
    "branches of two shapes": refused(
        lambda w: gs.lax.cond(True, lambda x: x, of_rows, w.x), ArgumentTypeError, TypeError,
        "float32[8, 6]", "float32[]", "the same structure",
    ),
    "branches of two types": refused(
        lambda w: gs.lax.cond(True, of_rows, lambda x: x.sum().astype(int), w.x),
        ArgumentTypeError, TypeError, "int64[]", "float32[]",
    ),
    "branches of two structures": refused(
        lambda w: gs.lax.cond(True, of_rows, lambda x: (x.sum(),), w.x), ArgumentTypeError,
        TypeError, "(float32[],)",
    ),
    "branch that gives text": refused(
        lambda w: gs.lax.cond(True, lambda: "a", lambda: "b"), ArgumentTypeError, TypeError, "str"
    ),
    "branch that looks": refused(
        lambda w: gs.lax.cond(True, lambda x: x if x.sum() > 0 else -x, lambda x: x, w.x),
        errors.TracedBoolError, TypeError, HERE, "where",
    ),
    "switch without branches": refused(
        lambda w: gs.lax.switch(0, [], w.x), ArgumentError, ValueError, "branches is empty"
    ),
    "switch by a float": refused(
        lambda w: gs.lax.switch(0.5, [of_rows], w.x), ArgumentTypeError, TypeError,
        "switch: index is float64[]", "integer",
    ),
    "switch by an array": refused(
        lambda w: gs.lax.switch(w.small, [of_rows, of_rows], w.x), ArgumentTypeError, TypeError,
        "int8[8]",
    ),
    "switch of numbers": refused(
        lambda w: gs.lax.switch(0, [1, 2]), ArgumentTypeError, TypeError, "switch: f=1"
    ),
    "while_loop without a condition": refused(
        lambda w: gs.lax.while_loop(None, of_rows, w.x), ArgumentTypeError, TypeError,
        "while_loop: f=None",
    ),
    "condition that is a number": refused(
        lambda w: gs.lax.while_loop(of_rows, lambda x: x, w.x), ArgumentTypeError, TypeError,
        "returns float32[]", "boolean scalar",
    ),
    "condition with dims": refused(
        lambda w: gs.lax.while_loop(lambda x: x > 0, lambda x: x, w.x), ArgumentTypeError,
        TypeError, "returns bool[8, 6]",
    ),
    "condition in a tuple": refused(
        lambda w: gs.lax.while_loop(lambda x: (True,), lambda x: x, w.x), ArgumentTypeError,
        TypeError, "returns (bool[],)",
    ),
    "carry of another shape": refused(
        lambda w: gs.lax.while_loop(lambda x: True, of_rows, w.x), ArgumentTypeError, TypeError,
        "returns float32[]", "is float32[8, 6]",
    ),
    "bound that is a float": refused(
        lambda w: gs.lax.fori_loop(0, 2.5, lambda i, c: c, w.x), ArgumentTypeError, TypeError,
        "fori_loop: upper is float64[]",
    ),
    "bound that is text": refused(
        lambda w: gs.lax.fori_loop("0", 2, lambda i, c: c, w.x), ArgumentTypeError, TypeError,
        "fori_loop: lower", "str",
    ),
    "carry of another structure": refused(
        lambda w: gs.lax.fori_loop(0, 2, lambda i, c: (c, c), w.x), ArgumentTypeError, TypeError,
        "(float32[8, 6], float32[8, 6])",
    ),
    "fori_loop of bounds of two types": refused(
        lambda w: gs.lax.fori_loop(np.int16(0), np.int8(10), lambda i, c: c, w.x),
        ArgumentTypeError, TypeError, "lower is int16 and upper is int8", "astype",
    ),
    "fori_loop to what is never reached": refused(
        lambda w: gs.lax.fori_loop(np.int8(0), 300, lambda i, c: c, w.x),
        ArgumentRangeError, OverflowError, "upper=300", "int8",
    ),
    "fori_loop unrolled by less than nothing": refused(
        lambda w: gs.lax.fori_loop(0, 2, lambda i, c: c, w.x, unroll=-1), ArgumentError,
        ValueError, "fori_loop: unroll=-1", "0 or more",
    ),
    "scan without a pair": refused(
        lambda w: gs.lax.scan(lambda c, x: c, 0.0, w.x), ArgumentTypeError, TypeError, "pair"
    ),
    "scan of two lengths": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, (w.x, w.x[1:])), ArgumentError, ValueError,
        "float32[8, 6], float32[7, 6]", "same length",
    ),
    "scan of no length": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0), ArgumentError, ValueError, "length="
    ),
    "scan of another length": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, w.x, length=3), ArgumentError, ValueError,
        "length=3",
    ),
    "scan of a number": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, w.scalar), ArgumentError, ValueError,
        "float64[]",
    ),
    "length that is a float": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, length=2.5), ArgumentTypeError, TypeError,
        "length=2.5", "integer",
    ),
    "negative length": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, length=-1), ArgumentError, ValueError,
        "length=-1",
    ),
    "scan unrolled by text": refused(
        lambda w: gs.lax.scan(lambda c, x: (c, x), 0.0, w.x, unroll="all"), ArgumentError,
        ValueError, "scan: unroll='all'",
    ),
    "map in batches of nothing": refused(
        lambda w: gs.lax.map(lambda x: x, w.x, batch_size=0), ArgumentError, ValueError,
        "map: batch_size=0",
    ),
    "map of text": refused(
        lambda w: gs.lax.map(lambda x: x, "abc"), ArgumentTypeError, TypeError, "str"
    ),
    "associative_scan beyond": refused(
        lambda w: gs.lax.associative_scan(gs.numpy.add, w.x, axis=2), ArgumentError, ValueError,
        "axis=2", "(8, 6)",
    ),
    "loop of a deleted array": refused(
        lambda w: gs.lax.fori_loop(0, 2, lambda i, c: c, w.gone), DeletedArrayError, RuntimeError,
        "was deleted",
    ),
}  # fmt: skip


def lax(name: str, *args: Any, **how: Any) -> Callable[[World], Any]:
    """Return a call of a function of `lax` on an array of shape (8, 6), of float32."""
    return lambda w: getattr(gs.lax, name)(w.x, *args, **how)


LAX: dict[str, Case] = {
    "dtypes differ": refused(
        lambda w: gs.lax.add(w.x, w.x.astype(int)),
        ArgumentTypeError, TypeError, "one dtype", "float32, int64", "convert_element_type",
    ),
    "a fraction beside integers": refused(
        lambda w: gs.lax.mul(w.small, 0.5), ArgumentTypeError, TypeError, "one dtype", "int8, float"
    ),
    "numbers of dims differ": refused(
        lambda w: gs.lax.add(w.x, w.x[0]), ArgumentError, ValueError, "(8, 6), (6,)", "expand_dims"
    ),
    "sin of integers": refused(
        lambda w: gs.lax.sin(w.small), ArgumentTypeError, TypeError, "does not take int8"
    ),
    "bits of floats": refused(
        lax("bitwise_not"), ArgumentTypeError, TypeError, "does not take float32"
    ),
    "complex numbers of half precision": refused(
        lambda w: gs.lax.complex(w.x.astype("f2"), w.x.astype("f2")),
        ArgumentTypeError, TypeError, "lax.complex does not take float16", "convert_element_type",
    ),
    "integers to a negative power": refused(
        lambda w: gs.lax.integer_pow(w.small, -1), ArgumentTypeError, TypeError, "y=-1", "int8"
    ),
    "clamp to bounds of another shape": refused(
        lambda w: gs.lax.clamp(w.x[0], w.x, w.x), ArgumentError, ValueError, "min of shape (6,)"
    ),
    "select of another shape": refused(
        lambda w: gs.lax.select(w.x[0] > 0, w.x, w.x), ArgumentError, ValueError, "which of shape"
    ),
    "three cases for booleans": refused(
        lambda w: gs.lax.select_n(w.x > 0, w.x, w.x, w.x), ArgumentError, ValueError, "two cases"
    ),
    "bits of a larger type": refused(
        lax("bitcast_convert_type", np.complex128), ArgumentError, ValueError, "(4,)"
    ),
    "an unknown way to round": refused(
        lax("round", 7), ArgumentError, ValueError, "rounding_method=7"
    ),
    "dims of a broadcast": refused(
        lax("broadcast_in_dim", (8, 6, 2), (1, 0)), ArgumentError, ValueError, "ascending"
    ),
    "a rank that is too small": refused(
        lax("broadcast_to_rank", 1), ArgumentError, ValueError, "rank=1", "ndim=2"
    ),
    "dims that end before they begin": refused(
        lax("collapse", 2, 1), ArgumentError, ValueError, "stop_dimension=1", "start_dimension=2"
    ),
    "nothing to join": refused(
        lambda w: gs.lax.concatenate([], 0), ArgumentError, ValueError, "operands is empty"
    ),
    "positions that are booleans": refused(
        lambda w: gs.lax.iota(bool, 3), ArgumentTypeError, TypeError, "dtype=dtype('bool')", "int8"
    ),
    "parts that are not all": refused(
        lax("split", (1, 2)), ArgumentError, ValueError, "sizes=(1, 2)", "sum to 8, the length"
    ),
    "padding of too few dims": refused(
        lax("pad", 0.0, [(1, 1, 0)]), ArgumentError, ValueError, "2 triples"
    ),
    "padding that leaves less than nothing": refused(
        lax("pad", 0.0, [(-5, -5, 0), (0, 0, 0)]), ArgumentError, ValueError, "(-2, 6)"
    ),
    "a slice beyond the array": refused(
        lax("slice", (0, 0), (8, 7)), ArgumentError, ValueError, "limit 7", "length 6"
    ),
    "an index beyond the array": refused(
        lax("index_in_dim", 8), ArgumentError, ValueError, "index=8", "8 elements"
    ),
    "places for too many dims": refused(
        lambda w: gs.lax.index_take(w.x, ([0], [1]), (0,)),
        ArgumentError, ValueError, "must have 1 vectors",
    ),
    "a window larger than the array": refused(
        lax("dynamic_slice", (0, 0), (9, 1)), ArgumentError, ValueError, "(9, 1)", "(8, 6)"
    ),
    "too few places": refused(
        lax("dynamic_slice", (0,), (1, 1)), ArgumentError, ValueError, "must have 2"
    ),
    "places that are no integers": refused(
        lambda w: gs.lax.dynamic_slice(w.x, (w.scalar, 0), (1, 1)),
        ArgumentTypeError, TypeError, "scalar integers", "float64",
    ),
    "an update of another dtype": refused(
        lambda w: gs.lax.dynamic_update_slice(w.x, w.small.reshape(8, 1), (0, 0)),
        ArgumentTypeError, TypeError, "one dtype",
    ),
    "gather by dims that do not fit": refused(
        lambda w: gs.lax.gather(
            w.x, np.zeros((3, 1), int), gs.lax.GatherDimensionNumbers((), (0,), (0,)), (1, 6)
        ),
        ArgumentError, ValueError, "do not fit an operand of shape (8, 6)",
    ),
    "updates of another shape": refused(
        lambda w: gs.lax.scatter_add(
            w.x, np.zeros((3, 1), int), w.x, gs.lax.ScatterDimensionNumbers((1,), (0,), (0,))
        ),
        ArgumentError, ValueError, "updates of shape (8, 6)", "(3, 6)",
    ),
    **{
        f"gather, {name}": refused(
            lambda w, numbers=numbers, sizes=sizes: gs.lax.gather(
                w.x, np.zeros((8, 3, 1), int), gs.lax.GatherDimensionNumbers(*numbers), sizes
            ),
            ArgumentError, ValueError, "lax.gather", *words,
        )
        for name, numbers, sizes, *words in (
            ("a dim of windows beyond", ((3,), (0,), (0,)), (1, 6), "offset_dims=(3,)", "to 2"),
            ("dims of windows out of order", ((3, 2), (), (0,)), (1, 6), "in order"),
            ("collapsed dims out of order", ((), (1, 0), (0,)), (1, 1), "in order"),
            ("a dim collapsed twice", ((2,), (0, 0), (0,)), (1, 6), "each once"),
            ("a dim collapsed that there is not", ((2,), (2,), (0,)), (1, 6), "from 0 to 1"),
            ("a negative dim", ((2,), (-1,), (0,)), (1, 6), "collapsed_slice_dims=(-1,)"),
            ("indices along no dim", ((2,), (0,), (2,)), (1, 6), "start_index_map=(2,)"),
            ("more than one collapsed", ((2,), (0,), (0,)), (2, 6), "slice_sizes=(2, 6)"),
            ("batched dims without partners", ((2,), (), (1,), (0,)), (1, 1), "pairs of axes"),
            ("batched dims of two lengths", ((2,), (), (1,), (0,), (1,)), (1, 1), "[8]", "[3]"),
            ("batched and collapsed", ((2,), (0,), (1,), (0,), (0,)), (1, 1), "both name axes"),
            ("batched and indexed", ((2,), (), (0,), (0,), (0,)), (1, 1), "both name axes [0]"),
        )
    },
    "dimension numbers that are none": refused(
        lambda w: gs.lax.gather(w.x, np.zeros((3, 1), int), 5, (1, 6)),
        ArgumentTypeError, TypeError, "dimension_numbers=5", "GatherDimensionNumbers(...)",
    ),
    "dimension numbers of text": refused(
        lambda w: gs.lax.gather(
            w.x, np.zeros((3, 1), int), gs.lax.GatherDimensionNumbers("a", (0,), (0,)), (1, 6)
        ),
        ArgumentTypeError, TypeError, "offset_dims='a'", "integers",
    ),
    "scatter, a dim of windows beyond": refused(
        lambda w: gs.lax.scatter(
            w.x, np.zeros((3, 1), int), w.x, gs.lax.ScatterDimensionNumbers((5,), (0,), (0,))
        ),
        ArgumentError, ValueError, "lax.scatter", "update_window_dims=(5,)", "from 0 to 1",
    ),
    "scatter, updates of another rank": refused(
        lambda w: gs.lax.scatter(
            w.x, np.zeros((3, 1), int), w.x[0], gs.lax.ScatterDimensionNumbers((1,), (0,), (0,))
        ),
        ArgumentError, ValueError, "updates of shape (6,)", "ndim=2",
    ),
    "positions as floats": refused(
        lax("argmax", 0, np.float32), ArgumentTypeError, TypeError, "index_dtype=", "int32"
    ),
    "positions as booleans": refused(
        lax("argmin", 0, bool), ArgumentTypeError, TypeError, "lax.argmin: index_dtype="
    ),
    "conjugates of half precision": refused(
        lambda w: gs.lax.conj(w.x.astype("e")), ArgumentTypeError, TypeError, "lax.conj", "float16"
    ),
    "an unknown mode": refused(
        lambda w: gs.lax.gather(
            w.x, np.zeros((3, 1), int), gs.lax.GatherDimensionNumbers((1,), (0,), (0,)), (1, 6),
            mode="soft",
        ),
        ArgumentError, ValueError, "mode='soft'",
    ),
    "a sum of booleans": refused(
        lambda w: gs.lax.reduce_sum(w.x > 0, (0,)), ArgumentTypeError, TypeError, "take bool"
    ),
    "reduced along no dim": refused(
        lax("reduce_max", (2,)), errors.AxisError, IndexError, "axes"
    ),
    "more than there are": refused(
        lax("top_k", 7), ArgumentError, ValueError, "k=7", "6 elements"
    ),
    "more keys than arrays": refused(
        lax("sort", num_keys=2), ArgumentError, ValueError, "num_keys=2"
    ),
    "an unknown function of windows": refused(
        lax("reduce_window", 0.0, np.hypot, (1, 2)), ArgumentError, ValueError, "computation="
    ),
    "a window of too few dims": refused(
        lax("reduce_window", 0.0, np.add, (2,)), ArgumentError, ValueError, "must have 2 integers"
    ),
    "summed dims of other lengths": refused(
        lambda w: gs.lax.dot(w.x, w.x), ArgumentError, ValueError, "(8, 6) and (8, 6)"
    ),
    "a product of more dims than two": refused(
        lambda w: gs.lax.dot(w.x[None], w.x.T), ArgumentError, ValueError,
        "operands with ndim=3 and ndim=2 need dimension_numbers=",
    ),
    "a tuple that a function of two arrays reduces": refused(
        lambda w: gs.lax.reduce((w.x,), (0.0,), gs.lax.add, (0,)), ArgumentTypeError, TypeError,
        "add got a tuple",
    ),
    "features that do not come in groups": refused(
        lambda w: gs.lax.conv_general_dilated(
            w.x.reshape(2, 4, 6), w.x[:3, :4].reshape(3, 2, 2), (1,), "VALID",
            feature_group_count=2,
        ), ArgumentError, ValueError, "do not fit feature_group_count=2",
    ),
    "dims of a convolution of which one text is short": refused(
        lambda w: gs.lax.conv_dimension_numbers((1,) * 4, (1,) * 4, ("NHWC", "HWI", "NHWC")),
        ArgumentError, ValueError, "dimension_numbers=('NHWC', 'HWI', 'NHWC')", "4 letters",
    ),
    "numbers that are no dims": refused(
        lambda w: gs.lax.dot_general(w.x, w.x, 3), ArgumentError, ValueError, "dimension_numbers=3"
    ),
    "an unknown transform": refused(
        lax("fft", "DCT", (6,)), ArgumentError, ValueError, "fft_type='DCT'"
    ),
    "features that do not fit": refused(
        lambda w: gs.lax.conv(w.x[None], w.x[:, :5, None], (1,), "VALID"),
        ArgumentError, ValueError, "8 features of lhs", "feature_group_count=1",
    ),
    "letters that do not fit": refused(
        lambda w: gs.lax.conv_general_dilated(
            w.x[None], w.x[None], (1,), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        ArgumentError, ValueError, "three strings of 3 letters",
    ),
    "named padding of elements that are apart": refused(
        lambda w: gs.lax.conv_general_dilated(w.x[None], w.x[None], (1,), "SAME", (2,)),
        ArgumentError, ValueError, "padding='SAME'", "give pairs",
    ),
    "unknown padding": refused(
        lambda w: gs.lax.conv(w.x[None], w.x[None], (1,), "HALF"),
        ArgumentError, ValueError, "'HALF'", "SAME",
    ),
}  # fmt: skip


HUGE: dict[str, Case] = {
    "one integer for dims": Case(
        lambda w: gs.lax.rev(w.x, 0),
        ArgumentTypeError, TypeError, ("lax.rev: dimensions=0", "sequence of integers"),
        {"argument": "dimensions"},
    ),
    "one integer for the axes of a sum": refused(
        lambda w: gs.lax.reduce_sum(w.x, 0),
        ArgumentTypeError, TypeError, "lax.reduce_sum: axes=0", "sequence of integers",
    ),
    "one integer for where a window begins": refused(
        lambda w: gs.lax.dynamic_slice(w.x, 1, (2, 2)),
        ArgumentTypeError, TypeError, "lax.dynamic_slice: start_indices=1", "sequence of integers",
    ),
    "triples of padding that are none": refused(
        lambda w: gs.lax.pad(w.x, np.float32(0), 1),
        ArgumentTypeError, TypeError, "lax.pad: padding_config=1", "triples",
    ),
    "letters of a convolution that are integers": refused(
        lambda w: gs.lax.conv_dimension_numbers((1, 1, 3), (1, 1, 3), [(0, 1, 2)] * 3),
        ArgumentTypeError, TypeError, "dimension_numbers=", "strings of letters",
    ),
    "a place that is a tuple": refused(
        lambda w: gs.lax.slice_in_dim(w.x, (1,), 2),
        ArgumentTypeError, TypeError, "lax.slice_in_dim: start_index=(1,)", "integer",
    ),
    "one branch": refused(
        lambda w: gs.lax.switch(0, 5), ArgumentTypeError, TypeError, "switch: branches=5",
        "sequence of functions",
    ),
    "more dims than arrays have": Case(
        lambda w: gs.lax.broadcast_to_rank(w.x, 1 << 40),
        ArgumentError, ValueError, (f"lax.broadcast_to_rank: rank={1 << 40}", "64 axes", "fewer"),
        {"argument": "rank", "most": 64},
    ),
    "more dims than arrays have, at least": refused(
        lambda w: GNP.array([1], ndmin=65), ArgumentError, ValueError, "array: ndmin=65", "64 axes",
    ),
    "a shape of more dims than arrays have": refused(
        lambda w: GNP.zeros((1,) * 65), ArgumentError, ValueError, "ndim=65", "64", "fewer",
    ),
    "more classes than elements of an array": Case(
        lambda w: gs.nn.one_hot([1], 1 << 62),
        ArgumentError, ValueError, (f"one_hot: num_classes={1 << 62}", "2**58", "smaller"),
        {"argument": "num_classes"},
    ),
    "classes that the host has no room for": Case(
        lambda w: gs.nn.one_hot([1], 1 << 57),
        OutOfMemoryError, MemoryError, ("one_hot", "no room", "smaller sizes"),
        {"operation": "one_hot"},
    ),
    "a diagonal that the host has no room for": refused(
        lambda w: GNP.diag_indices(1 << 57),
        OutOfMemoryError, MemoryError, "diag_indices", "no room",
    ),
    "a triangle of more elements than arrays have": refused(
        lambda w: GNP.tril_indices(1 << 40),
        ArgumentError, ValueError, f"tril_indices: n={1 << 40}", "2**58", "smaller",
    ),
    "a length that the host has no room for": refused(
        lambda w: GNP.repeat(w.x, 2, total_repeat_length=1 << 58),
        OutOfMemoryError, MemoryError, "repeat", "no room",
    ),
    "more numbers than an iterator gives": Case(
        lambda w: GNP.fromiter(range(3), int, 1 << 40),
        ArgumentError, ValueError, (f"fromiter: count={1 << 40}", "3 numbers", "-1 for all"),
        {"argument": "count"},
    ),
    "an iterator of no numbers": refused(
        lambda w: GNP.fromiter(["one"], int),
        ArgumentTypeError, TypeError, "fromiter: iter", "int64",
    ),
    "decimals beyond 32 bits": Case(
        lambda w: GNP.round(w.x, 1 << 40),
        ArgumentRangeError, OverflowError, (f"round: decimals={1 << 40}", "32 bits", "2**31"),
        {"argument": "decimals"},
    ),
    "a filling position beyond 64 bits": refused(
        lambda w: GNP.nonzero(w.x, size=99, fill_value=1 << 70),
        ArgumentRangeError, OverflowError, f"nonzero: fill_value={1 << 70}", "64 bits",
    ),
    "a range beyond 64 bits": refused(
        lambda w: GNP.arange(-(1 << 70)),
        ArgumentRangeError, OverflowError, f"arange: stop={-(1 << 70)}", "float",
    ),
    "an order of a norm that cannot be looked up": refused(
        lambda w: GNP.linalg.norm(w.x, [2]), ArgumentTypeError, TypeError, "norm: ord=[2]", "'nuc'",
    ),
    "an order of a condition that cannot be looked up": refused(
        lambda w: GNP.linalg.cond(w.x, [2]), ArgumentTypeError, TypeError, "cond: p=[2]", "'nuc'",
    ),
    "a reduction of windows that cannot be looked up": refused(
        lambda w: gs.lax.reduce_window(w.x, 0.0, [], (1, 1)),
        ArgumentTypeError, TypeError, "lax.reduce_window: computation=[]", "lax.add",
    ),
    "an order of bits that cannot be looked up": refused(
        lambda w: GNP.packbits(w.small, bitorder=["big"]),
        ArgumentTypeError, TypeError, "packbits: bitorder=['big']", '"little"',
    ),
    "elements further apart than an array is long": Case(
        lambda w: gs.lax.reduce_window(
            w.x, np.float32(0), gs.lax.add, (1, 1), (1 << 61, 1), base_dilation=(1 << 60, 1)
        ),
        ArgumentError, ValueError, ("lax.reduce_window: padding='VALID'", "2**58", "smaller"),
        {"argument": "padding"},
    ),
    "more parts than can be meant": Case(
        lambda w: GNP.array_split(w.x, 1 << 40),
        ArgumentError, ValueError,
        (f"array_split: indices_or_sections={1 << 40}", "empty", "fewer parts"),
        {"argument": "indices_or_sections", "size": 8},
    ),
    "an antiderivative of an order that cannot be meant": Case(
        lambda w: GNP.polyint([1.0, 2.0], 1 << 40),
        ArgumentError, ValueError, (f"polyint: m={1 << 40}", "a term for each", "smaller order"),
        {"argument": "m"},
    ),
    "several numbers where one is wanted": refused(
        lambda w: GNP.nan_to_num(w.x, nan=(1.0,)),
        ArgumentTypeError, TypeError, "nan_to_num: nan=(1.0,)", "number",
    ),
    "one choice": refused(
        lambda w: GNP.choose([0], 5), ArgumentTypeError, TypeError, "choose: choices=5", "sequence",
    ),
    "one condition": refused(
        lambda w: GNP.select(5, [w.x]),
        ArgumentTypeError, TypeError, "select: condlist=5", "sequence",
    ),
    "one matrix": refused(
        lambda w: GNP.linalg.multi_dot(5), ArgumentTypeError, TypeError, "multi_dot: arrays=5",
        "sequence of matrices",
    ),
    "arrays that do not broadcast are not close": refused(
        lambda w: GNP.allclose([1.0, 2.0], [1.0, 2.0, 3.0]),
        ArgumentError, ValueError, "allclose", "(2,), (3,)", "broadcast",
    ),
    "a function along a dim that is none": refused(
        lambda w: GNP.apply_along_axis(5, 0, w.x),
        ArgumentTypeError, TypeError, "apply_along_axis: func1d=5", "function",
    ),
    "a signature that is no string": refused(
        lambda w: GNP.vectorize(abs, signature=5), ArgumentTypeError, TypeError, "signature=5",
        "string",
    ),
}  # fmt: skip


TABLE: dict[str, Case] = {
    f"{group}: {name}": case
    for group, cases in {
        "mesh": MESHES,
        "sharding": SHARDINGS,
        "lax": LAX,
        "huge": HUGE,
        "mapped": MAPPED,
        "named": NAMED_AXES,
        "callbacks": CALLBACKS,
        "traced": TRACED_FUNCTIONS,
        "loop": LOOPS,
        "placement": PLACEMENTS,
        "making": MAKING,
        "array": ARRAYS,
        "assignment": ASSIGNMENTS,
        "guard": GUARDS,
        "file": FILES,
        "setting": SETTINGS,
        "gpu": GPUS,
        "interop": INTEROP,
        "operation": OPERATIONS,
        "random": RANDOM,
        "matrix": MATRICES,
        "older": OLDER,
        "deleted": GONE,
        "donated": DONATED,
    }.items()
    for name, case in cases.items()
}


RUNTIMES: dict[str, dict[str, int]] = {
    "one-domain": {},
    "eight-domains-queued": {"host_domains": 8, "small_bytes": 0, "inline_bytes": 0},
}
GONE = {"deleted": "eight-domains-queued", "donated": "one-domain"}
"""Arrays that are gone are gone everywhere: the runtime of each of both kinds of rows."""


def runtimes_of(name: str) -> list[str]:
    """Return the runtimes that a row is tried in: by default one, whatever other rows there are."""
    every = [GONE[kind]] if (kind := name.partition(":")[0]) in GONE else [*RUNTIMES]
    return some([every[zlib.crc32(name.encode()) % len(every)]], every)


RUNS = [
    pytest.param(RUNTIMES[runtime_name], case, id=f"{name}-{runtime_name}")
    for name, case in TABLE.items()
    for runtime_name in runtimes_of(name)
]


@pytest.fixture
def world(
    settings: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    monkeypatch.chdir(tmp_path)
    with runtime(memory_limit=QUOTA, **settings):
        yield World(tmp_path)


@pytest.mark.one_of(4)
@pytest.mark.parametrize(("settings", "case"), RUNS)
def test_bad_input(world: World, case: Case, request: pytest.FixtureRequest) -> None:
    unchanged = world.state()
    with pytest.raises(Exception) as caught:
        case.call(world)
    error = caught.value
    assert type(error) is case.error, repr(error)
    inside_sentences = re.findall(r"(?<!\. )(?<!^)\b\w+", str(error))
    assert not internal_classes().intersection(inside_sentences), str(error)
    assert isinstance(error, case.builtin)
    for part in case.words:
        assert part in str(error), str(error)
    for name, fact in case.facts.items():
        assert getattr(error, name) == fact, (name, getattr(error, name))
    assert isinstance(error, errors.GpushardError) == (case.error.__module__ != "builtins")
    del error, caught
    if world.state() != unchanged:
        gc.collect()
        assert world.state() == unchanged
    world.check_inputs()
    if some(len(request.node.name) % 6 == 0, True):
        world.check_correct_calls()


def test_the_users_own_exception_comes_through() -> None:
    mine = ZeroDivisionError("mine")
    with runtime():
        sharding = gs.NamedSharding(gs.make_mesh((2,), "x"), gs.P("x"))
        for callback in (fail(mine), lambda i: np.ones(1) if i[0].start == 0 else fail(mine)()):
            with pytest.raises(ZeroDivisionError) as caught:
                gs.make_array_from_callback((2,), sharding, callback)
            assert caught.value is mine
            assert mine.__cause__ is None


def test_every_row_looks_for_something() -> None:
    for name, case in TABLE.items():
        assert case.words, name
        assert case.error not in (Exception, errors.GpushardError), name
        assert issubclass(case.error, case.builtin), name
        assert case.builtin.__module__ == "builtins", name
