"""What is asked for memory before there is said to be none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpushard._runtime.memory import Account
from gpushard._runtime.pool import NoRoomError
from gpushard._runtime.reclaim import (
    name_operation,
    out_of_memory,
    pools_of_chip,
    reclaim,
    reclaim_locked,
)
from gpushard.errors import OutOfMemoryError


class Noting:
    """Notes its calls with a name before each."""

    def __init__(self, said: list[str], name: str) -> None:
        self._said, self._name = said, name

    def __getattr__(self, call: str) -> Any:
        return lambda *of: self._said.append(
            f"{self._name} {call} {' '.join(map(str, of))}".strip()
        )


def domain(name: str) -> Any:
    return SimpleNamespace(pool=f"pool {name}", ring=f"ring {name}", memories={})


def test_pools_of_the_same_chip_and_no_others_may_have_what_one_lacks() -> None:
    domains = [domain(name) for name in ("0", "1", "host 0", "host 1")]
    for one, host in ((0, 2), (1, 3), (2, 2), (3, 3)):
        domains[one].memories["pinned_host"] = domains[host]
    first = [pool for of in (domains[0], domains[2]) for pool in (of.pool, of.ring)]
    for pool in first:
        assert pools_of_chip(pool, domains) == [pool, *(other for other in first if other != pool)]
    elsewhere: Any = "elsewhere"
    assert pools_of_chip(elsewhere, domains) == [elsewhere]


def test_everything_is_waited_for_outside_of_the_lock_and_within() -> None:
    said: list[str] = []
    backend: Any = Noting(said, "backend")
    pools: Any = [Noting(said, "one"), Noting(said, "two")]
    for pool, ticks in zip(pools, ([3], [5, 7]), strict=True):
        pool.pending = lambda ticks=ticks: [(Noting(said, "stream"), tick) for tick in ticks]

    def locked(step: Any) -> Any:
        said.append("lock")
        return step()

    reclaim(backend, pools, locked)
    waits = [f"stream synchronize {tick}" for tick in (3, 5, 7)]
    assert said == ["lock", "backend empty_cache", "lock", *waits, "backend recall"]
    said.clear()
    reclaim_locked(backend, pools, lambda: said.append("drain"))
    settled = ["one settle", "one trim", "two settle", "two trim"]
    others = ["backend empty_cache", "backend recall", "drain"]
    assert said == [*others, *settled, "backend empty_cache"]


@pytest.mark.parametrize("account", [None, Account("GpuDevice(id=3)", 4000)])
def test_the_error_says_who_has_no_room_and_what_takes_most(account: Account | None) -> None:
    def array(size: int, deleted: bool = False) -> Any:
        return SimpleNamespace(dtype="int8", shape=(size,), nbytes=size, is_deleted=lambda: deleted)

    pool: Any = SimpleNamespace(total=2500, free=1000)
    if account is not None:
        account.in_use = 1234
    error = out_of_memory(NoRoomError(9999, account, pool), [array(5), array(70, True), array(6)])
    assert error.largest == ["int8[6] 6 bytes", "int8[5] 5 bytes"] and error.nbytes == 9999
    found = (error.device, error.in_use, error.limit)
    assert found == (("the host", 1500, None) if account is None else (account.owner, 1234, 4000))
    quota = "no quota, 1,500" if account is None else "a quota of 4,000, 1,234"
    assert f"no room for 9,999 bytes ({quota} in use)" in str(error)
    assert name_operation(error, "sort", None).operation == "sort"
    named = name_operation(name_operation(error, "sort", "sort gathers x"), "sum", None)
    assert named.operation == "sort" and named.moves == "sort gathers x"
    assert str(named).startswith("sort: ") and ". sort gathers x. Try: compute in" in str(named)
    other = name_operation(MemoryError("why"), "sort", None)
    assert isinstance(other, OutOfMemoryError) and "no room for intermediate values: why" in str(
        other
    )
