"""Callbacks: what functions on the host get, how often, in which order, and what they may do."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import legacy, testing
from gpushard._runtime.callbacks import CallingThread
from gpushard.errors import CallbackError, ReentrantCallError
from tests.late import late_devices
from tests.share import seeds, some

P, lax = gs.P, gs.lax
Shape = gs.ShapeDtypeStruct
VALUE = np.arange(48.0).reshape(8, 6)
NUMBERS = np.arange(3, 5)


@pytest.fixture(autouse=True)
def eight_devices() -> Iterator[None]:
    with testing.runtime(host_devices=8):
        yield


class Log:
    """A callback that keeps what it is called with."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        self.calls.append((args, kwargs))

    def values(self) -> list[Any]:
        """Return the first argument of each call."""
        gs.effects_barrier()
        return [args[0] for args, _ in self.calls]

    def tuples(self) -> Counter[Any]:
        """Return first arguments, to be compared in any order."""
        return counted(self.values())


def counted(values: Any) -> Counter[Any]:
    return Counter((np.shape(v), tuple(np.ravel(v).tolist())) for v in values)


def mesh() -> Any:
    return gs.make_mesh((4, 2), ("x", "y"))


def test_a_callback_gets_read_only_copies_and_other_things_as_they_are() -> None:
    log, source = Log(), np.arange(3)
    x = gs.device_put(VALUE, gs.NamedSharding(mesh(), P("x")))
    gs.debug.callback(log, x, {"a": source, "b": 2}, "text", key=None)
    source[...] = 7
    x[...] = 0.0
    gs.effects_barrier()
    (((value, tree, text), kwargs),) = log.calls
    np.testing.assert_array_equal(value, VALUE)
    np.testing.assert_array_equal(tree["a"], [0, 1, 2])
    assert text == "text" and kwargs == {"key": None}
    assert all(type(v) is np.ndarray and not v.flags.writeable for v in (value, *tree.values()))


def test_once_for_each_block_of_shard_map() -> None:
    log = Log()

    def body(block: Any) -> Any:
        gs.debug.callback(log, block)
        return block

    gs.shard_map(body, mesh(), P("x", "y"), P("x", "y"))(VALUE)
    blocks = VALUE.reshape(4, 2, 2, 3).transpose(0, 2, 1, 3).reshape(8, 2, 3)
    assert log.tuples() == counted(blocks)


def test_on_each_device_what_is_the_same_everywhere() -> None:
    devices = []

    def body(block: Any) -> Any:
        legacy.id_tap(
            lambda v, transforms, device: devices.append((v.shape, device)),
            block,
            tap_with_device=True,
        )
        return block

    gs.shard_map(body, mesh(), P(), P())(VALUE)
    gs.effects_barrier()
    assert devices == [((8, 6), device) for device in gs.devices()]


def test_the_first_device_where_others_have_the_same() -> None:
    devices: list[Any] = []

    def tapped(x: Any) -> Any:
        legacy.id_tap(lambda v, _, device: devices.append(device), x, tap_with_device=True)
        return x

    gs.shard_map(tapped, mesh(), P("x"), P("x"), axis_names={"x"})(VALUE)
    gs.effects_barrier()
    assert devices == [*mesh().devices[:, 0]]
    last = gs.NamedSharding(gs.make_mesh((4,), "x", devices=gs.devices()[4:]), P("x"))
    for place, first in ((gs.devices()[5], 5), (last, 4)):
        tapped(gs.device_put(VALUE, place))
        gs.effects_barrier()
        assert devices[-1] == gs.devices()[first]


def test_results_are_committed_where_somebody_said_where_they_lie() -> None:
    place = gs.NamedSharding(mesh(), P("x"))

    def plain(x: Any) -> Any:
        return gs.pure_callback(np.negative, Shape((8, 6), float), x)

    def placed(x: Any) -> Any:
        return gs.pure_callback(np.negative, Shape((8, 6), float), x, sharding=place)

    for way in (lambda f: f, gs.jit):
        made, there = way(plain)(VALUE), way(placed)(VALUE)
        assert not made.committed
        assert there.committed and there.sharding == place
        np.testing.assert_array_equal(there, -VALUE)


