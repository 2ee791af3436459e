"""The text of `OpSharding` against XLA's own reader and printer, and layouts against JAX's."""

import math
from types import ModuleType
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.mesh import Mesh
from gpushard._geometry.named_sharding import NamedSharding
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._geometry.older.pmap_gspmd_sharding import GSPMDSharding
from gpushard._geometry.partition_spec import P
from tests.geometry.older.test_op_sharding import shardings
from tests.oracle.test_geometry_vs_jax import random_cases
from tests.share import examples


def as_proto(xla: Any, op: OpSharding) -> Any:
    proto = xla.OpSharding()
    proto.type = getattr(xla.OpSharding.Type, op.type.name)
    proto.tile_assignment_dimensions = list(op.tile_assignment_dimensions)
    if op.type is OpSharding.Type.MAXIMAL:
        proto.tile_assignment_dimensions = [1]
    proto.tile_assignment_devices = list(op.tile_assignment_devices)
    proto.replicate_on_last_tile_dim = op.replicate_on_last_tile_dim
    kinds = [getattr(xla.OpSharding.Type, kind.name) for kind in op.last_tile_dims]
    proto.last_tile_dims = kinds
    proto.tuple_shardings = [as_proto(xla, part) for part in op.tuple_shardings]
    return proto


def test_xla_reads_what_we_write_and_we_what_it_writes(jax: ModuleType) -> None:
    from jax._src.lib import xla_client as xla

    if not hasattr(getattr(xla, "HloSharding", None), "from_string"):
        return

    @given(shardings)
    @examples(300)
    def compare(op: OpSharding) -> None:
        read = xla.HloSharding.from_string(str(op))
        if all(part.num_devices > 1 for part in (op, *op.tuple_shardings) if part.rank):
            assert read == xla.HloSharding.from_proto(as_proto(xla, op))  # one tile: replicated
        again = OpSharding.from_string(str(read))
        assert xla.HloSharding.from_string(str(again)) == read

    compare()


def test_layouts_are_those_of_named_shardings(jax: ModuleType) -> None:
    """JAX writes a NamedSharding as XLA's; as a GSPMDSharding that gives the same boxes."""
    for case in random_cases(8, 500, jax.devices()):
        theirs = case.theirs(jax)._to_xla_hlo_sharding(len(case.shape))
        devices = list(case.grid.flat)
        ours = GSPMDSharding(devices, OpSharding.from_string(str(theirs)))
        named = case.ours()
        assert ours.devices_indices_map(case.shape) == named.devices_indices_map(case.shape)
        assert ours.is_equivalent_to(named, len(case.shape))


def test_tiles_are_those_of_gspmd_shardings(jax: ModuleType) -> None:
    """On shapes that tiles divide: JAX refuses others, of which ours are ceilings."""
    from jax._src import sharding_impls
    from jax._src.lib import xla_client as xla

    if not hasattr(sharding_impls, "GSPMDSharding"):
        return
    devices = jax.devices()[:8]

    @given(st.sampled_from([(8,), (4, 2), (2, 4), (2, 2, 2), (8, 1), (1, 2, 4)]), st.data())
    @examples(100)
    def compare(dims: tuple[int, ...], data: st.DataObject) -> None:
        order = data.draw(st.permutations(range(8)))
        replicated = len(dims) > 1 and data.draw(st.booleans())
        op = OpSharding(OpSharding.Type.OTHER, dims, order, replicated)
        shape = tuple(n * data.draw(st.integers(1, 3)) for n in dims[: op.rank])
        theirs = sharding_impls.GSPMDSharding(devices, xla.HloSharding.from_string(str(op)))
        ours = GSPMDSharding(devices, op)
        value = np.arange(math.prod(shape)).reshape(shape)
        expected = theirs.devices_indices_map(shape)
        for device, index in ours.devices_indices_map(shape).items():
            assert np.array_equal(value[index], value[expected[device]])
        assert ours.shard_shape(shape) == theirs.shard_shape(shape)
        assert ours.is_fully_replicated == theirs.is_fully_replicated

    compare()


def test_names_of_another_order() -> None:
    mesh = Mesh(np.array(list("abcd"), object).reshape(2, 2), ("x", "y"))
    op = OpSharding.from_string("{devices=[4]<=[2,2]T(1,0)}")
    ours, named = GSPMDSharding(list("abcd"), op), NamedSharding(mesh, P(("y", "x")))
    assert ours.is_equivalent_to(named, 1)
