"""Tags of applications and asks that have a meaning for the core: their names, and readers of their values.

The names begin with ``licorne/`` and are compared exactly. An application or ask with an invalid value is
rejected. Other tags are stored without being read.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

from licorne_core.features import table
from licorne_core.values.errors import Refusal, Rejected, shown

RUNTIME: Final = "licorne/runtime"
"""Seconds that an allocation runs: a promise of the RM, which is not enforced."""

CHECKPOINT: Final = "licorne/checkpoint"
"""Checkpoint of a running allocation: the time, in unix seconds, up to which its work is saved."""

STARTED: Final = "licorne/started"
"""Time in unix seconds at which a running allocation began; after a restart only its RM has this time."""

LOST_WORK: Final = "licorne/lost-work"
"""Seconds of work that a running allocation would lose if it was stopped now."""

MOST_DIGITS: Final = 10
"""Maximum number of digits of a number of seconds: ten digits are three hundred years."""


def read_seconds(tags: Mapping[str, str], name: str, *, zero: bool = False) -> int | None:
    """Whole seconds in the tag: above zero, or with `zero` at least zero; None without the tag.

    Raises:
        Rejected: the value is not such a number.
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
    """Readers by tag name, including the readers in the `keys.py` of features."""
    return {**_READERS, **table("keys", "TAGS")}


def check_tags(tags: Mapping[str, str]) -> None:
    """Check the values of all tags that have a meaning for the core.

    Raises:
        Rejected: a value is invalid.
    """
    for name, read in _readers().items():
        if name in tags:
            read(tags, name)