def test_pmap_of_pmap() -> None:
    seen, log = [], Log()
    value = np.arange(48.0).reshape(2, 4, 6)

    def inner(x: Any) -> Any:
        def tap(v: Any, transforms: Any, device: Any) -> None:
            assert transforms == []
            seen.append((device, v.tolist()))

        y = legacy.id_tap(tap, x, tap_with_device=True)
        gs.debug.callback(log, y.sum())
        return gs.io_callback(lambda v: v + 1, Shape((6,), float), y) * 2

    def outer(x: Any) -> Any:
        gs.debug.callback(log, x)
        return gs.pmap(inner, "j")(x)

    made = gs.pmap(outer, "i")(value)
    np.testing.assert_array_equal(np.asarray(made), (value + 1) * 2)
    where = {
        shard.device: VALUE.reshape(8, 6)[k] for k, shard in enumerate(made.addressable_shards)
    }
    gs.effects_barrier()
    assert {device: row for device, row in seen} == {d: v.tolist() for d, v in where.items()}
    assert log.tuples() == counted([*value, *value.sum(-1).ravel()])


def test_each_element_under_vmap() -> None:
    log, value = Log(), np.arange(6.0).reshape(2, 3)

    def body(x: Any) -> Any:
        gs.debug.callback(log, x, 1.5)
        gs.debug.callback(log, gs.numpy.ones(()))  # the same for all
        return x

    gs.vmap(gs.vmap(body))(value)
    assert log.values() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0, 1.0]
    gs.shard_map(gs.vmap(body), mesh(), P("x"), P("x"))(np.arange(8.0))
    assert sorted(v for v in log.values()[7:]) == sorted(
        [*np.repeat(np.arange(8.0), 2), *[1.0] * 8]
    )


def test_id_tap_gets_all_elements_at_once() -> None:
    seen: list[Any] = []

    def tap(arg: Any, transforms: Any) -> None:
        seen.append((arg[0].tolist(), arg[1].tolist(), transforms))

    def body(x: Any, y: Any) -> Any:
        return legacy.id_tap(tap, (x, y), result=x + y)

    made = gs.vmap(gs.vmap(body, (0, None)), (0, 0))(np.arange(6).reshape(2, 3), np.arange(2))
    assert made.tolist() == [[0, 1, 2], [4, 5, 6]]
    legacy.barrier_wait()
    inner, outer = ("batch", {"batch_dims": (0, None)}), ("batch", {"batch_dims": (0, 0)})
    assert seen == [([[0, 1, 2], [3, 4, 5]], [0, 1], [inner, outer])]


METHODS = ("sequential", "sequential_unrolled", "expand_dims", "broadcast_all")


def test_vmap_methods() -> None:
    for seed in range(some(24, 200)):
        rng = np.random.default_rng(seed)
        method = METHODS[seed % 4]
        sizes = rng.integers(1, 4, 2).tolist()
        levels = [rng.permutation([(0, 0), (0, None), (None, 0)])[0].tolist() for _ in sizes]
        shapes = [
            (*[n for n, own in zip(sizes, levels, strict=True) if own[arg] is not None], 2)
            for arg in (0, 1)
        ]
        a, b = (rng.integers(0, 9, shape) for shape in shapes)
        seen: list[Any] = []

        def body(x: Any, y: Any, method: str = method, seen: Any = seen) -> Any:
            def f(x: Any, y: Any) -> Any:
                seen.append((x.shape, y.shape))
                return {"sum": x + y, "first": x[..., 0] * y[..., 0]}

            out = {"sum": Shape((2,), int), "first": Shape((), int)}
            return gs.pure_callback(f, out, x, y, vmap_method=method)

        made = gs.vmap(gs.vmap(body, tuple(levels[1])), tuple(levels[0]))(a, b)
        want = gs.vmap(
            gs.vmap(lambda x, y: {"sum": x + y, "first": x[0] * y[0]}, tuple(levels[1])),
            tuple(levels[0]),
        )(a, b)
        for key in want:
            np.testing.assert_array_equal(np.asarray(made[key]), np.asarray(want[key]))
        if method.startswith("sequential"):
            assert seen == [((2,), (2,))] * (sizes[0] * sizes[1])
        elif method == "broadcast_all":
            assert seen == [((*sizes, 2), (*sizes, 2))]
        else:
            lead = [
                tuple(1 if own[arg] is None else n for n, own in zip(sizes, levels, strict=True))
                for arg in (0, 1)
            ]
            assert seen == [((*lead[0], 2), (*lead[1], 2))]


