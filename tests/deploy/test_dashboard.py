"""The dashboard that is drawn from its panels can be shown by Grafana, and comes with the chart."""

import json
import re
import subprocess
from itertools import combinations, pairwise
from typing import Any

from support.deployment import dashboard, queries, targets
from support.docs.pages import ROOT

UNITS = {"bool_yes_no", "bytes", "ops", "percentunit", "s", "short"}
"""Units that Grafana knows, as far as they are used."""

ROWS = [
    "Overview", "Queues", "Users and groups", "Nodes", "Sessions and RPC", "Latency",
    "Preemption and gangs", "Runtime",
]  # fmt: skip


def panels() -> list[dict[str, Any]]:
    """All panels but the headings of rows."""
    return [panel for panel in dashboard()["panels"] if panel["type"] != "row"]


def test_rows_are_all_there() -> None:
    """Every row has its heading, in order, and panels below it."""
    kinds = [panel["type"] for panel in dashboard()["panels"]]
    titles = [panel["title"] for panel in dashboard()["panels"] if panel["type"] == "row"]
    assert titles == ROWS
    assert ("row", "row") not in list(pairwise(kinds))
    assert kinds[-1] != "row"


def test_panels_have_places_of_their_own() -> None:
    """Ids are unique, no panel is wider than the grid, and no two lie on one another."""
    every = dashboard()["panels"]
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


def test_panels_say_what_they_show() -> None:
    """Every panel has a description, a unit and something to ask for, from the chosen source."""
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


def test_variables_are_known() -> None:
    """Every variable in an expression is one of the dashboard, and is asked for before it is used.

    Grafana's own ones begin with two underscores.
    """
    known = {variable["name"] for variable in dashboard()["templating"]["list"]}
    for title, target in targets():
        used = set(re.findall(r"\$\{?(\w+)", target["expr"]))
        assert {name for name in used if not name.startswith("__")} <= known, title
    before = {"datasource"}
    for name, query in queries():
        assert set(re.findall(r"\$(\w+)", query)) <= before, name
        before.add(name)
    assert before == known == {*re.findall(r"\$\{?([a-z]\w+)", json.dumps(dashboard()))}


def test_every_panel_can_be_narrowed_down() -> None:
    """Every expression is about the chosen instances: two servers are never mixed unasked."""
    for title, target in targets():
        selectors = re.findall(r"\{([^{}]*)\}", target["expr"])
        assert selectors, title
        assert all('instance=~"$instance"' in selector for selector in selectors), title


def test_a_chart_is_packed_with_it() -> None:
    """`make chart` draws the file where the template reads it, before Helm packs the chart."""
    panels = "deploy/grafana/panels.yml"
    done = subprocess.run(
        ["make", "--dry-run", f"--what-if={panels}", "chart"],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    file = "deploy/helm/licorne/files/licorne.json"
    drawn = done.stdout.index(f"python deploy/grafana/dashboard.py {file}\n")
    assert drawn < done.stdout.index("helm package deploy/helm/licorne ")
