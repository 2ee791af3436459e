"""What the processes of a program do together."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Group(Protocol):
    """The processes of a program; all call the same functions in the same order."""

    index: int  # the number of this process
    count: int  # how many there are

    def all_gather(self, value: T) -> list[T]:
        """Return what each process gave, in order."""

    def broadcast(self, value: T, source: int) -> T:
        """Return what one process gave."""


class OneProcess:
    """The group of a program that runs in one process."""

    index = 0
    count = 1

    def all_gather(self, value: T) -> list[T]:
        """Return what each process gave, in order."""
        return [value]

    def broadcast(self, value: T, source: int) -> T:
        """Return what one process gave."""
        return value


group: Group = OneProcess()
"""The group of this program."""
