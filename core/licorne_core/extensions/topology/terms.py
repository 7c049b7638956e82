"""Tags of applications whose gangs have constraints on topology domains, and their readers."""

from collections.abc import Mapping
from typing import Final

from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.tags import MOST_DIGITS

TOPOLOGY: Final = "licorne/topology"
"""Tag with the level of which one domain should hold, or has to hold, all members: ``required=rack``."""

SLICE: Final = "licorne/slice"
"""Tag with the number of members that have to be in one domain of a level: ``size=18,level=nvlink``."""

MAX_SLICE: Final = 100_000
MAX_LEVEL_NAME: Final = 256


def read_topology(tags: Mapping[str, str], name: str = TOPOLOGY) -> tuple[str, bool]:
    """The level, and True if it is required; the level is empty if the tag is missing.

    Raises:
        Rejected: the value is invalid.
    """
    text = tags.get(name)
    if text is None:
        return "", False
    kind, _, level = text.partition("=")
    if kind not in ("required", "preferred") or not is_level(level):
        text = f"tag {name}: '{shown(text)}' is neither required=LEVEL nor preferred=LEVEL"
        raise Rejected(text, Refusal.INVALID)
    return level, kind == "required"


def read_slice(tags: Mapping[str, str], name: str = SLICE) -> tuple[int, str]:
    """Size and level of gang slices; the size is 0 if the tag is missing.

    Raises:
        Rejected: the value is invalid.
    """
    text = tags.get(name)
    if text is None:
        return 0, ""
    parts = dict(part.partition("=")[::2] for part in text.split(",", 2))
    size, level = parts.get("size", ""), parts.get("level", "")
    is_number = len(size) <= MOST_DIGITS and size.isascii() and size.isdecimal()
    if parts.keys() != {"size", "level"} or not (is_number and is_level(level)) or text.count(",") != 1:
        text = f"tag {name}: '{shown(text)}' is not of the form size=NUMBER,level=LEVEL"
        raise Rejected(text, Refusal.INVALID)
    if not 0 < int(size) <= MAX_SLICE:
        raise Rejected(f"tag {name}: size {size} is not from 1 to {MAX_SLICE}", Refusal.INVALID)
    return int(size), level


def is_level(name: str) -> bool:
    """True if a tag can refer to a level by this name."""
    return 0 < len(name) <= MAX_LEVEL_NAME and not any(letter in name for letter in "=, ")
