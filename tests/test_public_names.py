"""The public names: none appears or vanishes by accident, and each is documented."""

import inspect
import types
from typing import Any

import pytest

import gpushard as gs

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
    "configure",
    "create_device_mesh",
    "default_backend",
    "default_device",
    "device_count",
    "device_get",
    "device_put",
    "devices",
    "empty_cache",
    "errors",
    "from_dlpack",
    "gather_guard",
    "live_arrays",
    "load",
    "local_device_count",
    "local_devices",
    "make_array_from_callback",
    "make_array_from_process_local_data",
    "make_array_from_single_device_arrays",
    "make_mesh",
    "map_shards",
    "num_addressable_indices",
    "prefetch",
    "process_count",
    "process_index",
    "register_placeable",
    "reshard",
    "save",
    "transfer_guard",
    "transfer_guard_device_to_device",
    "transfer_guard_device_to_host",
    "transfer_guard_host_to_device",
    "tree",
    "use_mesh",
]


NUMPY = (
    "__array_namespace_info__ "
    "abs absolute acos acosh add all allclose amax amin angle any arange arccos arccosh arcsin "
    "arcsinh arctan arctan2 arctanh argmax argmin argwhere around array array_equal array_equiv "
    "asarray asin asinh astype atan atan2 atanh atleast_1d atleast_2d bitwise_and bitwise_invert "
    "bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor bool bool_ "
    "broadcast_arrays broadcast_shapes broadcast_to can_cast cbrt ceil choose clip column_stack "
    "complex128 complex64 compress concat concatenate conj conjugate copy copysign cos cosh "
    "count_nonzero deg2rad degrees diag_indices diag_indices_from diagonal divide divmod dot "
    "dstack e einsum empty empty_like equal exp exp2 expand_dims expm1 extract eye fabs "
    "fill_diagonal finfo flatnonzero flip fliplr flipud float16 float32 float64 float_power floor "
    "floor_divide fmax fmin fmod frexp full full_like gcd greater greater_equal heaviside hstack "
    "hypot identity iinfo imag inf inner int16 int32 int64 int8 invert isclose isdtype isfinite "
    "isinf isnan ix_ lcm ldexp left_shift less less_equal linspace log log10 log1p log2 logaddexp "
    "logaddexp2 logical_and logical_not logical_or logical_xor matmul matrix_transpose matvec max "
    "maximum mean meshgrid min minimum mod modf moveaxis multiply nan ndim negative newaxis "
    "nextafter nonzero not_equal ones ones_like outer pad permute_dims pi place positive pow power "
    "prod put put_along_axis putmask rad2deg radians ravel ravel_multi_index real reciprocal "
    "remainder repeat reshape result_type right_shift rint roll round select shape sign signbit "
    "sin sinh size spacing sqrt square squeeze stack std subtract sum swapaxes take "
    "take_along_axis tan tanh tensordot tile transpose tril tril_indices tril_indices_from triu "
    "triu_indices triu_indices_from true_divide trunc uint16 uint32 uint64 uint8 unravel_index "
    "unstack var vdot vecdot vecmat vstack where zeros zeros_like"
)
"""The names of `gpushard.numpy`."""


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


def test_the_names_of_the_namespace_are_exactly_these() -> None:
    assert sorted(gs.numpy.__all__) == NUMPY.split()


def test_nothing_public_is_left_out() -> None:
    public = {name for name, value in vars(gs).items() if not name.startswith("_")}
    modules = {n for n in public if isinstance(getattr(gs, n), types.ModuleType)}
    assert public - modules - {"annotations"} == set(NAMES) - modules


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


@pytest.mark.parametrize(
    "cls", [gs.Mesh, gs.AbstractMesh, gs.NamedSharding, gs.SingleDeviceSharding, gs.Shard]
)
def test_every_class_that_users_make_describes_its_arguments(cls: Any) -> None:
    assert described(cls) == arguments(cls)


@pytest.mark.parametrize("name", [n for n in NAMES if inspect.isclass(getattr(gs, n))])
def test_every_public_member_has_a_docstring(name: str) -> None:
    cls = getattr(gs, name)
    for member, value in vars(cls).items():
        if not member.startswith("_") and (callable(value) or isinstance(value, property)):
            assert inspect.getdoc(value), f"{name}.{member}"
