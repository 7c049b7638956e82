"""The page says how much a configuration may hold, and the source holds it to that."""

from licorne_core.config import caps
from support.docs.pages import Page

SINGLE = {
    "bytes": caps.MAX_BYTES,
    "values, keys included": caps.MAX_NODES,
    "levels of lists and mappings": caps.MAX_DEPTH,
    "characters in a regular expression": caps.MAX_PATTERN_LENGTH,
    "instructions of a compiled regular expression": caps.MAX_PROGRAM,
    "properties of a queue or a template": caps.MAX_PROPERTIES,
    "characters in a property": caps.MAX_PROPERTY_LENGTH,
    "amounts in a property": caps.MAX_AMOUNTS,
}


def test_the_table_has_every_cap() -> None:
    """Each cap of the source stands in the table with its number, and nothing else does."""
    rows = Page("docs/configuration.md").table("How much it may hold")
    found = vars(caps).values()
    in_source = {cap.what: cap.limit for cap in found if isinstance(cap, caps.Cap)}
    assert {what: int(limit) for what, limit in rows} == {**in_source, **SINGLE}


def test_every_single_cap_is_looked_at() -> None:
    """The names of the source that are caps of single things are those of this test."""
    numbers = [value for name, value in vars(caps).items() if name.startswith("MAX_")]
    assert sorted(set(numbers)) == sorted(set(SINGLE.values()))
