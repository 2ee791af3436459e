"""Updates of positions that may be the same: in which groups, and in which order, they are made."""

from __future__ import annotations

import numpy as np
import pytest

from gpushard._ops import update_at as module
from gpushard._ops.update_at import _rounds, _sort_updates


def test_a_round_has_each_position_once_and_rounds_are_in_order(monkeypatch) -> None:
    """As many rounds as a position is there most often; its n-th update is in the n-th round."""
    monkeypatch.setattr(module, "_MANY", 1)
    view = np.zeros((3, 5, 16))
    rows, columns = np.array([2, 0, 2, 1, 2, 2]), np.array([4, 0, 4, 0, 1, 4])
    rounds = _rounds(view, (rows, columns))
    assert rounds is not None
    assert [sorted(each.tolist()) for each in rounds] == [[0, 1, 3, 4], [2], [5]]
    (once,) = _rounds(np.zeros((16, 3)), (slice(None), np.array([1, 0, 2]))) or ()
    assert sorted(once.tolist()) == [0, 1, 2]


def test_few_elements_and_positions_that_are_there_often_take_no_rounds(monkeypatch) -> None:
    monkeypatch.setattr(module, "_MANY", 64)
    view, one = np.zeros((4, 16)), np.zeros(16, int)
    assert len(_rounds(view, (one,)) or ()) == 16
    assert _rounds(view, (np.zeros(17, int),)) is None  # a position is there too often
    assert len(_rounds(view, (np.arange(4),)) or ()) == 1
    assert _rounds(view, (np.arange(3),)) is None  # 48 elements
    assert _rounds(view[:, :15], (np.arange(5) % 4,)) is None  # 15 at each position
    assert _rounds(view, (np.arange(4).reshape(2, 2),)) is None
    assert _rounds(view, (np.zeros(0, int),)) is None


def test_all_updates_but_the_last_of_a_position_go_to_the_room() -> None:
    """Where no library says which of several values wins, no position gets two."""
    rows, columns = np.array([[1], [0]]), np.array([2, 3, 2])
    view = np.zeros((7, 4, 5))  # the last slice of dim 1 is the room
    values = np.arange(7 * 6.0).reshape(7, 2, 3)
    keys, (every, *places), ordered = _sort_updates(
        np, view, (slice(None), rows, columns), values, 1
    )
    assert every == slice(None) and (keys[1:] >= keys[:-1]).all()
    numbers = {(0, 2): [3, 5], (0, 3): [4], (1, 2): [0, 2], (1, 3): [1]}
    assert np.unique(keys, return_counts=True)[1].tolist() == [2, 1, 2, 1]
    for at, (wanted, of) in enumerate(
        (key, number) for key, numbers_of in numbers.items() for number in numbers_of
    ):
        last = of == numbers[wanted][-1]
        assert tuple(place[at] for place in places) == (wanted if last else (3, wanted[1]))
        np.testing.assert_array_equal(ordered[:, at], values.reshape(7, 6)[:, of])


@pytest.mark.parametrize("room", [0, 1])
def test_the_room_is_in_the_dim_that_has_it(room: int) -> None:
    at = np.array([1, 1]), np.array([2, 2])
    _, places, _ = _sort_updates(np, np.zeros((4, 6)), at, np.arange(2.0), room)
    assert [place.tolist() for place in places] == [[[3, 1], [2, 2]], [[1, 1], [5, 2]]][room]
