"""The page on commands has what the commands have: exit codes, variables, options, filters."""

import re

import pytest

from licorne_server.__main__ import INTERRUPTED, parser_for
from licorne_server.cli import connection, listing
from licorne_server.cli.completion import SHELLS
from licorne_server.cli.completion_spec import specs_of
from licorne_server.cli.target import DEFAULT_TARGET, VARIABLES
from support.pages import Page, code_spans

PAGE = Page("docs/commands.md")
FILTERED = ("queues", "apps", "nodes", "users", "events")


def options_of(command: str) -> set[str]:
    """The long options of a command."""
    [spec] = [s for s in specs_of(parser_for(command)) if s.words == (command,)]
    flags = {flag for option in spec.options for flag in option.flags}
    return {flag for flag in flags if flag.startswith("--")}


def test_exit_codes() -> None:
    """All of them, and no others."""
    named = (connection.OK, connection.USAGE, connection.UNREACHABLE, connection.NOT_FOUND)
    codes = {*named, connection.REFUSED, INTERRUPTED}
    assert {int(row[0]) for row in PAGE.table("Exit codes")} == codes


def test_variables() -> None:
    """Every key of a context has its variable in the environment."""
    rows = PAGE.table("Which server")
    shown = {code_spans(row[0])[0]: code_spans(row[1])[0] for row in rows}
    assert shown == VARIABLES
    assert DEFAULT_TARGET in "\n".join(PAGE.lines)


@pytest.mark.parametrize("command", FILTERED)
def test_what_chooses(command: str) -> None:
    """Every option of a command is said to be common to all, or to choose what is shown."""
    text = "\n".join(PAGE.lines)
    [row] = [line for line in PAGE.lines if line.startswith(f"| `{command}` |")]
    common = set(re.findall(r"--[a-z-]+", text[: text.index("What is shown is chosen by")]))
    contexts = {f"--{key}" for key in VARIABLES} | {"--context", "--help", "--output"}
    own = options_of(command) - common - contexts - {"--follow", "--selector"}
    assert own <= set(re.findall(r"--[a-z-]+", row))


def test_forms() -> None:
    """Every form of a list is on the page."""
    text = "\n".join(PAGE.lines)
    assert all(f"`-o {form}`" in text for form in listing.FORMS)
    assert all(f"licorne completion {shell}\n" in text for shell in SHELLS)
