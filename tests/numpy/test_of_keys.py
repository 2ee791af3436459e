"""Every public function with random keys: what it does to elements of 64 bits, or a typed error."""

import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gpushard as gs
from gpushard import random
from gpushard._array.key_array import KeyArray
from gpushard.errors import GpushardError
from tests.right_calls import right


def keys_like(x: gs.Array) -> KeyArray:
    """Return keys in the shape of an array, and where it lies."""
    return gs.device_put(random.split(random.key(x.size), x.shape), x.sharding)


def elements_like(x: gs.Array) -> gs.Array:
    """Return the same keys, each as one number of 64 bits."""
    words = np.asarray(random.key_data(keys_like(x))).view(np.uint64)[..., 0]
    return gs.device_put(words, x.sharding)


def as_elements(x: Any) -> Any:
    """Return results on the host, keys as numbers of 64 bits."""
    if isinstance(x, KeyArray):
        return np.asarray(random.key_data(x)).view(np.uint64)[..., 0]
    if isinstance(x, list | tuple):
        return [as_elements(one) for one in x]
    return np.asarray(x) if isinstance(x, gs.Array) else x


def is_operand(x: Any) -> bool:
    if isinstance(x, list | tuple):
        return len(x) > 0 and all(map(is_operand, x))
    return isinstance(x, gs.Array) and x.ndim > 0


def replaced(x: Any, like: Callable[[gs.Array], Any]) -> Any:
    return type(x)(like(one) for one in x) if isinstance(x, list | tuple) else like(x)


def calls(name: str) -> Iterator[Callable[[Callable[[gs.Array], Any]], Any]]:
    """Yield a right call with each of its operands replaced, and with all of them."""
    function, (args, named), _ = right()[name]
    values = dict(enumerate(args)) | named
    places = [at for at, value in values.items() if is_operand(value)]

    def call(chosen: list[Any], like: Callable[[gs.Array], Any]) -> Any:
        new = values | {at: replaced(values[at], like) for at in chosen}
        return function(*(new[at] for at in range(len(args))), **{at: new[at] for at in named})

    for chosen in [[at] for at in places] + [places] * (len(places) > 1):
        yield functools.partial(call, chosen)


def outcome(call: Callable[[Any], Any], like: Callable[[gs.Array], Any]) -> Any:
    try:
        return call(like)
    except GpushardError as error:
        return error


APART = (
    "numpy.vectorize",  # which makes a function
    *("numpy.full_like", "numpy.ones_like"),  # whose number is that of both words
)


def test_functions_move_keys_as_elements_or_refuse_them() -> None:
    moved = set()
    for name in right():
        if name.startswith("numpy.") and name not in APART:
            for call in calls(name):
                found = outcome(call, keys_like)
                if not isinstance(found, GpushardError):
                    moved.add(name)
                    expected = outcome(call, elements_like)
                    np.testing.assert_equal(as_elements(found), as_elements(expected), name)
    assert len(moved) > 60


def test_functions_of_numbers_refuse_keys() -> None:
    for name in right():
        if name.startswith(("special.", "random.")):
            for call in calls(name):
                found = outcome(call, keys_like)  # permutations and choices take them
                assert isinstance(found, GpushardError | KeyArray), name


def test_types_of_keys() -> None:
    keys = random.split(random.key(0), 3)
    of, prng_key = gs.numpy.issubdtype, gs.dtypes.prng_key
    for x in (keys, keys.dtype):
        assert of(x, prng_key) and of(x, np.generic) and of(x, keys.dtype)
        assert not of(x, np.number) and not of(x, np.uint32) and not of(np.uint64, x)
    assert not of(np.int32, prng_key) and not of(gs.numpy.arange(3), prng_key)


@pytest.mark.oracle
def test_types_of_keys_are_as_in_jax() -> None:
    jax = pytest.importorskip("jax")
    theirs = jax.random.key(0).dtype
    ours, of = random.key(0).dtype, jax.numpy.issubdtype
    for kind in (np.generic, np.number, np.integer, np.floating, np.uint32, np.bool_):
        assert gs.numpy.issubdtype(ours, kind) == of(theirs, kind)
    assert gs.numpy.issubdtype(ours, gs.dtypes.prng_key) == of(theirs, jax.dtypes.prng_key)
    assert gs.numpy.issubdtype(ours, ours) == of(theirs, theirs)


@pytest.mark.parametrize(
    ("argument", "call"),
    [
        ("constant_values", lambda xp, keys: xp.pad(keys, 1)),
        ("int_type", lambda xp, keys: xp.iinfo(keys)),
        ("int_type", lambda xp, keys: xp.iinfo(keys.dtype)),
        ("dtype", lambda xp, keys: xp.finfo(keys)),
        ("dtype", lambda xp, keys: xp.isdtype(keys, "numeric")),
        ("kind", lambda xp, keys: xp.isdtype(np.int8, keys)),
        ("from_", lambda xp, keys: xp.can_cast(keys, np.int8)),
        ("to", lambda xp, keys: xp.can_cast(np.int8, keys.dtype)),
        ("a", lambda xp, keys: xp.promote_types(keys, keys.dtype)),
        ("b", lambda xp, keys: xp.promote_types(np.int8, keys)),
        ("arrays_and_dtypes", lambda xp, keys: xp.result_type(keys, 1)),
        ("condition", lambda xp, keys: xp.extract(keys, xp.arange(3))),
        ("mask", lambda xp, keys: xp.place(xp.arange(3), keys, 1)),
        ("xs", lambda xp, keys: xp.einsum_path("i,i", keys, keys)),
        ("self", lambda xp, keys: xp.sinc(keys)),
        ("self", lambda xp, keys: keys - keys),
        ("self", lambda xp, keys: 1.5 / keys),
        ("self", lambda xp, keys: np.arange(3) * keys),
        ("self", lambda xp, keys: -keys),
    ],
)
def test_errors_name_the_argument(argument: str, call: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(GpushardError) as caught:
        call(gs.numpy, random.split(random.key(0), 3))
    assert caught.value.argument == argument
    assert "key" in str(caught.value)
