"""JAX arrays over our memory, and the other way round."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.errors import ArgumentTypeError, ExportError
from gpushard.testing import deferred, runtime
from tests.share import examples


@pytest.fixture(scope="module")
def backend() -> dict[str, Any]:
    """On the host, as these tests are about memory that JAX has on the CPU."""
    return {"backend": "host"}


@pytest.fixture(autouse=True, scope="module")
def host(backend: dict[str, Any]) -> Iterator[None]:
    """For tests that do not take one of their own."""
    with runtime(**backend):
        yield


@given(data=st.data())
@examples(60)
def test_both_ways(rt: Runtime, jax: ModuleType, cases: Any, data: st.DataObject) -> None:
    case = data.draw(cases)
    with (
        jax.experimental.enable_x64()
        if hasattr(jax.experimental, "enable_x64")
        else jax.enable_x64()
    ):
        for shard in deferred(case.put(), lambda v: v).addressable_shards:
            expected = case.value[shard.index]
            theirs = jax.dlpack.from_dlpack(shard.data)
            assert (theirs.shape, theirs.dtype) == (expected.shape, expected.dtype)
            assert np.asarray(theirs).tobytes() == expected.tobytes()
            ours = gs.from_dlpack(theirs)
            assert (ours.shape, ours.dtype) == (expected.shape, expected.dtype)
            assert np.asarray(ours).tobytes() == expected.tobytes()
            if expected.nbytes:
                start = theirs.unsafe_buffer_pointer()
                assert (ours.unsafe_buffer_pointer() == start) == (start % 16 == 0)


def test_memory_is_kept(rt: Runtime, jax: ModuleType) -> None:
    device = gs.devices()[0]
    before = device.memory_stats()["bytes_in_use"]
    x = gs.device_put(np.arange(50_000, dtype=np.float32), device)
    theirs = jax.dlpack.from_dlpack(x)
    shared = theirs.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert shared
    del x
    assert device.memory_stats()["bytes_in_use"] == before + 200_000
    gs.device_put(np.zeros(50_000, np.float32), device)
    assert np.array_equal(theirs, np.arange(50_000))
    theirs.delete()
    del theirs
    assert device.memory_stats()["bytes_in_use"] == before


def test_results_that_jax_is_still_computing(rt: Runtime, jax: ModuleType) -> None:
    pending = jax.jit(lambda v: (v @ v).sum(0))(jax.numpy.ones((200, 200)))
    assert np.array_equal(gs.from_dlpack(pending), np.full(200, 40_000))


def test_bfloat16_goes_by_device_put(rt: Runtime, jax: ModuleType) -> None:
    theirs = jax.numpy.arange(4, dtype=jax.numpy.bfloat16)
    with pytest.raises(ArgumentTypeError, match=r"Unsupported dtype.*device_put\(x\)"):
        gs.from_dlpack(theirs)
    ours = gs.device_put(theirs)
    assert ours.dtype == theirs.dtype
    with pytest.raises(ExportError, match="bfloat16 cannot be exported"):
        jax.dlpack.from_dlpack(ours)


def test_sharded_arrays_are_refused_as_theirs_are(rt: Runtime, jax: ModuleType) -> None:
    ours = gs.device_put(np.arange(8), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
    mesh = jax.make_mesh((8,), ("x",))
    theirs = jax.device_put(
        np.arange(8), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    )
    for x in (ours, theirs):
        with pytest.raises(BufferError):
            np.from_dlpack(x)
