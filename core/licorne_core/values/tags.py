"""Tags of applications and asks that mean something to the core: their names, and readers of their values.

The names begin with ``licorne/`` and are compared exactly. An invalid value causes rejection of the
application or ask. Other tags are stored unread.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from licorne_core.features import table
from licorne_core.values.errors import Refusal, Rejected, shown

RUNTIME: Final = "licorne/runtime"
"""The seconds that an allocation runs: a promise of the RM, which nothing enforces."""

CHECKPOINT: Final = "licorne/checkpoint"
"""Checkpoint of a running allocation: its work up to this time, in unix seconds, is saved."""

STARTED: Final = "licorne/started"
"""Time in unix seconds at which a running allocation began, which only its RM knows after a restart."""

LOST_WORK: Final = "licorne/lost-work"
"""Seconds of work that a running allocation would lose if it was stopped now."""

MOST_DIGITS: Final = 10
"""Maximum number of digits of a number of seconds: ten digits are three hundred years."""


def read_seconds(tags: Mapping[str, str], name: str, *, zero: bool = False) -> int | None:
    """Whole seconds above zero in the tag, or from `zero` up; None without the tag.

    Raises:
        Rejected: the value is something else.
    """
    text = tags.get(name)
    if text is None:
        return None
    is_whole = len(text) <= MOST_DIGITS and text.isascii() and text.isdecimal()
    if not is_whole or not (zero or int(text)):
        text = f"tag {name}: '{shown(text)}' is no whole number of seconds{'' if zero else ' above zero'}"
        raise Rejected(text, Refusal.INVALID)
    return int(text)


_Readers = Mapping[str, Callable[[Mapping[str, str], str], Any]]

_READERS: Final[_Readers] = {RUNTIME: read_seconds}


@cache
def _readers() -> _Readers:
    """Readers by tag name, including those in the `keys.py` of features."""
    return {**_READERS, **table("keys", "TAGS")}


def check_tags(tags: Mapping[str, str]) -> None:
    """Read all tags that mean something.

    Raises:
        Rejected: a value is not understood.
    """
    for name, read in _readers().items():
        if name in tags:
            read(tags, name)
