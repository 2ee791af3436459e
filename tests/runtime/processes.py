"""Scripts that run in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

_PRELUDE = """
import atexit, faulthandler, os, signal, sys, threading

later = []
atexit.register(lambda: [function() for function in later])  # runs after gpushard's own

# Not faulthandler's timer: a forked child would wait for its thread for ever.
faulthandler.register(signal.SIGALRM, chain=True)
signal.alarm(30)

import numpy as np
import gpushard as gs
from gpushard._runtime import current_runtime
from gpushard._runtime.launch import room_on
from gpushard.testing import gated
from gpushard.testing.deferred import deferred

gs.configure(host_devices=4, host_domains=2, host_workers=2, small_bytes=0, inline_bytes=0)
rt = current_runtime.current()
mesh = gs.make_mesh((4,), "x")
rows, columns = gs.NamedSharding(mesh, gs.P("x")), gs.NamedSharding(mesh, gs.P(None, "x"))
VALUE = np.arange(64.0).reshape(8, 8)

def say(*words):
    os.write(1, (" ".join(map(str, words)) + chr(10)).encode())

def submit(run, stream=None, after=(), effect=False, name="work"):
    claim = rt.commit(lambda: rt.claim(room_on(rt.devices[0], (8,))))
    stream = stream or rt.devices[0].stream
    reads = [c.memory for c in after]
    rt.commit(lambda: rt.submit(stream, name, run, reads, [claim.memory], effect=effect))
    return claim

def new_stream(name="own"):
    return rt.new_stream(name, 0)
"""


def run(script, code=0, errors="", first=""):
    """Run a script, and return its lines; by default it must end well and print no error.

    What is to run `first` does so before gpushard is imported.
    """
    done = subprocess.run(
        [
            sys.executable,
            "-W",
            "ignore::DeprecationWarning",
            "-c",
            textwrap.dedent(first) + _PRELUDE + textwrap.dedent(script),
        ],
        capture_output=True,
        text=True,
        timeout=40,
    )
    assert done.returncode == code, done.stdout + done.stderr
    if errors:
        assert errors in done.stderr
        assert done.stderr.count("Traceback") == 1, done.stderr
        assert "Exception ignored" not in done.stderr
    else:
        assert done.stderr == ""
    return done.stdout.splitlines()
