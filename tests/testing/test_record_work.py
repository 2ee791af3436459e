"""Recording work: all items, all waits, all bytes, and nothing is left behind."""

from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard._runtime.runtime import Runtime
from gpushard.testing import record_work, runtime
from gpushard.testing.record_work import CALLER

HOST = np.arange(64, dtype=np.float32).reshape(8, 8)
STREAMS: dict[str, Any] = {"inline_bytes": 0, "small_bytes": 0}


def place(devices: int, spec: gs.P) -> gs.NamedSharding:
    return gs.NamedSharding(gs.make_mesh((devices,), "x"), spec)


def put(spec: gs.P) -> gs.Array:
    return gs.device_put(HOST, place(4, spec)).block_until_ready()


def test_every_byte_is_counted_for_the_item_that_copies_it() -> None:
    with runtime(host_devices=4, host_domains=4, **STREAMS) as used:
        x = put(gs.P("x"))
        before = dict(used.backend.traffic)
        work, y = record_work(used, lambda: gs.reshard(x, gs.P(None, "x")))
        after = dict(used.backend.traffic)
        assert np.array_equal(np.asarray(y), HOST)
    moved = {link: n - before.get(link, 0) for link, n in after.items() if n > before.get(link, 0)}
    assert moved == {(a, b): 16 for a in range(4) for b in range(4)}
    assert [item.flows for item in work] == [{(a, b): 16 for a in range(4)} for b in range(4)]
    assert len({item.stream for item in work}) == 4


def test_several_boxes_between_two_domains_add_up() -> None:
    with runtime(host_devices=4, host_domains=2, **STREAMS) as used:
        x = put(gs.P("x"))
        work, _ = record_work(used, lambda: gs.reshard(x, gs.P(None, "x")))
    assert [item.flows for item in work] == [{(0, to): 64, (1, to): 64} for to in (0, 1)]


def test_no_wait_is_lost_because_it_is_over_already() -> None:
    """The second reshard would find the first one done if its items ran at once."""
    with runtime(host_devices=4, host_domains=4, **STREAMS) as used:
        x = put(gs.P("x"))

        def there_and_back() -> gs.Array:
            y = gs.reshard(x, gs.P(None, "x"))
            return gs.reshard(y, gs.P("x"))

        work, z = record_work(used, there_and_back)
        assert np.array_equal(np.asarray(z), HOST)
    there, back = work[:4], work[4:]
    first = {(item.stream, item.tick) for item in there}
    assert len(back) == 4
    for item in back:
        own = {(stream, tick) for stream, tick in first if stream is item.stream}
        assert own and set(item.waits) >= first - own


def test_copies_of_the_caller_are_a_stream_of_their_own() -> None:
    with runtime(host_devices=4, host_domains=4) as used:
        x = put(gs.P("x"))
        work, _ = record_work(used, lambda: gs.reshard(x, gs.P(None, "x")))
    assert [(item.stream, item.tick) for item in work] == [(CALLER, n) for n in range(4)]
    assert work[2].flows == {(a, 2): 16 for a in range(4)}


def test_the_backend_is_put_back_and_what_was_held_back_runs() -> None:
    with runtime(host_devices=4, host_domains=4, **STREAMS) as used:
        backend, x = used.backend, put(gs.P("x"))
        made: list[gs.Array] = []

        def fail() -> None:
            made.append(gs.reshard(x, gs.P(None, "x")))
            assert used.backend is not backend
            assert not made[0].is_ready()
            raise RuntimeError("no more")

        with pytest.raises(RuntimeError, match="no more"):
            record_work(used, fail)
        assert used.backend is backend
        assert np.array_equal(np.asarray(made[0]), HOST)


def test_nothing_to_do_is_no_work() -> None:
    def alias(used: Runtime, x: gs.Array) -> Any:
        return record_work(used, lambda: gs.reshard(x, x.sharding))

    with runtime(host_devices=4, host_domains=4, **STREAMS) as used:
        work, _ = alias(used, put(gs.P("x")))
    assert work == []
