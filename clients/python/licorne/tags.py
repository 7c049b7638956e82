"""Fields of applications and asks that are sent as tags, because messages of `si.v1` lack them.

The server ignores the case of tag names, and so do these functions.
"""

from collections.abc import Mapping
from functools import partial
from operator import attrgetter, index

from licorne.model import Application, Ask
from licorne.values import MAX_KEY, MAX_TIMEOUT, Check, Range, shown, text, whole

RUNTIME_TAG = "licorne/runtime"
START_BY_TAG = "licorne/start-by"
CHECKPOINT_TAG = "licorne/checkpoint"

TAGS: Mapping[str, str] = {
    "required_node": "yunikorn.apache.org/requiredNode",
    "predicate_class": "licorne/predicate-class",
    "traceparent": "licorne/traceparent",
    "runtime": RUNTIME_TAG,
    "start_by": START_BY_TAG,
    "started": "licorne/started",
}
"""The tag of each field of `Ask` that is sent as a tag, by name of the field."""

APPLICATION_TAGS: Mapping[str, str] = {
    "runtime": RUNTIME_TAG,
    "start_by": START_BY_TAG,
    "topology": "licorne/topology",
    "gang_slice": "licorne/slice",
    "gang_min": "licorne/gang-min",
    "gang_max": "licorne/gang-max",
    "gang_step": "licorne/gang-step",
}
"""The tag of each field of `Application` that is sent as a tag, by name of the field."""

RUNTIME = Range(0, int(MAX_TIMEOUT), "0 and 1000000000")
SIZE = Range(0, 100_000, "0 and 100000")
MOMENT = Range(0, 9_999_999_999, "0 and 9999999999")


def _name(field: str, value: object) -> str:
    """The problem with a name that is sent as a tag; empty if there is none. The name may be empty."""
    problem = text(field, value)
    if problem or not isinstance(value, str) or not value:
        return problem
    if len(value) > MAX_KEY:
        return f"{field} has {len(value)} characters: {MAX_KEY} at most can be sent"
    return "" if value.isprintable() else f"{field} is {shown(value)}: it must be printable"


TRACEPARENT = "00-<32 digits of the trace>-<16 of the span>-<2 of flags>"
_TRACE_PARTS = (2, 32, 16, 2)


def _traceparent(field: str, value: object) -> str:
    """The problem with a traceparent of W3C Trace Context; empty if there is none."""
    problem = text(field, value)
    if problem or not isinstance(value, str) or not value or _is_traceparent(value):
        return problem
    return (
        f"{field} is {shown(value)}: it must be {TRACEPARENT}, in lower-case hexadecimal digits, "
        "neither trace nor span all zero"
    )


def _is_traceparent(value: str) -> bool:
    parts = value.split("-")
    if tuple(map(len, parts[:4])) != _TRACE_PARTS or len(value) > MAX_KEY:
        return False
    if any(digit not in "0123456789abcdef" for part in parts[:4] for digit in part):
        return False
    version, trace, span = parts[:3]
    # Later versions may append fields; ff is not a valid version.
    is_known = len(parts) == 4 if version == "00" else version != "ff"
    return is_known and value.isprintable() and bool(trace.strip("0") and span.strip("0"))


MAX_LEVEL = 256
"""Maximum characters of the name of a topology level."""
MAX_SLICE = 100_000
TOPOLOGY = "required=<level> or preferred=<level>"
SLICE = "size=<members>,level=<level>"


def _topology(field: str, value: object) -> str:
    """The problem with a gang's topology; empty if there is none."""
    problem = _name(field, value)
    if problem or not isinstance(value, str) or not value:
        return problem
    kind, _, level = value.partition("=")
    if kind in ("required", "preferred") and _is_level(level):
        return ""
    return f"{field} is {shown(value)}: it must be {TOPOLOGY}"


def _gang_slice(field: str, value: object) -> str:
    """The problem with the slices of a gang; empty if there is none."""
    problem = _name(field, value)
    if problem or not isinstance(value, str) or not value:
        return problem
    parts = dict(part.partition("=")[::2] for part in value.split(","))
    size = parts.get("size", "")
    if value.count(",") == 1 and _is_level(parts.get("level", "")) and _is_count(size):
        return ""
    return f"{field} is {shown(value)}: it must be {SLICE}"


def _is_level(name: str) -> bool:
    return 0 < len(name) <= MAX_LEVEL and not any(sign in name for sign in "=, ")


def _is_count(digits: str) -> bool:
    return digits.isascii() and digits.isdigit() and len(digits) < 10 and 0 < int(digits) <= MAX_SLICE


_runtime = partial(whole, RUNTIME)
_moment = partial(whole, MOMENT)
_size = partial(whole, SIZE)

ASK_FIELDS: Mapping[str, Check] = {
    "required_node": _name,
    "predicate_class": _name,
    "traceparent": _traceparent,
    "runtime": _runtime,
    "start_by": _moment,
    "started": _moment,
}
APPLICATION_FIELDS: Mapping[str, Check] = {
    "runtime": _runtime,
    "start_by": _moment,
    "topology": _topology,
    "gang_slice": _gang_slice,
    "gang_min": _size,
    "gang_max": _size,
    "gang_step": _size,
}


def contradiction(item: Ask | Application) -> tuple[str, str] | None:
    """Name of a field of an item, and name of the tag that contradicts it; None if there is none.

    Fields and tags must be of the right types.
    """
    names = _names(item)
    for attribute, content in _given(item).items():
        name = names[attribute].lower()
        for tag, other in item.tags.items():
            if tag.lower() == name and other != content:
                return attribute, tag
    return None


def all_tags(item: Ask | Application) -> Mapping[str, str]:
    """The tags of an item and of its fields. A field adds no tag if the item has an equal one."""
    given = _given(item)
    if not given:
        return item.tags
    there = {tag.lower() for tag in item.tags}
    names = _names(item)
    said = {names[name]: content for name, content in given.items() if names[name].lower() not in there}
    return {**item.tags, **said}


_OF_ASK = attrgetter(*TAGS)
_OF_APPLICATION = attrgetter(*APPLICATION_TAGS)


def _names(item: Ask | Application) -> Mapping[str, str]:
    return TAGS if isinstance(item, Ask) else APPLICATION_TAGS


def _given(item: Ask | Application) -> Mapping[str, str]:
    """The tags for the fields that are set in an item."""
    values = _OF_ASK(item) if isinstance(item, Ask) else _OF_APPLICATION(item)
    # A fast path: there may be millions of asks, and most have none of these fields.
    if not any(values):
        return {}
    given = zip(_names(item), values, strict=True)
    return {name: value if isinstance(value, str) else str(index(value)) for name, value in given if value}
