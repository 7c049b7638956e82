"""The release workflow: all that it refers to exists, actions are pinned, and rights are minimal."""

import re
import subprocess
from collections.abc import Iterator
from typing import Any

import yaml

from support.deployment import CHART
from support.docs.pages import ROOT, Page, code_spans

FILE = ROOT / ".github/workflows/release.yml"
TEXT = FILE.read_text("utf-8")
ACCOUNTS = Page("docs/contributing.md")
MADE = ("dist/", ".venv/", "files", "packages", "wheels", "image.cdx.json")
"""Beginnings of paths that the steps themselves create."""


def jobs() -> dict[str, Any]:
    """The jobs by name."""
    found: dict[str, Any] = yaml.safe_load(TEXT)["jobs"]
    return found


def steps() -> Iterator[dict[str, Any]]:
    """The steps of all jobs."""
    for job in jobs().values():
        yield from job["steps"]


def scripts() -> list[str]:
    """The lines of all steps that run commands."""
    return [line for step in steps() for line in step.get("run", "").splitlines()]


def test_only_a_tag_starts_a_release() -> None:
    """A push of a branch, or a pull request, publishes nothing."""
    # YAML reads the word "on" as a truth value.
    assert yaml.safe_load(TEXT)[True] == {"push": {"tags": ["v*.*.*"]}}


def test_targets_are_those_of_make() -> None:
    """Every target in the workflow is one of the Makefile."""
    makefile = (ROOT / "Makefile").read_text("utf-8")
    known = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    made = {target for line in scripts() if line.startswith("make ") for target in line.split()[1:]}
    assert {"test-dist", "sbom", "chart"} <= made <= known


def test_each_build_has_messages_at_begin_and_end() -> None:
    """Some builds take minutes without any other output."""
    command = ["make", "--dry-run", "--no-print-directory", "dist", "CARGO="]
    lines = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    builds = [line for line in lines if "uv build" in line]
    assert len(builds) == 4
    for line in builds:
        assert re.fullmatch(r"echo 'dist: (.+) \.\.\.'; .*uv build .* && echo 'dist: \1 is done'", line), line


def test_files_exist() -> None:
    """Every file of the checkout that a step names exists."""
    words = [word.strip("\"'") for line in scripts() for word in re.split(r"[\s;|]+", line)]
    words += [
        str(step["with"][key])
        for step in steps()
        for key in ("file", "context")
        if key in step.get("with", {})
    ]
    top = {path.name for path in ROOT.iterdir()}
    named = {word for word in words if word.split("/")[0] in top and not word.startswith(MADE)}
    assert {
        "pyproject.toml",
        "deploy/helm/licorne/values.yaml",
        ".ci/run",
        "Dockerfile",
        "CHANGELOG.md",
    } <= named
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


def test_actions_are_pinned() -> None:
    """Every action has a full version, and the image has the base that is given by its digest."""
    used = [step["uses"] for step in steps() if "uses" in step]
    assert used
    assert [name for name in used if not re.fullmatch(r"[\w-]+/[\w-]+@v\d+\.\d+\.\d+", name)] == []


def test_only_jobs_that_publish_may_write() -> None:
    """Jobs read the source; those that sign have an identity, and one writes the release."""
    assert yaml.safe_load(TEXT)["permissions"] == {"contents": "read"}
    signing = {"packages", "image", "chart"}
    for name, job in jobs().items():
        rights = job.get("permissions", {})
        assert (rights.get("id-token") == "write") == (name in signing), name
        assert (rights.get("contents") == "write") == (name == "release"), name
        assert set(job.get("needs", ())) <= jobs().keys()
    assert all("check" in jobs()[name]["needs"] for name in ("packages", "image"))


def test_published_image_has_the_compiled_transport() -> None:
    """The wheel is built for each platform, and is in the image, or there is no image."""
    image = jobs()["image"]
    assert "compiled" in image["needs"]
    [built] = [step for step in steps() if "maturin-action" in step.get("uses", "")]
    assert "--manifest-path transport/Cargo.toml" in built["with"]["args"]
    # Without these it uses the newest versions of the day.
    for tool in ("maturin-version", "rust-toolchain"):
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", built["with"][tool])
    [build] = [step["with"] for step in image["steps"] if step.get("id") == "build"]
    [given] = [step["run"] for step in image["steps"] if "licorne_transport" in step.get("run", "")]
    assert f"-eq {len(build['platforms'].split(','))}" in given


def test_values_are_passed_by_the_environment() -> None:
    """Variables reach commands by their environment, and are not pasted into the text."""
    assert [line for line in scripts() if "${{" in line] == []


def test_accounts_are_documented() -> None:
    """Every variable and secret is on the page, and no host is in the file."""
    used = set(re.findall(r"\b(?:vars|secrets)\.(\w+)", TEXT))
    assert {name for row in ACCOUNTS.table("Releases") for name in code_spans(row[0])} == used
    assert re.findall(r"\b[\w-]+\.(?:io|com|org|net|dev)\b", TEXT) == []


def test_the_chart_gets_the_released_image() -> None:
    """The lines that the workflow replaces are in the chart's values, once each."""
    values = (CHART / "values.yaml").read_text("utf-8").splitlines()
    [line] = [line for line in scripts() if line.startswith("sed -i ")]
    replaced = re.findall(r"s\|\^(.+?)\\\$\|", line)
    assert [values.count(text.replace("\\", "")) for text in replaced] == [1, 1]


def test_releases_are_signed_and_attested() -> None:
    """Image and chart are signed; contents and provenance of the image are attested."""
    commands = "\n".join(scripts())
    assert 'cosign sign --yes --recursive "$REGISTRY/licorne@$DIGEST"' in commands
    assert 'cosign sign --yes "$REGISTRY/charts/licorne@$digest"' in commands
    assert "cosign attest --yes --type cyclonedx" in commands
    attested = [step["with"] for step in steps() if "attest-build-provenance" in step.get("uses", "")]
    assert [sorted(one) for one in attested] == [
        ["subject-path"],
        ["push-to-registry", "subject-digest", "subject-name"],
    ]
