"""`licorne usage`: resource-hours for people and for spreadsheets."""

from licorne_cli.nouns.usage import resource_hours
from licorne_cli.output.text import hours_text


def test_hours_have_the_units_of_amounts() -> None:
    """Core-hours and byte-hours have the signs of amounts."""
    hours = {"vcore": 12_340.0, "memory": 3 * 1024.0**4, "gpu": 2.5}
    assert hours_text(hours) == "gpu=2.5,memory=3Ti,vcore=12.3"
    assert hours_text({"vcore": 12.3}) == "vcore=0.0123"
    assert resource_hours(hours) == "gpu=2.5·h,memory=3Ti·h,vcore=12.3·h"
    assert resource_hours({}) == "-"
