"""Relays: values, bytes and balance, on streams that run in any order, and where they fail."""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import testing
from gpushard._movement import rearrange as rearranging
from gpushard._movement.plan import Plan
from gpushard._movement.planning import broadcast_tree, rearrangements
from gpushard._movement.planning.copies import Copies, expand
from gpushard._movement.planning.dim_maps import identity, permutation
from gpushard._movement.planning.rearrangements import Rearrangement, reshape
from gpushard._movement.planning.reshard import make_plan
from gpushard._movement.planning.update import make_update, touch
from gpushard._movement.rearrange import rearrange
from gpushard._movement.reshard import plan_for
from gpushard._ops.basic_index import index_piece, parse_index
from gpushard._runtime.runtime import Runtime
from gpushard.errors import DeletedArrayError, ExecutionError
from gpushard.testing import nvlink, record_work, simulate
from gpushard.testing.deferred import deferred
from tests.movement.element_oracle import Shape, Side, all_specs
from tests.movement.strategies import (
    DEVICES,
    Runtimes,
    indices,
    numbers,
    runtimes_of,
    sharding_of,
)
from tests.movement.test_plan_vs_oracle import INLINE, POOLED, Case
from tests.movement.test_steps import check_steps
from tests.share import examples, seeds

P = gs.P
EAGER: dict[str, Any] = {"inline_bytes": 0, "small_bytes": 0, "relay_bytes": 0}
CALLER: dict[str, Any] = {"relay_bytes": 0}
DATA = np.arange(96 * 5, dtype=np.float32).reshape(96, 5)


def few(runtime: Runtime, count: int, spec: gs.P) -> gs.NamedSharding:
    """The first devices in a row."""
    return gs.NamedSharding(gs.make_mesh((count,), ("x",), devices=runtime.devices[:count]), spec)


def everywhere(runtime: Runtime) -> gs.NamedSharding:
    return few(runtime, len(runtime.devices), P())


def egress(plan: Plan) -> list[int]:
    """Bytes that each of eight domains sends."""
    links = plan.link_bytes.items()
    return [sum(n for (of, to), n in links if of == domain != to) for domain in range(8)]


def both_plans(
    runtime: Runtime, shape: Shape, here: gs.Sharding, there: gs.Sharding, relay_bytes: int = 0
) -> tuple[Plan, Plan]:
    """The plans without and with relays."""
    of, to = here.tiling(shape), there.tiling(shape)
    piece = identity(shape)
    return make_plan(of, to, piece, 4), make_plan(of, to, piece, 4, relay_bytes=relay_bytes)


@pytest.fixture(scope="module")
def runtimes() -> Iterator[Runtimes]:
    """Runtimes that relay whatever spreads the load."""
    relaying = {"relay_bytes": 0}
    with runtimes_of((2, 4, 12), POOLED | relaying, INLINE | relaying) as made:
        yield made


choices = st.tuples(st.sampled_from((2, 4, 12)), st.booleans())


@st.composite
def spreads(draw: st.DrawFn, ndim: int, result: int) -> tuple[Side, Side]:
    """A source on a few devices, split or with replicas; a result with replicas on many."""
    devices = draw(st.permutations(range(DEVICES)))
    mesh = draw(st.sampled_from([(1, 1), (2, 1), (1, 2), (3, 1), (1, 3), (2, 2), (4, 1)]))
    split = draw(st.integers(-1, ndim - 1))
    source = Side(
        mesh,
        tuple(devices[: math.prod(mesh)]),
        tuple((0,) if dim == split else () for dim in range(ndim)),
    )
    wide = draw(st.sampled_from([(1, 12), (2, 6), (3, 4), (1, 5), (2, 3), (1, 8)]))
    devices = draw(st.permutations(range(DEVICES)))
    split = draw(st.integers(-1, result - 1))
    spec = tuple((0,) if dim == split else () for dim in range(result))
    return source, Side(wide, tuple(devices[: math.prod(wide)]), spec)


shapes = st.lists(st.integers(1, 5) | st.integers(1, 40), min_size=1, max_size=3)
shapes = shapes.filter(lambda shape: math.prod(shape) < 3000).map(tuple)
dtypes = st.sampled_from(("int8", "int16", "float32", "float64"))


