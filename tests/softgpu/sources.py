"""Keeps what CuPy is asked to compile, whether it has compiled it before or not.

Compilers that need no GPU can take it from there: `python -m tests.nvrtc FOLDER`.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

ADDED = ("-ftz=true", "--device-as-default-execution-space")
"""Options that CuPy 14.2 gives to NVRTC for every source, besides those of the architecture."""


def keep(folder: Path) -> None:
    """Write each source that CuPy is asked to compile from now on into a folder, once.

    A file has the source, its options, those that CuPy adds to all sources among them, and the
    names of the templates that it is compiled for.
    """
    from cupy.cuda import compiler  # only on the software GPU

    folder.mkdir(parents=True, exist_ok=True)
    compile_or_load = compiler._compile_with_cache_cuda

    def kept(source: str, options: tuple[str, ...], *rest: Any, **more: Any) -> Any:
        names = more.get("name_expressions") or (rest[4:5] or [None])[0] or ()
        own = [each for each in (*options, *ADDED) if not each.startswith("-I")]
        text = json.dumps({"source": source, "options": own, "names": [*names]})
        path = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
        if not path.exists():
            new = path.with_suffix(f".{os.getpid()}")
            new.write_text(text, encoding="utf-8")
            new.replace(path)
        return compile_or_load(source, options, *rest, **more)

    compiler._compile_with_cache_cuda = kept
