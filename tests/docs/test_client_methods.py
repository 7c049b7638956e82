"""The tables of the clients' methods are those of the source."""

import inspect

import pytest

from licorne import Admin, Client, State
from licorne.admin_client import AdminCalls
from licorne.model import TAGS
from licorne.state_client import StateCalls
from support.docs.pages import Page, code_spans

PAGE = Page("clients/README.md")
SHIMS = Page("docs/shim-authors.md")


def methods(client: type) -> dict[str, list[str]]:
    """The public methods of a class, those it inherits too, each with its parameters."""
    return {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def shown(title: str) -> dict[str, list[str]]:
    """The methods of a table, each with the parameters that it names."""
    calls = [code_spans(row[0])[0] for row in PAGE.table(title)]
    split = (call.removesuffix(")").partition("(") for call in calls)
    return {name: inside.split(", ") if inside else [] for name, _, inside in split}


@pytest.mark.parametrize("client", [Client, State, Admin])
def test_every_method_is_on_the_page(client: type) -> None:
    """The page has the methods that a client has, with their parameters, and no others."""
    assert shown(f"{client.__name__} methods") == methods(client)


def test_every_method_has_a_line() -> None:
    """Each method is told in a few plain words."""
    for title in ("Client methods", "State methods", "Admin methods"):
        assert all(5 < len(row[1]) < 100 for row in PAGE.table(title))


def test_those_of_a_connected_client_are_the_same() -> None:
    """`rm.state` and `rm.admin` have all methods of `State` and `Admin` but `close`."""
    for bound, alone in ((StateCalls, State), (AdminCalls, Admin)):
        assert methods(bound).keys() == methods(alone).keys() - {"close"}


def test_tags_of_fields_are_those_of_the_page() -> None:
    """The page has the tag of each field, and the page for shim authors knows the tags."""
    rows = {code_spans(row[0])[0]: code_spans(row[1])[0] for row in tag_rows()}
    assert rows == TAGS
    text = "\n".join(SHIMS.lines)
    assert [tag for tag in TAGS.values() if f"| allocation | `{tag}`" not in text] == []


def tag_rows() -> list[list[str]]:
    """The rows of the table whose first column is a field of an ask."""
    lines = [line for line in PAGE.lines if line.startswith(tuple(f"| `{name}` |" for name in TAGS))]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
