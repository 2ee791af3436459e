"""Streams of keys: what they fold and count, names, arrays of keys, and transforms."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpushard as gs
from gpushard import nnx, random
from gpushard.errors import ArgumentError, ArgumentTypeError

NAMES = ["default", "params", "dropout", "noise"]


def same(key: Any, wanted: Any) -> bool:
    return key.shape == wanted.shape and bool((key == wanted).all())


@given(
    st.dictionaries(st.sampled_from(NAMES), st.integers(0, 2**63), min_size=1),
    st.lists(st.sampled_from([*NAMES, "other"]), max_size=12),
)
def test_a_call_folds_the_count_and_counts(seeds: dict[str, int], calls: list[str]) -> None:
    """Whatever the order of calls: a stream is a sequence of its own."""
    rngs = nnx.Rngs(seeds.pop("default"), **seeds) if "default" in seeds else nnx.Rngs(**seeds)
    seeds = {name: int(random.key_data(rngs[name].key.value)[1]) for name in rngs}
    counts = dict.fromkeys(rngs, 0)
    for name in calls:
        stream = name if name in counts else "default"
        if stream not in counts:
            with pytest.raises(AttributeError, match=f"no stream '{name}', and no default"):
                getattr(rngs, name)
            with pytest.raises(KeyError, match=f"no stream '{name}'"):
                rngs[name]
            continue
        start = rngs[stream].key.value
        key = rngs() if name == "default" else getattr(rngs, name)()
        assert same(key, random.fold_in(start, counts[stream]))
        counts[stream] += 1
    assert {name: int(stream.count.value) for name, stream in rngs.items()} == counts
    assert len(rngs) == len(counts) and set(rngs) == set(counts)
    assert all(name in rngs for name in counts) and "other" not in rngs


@pytest.mark.parametrize(
    "seed",
    [7, np.uint8(7), random.key(7), random.PRNGKey(7), gs.device_put(np.int32(7))],
    ids=lambda seed: type(seed).__name__,
)
def test_seeds_and_keys_start_a_stream(seed: Any) -> None:
    wanted = random.fold_in(random.key(7), 0)
    for rngs in (nnx.Rngs(seed), nnx.Rngs(default=seed), nnx.Rngs({"default": seed})):
        assert same(rngs(), wanted)
    assert same(nnx.Rngs(params=seed).params(), wanted)
    assert same(nnx.Rngs(params=nnx.RngStream(seed, tag="x")).params(), wanted)


def test_numbers_of_several_keys_start_a_stream() -> None:
    keys = random.split(random.key(7), 3)
    stream = nnx.RngStream(random.key_data(keys), tag="x")
    assert same(stream.key.value, keys) and stream.count.shape == (3,)


def test_streams_say_which_they_are() -> None:
    rngs = nnx.Rngs(0, dropout=1)
    assert rngs.dropout.tag == rngs.dropout.key.tag == rngs.dropout.count.tag == "dropout"
    assert type(rngs.default.key) is nnx.RngKey and type(rngs.default.count) is nnx.RngCount
    assert rngs.default.count.dtype == np.uint32
    _, dropout, others = nnx.split(rngs, "dropout", ...)
    assert list(dropout) == ["dropout"] and list(others) == ["default"]


def test_forks_and_splits_are_new_streams() -> None:
    rngs = nnx.Rngs(0, dropout=1)
    fork = rngs.fork()
    assert same(fork.default.key.value, random.fold_in(random.key(0), 0))
    assert set(fork) == {"default", "dropout"} and int(rngs.dropout.count.value) == 1
    keys = rngs.dropout.split(3)
    assert same(keys.key.value, random.split(random.fold_in(random.key(1), 1), 3))
    assert keys.count.shape == (3,)
    mapped = gs.vmap(lambda key, count: random.fold_in(key, count))(
        keys.key.value, keys.count.value
    )
    assert mapped.shape == (3,)


@pytest.mark.parametrize("key", [random.key(5), random.PRNGKey(5)])
def test_random_functions_take_a_variable_for_its_key(key: Any) -> None:
    box = nnx.Variable(key)
    for f in (
        random.key_data, random.clone, lambda key: random.fold_in(key, 3),
        lambda key: random.split(key, 2), lambda key: random.normal(key, (4,)),
        lambda key: random.permutation(key, 10),
    ):  # fmt: skip
        wanted = f(key)
        for found in (f(box), nnx.jit(f)(box)):
            assert found.dtype == wanted.dtype and bool((found == wanted).all())


def test_all_streams_are_split_at_once() -> None:
    rngs = nnx.Rngs(0, dropout=1)
    new = rngs.split((2, 3))
    assert list(new) == ["default", "dropout"] and new.default.key.shape == (2, 3)
    assert same(new.dropout.key.value, random.split(random.fold_in(random.key(1), 0), (2, 3)))
    assert int(rngs.dropout.count.value) == 1


def test_streams_may_have_names_of_what_modules_do() -> None:
    rngs = nnx.Rngs(train=0, eval=1)
    assert same(rngs.eval(), random.fold_in(random.key(1), 0)) and list(rngs) == ["train", "eval"]


class Noisy(nnx.Module):
    """A module that shares a stream with a part of it."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.rngs, self.parts = rngs, [nnx.Dropout(0.5, rngs=rngs), {"again": rngs.dropout}]

    def __call__(self, x: Any) -> Any:
        return self.parts[0](x) + random.normal(self.rngs.dropout(), x.shape, x.dtype)


