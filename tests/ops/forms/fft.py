"""Forms of transforms along a dim."""

from __future__ import annotations

from gpushard._ops.row import Row
from gpushard._ops.table import fft
from tests.ops.forms.form import Form

FORMS: dict[Row, list[Form]] = {
    fft.FFT: [Form(("ij",), lambda s: (-1, s[0][1], None), "D"), Form(("ij",), (-2, 4, "ortho"))],
    fft.IFFT: [Form(("ij",), lambda s: (-2, s[0][0], None), "D")],
    fft.RFFT: [Form(("ij",), (-2, 7, "forward"))],
    fft.IRFFT: [Form(("ij",), (-1, 6, None), "D")],
    fft.HFFT: [Form(("ij",), (-2, 5, None), "D")],
    fft.IHFFT: [Form(("ij",), (-1, 5, "forward"))],
}
