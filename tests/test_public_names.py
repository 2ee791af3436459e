"""The public names: none appears or vanishes by accident, and each is documented."""

import inspect
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._ops.table import fft as fft_rows
from gpushard._ops.table.cumulative import CUMSUM
from gpushard.lax import cumulative, elementwise, gather_scatter, reductions, segments
from gpushard.numpy import fft
from gpushard.special import ufuncs

NAMES = [
    "AbstractMesh",
    "Array",
    "Device",
    "Format",
    "Layout",
    "Mesh",
    "NamedSharding",
    "P",
    "PartitionSpec",
    "Plan",
    "Settings",
    "ShapeDtypeStruct",
    "Shard",
    "Sharding",
    "SingleDeviceSharding",
    "block_until_ready",
    "clear_caches",
    "config",
    "configure",
    "create_device_mesh",
    "default_backend",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "device_put_replicated",
    "device_put_sharded",
    "devices",
    "disable_jit",
    "effects_barrier",
    "empty_cache",
    "errors",
    "eval_shape",
    "from_dlpack",
    "gather_guard",
    "get_mesh",
    "io_callback",
    "jit",
    "live_arrays",
    "load",
    "local_device_count",
    "local_devices",
    "log_compiles",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_jaxpr",
    "make_mesh",
    "map_shards",
    "named_scope",
    "num_addressable_indices",
    "pjit",
    "pmap",
    "prefetch",
    "process_count",
    "process_index",
    "pure_callback",
    "register_placeable",
    "replicate",
    "reshard",
    "save",
    "set_mesh",
    "shard_map",
    "show_config",
    "smap",
    "soft_pmap",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "typeof",
    "use_mesh",
    "vmap",
]


MODULES = {
    "stages",
    "lax",
    "debug",
    "dtypes",
    "interop",
    "legacy",
    "multihost",
    "nn",
    "nnx",
    "numpy",
    "profiler",
    "random",
    "sharding",
    "special",
    "testing",
    "tree_util",
}


def sections(value: Any) -> set[str]:
    """Return the headings of a docstring."""
    lines = (inspect.getdoc(value) or "").splitlines()
    return {line.removesuffix(":") for line in lines if line.endswith(":") and line[0] != " "}


def described(value: Any) -> set[str]:
    """Return the arguments that a docstring's Args section describes."""
    text = (inspect.getdoc(value) or "").partition("\nArgs:\n")[2]
    body = text.partition("\n\n")[0].splitlines()
    entries = [line[2:] for line in body if line.startswith("  ") and line[2] != " "]
    return {entry.partition(":")[0].lstrip("*") for entry in entries}


def arguments(value: Any) -> set[str]:
    return {name for name in inspect.signature(value).parameters if name != "self"}


def test_the_names_are_exactly_these() -> None:
    assert list(gs.__all__) == NAMES
    assert sorted(gs.__all__) == NAMES
    for name in NAMES:
        assert hasattr(gs, name), name


def test_nothing_public_is_left_out() -> None:
    assert all(hasattr(gs, name) for name in NAMES)  # some are imported when they are asked for
    public = {name for name in vars(gs) if not name.startswith("_")}
    modules = {n for n in public if isinstance(getattr(gs, n), types.ModuleType)}
    assert (
        public - modules - {"annotations", "Any", "TYPE_CHECKING", "promise"}
        == set(NAMES) - modules
    )


def test_dir_lists_what_users_may_use() -> None:
    assert set(dir(gs)) == {*NAMES, *MODULES}
    assert {"linalg", "fft"} <= set(dir(gs.numpy))
    for module in (
        gs.numpy,
        gs.numpy.linalg,
        gs.numpy.fft,
        gs.lax,
        gs.random,
        gs.special,
        gs.debug,
        gs.multihost,
        gs.nn,
        gs.nn.initializers,
        gs.nnx,
        gs.lax.linalg,
        gs.tree,
        gs.sharding,
        gs.tree_util,
        gs.legacy,
    ):
        names = set(module.__all__)
        of_parts = {
            name
            for name, value in vars(module).items()
            if name[0] != "_"
            and inspect.isfunction(value)
            and value.__module__.startswith(module.__name__)
        }
        assert of_parts <= names
        assert names <= set(dir(module))
        foreign = set(dir(module)) - names
        assert foreign <= {
            "fft",
            "initializers",
            "lib",
            "linalg",
            "special",
            "__array_api_version__",
        }
        assert all(hasattr(module, name) for name in dir(module))


def test_no_private_module_looks_public() -> None:
    for path in Path(gs.__file__).parent.iterdir():
        if path.suffix == ".py" or (path / "__init__.py").exists():
            assert path.stem.startswith("_") or path.stem in dir(gs), path.stem
    modules = {name for name, value in vars(gs).items() if inspect.ismodule(value)}
    assert {name for name in modules if not name.startswith("_")} <= set(dir(gs))


@pytest.mark.parametrize("name", NAMES)
def test_every_name_is_documented(name: str) -> None:
    value = getattr(gs, name)
    first = (inspect.getdoc(value) or "").partition("\n")[0]
    assert first.endswith((".", ":")) or "." in first
    assert not first.startswith(f"{name}(")  # a signature that a dataclass made up


