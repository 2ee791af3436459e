"""Variables: boxes with a value that can be replaced, and metadata about it."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable, Iterable, Iterator
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Self

import numpy as np

from gpushard import tree
from gpushard._array.array import Array
from gpushard._ops.bind import bind
from gpushard._transforms.values.captured import CONTAINERS, guard
from gpushard.errors import ArgumentTypeError
from gpushard.nnx.levels import Leveled, level
from gpushard.nnx.mesh_axis_names import apply_names
from gpushard.tree.node import NODES, GetAttrKey, Node

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")

# fmt: off
__all__ = [
    "BatchStat", "Cache", "Intermediate", "Param", "Perturbation", "RngCount", "RngKey", "RngState",
    "Variable",
]
# fmt: on


class Annotated(NamedTuple):
    """A value with metadata, from which a Variable is created."""

    value: Any
    metadata: dict[str, Any]
    placed: bool = False  # whether the value is laid out by its names already


class _Opener:
    """Does operations on Variables by doing them on their values."""

    level = math.inf

    def bind(self, row: Any, args: Any, params: Any, out_sharding: Any = None) -> Any:
        """Do an operation on the values."""
        return bind(row, [_value_of(x) for x in args], params, out_sharding)


_OPENER = _Opener()


class Variable(Leveled, Generic[T]):
    """A box with a value that you can replace: a weight, a running mean, a counter.

    You can use a Variable like its value: attributes, methods, operators, `len`, `in` and iteration
    are those of the value. `a == b` compares values, and `a is b` tests if both are the same
    Variable. A Variable has no hash. `bool` of a Variable whose value has a length is true if the
    length is above 0. Subclasses tell the purpose of the value: `Param`, `BatchStat`, or your own.
    Filters select Variables by their class. In annotations, `Variable[T]` has a value of type `T`.

    Args:
      value: an array, or any other value.
      **metadata: facts about the value, which become attributes. `sharding`, also called
        `sharding_names`, is a tuple with an entry for each axis of the value. An entry is the name
        of a mesh axis, a tuple of such names, or None. If there is a current mesh, the value is
        split over these axes, as by `lax.with_sharding_constraint`.

    Raises:
      ArgumentTypeError: the value is a Variable.
      ShardingError: the mesh does not have an axis, or `sharding` has more entries than the value
        has axes.

    >>> import gpushard as gs
    >>> rate = gs.nnx.Variable(gs.numpy.ones(3), unit="s")
    >>> rate.value = rate * 2
    >>> rate.unit, rate.shape, float(rate.sum())
    ('s', (3,), 6.0)
    """

    __slots__ = ("__weakref__", "_metadata", "_value")

    __array_priority__ = 100

    _value: Any
    _metadata: dict[str, Any]  # never changed in place

    def __init__(self, value: Any, **metadata: Any) -> None:
        if "sharding" in metadata:
            metadata["sharding_names"] = metadata.pop("sharding")
        placed = isinstance(value, Annotated) and value.placed
        if isinstance(value, Annotated):
            value, metadata = value.value, {**value.metadata, **metadata}
        if not placed and "sharding_names" in metadata:
            value = apply_names(value, metadata["sharding_names"], type(self).__name__)
        put(self, "_nnx_level", level())
        put(self, "_metadata", metadata)
        put(self, "_value", _check_value(value))

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        without_slots(cls)
        NODES[cls] = _NODE

    @property
    def value(self) -> T:
        """The value; assign to it to replace it."""
        value = self._value
        if guard() is not None and isinstance(value, CONTAINERS):
            self._watch(value, "value")
        return value

    @value.setter
    def value(self, new: Any) -> None:
        self._check_level("an assignment to the value")
        put(self, "_value", _check_value(new))

    raw_value = value

    @property
    def interpreter(self) -> _Opener:
        """The object that runs operations on the value; an error if the value is on the host."""
        if isinstance(self._value, np.ndarray | np.generic):
            raise AttributeError("interpreter")
        return _OPENER

    @property
    def type(self) -> type[Variable]:
        """The class of the Variable."""
        return type(self)

    def get_metadata(self) -> dict[str, Any]:
        """Return the metadata as a dict, by name.

        >>> import gpushard as gs
        >>> gs.nnx.Param(gs.numpy.ones(3), sharding=("x",)).get_metadata()
        {'sharding_names': ('x',)}
        """
        return dict(self._metadata)

    def copy(self) -> Self:
        """Create a Variable with the same type, value and metadata."""
        return self.replace(self._value)

    def replace(self, value: Any, **metadata: Any) -> Self:
        """Create a Variable with the same type and metadata, and another value.

        Args:
          value: the value. Or a Variable of the same type; the new Variable then has its value and
            metadata.
          **metadata: metadata to change.

        Raises:
          ArgumentTypeError: the value is a Variable of another type.
        """
        base = self._metadata
        if isinstance(value, Variable):
            self._check_kind(value, "replace")
            base, value = value._metadata, value._value
        new: Self = new_variable(
            type(self), copy_value(value), {**base, **_rename_sharding(metadata)}
        )
        return new

    def copy_from(self, other: Variable) -> None:
        """Set value and metadata to those of another Variable.

        Args:
          other: a Variable of the same type.

        Raises:
          ArgumentTypeError: `other` has another type.
        """
        self._check_kind(other, "copy_from")
        self._check_level("an assignment to the value")
        put(self, "_value", copy_value(other._value))
        put(self, "_metadata", other._metadata)

    def _check_kind(self, other: Any, function: str) -> None:
        if type(other) is not type(self):
            raise ArgumentTypeError(
                f"{function}: a {type(other).__name__} cannot replace a {type(self).__name__}; "
                "assign only its value. Try: a.value = b.value",
                argument="other",
                type=type(other),
            )

    def __getattr__(self, name: str) -> Any:
        if name in _OWN:
            raise AttributeError(name)
        if name in self._metadata:
            return self._metadata[name]
        if name.startswith("_") and name not in _OF_VALUES:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return getattr(self._value, name)
        except AttributeError:
            raise AttributeError(
                f"{type(self).__name__!r} has no attribute {name!r}, nor has its value, "
                f"a {type(self._value).__name__!r}"
            ) from None

    def __setattr__(self, name: str, new: Any) -> None:
        if hasattr(getattr(type(self), name, None), "__set__"):
            put(self, name, new)
            return
        if hasattr(type(self), name) or name == "__orig_class__":  # `typing` sets it
            raise AttributeError(
                f"{name!r} is an attribute of the class {type(self).__name__}, which hides "
                "metadata of that name; choose another name"
            )
        self._check_level(f"an assignment to {name!r}")
        put(self, "_metadata", {**self._metadata, **_rename_sharding({name: new})})

    def __delattr__(self, name: str) -> None:
        if name not in self._metadata:
            raise AttributeError(f"{type(self).__name__!r} object has no metadata {name!r}")
        self._check_level(f"the deletion of {name!r}")
        put(self, "_metadata", {k: v for k, v in self._metadata.items() if k != name})

    def __repr__(self) -> str:
        return _text(type(self), describe_value(self._value), self._metadata.items())

    def __copy__(self) -> Self:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return new_variable, (type(self), self._value, self._metadata)

    def __getitem__(self, index: Any) -> Any:
        """Return a part of the value."""
        return self._value[_value_of(index)]

    def __setitem__(self, index: Any, new: Any) -> None:
        """Replace the elements at an index: the value becomes a changed copy."""
        index, new = _value_of(index), _value_of(new)
        self._check_level("an assignment to a part of the value")
        value = self._value
        if isinstance(value, Array):
            value = value.at[index].set(new)
        else:
            value = copy.copy(value)
            value[index] = new
        put(self, "_value", value)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._value)

    def __contains__(self, item: object) -> bool:
        return _value_of(item) in self._value

    def __eq__(self, other: object) -> Any:  # without a hash, since values change
        return self._value == _value_of(other)

    def __bool__(self) -> bool:
        value = self._value
        scalar = not hasattr(value, "__len__") or getattr(value, "shape", None) == ()
        return bool(value) if scalar else len(value) > 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._value, dtype) if copy else np.asarray(self._value, dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for out in options.get("out", ()):
            if isinstance(out, Variable):
                raise ArgumentTypeError.refusing(
                    "out", out, "cannot be a Variable; assign to its value", ufunc.__name__
                )
        return getattr(ufunc, method)(*map(_value_of, inputs), **options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree.map(_value_of, (args, kwargs), is_leaf=_is_variable)
        return function(*args, **kwargs)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return self._value.__array_namespace__(api_version=api_version)

    def __divmod__(self, other: Any) -> Any:
        return divmod(self._value, _value_of(other))

    def __rdivmod__(self, other: Any) -> Any:
        return divmod(other, self._value)

    def __pow__(self, other: Any) -> Any:
        return self._value ** _value_of(other)

    def __rpow__(self, other: Any) -> Any:
        return other**self._value

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._value, digits)

    def __format__(self, spec: str) -> str:
        return format(self._value, spec) if spec else repr(self)


put = object.__setattr__


def slots_of(cls: type) -> list[str]:
    """List the attributes of a class that are in slots."""
    parts = [vars(base).items() for base in cls.__mro__]
    return [name for part in parts for name, x in part if isinstance(x, MemberDescriptorType)]


def without_slots(cls: type) -> None:
    """Turn attributes in `__slots__` of a class into ordinary ones.

    Splitting a graph reads attributes from `__dict__`, which has no slots.
    """
    for name in slots_of(cls):
        if name in vars(cls):
            delattr(cls, name)


_FOR_LIBRARIES = {"__cuda_array_interface__", "__dlpack__", "__dlpack_device__"}
_OF_VALUES = frozenset({"_shape", "_dtype", "_weak_type", *_FOR_LIBRARIES})
"""Private names that functions of this package and other libraries read from their arguments."""

_OWN = frozenset({"_nnx_level", "_metadata", "_value"})


def _delegate_operators() -> None:
    """Define the operators of Variables as those of their values."""
    both = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "lshift", "rshift", "and",
            "or", "xor")  # fmt: skip
    for name in both:
        call: Callable[..., Any] = getattr(operator, f"__{name}__")
        setattr(Variable, f"__{name}__", lambda a, b, call=call: call(a._value, _value_of(b)))
        setattr(Variable, f"__r{name}__", lambda a, b, call=call: call(b, a._value))
    for name in (*both, "pow"):
        call = getattr(operator, f"__{name}__")
        setattr(Variable, f"__i{name}__", lambda a, b, call=call: _assign_operator(a, call, b))
    for name in ("ne", "lt", "le", "gt", "ge"):
        call = getattr(operator, f"__{name}__")
        setattr(Variable, f"__{name}__", lambda a, b, call=call: call(a._value, _value_of(b)))
    for name in ("neg", "pos", "abs", "invert", "index"):
        call = getattr(operator, f"__{name}__")
        setattr(Variable, f"__{name}__", lambda a, call=call: call(a._value))
    for name, call in (
        ("int", int), ("float", float), ("complex", complex), ("len", len),
        ("trunc", math.trunc), ("floor", math.floor), ("ceil", math.ceil),
    ):  # fmt: skip
        setattr(Variable, f"__{name}__", lambda a, call=call: call(a._value))


def _assign_operator(a: Variable, call: Any, b: Any) -> Variable:
    """Replace the value of a Variable by the result of an operator: `a += b`."""
    a._check_level("an assignment to the value")
    put(a, "_value", call(a._value, _value_of(b)))
    return a


_delegate_operators()


def _is_variable(x: Any) -> bool:
    return isinstance(x, Variable)


def _value_of(x: Any) -> Any:
    return x._value if isinstance(x, Variable) else x


def _check_value(value: Any) -> Any:
    """Return a value, unless it is a Variable."""
    if isinstance(value, Variable):
        raise ArgumentTypeError(
            f"the value of a Variable cannot be a {type(value).__name__}, which is a Variable. "
            "Try: x.value, or copy_from",
            argument="value",
            type=type(value),
        )
    return value


def _rename_sharding(metadata: dict[str, Any]) -> dict[str, Any]:
    if "sharding" in metadata:
        return {"sharding_names" if k == "sharding" else k: v for k, v in metadata.items()}
    return metadata


def new_variable(cls: type[Variable], value: Any, metadata: dict[str, Any]) -> Any:
    """Create a Variable of a class without calling its constructor."""
    new = object.__new__(cls)
    put(new, "_nnx_level", level())
    put(new, "_metadata", metadata)
    put(new, "_value", value)
    return new


def copy_value(value: Any) -> Any:
    """Copy a value, so that assignments to elements of the copy do not change the original."""
    if isinstance(value, Array | np.ndarray):
        return copy.copy(value)
    return tree.map(copy_value, value) if type(value) in NODES else value


def describe_value(value: Any) -> str:
    """Format a value as text: type and shape of an array, and anything else as it is."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return repr(value)


