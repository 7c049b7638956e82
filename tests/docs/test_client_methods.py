"""The tables of methods on the clients' pages, compared with the source."""

import inspect
from collections.abc import Mapping
from dataclasses import fields
from typing import get_args

import pytest

from licorne import Admin, Allocation, Application, Ask, Client, Event, Node, State, TaskGroup
from licorne.admin_client import AdminCalls
from licorne.preemption_calls import PreemptionCalls
from licorne.state_client import StateCalls
from licorne.tags import APPLICATION_TAGS, TAGS
from support.docs.pages import Page, code_spans

PAGE = Page("clients/python/reference.md")
WIRE = Page("docs/wire-reference.md")
ITEMS = (Node, Application, TaskGroup, Ask, Allocation)


def methods(client: type) -> dict[str, list[str]]:
    """The public methods of a class, inherited ones included, with their parameters."""
    return {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def shown(title: str) -> dict[str, list[str]]:
    """The methods of a table, with their named parameters."""
    calls = [code_spans(row[0])[0] for row in PAGE.table(title)]
    split = (call.removesuffix(")").partition("(") for call in calls)
    return {name: inside.split(", ") if inside else [] for name, _, inside in split}


@pytest.mark.parametrize("client", [Client, PreemptionCalls, State, Admin])
def test_every_method_is_on_the_page(client: type) -> None:
    """The page has exactly the methods of a client, with their parameters."""
    assert shown(f"{client.__name__.removesuffix('Calls')} methods") == methods(client)


@pytest.mark.parametrize(("title", "types"), [("Items", ITEMS), ("Events", get_args(Event))])
def test_every_field_is_on_the_page(title: str, types: tuple[type, ...]) -> None:
    """The page has exactly the items and events, with the fields that no other table has."""
    rows = {code_spans(row[0])[0]: code_spans(row[1]) for row in PAGE.table(title)}
    names = {one.__name__: [each.name for each in fields(one)] for one in types}
    tags = {*TAGS, *APPLICATION_TAGS}
    assert rows == {one: [name for name in names[one] if name not in tags] for one in names}


def test_every_method_has_a_description() -> None:
    """Each method has a short description."""
    for title in ("Client methods", "Preemption methods", "State methods", "Admin methods"):
        assert all(5 < len(row[1]) < 100 for row in PAGE.table(title))


def test_a_connected_client_has_the_same_methods() -> None:
    """`rm.state` and `rm.admin` have all methods of `State` and `Admin` except `close`."""
    for bound, alone in ((StateCalls, State), (AdminCalls, Admin)):
        assert methods(bound).keys() == methods(alone).keys() - {"close"}


@pytest.mark.parametrize(("tags", "of"), [(TAGS, "allocation"), (APPLICATION_TAGS, "application")])
def test_tags_of_fields_are_those_of_the_page(tags: Mapping[str, str], of: str) -> None:
    """The page has the tag of each field, and the reference of the wire has the tags."""
    own = {field: tag for field, tag in tags.items() if of == "allocation" or field not in TAGS}
    assert own in [tag_rows(number) for number in range(len(PAGE.lines))]
    known = [line.split("|")[1:3] for line in WIRE.lines if line.startswith("| a")]
    there = {span for kinds, key in known if of in kinds.strip().split(", ") for span in code_spans(key)}
    assert [tag for tag in tags.values() if tag not in there] == []


def tag_rows(number: int) -> dict[str, str]:
    """The fields with their tags, of the table whose first row is in that line."""
    rows: dict[str, str] = {}
    for line in PAGE.lines[number:]:
        cells = line.split("|")[1:3]
        if len(cells) < 2 or not code_spans(cells[0]) or not code_spans(cells[1]):
            break
        rows[code_spans(cells[0])[0]] = code_spans(cells[1])[0]
    return rows