FUNCTIONS = [name for name in NAMES if inspect.isfunction(getattr(gs, name))]


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if arguments(getattr(gs, n))])
def test_every_function_describes_its_arguments(name: str) -> None:
    function = getattr(gs, name)
    assert "Args" in sections(function)
    assert described(function) == arguments(function)


def public_functions(module: Any) -> list[Any]:
    values = [getattr(module, name) for name in module.__all__]
    return [f for f in values if inspect.isfunction(f) and f.__module__.startswith("gpushard")]


METHODS = [
    getattr(gs.Array, name)
    for name in dir(gs.Array)
    if name[0] != "_" and inspect.isfunction(inspect.getattr_static(gs.Array, name))
]


@pytest.mark.parametrize(
    "module",
    [
        gs.numpy,
        gs.numpy.linalg,
        gs.numpy.fft,
        gs.lax,
        gs.special,
        gs.legacy,
        gs.nn,
        gs.nn.initializers,
    ],
)
def test_every_function_of_arrays_describes_all_that_it_takes(module: Any) -> None:
    """Texts that functions have in common come from a table, and none is missing there."""
    for function in public_functions(module):
        names = {name.lstrip("*") for entry in described(function) for name in entry.split(", ")}
        assert names == arguments(function), function


FAMILIES: dict[str, Callable[[str, str], Any]] = {
    "lax: of one": lambda name, text: elementwise._unary(name, "iuf", np.negative, text),
    "lax: of two": lambda name, text: elementwise._binary(name, "iuf", np.add, text),
    "lax: of three": lambda name, text: elementwise._ternary(name, "iuf", np.clip, text),
    "lax: scatter": lambda name, text: gather_scatter._scatter(name, "set", text),
    "lax: reduce": lambda name, text: reductions._reduction(name, "iuf", np.sum, text),
    "lax: running": lambda name, text: cumulative._running(name, CUMSUM, text),
    "lax: segments": lambda name, text: segments._segments(name, "add", np.zeros, "zeros", text),
    "special: of one": ufuncs._unary,
    "special: of two": ufuncs._binary,
    "special: of three": ufuncs._ternary,
    "fft: one dim": lambda name, text: fft._one(name, fft_rows.FFT, text),
    "fft: many dims": lambda name, text: fft._many(name, fft_rows.FFT, text),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_new_function_of_a_family_has_its_name_and_describes_all_that_it_takes(
    family: str,
) -> None:
    function = FAMILIES[family]("new", "Return it.")
    assert (function.__name__, function.__qualname__) == ("new", "new")
    assert inspect.getdoc(function).partition("\n\n")[0] == "Return it."
    names = {name for entry in described(function) for name in entry.split(", ")}
    assert names == arguments(function)


def test_every_method_describes_all_that_it_takes() -> None:
    for function in METHODS:
        assert described(function) == arguments(function), function


def test_methods_take_what_functions_take() -> None:
    """A method and the function of its name are one definition, but for what NumPy has apart."""
    apart = {"astype", "compress", "conj", "conjugate", "copy", "delete", "put", "reshape"}
    apart |= {"partition", "sort", "transpose"}
    common = {f.__name__ for f in METHODS} & set(gs.numpy.__all__) - apart
    for name in common:
        method, function = (
            inspect.signature(getattr(of, name)).parameters.values() for of in (gs.Array, gs.numpy)
        )
        own = [(p.name, p.kind, p.default) for p in method]
        assert own[1:] == [(p.name, p.kind, p.default) for p in function][1:], name
    assert {"sum", "mean", "clip", "dot", "argsort", "repeat"} <= common


@pytest.mark.parametrize(
    "cls",
    [
        *(gs.Mesh, gs.AbstractMesh, gs.NamedSharding, gs.SingleDeviceSharding, gs.Shard),
        *(gs.set_mesh, gs.sharding.PmapSharding, gs.sharding.GSPMDSharding),
        *(gs.legacy.ShardingSpec, gs.legacy.OpSharding, gs.legacy.Chunked),
        *(gs.legacy.GlobalDeviceArray, gs.legacy.ShardedDeviceArray),
    ],
)
def test_every_class_that_users_make_describes_its_arguments(cls: Any) -> None:
    assert described(cls) == arguments(cls)


@pytest.mark.parametrize("name", [n for n in NAMES if inspect.isclass(getattr(gs, n))])
def test_errors_of_python_name_the_class_that_users_know(name: str) -> None:
    cls = getattr(gs, name)
    for member in dir(cls):
        value = inspect.getattr_static(cls, member)
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function) and function.__module__.startswith("gpushard"):
            known = {kind.__name__ for kind in cls.__mro__}.intersection(NAMES)
            assert function.__qualname__.partition(".")[0] in known, member


@pytest.mark.parametrize("name", [n for n in NAMES if inspect.isclass(getattr(gs, n))])
def test_every_public_member_has_a_docstring(name: str) -> None:
    cls = getattr(gs, name)
    for member, value in vars(cls).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{member}"
