"""Caps on the size and number of things on the wire, and checks of texts (reliability: bombs).

A cap is checked before any work is done for the thing that it bounds.
"""

from collections.abc import Mapping

from licorne_core.config import document
from licorne_core.errors import shown

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
MAX_ITEMS = 100_000
"""Items (nodes, applications, asks, releases) in one message."""

MAX_ITEM_BYTES = 256 * 1024
ADVISED_ITEMS = 1_000
"""What Welcome tells clients to keep to."""

MAX_ID = 512
MAX_RM_ID = 128
MAX_NAME = 253
MAX_QUEUE_PATH = 4096
MAX_TYPES = 64
MAX_TAGS = 64
MAX_TAG_BYTES = 64 * 1024
MAX_ATTRIBUTES = 256
MAX_GROUPS = 1024
MAX_CONFIG_BYTES = document.MAX_BYTES
MAX_RMS = 1024
MAX_REFUSALS = 1_000
"""Nodes refused by one answer; no predicate check has more."""

MAX_REASON = 256
"""Characters of a reason for which an RM refuses a node; the rest is cut off."""


def id_problem(field: str, value: str, limit: int = MAX_ID) -> str:
    """What is wrong with an id, or the empty text. An id is a name that is not empty."""
    if not value:
        return f"{field} is empty"
    return text_problem(field, value, limit)


def text_problem(field: str, value: str, limit: int = MAX_ID) -> str:
    """What is wrong with a name, or the empty text. A name may be empty, and is printable."""
    if len(value) > limit:
        return f"{field} has {len(value)} characters, at most {limit} are allowed: {shown(value)}"
    if not value.isprintable():
        return f"{field} holds control characters: {shown(value)}"
    return ""


def rm_id_problem(value: str) -> str:
    """What is wrong with an rmID, or the empty text. Brackets could forge partition names."""
    problem = id_problem("rmID", value, MAX_RM_ID)
    if not problem and ("[" in value or "]" in value):
        problem = f"rmID must not hold '[' or ']': {shown(value)}"
    return problem


def map_problem(field: str, size: int, limit: int) -> str:
    """What is wrong with the size of a map or list, or the empty text."""
    return f"{field} has {size} entries, at most {limit} are allowed" if size > limit else ""


def tags_problem(field: str, tags: Mapping[str, str], limit: int = MAX_TAGS) -> str:
    """What is wrong with a map of texts, or the empty text."""
    if len(tags) > limit:
        return map_problem(field, len(tags), limit)
    size = 0
    for key, value in tags.items():
        size += len(key) + len(value)
        if len(key) > MAX_ID or not key.isprintable():
            return text_problem(f"{field} key", key)
    if size > MAX_TAG_BYTES:
        return f"{field} has {size} characters, at most {MAX_TAG_BYTES} are allowed"
    return ""
