"""Each alert has a problem, a severity, a remedy, and a test in which it fires."""

import subprocess
from pathlib import Path

import pytest
import yaml

from support.deployment import PROMETHEUS, alerts
from support.docs.pages import ROOT, Page
from support.patience import PATIENCE

RUNBOOKS = Page("docs/runbooks.md")
SEVERITIES = {"critical", "warning", "info"}


def test_alerts_have_a_remedy() -> None:
    """Every alert has a severity, a summary, a description and the section of its runbook."""
    there = RUNBOOKS.anchors()
    for name, rule in alerts().items():
        assert rule["labels"]["severity"] in SEVERITIES, name
        about = rule["annotations"]
        assert about["summary"], name
        assert about["description"].endswith("."), name
        page, _, anchor = about["runbook_url"].partition("#")
        assert page == RUNBOOKS.name
        assert anchor == name.lower()
        assert anchor in there, f"{name} has no section"


def test_every_runbook_has_an_alert() -> None:
    """Every section on an alert belongs to an existing one."""
    sections = [line[4:] for line in RUNBOOKS.lines if line.startswith("### ")]
    assert sorted(sections) == sorted(alerts())


def test_every_alert_has_a_test_of_promtool() -> None:
    """Prometheus' own tool has a test of each alert, which `make test-deploy` runs."""
    tried = (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8")
    for name in alerts():
        assert f"  - name: {name}\n" in tried, name
        assert f'{{alertname="{name}", instance="bad"}}' in tried, name


def with_links(file: Path, runbooks: str) -> subprocess.CompletedProcess[str]:
    """Write the rules with links to an address, as the page describes."""
    command = ["make", "alerts", f"RUNBOOKS={runbooks}", f"ALERTS={file}"]
    return subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False, timeout=PATIENCE)


def test_links_may_be_absolute(tmp_path: Path) -> None:
    """`make alerts` writes the same rules, each with a link that works in a message."""
    file = tmp_path / "alerts.yml"
    assert with_links(file, "https://wiki.example/runbooks").returncode == 0
    links = {name: f"https://wiki.example/runbooks#{name.lower()}" for name in alerts()}
    read = yaml.safe_load(file.read_text("utf-8"))
    written = {rule["alert"]: rule for group in read["groups"] for rule in group["rules"]}
    assert {name: rule["annotations"].pop("runbook_url") for name, rule in written.items()} == links
    for name, rule in alerts().items():
        about = {key: text for key, text in rule["annotations"].items() if key != "runbook_url"}
        assert written[name] == {**rule, "annotations": about}


@pytest.mark.parametrize("runbooks", ["", "docs/runbooks.md", "https://"])
def test_an_invalid_address_of_runbooks_is_refused(runbooks: str, tmp_path: Path) -> None:
    """The message has the expected form of the address."""
    done = with_links(tmp_path / "alerts.yml", runbooks)
    assert done.returncode != 0
    assert "RUNBOOKS must be the address of the page" in done.stderr
