"""Streams of random keys, from which modules draw weights and masks."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from gpushard import random
from gpushard._array import Array
from gpushard._array.key_array import is_keys
from gpushard._cache import hold_while_forking
from gpushard._functions.shapes import as_shape
from gpushard._placement.creation import zeros
from gpushard._typing import Shape
from gpushard.errors import ArgumentError, ArgumentTypeError
from gpushard.nnx.filters import to_predicate
from gpushard.nnx.module import Module
from gpushard.nnx.variable import RngCount, RngKey, put
from gpushard.nnx.walk import Path, iter_graph

__all__ = ["RngStream", "Rngs", "fork_rngs", "restore_rngs", "split_rngs"]

_MISSING: Any = object()


class RngStream(Module):
    """A stream of random keys: each call returns a new key, derived from a key and a count.

    The key is an `RngKey` and the count an `RngCount`, both with the name of the stream as `tag`.
    So transforms update them like other Variables, and filters can select them.

    Args:
      key: an integer seed, or a key. An array of keys makes one stream for each: call the stream
        inside a function that is mapped over the array.
      tag: the name of the stream.

    Raises:
      ArgumentError: `key` is neither a seed nor a key.

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
        """Draw a new key. Threads that share the stream draw different keys."""
        key, count, _ = self._reserve(1)
        return random.fold_in(key, count)

    def _reserve(self, number: int) -> tuple[Any, Any, Any]:
        """Count keys as drawn; return the key of the stream, and the counts before and after."""
        while True:
            key, count = _single_key(self), self.count.value
            after = count + number
            if _try_replace(self, (key, count), (key, after)):
                return key, count, after

    def fork(self, *, split: int | Shape | None = None) -> RngStream:
        """Create a stream with a key that is drawn from this stream.

        Args:
          split: None for one key; else the number of keys, or the shape of the array of keys.
        """
        shape = None if split is None else as_shape(split, "split")
        return RngStream(_split_or_not(self(), shape), tag=self.tag)

    def split(self, k: int | Shape) -> RngStream:
        """Create a stream with an array of keys that are drawn from this stream.

        Args:
          k: the number of keys, or the shape of the array of keys.
        """
        return self.fork(split=as_shape(k, "k"))


_drawing = threading.Lock()
"""Held while key and count of a stream are replaced, so that both change at once."""

hold_while_forking(_drawing)


def _try_replace(stream: RngStream, old: Any, new: tuple[Any, Any]) -> bool:
    """Replace key and count of a stream, unless another thread has replaced them.

    Args:
      stream: the stream.
      old: its key and count as they were read; None to replace them in any case.
      new: the new key and count.

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
def draw_keys(stream: RngStream, number: int) -> Iterator[list[Any]]:
    """Draw several keys; if the block raises, the stream is reset as if they had not been drawn.

    It is not reset if another thread has drawn from it meanwhile.
    """
    key, before, after = stream._reserve(number)
    try:
        yield [random.fold_in(key, before + n) for n in range(number)]
    except BaseException:
        _try_replace(stream, (key, after), (key, before))
        raise


class Rngs(Module):
    """Named streams of random keys: `rngs.params()` returns a new key of the stream `params`.

    Args:
      default: a seed or a key for the stream `default`, which also serves names without a stream.
        Or a mapping from names to seeds and keys.
      **streams: for each stream its name, with a seed or a key.

    Raises:
      ArgumentError: a value is neither a seed nor a key. Or a name is the name of a method, or
        begins with an underscore.

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
        created = {}
        for name, key in streams.items():
            taken = hasattr(type(self), str(name)) and not hasattr(Module, str(name))
            if not isinstance(name, str) or name.startswith("_") or taken:
                raise ArgumentError(
                    f"Rngs: {name!r} cannot be the name of a stream: names are strings, without an "
                    "underscore in front, and not those of methods; choose another",
                    argument="streams",
                    name=name,
                )
            start = key.key.value if isinstance(key, RngStream) else key
            created[name] = RngStream(start, tag=name)
        for name, stream in created.items():
            setattr(self, name, stream)

    def __getattr__(self, name: str) -> RngStream:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return self._stream(name, AttributeError)

    def __getitem__(self, name: str) -> RngStream:
        return self._stream(name, KeyError)

    def _stream(self, name: str, error: type[Exception]) -> RngStream:
        attributes = vars(self)
        stream = attributes.get(name, attributes.get("default"))
        if isinstance(stream, RngStream):
            return stream
        names = ", ".join(self) or "none"
        raise error(
            f"Rngs has no stream {name!r}, and no default; its streams: {names}. Try: "
            f"Rngs({name}=seed), or Rngs(seed) for all names"
        )

    def __call__(self) -> Any:
        """Draw a new key from the default stream."""
        return self.default()

    def __iter__(self) -> Iterator[str]:
        return (name for name, _ in self.items())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        return name in set(self)

    def items(self) -> Iterator[tuple[str, RngStream]]:
        """Yield pairs of a name and its stream."""
        for name, stream in list(vars(self).items()):
            if isinstance(stream, RngStream):
                yield name, stream

    def fork(self, *, split: Any = None) -> Rngs:
        """Create streams with keys that are drawn from the streams of the same names.

        Args:
          split: None for one key for each stream; else the number of keys, or the shape of the
            array of keys. Or a mapping from filters to these; a stream that no filter selects gets
            one key.

        >>> rngs = Rngs(params=0, dropout=1).fork(split={"dropout": 4})
        >>> rngs.params.key.shape, rngs.dropout.key.shape
        ((), (4,))
        """
        ways = _shapes(split)
        shapes = {name: _first_way(ways, (name,), stream) for name, stream in self.items()}
        return Rngs({name: x.fork(split=shapes[name]) for name, x in self.items()})

    def split(self, k: Any) -> Rngs:
        """Create streams with arrays of keys that are drawn from the streams of the same names.

        Args:
          k: the number of keys, or the shape of the array of keys. Or a mapping from filters to
            these; a stream that no filter selects gets one key.

        >>> Rngs(0, dropout=1).split(4).dropout.key.shape
        (4,)
        """
        return self.fork(split=k if isinstance(k, Mapping) else as_shape(k, "k"))


