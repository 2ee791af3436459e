"""Transfer guards: what is explicit, what is implicit, and what each level does about it."""

import asyncio
import logging
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._array.guards import DEVICE_TO_DEVICE, DEVICE_TO_HOST, HOST_TO_DEVICE, check_transfer
from gpushard.errors import TransferGuardError

pytestmark = pytest.mark.usefixtures("rt")

GUARDS = {
    HOST_TO_DEVICE: gs.transfer_guard_host_to_device,
    DEVICE_TO_DEVICE: gs.transfer_guard_device_to_device,
    DEVICE_TO_HOST: gs.transfer_guard_device_to_host,
}

PASSES, LOGS, RAISES = "passes", "logs", "raises"
LEVELS = {  # level: (what implicit transfers get, what explicit ones get)
    "allow": (PASSES, PASSES),
    "log": (LOGS, PASSES),
    "disallow": (RAISES, PASSES),
    "log_explicit": (LOGS, LOGS),
    "disallow_explicit": (RAISES, RAISES),
}

Transfer = Callable[[gs.Array], Any]


def rows() -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((4,), "x"), gs.P("x"))


EXPLICIT: list[tuple[str, str, Transfer]] = [
    (HOST_TO_DEVICE, "device_put", lambda x: gs.device_put(np.ones(3))),
    (HOST_TO_DEVICE, "device_put tree", lambda x: gs.device_put({"a": 1.0}, gs.devices()[1])),
    (HOST_TO_DEVICE, "device_put alias", lambda x: gs.device_put(np.ones(3), may_alias=True)),
    (
        HOST_TO_DEVICE,
        "make_array_from_callback",
        lambda x: gs.make_array_from_callback((8,), rows(), lambda index: np.ones(8)[index]),
    ),
    (
        HOST_TO_DEVICE,
        "make_array_from_process_local_data",
        lambda x: gs.make_array_from_process_local_data(rows(), np.ones(8)),
    ),
    (DEVICE_TO_DEVICE, "device_put", lambda x: gs.device_put(x, gs.devices()[1])),
    (DEVICE_TO_DEVICE, "reshard", lambda x: gs.reshard(x, gs.P())),
    (DEVICE_TO_DEVICE, "to_device", lambda x: x.to_device(gs.devices()[1])),
    (DEVICE_TO_HOST, "device_get", gs.device_get),
    (DEVICE_TO_HOST, "device_get tree", lambda x: gs.device_get({"a": x})),
    (DEVICE_TO_HOST, "copy_to_host_async", lambda x: x.copy_to_host_async()),
]

IMPLICIT: list[tuple[str, str, Transfer]] = [
    (DEVICE_TO_HOST, "asarray", np.asarray),
    (DEVICE_TO_HOST, "array", np.array),
    (DEVICE_TO_HOST, "tolist", lambda x: x.tolist()),
    (DEVICE_TO_HOST, "tobytes", lambda x: x.tobytes()),
    (DEVICE_TO_HOST, "item", lambda x: x.item(3)),
    (DEVICE_TO_HOST, "str", str),
    (DEVICE_TO_HOST, "repr", repr),
    (DEVICE_TO_HOST, "format", format),
    (DEVICE_TO_HOST, "pickle", pickle.dumps),
    (DEVICE_TO_HOST, "bool", lambda x: bool(x[0])),
    (DEVICE_TO_HOST, "int", lambda x: int(x[0])),
    (DEVICE_TO_HOST, "float", lambda x: float(x[0])),
    (DEVICE_TO_HOST, "complex", lambda x: complex(x[0])),
    (DEVICE_TO_HOST, "index", lambda x: hex(x[0])),
]

FREE: list[tuple[str, Transfer]] = [
    ("indexing", lambda x: x[2:, None]),
    ("iteration", list),
    ("shards", lambda x: [shard.data for shard in x.addressable_shards]),
    ("addressable_data", lambda x: x.addressable_data(2)),
    ("ready", lambda x: x.block_until_ready().is_ready()),
    ("plan", lambda x: x.plan(rows())),
    ("len", len),
]


@pytest.fixture
def x() -> gs.Array:
    """An array whose value was not fetched yet."""
    array: gs.Array = gs.device_put(np.arange(8), rows())
    return array


