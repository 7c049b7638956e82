"""Commands of other installed distributions.

A distribution adds commands by an entry point of the group `licorne.commands`. The entry point names a
mapping from commands to their modules and help lines. The module of the mapping is imported for every command
line, so it should import nothing.
"""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from licorne_cli.output.text import printable, say

COMMANDS = "licorne.commands"
BUILD = "licorne.build"
"""Groups of entry points: for mappings of commands, and for a function that describes the server here."""

BROUGHT_BY = {
    "serve": "licorne-server",
    "settings": "licorne-server",
    "validate-config": "licorne-server",
    "simulate": "licorne-server",
    "demo": "licorne-server",
    "dev": "licorne-server",
    "replay": "licorne-server",
    "why": "licorne-server",
    "fake-rm": "licorne-server",
    "bench": "licorne-tools",
}
"""By command of another distribution: the name of that distribution."""


@cache
def plugged_in() -> Mapping[str, tuple[str, str]]:
    """The commands of all other distributions, by name."""
    found: dict[str, tuple[str, str]] = {}
    for entry in _entries(COMMANDS):
        found |= _loaded(entry) or {}
    return found


def build_here() -> Any | None:
    """The build of the server that is installed here; None if there is none."""
    for entry in _entries(BUILD):
        describe = _loaded(entry)
        if describe is not None:
            return describe()
    return None


def _entries(group: str) -> list[EntryPoint]:
    # Two folders on the path may contain the same distribution.
    return sorted(set(entry_points(group=group)), key=lambda entry: (entry.name, entry.value))


def _loaded(entry: EntryPoint) -> Any | None:
    """The object that an entry point names; if it cannot be imported, None, and a line on stderr."""
    try:
        return entry.load()
    except (ImportError, AttributeError) as error:
        say(printable(f"licorne: {entry.value} is left out: {error}"))
        return None
