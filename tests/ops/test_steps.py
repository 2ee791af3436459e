"""Programs of steps: what runs in which order, what is held meanwhile, and what it costs."""

from __future__ import annotations

import gc
import weakref
from collections import Counter
from collections.abc import Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import gpushard as gs
from gpushard import P, testing
from gpushard._movement.sharding_devices import devices_of
from gpushard._ops.programs.bring import bring
from gpushard._ops.programs.calls import CallPlan, KernelCall, LocalCalls
from gpushard._ops.programs.local import Compute
from gpushard._ops.steps import Draft, Runnable, Steps, evenly
from gpushard._runtime.claims import Claim
from gpushard._runtime.launch import Outputs
from gpushard.debug import count_traffic
from gpushard.errors import TransferGuardError


class Block:
    """A value: some bytes of memory."""


class Making(Runnable):
    """Makes values of some sizes, and counts those that are held."""

    def __init__(self, held: list[weakref.ref[Block]], *writes: int, scratch: int = 0) -> None:
        self._held, self.writes, self._scratch = held, writes, scratch
        self.alive: list[int] = []

    @property
    def scratch(self) -> int:
        return self._scratch

    @property
    def nbytes(self) -> int:
        return 10

    def received(self, numbers: Sequence[Any] = ()) -> Counter[Any]:
        return Counter({0: sum(self.writes)})

    def flops(self) -> Counter[Any]:
        return Counter({1: 1})

    def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        self.taken = [x for x in operands]
        gc.collect()
        self.alive.append(sum(of() is not None for of in self._held))
        self.taken.clear()
        results: list[Any] = [Block() for _ in self.writes]
        self._held += map(weakref.ref, results)
        return results


def test_values_are_held_as_long_as_a_step_needs_them() -> None:
    held: list[weakref.ref[Block]] = []
    works = [Making(held, 100), Making(held, 20, 3), Making(held, 7), Making(held, 1, scratch=50)]
    draft = Draft(1)
    (a,) = draft.add(works[0], [0])
    b, c = draft.add(works[1], [0, a])
    (d,) = draft.add(works[2], [b])
    (end,) = draft.add(works[3], [c, d])
    steps = Steps(draft, [c, end])
    steps.run([Block()], ())
    # Before each step: nothing; a; b and c; c and d.
    assert [work.alive for work in works] == [[0], [1], [2], [2]]
    assert steps.scratch == max(100 + 20, 20 + 7, 7 + 50)
    assert steps.nbytes == 40
    assert steps.received() == {0: 131}
    assert steps.flops() == {1: 4}
    assert steps.launches(()) is None


def test_a_chain_hands_results_on() -> None:
    held: list[weakref.ref[Block]] = []
    works = [Making(held, 4), Making(held, 5), Making(held, 6)]
    draft = Draft(1)
    value = 0
    for work in works:
        (value,) = draft.add(work, [value])
    steps = Steps(draft, [value])
    assert isinstance(steps.run([Block()], ())[0], Block)
    assert [work.alive for work in works] == [[0], [1], [1]]
    assert steps.scratch == 4 + 5


def test_a_step_that_takes_some_operands_gets_no_others() -> None:
    class Last(Making):
        def run(self, operands: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
            return [operands[-1]]

    first, second = Block(), Block()
    draft = Draft(2)
    ends = draft.add(Last([], 4), [0])
    assert Steps(draft, ends).run([first, second], ()) == [first]


def test_no_step_returns_the_operands() -> None:
    x = Block()
    assert Steps(Draft(2), [1, 0]).run([None, x], ()) == [x, None]
    assert Steps(Draft(1), [0]).scratch == 0


def test_operands_may_be_results() -> None:
    held: list[weakref.ref[Block]] = []
    draft, x = Draft(2), Block()
    (end,) = draft.add(Making(held, 4), [1])
    first, second = Steps(draft, [0, end]).run([x, None], ())
    assert first is x
    assert isinstance(second, Block)


def test_parts_that_are_picked_keep_their_memory() -> None:
    calls: Any = mock.Mock(dtypes=[float], writes=[24], of_device=[0, 1, 2])
    claims = [Claim() for _ in range(3)]
    calls.run_parts.return_value = [Outputs(["a", "b", "c"], claims, True)]
    step = Compute(calls, parts={0: [2, 0]})
    (picked,) = step.run([], ())
    assert (picked.values, picked.settled) == (["c", "a"], True)
    assert picked.claims[0] is claims[2]
    assert picked.claims[1] is claims[0]
    (every,) = Compute(calls, parts={0: None}).run([], ())
    assert every.values == ["a", "b", "c"]


def test_a_guard_is_asked_before_the_first_step() -> None:
    held: list[weakref.ref[Block]] = []
    draft = Draft(1)
    ends = draft.add(Making(held, 4), [0])
    steps = Steps(draft, ends, "f gathers its operand")
    with gs.gather_guard("disallow"), pytest.raises(TransferGuardError, match="f gathers"):
        steps.run([Block()], ())
    assert held == []


def test_bytes_are_divided_evenly() -> None:
    assert sum(evenly(10, "abc").values()) == 10
    assert max(evenly(10, "abc").values()) <= 4
    assert evenly(10, ()) == Counter()


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_an_algorithm_is_a_few_steps(count: int) -> None:
    """Running sums of a split dim: sums of blocks, sums of these everywhere, and an offset each.

    It moves one element from each device to the others, where the row moves all of them.
    """
    with testing.runtime(host_devices=count, host_domains=count):
        mesh = gs.make_mesh((count,), ("x",))
        value = np.arange(1, 25)
        x = gs.device_put(value, gs.NamedSharding(mesh, P("x")))
        buffer = x._live()
        split, runtime = buffer.tiling, devices_of(buffer.tiling)[0].runtime
        ends = gs.NamedSharding(mesh, P("x")).tiling((count,))
        whole = gs.NamedSharding(mesh, P()).tiling((count,))

        def calls(kernel: Any, tilings: Sequence[Any], sites: bool) -> LocalCalls:
            each = [
                KernelCall(n, tuple(of.shard_shapes[n] for of in tilings), (n,) * sites)
                for n in range(count)
            ]
            types = [np.dtype(np.int64)] * len(tilings)
            return LocalCalls(CallPlan(runtime, "sums", kernel, each, range(count), tilings, types))

        def summed(block: Any, out: Any = None) -> Any:
            sums, last = np.cumsum(block), np.sum(block)[None]
            if out is None:
                return sums, last
            out[0][...], out[1][...] = sums, last
            return out

        def moved_on(n: int, sums: Any, totals: Any, out: Any = None) -> Any:
            return np.add(sums, totals[:n].sum(), out)

        draft = Draft(1)
        sums, last = draft.add(Compute(calls(summed, [split, ends], sites=False)), [0])
        totals = bring(draft, last, runtime, ends, whole, 8, "sums")
        steps = Steps(
            draft, draft.add(Compute(calls(moved_on, [split], sites=True)), [sums, totals])
        )
        with count_traffic() as traffic:
            (result,) = steps.run([buffer], ())
            made = type(x)(result, x.sharding, committed=True).block_until_ready()
        assert np.asarray(made).tolist() == np.cumsum(value).tolist()
        assert sum(steps.received().values()) == traffic.bytes_received == count * (count - 1) * 8
