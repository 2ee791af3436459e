#!/usr/bin/env python3
"""Build the images of gpushard on Debian or Ubuntu without a Docker daemon and without a registry.

`debootstrap` makes a base image from Debian's packages, and `buildah` builds the Dockerfiles on it.
The program then runs a share of each service of `compose.yaml` in the built images. It needs root,
Debian's packages, an index for pip, and `buildah`, `debootstrap` and `debian-archive-keyring`.
"""

from __future__ import annotations

import argparse
import ast
import configparser
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEBIAN = "localhost/gpushard-debian"
PYTHON = "localhost/gpushard-python"
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
MOUNTED = "/mnt/pip"

# `python:3.11-slim` has Python and certificates. The bases of NVIDIA have neither.
PYTHON_FILE = f"""
FROM {DEBIAN}
RUN apt-get update \\
    && apt-get install --yes --no-install-recommends python3-venv python-is-python3 \\
    && rm -rf /var/lib/apt/lists/*
"""


@dataclass(frozen=True)
class Image:
    """An image of `compose.yaml`, a base to build it on, and commands to try in it."""

    dockerfile: str
    base: str
    commands: tuple[str, ...]
    arguments: Mapping[str, str] = field(default_factory=dict)


IMAGES = {
    "gpushard": Image(
        "docker/Dockerfile",
        PYTHON,
        ("python -m pytest tests/geometry tests/test_docker.py", "gpushard demo"),
    ),
    "gpushard-torch": Image(
        "docker/Dockerfile",
        PYTHON,
        ("python -m pytest tests/interop gpushard/interop",),
        {
            "EXTRAS": "test,torch",
            "PIP_EXTRA_INDEX_URL": "https://download.pytorch.org/whl/cpu",
        },
    ),
    "gpushard-gpu": Image(
        "docker/Dockerfile.gpu",
        DEBIAN,
        (
            "gpushard info",
            # The libraries of CUDA are there, too: CuPy loads each when it is first asked for.
            "python -c 'from cupy.cuda import cublas, cufft, cusolver, nvrtc; "
            "print(nvrtc.getVersion(), cufft.getVersion())'",
            "python -m pytest tests/gpu",
        ),
    ),
}

