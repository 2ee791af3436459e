"""Forks: arrays, queues and locks go on in both processes."""

from __future__ import annotations

import textwrap

from tests.runtime.processes import run

_FORK = """
def fork(child):
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        try:
            child()
            sys.stdout.flush()
            code = 0
        except BaseException:
            import traceback
            traceback.print_exc()
            code = 1
        os._exit(code)
    return pid

def join(pid):
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code == 0, code

def right(x, value=VALUE):
    return np.array_equal(np.asarray(x), value)

x = gs.device_put(VALUE, rows)
"""


def run_forking(script, **options):
    return run(_FORK + textwrap.dedent(script), **options)


def test_an_idle_runtime():
    run_forking("""
        def child():
            assert right(x)
            assert right(gs.reshard(x, columns))
            assert right(gs.device_put(VALUE + 1, rows), VALUE + 1)
            assert right(deferred(x, lambda v: v * 2), VALUE * 2)
            assert len([t for t in threading.enumerate() if "gpushard" in t.name]) == 2

        join(fork(child))
        assert right(gs.reshard(x, columns))
    """)


def test_no_thread_is_started_in_a_child_that_needs_none():
    run_forking("""
        def child():
            assert right(x) and threading.active_count() == 1

        join(fork(child))
    """)


def test_a_child_that_ends_by_sys_exit_runs_its_effects():
    said = run_forking("""
        entered, gate = threading.Event(), threading.Event()
        held = submit(lambda: (entered.set(), gate.wait()), new_stream())
        entered.wait()
        parent = os.getpid()
        effect = lambda: say("effect", os.getpid() == parent)
        submit(effect, new_stream(), after=[held], effect=True)
        rt.backend.workers.patience = 0.1
        pid = os.fork()
        if not pid:
            signal.alarm(20)
            y = gs.reshard(x, columns)
            submit(lambda: say("own effect"), new_stream(), effect=True)
            sys.exit(0)
        join(pid)
        gate.set()
    """)
    assert said == ["own effect", "effect True"]  # the held one failed in the child


def test_queued_work_goes_on_in_both():
    run_forking("""
        y = x
        for _ in range(20):
            y = deferred(gs.reshard(gs.reshard(y, columns), rows), lambda v: v + 1)

        def child():
            assert right(y, VALUE + 20)

        pids = [fork(child) for _ in range(5)]
        assert right(y, VALUE + 20)
        for pid in pids:
            join(pid)
    """)


def test_work_that_hangs_fails_in_the_child_and_goes_on_in_the_parent():
    run_forking("""
        rt.backend.workers.patience = 0.1
        entered = threading.Event()
        y, gate = gated(x)
        z = gs.reshard(y, columns)
        other = deferred(x, lambda v: v + 1)

        def child():
            for array in (y, z):
                try:
                    np.asarray(array)
                except gs.errors.ExecutionError as error:
                    assert "forked" in str(error), error
                else:
                    raise AssertionError
            assert right(other, VALUE + 1)
            assert right(gs.reshard(x, columns))

        while not any(s.running for s in rt.backend.workers._strands.values()):
            pass
        pid = fork(child)
        gate.open()
        assert right(z) and right(other, VALUE + 1)
        join(pid)
    """)


def test_a_fork_from_a_second_thread():
    run_forking("""
        def child():
            assert right(gs.reshard(x, columns))

        pids = []
        thread = threading.Thread(target=lambda: pids.append(fork(child)))
        thread.start()
        thread.join()
        join(pids[0])
        assert right(gs.reshard(x, columns))
    """)


def test_a_fork_by_an_item():
    run_forking("""
        pids = []

        def child():
            assert right(x) and right(gs.reshard(x, columns))
            try:
                np.asarray(y)
            except gs.errors.ExecutionError as error:
                assert "forked" in str(error)
            else:
                raise AssertionError

        gate = threading.Event()
        held = submit(lambda: (gate.wait(), pids.append(fork(child))), new_stream())
        y = deferred(x, lambda v: v + 1, after=[held.memory])
        gate.set()
        assert right(y, VALUE + 1)
        join(pids[0])
    """)


def test_a_child_of_an_item_that_returns_ends_by_itself():
    run_forking("""
        pids = []
        held = submit(lambda: pids.append(os.fork()), new_stream())
        y = deferred(x, lambda v: v + 1, after=[held.memory])
        assert right(y, VALUE + 1)
        join(pids[0])
    """)


def test_a_child_of_an_item_ends_though_nothing_else_was_submitted():
    run_forking("""
        pids, forked = [], threading.Event()
        submit(lambda: (pids.append(os.fork()), forked.set()), new_stream())
        forked.wait()
        join(pids[0])
    """)


def test_two_threads_fork_at_once():
    run_forking("""
        def child():
            assert right(gs.reshard(x, columns))

        pids = []

        def work():
            for _ in range(10):
                pids.append(fork(child))

        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for pid in pids:
            join(pid)
    """)


