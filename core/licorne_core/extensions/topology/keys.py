"""The properties `topology.levels` of root, and `topology.swap-seconds` of a leaf; and the tags."""

from typing import Any, Final

from licorne_core.config.forms import Form, Property, UnusableError, whole
from licorne_core.config.kinds import Key, Kind
from licorne_core.extensions.topology import NAME, STANDARD_SWAP, SWAP_SECONDS
from licorne_core.extensions.topology.terms import SLICE, TOPOLOGY, is_level, read_slice, read_topology

MAX_LEVELS: Final = 8
"""Maximum number of levels of topology domains."""


def _read_levels(text: str) -> tuple[str, ...]:
    """Distinct names of node attributes, from a text such as ``zone,rack``."""
    names = tuple(name.strip() for name in text.split(",", MAX_LEVELS))
    usable = all(is_level(name) and name[0].isalnum() for name in names)
    if not usable or len(names) > MAX_LEVELS or len(set(names)) < len(names):
        raise UnusableError(f"is no list of at most {MAX_LEVELS} different node attributes")
    return names


_LEVELS: Final = Form(Kind.NAME_LIST, _read_levels, ",".join)
_SECONDS: Final = whole(0, 86_400)

PROPERTIES = (
    Property(
        Key(
            "topology.levels",
            _LEVELS.kind,
            "names of the node attributes that name topology domains, the widest first: `zone,rack,nvlink`. "
            "Without it tags about topology are refused",
            "6",
            where="root",
        ),
        NAME,
        _LEVELS,
        after="reservation.idle.timeout",
    ),
    Property(
        Key(
            "topology.swap-seconds",
            _SECONDS.kind,
            "the seconds for which the place of a gang member that was lost with its node is reserved",
            "6",
            _SECONDS.write(STANDARD_SWAP),
            allowed=_SECONDS.allowed,
            where="leaf",
        ),
        SWAP_SECONDS,
        _SECONDS,
        after="reservation.idle.timeout",
        standard=STANDARD_SWAP,
        needs="topology.levels",
    ),
)
TAGS: dict[str, Any] = {TOPOLOGY: read_topology, SLICE: read_slice}
