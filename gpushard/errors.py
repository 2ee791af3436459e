"""Typed errors: one tree of classes, each also the built-in error that a user would catch.

A message names the argument, the sizes that clash and the fix. Attributes have the same facts, so
programs need not parse the text.

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
      message: what happened, where, the sizes, and the fix.
      **facts: the facts of the message by name; each becomes an attribute.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    @classmethod
    def refusing(
        cls, argument: str, value: object, why: str, function: str = "", **facts: Any
    ) -> Self:
        """Return the error for a refused value of an argument, with both as its facts.

        >>> error = ArgumentError.refusing("k", 7, "is out of range; use 0 to 4", "topk", size=4)
        >>> error, error.argument, error.value, error.k
        (ArgumentError('topk: k=7 is out of range; use 0 to 4'), 'k', 7, 7)
        """
        message = f"{function}: {argument}={value!r} {why}".removeprefix(": ")
        basic = {"argument": argument, "value": value, "type": type(value), argument: value}
        return cls(message, **(basic | facts))

    def __getattr__(self, name: str) -> Any:
        if name != "facts" and name in self.facts:
            return self.facts[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self.args, {"facts": self.facts}


class ConfigurationError(GpushardError, ValueError):
    """A setting has an invalid value, or was changed after devices were in use."""


class UnknownSettingError(ConfigurationError, AttributeError):
    """There is no setting of this name."""


class TreeError(GpushardError, ValueError):
    """Pytrees do not match, or a node type is unknown or registered twice."""


class NoLeavesError(TreeError, TypeError):
    """A reduction got a pytree without leaves and no first value."""


class MeshError(GpushardError, ValueError):
    """A mesh is malformed: repeated devices or axis names, sizes that do not multiply out."""


class ShardingError(GpushardError, ValueError):
    """A sharding does not fit its mesh, an array's shape, or the data given for it."""


class UnstackedError(ShardingError, RuntimeError):
    """A sharding unstacks a dim of the array where shards must have all dims."""


class ParseError(GpushardError, ValueError):
    """A text cannot be parsed; `position` is the place of the error."""


class ImmutableError(GpushardError, RuntimeError):
    """An attribute of an immutable value was set or deleted."""


class ArgumentError(GpushardError, ValueError):
    """An argument has the right type and an invalid value."""


class NoMeshError(ArgumentError, RuntimeError):
    """A `PartitionSpec` was used without a current mesh."""


class NoDeviceError(ArgumentError, RuntimeError):
    """A platform has no devices in this process."""


class AxisError(ArgumentError, IndexError):
    """An axis is out of bounds for the dims of an array."""


class ArgumentTypeError(GpushardError, TypeError):
    """An argument has a type that cannot be used here."""


class NamedDimsError(GpushardError, TypeError):
    """An operation does not support mapped operands."""


class TracedValueError(GpushardError, TypeError):
    """A traced or mapped function reads the elements or the place of a traced value.

    `arg` is the argument of the function that the value comes from, and `line` the line of the
    function that reads it. Using a traced value after its function has returned raises it too.
    """


class TracedBoolError(TracedValueError):
    """Python's `if`, `while`, `and` or `not` needs the value of a traced value."""


class TracedIntegerError(TracedValueError):
    """Python, or a size, needs an integer and got a traced value."""


class TracedArrayError(TracedValueError):
    """NumPy, or a function that needs the place of data, got a traced value."""


class TracedArgumentError(TracedArrayError, ArgumentError):
    """An array is built from shards that are traced values: also a ValueError, as in JAX."""


class ConcretizationError(TracedValueError):
    """A Python number, or the size of a result, depends on a traced value."""


class TraceContextError(GpushardError, RuntimeError):
    """A traced or mapped function changes a Variable or Module that is not an argument."""


class UnboundAxisError(GpushardError, NameError):
    """A collective names an axis that no enclosing function maps."""


class ArgumentRangeError(GpushardError, OverflowError):
    """A number is out of range for its new dtype."""


class LinearAlgebraError(GpushardError, LinAlgError):
    """A matrix has no inverse, no Cholesky factor, or an iteration did not converge.

    Small arrays raise it at the call. Large ones are computed later: reading the result raises an
    `ExecutionError` with this error as its cause. On GPUs such results are NaN or infinite instead.
    """


class MissingLibraryError(GpushardError, ImportError):
    """A library that a function needs is not installed."""


class AddressError(GpushardError, RuntimeError):
    """A function needs data that only other processes can reach."""


class ArrayIndexError(GpushardError, IndexError):
    """An index is out of bounds or has more entries than the array has dims."""


class DeletedArrayError(GpushardError, RuntimeError):
    """An array was used after `delete()` or after it was donated."""


class DeletedShardsError(DeletedArrayError, ValueError):
    """A `ShardedDeviceArray` was used after `delete()`."""


class UnsupportedError(GpushardError, NotImplementedError):
    """A request has no meaning here; the message names the alternative."""


class TransferGuardError(GpushardError, RuntimeError):
    """A transfer guard forbids this copy between host and device."""


class ExecutionError(GpushardError, RuntimeError):
    """The work that computes an array failed; `__cause__` has the first error."""


class CallbackError(GpushardError, RuntimeError):
    """A callback raised, or returned another result than declared; `__cause__` has its error.

    `others` has the errors of earlier callbacks that failed since the last barrier.
    """


class DeviceLostError(ExecutionError):
    """A GPU failed and cannot be used again in this process; start a new process."""


class ExportError(GpushardError, BufferError):
    """An array cannot be exported to another library in the requested way."""


class ProtocolError(GpushardError, AttributeError):
    """An object does not support a requested protocol."""


class RaceError(GpushardError, RuntimeError):
    """Two uses of the same memory are not ordered, or memory is used after its release."""


class OutOfMemoryError(GpushardError, MemoryError):
    """A device has no room for an allocation within its quota."""


class ReentrantCallError(GpushardError, RuntimeError):
    """A signal handler or a finalizer used gpushard in the middle of a call on its own thread.

    Let handlers set a flag, or write to a pipe, and do the work where the program reads it.
    """


class FileFormatError(GpushardError, ValueError):
    """A file is not a readable array file."""


class FileAccessError(FileFormatError, OSError):
    """The system cannot read or write a file: it is missing, or the disk is full.

    `errno` is that of the system's error; `__cause__` has that error.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.errno = facts.get("errno")


class DeserializationError(GpushardError, RuntimeError):
    """A pickled array names devices that this process does not have."""
