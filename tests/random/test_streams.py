"""The numbers of an element depend on its key and its position alone, whatever is drawn with it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard._ops.bind import bind
from gpushard._ops.prng.blocks import even, evenly
from gpushard._ops.prng.rejection import _invert, binomial, log_gamma, poisson
from gpushard._ops.prng.stream import Stream
from gpushard._ops.table import random as rows

DOUBLE = np.dtype(np.float64)
POSITIONS = np.array([0, 1, 63, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 3 * 2**32 + 7], np.uint64)
KEYS = np.array([[1, 2], [2**32 - 1, 0], [3, 77], [1, 3]], np.uint32)[[0, 0, 1, 2, 3, 3, 0, 2]]


class Elsewhere:
    """A namespace that is not NumPy's own, so that what is for GPUs runs."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def stream(xp: Any, which: Any, keys: Any) -> Stream:
    """Return the stream of some of the elements, as many as make an even block."""
    chosen = even(np, POSITIONS[which])
    words = keys[which] if len(keys) > 1 else keys
    key = [even(np, word) if len(keys) > 1 else word for word in words.T]
    high, low = (chosen >> np.uint64(32)).astype(np.uint32), chosen.astype(np.uint32)
    return Stream(xp, (key[0], key[1]), high, low, 1 << 33)


DRAWS: dict[str, Callable[[Stream], Any]] = {
    "bits": lambda s: s.bits(np.dtype(np.uint64)),
    "folded": lambda s: s.fold(3).bits(np.dtype(np.uint16)),
    "stacked": lambda s: s.stacked(2).normal(DOUBLE),
    "widened": lambda s: s.widened(1, 3).uniform(np.dtype(np.float32)),
    "signs": lambda s: s.sign(),
    "gamma": lambda s: log_gamma(s, DOUBLE, np.full(s.low.size, 0.4)),
    "gamma of one": lambda s: log_gamma(s, DOUBLE, DOUBLE.type(3.5)),
    "poisson": lambda s: poisson(s, DOUBLE, 12.5),
    "binomial": lambda s: binomial(s, DOUBLE, 99, 0.3),
}


@pytest.mark.parametrize("xp", [np, Elsewhere()], ids=["NumPy", "another"])
@pytest.mark.parametrize("keys", [KEYS, KEYS[:1]], ids=["keys", "one key"])
@pytest.mark.parametrize("name", DRAWS)
def test_elements_alone_and_together(name: str, keys: Any, xp: Any) -> None:
    draw, every = DRAWS[name], np.arange(len(POSITIONS))
    together = draw(stream(xp, every, keys))[: len(every)]
    alone = [draw(stream(np, every[n : n + 1], keys))[0] for n in every]
    np.testing.assert_array_equal(together, alone)
    some = [5, 0, 7, 0]
    np.testing.assert_array_equal(
        draw(stream(xp, every, keys).at(even(np, np.array(some))))[:4], together[some]
    )
    assert len(np.unique(together)) > 1


def test_positions_of_stacked_and_widened_streams() -> None:
    """They are those of the elements of the arrays in question."""
    key = KEYS[:1]
    low = np.arange(64, dtype=np.uint32)
    plain = Stream(np, (key[:, 0], key[:, 1]), np.zeros(1, np.uint32), low, 64)
    bits = np.asarray(random.bits(random.wrap_key_data(key[0]), (192,), "uint64"))
    unsigned = np.dtype(np.uint64)
    for n in range(3):
        np.testing.assert_array_equal(plain.stacked(n).bits(unsigned), bits[64 * n : 64 * n + 64])
        np.testing.assert_array_equal(plain.widened(n, 3).bits(unsigned), bits[n::3])


