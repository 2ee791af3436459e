"""Every cache of the package has a bound, or goes with what it is of."""

from __future__ import annotations

import ast
import dataclasses
import gc
import inspect
import itertools
import os
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpushard as gs
import gpushard.numpy as gnp
from gpushard import lax, testing
from gpushard._cache import BoundedCache, exact_key, hold_while_forking, remembering
from gpushard._transforms.jit import jit
from tests.kept import Caches
from tests.share import some

PACKAGE = Path(gs.__file__).parent


@pytest.fixture(scope="module")
def caches() -> Caches:
    return Caches()


def trees(word: str = "") -> Iterator[tuple[str, ast.Module]]:
    """Yield the modules of the package that have a word, by name: one at a time, they are large."""
    for path in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(("gpushard", *path.relative_to(PACKAGE).with_suffix("").parts))
        text = path.read_text(encoding="utf-8")
        if word in text:
            yield name, ast.parse(text)


WEAK = {
    "_geometry.mesh._meshes": "a mesh, which is its value",
    "_movement.distinct_blocks._blocks": "a tiling: its blocks",
    "_movement.planning.holdings._holdings": "an assignment of blocks: who holds each",
    "nnx.graphdef._interned": "a structure, which is its value",
    "nnx.jit._pures": "a function: what stands for it, for each option",
    "_runtime.callbacks._all_callbacks": "a runtime's callbacks",
    "_runtime.runtime._runtimes": "runtimes that live",
    "_transforms.control_flow.body_cache._caches": "a function: a BoundedCache",
    "_transforms.jit.jit._caches": "a function: a BoundedCache of BoundedCaches",
    "_transforms.jit.jit._every": "a BoundedCache",
}
"""Caches whose entries go with their keys or values, and what an entry has."""

REGISTERED = {
    "_array.library_protocols._promised": "libraries that this package converts to",
    "_array.library_protocols._providers": "likewise",
    "_options._OFFERED": "settings that modules of the package offer by name",
    "_options._noted": "settings without effect, by the names that they have",
    "_placement.device_put._converters": "libraries whose arrays are taken",
    "_runtime.forks._quiet": "threads that fork at this moment",
    "_runtime.forks._runtimes": "runtimes that live; weakly",
    "_runtime.forks._torn": "runtimes that a fork broke, in the child",
    "tree.node.NODES": "classes that users register",
}
"""Containers of modules that functions change, and why they end."""

ENDLESS = {
    "_cli.info": "within a call",
    "_ops.choose_split": "of a choice of one layout",
    "_ops.table.elementwise": "ufuncs, as many as libraries define; of functions in Python none",
    "_runtime.cuda.backend": "of a queue: its two streams",
    "testing.lower_bound": "within a call",
}
"""Modules with a `functools.cache` of something that has parameters, and why that ends."""

_CONTAINERS = ("dict", "list", "set", "defaultdict", "OrderedDict", "deque")
_CHANGES = ("setdefault", "add", "append", "appendleft", "update", "extend", "insert")