def test_50_forks_while_two_threads_work():
    run_forking("""
        end = threading.Event()
        failed = []

        def work():
            while not end.is_set():
                y = gs.reshard(gs.reshard(x, columns), rows)
                y.copy_to_host_async()
                if not right(deferred(y, lambda v: v + 1), VALUE + 1) or not right(y):
                    failed.append(1)

        def child():
            assert right(x) and right(gs.reshard(gs.reshard(x, columns), rows))
            assert right(gs.device_put(VALUE, columns))
            assert rt.claimed_bytes() > 0

        right(gs.reshard(gs.reshard(x, columns), rows))
        right(gs.device_put(VALUE, columns))
        threads = [threading.Thread(target=work) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(50):
            join(fork(child))
        end.set()
        for thread in threads:
            thread.join()
        assert not failed
    """)


def test_an_array_that_another_thread_was_assigning_to_has_no_value_in_the_child():
    run_forking("""
        from gpushard._array import assignment

        writing, gate, rewrite = threading.Event(), threading.Event(), assignment.rewrite

        def slow(*arguments, **options):
            writing.set()
            gate.wait()
            return rewrite(*arguments, **options)

        def assign():
            y[0] = 7.0

        def child():
            for read in (np.asarray, lambda y: y + 1, lambda y: y.addressable_shards[0].data):
                try:
                    read(y)
                except gs.errors.DeletedArrayError as error:
                    assert "forked" in str(error), error
                else:
                    raise AssertionError
            assert y.is_deleted() and right(x)

        y = gs.device_put(VALUE, rows)
        assignment.rewrite = slow
        thread = threading.Thread(target=assign)
        thread.start()
        writing.wait()
        pid = fork(child)
        gate.set()
        thread.join()
        join(pid)
        assert (np.asarray(y)[0] == 7.0).all()
    """)


def test_a_child_of_a_fork_in_the_middle_of_a_submission_collects_garbage():
    run_forking("""
        import gc
        from gpushard._runtime import forks

        forks._PATIENCE = 0.05
        inside, gate = threading.Event(), threading.Event()
        step = lambda: (inside.set(), gate.wait())
        threshold = gc.get_threshold()

        def child():
            assert gc.isenabled() and gc.get_threshold() == threshold
            assert right(gs.reshard(x, columns))

        thread = threading.Thread(target=rt.run_locked, args=(step,))
        thread.start()
        inside.wait()
        pid = fork(child)
        gate.set()
        thread.join()
        join(pid)
        assert gc.get_threshold() == threshold
    """)


def test_a_pool_of_forked_processes_reads_arrays_of_the_parent():
    run_forking("""
        import multiprocessing

        def read(i):
            return float(np.asarray(gs.reshard(x, columns))[i, 0])

        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(read, range(8)) == VALUE[:, 0].tolist()
    """)


def test_a_fork_while_another_thread_changes_every_cache():
    run_forking("""
        import contextlib, gc
        from gpushard._cache import BoundedCache

        caches = [thing for thing in gc.get_objects() if type(thing) is BoundedCache]
        inside, gate = threading.Event(), threading.Event()

        def change():
            with contextlib.ExitStack() as held:
                for cache in caches:
                    held.enter_context(cache._lock)
                inside.set()
                gate.wait()

        def child():
            for cache in caches:
                cache.put("key", VALUE, 1)
                assert cache.get("key") is VALUE
            assert right(gs.reshard(x, columns))

        assert rt.plans in caches and len(caches) > 2
        thread = threading.Thread(target=change)
        thread.start()
        inside.wait()
        pid = fork(child)
        gate.set()
        thread.join()
        join(pid)
    """)


def test_no_lock_of_a_module_is_with_another_thread_while_the_process_forks():
    """Each is held by the thread that forks, at last, or new in the child."""
    first = """
        import os

        held = {}

        def look():  # registered first, runs last
            for name, lock in locks().items():
                held[name] = getattr(lock, "_is_owned", getattr(lock, "locked", None))()

        os.register_at_fork(before=look)
    """
    run_forking(
        """
        import contextlib, importlib, pkgutil

        KINDS = type(threading.Lock()), type(threading.RLock())

        def locks():
            return {
                (module, name): value
                for module in [module for module in sys.modules if module.startswith("gpushard.")]
                for name, value in vars(sys.modules[module]).items()
                if isinstance(value, KINDS)
            }

        for module in pkgutil.walk_packages(gs.__path__, "gpushard."):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):  # of libraries that are not there
                    importlib.import_module(module.name)

        before = locks()

        def child():
            kept = [name for name, lock in locks().items() if lock is before[name]]
            assert all(held[name] for name in kept), held
            assert all(lock.acquire(blocking=False) for lock in locks().values())

        assert {module for module, _ in before} >= {"gpushard.nnx.rngs", "gpushard.profiler"}
        join(fork(child))
        """,
        first=first,
    )