def _text(cls: type[Variable], value: str, metadata: Iterable[tuple[str, Any]]) -> str:
    return f"{cls.__name__}({', '.join([value, *[f'{k}={v!r}' for k, v in metadata]])})"


def _flat(x: Variable) -> tuple[Any, Any]:
    return (x._value,), tuple(sorted(x._metadata.items()))


_NODE = Node(
    _flat,
    lambda cls, aux, children: new_variable(cls, children[0], dict(aux)),
    lambda cls, aux, size: [GetAttrKey("value")],
    lambda cls, aux, children: _text(cls, children[0], aux),
)
NODES[Variable] = _NODE


class Param(Variable[T]):
    """A weight: a value that training changes."""


class BatchStat(Variable[T]):
    """A statistic of the batches so far, such as a running mean."""


class Cache(Variable[T]):
    """A value that a call keeps for the next call, such as past keys and values of attention."""


class Intermediate(Variable[T]):
    """A value that a call stores for inspection; remove it with `nnx.pop`."""


class Perturbation(Variable[T]):
    """A value that is added to an intermediate value, to compute derivatives with respect to it."""


class RngState(Variable[T]):
    """Base of the Variables of a stream of random keys."""


class RngKey(RngState[T]):
    """The key of a stream of random keys."""


class RngCount(RngState[T]):
    """The number of keys that were drawn from a stream."""
