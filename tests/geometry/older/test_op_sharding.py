"""`OpSharding`: its text comes back, and errors in it are where they are said to be."""

import math
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpushard._geometry.older import op_sharding
from gpushard._geometry.older.op_sharding import OpSharding
from gpushard._geometry.older.pmap_gspmd_sharding import GSPMDSharding
from gpushard._geometry.older.sharding_spec import ShardingSpec
from gpushard.errors import ArgumentError, ArgumentTypeError, ParseError, ShardingError
from tests.share import examples

Type = OpSharding.Type


@st.composite
def tiled(draw: st.DrawFn) -> OpSharding:
    dims = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    number = math.prod(dims)
    kinds = draw(st.lists(st.sampled_from([Type.REPLICATED, Type.MANUAL]), max_size=len(dims) - 1))
    if draw(st.booleans()):
        grid = draw(st.permutations(dims))
        order = draw(st.permutations(range(len(grid))))
        devices = np.arange(number).reshape(grid).transpose(order).ravel().tolist()
    else:
        devices = draw(st.permutations(range(number)))
    replicated = not kinds and draw(st.booleans())
    return OpSharding(Type.OTHER, dims, devices, replicated, kinds)


leaves = st.one_of(
    tiled(),
    st.sampled_from([OpSharding(), OpSharding(Type.MANUAL), OpSharding(Type.UNKNOWN)]),
    st.integers(0, 99).map(lambda n: OpSharding(Type.MAXIMAL, (), (n,))),
)
tuples = st.lists(leaves, max_size=3).map(lambda p: OpSharding(Type.TUPLE, tuple_shardings=p))
shardings = st.one_of(leaves, leaves, tuples)


