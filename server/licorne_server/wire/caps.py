"""Caps on the size and number of items on the wire, and checks of texts.

A cap is checked before any work is done on the item that it bounds. No object that a Kubernetes
cluster can hold exceeds a cap: an object has at most 1.5 MiB, its annotations 256 KiB.
"""

from collections.abc import Iterable, Mapping

from licorne_core.config import caps as configurations
from licorne_core.values import resources
from licorne_core.values.errors import shown

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
MAX_ITEMS = 100_000
"""Maximum number of items (nodes, applications, asks, releases) in one message."""

MAX_ITEM_BYTES = 6 * 1024 * 1024
"""Maximum number of bytes of one item. A pod of 1.5 MiB has at most 174,762 labels. A label takes at least 9
bytes, and 20 more as a tag, because the shim puts a prefix before its name. That makes 4.9 MiB."""

MAX_ENTRIES = 200_000
"""Maximum number of tags, attributes, amounts or groups of one item: more of them, however small, would take
too much memory."""

MAX_APPLICATION_TAGS = 50_000
"""Maximum tags of an application. They come from annotations, of which 256 KiB have at most 43,690."""

MAX_GROUPS = 65_536
"""Maximum number of groups of a user: a list in an annotation takes at least 4 bytes for each."""

MAX_CLASS_TAGS = 10_000
"""Number of tags above which an ask shares no answers by them (`BY_ALL_TAGS`)."""

MAX_REQUEST_FIELDS = 10_000
"""Maximum number of fields of a request without items, including entries of maps."""

MAX_UPDATE_FIELDS = 100
"""Maximum number of fields of an UpdateRequest itself: it has three, and later versions may add some."""

ADVISED_ITEMS = 1_000
"""Maximum number of items in a message, as Welcome advises clients."""

MAX_ID = 512
MAX_RM_ID = 128
MAX_ANNOTATION = 256 * 1024
"""Maximum bytes of a text that shims take from annotations: the limit for all annotations of an object."""

MAX_QUEUE_PATH = 4096
MAX_TYPES = resources.MAX_RESOURCE_TYPES
MAX_CONFIG_BYTES = configurations.MAX_BYTES
MAX_EXTRA_BYTES = 3 * 1024 * 1024
"""Maximum number of bytes of the extra configuration: two config maps."""

MAX_COMMENT_BYTES = 1_024
"""Maximum bytes of the reason for a change: a comment on a configuration, an operator's message."""

MAX_EXTRA_ENTRIES = 2_000
"""Maximum number of entries of an extra configuration: the loop processes each of them."""

MAX_RMS = 1024
MAX_ANSWERS = 16_384
"""Maximum number of answers to checks in one request."""

MAX_REFUSALS = 1_000
"""Maximum number of nodes refused by one answer; no predicate check names more."""

MAX_ALL_REFUSALS = 400_000
"""Maximum number of nodes refused in one request; more ids and reasons would hardly fit into a message."""

MAX_NEEDS = 100
"""Maximum number of nodes named by one answer to a preemption check; no check names more."""

MAX_STATE_DUMP = 1024 * 1024
"""Maximum number of bytes of the JSON that an RM adds to a state dump."""

MAX_STATE_VALUES = 100_000
"""Maximum number of values in that JSON, counted by its commas and brackets."""

MAX_REASON = 256
"""Maximum number of characters of a reason for which an RM refuses a node; longer reasons are cut."""


def id_problem(field: str, value: str, limit: int = MAX_ID) -> str:
    """The problem of an id, or an empty text. An id is a name that is not empty."""
    if not value:
        return f"{field} is empty"
    return text_problem(field, value, limit)


def text_problem(field: str, value: str, limit: int = MAX_ID) -> str:
    """The problem of a name, or an empty text. A name is printable, and may be empty."""
    if len(value) > limit:
        return f"{field} has {len(value)} characters, at most {limit} are allowed: {shown(value)}"
    if not value.isprintable():
        return f"{field} holds control characters: {shown(value)}"
    return ""


def rm_id_problem(value: str) -> str:
    """The problem of an rmID, or an empty text. Brackets are refused: they could forge partition names."""
    problem = id_problem("rmID", value, MAX_RM_ID)
    if not problem and ("[" in value or "]" in value):
        problem = f"rmID must not hold '[' or ']': {shown(value)}"
    return problem


def map_problem(field: str, size: int, limit: int) -> str:
    """The problem of the size of a map or list, or an empty text."""
    return f"{field} has {size} entries, at most {limit} are allowed" if size > limit else ""


def size_problem(field: str, size: int, limit: int) -> str:
    """The problem of a number of bytes, or an empty text."""
    return f"{field} has {size} bytes, at most {limit} are allowed" if size > limit else ""


def bytes_of(texts: Iterable[str]) -> int:
    """Total bytes of all texts."""
    return sum(len(text.encode()) for text in texts)


def extra_problem(field: str, extra: Mapping[str, str]) -> str:
    """The problem of an extra configuration, or an empty text."""
    return map_problem(field, len(extra), MAX_EXTRA_ENTRIES) or size_problem(
        field, bytes_of(extra) + bytes_of(extra.values()), MAX_EXTRA_BYTES
    )


def comment_problem(field: str, comment: str) -> str:
    """The problem of the reason for a change, or an empty text."""
    if not comment.isprintable():
        return f"{field} holds control characters: {shown(comment)}"
    return size_problem(field, bytes_of((comment,)), MAX_COMMENT_BYTES)


def tags_problem(field: str, tags: Iterable[str]) -> str:
    """The problem of the keys of a map of texts, or an empty text."""
    for key in tags:
        if len(key) > MAX_ID or not key.isprintable():
            return text_problem(f"{field} key", key)
    return ""