# Settings that say where packages come from. Others, such as `target`, hold for the host alone.
CARRIED = {
    "cert",
    "client-cert",
    "constraint",
    "default-timeout",
    "extra-index-url",
    "find-links",
    "index-url",
    "no-index",
    "proxy",
    "retries",
    "timeout",
    "trusted-host",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Build the bases and the images, run the commands, and print sizes and seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("images", nargs="*", help=f"of {', '.join(IMAGES)}; all but PyTorch's")
    parser.add_argument("--suite", default="bookworm", help="release of Debian (%(default)s)")
    parser.add_argument("--mirror", default="http://deb.debian.org/debian", help="(%(default)s)")
    parser.add_argument(
        "--build-arg", action="append", default=[], metavar="NAME=VALUE", help="for all images"
    )
    options = parser.parse_args(arguments)
    names = options.images or ["gpushard", "gpushard-gpu"]
    if unknown := sorted(set(names) - set(IMAGES)):
        parser.error(f"no such image: {', '.join(unknown)}. Try: {', '.join(IMAGES)}")
    if os.geteuid() != 0:
        again = shlex.join(["sudo", "--preserve-env", "python3", *sys.argv])
        parser.error(f"debootstrap needs root. Try: {again}")
    if missing := [name for name in ("buildah", "debootstrap") if shutil.which(name) is None]:
        parser.error(f"Try: apt-get install {' '.join(missing)}")

    report: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        mounts = mount_pip_settings(read_pip_settings(), Path(folder))
        if not image_exists(DEBIAN):
            with timed(report, f"base {DEBIAN}"):
                bootstrap(options.suite, options.mirror)
        if any(IMAGES[name].base == PYTHON for name in names) and not image_exists(PYTHON):
            with timed(report, f"base {PYTHON}"):
                build(PYTHON, Path("-"), Path(folder), text=PYTHON_FILE)
        for name in names:
            image = IMAGES[name]
            settings = [f"{key}={value}" for key, value in image.arguments.items()]
            settings += [f"BASE={image.base}", *options.build_arg]
            with timed(report, f"build {name}"):
                build(name, ROOT / image.dockerfile, ROOT, settings, mounts)
            for command in image.commands:
                with timed(report, f"  {command}"):
                    run_in(name, command)
    bases = dict.fromkeys([DEBIAN, *(IMAGES[name].base for name in names)])
    report += [f"{size(name):>9}   {name}" for name in [*bases, *names]]
    print("", *report, sep="\n")
    return 0


def read_pip_settings() -> dict[str, str]:
    """Read where the host's pip takes packages from, in its files and in variables `PIP_*`."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        print("This Python has no pip, so the images are built without its settings.")
    return parse_pip_settings(listed.stdout)


def parse_pip_settings(text: str) -> dict[str, str]:
    """Read what `pip config list` prints, and let later sources win as pip does."""
    settings: dict[str, str] = {}
    # pip lists the sections in alphabetical order.
    for section in ("global", "install", ":env:"):
        for line in text.splitlines():
            key, _, value = line.partition("=")
            source, _, name = key.rpartition(".")
            if source == section and name in CARRIED:
                settings[name] = ast.literal_eval(value)
    return settings


def mount_pip_settings(settings: Mapping[str, str], folder: Path) -> list[str]:
    """Write the settings to a file for the containers, and return the mounts that it needs.

    Files and folders that the settings name are mounted under `/mnt/pip`, read-only. Only empty
    mount points of them stay in an image. An index in a folder is mounted with the folder around
    it, because its pages may refer to files next to it.
    """
    mounts: list[str] = []

    def inside(word: str) -> str:
        path = Path(urllib.parse.unquote(word.removeprefix("file://")))
        if not path.is_absolute() or not path.exists():
            return word
        is_index = word.startswith("file://") and path.parent != Path("/")
        source = path.parent if is_index else path
        target = f"{MOUNTED}/{len(mounts)}"
        mounts.append(f"--volume={source}:{target}:ro")
        if word.startswith("file://"):
            return f"file://{target}/{path.name}" if is_index else f"file://{target}"
        return target

    if CERTIFICATES.exists():
        settings = {"cert": str(CERTIFICATES), **settings}
    config = configparser.RawConfigParser()
    config["global"] = {
        name: "\n".join(inside(word) for word in value.split()) for name, value in settings.items()
    }
    file = folder / "pip.conf"
    with file.open("w", encoding="utf-8") as out:
        config.write(out)
    file.chmod(0o644)
    return [f"--volume={file}:/etc/pip.conf:ro", *mounts]


def image_exists(name: str) -> bool:
    """Return whether buildah has an image of this name."""
    done = subprocess.run(["buildah", "inspect", "--type=image", name], capture_output=True)
    return done.returncode == 0


def bootstrap(suite: str, mirror: str) -> None:
    """Make an image of Debian's smallest system from Debian's packages."""
    with container("scratch") as name:
        root = call("buildah", "mount", name, output=True)
        call("debootstrap", "--variant=minbase", suite, root, mirror)
        # debootstrap copies the last two from the host. Containers get theirs when they start.
        for pattern in (
            "var/cache/apt/archives/*.deb",
            "var/lib/apt/lists/*_*",
            "etc/hostname",
            "etc/resolv.conf",
        ):
            for path in Path(root).glob(pattern):
                path.unlink()
        call("buildah", "umount", name, output=True)
        call("buildah", "config", "--cmd=bash", name)
        call("buildah", "commit", "--quiet", name, DEBIAN)


def build(
    name: str,
    file: Path,
    context: Path,
    settings: Sequence[str] = (),
    mounts: Sequence[str] = (),
    text: str | None = None,
) -> None:
    """Build an image from a Dockerfile, or from a text of one, on bases that are there already."""
    command = ["buildah", "bud", "--isolation=chroot", "--pull-never", *mounts]
    command += [f"--build-arg={setting}" for setting in settings]
    call(*command, f"--tag={name}", f"--file={file}", str(context), text=text)


def run_in(image: str, command: str) -> None:
    """Run a command of the shell in a new container."""
    with container(image) as name:
        call("buildah", "run", "--isolation=chroot", name, "--", "bash", "-c", command)


def size(image: str) -> str:
    """Return the size of an image, with its base, in the words of buildah."""
    described = json.loads(call("buildah", "images", "--json", image, output=True))
    return str(described[0]["size"])


@contextmanager
def container(image: str) -> Iterator[str]:
    """Yield a new container of an image, and remove it afterwards."""
    name = call("buildah", "from", "--pull-never", image, output=True)
    try:
        yield name
    finally:
        call("buildah", "rm", name, output=True)


@contextmanager
def timed(report: list[str], what: str) -> Iterator[None]:
    """Add to the report how long a step took."""
    start = time.monotonic()
    yield
    report.append(f"{time.monotonic() - start:7.0f} s   {what}")


def call(*command: str, output: bool = False, text: str | None = None) -> str:
    """Print a command and run it. Return what it prints if `output` says so."""
    print("+", shlex.join(command), flush=True)
    done = subprocess.run(
        command, check=True, text=True, input=text, stdout=subprocess.PIPE if output else None
    )
    return done.stdout.strip() if output else ""


if __name__ == "__main__":
    sys.exit(main())