def test_pure_callbacks_are_the_same_where_their_arguments_are() -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(x.shape)
        return x.sum(0)

    def body(block: Any, whole: Any) -> Any:
        same = gs.pure_callback(f, Shape((6,), float), whole)
        return same, gs.pure_callback(f, Shape((3,), float), block)

    m = mesh()
    same, sums = gs.shard_map(body, m, (P("x", "y"), P()), (P(), P(("x", "y"))))(VALUE, VALUE)
    np.testing.assert_array_equal(np.asarray(same), VALUE.sum(0))
    assert sums.shape == (24,) and calls == [(8, 6)] + [(2, 3)] * 8
    with pytest.raises(gs.errors.ArgumentError, match="varies along"):
        gs.shard_map(lambda x: gs.io_callback(f, Shape((6,), float), x), m, P(), P())(VALUE)


def test_results_lie_where_they_are_wanted() -> None:
    sharding = gs.NamedSharding(mesh(), P("x"))
    made = gs.pure_callback(lambda: VALUE, Shape((8, 6), float), sharding=sharding)
    assert made.sharding == sharding
    assert not gs.pure_callback(lambda: VALUE, Shape((8, 6), float)).committed
    out = gs.pure_callback(lambda v: [v, v[0]], (Shape((8, 6), float), Shape((6,), float)), made)
    assert type(out) is tuple and [x.shape for x in out] == [(8, 6), (6,)]
    assert gs.io_callback(lambda v: None, None, made) is None


def test_each_run_of_a_traced_function() -> None:
    log, outside = Log(), gs.device_put(np.full(6, 5.0))
    m, calls = mesh(), []

    def pure(v: Any) -> Any:
        calls.append(v.shape)
        return v.sum(-1)

    @gs.jit
    def f(x: Any) -> Any:
        gs.debug.callback(log, x, outside, "text")
        y = gs.vmap(
            lambda row: gs.pure_callback(pure, Shape((), float), row, vmap_method="expand_dims")
        )(x)
        gs.pure_callback(pure, Shape((), float), y)  # which nobody needs
        gs.debug.callback(log, y * 2)

        def body(block: Any) -> Any:
            gs.debug.callback(log, block)
            return gs.io_callback(lambda v: v + 1, Shape((2, 3), float), block)

        return y, gs.shard_map(body, m, P("x", "y"), P("x", "y"))(x), gs.pmap(tapped)(x)

    def tapped(row: Any) -> Any:
        return legacy.id_tap(
            lambda v, _, device: log((device.id, v.sum())), row, tap_with_device=True
        )

    gs.make_jaxpr(f)(VALUE)
    gs.eval_shape(f, VALUE)
    assert not log.values() and not calls
    for value in (VALUE, VALUE * 3):
        sums, more, rows = f(value)
        np.testing.assert_array_equal(np.asarray(sums), value.sum(1))
        np.testing.assert_array_equal(np.asarray(more), value + 1)
        np.testing.assert_array_equal(np.asarray(rows), value)
        assert calls == [(8, 6)]
        calls.clear()
        gs.effects_barrier()
        (whole, five, text), _ = log.calls[0]
        np.testing.assert_array_equal(whole, value)
        assert five.tolist() == [5.0] * 6 and text == "text"
        got = log.values()
        np.testing.assert_array_equal(got[1], value.sum(1) * 2)
        blocks = value.reshape(4, 2, 2, 3).transpose(0, 2, 1, 3).reshape(8, 2, 3)
        assert counted(got[2:10]) == counted(blocks)
        assert got[10:] == list(enumerate(value.sum(1)))
        log.calls.clear()
    bad = gs.jit(lambda x: gs.pure_callback(lambda v: v[9], Shape((), float), x) + 1)
    with pytest.raises(CallbackError, match="IndexError"):
        bad(VALUE)


