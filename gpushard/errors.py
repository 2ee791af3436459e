"""Typed errors: one tree, each also the builtin that a user would catch.

A message names the argument, the sizes that clash and the fix; the same facts are attributes, so
that programs need not parse text.

>>> try:
...     raise ShardingError("spec P('z') names no axis of the mesh", argument="spec", axis="z")
... except ValueError as error:
...     error.axis
'z'
"""

from __future__ import annotations

from typing import Any, Self

from numpy.linalg import LinAlgError


class GpushardError(Exception):
    """Base of every error that gpushard raises.

    Args:
      message: what is wrong, where, the sizes, and the fix.
      **facts: the same facts for programs; each becomes an attribute.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    @classmethod
    def refusing(
        cls, argument: str, value: object, why: str, function: str = "", **facts: Any
    ) -> Self:
        """Return the error of an argument whose value is refused; its facts have both.

        >>> error = ArgumentError.refusing("k", 7, "is out of range; use 0 to 4", "topk", size=4)
        >>> error, error.argument, error.value, error.k
        (ArgumentError('topk: k=7 is out of range; use 0 to 4'), 'k', 7, 7)
        """
        message = f"{function}: {argument}={value!r} {why}".removeprefix(": ")
        own = {"argument": argument, "value": value, "type": type(value), argument: value}
        return cls(message, **(own | facts))

    def __getattr__(self, name: str) -> Any:
        if name != "facts" and name in self.facts:
            return self.facts[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {"facts": self.facts}


class ConfigurationError(GpushardError, ValueError):
    """A setting has a value that makes no sense, or changed after devices were in use."""


class UnknownSettingError(ConfigurationError, AttributeError):
    """A name that no setting has."""


class TreeError(GpushardError, ValueError):
    """Pytrees do not match, or a node type is unknown or registered twice."""


class NoLeavesError(TreeError, TypeError):
    """A pytree without leaves, where a reduction needs one."""


class MeshError(GpushardError, ValueError):
    """A mesh is malformed: repeated devices or axis names, sizes that do not multiply out."""


class ShardingError(GpushardError, ValueError):
    """A sharding does not fit its mesh, an array's shape, or the data given for it."""


class UnstackedError(ShardingError, RuntimeError):
    """A sharding has shards of fewer dims than the array, where they must have all."""


class ParseError(GpushardError, ValueError):
    """A text is not what it should be; `position` says where."""


class ImmutableError(GpushardError, RuntimeError):
    """What was to be set or deleted belongs to a value, and values cannot be changed."""


class ArgumentError(GpushardError, ValueError):
    """An argument has the right type and an impossible value."""


class NoMeshError(ArgumentError, RuntimeError):
    """A `PartitionSpec` stands where no mesh is known that it could be over."""


class NoDeviceError(ArgumentError, RuntimeError):
    """A platform that has no devices here."""


class AxisError(ArgumentError, IndexError):
    """An axis that an array does not have."""


class ArgumentTypeError(GpushardError, TypeError):
    """An argument has a type that cannot be used here."""


class NamedDimsError(GpushardError, TypeError):
    """An operation has no form whose operands have named dims in front."""


class TracedValueError(GpushardError, TypeError):
    """A function that is mapped wants of a value what it has not: elements, or a place.

    `arg` is the argument of that function that the value comes from, and `line` the line that
    asks. It is also what a value raises that is used after its function has returned.
    """


class TracedBoolError(TracedValueError):
    """Python's `if`, `while`, `and` or `not` of a value that differs between what is mapped."""


class TracedIntegerError(TracedValueError):
    """Such a value where Python or a size needs an integer."""


class TracedArrayError(TracedValueError):
    """NumPy, or what asks where data lie, got such a value."""


class TracedArgumentError(TracedArrayError, ArgumentError):
    """Such values among arrays that are to be put together: a ValueError, too, as in JAX."""


class ConcretizationError(TracedValueError):
    """A number of Python's, or the size of a result, depends on such a value."""


class TraceContextError(GpushardError, RuntimeError):
    """A function that is traced or mapped changes a Variable or Module that it was not given."""


class UnboundAxisError(GpushardError, NameError):
    """A collective names an axis that no function around it maps."""


class ArgumentRangeError(GpushardError, OverflowError):
    """A number is outside of what the dtype holds that it is converted to."""


class LinearAlgebraError(GpushardError, LinAlgError):
    """A matrix has no inverse, no Cholesky factor, or an iteration did not converge.

    Small arrays raise it at the call. Where work runs later, the result's reader gets an
    `ExecutionError` with this as its cause. On GPUs such results are NaN or infinite instead.
    """


class MissingLibraryError(GpushardError, ImportError):
    """A library that a function stands on is not installed."""


class AddressError(GpushardError, RuntimeError):
    """What is asked for needs data that only other processes can reach."""


class ArrayIndexError(GpushardError, IndexError):
    """An index is out of bounds or has more entries than the array has dims."""


class DeletedArrayError(GpushardError, RuntimeError):
    """An array was used after `delete()` or after it was donated."""


class DeletedShardsError(DeletedArrayError, ValueError):
    """A `ShardedDeviceArray` was used after `delete()`."""


class UnsupportedError(GpushardError, NotImplementedError):
    """What is asked for has no meaning here, or is done in another way."""


class TransferGuardError(GpushardError, RuntimeError):
    """A transfer guard forbids this copy between host and device."""


class ExecutionError(GpushardError, RuntimeError):
    """Work that an array's value depends on failed; the cause is chained."""


class CallbackError(GpushardError, RuntimeError):
    """A callback failed, or gave what it was not to give; what it raised is chained.

    `others` has the errors of callbacks that failed before, where one barrier is for several.
    """


class DeviceLostError(ExecutionError):
    """A GPU failed in a way after which the process cannot use it; start a new process."""


class ExportError(GpushardError, BufferError):
    """An array cannot be handed to another library as it was asked for."""


class ProtocolError(GpushardError, AttributeError):
    """An object does not offer a protocol that is asked for."""


class RaceError(GpushardError, RuntimeError):
    """Two uses of the same memory are not ordered, or memory is used after its release."""


class OutOfMemoryError(GpushardError, MemoryError):
    """A device has no room for an allocation within its quota."""


class ReentrantCallError(GpushardError, RuntimeError):
    """A signal handler or a finalizer used the library in the middle of a call on its own thread.

    Let handlers set a flag, or write to a pipe, and do the work where the program looks at it.
    """


class FileFormatError(GpushardError, ValueError):
    """A file is not a readable array file."""


class FileAccessError(FileFormatError, OSError):
    """The system does not let a file be read or written: it is missing, or the disk is full.

    `errno` is that of the system's error, which is chained.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.errno = facts.get("errno")


class DeserializationError(GpushardError, RuntimeError):
    """A pickled array names devices that this process does not have."""
