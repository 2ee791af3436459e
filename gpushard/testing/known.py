"""An array of a random program, and what it must hold."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from gpushard.array.array import Array
from gpushard.typing import HostArray


@dataclasses.dataclass(slots=True, eq=False)
class Known:
    """An array, and what it must hold."""

    array: Array
    value: HostArray
    fails: bool = False
    """Whether the work that makes it was meant to fail."""

    pending: HostArray | None = None
    """What an assignment that an interrupt cut short would have made of the value, or has."""

    @contextlib.contextmanager
    def changing_to(self, value: HostArray) -> Iterator[None]:
        """Take a new value when what the `with` block does has been done.

        Without room it does nothing; an interrupt may come before or after it.
        """
        self.pending = value
        try:
            yield
        except Exception:
            self.pending = None
            raise
        self.value, self.pending = value, None