@given(shardings)
@examples(500)
def test_the_text_comes_back(op: OpSharding) -> None:
    text = str(op)
    assert OpSharding.from_string(text) == op
    assert eval(repr(op), {"OpSharding": OpSharding}) == op
    assert pickle.loads(pickle.dumps(op)) == op and len({op, OpSharding.from_string(text)}) == 1
    assert (
        OpSharding.from_string(
            "  " + text.replace(",", " , ").replace("=", " = ").replace("< =", "<=") + " "
        )
        == op
    )


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.data())
@examples(200)
def test_orders_of_a_grid_are_found(grid: list[int], data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(grid))))
    devices = np.arange(math.prod(grid)).reshape(grid).transpose(order).ravel().tolist()
    found = OpSharding(Type.OTHER, (len(devices),), devices).iota()
    assert found is not None
    shape, axes = found
    assert np.arange(len(devices)).reshape(shape).transpose(axes).ravel().tolist() == devices
    assert len(shape) <= max(1, sum(n > 1 for n in grid))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ('{replicated metadata={op_name="a}b" source_line=3}}', "{replicated}"),
        ('{devices=[2,2]0,1,2,3 metadata={{op_name="x"},{op_name="y"}}}', "{devices=[2,2]<=[4]}"),
        ("{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[4,2]0,4,1,5,2,6,3,7}"),
        (
            "{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
            "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}",
        ),
        ("{{replicated}, {maximal device=0}}", "{{replicated},{maximal device=0}}"),
        ("{devices=[1,1]<=[1,1]T(1,0)}", "{devices=[1,1]0}"),
        ("{}", "{}"),
    ],
)
def test_what_is_written_in_more_than_one_way(text: str, same: str) -> None:
    assert OpSharding.from_string(text) == OpSharding.from_string(same)


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("", 0),
        ("replicated", 0),
        ("{", 1),
        ("{replicate}", 1),
        ("{replicated", 11),
        ("{{replicated}, {}}", 16),
        ("{metadata={}}", 12),
        ("{replicated} x", 13),
        ("{maximal}", 8),
        ("{maximal device=x}", 16),
        ("{devices=2}", 9),
        ("{devices=[2,]0,1}", 12),
        ("{devices=[2]0,2}", 0),
        ("{devices=[2]0}", 0),
        ("{devices=[4]<=[2,2]T(0,0)}", 20),
        ("{devices=[4]<=[8]}", 0),
        ("{devices=[2]0,1 last_tile}", 16),
        ("{devices=[2]0,1 last_tile_dims={maximal}}", 32),
        ("{replicated metadata={a}", 24),
        ("{replicated metadata={a", 23),
        ('{replicated metadata={{"}}"}', 28),
        ("{replicated metadata=a}", 21),
        ("{replicated last_tile_dim_replicate}", 12),
        ("{{replicated} {manual}}", 14),
        ("{devices=[2]0;1}", 13),
        ("{{replicated}, {{manual}}}", 16),
    ],
)
def test_an_error_names_the_position(text: str, position: int) -> None:
    with pytest.raises(ParseError) as error:
        OpSharding.from_string(text)
    assert error.value.position == position
    assert f"position {position}" in str(error.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ((Type.OTHER, (2,), (0, 0)), "once each"),
        ((Type.OTHER, (2, 2), (0, 1)), "below 4"),
        ((Type.OTHER, (), ()), "once each"),
        ((Type.OTHER, (2, 0), ()), "once each"),
        ((Type.OTHER, (4,), range(8)), r"=\(0, 1, 2, 3, 4, 5, 6, 7\) must"),
        ((Type.OTHER, (4,), range(9)), r"=\(0, 1, 2, 3, 4, 5, 6, 7, \.\.\.\) must"),
        ((Type.MAXIMAL, (), ()), "one device"),
        ((Type.MAXIMAL, (2,), (0,)), "one device"),
        ((Type.REPLICATED, (2,), (0, 1)), "no tiles"),
        ((Type.REPLICATED, (1,), ()), "no tiles"),
        ((Type.REPLICATED, (), (0,)), "no tiles"),
        ((Type.MANUAL, (), (), False, (), (OpSharding(),)), "TUPLE"),
        ((Type.TUPLE, (), (), False, (), (OpSharding(Type.TUPLE),)), "flat"),
        ((Type.OTHER, (2,), (0, 1), True, (Type.REPLICATED,)), "last_tile_dims"),
    ],
)
def test_fields_that_do_not_fit_are_refused(fields: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        OpSharding(*fields)


def test_shardings_that_differ_are_not_equal() -> None:
    texts = ["{replicated}", "{manual}", "{maximal device=1}", "{maximal device=2}", "{}"]
    texts += ["{devices=[2,2]<=[4]}", "{devices=[4]<=[4]}", "{devices=[2,2]<=[2,2]T(1,0)}"]
    texts += ["{devices=[4]<=[4] last_tile_dim_replicate}"]
    made = [OpSharding.from_string(text) for text in texts]
    for n, op in enumerate(made):
        assert [op == other for other in made] == [n == m for m in range(len(made))]
        assert op != str(op) and op != op._fields


def test_the_one_device_may_have_a_tile_and_any_number_of_18_digits() -> None:
    assert OpSharding(Type.MAXIMAL, (1,), (3,)).tile_assignment_dimensions == (1,)
    text = f"{{maximal device={10**18 - 1}}}"
    assert str(OpSharding.from_string(text)) == text
    with pytest.raises(ParseError, match="no more than 18 digits"):
        OpSharding.from_string(f"{{maximal device={10**18}}}")


def test_grids_have_as_many_devices_as_a_text_may(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ParseError, match="a grid of no more than 1,048,576 devices"):
        OpSharding.from_string(f"{{devices=[1]<=[{(1 << 20) + 1}]}}")
    monkeypatch.setattr(op_sharding, "_MOST", 4)
    assert OpSharding.from_string("{devices=[4]<=[2,2]T(1,0)}").num_devices == 4
    with pytest.raises(ParseError, match=r"'\[5\]' at position 14, where a grid of no more than 4"):
        OpSharding.from_string("{devices=[5]<=[5]}")


def test_groups_of_all_devices_are_replicas() -> None:
    texts = {"{replicated}": (3, 5), "{devices=[4]<=[4] last_tile_dim_replicate}": (5, 3)}
    for text, shape in texts.items():
        sharding = GSPMDSharding(list("abcd"), text)
        assert sharding.is_fully_replicated
        assert sharding.shard_shape(shape) == shape


def test_types_have_the_numbers_of_xla() -> None:
    names = ["REPLICATED", "MAXIMAL", "TUPLE", "OTHER", "MANUAL", "UNKNOWN"]
    assert {kind.name: int(kind) for kind in Type} == {name: n for n, name in enumerate(names)}


def test_fields_of_other_types_are_refused() -> None:
    for fields in ((7,), (Type.OTHER, "ab"), (Type.OTHER, (2,), (0.0, 1.0))):
        with pytest.raises(ArgumentTypeError):
            OpSharding(*fields)  # type: ignore[arg-type]
    with pytest.raises(ArgumentTypeError, match="string"):
        OpSharding.from_string(3)  # type: ignore[arg-type]


@given(tiled())
@examples(300)
def test_a_spec_of_it_lays_out_alike(op: OpSharding) -> None:
    devices = list(range(op.num_devices))
    try:
        ours = GSPMDSharding(devices, op)
    except ShardingError:
        assert Type.MANUAL in op.last_tile_dims
        return
    try:
        spec = ShardingSpec.from_sharding_proto(op, op.rank)
    except ShardingError as error:
        assert op.iota() is None or "the axes of the grid" in str(error)
        return
    assert math.prod(spec.mesh_shape) == op.num_devices
    assert ours == GSPMDSharding(devices, spec.sharding_proto())
