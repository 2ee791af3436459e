"""Arrays of which another process holds a part."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import testing
from gpushard._functions.host_reads import at_hand
from gpushard.errors import AddressError

VALUE = np.arange(32.0).reshape(8, 4)


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Iterator[gs.Mesh]:
    """A mesh of two halves, one of which is another process's."""
    with testing.runtime(host_devices=8, host_domains=4) as rt:
        for device in rt.devices[4:]:
            monkeypatch.setattr(device, "process_index", 1)
        yield gs.make_mesh((2, 4), ("process", "own"))


def test_what_it_says_of_itself(mesh: gs.Mesh) -> None:
    place = gs.NamedSharding(mesh, gs.P("process", "own"))
    x = gs.device_put(VALUE, place)
    assert x.committed is True and not x.is_fully_addressable
    assert x.sharding == place and x.devices() == set(mesh.devices.ravel())
    assert f"{x}" == str(x) == f"Array(shape=(8, 4), dtype=float64, sharding={place!r})"
    with pytest.raises(TypeError, match="format"):
        format(x, ".2f")
    for n, shard in enumerate(x.addressable_shards):
        assert np.array_equal(shard.data, VALUE[:4, n : n + 1])
    assert len(x.addressable_shards) == 4


@pytest.mark.parametrize("spec", [gs.P(None, "own"), gs.P(), gs.P("own"), gs.P("process")])
def test_it_is_read_where_every_element_is_here(mesh: gs.Mesh, spec: Any) -> None:
    x = gs.device_put(VALUE, gs.NamedSharding(mesh, spec))
    if "process" in spec:
        for read in (np.asarray, lambda x: at_hand(x, "this")):
            with pytest.raises(AddressError, match="4 of the 8 devices") as caught:
                read(x)
            assert (caught.value.addressable, caught.value.devices) == (4, 8)
        return
    np.testing.assert_array_equal(np.asarray(x), VALUE)
    known = at_hand(x, "this")
    assert known is None or np.array_equal(known, VALUE)
