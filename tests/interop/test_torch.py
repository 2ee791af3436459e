"""Tensors over arrays and arrays over tensors."""

import doctest
import gc
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ArgumentError, ArgumentTypeError, DeletedArrayError, ExportError
from gpushard.testing import deferred, runtime
from tests.share import examples


@pytest.fixture(scope="module")
def bridge(torch: ModuleType) -> ModuleType:
    return importlib.import_module("gpushard.interop.torch")


@pytest.fixture
def split(rt: Runtime) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))


def same(tensor: Any, value: np.ndarray) -> bool:
    got = tensor.numpy()
    return bool(got.dtype == value.dtype and got.tobytes() == value.tobytes())


@given(data=st.data())
@examples(60)
def test_tensors_of_shards(
    rt: Runtime, bridge: ModuleType, cases: Any, data: st.DataObject
) -> None:
    case = data.draw(cases)
    x = case.put()
    tensors = bridge.to_torch_shards(x)
    assert len(tensors) == len(x.addressable_shards)
    for tensor, shard in zip(tensors, x.addressable_shards, strict=True):
        assert same(tensor, case.value[shard.index])
        if tensor.numel():
            assert tensor.data_ptr() == shard.data.unsafe_buffer_pointer()
    assert same(bridge.to_torch(x, gather=True), case.value)


@given(data=st.data())
@examples(60)
def test_arrays_of_tensors(
    rt: Runtime, torch: ModuleType, bridge: ModuleType, cases: Any, data: st.DataObject
) -> None:
    case = data.draw(cases)
    order = data.draw(st.permutations(range(case.value.ndim)))
    tensor = torch.from_numpy(case.value.copy()).permute(order)
    expected = np.ascontiguousarray(case.value.transpose(order)).reshape(tuple(tensor.shape))
    x = bridge.from_torch(tensor)
    assert not x.committed and np.asarray(x).tobytes() == expected.tobytes()
    shared = tensor.is_contiguous() and tensor.numel() and tensor.data_ptr() % 16 == 0
    if tensor.numel():
        assert (x.unsafe_buffer_pointer() == tensor.data_ptr()) == bool(shared)
    whole = gs.NamedSharding(case.sharding.mesh, gs.P())
    for place in (case.sharding if tensor.shape == case.value.shape else whole, gs.devices()[1]):
        y = bridge.from_torch(tensor, place)
        assert y.committed and np.asarray(y).tobytes() == expected.tobytes()
        assert y.sharding == place if isinstance(place, gs.Sharding) else y.device is place
    assert gs.from_dlpack(tensor).dtype == expected.dtype
    assert same(torch.from_dlpack(x), expected)


def test_memory_is_kept_both_ways(rt: Runtime, torch: ModuleType, bridge: ModuleType) -> None:
    device = gs.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    tensor = bridge.to_torch(gs.device_put(np.arange(50_000.0), device))
    assert device.memory_stats()["bytes_in_use"] == before + 400_000
    again = bridge.from_torch(tensor * 2, device)
    assert np.array_equal(again, np.arange(50_000.0) * 2)
    view = tensor[5:7]
    del tensor
    gs.device_put(np.zeros(50_000), device)
    assert view.tolist() == [5.0, 6.0]
    del view
    assert device.memory_stats()["bytes_in_use"] == before


def test_a_tensor_waits_for_the_value(bridge: ModuleType, split: gs.NamedSharding) -> None:
    x = deferred(gs.device_put(np.arange(8.0), split), lambda v: v + 1)
    assert bridge.to_torch(x, gather=True).tolist() == list(range(1, 9))


def test_several_shards_need_a_word(bridge: ModuleType, split: gs.NamedSharding) -> None:
    x = gs.device_put(np.arange(8.0), split)
    with pytest.raises(ExportError, match=r"4 shards.*gather=True.*to_torch_shards"):
        bridge.to_torch(x)
    replicated = gs.reshard(x, gs.P())
    tensor = bridge.to_torch(replicated)
    assert tensor.data_ptr() == replicated.addressable_data(0).unsafe_buffer_pointer()


@pytest.mark.parametrize(
    "name",
    [
        "bfloat16",
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    ],
)
def test_types_that_numpy_learns(
    rt: Runtime, torch: ModuleType, bridge: ModuleType, oracle: Any, name: str
) -> None:
    ml_dtypes = oracle("ml_dtypes", "ml_dtypes", "pip install ml_dtypes")
    value = np.arange(1, 17).astype(getattr(ml_dtypes, name))
    x = gs.device_put(value, gs.devices()[0])
    tensor = bridge.to_torch(x)
    assert tensor.dtype == getattr(torch, name) and tensor.float().tolist() == value.tolist()
    back = bridge.from_torch(tensor)
    assert back.dtype == value.dtype and back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert np.asarray(back).tobytes() == value.tobytes()
    turned = bridge.from_torch(tensor.reshape(4, 4).T)
    assert np.array_equal(np.asarray(turned), value.reshape(4, 4).T)


