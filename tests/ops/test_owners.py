"""Elements by position: taken from the blocks that own them, in memory of the result's size."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._ops.programs.owners import PART, Owners
from gpushard._ops.table import gather
from gpushard._runtime.runtime import Runtime
from gpushard.testing.deferred import gated
from tests import share

SPECS = [gs.P("x", "y"), gs.P(("x", "y")), gs.P("y", "x"), gs.P(None, ("y", "x"))]


def held(runtime: Runtime) -> int:
    for device in runtime.devices:
        device.memory_stats()
    return sum(device.account.in_use for device in runtime.devices)


@pytest.mark.parametrize("spec", SPECS)
def test_only_the_result_takes_memory(spec: gs.P) -> None:
    data = np.arange(4800 * 12.0).reshape(4800, 12)
    at = np.random.default_rng(1).integers(-4800, 4800, 100)
    with testing.runtime(host_devices=8, small_bytes=0, inline_bytes=0) as runtime:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, spec))
        positions = gs.device_put(at, gs.NamedSharding(mesh, gs.P()))
        x[positions].block_until_ready()
        before = held(runtime)
        for device in runtime.devices:
            device.account.peak = device.account.in_use
        made = x[positions]
        made.block_until_ready()
        peak = sum(device.account.peak for device in runtime.devices) - before
        assert peak <= made.nbytes + 100  # the number that says whether they are in bounds
        np.testing.assert_array_equal(np.asarray(made), data[at])


def test_elements_of_what_is_pending_are_taken_once_it_is_there() -> None:
    data, at = np.arange(60.0).reshape(20, 3), np.array([19, 0, 7])
    with testing.runtime(backend="host", host_devices=4, small_bytes=0):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        x, gate = gated(gs.device_put(data, rows))
        made = x[gs.device_put(at, gs.NamedSharding(rows.mesh, gs.P()))]
        assert not made.is_ready()
        gate.open()
        np.testing.assert_array_equal(np.asarray(made), data[at])


@pytest.mark.parametrize("spec", SPECS)
def test_nothing_is_taken_where_there_is_nothing(spec: gs.P) -> None:
    with testing.runtime(host_devices=8, small_bytes=0):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(np.zeros((0, 8)), gs.NamedSharding(mesh, spec))
        at = gs.device_put(np.array([1, 2, -1]), gs.NamedSharding(mesh, gs.P()))
        found = x.at[at].get(mode="fill", fill_value=7)
        np.testing.assert_array_equal(np.asarray(found), np.full((3, 8), 7.0))


def test_positions_in_many_blocks_of_several_dims(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    data = rng.integers(-99, 99, (50, 30, 40)).astype(np.int16)
    ways = (0, gather.PIECE), (0, 500), (gather.SMALL, gather.PIECE)
    for few, piece in ways:  # sorted by owner, the same in small pieces, and joined
        monkeypatch.setattr(gather, "SMALL", few)
        monkeypatch.setattr(gather, "PIECE", piece)
        with testing.runtime(host_devices=8):
            mesh = gs.make_mesh((2, 2, 2), ("x", "y", "z"))
            x = gs.device_put(data, gs.NamedSharding(mesh, gs.P("x", "z", "y")))
            i, j, k = (rng.integers(-n, n, 9) for n in data.shape)
            taken: list[Any] = [
                i,
                (i, j),
                (i, slice(None), k),
                (slice(3, 47), j[:, None], k[:4]),
                (slice(None), slice(None), k),
                (i[:, None], slice(2, 9), k[:3].astype(np.uint8) % 40),
                (slice(None), slice(None), k[:3]),
                (slice(None), slice(None), np.sort(k[:3] % 40)),
                (slice(None), j[:2]),
                np.sort(i % 50),
                (slice(None), np.sort(j % 30)),
                (np.sort(i % 50), slice(None), np.sort(k % 40)),
                (slice(None), np.zeros((2, 0), np.int8)),
            ]
            for index in taken:
                np.testing.assert_array_equal(np.asarray(x[index]), data[index])
                there = np.asarray(x.at[index].get(mode="fill", fill_value=7))
                np.testing.assert_array_equal(there, data[index])
            beyond = np.array([3, 50, -51, 12, 2**40, -(2**40)])
            found = np.asarray(x.at[beyond, 5].get(mode="fill", fill_value=7))
            np.testing.assert_array_equal(found[[0, 3]], data[[3, 12], 5])
            assert (found[[1, 2, 4, 5]] == 7).all()
            along = rng.integers(-30, 30, (50, 4, 40))
            want = np.take_along_axis(data, along, 1)
            np.testing.assert_array_equal(gs.numpy.take_along_axis(x, along, 1), want)


LAYOUTS: list[tuple[gs.P, gs.P, int, gs.P]] = [  # of the array, of the index, how many, of the part
    (gs.P("x"), gs.P(), 4000, gs.P("x")),
    (gs.P("x", "y"), gs.P(), 8000, gs.P("x", "y")),
    (gs.P(("x", "y")), gs.P(), 8000, gs.P(("x", "y"))),
    (gs.P("x"), gs.P(), 100, gs.P()),
    (gs.P("x"), gs.P("x"), 100, gs.P("x")),
    (gs.P("x", "y"), gs.P("x"), 8000, gs.P("x", "y")),
    (gs.P("x", "y"), gs.P(("x", "y")), 8000, gs.P("x", "y")),
    (gs.P("x"), gs.P("y"), 4000, gs.P("y")),
    (gs.P(None, "x"), gs.P(), 4000, gs.P(None, "x")),
]


@pytest.mark.parametrize("domains", [1, 2, 8])
@pytest.mark.parametrize(("own", "index", "many", "part"), LAYOUTS)
def test_what_is_taken_is_split_as_what_it_is_taken_from(
    own: gs.P, index: gs.P, many: int, part: gs.P, domains: int
) -> None:
    data = np.arange(9000 * 16.0).reshape(9000, 16)
    at = np.random.default_rng(2).integers(-9000, 9000, many)
    with testing.runtime(host_devices=8, host_domains=domains):
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, own))
        for positions in (gs.device_put(at, gs.NamedSharding(mesh, index)), at):
            if positions is at and index != gs.P():
                continue
            made = x[positions]
            assert made.sharding == gs.NamedSharding(mesh, part)
            np.testing.assert_array_equal(np.asarray(made), data[at])


@pytest.mark.parametrize(
    ("many", "length", "part"),
    [(3, 1 << 15, gs.P()), (4, 1 << 15, gs.P("x")), (5, 1 << 15, gs.P("x")),
     (4, PART // 8, gs.P("x")), (4, PART // 8 - 1, gs.P())],
)  # fmt: skip
def test_few_long_rows_are_dealt_out_if_each_part_has_one(
    many: int, length: int, part: gs.P
) -> None:
    with testing.runtime(host_devices=4):
        rows = gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))
        x = gs.numpy.zeros((8, length), device=rows)
        assert x[np.arange(many)].sharding.spec == part


def test_the_array_stays_where_it_is() -> None:
    data = np.arange(20_000 * 8.0).reshape(20_000, 8)
    rng = np.random.default_rng(3)
    with testing.runtime(host_devices=8, small_bytes=0) as runtime:
        rows = gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
        x = gs.device_put(data, rows)
        for positions in (rng.permutation(20_000), rng.permutation(20_000)[:50]):
            at = gs.device_put(positions).block_until_ready()
            before = sum(runtime.backend.traffic.values())
            made = x[at].block_until_ready()
            if runtime.backend.host_readable:  # GPUs move what they take many elements from
                assert sum(runtime.backend.traffic.values()) - before <= at.nbytes
            np.testing.assert_array_equal(np.asarray(made), data[positions])


@pytest.mark.parametrize("mode", ["raise", "wrap", "clip"])
def test_elements_by_number_are_taken_where_they_lie(mode: str) -> None:
    data = np.arange(60 * 40.0).reshape(60, 40)
    numbers = np.random.default_rng(5).integers(-2400, 2400, (3, 7))
    with testing.runtime(host_devices=8, small_bytes=0) as runtime:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        x = gs.device_put(data, gs.NamedSharding(mesh, gs.P("x", "y")))
        at = gs.device_put(numbers, gs.NamedSharding(mesh, gs.P()))
        before = runtime.backend.traffic.get((0, 0))
        for given in (at, numbers, numbers[0, 0], numbers[:0]):
            found = gs.numpy.take(x, given, mode=mode)
            np.testing.assert_array_equal(
                np.asarray(found), data.take(np.asarray(given), None, None, mode)
            )
        assert runtime.backend.traffic.get((0, 0)) == before
        with pytest.raises(IndexError, match="2400"):
            gs.numpy.take(x, np.array([0, 2400]))


@pytest.mark.parametrize(
    "starts", [(0,), (0, 3, 6), (0, 3, 7), (0, 1), (0, 4), (0, 3, 6, 9), (0, 2, 5), (0, 3, 3)]
)
def test_which_block_has_a_position(starts: tuple[int, ...]) -> None:
    for size in range(starts[-1] + 1, starts[-1] + 6):
        at = np.random.default_rng(0).permutation(size)
        number, within = Owners((starts,), ()).find(0, at, size)
        wanted = [max(n for n, start in enumerate(starts) if start <= place) for place in at]
        assert number.tolist() == wanted
        assert (np.array(starts)[number] + within).tolist() == at.tolist()


def test_steps_of_blocks() -> None:
    found = Owners(((0,), (0, 3, 6), (0, 3, 7), (0, 5), (0, 3, 6, 8)), ())
    assert found.steps == (0, 3, 0, 5, 0) and found.counts == (1, 3, 3, 2, 4)
    assert found.numbers.tolist() == [*range(72)] and found.numbers.dtype == np.uint8


@pytest.mark.parametrize("piece", [1, 17, 40, 100, 260, 1 << 20])
@pytest.mark.parametrize("ascending", [True, False])
def test_rows_of_blocks_are_taken_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, piece: int, ascending: bool
) -> None:
    monkeypatch.setattr(gather, "PIECE", piece)
    rng = np.random.default_rng(piece)
    blocks = [rng.integers(0, 99, (4, 3, 2), np.int64) for _ in range(4)]
    numbers = np.arange(4, dtype=np.uint8)
    for dims, count, beyond in itertools.product((1, 2, 3), (0, 1, 5, 11, 16), (False, True)):
        # Nothing is taken from the block between, and what is in none stays as it is.
        owner = rng.choice([0, 1, 3, 4] if beyond else [0, 1, 3], count).astype(np.uint8)
        if ascending:
            owner.sort()
        at = [rng.integers(0, size, count) for size in (4, 3, 2)[:dims]]
        part = np.full((count, *(3, 2)[dims - 1 :]), -1)
        gather._take_rows(part, owner, at, blocks, numbers)
        nobody = np.full(blocks[0].shape, -1)
        wanted = [
            [*blocks, nobody][n][tuple(places[i] for places in at)] for i, n in enumerate(owner)
        ]
        np.testing.assert_array_equal(part, np.reshape(wanted, part.shape))


@pytest.mark.parametrize("piece", [1, 17, 100, 1 << 20])
@pytest.mark.parametrize("ascending", [True, False])
def test_another_dim_of_blocks_is_taken_from_in_pieces_of_any_size(
    monkeypatch: pytest.MonkeyPatch, piece: int, ascending: bool
) -> None:
    monkeypatch.setattr(gather, "PIECE", piece)
    rng = np.random.default_rng(piece)
    whole, starts = rng.integers(0, 99, (5, 3, 10, 2)), np.array([0, 4, 7])
    blocks = [whole[:, :, :4].copy(), whole[:, :, 4:7].copy(), whole[:, :, 7:].copy()]
    for count in (0, 1, 8):
        at = rng.integers(0, 10, count)
        if ascending:
            at.sort()
        owner = (starts.searchsorted(at, "right") - 1).astype(np.uint8)
        order, ends = gather._by_number(owner, np.arange(3, dtype=np.uint8))
        parts = np.full((2, 5, 3, count, 2), -1)
        gather._take_along(parts[0], 2, order, at - starts[owner], blocks, ends)
        gather._take_joined(parts[1], 2, at, 10, starts.tolist(), blocks)
        np.testing.assert_array_equal(parts, np.stack([whole[:, :, at]] * 2))


KINDS = (np.int8, np.uint8, np.int32, np.int64, np.uint64)


@share.examples(60)
@given(st.data())
def test_positions_of_any_kind_take_what_numpy_takes(data: st.DataObject) -> None:
    """Split in any way, with positions that repeat, ascend, count from the end or are none."""
    rng = np.random.default_rng(data.draw(st.integers(0, 1 << 32)))
    shape = tuple(data.draw(st.lists(st.integers(1, 90), min_size=1, max_size=3)))
    x = rng.integers(-99, 99, shape).astype(data.draw(st.sampled_from((np.int16, np.float64))))
    dim = data.draw(st.integers(0, len(shape) - 1))
    size, before = shape[dim], (slice(None),) * dim
    kind = np.dtype(data.draw(st.sampled_from(KINDS)))
    count = data.draw(st.sampled_from(((0,), (1,), (11,), (70,), (3, 4))))
    at = rng.integers(0 if kind.kind == "u" else -size, size, count).astype(kind)
    if data.draw(st.booleans()):
        at.sort()
    axes: list[Any] = data.draw(st.permutations(["y", None, None]))
    axes.insert(dim, data.draw(st.sampled_from(("x", ("x", "y"), None))))
    spec = [axis if axis != "y" or axes[dim] != ("x", "y") else None for axis in axes[: len(shape)]]
    own = data.draw(st.sampled_from((None, gs.P(), gs.P("y"))))
    with pytest.MonkeyPatch.context() as patch, testing.runtime(host_devices=8, small_bytes=64):
        patch.setattr(gather, "SMALL", data.draw(st.sampled_from((0, 1 << 20))))
        patch.setattr(gather, "PIECE", data.draw(st.sampled_from((1, 100, 1 << 20))))
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        split = gs.device_put(x, gs.NamedSharding(mesh, gs.P(*spec)))
        placed = gs.device_put(at, None if own is None else gs.NamedSharding(mesh, own))
        for positions in (placed, placed, at):
            np.testing.assert_array_equal(np.asarray(split[(*before, positions)]), x[(*before, at)])
        if not at.size:
            return
        beyond = at.astype(np.int64)
        wrong = int(rng.choice([size, -1 - size]))
        beyond.flat[rng.integers(at.size)] = wrong
        for positions in (gs.device_put(beyond), beyond):
            with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
                split[(*before, positions)]
        filled = split.at[(*before, beyond)].get(mode="fill", fill_value=7)
        wanted = x[(*before, np.where(beyond == wrong, 0, beyond))]
        wanted[(*before, beyond == wrong)] = 7
        np.testing.assert_array_equal(np.asarray(filled), wanted)


def test_a_small_part_of_an_array_is_taken_without_the_lock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with testing.runtime(backend="host", host_devices=4) as runtime:
        order = gs.random.permutation(gs.random.key(0), 20_000)
        (order[100:200] + order[-100:]).block_until_ready()
        locked = []
        run_locked = runtime.run_locked
        monkeypatch.setattr(
            runtime, "run_locked", lambda *step: locked.append(step) or run_locked(*step)
        )
        parts = [order[start : start + 100] for start in range(0, 1000, 100)]
        assert not locked
        np.testing.assert_array_equal(np.concatenate(parts), np.asarray(order)[:1000])
