"""Random programs that share memory with others and map functions over shards, too."""

import gc

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime import current_runtime
from gpushard.testing import actor, programs
from gpushard.testing.actor import Actor
from tests.share import some


@pytest.fixture(autouse=True)
def _what_is_there_already_is_not_collected() -> None:
    """Every shortage of memory asks the collector; other tests may have loaded JAX."""
    gc.freeze()


def export(self: Actor) -> None:
    known = self._pick()
    if self._reads(known):
        shard = self._random.choice(known.array.addressable_shards)
        assert shard.data is not None
        self._exported.append((np.from_dlpack(shard.data), known.value[shard.index]))


def import_back(self: Actor) -> None:
    if self._exported:
        view, value = self._random.choice(self._exported)
        copy = self._random.choice((None, None, True))
        device = self._random.choice(current_runtime.current().devices)
        if value.size:
            self._keep(gs.from_dlpack(view, device=device, copy=copy), value)


def forget(self: Actor) -> None:
    if self._exported:
        view, value = self._exported.pop(self._random.randrange(len(self._exported)))
        assert np.array_equal(view, value), "a view that was handed out has changed"


def map_over_shards(self: Actor) -> None:
    known = self._pick()
    turn = current_runtime.current().backend.turn  # type: ignore[attr-defined]

    def f(a: np.ndarray, out: np.ndarray, again: np.ndarray) -> None:
        turn()
        out[...] = a
        turn()
        again[...] = out + 1
        turn()

    if self._reads(known) and known.array.sharding.memory_kind == "device":
        out = gs.ShapeDtypeStruct(known.array.shape, known.array.dtype)
        same, more = gs.map_shards(f, known.array, out=(out, out))
        self._keep(same, known.value)
        self._keep(more, known.value + 1)


@pytest.mark.parametrize("first", range(0, some(80, 200), 20))
def test_programs_that_share_memory(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    added = (*[export] * 3, *[import_back] * 3, forget, *[map_over_shards] * 5)
    monkeypatch.setattr(actor, "ACTIONS", (*actor.ACTIONS, *added))
    for seed in range(first, first + 20):
        programs.run(seed, steps=12)
