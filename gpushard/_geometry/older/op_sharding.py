"""`OpSharding`: XLA's description of the tiles of devices, as fields and as text."""

from __future__ import annotations

import enum
import functools
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpushard._typing import IntArray, Shape
from gpushard.errors import ArgumentError, ArgumentTypeError, ParseError, ShardingError


class _Type(enum.IntEnum):
    """The kinds of an `OpSharding`, numbered as in XLA."""

    REPLICATED = 0
    MAXIMAL = 1
    TUPLE = 2
    OTHER = 3
    MANUAL = 4
    UNKNOWN = 5


class OpSharding:
    """XLA's description of the tiles of an array on devices; immutable.

    Devices are numbers: positions in a list of devices, such as that of `GSPMDSharding`. A dim of
    length n in k tiles has tiles of length ceil(n / k); the last tiles may be shorter.

    Args:
      type: `OpSharding.Type.REPLICATED`, `MAXIMAL` (all on one device), `OTHER` (tiles), `MANUAL`,
        `TUPLE` or `UNKNOWN`.
      tile_assignment_dimensions: the number of tiles of each dim, followed by the sizes of groups
        of devices that hold the same tile.
      tile_assignment_devices: the device of each tile, in row-major order; for `MAXIMAL` only the
        device that has everything.
      replicate_on_last_tile_dim: whether the last entry of `tile_assignment_dimensions` is the size
        of such a group.
      last_tile_dims: the type of each group in `tile_assignment_dimensions`, REPLICATED or MANUAL.
      tuple_shardings: for `TUPLE`, the `OpSharding` of each member.

    Raises:
      ArgumentTypeError: a field has the wrong type.
      ArgumentError: fields contradict one another.

    >>> OpSharding(OpSharding.Type.OTHER, (2, 2), (0, 2, 1, 3))
    OpSharding.from_string('{devices=[2,2]<=[2,2]T(1,0)}')
    """

    Type = _Type

    def __init__(
        self,
        type: _Type = _Type.REPLICATED,
        tile_assignment_dimensions: Sequence[int] = (),
        tile_assignment_devices: Sequence[int] = (),
        replicate_on_last_tile_dim: bool = False,
        last_tile_dims: Sequence[_Type] = (),
        tuple_shardings: Sequence[OpSharding] = (),
    ) -> None:
        try:
            self.type = _Type(type)
            self.last_tile_dims = tuple(map(_Type, last_tile_dims))
        except ValueError:
            raise ArgumentTypeError.refusing(
                "type", type, f"and last_tile_dims={last_tile_dims!r} must be of OpSharding.Type"
            ) from None
        self.tile_assignment_dimensions = _integers(tile_assignment_dimensions, "dimensions")
        self.tile_assignment_devices = _integers(tile_assignment_devices, "devices")
        self.replicate_on_last_tile_dim = bool(replicate_on_last_tile_dim)
        self.tuple_shardings = tuple(tuple_shardings)
        self._check()

    def _check(self) -> None:
        kind, devices = self.type, self.tile_assignment_devices
        dims = self.tile_assignment_dimensions
        if kind is _Type.MAXIMAL and (len(devices) != 1 or dims not in ((), (1,))):
            raise ArgumentError.refusing(
                "tile_assignment_devices", devices, "must be the one device of a MAXIMAL sharding"
            )
        if kind not in (_Type.OTHER, _Type.MAXIMAL) and (dims or devices):
            raise ArgumentError(
                f"a {kind.name} sharding has no tiles; leave out tile_assignment_dimensions={dims} "
                f"and tile_assignment_devices={devices}, or use OTHER",
                argument="tile_assignment_dimensions",
            )
        if self.tuple_shardings and kind is not _Type.TUPLE:
            raise ArgumentError(
                f"a {kind.name} sharding has no tuple_shardings; use TUPLE",
                argument="tuple_shardings",
            )
        if any(part.type is _Type.TUPLE for part in self.tuple_shardings):
            raise ArgumentError(
                "tuple_shardings holds a TUPLE; XLA's are flat, give the shardings of all leaves",
                argument="tuple_shardings",
            )
        if kind is not _Type.OTHER:
            return
        number = math.prod(dims)
        all_there = len(devices) == number and sorted(devices) == list(range(number))
        if not dims or min(dims) < 1 or not all_there:
            raise ArgumentError(
                f"tile_assignment_devices={_few(devices)} must be the numbers below {number}, the "
                f"product of tile_assignment_dimensions={dims}, once each",
                argument="tile_assignment_devices",
                dimensions=dims,
            )
        if self._groups > len(dims):
            raise ArgumentError(
                f"last_tile_dims={[t.name for t in self.last_tile_dims]} has {self._groups} "
                f"entries for tile_assignment_dimensions={dims}",
                argument="last_tile_dims",
                dimensions=dims,
            )

    @property
    def _fields(self) -> tuple[Any, ...]:
        return (
            self.type,
            self.tile_assignment_dimensions,
            self.tile_assignment_devices,
            self.replicate_on_last_tile_dim,
            self.last_tile_dims,
            self.tuple_shardings,
        )

    def __eq__(self, other: object) -> bool:
        return type(other) is OpSharding and self._fields == other._fields

    def __hash__(self) -> int:
        return hash(self._fields)

    def __reduce__(self) -> tuple[Any, ...]:
        return OpSharding, self._fields

    def __repr__(self) -> str:
        return f"OpSharding.from_string({str(self)!r})"

    @property
    def num_devices(self) -> int:
        """The number of devices with tiles; 1 for types without tiles."""
        return math.prod(self.tile_assignment_dimensions)

    @property
    def _groups(self) -> int:
        """The number of dimensions that are groups of devices instead of tiles."""
        return len(self.last_tile_dims) + self.replicate_on_last_tile_dim

    @property
    def rank(self) -> int:
        """The number of dims of an array with tiles; 0 for types without tiles."""
        return len(self.tile_assignment_dimensions) - self._groups

    def layout(self, ndim: int) -> tuple[Shape, IntArray | None]:
        """Return the tiles of arrays with `ndim` dims.

        Args:
          ndim: number of dims.

        Returns:
          A pair. First the number of tiles of each dim. Then the index of each device's tile along
          every dim, an array of shape (ndim, devices), or None if each device has the whole array.

        Raises:
          ShardingError: an `OpSharding` of this type describes no tiles, or the tiles have another
            number of dims.
        """
        if self.type in (_Type.REPLICATED, _Type.MAXIMAL):
            return (1,) * ndim, None
        if self.type is not _Type.OTHER or _Type.MANUAL in self.last_tile_dims:
            raise ShardingError(
                f"{self} does not say how an array is laid out; use replicated, maximal or tiles",
                argument="op_sharding",
                type=self.type,
            )
        dims = self.tile_assignment_dimensions
        counts = dims[: self.rank]
        if max(counts, default=1) == 1:
            return (1,) * ndim, None
        if len(counts) != ndim:
            raise ShardingError(
                f"{self} is for arrays with ndim={len(counts)}, and this array has ndim={ndim}; "
                "give a number of tiles for each axis of the array",
                argument="op_sharding",
                dimensions=counts,
                ndim=ndim,
            )
        tiles = np.indices(dims)[:ndim].reshape(ndim, self.num_devices)
        blocks = np.empty_like(tiles)
        blocks[:, list(self.tile_assignment_devices)] = tiles
        return counts, blocks

    def iota(self) -> tuple[Shape, tuple[int, ...]] | None:
        """Find a grid that lists the devices when its axes are permuted; None if no grid does.

        Returns `(grid, order)`: the devices are `arange(n).reshape(grid).transpose(order)`. The
        grid has as few axes as possible.

        >>> OpSharding.from_string("{devices=[4,2]0,4,1,5,2,6,3,7}").iota()
        ((2, 4), (1, 0))
        """
        return _iota(self.tile_assignment_devices)

    def __str__(self) -> str:
        if self.type is _Type.TUPLE:
            return "{" + ", ".join(map(str, self.tuple_shardings)) + "}"
        if self.type is _Type.MAXIMAL:
            return f"{{maximal device={self.tile_assignment_devices[0]}}}"
        if self.type is not _Type.OTHER:
            return f"{{{self.type.name.lower()}}}"
        iota = self.iota()
        text = f"{{devices={_bracketed(self.tile_assignment_dimensions)}"
        if iota is None:
            text += _comma_separated(self.tile_assignment_devices)
        else:
            grid, order = iota
            text += f"<={_bracketed(grid)}"
            text += "" if len(grid) == 1 else f"T({_comma_separated(order)})"
        if self.replicate_on_last_tile_dim:
            text += " last_tile_dim_replicate"
        if self.last_tile_dims:
            names = ", ".join(kind.name.lower() for kind in self.last_tile_dims)
            text += f" last_tile_dims={{{names}}}"
        return text + "}"

    @classmethod
    def from_string(cls, text: str) -> OpSharding:
        """Parse the text of an `OpSharding`, from XLA or from `str`; `metadata` is ignored.

        Args:
          text: a text such as "{replicated}", "{devices=[2,4]<=[8]}" or "{maximal device=0}".

        Raises:
          ParseError: the text cannot be parsed; the attribute `position` is where parsing stopped.

        >>> OpSharding.from_string("{devices=[2,1,2]0,1,2,3 last_tile_dim_replicate}")
        OpSharding.from_string('{devices=[2,1,2]<=[4] last_tile_dim_replicate}')
        """
        if not isinstance(text, str):
            raise ArgumentTypeError.refusing("text", text, "must be a string")
        return _Parser(text).read_all()