@pytest.mark.parametrize("splits", [4, (2, 3), 1])
def test_split_rngs_gives_arrays_of_keys_and_takes_them_back(splits: Any) -> None:
    rngs = nnx.Rngs(0, dropout=1)
    shape = (splits,) if isinstance(splits, int) else splits
    with nnx.split_rngs({"m": Noisy(rngs)}, splits=splits, only="dropout") as backups:
        assert len(backups) == 2  # that of the layer, and the one that is shared, once
        assert same(rngs.dropout.key.value, random.split(random.fold_in(random.key(1), 1), splits))
        assert rngs.dropout.count.shape == shape and rngs.default.key.shape == ()
    assert same(rngs.dropout.key.value, random.key(1))
    assert int(rngs.dropout.count.value) == 2  # what was drawn stays drawn
    whole = nnx.split_rngs(rngs, splits=1, squeeze=True)
    assert rngs.default.key.shape == rngs.dropout.key.shape == rngs.dropout.count.shape == ()
    nnx.restore_rngs(whole)
    assert same(rngs.default.key.value, random.key(0))


def test_fork_rngs_gives_other_keys_and_takes_them_back() -> None:
    rngs = nnx.Rngs(0, dropout=1, noise=2)
    with nnx.fork_rngs(rngs, split={"dropout": 2, "noise": (1, 3), ...: None}):
        assert rngs.dropout.key.shape == (2,) and rngs.noise.count.shape == (1, 3)
        assert same(rngs.default.key.value, random.fold_in(random.key(0), 0))
    assert same(rngs.default.key.value, random.key(0))


def test_as_decorators_they_last_as_long_as_the_call() -> None:
    @nnx.split_rngs(splits=3, only="dropout")
    def shapes(rngs: nnx.Rngs, *, more: nnx.Rngs) -> Any:
        return rngs.dropout.key.shape, rngs.default.key.shape, more.dropout.key.shape

    @nnx.fork_rngs()
    def drawn(rngs: nnx.Rngs) -> Any:
        return rngs()

    rngs, more = nnx.Rngs(0, dropout=1), nnx.Rngs(dropout=5)
    assert shapes(rngs, more=more) == ((3,), (), (3,))
    assert shapes.__name__ == "shapes" and rngs.dropout.key.shape == more.dropout.key.shape == ()
    inner = drawn(rngs)
    assert same(inner, random.fold_in(random.fold_in(random.key(0), 0), 0))
    assert same(rngs(), random.fold_in(random.key(0), 1))


