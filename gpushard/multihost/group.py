"""Data exchange between the processes of a program."""

from __future__ import annotations

from typing import Protocol, TypeVar

T = TypeVar("T")


class Processes(Protocol):
    """The processes of a program; all call the same functions in the same order."""

    index: int  # the number of this process
    count: int  # the number of processes

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order."""

    def broadcast(self, value: T, source: int) -> T:
        """Return the value of one process."""


class OneProcess:
    """The group of a program that runs in one process."""

    index = 0
    count = 1

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes, in order."""
        return [value]

    def broadcast(self, value: T, source: int) -> T:
        """Return the value of one process."""
        return value


group: Processes = OneProcess()
"""The group of this program."""
