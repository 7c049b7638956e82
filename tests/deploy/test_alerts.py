"""Alerts say what is wrong, how bad it is and what to do, and each was seen to fire."""

from support.deployment import PROMETHEUS, alerts
from support.docs.pages import Page, code_spans

RUNBOOKS = Page("docs/runbooks.md")
SEVERITIES = {"critical", "warning", "info"}


def test_alerts_say_what_to_do() -> None:
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


def test_runbooks_are_about_alerts() -> None:
    """Every section on an alert is on one that there is, and says how bad it is."""
    sections = [line[4:] for line in RUNBOOKS.lines if line.startswith("### ")]
    assert sorted(sections) == sorted(alerts())
    shown = {code_spans(row[0])[0]: row[1] for row in RUNBOOKS.table("Alerts")}
    assert shown == {name: rule["labels"]["severity"] for name, rule in alerts().items()}


def test_every_alert_is_tried() -> None:
    """Prometheus' own tool is given a test for each alert; `make test-deploy` runs them."""
    tried = (PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8")
    for name in alerts():
        assert f"  - name: {name}\n" in tried, name
        assert f'{{alertname="{name}", instance="bad"}}' in tried, name
