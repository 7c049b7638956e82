"""The lock files of the image: complete, with hashes, and with the versions of the test environment."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires, version
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCKS = ROOT / "constraints"
OURS = {"licorne-cli", "licorne-client", "licorne-server"}


def entries(path: Path) -> list[str]:
    """The requirements of a file, each with its options on one line."""
    text = re.sub(r"^\s*#.*\n", "", path.read_text(), flags=re.MULTILINE)
    return [line for line in text.replace("\\\n", " ").splitlines() if line.strip()]


def pinned(path: Path) -> dict[str, str]:
    """The version of each distribution that a file pins."""
    versions: dict[str, str] = {}
    for entry in entries(path):
        requirement = Requirement(entry.split(" --hash=")[0].strip())
        [specifier] = requirement.specifier
        assert specifier.operator == "==", entry
        versions[canonicalize_name(requirement.name)] = specifier.version
    return versions


def needed() -> set[str]:
    """All direct and indirect dependencies of the server here, except for our own distributions."""
    found: set[str] = set()
    # `extra` is empty, because dependencies of an extra are not installed.
    environment = {key: str(value) for key, value in default_environment().items()} | {"extra": ""}
    waiting = ["licorne-server"]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for text in requires(name) or ():
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate(environment):
                waiting.append(canonicalize_name(requirement.name))
    return found - OURS


@pytest.mark.parametrize("lock", ["runtime.txt", "build.txt"])
def test_every_file_of_a_lock_has_its_hash(lock: str) -> None:
    """No entry can be installed from a file that is newer than the lock."""
    for entry in entries(LOCKS / lock):
        assert re.search(r" --hash=sha256:[0-9a-f]{64}( |$)", entry), entry


def test_the_runtime_lock_has_the_dependencies_of_the_server_only() -> None:
    """An installation without dependency resolution finds all dependencies in the lock."""
    locked = pinned(LOCKS / "runtime.txt")
    assert needed() - locked.keys() == set()
    assert not locked.keys() & {"pytest", "mypy", "ruff", "hypothesis", "uv", "grpcio-tools"}


def test_build_lock_has_the_build_backend() -> None:
    """Our own packages are built without an index."""
    locked = pinned(LOCKS / "build.txt")
    for project in (ROOT, ROOT / "clients/python", ROOT / "clients/cli"):
        wanted = tomllib.loads((project / "pyproject.toml").read_text())["build-system"]["requires"]
        for requirement in map(Requirement, wanted):
            assert requirement.specifier.contains(locked[requirement.name])


def test_grpc_and_its_companions_have_one_version() -> None:
    """The version is that of the server's manifest and of this installation; the client has a range."""
    server, client = (
        tomllib.loads((folder / "pyproject.toml").read_text()) for folder in (ROOT, ROOT / "clients/python")
    )
    groups = (server["project"]["dependencies"], server["dependency-groups"]["dev"])
    wanted = [Requirement(text) for group in groups for text in group if isinstance(text, str)]
    bounds = {one.name: str(one.specifier) for one in wanted if one.name.startswith("grpcio")}
    [bound] = set(bounds.values())
    assert bounds.keys() > {"grpcio", "grpcio-health-checking", "grpcio-reflection", "grpcio-status"}
    assert {f"=={version(name)}" for name in bounds} == {bound}
    [ranged] = [one for one in map(Requirement, client["project"]["dependencies"]) if one.name == "grpcio"]
    assert ranged.specifier.contains(bound.removeprefix("=="))
    assert ranged.specifier.contains("1.80.0")


@pytest.mark.parametrize("lock", ["runtime.txt", "build.txt"])
def test_the_image_has_the_versions_of_the_test_environment(lock: str) -> None:
    """A distribution in a lock and in the constraints of development has one version."""
    tested = pinned(ROOT / "constraints.txt")
    locked = pinned(LOCKS / lock)
    assert {name: tested[name] for name in locked.keys() & tested.keys()} == {
        name: version for name, version in locked.items() if name in tested
    }
    assert lock == "build.txt" or locked.keys() <= tested.keys()


@pytest.mark.parametrize("path", [ROOT / "constraints.txt", *sorted(LOCKS.glob("*.txt"))])
def test_no_file_names_an_index(path: Path) -> None:
    """Versions and hashes are valid for every index, which the installer chooses."""
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", path.read_text())


def test_image_is_installed_from_the_locks() -> None:
    """The image has only locked packages and builds of our sources."""
    dockerfile = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    installs = re.findall(r"pip (?:install|wheel) ([^&\n]*)", dockerfile)
    assert installs
    for arguments in installs:
        assert "--require-hashes" in arguments or {"--no-index", "--no-deps"} <= set(arguments.split())
    assert re.findall(r"^FROM (\S+)", dockerfile, flags=re.MULTILINE) == ["${BASE}", "${BASE}"]


@pytest.mark.parametrize("base", ["", "python:3.11-slim"])
def test_image_is_not_built_from_a_tag(base: str) -> None:
    """A base image without its digest is refused before anything is built."""
    made = subprocess.run(
        ["make", "--no-print-directory", "image", f"BASE={base}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode != 0
    assert "BASE must name an image by its digest" in made.stderr


@pytest.mark.slow
def test_the_bill_of_materials_is_complete_and_reproducible() -> None:
    """The bill has each distribution with its version, and is the same whenever it is written."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    command += ["--output-format", "JSON", str(LOCKS / "runtime.txt")]
    first, again = (subprocess.run(command, capture_output=True, check=True) for _ in range(2))
    assert first.stdout == again.stdout
    bill = json.loads(first.stdout)
    assert {canonicalize_name(part["name"]): part["version"] for part in bill["components"]} == pinned(
        LOCKS / "runtime.txt"
    )