def test_loops_and_branches_call_each_time_whatever_they_take() -> None:
    log = Log()

    def seen(x: Any) -> Any:
        gs.debug.callback(log, x)
        return x

    def loops(x: Any) -> Any:
        lax.fori_loop(0, 2, lambda i, c: c + seen(i), x)
        lax.fori_loop(0, 2, lambda i, c: c + seen(i), 0)
        lax.while_loop(lambda c: seen(c) < 1, lambda c: c + 1, 0)
        lax.scan(
            lambda c, n: (seen(n), lax.cond(True, lambda: seen(5), lambda: seen(6))), 0, NUMBERS
        )
        return x

    want = [0, 1, 0, 1, 0, 1, 3, 5, 4, 5]
    x = gs.numpy.zeros((), int)
    calls = loops, gs.jit(loops), gs.jit(lambda x: gs.jit(loops)(x) + 1), gs.jit(gs.vmap(loops))
    for call, argument in zip(calls, (x, x, x, x[None]), strict=True):
        for _ in range(3):
            call(argument)
            assert [int(n) for n in log.values()] == want
            log.calls.clear()


def test_a_value_of_a_function_that_has_returned_is_refused() -> None:
    kept: list[Any] = []
    lax.fori_loop(0, 2, lambda i, c: (kept.append(c), c)[1], 1.0)
    gs.vmap(lambda x: (kept.append(x), x)[1])(VALUE)
    for value in kept:
        with pytest.raises(gs.errors.TracedValueError, match="has returned"):
            gs.debug.callback(print, value)


def test_calls_are_made_in_order_and_failures_stop_nothing() -> None:
    order: list[int] = []

    def note(n: Any) -> None:
        order.append(int(n))
        if n % 3 == 0:
            raise ValueError(f"not {n}")

    x = gs.device_put(np.arange(10), gs.NamedSharding(gs.make_mesh((2,), "x"), P("x")))
    for i in range(10):
        gs.debug.callback(note, x[i])
    assert int(gs.pure_callback(lambda v: v[0], Shape((), int), x)) == 0
    assert order == list(range(10))
    with pytest.raises(CallbackError, match="raised ValueError: not 9") as caught:
        gs.effects_barrier()
    assert isinstance(caught.value.__cause__, ValueError)
    assert [str(e.__cause__) for e in caught.value.others] == ["not 0", "not 3", "not 6"]
    assert __file__ in str(caught.value)
    gs.effects_barrier()


def test_a_failure_on_one_device_is_one_failure() -> None:
    log = Log()

    def body(block: Any) -> Any:
        gs.debug.callback(lambda v: log(v) if v.sum() != 15 else 1 / 0, block)
        return block

    gs.shard_map(body, mesh(), P("x"), P("x"))(VALUE[:, :1] * 0 + np.arange(8)[:, None])
    with pytest.raises(CallbackError):
        gs.shard_map(
            lambda b: gs.pure_callback(lambda v: 1 / 0, Shape((), float), b), mesh(), P("x"), P("x")
        )(VALUE)
    assert len(log.values()) == 8


def test_values_that_are_late_or_fail() -> None:
    log = Log()
    with testing.runtime(backend="host", host_devices=8):
        x = gs.device_put(VALUE, gs.NamedSharding(mesh(), P("x")))
        late, gate = testing.gated(x)
        failing, other = testing.gated(x, error=ValueError("planned"))
        gs.debug.callback(log, late)  # returns while the value is not there
        gs.debug.callback(log, failing)
        gs.debug.callback(log, x)
        assert not log.calls
        gate.open()
        other.open()
        with pytest.raises(CallbackError, match="planned") as caught:
            gs.effects_barrier()
        assert isinstance(caught.value.__cause__, gs.errors.ExecutionError)
        assert [v.shape for v in log.values()] == [(8, 6)] * 2
        with pytest.raises(CallbackError, match="planned"):
            gs.pure_callback(log, None, failing)


def test_values_that_have_failed_fail_their_callbacks_and_not_the_program() -> None:
    with testing.runtime(backend="host", host_devices=8):
        x = gs.device_put(VALUE, gs.NamedSharding(mesh(), P("x")))
        failing, gate = testing.gated(x, error=ValueError("planned"))
        gate.open()
        with pytest.raises(gs.errors.ExecutionError):
            failing.block_until_ready()
        gs.debug.callback(print, failing)
        with pytest.raises(CallbackError, match="planned"):
            gs.effects_barrier()


