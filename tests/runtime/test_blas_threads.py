"""Threads of the library of linear algebra, where several calls run at once."""

from __future__ import annotations

import random
import sys
import threading
import types

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import numpy as gnp
from gpushard._runtime.host import backend as host_backend
from gpushard._runtime.host import blas_threads
from gpushard._runtime.host.blas_threads import Library, Limits, library_in, numpy_library
from gpushard.testing import runtime


class Fake:
    """A library with a number of threads, of the process or of each thread."""

    def __init__(self, number: int = 4, *, per_thread: bool = False) -> None:
        self._first = number
        self._numbers: dict[int, int] = {}
        self._per_thread = per_thread
        self.was_set: list[int] = []
        self.library = Library(self.get, self.set, per_thread)

    def _whose(self) -> int:
        return threading.get_ident() if self._per_thread else 0

    def get(self) -> int:
        return self._numbers.get(self._whose(), self._first)

    def set(self, number: int) -> None:
        self.was_set.append(number)
        self._numbers[self._whose()] = number


def on_thread(run):
    found = []
    thread = threading.Thread(target=lambda: found.append(run()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize("per_thread", [False, True])
@pytest.mark.parametrize(
    ("threads", "count", "inside"),
    [(None, 1, 4), (None, 2, 2), (None, 3, 1), (None, 8, 1), (3, 1, 4), (3, 2, 3)],
)
def test_one_of_several_calls_has_its_share_and_a_call_alone_has_all(
    threads, count, inside, per_thread
):
    fake = Fake(per_thread=per_thread)
    limits = Limits(fake.library, threads)
    for _ in range(2):
        assert limits.call(count, fake.get) == inside
        assert fake.get() == 4
    assert (fake.was_set == []) == (count == 1)


@pytest.mark.parametrize("per_thread", [False, True])
def test_single_calls_that_overlap_share_too(per_thread):
    fake = Fake(per_thread=per_thread)
    limits = Limits(fake.library, None)

    def first():
        assert on_thread(lambda: limits.call(1, fake.get)) == 2
        return fake.get()  # it is alone again

    assert limits.call(1, first) == 4
    assert fake.get() == 4


def test_a_call_starts_when_another_thread_has_made_the_number_its_share():
    fake = Fake()
    coming = threading.Event()
    found, waits = [], []

    class Lock:
        """Says how the second call comes to it, and lets it wait for as long as it takes."""

        def __init__(self):
            self._lock = threading.Lock()
            self.release = self._lock.release

        def acquire(self, blocking=True, timeout=-1):
            if threading.current_thread() is second and not waits:
                waits.append(timeout > 0)
                coming.set()
            return self._lock.acquire(blocking and timeout != 0)

    def set_and_let_in(number):
        fake.set(number)
        if number == 4 and not coming.is_set():  # the first call is over
            second.start()
            coming.wait()
            if not waits[0]:
                second.join()

    limits = Limits(Library(fake.get, set_and_let_in, False), None)
    limits._changing = Lock()
    second = threading.Thread(target=lambda: found.append(limits.call(2, fake.get)))
    assert limits.call(2, fake.get) == 2
    second.join()
    assert found == [2]
    assert fake.get() == 4


def test_a_call_around_others_keeps_the_number_between_them():
    fake = Fake()
    limits = Limits(fake.library, None)
    assert limits.call(4, lambda: [limits.call(4, fake.get) for _ in range(3)]) == [1] * 3
    assert fake.was_set == [1, 4]


def test_a_number_that_others_set_meanwhile_is_kept():
    fake = Fake()
    limits = Limits(fake.library, None)
    limits.call(8, lambda: fake.set(3))
    assert fake.get() == 3
    assert limits.call(2, fake.get) == 1
    assert fake.get() == 3


@given(st.lists(st.integers(1, 9), max_size=6), st.data())
def test_the_full_number_is_back_when_nobody_is_inside(counts, data):
    """Threads go in and out in any order; each waits inside until it is let out."""
    fake = Fake(6)
    limits = Limits(fake.library, None)
    inside, waiting = {}, dict(enumerate(counts))
    try:
        while inside or waiting:
            who = data.draw(st.sampled_from([*inside, *waiting]))
            if who in waiting:
                gate, there = threading.Event(), threading.Event()

                def stay(gate=gate, there=there):
                    there.set()
                    gate.wait()

                thread = threading.Thread(target=limits.call, args=(waiting[who], stay))
                thread.start()
                there.wait()
                inside[who] = waiting.pop(who), gate, thread
            else:
                _, gate, thread = inside.pop(who)
                gate.set()
                thread.join()
            shares = [count for count, *_ in inside.values()]
            assert fake.get() == max(1, 6 // max(1, len(shares), *shares))
    finally:  # Hypothesis may give up an example
        for _, gate, thread in inside.values():
            gate.set()
            thread.join()
    assert fake.get() == 6


def test_threads_that_come_and_go_at_random_leave_the_full_number():
    fake = Fake(6)
    limits = Limits(fake.library, None)

    def work(seed):
        chosen = random.Random(seed)
        for _ in range(200):
            limits.call(chosen.randint(1, 8), fake.get)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert fake.get() == 6


def test_a_signal_handler_may_call_the_library_in_the_middle_of_everything():
    fake = Fake()
    struck = []

    def get():
        if len(struck) < 5:
            struck.append(limits.call(8, lambda: None))
        return fake.get()

    limits = Limits(Library(get, fake.set, False), None)
    assert limits.call(2, fake.get) in (2, 4)  # the handler's end is the end of this one, too
    assert fake.get() == 4


@pytest.mark.parametrize("at", ["get", "set"])
def test_an_interrupt_leaves_nothing_behind(at):
    fake = Fake()
    limits = Limits(fake.library, None)
    strikes = [True]

    def interrupted(*arguments):
        result = getattr(fake, at)(*arguments)
        if strikes and strikes.pop():
            raise KeyboardInterrupt
        return result

    functions = {"get": fake.get, "set": fake.set, at: interrupted}
    limits = Limits(Library(functions["get"], functions["set"], False), None)
    with pytest.raises(KeyboardInterrupt):
        limits.call(8, fake.get)
    assert fake.get() == 4 == limits.call(1, fake.get)


def test_a_forked_child_forgets_the_calls_of_other_threads():
    fake = Fake()
    limits = Limits(fake.library, None)
    gate, there = threading.Event(), threading.Event()
    thread = threading.Thread(
        target=limits.call, args=(8, lambda: (there.set(), gate.wait())), daemon=True
    )
    thread.start()
    there.wait()
    assert fake.get() == 1
    limits.restart()  # in a child there would be no such thread
    assert fake.get() == 4 == limits.call(1, fake.get)
    gate.set()
    thread.join()


def number():
    return 7


def openblas(parallel: int, before: str = "", after: str = "") -> types.SimpleNamespace:
    functions = dict.fromkeys(("get_num_threads", "set_num_threads"), number)
    found = {**functions, "get_parallel": lambda: parallel}
    names = {f"{before}openblas_{name}{after}": function for name, function in found.items()}
    return types.SimpleNamespace(
        **names, omp_get_max_threads=number, omp_set_num_threads=lambda n: None
    )


@pytest.mark.parametrize("parallel", [1, 2])
@pytest.mark.parametrize("affixes", [("", ""), ("scipy_", "64_"), ("", "64_"), ("scipy_", "")])
def test_openblas_is_known_by_its_functions(affixes, parallel):
    library = library_in(openblas(parallel, *affixes))
    assert library is not None
    assert library.get() == 7
    assert library.per_thread == (parallel == 2)


def test_other_libraries():
    mkl = types.SimpleNamespace(MKL_Get_Max_Threads=number, MKL_Set_Num_Threads_Local=number)
    library = library_in(mkl)
    assert library is not None and library.per_thread
    assert library_in(types.SimpleNamespace(cblas_dgemm=number)) is None


def test_the_library_of_numpys_wheels_is_found_and_obeys():
    library = numpy_library()
    if library is None:
        pytest.skip("NumPy calls a library of another kind here")
    before = library.get()
    library.set(before + 1)
    assert library.get() == before + 1
    library.set(before)
    assert library.get() == before


@pytest.fixture
def fake(monkeypatch):
    fake = Fake()
    monkeypatch.setattr(host_backend, "numpy_library", lambda: fake.library)
    return fake


@pytest.mark.parametrize("inline_bytes", [0, 1 << 30])
@pytest.mark.parametrize("operation", [lambda x: x @ x, lambda x: gnp.linalg.qr(x).R])
def test_calls_on_shards_share_and_one_on_a_device_does_not(fake, operation, inline_bytes):
    value = np.linspace(0, 1, 8 * 64 * 64).reshape(8, 64, 64)
    with runtime(host_devices=8, inline_bytes=inline_bytes):
        x = gs.device_put(value, gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x")))
        operation(x).block_until_ready()
        if inline_bytes:
            assert fake.was_set == [1, 4]
        else:
            assert set(fake.was_set) == {1, 4}
        assert fake.get() == 4
        fake.was_set.clear()
        operation(gs.device_put(value, gs.devices()[0])).block_until_ready()
        assert fake.was_set == []


def test_the_library_can_be_left_alone(fake):
    with runtime(host_devices=8, blas_threads=0):
        x = gs.device_put(
            np.ones((8, 64, 64)), gs.NamedSharding(gs.make_mesh((8,), "x"), gs.P("x"))
        )
        (x @ x).block_until_ready()
        assert fake.was_set == []


def test_a_library_that_cannot_be_opened_is_left_alone(monkeypatch):
    def refuse(path):
        raise OSError(path)

    monkeypatch.setattr(blas_threads.ctypes, "CDLL", refuse)
    assert numpy_library.__wrapped__() is None
    monkeypatch.setattr(blas_threads.ctypes, "CDLL", lambda path: types.SimpleNamespace())
    assert numpy_library.__wrapped__() is None