@pytest.mark.parametrize("shape", [(), (5,), (3, 70), (0,), (2, 0, 3)])
def test_every_key_of_an_array_counts_on_its_own(shape: tuple[int, ...]) -> None:
    keys = KEYS[[0, 2, 3]].view(np.uint64)
    for row, parameters in ((rows.NORMAL, ()), (rows.GAMMA, (0.5,)), (rows.BITS, ())):
        dtype = np.dtype(np.uint32) if row is rows.BITS else DOUBLE
        made = np.asarray(bind(row, (gs.device_put(keys), *parameters), (shape, dtype)))
        assert made.shape == (3, 1, *shape) and made.dtype == dtype
        for n in range(3):
            own = bind(row, (gs.device_put(keys[n, 0]), *parameters), (shape, dtype))
            np.testing.assert_array_equal(made[n, 0], own)


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65])
def test_even_lengths(count: int) -> None:
    x = np.arange(count) + 1
    found = even(np, x)
    assert len(found) == -(-count // 64) * 64
    assert found.tolist() == [*x, *[count] * (len(found) - count)]
    asked: list[int] = []
    made = evenly(np, lambda part: asked.append(part.size) or -part, x.reshape(-1, 1))
    assert made.tolist() == [[-n] for n in x] and asked == [len(found)]


def test_the_host_stops_where_nothing_is_left_to_count() -> None:
    """A GPU does not ask: that would stop the stream."""
    steps: list[int] = []

    def ratio(k: int) -> float:
        steps.append(k)
        return 0.5 / k

    found = []
    for xp, few in ((np, True), (Elsewhere(), False)):
        steps.clear()
        found.append(_invert(stream(xp, np.arange(8), KEYS[:1]), np.full(64, np.exp(-0.5)), ratio))
        assert (len(steps) < 20) == few
    np.testing.assert_array_equal(*found)


def test_a_rate_without_end_gives_no_numbers() -> None:
    assert np.isnan(poisson(stream(np, np.arange(3), KEYS[:1]), DOUBLE, np.inf)).all()


class Chosen(Stream):
    """A stream whose first trial has two chosen numbers; those after it have 0.5 and 0.1."""

    def __init__(self, *numbers: float, path: tuple[int, ...] = ()) -> None:
        zero = np.zeros(64, np.uint32)
        super().__init__(np, (zero, zero), zero, zero)
        object.__setattr__(self, "numbers", numbers)
        object.__setattr__(self, "path", path)

    def fold(self, number: int) -> "Chosen":
        return Chosen(*self.numbers, path=(*self.path, number))

    def at(self, which: Any) -> "Chosen":
        return self

    def uniform(self, dtype: Any, low: Any = None, high: Any = None) -> Any:
        trial, which = self.path if len(self.path) == 2 else (1, 0)
        return np.full(64, (self.numbers if trial == 1 else (0.5, 0.1))[which])


@pytest.mark.parametrize(
    ("draw", "parameters", "numbers", "wanted"),
    [
        (poisson, (10.0,), (0.9, 0.3), 15),
        (poisson, (10.0,), (0.0808, 0.4), 4),  # within the squeeze
        (poisson, (10.0,), (0.0808, 0.47), 4),
        (poisson, (10.0,), (0.0808, 0.49), None),
        (poisson, (10.0,), (0.02, 1e-12), None),  # -2
        (binomial, (100, 0.1), (0.02, 0.006), 0),
        (binomial, (100, 0.1), (0.02, 0.007), None),
        (binomial, (100, 0.1), (0.9, 0.52), 15),
        (binomial, (100, 0.1), (0.9, 0.53), None),
        (binomial, (100, 0.1), (0.01, 1e-12), None),  # -7
        (binomial, (20, 0.5), (0.99, 1e-12), None),  # 22
        (binomial, (20, 0.5), (0.9, 0.1), 13),
        (binomial, (20, 0.5), (0.1, 0.1), 7),
    ],
)
def test_trials(draw: Any, parameters: Any, numbers: Any, wanted: int | None) -> None:
    """What is refused gets the number of the next trial, which is the mean."""
    made = draw(Chosen(*numbers), DOUBLE, *parameters)
    assert set(made) == {10 if wanted is None else wanted}


def test_a_success_at_a_uniform_number_of_zero_takes_one_trial() -> None:
    assert set(rows._geometric(Chosen(0.0), DOUBLE, 0.3)) == {1}


def test_gamma_numbers_take_no_logarithm_of_what_is_negative() -> None:
    place = even(np, np.arange(4096, dtype=np.uint32))
    many = Stream(np, (KEYS[:1, 0], KEYS[:1, 1]), np.zeros(1, np.uint32), place)
    with np.errstate(invalid="raise", divide="raise"):
        assert np.isfinite(log_gamma(many, DOUBLE, DOUBLE.type(0.01))).all()
