"""The end of a process with work pending."""

from __future__ import annotations

import signal

from tests.runtime.processes import run


def test_at_exit_effects_run_with_all_they_wait_for_and_the_rest_is_dropped():
    said = run("""
        gate, never = threading.Event(), threading.Event()
        first = submit(lambda: (gate.wait(), say("first")), new_stream())
        second = submit(lambda: say("second"), new_stream(), after=[first])
        submit(lambda: say("effect"), new_stream(), after=[second], effect=True)
        submit(lambda: say("dropped"), new_stream(), after=[second])
        atexit.register(gate.set)  # runs before gpushard's own
    """)
    assert said == ["first", "second", "effect"]


def test_a_wait_that_an_item_before_carries_counts_for_those_after_it():
    said = run("""
        gate = threading.Event()
        first = submit(lambda: (gate.wait(), say("first")), new_stream())
        own = new_stream()
        submit(lambda: say("carrier"), own, after=[first])
        submit(lambda: say("effect"), own, after=[first], effect=True)
        submit(lambda: say("dropped"), own)
        atexit.register(gate.set)
    """)
    assert said == ["first", "carrier", "effect"]


def test_work_that_is_blocked_for_ever_does_not_hold_up_the_exit():
    said = run("""
        x, gate = gated(gs.device_put(VALUE, rows))
        y = gs.reshard(x, columns)
        submit(lambda: say("effect"), new_stream(), effect=True)
    """)
    assert said == ["effect"]


def test_what_was_dropped_says_so_and_what_comes_later_runs_inline():
    said = run("""
        kept = gs.device_put(VALUE, rows)

        @atexit.register
        def before():  # registered last, runs first
            global y
            x, gate = gated(kept)
            y = gs.reshard(x, columns)

        def after():
            try:
                np.asarray(y)
            except gs.errors.ExecutionError as error:
                say("closed" in str(error))
            z = gs.reshard(kept, columns)
            say(np.array_equal(np.asarray(z), VALUE))
            z.copy_to_host_async()
            say(np.array_equal(np.asarray(deferred(z, lambda v: v + 1)), VALUE + 1))
            submit(lambda: say("inline"), effect=True)
            gs.device_put(np.ones(1 << 20), rows).block_until_ready()
            say(rt.devices[0].memory_stats()["num_allocs"] > 0)

        rt.backend.workers.patience = 0.1
        later.append(after)
    """)
    assert said == ["True", "True", "True", "inline", "True"]


def test_finalizers_that_run_last_do_no_harm():
    said = run("""
        class Last:
            def __init__(self, array):
                self.array = array

            def __del__(self):
                say(float(np.asarray(self.array)[0, 1]))

        np.asarray(gs.device_put(VALUE, rows))  # NumPy can import nothing any more, later
        keep = Last(gs.device_put(VALUE, rows))
        sys.modules["__main__"].cycle = [keep]
    """)
    assert said == ["1.0"]


def test_sys_exit_in_a_thread():
    said = run("""
        def work():
            x = deferred(gs.device_put(VALUE, rows), lambda v: v + 1)
            submit(lambda: say("effect"), new_stream(), effect=True)
            sys.exit(3)

        thread = threading.Thread(target=work)
        thread.start()
    """)
    assert said == ["effect"]


def test_an_unhandled_exception():
    said = run(
        """
        x, gate = gated(gs.device_put(VALUE, rows))
        submit(lambda: say("effect"), new_stream(), effect=True)
        raise KeyError("mine")
        """,
        code=1,
        errors="KeyError: 'mine'",
    )
    assert said == ["effect"]


def test_ctrl_c_at_top_level():
    said = run(
        """
        signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
        x, gate = gated(gs.device_put(VALUE, rows))
        submit(lambda: os.kill(os.getpid(), signal.SIGINT), new_stream(), effect=True)
        np.asarray(gs.reshard(x, columns))
        """,
        code=-signal.SIGINT,
        errors="KeyboardInterrupt",
    )
    assert said == []


def test_daemon_threads_that_still_use_arrays():
    said = run("""
        x = gs.device_put(VALUE, rows)
        turns = threading.Semaphore(0)

        def work():
            while True:
                y = gs.reshard(x, columns)
                assert np.array_equal(np.asarray(gs.reshard(y, rows)), VALUE)
                turns.release()

        threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
        threading.excepthook = lambda args: None  # a value that is dropped at exit is their error
        for thread in threads:
            thread.start()
        for _ in range(30):
            turns.acquire()
        submit(lambda: say("effect"), new_stream(), effect=True)
    """)
    assert said == ["effect"]
