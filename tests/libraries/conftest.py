"""Libraries look up what they may do with arrays when they are imported."""

import os

os.environ.setdefault("SCIPY_ARRAY_API", "1")