@functools.lru_cache(maxsize=1000)
def _iota(devices: tuple[int, ...]) -> tuple[Shape, tuple[int, ...]] | None:
    axes: list[tuple[int, int]] = []  # (stride, size), the fastest first
    done, n = 1, len(devices)
    while done < n:
        stride = devices[done]
        size = 2
        while (size + 1) * done <= n and devices[size * done] == size * stride:
            size += 1
        if n % (size * done):
            return None
        axes.append((stride, size))
        done *= size
    slowest_first = sorted(axes, reverse=True)
    grid = tuple(size for _, size in slowest_first) or (1,)
    order = tuple(slowest_first.index(axis) for axis in reversed(axes)) or (0,)
    numbers = np.arange(n).reshape(grid).transpose(order).ravel()
    return (grid, order) if numbers.tolist() == list(devices) else None


_TOKENS = re.compile(r"\s*(?:\d+|<=|[{}\[\](),=]|[A-Za-z_]\w*)")
_QUOTED_OR_BRACE = re.compile(r'"(?:\\.|[^"\\])*"|[{}]')
_KINDS = {kind.name.lower(): kind for kind in (_Type.REPLICATED, _Type.MANUAL, _Type.UNKNOWN)}
_WANTED = "'replicated', 'maximal', 'manual', 'unknown' or 'devices='"


