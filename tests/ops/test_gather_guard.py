"""The guard against gathers and large moves that operations do by themselves."""

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard.errors import ArgumentError, TransferGuardError
from gpushard.testing import runtime

LIMIT = 1000
"""Bytes that may move in these tests."""


class Arrays:
    """A few arrays over a mesh of four by two."""

    def __init__(self) -> None:
        mesh = gs.make_mesh((4, 2), ("x", "y"))
        self.named = lambda *entries: gs.NamedSharding(mesh, gs.P(*entries))
        self.rows = gs.device_put(np.ones((32, 32)), self.named("x"))
        self.columns = gs.device_put(np.ones((32, 32)), self.named(None, "x"))
        self.few_rows = gs.device_put(np.ones((4, 4)), self.named("x"))
        self.few_columns = gs.device_put(np.ones((4, 4)), self.named(None, "x"))
        self.tall = gs.device_put(np.ones((256, 4)), self.named("x"))
        self.square = gs.device_put(np.ones((4, 4)), self.named("x", "y"))


@pytest.fixture
def arrays() -> Iterator[Arrays]:
    with runtime(large_move_bytes=LIMIT):
        yield Arrays()


WATCHED: dict[str, tuple[Callable[[Arrays], Any], str]] = {
    "rows and columns": (
        lambda a: a.rows + a.columns,
        rf"add moves [\d,]+ bytes, more than large_move_bytes={LIMIT:,}.*P\('x'\)",
    ),
    "a product of split rows and split columns": (
        lambda a: a.rows @ a.rows.T,
        r"matmul moves [\d,]+ bytes",
    ),
    "a diagonal": (
        lambda a: gs.numpy.einsum("ii->i", a.square),
        r"einsum gathers its operand of shape \(4, 4\) .*P\('x', 'y'\).* whole on every device",
    ),
}

FREE: dict[str, Callable[[Arrays], Any]] = {
    "operands that agree": lambda a: a.rows + a.rows,
    "a small move": lambda a: a.few_rows + a.few_columns,
    "a sum": lambda a: a.rows.sum(),
    "a product whose parts are added": lambda a: a.tall.T @ a.tall,
    "data of the host": lambda a: a.rows + np.ones((32, 32)),
    "an array on one device": lambda a: a.few_rows + gs.device_put(np.ones((4, 4))),
    "a number": lambda a: a.rows + gs.device_put(1.0),
    "reshard": lambda a: gs.reshard(a.rows, a.named()),
    "device_put": lambda a: gs.device_put(a.rows, gs.devices()[0]),
    "out_sharding": lambda a: gs.numpy.add(a.rows, 1, out_sharding=a.named()),
    "reshape": lambda a: a.rows.reshape(-1),
}


@pytest.mark.parametrize("name", WATCHED)
def test_what_is_watched(arrays: Arrays, name: str) -> None:
    call, words = WATCHED[name]
    expected = np.asarray(call(arrays))  # allowed by default, and compiled from here on
    for _ in range(2):
        with gs.gather_guard("disallow"), pytest.raises(TransferGuardError, match=words) as caught:
            call(arrays)
        assert caught.value.level == "disallow"
    assert np.array_equal(call(arrays), expected)


@pytest.mark.parametrize("name", WATCHED)
def test_logs(arrays: Arrays, name: str, caplog: pytest.LogCaptureFixture) -> None:
    call, _ = WATCHED[name]
    with caplog.at_level(logging.WARNING, "gpushard.transfer"):
        call(arrays)
        assert not caplog.records
        with gs.gather_guard("log"):
            call(arrays)
    assert len(caplog.records) == 1
    assert caplog.records[0].getMessage().startswith("implicit move: ")


@pytest.mark.parametrize("name", FREE)
def test_what_is_not(arrays: Arrays, name: str) -> None:
    with gs.gather_guard("disallow"):
        FREE[name](arrays)


def test_guards_nest(arrays: Arrays) -> None:
    call = WATCHED["rows and columns"][0]
    with gs.gather_guard("disallow"):
        with gs.gather_guard("allow"):
            call(arrays)
        with pytest.raises(TransferGuardError):
            call(arrays)
    call(arrays)


def test_transfer_guards_do_not_mind(arrays: Arrays) -> None:
    with gs.transfer_guard("disallow"):
        assert (arrays.rows + arrays.columns).shape == (32, 32)


def test_the_limit_is_a_setting() -> None:
    with runtime(large_move_bytes=1 << 20):
        a = Arrays()
        with gs.gather_guard("disallow"):
            assert (a.rows + a.columns).shape == (32, 32)
    for limit, moves in ((32 * 24 * 8, False), (32 * 24 * 8 - 1, True)):  # all but one's own
        with runtime(large_move_bytes=limit):
            a = Arrays()
            watched = pytest.raises(TransferGuardError) if moves else contextlib.nullcontext()
            with watched, gs.gather_guard("disallow"):
                a.rows + a.columns


def test_unknown_levels() -> None:
    with pytest.raises(ArgumentError, match="level='never' is unknown"), gs.gather_guard("never"):
        pass
