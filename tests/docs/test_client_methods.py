"""The tables of methods on the clients' pages, compared with the source."""

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
    """Public methods of a class, inherited ones included, with their parameters."""
    return {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(client, inspect.isfunction)
        if not name.startswith("_")
    }


def shown(title: str) -> dict[str, list[str]]:
    """Methods of a table, with their named parameters."""
    calls = [code_spans(row[0])[0] for row in PAGE.table(title)]
    split = (call.removesuffix(")").partition("(") for call in calls)
    return {name: inside.split(", ") if inside else [] for name, _, inside in split}


@pytest.mark.parametrize("client", [Client, State, Admin])
def test_every_method_is_on_the_page(client: type) -> None:
    """The page has exactly the methods of a client, with their parameters."""
    assert shown(f"{client.__name__} methods") == methods(client)


def test_every_method_has_a_line() -> None:
    """Each method has a short description."""
    for title in ("Client methods", "State methods", "Admin methods"):
        assert all(5 < len(row[1]) < 100 for row in PAGE.table(title))


def test_those_of_a_connected_client_are_the_same() -> None:
    """`rm.state` and `rm.admin` have all methods of `State` and `Admin` except `close`."""
    for bound, alone in ((StateCalls, State), (AdminCalls, Admin)):
        assert methods(bound).keys() == methods(alone).keys() - {"close"}


def test_tags_of_fields_are_those_of_the_page() -> None:
    """The page has the tag of each field, and the page for shim authors has the tags."""
    rows = {code_spans(row[0])[0]: code_spans(row[1])[0] for row in tag_rows()}
    assert rows == TAGS
    text = "\n".join(SHIMS.lines)
    assert [tag for tag in TAGS.values() if f"| allocation | `{tag}`" not in text] == []


def tag_rows() -> list[list[str]]:
    """Rows of the table whose first column is a field of an ask."""
    lines = [line for line in PAGE.lines if line.startswith(tuple(f"| `{name}` |" for name in TAGS))]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
