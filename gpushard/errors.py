"""Define the errors that gpushard raises; each class is also a built-in error, such as ValueError.

A message names the argument, the sizes that do not match, and the fix. The attributes of an error
have the same facts, so programs need not parse its text.

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
      message: a text that says what happened, where, with which sizes, and how to fix it.
      **facts: the facts of the message by name; each becomes an attribute.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message)
        self.facts = facts

    @classmethod
    def refusing(
        cls, argument: str, value: object, why: str, function: str = "", **facts: Any
    ) -> Self:
        """Make the error for an invalid argument; its name and its value become attributes.

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
    """A reduction got a pytree without leaves, and no initial value."""


class MeshError(GpushardError, ValueError):
    """A mesh is malformed: a device or a name is repeated, or sizes do not match the devices."""


class ShardingError(GpushardError, ValueError):
    """A sharding does not fit its mesh, an array's shape, or the data given for it."""


class UnstackedError(ShardingError, RuntimeError):
    """A function needs shards with all axes of the array, but the sharding unstacks an axis."""


class ParseError(GpushardError, ValueError):
    """A text cannot be parsed; `position` is the index in the text where parsing stopped."""


class ImmutableError(GpushardError, RuntimeError):
    """An attribute of an immutable value was set or deleted."""


class ArgumentError(GpushardError, ValueError):
    """An argument has the right type and an invalid value."""


class NoMeshError(ArgumentError, RuntimeError):
    """A `PartitionSpec` was used without a current mesh."""


class NoDeviceError(ArgumentError, RuntimeError):
    """A platform has no devices in this process."""


class AxisError(ArgumentError, IndexError):
    """An axis is out of bounds: the array has fewer axes."""


class ArgumentTypeError(GpushardError, TypeError):
    """An argument has a type that cannot be used here."""


class NamedDimsError(GpushardError, TypeError):
    """An operation does not support operands of a mapped function."""


class TracedValueError(GpushardError, TypeError):
    """A traced or mapped function reads the elements or the place of a traced value.

    `arg` is the argument of the function from which the value was computed, and `line` the line of
    the function that reads it. Using a traced value after its function has returned raises this
    error, too.
    """


class TracedBoolError(TracedValueError):
    """Python's `if`, `while`, `and` or `not` needs the elements of a traced value."""


class TracedIntegerError(TracedValueError):
    """A Python integer is needed, for example as a size, and a traced value was given."""


class TracedArrayError(TracedValueError):
    """NumPy, or a function that needs the devices of an array, got a traced value."""


class TracedArgumentError(TracedArrayError, ArgumentError):
    """A function that builds an array from shards got traced values.

    As in JAX, the error is also a `ValueError`.
    """


class ConcretizationError(TracedValueError):
    """A Python number, or the size of a result, depends on a traced value."""


class TraceContextError(GpushardError, RuntimeError):
    """A traced or mapped function changes a Variable or Module that is not an argument."""


class UnboundAxisError(GpushardError, NameError):
    """A collective names an axis over which no enclosing function is mapped."""


class ArgumentRangeError(GpushardError, OverflowError):
    """A number is out of range for the dtype to which it is converted."""


class LinearAlgebraError(GpushardError, LinAlgError):
    """A matrix has no inverse or no Cholesky factor, or an iteration did not converge.

    Small arrays raise it at the call. Large arrays are computed later: reading the result raises an
    `ExecutionError` with this error as its cause. On GPUs such results are NaN or infinite instead.
    """


class MissingLibraryError(GpushardError, ImportError):
    """A library that a function needs is not installed."""


class AddressError(GpushardError, RuntimeError):
    """A function needs data that only other processes can reach."""


class ArrayIndexError(GpushardError, IndexError):
    """An index is out of bounds or has more entries than the array has axes."""


class DeletedArrayError(GpushardError, RuntimeError):
    """An array was used after `delete()` or after it was donated."""


class DeletedShardsError(DeletedArrayError, ValueError):
    """A `ShardedDeviceArray` was used after `delete()`."""


class UnsupportedError(GpushardError, NotImplementedError):
    """gpushard does not support the request; the message names an alternative."""


class TransferGuardError(GpushardError, RuntimeError):
    """A transfer guard or `gather_guard` forbids this copy."""


class ExecutionError(GpushardError, RuntimeError):
    """The work that computes an array failed; `__cause__` is the error that occurred first."""


class CallbackError(GpushardError, RuntimeError):
    """A callback raised an error, which is `__cause__`, or returned another result than declared.

    `others` lists the errors of earlier callbacks that failed since the last `effects_barrier()`.
    """


class DeviceLostError(ExecutionError):
    """A GPU failed and cannot be used again in this process; start a new process."""


class ExportError(GpushardError, BufferError):
    """An array cannot be exported to another library in the requested way."""


class ProtocolError(GpushardError, AttributeError):
    """An object does not support a protocol that is needed, such as DLPack."""


class RaceError(GpushardError, RuntimeError):
    """Two uses of the same memory are not ordered, or memory is used after it was released."""


class OutOfMemoryError(GpushardError, MemoryError):
    """A device has too little free memory for an allocation, or its quota allows no more."""


class ReentrantCallError(GpushardError, RuntimeError):
    """A signal handler or a finalizer used gpushard in the middle of a call on its own thread.

    Let the handler only set a flag or write to a pipe, and do the work where the program reads it.
    """


class FileFormatError(GpushardError, ValueError):
    """A file is not a readable array file."""


class FileAccessError(FileFormatError, OSError):
    """The system cannot read or write a file: it is missing, or the disk is full.

    `__cause__` is the error of the system, and `errno` its number.
    """

    def __init__(self, message: str, **facts: Any) -> None:
        super().__init__(message, **facts)
        self.errno = facts.get("errno")


class DeserializationError(GpushardError, RuntimeError):
    """A pickled array names devices that this process does not have."""
