"""`licorne usage`: resource-hours for people and for spreadsheets."""

import csv
from io import StringIO

import pytest

from licorne.v1.state_pb2 import ResourceHours
from licorne_cli.nouns.usage import print_csv, resource_hours
from licorne_cli.output.text import hours_text
from support.peers.town import Town


async def test_what_queues_and_users_have_used(town: Town) -> None:
    """The hours of all RMs or of one, since a time, sorted; a queue includes its descendants."""
    result = await town.shell("usage", "--since", "30d", "-o", "json")
    assert (result.code, result.err) == (0, "")
    used = {(row["partition"], row["name"]): row["hours"]["vcore"] for row in result.json["rows"]}
    assert used.keys() == {("[blue]default", "root"), ("[blue]default", "root.prod")}
    assert all(value > 0 for value in used.values())
    result = await town.shell("usage", "--by", "user", "--rm", "blue", "--sort-by", "hours", "--reverse")
    assert [row[1] for row in result.rows] == ["NAME", "ann"]
    result = await town.shell("usage", "--rm", "green")
    assert (result.code, result.err) == (0, "nothing was used\n")
    result = await town.shell("usage", "-o", "csv", "--partition", "[blue]default")
    assert result.out.splitlines()[1].startswith("[blue]default,root,memory,")
    result = await town.shell("usage", "--partition", "nowhere")
    assert result.code == 3
    result = await town.shell("usage", "--until", "1d", "--since", "2d", "-o", "json")
    assert result.json["rows"] == []


def test_hours_are_shown_in_the_units_of_amounts(capsys: pytest.CaptureFixture[str]) -> None:
    """Core-hours and byte-hours for people, plain numbers with a line for each resource in CSV."""
    hours = {"vcore": 12_340.0, "memory": 3 * 1024.0**4, "gpu": 2.5}
    assert hours_text(hours) == "gpu=2.5,memory=3Ti,vcore=12.3"
    assert hours_text({"vcore": 12.3}) == "vcore=0.0123"
    assert resource_hours(hours) == "gpu=2.5·h,memory=3Ti·h,vcore=12.3·h"
    assert resource_hours({}) == "-"
    row = ResourceHours(partition="p", name="a,b", hours=hours, allocations=4, preempted=1)
    row.preempted_hours["vcore"] = 1.5
    row.backfilled_hours["gpu"] = 0.5
    print_csv([row])
    header, gpu, _, vcore = csv.reader(StringIO(capsys.readouterr().out))
    assert dict(zip(header, gpu, strict=True)) == {
        "partition": "p",
        "name": "a,b",
        "resource": "gpu",
        "hours": "2.5",
        "allocations": "4",
        "preempted": "1",
        "preempted_hours": "0.0",
        "backfilled_hours": "0.5",
    }
    assert vcore[-2:] == ["1.5", "0.0"]
