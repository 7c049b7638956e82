"""Tags of applications and asks that mean something to the core: their names, and readers of their values.

The names begin with ``licorne/`` and are compared exactly. A value that is not understood rejects the
application or the ask. Other tags are kept and not read here.
"""

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import Any, Final, NamedTuple

from licorne_core.values.errors import Refusal, Rejected, shown

RUNTIME: Final = "licorne/runtime"
"""The seconds that an allocation runs: a promise of the RM, which nothing enforces."""

CHECKPOINT: Final = "licorne/checkpoint"
"""Of a running allocation: the unix seconds up to which its work is kept."""

LOST_WORK: Final = "licorne/lost-work"
"""Of a running allocation: the seconds of work that would be lost if it was stopped now."""

TOPOLOGY: Final = "licorne/topology"
"""The level of whose domains a gang has to be, or had better be, in one: ``required=rack``."""

SLICE: Final = "licorne/slice"
"""Number of gang members that have to be in one domain of a level: ``size=18,level=nvlink``."""

MAX_SLICE: Final = 100_000
MAX_LEVEL_NAME: Final = 256

MOST_DIGITS: Final = 10
"""Three hundred years of seconds have as many."""


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


class TopologyTerms(NamedTuple):
    """Terms of a gang about topology domains.

    All members have to be in one domain of the `level`, if that is `required`; if not, it is the narrowest
    domain that fits, from that level up to the whole partition. An empty level is the whole partition. Each
    `slice_size` members of one task group have to be in one domain of `slice_level`; 0 for no gang slices.
    """

    level: str = ""
    required: bool = False
    slice_size: int = 0
    slice_level: str = ""


def read_topology(tags: Mapping[str, str], name: str = TOPOLOGY) -> tuple[str, bool]:
    """The level, and True if it is required; an empty level without the tag.

    Raises:
        Rejected: the value is something else.
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
    """Size and level of gang slices; a size of 0 without the tag.

    Raises:
        Rejected: the value is something else.
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


def read_terms(tags: Mapping[str, str]) -> TopologyTerms | None:
    """Terms of a gang; None for tags without any. Raises Rejected as the readers above."""
    if TOPOLOGY not in tags and SLICE not in tags:
        return None
    return TopologyTerms(*read_topology(tags), *read_slice(tags))


def is_level(name: str) -> bool:
    """True if tags can name a topology level so."""
    return 0 < len(name) <= MAX_LEVEL_NAME and not any(letter in name for letter in "=, ")


_Readers = Mapping[str, Callable[[Mapping[str, str], str], Any]]

_READERS: Final[_Readers] = {
    RUNTIME: read_seconds,
    TOPOLOGY: read_topology,
    SLICE: read_slice,
}


@cache
def _readers() -> _Readers:
    """With those in the `keys.py` of extensions, which are looked up by name, as nothing here names one."""
    modules = import_module("licorne_core.extensions").modules("keys")
    added = {name: read for _, module in modules for name, read in getattr(module, "TAGS", {}).items()}
    return {**_READERS, **added}


def check_tags(tags: Mapping[str, str]) -> None:
    """Read all tags that mean something.

    Raises:
        Rejected: a value is not understood.
    """
    for name, read in _readers().items():
        if name in tags:
            read(tags, name)
