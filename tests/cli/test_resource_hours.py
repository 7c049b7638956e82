"""`licorne usage`: resource-hours for people and for spreadsheets."""

import csv
from io import StringIO

import pytest

from licorne.v1.state_pb2 import ResourceHours
from licorne_cli.nouns.usage import print_csv, resource_hours
from licorne_cli.output.text import hours_text


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