class RngBackups:
    """Keys and counts of streams before a change; as a context manager it restores them."""

    def __init__(self, backups: list[tuple[RngStream, Any, Any]]) -> None:
        self._backups = backups

    def __iter__(self) -> Iterator[tuple[RngStream, Any, Any]]:
        return iter(self._backups)

    def __len__(self) -> int:
        return len(self._backups)

    def __enter__(self) -> RngBackups:
        return self

    def __exit__(self, *error: object) -> None:
        restore_rngs(self)


def restore_rngs(backups: RngBackups) -> None:
    """Restore the streams that `split_rngs` or `fork_rngs` replaced.

    Args:
      backups: the result of `split_rngs` or `fork_rngs`. The counts of the streams are not reset,
        so streams do not repeat keys.
    """
    for stream, key, count in backups:
        _try_replace(stream, None, (key, count))


def split_rngs(
    node: Any = _MISSING,
    /,
    *,
    splits: int | Shape,
    only: Any = ...,
    squeeze: bool = False,
) -> Any:
    """Replace the key of each stream in a Module by an array of keys, to map a function over it.

    Args:
      node: a Module, or a container of Modules. If you leave it out, `split_rngs` returns a
        decorator. The decorated function runs with split streams in its arguments.
      splits: the number of keys, or the shape of the array of keys.
      only: a filter of the streams to split, such as a name of a stream; by default all are split.
      squeeze: whether `splits=1` gives a key rather than an array with one key.

    Returns:
      Backups of the streams. Pass them to `restore_rngs`, or use them in a `with` statement, to
      restore the streams.

    Raises:
      ArgumentError: `splits` is negative, `squeeze` is given and `splits` is not 1, or a stream
        already has an array of keys. No stream is changed then.
      ArgumentTypeError: `splits` is not a shape, or `only` is not a filter.

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

    return _replace_or_decorate(node, [(to_predicate(only), keys)], "split_rngs")


def fork_rngs(node: Any = _MISSING, /, *, split: Any = None) -> Any:
    """Replace the key of each stream in a Module by a new key that is drawn from the stream.

    Args:
      node: a Module, or a container of Modules. If you leave it out, `fork_rngs` returns a
        decorator. The decorated function runs with new keys in its arguments.
      split: None for one key; else the number of keys, or the shape of the array of keys. Or a
        mapping from filters to these; the first filter that selects a stream counts.

    Returns:
      Backups of the streams. Pass them to `restore_rngs`, or use them in a `with` statement, to
      restore the streams.

    Raises:
      ArgumentError: a number is negative, or a stream already has an array of keys. No stream is
        changed then.
      ArgumentTypeError: `split` has another type.

    >>> rngs = Rngs(0)
    >>> with fork_rngs(rngs):
    ...     inner = rngs()
    >>> bool(rngs() == inner)
    False
    """
    ways = [
        (takes, functools.partial(_split_or_not, shape=shape)) for takes, shape in _shapes(split)
    ]
    return _replace_or_decorate(node, ways, "fork_rngs")


def _shapes(split: Any) -> list[tuple[Any, Shape | None]]:
    """List filters of streams, and for each the shape of keys; None for a single key."""
    ways = split if isinstance(split, Mapping) else {...: split}
    return [
        (to_predicate(filter_), None if number is None else as_shape(number, "split"))
        for filter_, number in ways.items()
    ]


def _first_way(ways: list[tuple[Any, Any]], path: Path, stream: RngStream) -> Any:
    """Return the entry of the first filter that takes a stream; None if no filter does."""
    parts = [((*path, name), getattr(stream, name)) for name in ("key", "count")]
    chosen = (way for takes, way in ways if all(takes(*part) for part in parts))
    return next(chosen, None)


def _split_or_not(key: Any, shape: Shape | None) -> Any:
    return key if shape is None else random.split(key, shape)


def _replace_or_decorate(node: Any, ways: list[tuple[Any, Any]], function: str) -> Any:
    if inspect.isroutine(node):
        raise ArgumentTypeError.refusing(
            "node",
            node,
            "is a function; to decorate it, call the decorator with parentheses",
            function,
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
                _single_key(stream)
    backups = []
    for stream, make in chosen:
        keys = make(stream())
        new = keys, zeros(keys.shape, np.uint32)
        old = stream.key.value, stream.count.value
        while not _try_replace(stream, old, new):  # another thread draws from it
            old = stream.key.value, stream.count.value
        backups.append((stream, *old))
    return RngBackups(backups)


def _single_key(stream: RngStream) -> Any:
    """Return the key of a stream, which must be a single one."""
    key = stream.key.value
    if key.shape:
        raise ArgumentError(
            f"the stream {stream.tag!r} has keys of shape {key.shape}; map over them, so that each "
            "call has one key, or restore them with restore_rngs",
            argument="rngs",
            shape=key.shape,
        )
    return key


def _as_keys(key: Any, tag: str) -> Any:
    """Convert a seed, raw keys or keys to keys."""
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
