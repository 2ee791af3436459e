"""Streams of random keys: what modules draw weights and masks from."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpushard import random
from gpushard.array import Array
from gpushard.array.key_array import is_keys
from gpushard.cache import hold_while_forking
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.functions.checks import as_shape
from gpushard.nnx.filters import to_predicate
from gpushard.nnx.module import Module
from gpushard.nnx.variable import RngCount, RngKey, put
from gpushard.nnx.walk import Path, iter_graph
from gpushard.placement.creation import zeros
from gpushard.typing import Shape

__all__ = ["RngStream", "Rngs", "fork_rngs", "restore_rngs", "split_rngs"]

_MISSING: Any = object()


class RngStream(Module):
    """A stream of keys: each call folds a count into a key, and counts up.

    The key is an `RngKey` and the count an `RngCount`, both with the stream's name as `tag`, so
    that transforms carry them on, and filters find them.

    Args:
      key: a seed, which is an integer, or a key; an array of keys is as many streams, which are
        called where something maps over it.
      tag: the name of the stream.

    Raises:
      ArgumentError: it is no seed and no key.

    >>> stream = RngStream(0, tag="params")
    >>> bool(stream() == random.fold_in(random.key(0), 0)), int(stream.count.value)
    (True, 1)
    """

    def __init__(self, key: Any, *, tag: str) -> None:
        keys = _as_keys(key, tag)
        self.tag = tag
        self.key = RngKey(keys, tag=tag)
        self.count = RngCount(zeros(keys.shape, np.uint32), tag=tag)

    def __call__(self) -> Any:
        """Draw a new key, and count it; threads that share the stream draw different ones."""
        key, count, _ = self._reserved(1)
        return random.fold_in(key, count)

    def _reserved(self, number: int) -> tuple[Any, Any, Any]:
        """Count so many keys as drawn; return the stream's key, and the counts before and after."""
        while True:
            key, count = _single(self), self.count.value
            after = count + number
            if _advanced(self, (key, count), (key, after)):
                return key, count, after

    def fork(self, *, split: int | Shape | None = None) -> RngStream:
        """Make a stream whose key is drawn from this one.

        Args:
          split: None for one key, or how many keys, or their shape.
        """
        shape = None if split is None else as_shape(split, "split")
        return RngStream(_split_or_not(self(), shape), tag=self.tag)

    def split(self, k: int | Shape) -> RngStream:
        """Make a stream with an array of keys, which are drawn from this one.

        Args:
          k: how many, or a shape.
        """
        return self.fork(split=as_shape(k, "k"))


_drawing = threading.Lock()
"""Held while key and count of a stream are replaced, both at once."""

hold_while_forking(_drawing)


def _advanced(stream: RngStream, old: Any, new: tuple[Any, Any]) -> bool:
    """Replace key and count of a stream, unless another thread has done so.

    Args:
      stream: the stream.
      old: its key and count as they were read; None if they are replaced in any case.
      new: what they become.

    Returns:
      Whether they were replaced.
    """
    boxes: tuple[Any, Any] = stream.key, stream.count
    for box in reversed(boxes):
        box._check_level("an assignment to the value")
    with _drawing:
        if old is not None and any(box._value is not x for box, x in zip(boxes, old, strict=True)):
            return False
        for box, x in zip(boxes, new, strict=True):
            put(box, "_value", x)
    return True


@contextlib.contextmanager
def drawn(stream: RngStream, number: int) -> Iterator[list[Any]]:
    """Draw several keys; if the block raises, they are as good as not drawn.

    They are not given back if another thread has drawn since.
    """
    key, before, after = stream._reserved(number)
    try:
        yield [random.fold_in(key, before + n) for n in range(number)]
    except BaseException:
        _advanced(stream, (key, after), (key, before))
        raise