def name_of(node: ast.expr) -> str:
    """Return the last part of a name: "cache" of `functools.cache`."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def assigned(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """Yield the variables of a module, and what they begin with."""
    for statement in tree.body:
        if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
            targets = getattr(statement, "targets", None) or [statement.target]  # type: ignore
            yield from ((x.id, statement.value) for x in targets if isinstance(x, ast.Name))


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of functions of some names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and name_of(node.func) in names:
            yield node


def changed(tree: ast.Module) -> set[str]:
    """Return the names of containers that the functions of a module put something into."""
    names: set[str] = set()
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.Lambda):
            continue
        nodes = list(ast.walk(function))
        stored = {x.id for x in nodes if isinstance(x, ast.Name) and isinstance(x.ctx, ast.Store)}
        for node in nodes:
            target: Any = None
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                target = node.value
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CHANGES:
                target = node.func.value  # type: ignore[attr-defined]
            if isinstance(target, ast.Name) and target.id not in stored:
                names.add(target.id)
    return names


def is_container(value: ast.expr) -> bool:
    displays = ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
    called = isinstance(value, ast.Call) and name_of(value.func) in _CONTAINERS
    return isinstance(value, displays) or called


def short(module: str, name: str) -> str:
    return f"{module.removeprefix('gpushard.')}.{name}"


def test_containers_that_functions_change_are_listed() -> None:
    names: set[str] = set()
    containers = []
    for module, tree in trees():
        names |= changed(tree)
        containers += [(module, name) for name, value in assigned(tree) if is_container(value)]
    grow = [short(module, name) for module, name in containers if name in names]
    assert sorted(grow) == sorted(REGISTERED)


def test_weak_caches_are_listed() -> None:
    weak = [
        short(module, name)
        for module, tree in trees("Weak")
        for name, value in assigned(tree)
        if isinstance(value, ast.Call) and name_of(value.func).startswith("Weak")
    ]
    assert sorted(weak) == sorted(WEAK)


def endless(tree: ast.Module) -> list[int]:
    """Return the lines of functions with parameters that remember any number of results."""
    lines = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            name_of(x) == "cache" for x in node.decorator_list
        ):
            lines += [node.lineno] * bool(node.args.args or node.args.vararg)
    for call in calls(tree, "cache"):
        function = call.args[0]
        lines += [call.lineno] * (not isinstance(function, ast.Lambda) or bool(function.args.args))
    for call in calls(tree, "lru_cache"):
        sizes = [*call.args, *(k.value for k in call.keywords if k.arg == "maxsize")]
        lines += [call.lineno for x in sizes if isinstance(x, ast.Constant) and x.value is None]
    return lines


def test_functions_that_remember_without_a_bound_are_listed() -> None:
    """A function without parameters remembers one result."""
    lines = {module.removeprefix("gpushard."): endless(tree) for module, tree in trees("cache")}
    assert sorted(module for module, found in lines.items() if found) == sorted(ENDLESS)


def test_byte_limits(caches: Caches) -> None:
    """What is of a module or of a runtime is limited in bytes; what is of a function in both."""
    assert len(caches.bounded()) >= 2
    assert all(0 < x.limit <= 1 << 30 for x in caches.bounded())


TURNS = some(10, 200)


def _mesh(n: int) -> gs.Mesh:
    order = np.random.default_rng(n).permutation(4)
    return gs.Mesh(np.array(gs.devices())[order].reshape(2, 2), (f"x{n}", "y"))


def _add(x: Any) -> Any:
    return x + x


def _sharded(n: int) -> gs.NamedSharding:
    mesh = _mesh(n)
    return gs.NamedSharding(mesh, gs.P(mesh.axis_names[0]))


def eager(n: int) -> list[Any]:
    place = _sharded(n)
    x = gs.device_put(np.ones((4, 4)), place)
    gs.block_until_ready(gs.device_put(x + x.sum(0), gs.NamedSharding(place.mesh, gs.P())))
    return [place, place.mesh]


def of_places(n: int) -> list[Any]:
    place = _sharded(n)
    gs.jit(_add, in_shardings=(place,), out_shardings=place)(np.ones((4, 4)))
    return [place, place.mesh]


def of_functions(n: int) -> list[Any]:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, _: (c + n, None), x, None, length=2)[0]

    jitted = gs.jit(f)
    jitted(np.ones(3))
    return [f, jitted]


def of_maps(n: int) -> list[Any]:
    place = _sharded(n)
    axis = place.mesh.axis_names[0]

    def f(x: Any) -> Any:
        return gs.lax.psum(x, axis)

    mapped = gs.shard_map(f, mesh=place.mesh, in_specs=gs.P(axis), out_specs=gs.P())
    mapped(np.ones(4))
    gs.jit(mapped)(np.ones(4))
    return [f, place.mesh]


def of_pmap(n: int) -> list[Any]:
    def f(x: Any) -> Any:
        return x / gs.lax.psum(x, f"i{n}")

    gs.pmap(f, f"i{n}")(np.ones((4, 2)))
    gs.vmap(f, axis_name=f"i{n}")(np.ones((4, 2)))
    return [f]


def of_branches(n: int) -> list[Any]:
    def f(x: Any) -> Any:
        return x + n

    def g(x: Any) -> Any:
        return x - n

    lax.cond(gnp.asarray(True), f, g, gnp.ones(2))
    lax.while_loop(lambda x: x < 2, lambda x: x + 1, gnp.asarray(1))
    gs.eval_shape(f, gnp.ones(2))
    return [f, g]


@pytest.mark.parametrize(
    "turn",
    some(
        [eager, of_maps, of_branches],
        [eager, of_places, of_functions, of_maps, of_pmap, of_branches],
    ),
    ids=lambda f: f.__name__,
)
def test_what_a_loop_makes_is_held_by_caches_with_a_bound_alone(
    turn: Callable[[int], Any], caches: Caches
) -> None:
    """Functions go at once; meshes and shardings may stay in caches of plans, which are bounded."""
    with testing.runtime(host_devices=4, compiler="") as runtime:
        alive = [weakref.ref(x) for n in range(TURNS) for x in turn(n)]
        gc.collect()
        functions = [x for x in (each() for each in alive) if inspect.isfunction(x)]
        assert functions == []
        del functions
        caches.empty()
        assert runtime.plans.nbytes == 0
        gc.collect()
        assert [x for x in (each() for each in alive) if x is not None] == []


def test_a_function_keeps_what_was_traced_for_its_last_options() -> None:
    def f(x: Any) -> Any:
        return x + 1

    with testing.runtime(host_devices=4, compiler=""):
        functions = [gs.jit(f, out_shardings=_sharded(n)) for n in range(TURNS)]
        for jitted in functions:
            jitted(np.ones(4))
        kept = jit._caches[f].values()
        assert 1 < len(kept) <= jit.OPTIONS and functions[-1]._cache in kept
        gs.clear_caches()
        assert not any(len(jitted._cache) for jitted in functions)


class Last:
    """A value that does something when it goes."""

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act

    def __del__(self) -> None:
        self._act()


def test_a_finalizer_in_the_middle_of_a_change_changes_nothing() -> None:
    cache: BoundedCache[Any] = BoundedCache(limit=20)
    for act in (lambda: cache.put("late", 0, 3), cache.clear):
        cache.put("a", Last(act), 4)
        cache.put("a", "new", 5)
        assert (cache.values(), cache.nbytes) == (["new"], 5)
        cache.put("b", Last(act), 4)
        cache.clear()
        assert (cache.values(), cache.nbytes) == ([], 0)
    cache.put("late", 1, 3)
    assert (cache.get("late"), cache.nbytes) == (1, 3)


def test_bytes_are_counted_again_after_a_change_that_was_cut_short() -> None:
    class Key:
        """A key whose hash fails once, where that is said."""

        fails = -1

        def __hash__(self) -> int:
            self.fails -= 1
            if self.fails == 0:
                raise KeyboardInterrupt
            return 1

    cache: BoundedCache[str] = BoundedCache(limit=10)
    key = Key()
    cache.put(key, "lost", 6)
    assert cache.get(key) == "lost"  # so that it gets a second chance
    key.fails = 2
    with pytest.raises(KeyboardInterrupt):
        cache.put("b", "kept", 6)
    assert cache.values() == ["kept"]
    cache.put("c", "new", 4)
    assert (cache.values(), cache.nbytes) == (["kept", "new"], 10)


def test_functions_whose_results_are_remembered_share_a_bound() -> None:
    remember = remembering(limit=100)
    zeros, ones = remember(np.zeros), remember(np.ones)
    first = zeros(5)
    assert zeros(5) is first and ones(5) is not first and zeros.cache is ones.cache
    assert zeros.cache.nbytes == 80 and zeros(5, dtype="b").dtype == np.int8
    assert zeros(shape=4) is zeros(shape=4) and zeros.cache.nbytes <= 100


def test_after_a_fork_no_thread_holds_the_lock_of_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: dict[str, Callable[[], object]] = {}
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.update(given))
    zeros = remembering(limit=100)(np.zeros)
    inside, gate = threading.Event(), threading.Event()

    def hold() -> None:
        with zeros.cache._lock:
            inside.set()
            gate.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    inside.wait()
    assert not zeros.cache._lock.acquire(blocking=False)
    hooks["after_in_child"]()
    assert zeros.cache._lock.acquire(blocking=False)
    assert zeros(5) is zeros(5)
    gate.set()
    thread.join()


def test_a_lock_is_held_while_the_process_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    hooks: dict[str, Callable[[], object]] = {}
    monkeypatch.setattr(os, "register_at_fork", lambda **given: hooks.update(given))
    lock = threading.Lock()
    hold_while_forking(lock)
    for after in ("after_in_parent", "after_in_child"):
        hooks["before"]()
        assert lock.locked()
        hooks[after]()
        assert not lock.locked()


def test_what_was_used_since_gets_a_second_chance() -> None:
    cache = BoundedCache[str](3)
    for name in "abcd":
        cache.put(name, name, 1)
    assert cache.values() == ["b", "c", "d"]
    assert cache.get("b") == "b"
    cache.put("e", "e", 1)
    assert cache.values() == ["d", "e", "b"]


def test_what_takes_all_bytes_is_kept_and_what_takes_more_is_not() -> None:
    cache: BoundedCache[str] = BoundedCache(limit=10)
    cache.put("a", "all", 10)
    assert (cache.get("a"), cache.nbytes) == ("all", 10)
    cache.put("b", "more", 11)
    assert (cache.get("b"), cache.get("a"), cache.nbytes) == (None, "all", 10)


def test_keys_tell_slices_apart() -> None:
    ends = [0, -0.0, 0.0, 1, True, None, np.int64(1)]
    keys = [exact_key(slice(*of)) for of in itertools.permutations(ends, 3)]
    assert len(set(keys)) == len(keys) == 210
    assert exact_key(slice(0, 1.0, None)) == exact_key(slice(0, 1.0, None))
    assert exact_key((slice(1), 2)) == exact_key((slice(1), 2)) != exact_key((slice(True), 2))


@dataclasses.dataclass(frozen=True)
class Listed:
    """A record with a field that is compared, and has no hash."""

    name: Any
    items: list[int] = dataclasses.field(hash=False)


def test_keys_of_records_with_fields_without_hash_have_one() -> None:
    keys = [exact_key(Listed(name, [n])) for name in ("a", "b") for n in (1, 2)]
    assert len(set(keys)) == 4
    assert exact_key(Listed("a", [1])) == keys[0]