def test_callbacks_may_call_callbacks_and_use_arrays() -> None:
    log = Log()

    def f(v: Any) -> Any:
        with pytest.raises(ReentrantCallError):
            gs.effects_barrier()
        gs.debug.callback(log, gs.numpy.asarray(v) * 2)
        return gs.pure_callback(lambda u: u + 1, Shape((), float), v)

    def body(x: Any) -> Any:
        return gs.pure_callback(f, Shape((), float), x, vmap_method="sequential")

    assert gs.vmap(body)(np.arange(3.0)).tolist() == [1, 2, 3]
    assert log.values() == [0, 2, 4]


def test_a_callback_does_not_hold_up_the_program() -> None:
    free, started = threading.Event(), threading.Event()

    def wait(v: Any) -> None:
        started.set()
        free.wait()

    x = gs.device_put(VALUE, gs.NamedSharding(mesh(), P("x")))
    gs.debug.callback(wait, x)
    started.wait()
    assert float((x + 1).sum()) == VALUE.sum() + 48  # while it runs
    x[0] = 3.0
    free.set()
    gs.effects_barrier()


def test_printing(capsys: pytest.CaptureFixture[str]) -> None:
    gs.debug.print("{} and {x:.2f}", gs.numpy.arange(2), x=1.0)
    gs.debug.print(ordered=True)("{ordered}", ordered=1)
    with np.printoptions(precision=1):
        gs.debug.print("{0!r:>14} {{}}", np.float32(0.123))
    gs.debug.callback(ordered=True)(lambda ordered: None, ordered=2)
    gs.vmap(lambda x: gs.debug.print("element {}", x))(np.arange(2))
    legacy.id_print({"b": (gs.numpy.ones(2), 3), "a": [1]}, what="it", also=4)
    gs.vmap(lambda x: legacy.id_print(x))(np.arange(2))
    legacy.id_print(gs.numpy.arange(8), threshold=7, tap_with_device=True)
    large = np.arange(1025)
    assert legacy.id_print(large) is large and legacy.id_print(1, result="made") == "made"
    gs.effects_barrier()
    assert capsys.readouterr().out.splitlines() == [
        "[0 1] and 1.00",
        "1",
        "array(0.1, dtype=float32) {}",
        "element 0",
        "element 1",
        "also: 4 what: it",
        "{ a=[ 1 ] b=( [1. 1.] 3 ) }",
        "transforms: [('batch', {'batch_dims': (0,)})]",
        "[0 1]",
        f"device: {gs.devices()[0]}",
        "[0 1 2 ... 5 6 7]",
        "[   0    1    2 ... 1022 1023 1024]",
        "1",
    ]


def test_call_with_device() -> None:
    def f(arg: Any, device: Any) -> Any:
        return {"n": np.int64(device.id), "sum": arg["a"].sum()}

    out = {"n": Shape((), int), "sum": Shape((), float)}

    def body(row: Any) -> Any:
        return legacy.call(f, {"a": row}, result_shape=out, call_with_device=True)

    made = gs.pmap(body)(VALUE)
    assert made["n"].tolist() == list(range(8))
    np.testing.assert_array_equal(np.asarray(made["sum"]), VALUE.sum(1))
    made = gs.vmap(body)(VALUE)
    assert made["n"].tolist() == [0] * 8


def twice(v: Any) -> Any:
    two = gs.numpy.full((), 2.0)
    assert two.sharding is not None  # it belongs to no mapped function
    return v * two