_DIGITS = 18
_MOST = 1 << 20
"""The most devices of a text: a few letters could otherwise ask for any number."""


class _Parser:
    """Parses the text of a sharding, token by token."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.token = ""
        self._next()

    def read_all(self) -> OpSharding:
        sharding = self._sharding()
        if self.token:
            raise self._error("the end")
        return sharding

    def _next(self) -> str:
        """Advance by one token, and return the token before."""
        passed = self.token
        match = _TOKENS.match(self.text, self.at)
        if match is None and self.text[self.at :].strip():
            self.token = self.text[self.at :].lstrip()[0]
            self.start = self.text.index(self.token, self.at)
            raise self._error("a word, a number or punctuation")
        self.token = match.group().lstrip() if match else ""
        self.at = match.end() if match else len(self.text)
        self.start = self.at - len(self.token)
        return passed

    def _error(self, wanted: str) -> ParseError:
        token = repr(self.token) if self.token else "the end"
        return ParseError(
            f"text={self.text!r} has {token} at position {self.start}, where {wanted} should be",
            argument="text",
            position=self.start,
            text=self.text,
        )

    def _expect(self, token: str) -> None:
        if self.token != token:
            raise self._error(repr(token))
        self._next()

    def _integer(self) -> int:
        if not self.token.isdigit():
            raise self._error("a number")
        if len(self.token) > _DIGITS:
            raise self._error(f"a number of no more than {_DIGITS} digits")
        return int(self._next())

    def _integers(self) -> list[int]:
        numbers = [self._integer()]
        while self.token == ",":
            self._next()
            numbers.append(self._integer())
        return numbers

    def _sharding(self, *, tuples: bool = True) -> OpSharding:
        start = self.start
        self._expect("{")
        if tuples and self.token in ("{", "}"):
            return self._tuple()
        fields: dict[str, Any] = {}
        while self.token != "}":
            self._field(fields)
        if "type" not in fields:
            raise self._error(_WANTED)
        try:
            sharding = OpSharding(**fields)
        except (ArgumentError, ArgumentTypeError) as error:
            raise ParseError.refusing(
                "text", self.text, f"has no sharding at position {start}: {error}", position=start
            ) from error
        self._next()
        return sharding

    def _tuple(self) -> OpSharding:
        parts = []
        while self.token != "}":
            parts.append(self._sharding(tuples=False))
            if self.token != "}":
                self._expect(",")
        self._next()
        return OpSharding(_Type.TUPLE, tuple_shardings=parts)

    def _field(self, fields: dict[str, Any]) -> None:
        word = self.token
        if word == "metadata":
            self._next()
            self._expect("=")
            self._skip_braces()
        elif "type" not in fields and word in _KINDS:
            self._next()
            fields["type"] = _KINDS[word]
        elif "type" not in fields and word == "maximal":
            self._next()
            self._expect("device")
            self._expect("=")
            fields.update(type=_Type.MAXIMAL, tile_assignment_devices=(self._integer(),))
        elif "type" not in fields and word == "devices":
            self._next()
            self._expect("=")
            dims = self._bracketed("[", "]")
            fields.update(type=_Type.OTHER, tile_assignment_dimensions=dims)
            fields["tile_assignment_devices"] = self._devices()
        elif fields.get("type") is _Type.OTHER and word == "last_tile_dim_replicate":
            self._next()
            fields["replicate_on_last_tile_dim"] = True
        elif fields.get("type") is _Type.OTHER and word == "last_tile_dims":
            self._next()
            self._expect("=")
            fields["last_tile_dims"] = self._kinds()
        else:
            raise self._error(
                "'last_tile_dim_replicate', 'last_tile_dims=', 'metadata=' or '}'"
                if fields
                else _WANTED
            )

    def _devices(self) -> list[int]:
        if self.token != "<=":
            return self._integers()
        self._next()
        start = self.start
        grid = self._bracketed("[", "]")
        if math.prod(grid) > _MOST:
            self.start, self.token = start, _bracketed(grid)
            raise self._error(f"a grid of no more than {_MOST:,} devices")
        order = list(range(len(grid)))
        if self.token == "T":
            self._next()
            start = self.start
            order = self._bracketed("(", ")")
        if sorted(order) != list(range(len(grid))):
            self.start, self.token = start, str(tuple(order))
            raise self._error(f"an order of the {len(grid)} axes of {grid}")
        devices: list[int] = (
            np.arange(math.prod(grid)).reshape(grid).transpose(order).ravel().tolist()
        )
        return devices

    def _kinds(self) -> list[_Type]:
        self._expect("{")
        kinds = []
        while self.token != "}":
            if self.token not in _KINDS:
                raise self._error("'replicated' or 'manual'")
            kinds.append(_KINDS[self._next()])
            if self.token != "}":
                self._expect(",")
        self._next()
        return kinds

    def _bracketed(self, left: str, right: str) -> list[int]:
        self._expect(left)
        numbers = self._integers()
        self._expect(right)
        return numbers

    def _skip_braces(self) -> None:
        """Skip to the matching closing brace; braces in strings do not count."""
        if self.token != "{":
            raise self._error("'{'")
        depth, position = 0, self.start
        for part in _QUOTED_OR_BRACE.finditer(self.text, self.start):
            depth += (part.group() == "{") - (part.group() == "}")
            position = part.end()
            if not depth:
                break
        if depth:
            self.start, self.token = len(self.text), ""
            raise self._error("'}'")
        self.at = position
        self._next()


def _integers(values: Any, what: str) -> tuple[int, ...]:
    try:
        return tuple(int(value.__index__()) for value in values)
    except (TypeError, AttributeError):
        raise ArgumentTypeError(
            f"tile_assignment_{what}={values!r} must be integers",
            argument=f"tile_assignment_{what}",
            value=values,
        ) from None


def _comma_separated(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _bracketed(numbers: Sequence[int]) -> str:
    return f"[{_comma_separated(numbers)}]"


def _few(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:8]))
    return f"({shown}, ...)" if len(numbers) > 8 else f"({shown})"
