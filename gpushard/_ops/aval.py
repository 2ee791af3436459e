"""Shape and type of a value before it is computed."""

from __future__ import annotations

from typing import Any

from gpushard._frozen import dataclass
from gpushard._typing import Dtype as Dtype
from gpushard._typing import Shape

_WEAK_TYPES = {"i": int, "u": int, "f": float, "c": complex}


@dataclass(frozen=True, slots=True)
class Aval:
    """Shape and type of an operand or a result."""

    shape: Shape
    dtype: Dtype
    weak: bool = False  # whether the type came from a Python scalar, so others override it

    @property
    def promoting(self) -> Any:
        """The type for NumPy's promotion: a Python type if it is weak.

        >>> import numpy as np
        >>> Aval((), np.dtype("float64"), weak=True).promoting
        <class 'float'>
        """
        return _WEAK_TYPES.get(self.dtype.kind, self.dtype) if self.weak else self.dtype