def test_late_devices_and_several_threads() -> None:
    for seed in seeds(some(30, 300)):
        with late_devices(
            seed,
            host_devices=8,
            host_domains=(1, 4)[seed % 2],
            inline_bytes=(0, 1 << 20)[seed % 3 > 0],
        ) as runtime:
            m, logs = gs.make_mesh((4, 2), ("x", "y")), [Log(), Log()]

            def program(log: Log, start: float, m: Any = m) -> None:
                x = gs.device_put(VALUE + start, gs.NamedSharding(m, P("x", "y")))
                y = x * 2

                def body(block: Any) -> Any:
                    gs.debug.callback(log, block)
                    block = block + 1
                    more = gs.pure_callback(twice, Shape((2, 3), float), block)
                    block[0] = 0
                    gs.debug.callback(log, block)
                    return more

                made = gs.shard_map(body, m, P("x", "y"), P("x", "y"))(y)
                gs.debug.callback(log, made)
                y[...] = 0
                made[0] = 1.0
                del x, y
                gs.debug.callback(log, made)

            runtime.sim.threads.run(
                [lambda log=log, n=n: program(log, 100.0 * n) for n, log in enumerate(logs)]
            )
            for n, log in enumerate(logs):
                start = 2 * (VALUE + 100 * n)
                blocks = start.reshape(4, 2, 2, 3).transpose(0, 2, 1, 3).reshape(8, 2, 3)
                got = log.values()
                assert len(got) == 18
                np.testing.assert_array_equal(got[:8], blocks)
                changed = blocks + 1
                changed[:, 0] = 0
                np.testing.assert_array_equal(got[8:16], changed)
                want = (start + 1) * 2
                np.testing.assert_array_equal(got[16], want)
                want[0] = 1
                np.testing.assert_array_equal(got[17], want)


def ran(program: str, **environment: str) -> Any:
    return subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def test_at_exit_callbacks_are_made_and_failures_shown() -> None:
    done = ran(
        "import gpushard as gs\n"
        "x = gs.numpy.arange(3)\n"
        "gs.debug.print('{}', x)\n"
        "gs.debug.callback(lambda v: 1 / 0, x)\n"
        "gs.debug.print('last {}', x + 1)\n"
    )
    assert done.stdout.splitlines() == ["[0 1 2]", "last [1 2 3]"]
    assert done.returncode == 0
    assert "CallbackError" in done.stderr and "ZeroDivisionError" in done.stderr


def test_a_callback_that_hangs_does_not_keep_the_process() -> None:
    done = ran(
        "import threading, gpushard as gs\n"
        "from gpushard._runtime import callbacks\n"
        "callbacks._PATIENCE = 0.05\n"
        "gs.debug.callback(threading.Event().wait)\n"
        "print('over')\n"
    )
    assert (done.returncode, done.stdout.strip()) == (0, "over")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_callbacks_of_its_own() -> None:
    done = ran(
        "import os, threading, gpushard as gs\n"
        "free, started = threading.Event(), threading.Event()\n"
        "def hold():\n"
        "    started.set()\n"
        "    free.wait()\n"
        "gs.debug.callback(hold)\n"
        "started.wait()\n"
        "gs.debug.callback(lambda: print('parent', flush=True))\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    gs.debug.callback(lambda: print('child', flush=True))\n"
        "    gs.effects_barrier()\n"
        "    os._exit(0)\n"
        "assert os.waitpid(pid, 0)[1] == 0\n"
        "free.set()\n"
        "gs.effects_barrier()\n"
    )
    assert done.stdout.splitlines() == ["child", "parent"], done.stderr


def test_calls_come_at_once_after_the_thread_is_closed() -> None:
    made: list[str] = []
    caller = CallingThread("caller")
    caller.put(lambda: made.append(threading.current_thread().name))
    caller.close()
    caller.put(lambda: made.append(threading.current_thread().name))
    assert made == ["caller", threading.current_thread().name]


def test_a_thread_that_does_not_start_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    caller, done = CallingThread("caller"), threading.Event()

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("no more threads")

    with monkeypatch.context() as context:
        context.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="no more threads"):
            caller.put(lambda: None)
    caller.put(done.set)
    assert done.wait(10)
    caller.close()


def test_failures_that_nobody_heard_of_are_shown_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda kind, error, trace: shown.append(error))

    def fail(x: Any) -> None:
        raise ValueError(f"failed at {int(x)}")

    with testing.runtime(host_devices=1):
        for n in (1, 2):
            gs.debug.callback(fail, gs.device_put(n))
        with pytest.raises(CallbackError) as caught:
            gs.effects_barrier()
        assert len(caught.value.others) == 1 and not shown
        gs.debug.callback(fail, gs.device_put(3))
    assert [str(error.__cause__) for error in shown] == ["failed at 3"]
    assert isinstance(shown[0], CallbackError)