@examples(250)
@given(st.data(), shapes, dtypes, choices)
def test_random_spreads(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, dtype: str, choice: tuple[int, bool]
) -> None:
    """Least bytes, as the backend counts them, and NumPy's values."""
    source, destination = draw.draw(spreads(len(shape), len(shape)))
    case = Case.make(runtimes[choice], numbers(shape, dtype), source)
    event(f"relays: {case.x.plan(sharding_of(runtimes[choice], destination)).relays > 0}")
    case.check(destination)


@examples(150)
@given(st.data(), shapes, dtypes, choices)
def test_random_spreads_of_parts(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, dtype: str, choice: tuple[int, bool]
) -> None:
    runtime, index = runtimes[choice], draw.draw(indices(shape))
    piece = index_piece(parse_index(shape, index))
    source, destination = draw.draw(spreads(len(shape), len(piece.shape)))
    case = Case.make(runtime, numbers(shape, dtype), source)
    tiling = sharding_of(runtime, destination).tiling(piece.shape)
    event(f"relays: {plan_for(case.x._live(), tiling, piece).plan.relays > 0}")
    case.check_part(destination, piece, lambda a: np.asarray(a[index]))


@examples(100)
@given(st.data(), shapes, choices)
def test_random_spreads_transposed(
    runtimes: Runtimes, draw: st.DataObject, shape: Shape, choice: tuple[int, bool]
) -> None:
    runtime = runtimes[choice]
    axes = tuple(draw.draw(st.permutations(range(len(shape)))))
    source, destination = draw.draw(spreads(len(shape), len(shape)))
    Case.make(runtime, numbers(shape, "int16"), source).check_part(
        destination,
        permutation(shape, axes),
        lambda a: a.transpose(axes),
        reuse=axes == tuple(range(len(shape))),
    )


SPREADS = [(1, P()), (2, P("x")), (2, P()), (3, P("x")), (3, P(None, "x")), (3, P()), (4, P("x"))]


@pytest.mark.one_of(2)
@pytest.mark.parametrize(("count", "spec"), SPREADS, ids=str)
@pytest.mark.parametrize("shape", [(96, 5), (97, 3), (13, 1, 7), (1, 2), (300,)])
@pytest.mark.parametrize("mode", [EAGER, CALLER], ids=["streams", "caller"])
def test_spreads_to_all_of_eight(count: int, spec: gs.P, shape: Shape, mode: Any) -> None:
    if len(spec) > len(shape):
        spec = P("x")
    data = numbers(shape, np.int16)
    with testing.runtime(host_domains=8, **mode) as runtime:
        x = gs.device_put(data, few(runtime, count, spec))
        plan = x.plan(everywhere(runtime))
        before = dict(runtime.backend.traffic)
        y = gs.reshard(x, everywhere(runtime)).block_until_ready()
        moved = {k: n - before.get(k, 0) for k, n in runtime.backend.traffic.items()}
        assert {link: n for link, n in moved.items() if n} == plan.link_bytes
        for shard in y.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), data)


GAINS = [(1, P(), 7.0), (2, P("x"), 3.5), (4, P("x"), 1.75), (2, P(), 3.0), (3, P(), 5 / 3)]


@pytest.mark.parametrize(("count", "spec", "gain"), GAINS)
def test_the_busiest_domain_sends_less(count: int, spec: gs.P, gain: float) -> None:
    shape = (12 * 16 * 12, 3)
    with testing.runtime(host_domains=8) as runtime:
        here, there = few(runtime, count, spec), everywhere(runtime)
        direct, relayed = both_plans(runtime, shape, here, there)
        assert direct.relays == 0 < relayed.relays
        assert max(egress(direct)) / max(egress(relayed)) == pytest.approx(gain, rel=0.02)
        assert (direct.written, direct.received) == (relayed.written, relayed.received)
        sent = egress(relayed)
        assert max(sent[:count]) - min(sent[:count]) <= 0.1 * max(sent)