class Rngs(Module):
    """Streams of keys by name; `rngs.params()` returns a new key of the stream `params`.

    Args:
      default: a seed or a key for all streams that have none of their own; or a mapping of names to
        seeds and keys.
      **streams: seeds and keys of streams.

    Raises:
      ArgumentError: a seed is none, or a name is that of a method.

    >>> rngs = Rngs(0, dropout=1)
    >>> sorted(rngs)
    ['default', 'dropout']
    >>> bool(rngs.params() == random.fold_in(random.key(0), 0))  # of `default`
    True
    """

    def __init__(self, default: Any = None, **streams: Any) -> None:
        if isinstance(default, Mapping):
            streams = {**default, **streams}
        elif default is not None:
            streams = {"default": default, **streams}
        made = {}
        for name, key in streams.items():
            taken = hasattr(type(self), str(name)) and not hasattr(Module, str(name))
            if not isinstance(name, str) or name.startswith("_") or taken:
                raise ArgumentError(
                    f"Rngs: {name!r} cannot be the name of a stream, as it starts with an "
                    "underline or is a method's; choose another",
                    argument="streams",
                    name=name,
                )
            given = key.key.value if isinstance(key, RngStream) else key
            made[name] = RngStream(given, tag=name)
        for name, stream in made.items():
            setattr(self, name, stream)

    def __getattr__(self, name: str) -> RngStream:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._stream(name, AttributeError)

    def __getitem__(self, name: str) -> RngStream:
        return self._stream(name, KeyError)

    def _stream(self, name: str, error: type[Exception]) -> RngStream:
        own = vars(self)
        stream = own.get(name, own.get("default"))
        if isinstance(stream, RngStream):
            return stream
        names = ", ".join(self) or "none"
        raise error(
            f"Rngs has no stream {name!r}, and no default; its streams: {names}. Make it with "
            f"Rngs({name}=seed), or with Rngs(seed) for all names"
        )

    def __call__(self) -> Any:
        """Return a new key of the default stream."""
        return self.default()

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def items(self) -> Iterator[tuple[str, RngStream]]:
        """Yield names and streams."""
        for name, stream in list(vars(self).items()):
            if isinstance(stream, RngStream):
                yield name, stream

    def fork(self, *, split: Any = None) -> Rngs:
        """Make streams whose keys are drawn from these.

        Args:
          split: None for one key each, how many keys or their shape; or a mapping of filters to
            these, where a stream that no filter takes gets one key.

        >>> rngs = Rngs(params=0, dropout=1).fork(split={"dropout": 4})
        >>> rngs.params.key.shape, rngs.dropout.key.shape
        ((), (4,))
        """
        ways = _shapes(split)
        shapes = {name: _first_way(ways, (name,), stream) for name, stream in self.items()}
        return Rngs({name: x.fork(split=shapes[name]) for name, x in self.items()})

    def split(self, k: Any) -> Rngs:
        """Make streams with arrays of keys, which are drawn from these.

        Args:
          k: how many keys, or their shape; or a mapping of filters to these, where a stream that
            no filter takes gets one key.

        >>> Rngs(0, dropout=1).split(4).dropout.key.shape
        (4,)
        """
        return self.fork(split=k if isinstance(k, Mapping) else as_shape(k, "k"))


class RngBackups:
    """The keys and counts that streams had; a context manager that gives them back."""

    def __init__(self, kept: list[tuple[RngStream, Any, Any]]) -> None:
        self._kept = kept

    def __iter__(self) -> Iterator[tuple[RngStream, Any, Any]]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __enter__(self) -> RngBackups:
        return self

    def __exit__(self, *error: object) -> None:
        restore_rngs(self)


def restore_rngs(backups: RngBackups) -> None:
    """Give streams back what `split_rngs` or `fork_rngs` took.

    Args:
      backups: what these returned. What was drawn from the streams before stays drawn: they do not
        repeat themselves.
    """
    for stream, key, count in backups:
        _advanced(stream, None, (key, count))


def split_rngs(
    node: Any = _MISSING,
    /,
    *,
    splits: int | Shape,
    only: Any = ...,
    squeeze: bool = False,
) -> Any:
    """Give each stream of a module an array of keys, drawn from its own, for what maps over it.

    Args:
      node: a module, or containers of modules; without it a decorator is returned, which does this
        to the arguments of a function while it runs.
      splits: how many keys, or a shape.
      only: a filter that says which streams, by their variables.
      squeeze: whether the one key of `splits=1` stays without a dim.

    Returns:
      What they had, for `restore_rngs`, or as a context manager.

    Raises:
      ArgumentError: `splits` is negative, `squeeze` stands beside several, or a stream has an array
        of keys already. No stream is changed then.
      ArgumentTypeError: `splits` is no shape, or `only` no filter.

    >>> rngs = Rngs(params=0, dropout=1)
    >>> with split_rngs(rngs, splits=4, only="dropout"):
    ...     rngs.dropout.key.shape, rngs.params.key.shape
    ((4,), ())
    >>> rngs.dropout.key.shape
    ()
    """
    shape = as_shape(splits, "splits")
    if squeeze and shape != (1,):
        raise ArgumentError.refusing("squeeze", squeeze, "needs splits=1", "split_rngs")

    def keys(key: Any) -> Any:
        split = random.split(key, shape)
        return split[0] if squeeze else split

    return _replacing(node, [(to_predicate(only), keys)], "split_rngs")


