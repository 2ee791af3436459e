"""Functions that NumPy lacks, in operations that NumPy and CuPy have."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

_SINGLE = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087)
    + (-0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773)
    + (-0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)
_DOUBLE = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18)
    + (1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17)
    + (6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14)
    + (2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11)
    + (1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08)
    + (4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05)
    + (0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533)
    + (0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07)
    + (1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06)
    + (2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05)
    + (6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796)
    + (0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066)
    + (-0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334)
    + (3.0838856104922207635,),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09)
    + (-3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08)
    + (2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07)
    + (-9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05)
    + (7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026)
    + (1.0103004648645343977, 4.8499064014085844221),
)


def _polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return the value of a polynomial, highest power first, in the type of `x`."""
    value = x * x.dtype.type(coefficients[0])
    value += x.dtype.type(coefficients[1])
    for coefficient in coefficients[2:]:
        value *= x
        value += x.dtype.type(coefficient)
    return value


def erfinv(xp: Any, x: Any) -> Any:
    """Return the inverse of the error function, of float32 or float64.

    Source: Giles, "Approximating the erfinv function" (GPU Computing Gems, 2012), with the
    logarithm that XLA takes, so that normal numbers are JAX's.
    """
    single = x.dtype == np.float32
    w = -xp.log1p(-x * x)
    if single:
        (near, far), edges, shifts = _SINGLE, (5.0,), (3.0,)
        value = _polynomial(near, w - x.dtype.type(2.5))
        tails = [far]
    else:
        near, *tails = _DOUBLE
        edges, shifts = (6.25, 16.0), (3.25, 5.0)
        value = _polynomial(near, w - 3.125)
    for tail, edge, shift in zip(tails, edges, shifts, strict=True):
        if xp is np:  # only where it counts; on a GPU asking where would stop the stream
            which = np.flatnonzero(w >= edge)
            value[which] = _polynomial(tail, np.sqrt(w[which]) - x.dtype.type(shift))
        else:
            value = xp.where(w >= edge, _polynomial(tail, xp.sqrt(w) - x.dtype.type(shift)), value)
    value *= x
    return xp.where(abs(x) == 1, x * x.dtype.type(np.inf), value)


def erf(xp: Any, x: Any) -> Any:
    """Return the error function, worked out in float64.

    Near 0 by its series of positive terms, elsewhere by Laplace's continued fraction (Abramowitz
    and Stegun, 7.1.6 and 7.1.14).
    """
    size = xp.minimum(abs(x).astype(np.float64), 6.0)
    near = xp.minimum(size, 1.5)
    term = total = near
    for n in range(1, 40):
        term = term * (2 * near * near / (2 * n + 1))
        total = total + term
    inner = total * xp.exp(-near * near) * (2 / math.sqrt(math.pi))
    far = xp.maximum(size, 1.0)
    fraction = far
    for n in range(100, 0, -1):
        fraction = far + (n / 2) / fraction
    outer = 1 - xp.exp(-far * far) / (fraction * math.sqrt(math.pi))
    return (xp.sign(x) * xp.where(size < 1.5, inner, outer)).astype(x.dtype)


_FACTORIALS = np.array([math.lgamma(n + 1) for n in range(16)])


def log_factorial(xp: Any, n: Any) -> Any:
    """Return log(n!) of float64 integers of at least 0: a table, then Stirling's series."""
    x = xp.maximum(n, 15.0) + 1
    inverse = 1 / (x * x)
    series = (1 / 12 - inverse * (1 / 360 - inverse * (1 / 1260 - inverse / 1680))) / x
    large = (x - 0.5) * xp.log(x) - x + 0.5 * math.log(2 * math.pi) + series
    table = xp.asarray(_FACTORIALS)
    return xp.where(n < 16, table[xp.clip(n, 0, 15).astype(np.int64)], large)