def test_relays_are_the_copies_of_what_their_source_did_not_hold() -> None:
    for holder in range(8):
        with testing.runtime(host_domains=8) as runtime:
            here = gs.SingleDeviceSharding(runtime.devices[holder])
            plan = both_plans(runtime, (960, 3), here, everywhere(runtime))[1]
        (_, copies), *others = plan.how.tables()
        assert plan.relays and not others
        assert plan.relays == (copies.remote & (copies.source_domain != holder)).sum()


ROWS = np.arange(3600.0).reshape(100, 36)
REARRANGED: dict[str, tuple[Rearrangement, Any]] = {
    "repeated": (rearrangements.repeat(ROWS.shape, 3, 0), np.repeat(ROWS, 3, axis=0)),
    "in other rows": (reshape(ROWS.shape, (36, 100)), ROWS.reshape(36, 100)),
    "the same twice": (
        rearrangements.concatenate((ROWS.shape,) * 2, 0),
        np.concatenate((ROWS, ROWS)),
    ),
}


@pytest.mark.parametrize("settings", [EAGER, CALLER], ids=["streams", "caller"])
@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("what", list(REARRANGED))
def test_what_is_rearranged_is_passed_on_too(
    what: str, count: int, settings: dict[str, Any]
) -> None:
    how, expected = REARRANGED[what]
    plans = []
    for relay_bytes in (1 << 40, 0):
        chosen = settings | {"relay_bytes": relay_bytes}
        with testing.runtime(host_domains=8, **chosen) as runtime:
            here, there = few(runtime, count, P("x")), everywhere(runtime)
            sources = [gs.device_put(ROWS, here)._live()] * len(how.sources)
            result = rearrange(sources, how, there.tiling(how.shape))
            assert np.array_equal(np.asarray(gs.Array(result, there)), expected)
            plans.append(rearranging.plan_for(sources, how, there.tiling(how.shape))[0].plan)
    direct, relayed = plans
    assert direct.relays == 0 < relayed.relays
    assert (direct.written, direct.received) == (relayed.written, relayed.received)
    assert max(egress(relayed)) <= 0.5 * max(egress(direct))
    check_steps(relayed)