def fork_rngs(node: Any = _MISSING, /, *, split: Any = None) -> Any:
    """Give each stream of a module a key of its own, drawn from the one it has.

    Args:
      node: a module, or containers of modules; without it a decorator is returned, which does this
        to the arguments of a function while it runs.
      split: None for one key, how many keys or a shape; or a mapping of filters to these, of which
        the first that takes a stream counts.

    Returns:
      What they had, for `restore_rngs`, or as a context manager.

    Raises:
      ArgumentError: a number is negative, or a stream has an array of keys already. No stream is
        changed then.
      ArgumentTypeError: `split` is none of these.

    >>> rngs = Rngs(0)
    >>> with fork_rngs(rngs):
    ...     inner = rngs()
    >>> bool(rngs() == inner)
    False
    """
    ways = [
        (takes, functools.partial(_split_or_not, shape=shape)) for takes, shape in _shapes(split)
    ]
    return _replacing(node, ways, "fork_rngs")


def _shapes(split: Any) -> list[tuple[Any, Shape | None]]:
    """Return the filters of streams, and the shape of the keys that each says."""
    ways = split if isinstance(split, Mapping) else {...: split}
    return [
        (to_predicate(filter_), None if number is None else as_shape(number, "split"))
        for filter_, number in ways.items()
    ]


def _first_way(ways: list[tuple[Any, Any]], path: Path, stream: RngStream) -> Any:
    """Return what stands beside the first filter that takes a stream; None without one."""
    parts = [((*path, name), getattr(stream, name)) for name in ("key", "count")]
    chosen = (way for takes, way in ways if all(takes(*part) for part in parts))
    return next(chosen, None)


def _split_or_not(key: Any, shape: Shape | None) -> Any:
    return key if shape is None else random.split(key, shape)


def _replacing(node: Any, ways: list[tuple[Any, Any]], function: str) -> Any:
    if inspect.isroutine(node):
        raise ArgumentTypeError.refusing(
            "node", node, "is a function; to decorate it, write the parentheses", function
        )
    if node is not _MISSING:
        return _replace(node, ways)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with _replace((args, kwargs), ways):
                return function(*args, **kwargs)

        return call

    return decorate


def _replace(node: Any, ways: list[tuple[Any, Any]]) -> RngBackups:
    chosen = []
    for path, stream in iter_graph(node):
        if isinstance(stream, RngStream):
            make = _first_way(ways, path, stream)
            if make is not None:
                chosen.append((stream, make))
                _single(stream)
    kept = []
    for stream, make in chosen:
        keys = make(stream())
        new = keys, zeros(keys.shape, np.uint32)
        old = stream.key.value, stream.count.value
        while not _advanced(stream, old, new):  # another thread draws from it
            old = stream.key.value, stream.count.value
        kept.append((stream, *old))
    return RngBackups(kept)


def _single(stream: RngStream) -> Any:
    """Return the key of a stream that has one."""
    key = stream.key.value
    if key.shape:
        raise ArgumentError(
            f"the stream {stream.tag!r} has keys of shape {key.shape}; map over them, so that each "
            "call sees one key, or give them back with restore_rngs",
            argument="rngs",
            shape=key.shape,
        )
    return key


def _as_keys(key: Any, tag: str) -> Any:
    """Return a seed, raw keys or keys as keys."""
    try:
        if is_keys(key):
            return key
        if isinstance(key, Array) and key.dtype == np.uint32 and key.shape[-1:] == (2,):
            return random.wrap_key_data(key)
        return random.key(key)
    except (ArgumentError, ArgumentTypeError) as error:
        raise ArgumentError(
            f"the stream {tag!r} cannot start from {key!r}: {error}. Give it an integer, or a key "
            "such as random.key(0)",
            argument=tag,
            value=key,
            type=type(key),
        ) from error
