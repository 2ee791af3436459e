"""Count the bytes that threads copy between memory domains, without a lock."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeAlias

Link: TypeAlias = tuple[int, int]
"""(source domain, destination domain)."""


class Traffic:
    """Bytes copied, by source and destination domain, in a table for each thread.

    A lock could deadlock. A signal handler may interrupt a thread that holds the lock, and wait for
    a copy of another thread that needs it.

    >>> traffic = Traffic()
    >>> traffic.add(1, {0: 8})
    >>> traffic.add(1, {0: 8, 1: 3})
    >>> traffic.total()
    {(0, 1): 16, (1, 1): 3}
    """

    def __init__(self) -> None:
        self._tables: dict[int, defaultdict[Link, int]] = {}

    def add(self, domain: int, moved: Mapping[int, int]) -> None:
        """Count bytes that were copied to a domain; `moved` has bytes by source domain."""
        thread = threading.get_ident()
        table = self._tables.get(thread)
        if table is None:
            table = self._tables.setdefault(thread, defaultdict(int))
        for source, nbytes in moved.items():
            table[source, domain] += nbytes  # no call, so no signal handler in between

    def total(self) -> dict[Link, int]:
        """Add up the counts of all threads."""
        sums: dict[Link, int] = {}
        for table in self._tables.copy().values():
            for link, nbytes in table.copy().items():
                sums[link] = sums.get(link, 0) + nbytes
        return sums