@pytest.mark.parametrize("holder", [0, 5, 15])
def test_a_slow_link_between_neighbourhoods_carries_each_byte_once(holder: int) -> None:
    """From one of 16 domains: four neighbourhoods of four, in ascending order from its own on."""
    shape = (12 * 16 * 4, 3)
    with testing.runtime(host_devices=16, host_domains=16) as runtime:
        here = gs.SingleDeviceSharding(runtime.devices[holder])
        plan = both_plans(runtime, shape, here, everywhere(runtime))[1]
    between: dict[tuple[int, int], int] = defaultdict(int)
    for (of, to), nbytes in plan.link_bytes.items():
        between[of // 4, to // 4] += nbytes
    crossing = {link: nbytes for link, nbytes in between.items() if link[0] != link[1]}
    around = [(holder // 4 + turn) % 4 for turn in range(4)]
    assert crossing == dict.fromkeys(itertools.pairwise(around), 4 * math.prod(shape))


@pytest.mark.parametrize(("count", "spec", "_gain"), GAINS)
def test_waves_keep_all_links_busy(count: int, spec: gs.P, _gain: float) -> None:
    """Without a latency: 16 chunks take 18 turns of a chunk, and unequal domains some more."""
    data = np.zeros((2304, 64), np.float32)
    with testing.runtime(host_domains=8, **EAGER) as runtime:
        x = gs.device_put(data, few(runtime, count, spec)).block_until_ready()
        work, _ = record_work(runtime, lambda: gs.reshard(x, everywhere(runtime)))
    flat = testing.Topology("flat", 8, nvlink(8).bandwidth, nvlink(8).routes, 0.0)
    assert simulate(work, flat).makespan < 1.35 * data.nbytes / 450e9


@pytest.mark.parametrize("count", [2, 3, 4])
def test_nobody_waits_for_what_a_domain_copies_within_itself(count: int) -> None:
    with testing.runtime(host_domains=8) as runtime:
        here, there = few(runtime, count, P("x")), everywhere(runtime)
        steps = both_plans(runtime, (960, 3), here, there)[1].steps
    awaited = {step for reader in steps for _, step in reader.after}
    within = {
        number
        for number, step in enumerate(steps)
        for phase in step.phases
        if any(source == step.domain for *_, source in phase.moves)
    }
    assert len(within) == count and not within & awaited


def test_what_a_wave_costs_decides_how_many_there_are() -> None:
    shape = (1 << 12, 1 << 6)  # 1 MiB
    with testing.runtime(host_domains=8) as runtime:
        here, there = few(runtime, 1, P()), everywhere(runtime)
        waves = [
            both_plans(runtime, shape, here, there, 1 << bits)[1].waves for bits in range(12, 24)
        ]
    assert waves == sorted(waves, reverse=True)
    assert waves[0] == 18 and waves[-1] == 1 and len(set(waves)) > 4


def time_of(copies: Copies, latency: float) -> float:
    """What the busiest domain of each wave sends or receives, and a latency per wave."""
    apart = copies.domain != copies.source_domain
    wave = np.zeros(len(copies), np.int64) if copies.wave is None else copies.wave
    total = 0.0
    for n in range(wave[apart].max() + 1):
        now = apart & (wave == n)
        sides = (
            np.bincount(side[now], copies.volume[now])
            for side in (copies.source_domain, copies.domain)
        )
        total += max(side.max() for side in sides) + latency
    return total


@pytest.mark.parametrize("devices", [4, 8, 16])
@pytest.mark.parametrize(
    ("count", "spec"), [(1, P()), (2, P("x")), (3, P("x")), (2, P()), (3, P())]
)
def test_as_many_chunks_as_take_the_least_time(
    monkeypatch: pytest.MonkeyPatch, devices: int, count: int, spec: gs.P
) -> None:
    """Beside what the copies themselves say, for every number of chunks."""
    chunks = broadcast_tree._CHUNKS
    shape = (48 * 84 * 4, 2)
    with testing.runtime(host_devices=devices, host_domains=devices) as runtime:
        direct, _ = both_plans(runtime, shape, few(runtime, count, spec), everywhere(runtime))
    ways = [direct.how.copies]
    for number in chunks:
        monkeypatch.setattr(broadcast_tree, "_CHUNKS", (number,))
        ways.append(expand(direct.how.overlap, direct.copied, 0.0))
    monkeypatch.setattr(broadcast_tree, "_CHUNKS", chunks)
    many: set[int] = set()
    for latency in (0.0, *(float(1 << bits) for bits in range(6, 18))):
        made = expand(direct.how.overlap, direct.copied, latency)
        best = min(time_of(copies, latency) for copies in ways)
        assert time_of(made, latency) <= best * 1.005  # rows are whole
        many.add(1 if made.wave is None else int(made.wave.max()) + 1)
    assert devices == 4 or len(many) > 3


def same_copies(a: Plan, b: Plan) -> bool:
    rows = ("pair", "held", "source_offset", "destination_offset", "length")
    pairs = [(getattr(a.how.copies, row), getattr(b.how.copies, row)) for row in rows]
    return all(np.array_equal(x, y) for x, y in pairs) and b.relays == 0


def test_no_relays_within_one_set_of_devices() -> None:
    specs = list(all_specs(2, 3))
    with testing.runtime(host_domains=8) as runtime:
        for source, destination in list(itertools.product(specs, repeat=2))[::7]:
            here, there = (
                sharding_of(runtime, Side((2, 2, 2), tuple(range(8)), spec))
                for spec in (source, destination)
            )
            assert same_copies(*both_plans(runtime, (16, 16), here, there))


@pytest.mark.parametrize(
    ("holders", "receivers"), [((0,), (7,)), ((0, 1), (6, 7)), ((0, 1, 2, 3), (0, 5, 6, 7))]
)
def test_no_relays_with_no_more_receivers_than_holders(
    holders: Sequence[int], receivers: Sequence[int]
) -> None:
    with testing.runtime(host_domains=8) as runtime:
        here, there = (
            sharding_of(runtime, Side((len(ids),), tuple(ids), ((), ())))
            for ids in (holders, receivers)
        )
        assert same_copies(*both_plans(runtime, (64, 4), here, there))


def test_no_relays_of_parts_that_differ() -> None:
    """Domains that want different parts of a block have nothing to give one another."""
    with testing.runtime(host_domains=8) as runtime:
        here, there = few(runtime, 1, P()), few(runtime, 8, P("x"))
        assert same_copies(*both_plans(runtime, (64, 4), here, there))


def test_no_relays_where_they_cost_more_than_they_gain() -> None:
    with testing.runtime(host_domains=8) as runtime:
        assert same_copies(
            *both_plans(runtime, (64, 4), few(runtime, 1, P()), everywhere(runtime), 1 << 20)
        )
        # Three waves in place of one cost more than the 0.75 MiB that are saved.
        here = few(runtime, 4, P("x"))
        assert same_copies(*both_plans(runtime, (1 << 18,), here, everywhere(runtime), 350_000))
        # Seven of eight hold a part each: each sends as much as the last one receives.
        assert same_copies(
            *both_plans(runtime, (70, 4), few(runtime, 7, P("x")), everywhere(runtime))
        )


def test_only_what_empty_domains_want_is_relayed() -> None:
    """One half of the result goes to domains that hold a quarter each, the other to empty ones."""
    with testing.runtime(host_domains=8) as runtime:
        halves = gs.NamedSharding(gs.make_mesh((2, 4), ("x", "y")), P("x"))
        plan = both_plans(runtime, (96, 5), few(runtime, 4, P("x")), halves)[1]
        again = plan.how.copies.read_pair
        assert again is not None
        assert set(plan.how.copies.domain[again >= 0].tolist()) == {4, 5, 6, 7}
        assert not plan.how.copies.wave[plan.how.copies.domain < 4].any()  # they wait for nobody


def test_one_empty_domain_is_enough_for_a_relay() -> None:
    """Four of eight have two rows each, three have none of them, and the last holds nothing."""
    with testing.runtime(host_domains=8) as runtime:
        here, there = few(runtime, 7, P("x")), everywhere(runtime)
        direct, relayed = both_plans(runtime, (8, 60), here, there)
        assert relayed.relays and max(egress(relayed)) < max(egress(direct))


def test_no_relays_of_scalars_nor_in_updates() -> None:
    with testing.runtime(host_domains=8, **EAGER) as runtime:
        here, there = few(runtime, 1, P()), everywhere(runtime)
        assert same_copies(*both_plans(runtime, (), here, there))
        base, value = there.tiling((64, 4)), here.tiling((64, 4))
        touched = touch(base, identity((64, 4)), 4)
        assert make_update(base, value, touched, 4).relays == 0


def test_what_a_plan_says_of_its_links() -> None:
    """The last of three shards has one element, the others have three."""
    with testing.runtime(host_devices=3, host_domains=3):
        mesh = gs.make_mesh((3,), "x")
        x = gs.device_put(np.arange(7.0), gs.NamedSharding(mesh, P("x")))
        assert x.plan(gs.NamedSharding(mesh, P())).explain().splitlines() == [
            "move (7,) on 3 devices to (7,) on 3 devices in 3 memory domains",
            "  blocks, once per domain: 3 copied",
            "  written: 168 bytes, the least possible",
            "  received from other domains: 112 bytes, the least possible",
            "  peak: 80 bytes on one device",
            "  links: 6 between domains, the busiest 0 -> 1 with 24 bytes",
        ]
        alone = x.plan(gs.NamedSharding(gs.Mesh(gs.devices()[:1], "x"), P())).explain()
        assert "links: 2 between domains, the busiest 1 -> 0 with 24 bytes" in alone


def test_what_a_plan_says_of_its_relays() -> None:
    with testing.runtime(host_domains=8) as runtime:
        plan = both_plans(runtime, (96, 5), few(runtime, 1, P()), everywhere(runtime))[1]
        again = plan.how.copies.read_pair
        assert again is not None and plan.relays == (again >= 0).sum() > 0
        text = f"relayed: {plan.relays:,} of {len(plan.how.copies):,} box copies"
        assert text in plan.explain() and f"in {plan.waves} waves" in plan.explain()
        direct = both_plans(runtime, (96, 5), few(runtime, 1, P()), everywhere(runtime))[0]
        assert "relayed" not in direct.explain() and direct.waves == 1
        fewer = both_plans(runtime, (96, 5), few(runtime, 1, P()), few(runtime, 2, P()))[0]
        assert plan.nbytes > direct.nbytes > fewer.nbytes > 0


@pytest.mark.parametrize("seed", seeds(24))
def test_any_order_of_items(seed: int) -> None:
    """Of pending sources, with memory that is used again, under the race checker."""
    count, spec = SPREADS[seed % len(SPREADS)]
    with testing.simulated(seed, host_domains=8, **EAGER) as runtime:
        runtime.sim.failing = 0  # no shortage of memory
        for turn in range(3):
            x = gs.device_put(DATA, few(runtime, count, spec))
            y = deferred(x, lambda shard, turn=turn: shard + turn)
            z = gs.reshard(y, everywhere(runtime), donate=bool(turn % 2))
            back = gs.reshard(z, few(runtime, 3, P("x")))
            again = gs.reshard(back, everywhere(runtime))
            gs.reshard(back, everywhere(runtime))  # dropped while it is pending
            del x, y, back
            for result in (again, z):
                shards = [np.asarray(shard.data) for shard in result.addressable_shards]
                assert all(np.array_equal(shard, DATA + turn) for shard in shards)
            del result, z, again
        assert runtime.checker.checks > 0


class BrokenError(Exception):
    """What the work raises."""


@pytest.mark.parametrize(("count", "spec"), SPREADS, ids=str)
@pytest.mark.parametrize("mode", [EAGER, CALLER], ids=["streams", "caller"])
def test_a_failed_source_reaches_every_domain(count: int, spec: gs.P, mode: Any) -> None:
    with testing.runtime(host_domains=8, **mode) as runtime:
        cause = BrokenError("the disk is gone")
        x, gate = testing.gated(gs.device_put(DATA, few(runtime, count, spec)), error=cause)
        y = gs.reshard(x, everywhere(runtime))
        gate.open()
        for device in range(8):
            with pytest.raises(ExecutionError, match="the disk is gone") as caught:
                np.asarray(y.addressable_shards[device].data)
            assert caught.value.__cause__ is cause
        good = gs.reshard(gs.device_put(DATA, few(runtime, count, spec)), everywhere(runtime))
        assert np.array_equal(np.asarray(good), DATA)


@pytest.mark.parametrize("wave", [0, 1, 4, 16])
def test_a_part_that_fails_is_not_hidden_by_later_ones(
    wave: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own domain and all that are behind it have the error; the others have the data."""
    with testing.runtime(host_domains=8, **EAGER) as runtime:
        x = gs.device_put(DATA, few(runtime, 1, P())).block_until_ready()
        plan, copy, calls = x.plan(everywhere(runtime)), runtime.backend.copy_phase, [0] * 8
        of_domain = [step for step in plan.steps if step.domain == 2]
        failing = min(wave, len(of_domain) - 1)

        def fail_once(phase: Any, operands: Any, domain: int) -> None:
            calls[domain] += 1
            if domain == 2 and calls[domain] == failing + 1:
                raise BrokenError("one copy failed")
            copy(phase, operands, domain)

        monkeypatch.setattr(runtime.backend, "copy_phase", fail_once)
        y = gs.reshard(x, everywhere(runtime))
        wrong = set()
        for device in range(8):
            try:
                assert np.array_equal(np.asarray(y.addressable_shards[device].data), DATA)
            except ExecutionError as error:
                assert isinstance(error.__cause__, BrokenError)
                wrong.add(device)
        assert calls[2] >= failing + 1
        assert 2 in wrong and 0 not in wrong
        if wave == 0:
            assert wrong == set(range(1, 8))


def test_donated_memory_goes_when_the_last_wave_has_read_it() -> None:
    with testing.runtime(host_domains=8, **EAGER) as runtime:
        x, gate = testing.gated(gs.device_put(DATA, few(runtime, 2, P("x"))))
        y = gs.reshard(x, everywhere(runtime), donate=True)
        assert x.is_deleted()
        with pytest.raises(DeletedArrayError):
            np.asarray(x)
        gate.open()
        del x
        for shard in y.addressable_shards:
            assert np.array_equal(np.asarray(shard.data), DATA)
        in_use = [int(device.memory_stats()["bytes_in_use"] or 0) for device in runtime.devices]
        assert in_use == [DATA.nbytes] * 8
