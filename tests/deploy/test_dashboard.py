"""The dashboard generated from its panels is valid for Grafana, and part of the chart."""

import json
import re
import subprocess
from itertools import combinations

from support.deployment import alerts, dashboard, panels, queries, targets
from support.docs.pages import ROOT

UNITS = {"bool_yes_no", "bytes", "h", "ops", "percentunit", "s", "short"}
"""The units of Grafana that the dashboard uses."""

ROWS = [
    "At a glance", "Overview", "Queues", "Users and groups", "Nodes", "Sessions and RPC", "Latency",
    "Preemption and gangs", "Runtime",
]  # fmt: skip


FIRST = {
    "What is wrong", "Starving queues", "Ask to allocation, p99", "Reserved nodes", "RMs without a session",
    "Waiting asks",
}  # fmt: skip
"""The first panels for an incident: the numbers at the top."""


def test_all_rows_have_panels() -> None:
    """Every row has its heading, in order; the first one is open, and the others have their panels inside."""
    top = dashboard()["panels"]
    rows = [panel for panel in top if panel["type"] == "row"]
    assert [row["title"] for row in rows] == ROWS
    assert [row["collapsed"] for row in rows] == [False, *(True for _ in ROWS[1:])]
    opened = [panel for panel in top if panel["type"] != "row"]
    assert top == [rows[0], *opened, *rows[1:]]
    assert not rows[0]["panels"]
    assert all(row["panels"] for row in rows[1:])
    assert {panel["title"] for panel in opened if panel["gridPos"]["y"] == 1} == FIRST


def test_links_lead_to_runbooks_and_to_the_page() -> None:
    """The dashboard links to both, and a panel about an alert to its runbook; all by the variables."""
    assert [link["url"] for link in dashboard()["links"]] == ["${page}", "${runbooks}"]
    linked = [link["url"] for panel in panels() for link in panel["links"]]
    assert linked
    known = {f"${{runbooks}}#{name.lower()}" for name in alerts()}
    assert set(linked) <= known
    inside = [link["url"] for panel in panels() for link in panel["fieldConfig"]["defaults"].get("links", ())]
    assert inside
    assert all(url.startswith("${page}#/") for url in inside)


def test_changes_are_marked() -> None:
    """Restarts and configurations are marks in all panels, of the selected instances and RMs."""
    marks = {one["name"]: one for one in dashboard()["annotations"]["list"]}
    assert marks.keys() == {"Restarts", "Configurations"}
    for one in marks.values():
        assert one["enable"]
        assert one["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_latencies_are_heat_maps() -> None:
    """The buckets of a latency are queried as such, with their bounds as legends."""
    maps = [panel for panel in panels() if panel["type"] == "heatmap"]
    assert {"Ask to allocation, all", "Turns, all", "Loop delay, all"} <= {panel["title"] for panel in maps}
    for panel in maps:
        [target] = panel["targets"]
        assert (target["format"], target["legendFormat"]) == ("heatmap", "{{le}}")
        assert "_bucket{" in target["expr"]


def test_panels_do_not_overlap() -> None:
    """Ids are unique, no panel is wider than the grid, and no two overlap."""
    top = dashboard()["panels"]
    every = [one for panel in top for one in (panel, *panel.get("panels", ()))]
    assert len({panel["id"] for panel in every}) == len(every)
    cells = [panel["gridPos"] for panel in every]
    assert all(cell["x"] >= 0 and cell["x"] + cell["w"] <= 24 for cell in cells)
    overlaps = [
        (one, other)
        for one, other in combinations(cells, 2)
        if one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    ]
    assert not overlaps


def test_panels_have_descriptions() -> None:
    """Every panel has a description, a unit and a query, of the selected source."""
    for panel in panels():
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in UNITS, panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["datasource"]["uid"] == "${datasource}"
        letters = [target["refId"] for target in panel["targets"]]
        assert len(set(letters)) == len(letters)
    for title, target in targets():
        assert target["expr"].strip(), title
        assert target["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_variables_are_defined() -> None:
    """Every variable in an expression is defined by the dashboard, before its use.

    Grafana's own variables begin with two underscores.
    """
    known = {variable["name"] for variable in dashboard()["templating"]["list"]}
    for title, target in targets():
        used = set(re.findall(r"\$\{?(\w+)", target["expr"]))
        assert {name for name in used if not name.startswith("__")} <= known, title
    before = {one["name"] for one in dashboard()["templating"]["list"] if one["type"] != "query"}
    assert before == {"datasource", "page", "runbooks"}
    for name, query in queries():
        assert set(re.findall(r"\$(\w+)", query)) <= before, name
        before.add(name)
    assert before == known == {*re.findall(r"\$\{?([a-z]\w+)", json.dumps(dashboard()))}


def test_panels_are_restricted_to_instances() -> None:
    """Every expression is about the selected instances, so that two servers are never mixed."""
    for title, target in targets():
        selectors = re.findall(r"\{([^{}]*)\}", target["expr"])
        assert selectors, title
        assert all('instance=~"$instance"' in selector for selector in selectors), title


def test_the_chart_includes_the_dashboard() -> None:
    """`make chart` generates the file where the template reads it, before Helm packs the chart."""
    panels = "deploy/grafana/panels.yml"
    done = subprocess.run(
        ["make", "--dry-run", f"--what-if={panels}", "chart"],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    file = "deploy/helm/licorne/files/licorne.json"
    drawn = done.stdout.index(f"python deploy/grafana/dashboard.py {file}\n")
    assert drawn < done.stdout.index("helm package deploy/helm/licorne ")
