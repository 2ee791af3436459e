"""The command line: read arguments, run a command, print an error as one line."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpushard._cli import demo, info
from gpushard._version import __version__
from gpushard.errors import ArgumentError, GpushardError

_INTERRUPTED = 130
_BROKEN_PIPE = 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Args:
      argv: the arguments; by default those of the process.

    Returns:
      The exit status: 0 for success, 1 if a check failed, 2 for an error, 130 if interrupted.

    Raises:
      SystemExit: the arguments asked for help or the version.

    >>> main(["demo", "--mesh", "4by2"])
    2
    """
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # file names can have any characters
        options = _parser().parse_args(argv)
        status: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has closed the pipe, as `head` does; the flush at exit must not fail too.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except (GpushardError, OSError, MemoryError) as error:
        text = " ".join(str(error).split()) or type(error).__name__
        print(f"gpushard: error: {text}", file=sys.stderr)
        return 2
    return status


class _Parser(argparse.ArgumentParser):
    """A parser that raises typed errors instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{message}; see {self.prog} --help", argument="argv")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="gpushard",
        description="Arrays that span devices, with the semantics of jax.Array.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"gpushard {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="command", required=True)
    for name, module in (("demo", demo), ("info", info)):
        command = commands.add_parser(
            name, help=module.SUMMARY, description=module.DESCRIPTION, allow_abbrev=False
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