def test_types_without_the_package_for_them(
    rt: Runtime, torch: ModuleType, bridge: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bridge, "_ml_dtypes", None)
    with pytest.raises(ArgumentTypeError, match=r"torch.bfloat16.*install ml_dtypes.*\.float\(\)"):
        bridge.from_torch(torch.zeros(3, dtype=torch.bfloat16))


def test_types_that_nobody_has(
    rt: Runtime, torch: ModuleType, bridge: ModuleType, oracle: Any
) -> None:
    ml_dtypes = oracle("ml_dtypes", "ml_dtypes", "pip install ml_dtypes")
    for dtype in (np.longdouble, ml_dtypes.float8_e3m4, ml_dtypes.int4):
        with pytest.raises(ExportError, match="convert it first"):
            bridge.to_torch(gs.device_put(np.zeros(3, dtype)))


def test_pending_conjugation_and_negation(
    rt: Runtime, torch: ModuleType, bridge: ModuleType
) -> None:
    z = torch.tensor([1 + 2j, 3 - 4j])
    assert np.array_equal(bridge.from_torch(z.conj()), np.array([1 - 2j, 3 + 4j], "F"))
    assert z.conj().imag.is_neg()
    assert np.array_equal(bridge.from_torch(z.conj().imag), np.array([-2, 4], "f"))


def test_tensors_that_are_refused(rt: Runtime, torch: ModuleType, bridge: ModuleType) -> None:
    needs = torch.zeros(3, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"shape \(3,\) requires a gradient.*t\.detach\(\)"):
        bridge.from_torch(needs)
    assert np.array_equal(bridge.from_torch(needs.detach()), np.zeros(3))
    with pytest.raises(ArgumentTypeError, match=r"sparse.*to_dense"):
        bridge.from_torch(torch.eye(2).to_sparse())
    with pytest.raises(ArgumentTypeError, match="ndarray"):
        bridge.from_torch(np.zeros(3))
    with pytest.raises(ArgumentTypeError, match="device=3"):
        bridge.from_torch(torch.zeros(3), 3)
    with pytest.raises(ArgumentError, match=r"is on meta.*t\.cpu\(\)"):
        bridge.from_torch(torch.zeros(3, device="meta"))


def test_what_is_no_array(rt: Runtime, torch: ModuleType, bridge: ModuleType) -> None:
    for call in (bridge.to_torch, bridge.to_torch_shards):
        with pytest.raises(ArgumentTypeError, match=r"ndarray.*Try: torch.as_tensor"):
            call(np.zeros(3))
    x = gs.device_put(np.zeros(3))
    x.delete()
    for call in (bridge.to_torch, bridge.to_torch_shards):
        with pytest.raises(DeletedArrayError):
            call(x)


def test_torch_computes_on_shards(
    torch: ModuleType, bridge: ModuleType, split: gs.NamedSharding
) -> None:
    x = gs.device_put(np.arange(8.0), split)

    def f(a: np.ndarray, out: np.ndarray) -> None:
        torch.cumsum(torch.from_numpy(a.copy()), 0, out=torch.from_numpy(out))

    y = gs.map_shards(f, x, out=gs.ShapeDtypeStruct((8,), x.dtype))
    assert np.array_equal(y, np.arange(8.0).reshape(4, 2).cumsum(1).ravel())


def test_the_examples_of_the_page_run(bridge: ModuleType) -> None:
    page = (Path(__file__).parents[2] / "docs" / "interop.md").read_text()
    found = doctest.DocTestParser().get_doctest(page, {}, "interop.md", "interop.md", 0)
    assert len(found.examples) > 5
    with runtime():
        assert not doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(found).failed


def test_nothing_is_left(torch: ModuleType, bridge: ModuleType) -> None:
    with runtime(check=True, small_bytes=0) as rt:
        sharding = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        x = bridge.from_torch(torch.arange(4_000), sharding)
        tensors = bridge.to_torch_shards(gs.reshard(x, gs.P()))
        assert all(np.array_equal(tensor, np.arange(4_000)) for tensor in tensors)
        del x, tensors
        gc.collect()
        assert rt.claimed_bytes() == 0
        assert not rt.backend.races  # type: ignore[attr-defined]
