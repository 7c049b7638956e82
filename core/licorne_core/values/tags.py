"""Tags of applications and asks that mean something to the core: their names, and readers of their values.

The names begin with ``licorne/`` and are compared exactly. A value that is not understood rejects the
application or the ask. Other tags are kept and not read here.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from licorne_core.values.errors import Refusal, Rejected, shown

RUNTIME: Final = "licorne/runtime"
"""The seconds that an allocation runs: a promise of the RM, which nothing enforces."""

START_BY: Final = "licorne/start-by"
"""The latest start that is wanted, in unix seconds."""

_MOST_DIGITS: Final = 10
"""Three hundred years of seconds have as many."""


def read_seconds(tags: Mapping[str, str], name: str) -> int | None:
    """Whole seconds above zero in the tag; None without the tag.

    Raises:
        Rejected: the value is something else.
    """
    text = tags.get(name)
    if text is None:
        return None
    if len(text) > _MOST_DIGITS or not (text.isascii() and text.isdecimal()) or not int(text):
        text = f"tag {name}: '{shown(text)}' is no whole number of seconds above zero"
        raise Rejected(text, Refusal.INVALID)
    return int(text)


_READERS: Final[Mapping[str, Callable[[Mapping[str, str], str], Any]]] = {
    RUNTIME: read_seconds,
    START_BY: read_seconds,
}


def check_tags(tags: Mapping[str, str]) -> None:
    """Read all tags that mean something.

    Raises:
        Rejected: a value is not understood.
    """
    for name, read in _READERS.items():
        if name in tags:
            read(tags, name)