WRONG: dict[str, tuple[Any, type[Exception], str]] = {
    "seed": (lambda: nnx.Rngs(0.5), ArgumentError, "'default' cannot start from 0.5"),
    "seed-text": (lambda: nnx.Rngs(params="x"), ArgumentError, "'params' cannot start from 'x'"),
    "seed-wide": (lambda: nnx.Rngs(1 << 70), ArgumentError, "64 bits"),
    "seed-floats": (lambda: nnx.Rngs(gs.numpy.ones(2)), ArgumentError, "cannot start from"),
    "seed-none": (lambda: nnx.Rngs(params=None), ArgumentError, "'params' cannot start from None"),
    "name": (lambda: nnx.Rngs(items=0), ArgumentError, "'items' cannot be the name"),
    "name-own": (lambda: nnx.Rngs(_x=0), ArgumentError, "'_x' cannot be the name"),
    "name-type": (lambda: nnx.Rngs({1: 0}), ArgumentError, "1 cannot be the name"),
    "stream": (lambda: nnx.Rngs(params=0).dropout(), AttributeError, "no stream 'dropout'.*params"),
    "none": (lambda: nnx.Rngs()(), AttributeError, "its streams: none"),
    "item": (lambda: nnx.Rngs(params=0)["dropout"], KeyError, "no stream 'dropout'"),
    "no-attribute": (lambda: nnx.Rngs(0)._x, AttributeError, "'Rngs' object has no attribute '_x'"),
    "splits": (lambda: nnx.split_rngs(nnx.Rngs(0), splits=-1), ArgumentError, "splits"),
    "splits-type": (
        lambda: nnx.split_rngs(nnx.Rngs(0), splits=0.5), ArgumentTypeError, "splits=0.5",
    ),
    "squeeze": (
        lambda: nnx.split_rngs(nnx.Rngs(0), splits=2, squeeze=True), ArgumentError, "splits=1",
    ),
    "only": (lambda: nnx.split_rngs(nnx.Rngs(0), splits=2, only=3.5), TypeError, "3.5"),
    "bare": (lambda: nnx.fork_rngs(len), ArgumentTypeError, r"^fork_rngs: node=.*len.*parenth"),
    "bare-split": (
        lambda: nnx.split_rngs(len, splits=2), ArgumentTypeError, "^split_rngs: node=.*len",
    ),
    "fork": (lambda: nnx.fork_rngs(nnx.Rngs(0), split="x"), ArgumentTypeError, "split='x'"),
    "fork-filter": (lambda: nnx.fork_rngs(nnx.Rngs(0), split={2.5: 1}), TypeError, "2.5"),
    "of-many": (
        lambda: nnx.Rngs(random.split(random.key(0), 3))(), ArgumentError, r"keys of shape \(3,\)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_calls_say_what_is_wrong(case: str) -> None:
    call, error, text = WRONG[case]
    with pytest.raises(error, match=text) as caught:
        call()
    assert issubclass(type(caught.value), error)


def test_a_stream_that_cannot_be_split_leaves_all_as_they_are() -> None:
    rngs = nnx.Rngs(a=0, b=random.split(random.key(0), 3))
    with pytest.raises(ArgumentError, match=r"'b' has keys of shape \(3,\)"):
        nnx.split_rngs(rngs, splits=2)
    assert int(rngs.a.count.value) == 0 and same(rngs.a.key.value, random.key(0))


class Meeting(nnx.RngCount[Any]):
    """A count that two threads read before either of them replaces it."""

    @property
    def value(self) -> Any:
        count = self._value
        if threading.get_ident() not in SEEN:
            SEEN.add(threading.get_ident())
            BARRIER.wait(30)
        return count

    @value.setter
    def value(self, new: Any) -> None:
        object.__setattr__(self, "_value", new)


SEEN: set[int] = set()
BARRIER = threading.Barrier(2)


def draw_key(rngs: nnx.Rngs) -> list[Any]:
    return [rngs()]


def split_and_draw(rngs: nnx.Rngs) -> list[Any]:
    with nnx.fork_rngs(rngs):
        pass
    return [rngs()]


@pytest.mark.parametrize("first", [draw_key, split_and_draw])
@pytest.mark.parametrize("second", [draw_key, lambda rngs: [rngs.fork().default.key.value]])
def test_threads_that_read_one_count_draw_different_keys(first: Any, second: Any) -> None:
    rngs = nnx.Rngs(0)
    vars(rngs.default)["count"] = Meeting(rngs.default.count.value, tag="default")
    SEEN.clear()
    SEEN.add(threading.get_ident())
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(draw, rngs) for draw in (first, second)]
        keys = [key for future in futures for key in future.result(60)]
    keys += [rngs(), rngs()]
    data = {tuple(np.asarray(gs.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys) and len(SEEN) == 3


WAYS: list[Any] = [
    3, (2, 3), {"params": 3}, {"params": None, ...: 2}, {nnx.RngState: (1,)}, {nnx.Param: 4}, {},
    {nnx.RngKey: 3}, {nnx.RngCount: 3, "other": 2},
]  # fmt: skip


@pytest.mark.parametrize("ways", WAYS, ids=repr)
def test_streams_are_split_by_the_first_filter(ways: Any) -> None:
    """Whoever splits, keys have the shape that is said, and none is drawn twice."""
    shapes = {}
    for name in ("params", "other"):
        rules = ways if isinstance(ways, dict) else {...: ways}
        chosen = [size for rule, size in rules.items() if rule in (name, ..., nnx.RngState)]
        size = chosen[0] if chosen else None
        shapes[name] = () if size is None else size if isinstance(size, tuple) else (size,)
    rngs = nnx.Rngs(params=0, other=1)
    keys: list[Any] = []
    for new in (rngs.split(ways), rngs.fork(split=ways)):
        assert {name: stream.key.shape for name, stream in new.items()} == shapes
        assert all(stream.count.shape == stream.key.shape for _, stream in new.items())
        keys += [stream.key.value for _, stream in new.items()]
    keys += [rngs.params(), rngs.other()]
    data = [np.asarray(gs.random.key_data(key)).reshape(-1, 2) for key in keys]
    rows = np.concatenate(data)
    assert len({tuple(row) for row in rows.tolist()}) == len(rows)
