"""Random programs on several threads that share arrays: values as NumPy's, and nothing leaks.

`python -m tests.stress threads` runs more of the same.
"""

from __future__ import annotations

import pytest

from tests.share import some
from tests.stress.threads import SETTINGS, run_threads

COUNT = some(700, 1500)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_threads_that_share_arrays_read_what_numpy_has_and_leak_nothing(settings):
    assert run_threads(settings, COUNT, seed=0) >= COUNT