def observe(transfer: Transfer, x: gs.Array, caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.DEBUG, "gpushard.transfer"):
        try:
            transfer(x)
        except TransferGuardError:
            assert not caplog.records
            return RAISES
    return LOGS if caplog.records else PASSES


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("guarded", [*GUARDS, "all"])
@pytest.mark.parametrize("explicit", [False, True])
def test_levels(
    x: gs.Array, level: str, guarded: str, explicit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    guard = gs.transfer_guard if guarded == "all" else GUARDS[guarded]
    for direction, name, transfer in EXPLICIT if explicit else IMPLICIT:
        fresh = gs.device_put(x, gs.NamedSharding(x.sharding.mesh, gs.P("x")))
        expected = LEVELS[level][explicit] if guarded in ("all", direction) else PASSES
        with guard(level):
            assert observe(transfer, fresh, caplog) == expected, name
        assert np.array_equal(fresh, np.arange(8))


@pytest.mark.parametrize(("name", "work"), FREE, ids=[name for name, _ in FREE])
def test_work_on_the_devices_is_free(x: gs.Array, name: str, work: Transfer) -> None:
    with gs.transfer_guard("disallow_explicit"):
        assert work(x) is not None


def test_npy_files_are_explicit_reads(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8))
    with gs.transfer_guard("disallow"):
        x = gs.load(tmp_path / "x.npy", rows())
        gs.save(tmp_path / "y.npy", x)
    with gs.transfer_guard_host_to_device("disallow_explicit"), pytest.raises(TransferGuardError):
        gs.load(tmp_path / "x.npy", rows())
    with gs.transfer_guard_device_to_host("disallow_explicit"), pytest.raises(TransferGuardError):
        gs.save(tmp_path / "z.npy", x)
    assert {path.name for path in tmp_path.iterdir()} == {"x.npy", "y.npy"}
    assert np.array_equal(np.load(tmp_path / "y.npy"), np.arange(8))


def test_a_value_that_was_fetched_needs_no_transfer(x: gs.Array) -> None:
    expected = np.asarray(x)
    with gs.transfer_guard("disallow_explicit"):
        assert np.shares_memory(np.asarray(x), expected)
        assert np.shares_memory(gs.device_get(x), expected)
        assert x.tolist() == list(range(8))
    other = gs.device_put(np.arange(8), rows())
    other.copy_to_host_async()
    with gs.transfer_guard("disallow"):
        assert np.array_equal(other, np.arange(8))


def test_the_inner_guard_counts_and_the_outer_comes_back(x: gs.Array) -> None:
    with gs.transfer_guard("disallow"):
        with gs.transfer_guard_device_to_host("allow"):
            assert float(x[1]) == 1
        with pytest.raises(TransferGuardError):
            float(x[1])
        with pytest.raises(KeyError), gs.transfer_guard("allow"):
            raise KeyError
        with pytest.raises(TransferGuardError):
            float(x[1])
    assert float(x[1]) == 1


def test_the_error_says_what_and_how_to_go_on(x: gs.Array) -> None:
    with gs.transfer_guard("disallow"), pytest.raises(TransferGuardError) as caught:
        float(x[1])
    assert isinstance(caught.value, RuntimeError)
    assert (caught.value.direction, caught.value.level) == (DEVICE_TO_HOST, "disallow")
    for part in ("float(x)", "implicit device_to_host", "'disallow'", "device_get"):
        assert part in str(caught.value)


def test_the_log_says_what(x: gs.Array, caplog: pytest.LogCaptureFixture) -> None:
    with gs.transfer_guard("log"), caplog.at_level(logging.WARNING, "gpushard.transfer"):
        float(x[1])
    assert [record.getMessage() for record in caplog.records] == [
        "implicit device_to_host transfer: float(x)"
    ]


def test_guards_belong_to_one_thread(x: gs.Array) -> None:
    with ThreadPoolExecutor(1) as pool:
        with gs.transfer_guard("disallow"):
            assert pool.submit(float, x[1]).result() == 1
        guard = gs.transfer_guard("disallow")
        pool.submit(guard.__enter__).result()
        assert float(x[2]) == 2
        pool.submit(guard.__exit__, None, None, None).result()


def test_guards_belong_to_one_task(x: gs.Array) -> None:
    async def reader(entered: asyncio.Event) -> float:
        await entered.wait()
        return float(x[1])

    async def guarded(entered: asyncio.Event) -> None:
        with gs.transfer_guard("disallow"):
            entered.set()
            await asyncio.sleep(0)
            with pytest.raises(TransferGuardError):
                float(x[2])

    async def main() -> float:
        entered = asyncio.Event()
        value, _ = await asyncio.gather(reader(entered), guarded(entered))
        return value

    assert asyncio.run(main()) == 1


@pytest.mark.parametrize("guard", [gs.transfer_guard, *GUARDS.values()])
def test_unknown_levels_change_nothing(guard: Any, x: gs.Array) -> None:
    match = r"level='forbid' is unknown.*disallow"
    with pytest.raises(gs.errors.ArgumentError, match=match), guard("forbid"):
        pass
    assert float(x[3]) == 3


def test_implicit_transfers_to_devices_can_be_forbidden() -> None:
    with gs.transfer_guard_host_to_device("disallow"):
        check_transfer(HOST_TO_DEVICE, "x + numpy", explicit=True)
        with pytest.raises(TransferGuardError, match="device_put"):
            check_transfer(HOST_TO_DEVICE, "x + numpy", explicit=False)
