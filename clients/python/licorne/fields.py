"""Checks the caller's items, before anything is done with them.

A field that the wire cannot carry is refused with its name and its value. Protobuf would name neither, and
would accept None as unset and bytes as text. An argument of the wrong type is a mistake of the program, so
it raises TypeError.
"""

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple, SupportsIndex, TypeVar

from licorne.errors import Rejected
from licorne.model import (
    Allocation,
    Application,
    Ask,
    Node,
    TaskGroup,
    contradiction,
    has_fields,
    placeholder_ask,
    placeholder_key,
)

MAX_SHOWN = 64
"""Characters of a value that an error repeats."""

Check = Callable[[str, object], str]
"""Takes the name of a field and its value; returns the problem, or the empty text."""

T = TypeVar("T")

# The plain class first: `isinstance` is slow with an abstract one, and asks come by the million.
_MAPPINGS = (dict, Mapping)


class Range(NamedTuple):
    """The whole numbers that a field can carry."""

    low: int
    high: int
    bounds: str
    """Both bounds in the words of an error."""
    subject: str = "it"
    """Name of the number in an error."""


MOST = 2**63 - 1
AMOUNT = Range(0, MOST, "0 and 2^63 - 1", "an amount")
INT32 = Range(-(2**31), 2**31 - 1, "-2^31 and 2^31 - 1")
INT64 = Range(-(2**63), 2**63 - 1, "-2^63 and 2^63 - 1")
MEMBERS = Range(1, 1_000_000, "1 and 1000000")
MAX_TIMEOUT = 1e9
"""Seconds, some thirty years; the server counts in nanoseconds, of which it has 2^63."""
INSTANCE = Range(1, 2**64 - 1, "1 and 2^64 - 1")


def shown(value: object) -> str:
    """A value as an error repeats it: short, on one line, and in characters of any encoding."""
    if isinstance(value, int) and value.bit_length() > 200:
        # Python refuses to print a number of thousands of digits.
        return f"a number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def text(field: str, value: object) -> str:
    """The problem of a text, or the empty text."""
    if not isinstance(value, str):
        return f"{field} is {shown(value)}: it must be a text"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            return f"{field} is {shown(value)}: it holds a lone surrogate, which UTF-8 has not"
    return ""


def whole(limits: Range, field: str, value: object) -> str:
    """The problem of a whole number, of whatever type, or the empty text."""
    if type(value) is int and limits.low <= value <= limits.high:
        return ""
    number: int | None = None
    # Python counts True as 1, which is hardly ever intended.
    if isinstance(value, SupportsIndex) and not isinstance(value, bool):
        with suppress(TypeError):
            number = operator.index(value)
    if number is None:
        return f"{field} is {shown(value)}: {limits.subject} must be a whole number"
    if not limits.low <= number <= limits.high:
        return f"{field} is {shown(number)}: {limits.subject} must lie between {limits.bounds}"
    return ""


def seconds(field: str, value: object, low: float = 0, high: float = math.inf) -> str:
    """The problem of a time in seconds, or the empty text."""
    # "Not a number" lies between no two numbers.
    if isinstance(value, int | float) and low <= value <= high:
        return ""
    bounds = f"{low:g} or more" if high == math.inf else f"between {low:g} and {high:g}"
    return f"{field} is {shown(value)}: it must be seconds, {bounds}"


def flag(field: str, value: object) -> str:
    """The problem of a flag, or the empty text."""
    if value is False or value is True or (isinstance(value, int) and value in (0, 1)):
        return ""
    return f"{field} is {shown(value)}: it must be True or False"


def texts(field: str, value: object) -> str:
    """The problem of a list of texts, or the empty text."""
    if isinstance(value, str | bytes) or not isinstance(value, Collection):
        return f"{field} is {shown(value)}: it must be a list of texts"
    problems = (text(f"{field}[{number}]", item) for number, item in enumerate(value))
    return next(filter(None, problems), "")


def tags(field: str, value: object) -> str:
    """The problem of a mapping of texts to texts, or the empty text."""
    if not isinstance(value, _MAPPINGS):
        return f"{field} is {shown(value)}: it must be a mapping of texts to texts"
    for name, content in value.items():
        problem = text(f"a key of {field}", name) or text(f"{field}[{shown(name)}]", content)
        if problem:
            return problem
    return ""


def amounts(field: str, value: object) -> str:
    """The problem of the amounts of resources, or the empty text."""
    if not isinstance(value, _MAPPINGS):
        return f"{field} is {shown(value)}: it must be a mapping of names to amounts"
    for name, amount in value.items():
        if type(name) is str and name.isascii() and type(amount) is int and 0 <= amount <= MOST:
            # The short way for nearly all amounts, of which there may be millions.
            continue
        problem = text(f"a name in {field}", name) or whole(AMOUNT, name, amount)
        if problem:
            return problem
    return ""


_NODE: Mapping[str, Check] = {
    "node_id": text,
    "capacity": amounts,
    "attributes": tags,
    "partition": text,
    "drained": flag,
}
STYLES = ("", "Soft", "Hard")
MAX_GROUPS = 1000
"""Task groups of an application that the server takes."""
MAX_KEY = 512
"""Characters of a key that the server takes."""


def _group_name(field: str, value: object) -> str:
    """The problem of the name of a task group, or the empty text."""
    problem = text(field, value)
    if problem or not isinstance(value, str):
        return problem
    if not value:
        return f"{field} is empty"
    return "" if value.isprintable() else f"{field} is {shown(value)}: it must be printable"


def _style(field: str, value: object) -> str:
    """The problem of the style of a gang, or the empty text."""
    if isinstance(value, str) and value in STYLES:
        return ""
    return f"{field} is {shown(value)}: it must be 'Soft', 'Hard' or empty"


_GROUP: Mapping[str, Check] = {
    "name": _group_name,
    "members": partial(whole, MEMBERS),
    "resources": amounts,
    "priority": partial(whole, INT32),
    "tags": tags,
    "allow_preempt_self": flag,
    "allow_preempt_other": flag,
}


def task_groups(field: str, value: object) -> str:
    """The problem of the task groups of an application, or the empty text."""
    if not isinstance(value, tuple | list):
        return f"{field} is {shown(value)}: it must be a tuple of TaskGroup"
    if len(value) > MAX_GROUPS:
        return f"{field} has {len(value)} entries: there may be {MAX_GROUPS} at most"
    for number, group in enumerate(value):
        here = f"{field}[{number}]"
        if not isinstance(group, TaskGroup):
            return f"{here} is {shown(group)}: it must be a TaskGroup"
        problems = (check(f"{here}.{name}", getattr(group, name)) for name, check in _GROUP.items())
        if problem := next(filter(None, problems), ""):
            return problem
        if not any(group.resources.values()):
            return f"{here}.resources is {shown(group.resources)}: a placeholder must hold some"
        if any(group.name == other.name for other in value[:number]):
            return f"{here}.name is {shown(group.name)}: another group has it"
    return ""


def _name(field: str, value: object) -> str:
    """The problem of a name in a tag, or the empty text; the name itself may be empty."""
    problem = text(field, value)
    if problem or not isinstance(value, str) or not value:
        return problem
    if len(value) > MAX_KEY:
        return f"{field} has {len(value)} characters: {MAX_KEY} at most can be sent"
    return "" if value.isprintable() else f"{field} is {shown(value)}: it must be printable"


TRACEPARENT = "00-<32 digits of the trace>-<16 of the span>-<2 of flags>"
_TRACE_PARTS = (2, 32, 16, 2)


def _traceparent(field: str, value: object) -> str:
    """The problem of a traceparent of W3C Trace Context, or the empty text."""
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
    # Later versions may say more behind the flags; ff is no version.
    is_known = len(parts) == 4 if version == "00" else version != "ff"
    return is_known and value.isprintable() and bool(trace.strip("0") and span.strip("0"))


_APPLICATION: Mapping[str, Check] = {
    "application_id": text,
    "queue": text,
    "user": text,
    "groups": texts,
    "tags": tags,
    "partition": text,
    "task_groups": task_groups,
    "placeholder_resources": amounts,
    "placeholder_timeout": partial(seconds, high=MAX_TIMEOUT),
    "gang_style": _style,
}
_ASK: Mapping[str, Check] = {
    "key": text,
    "application_id": text,
    "resources": amounts,
    "priority": partial(whole, INT32),
    "tags": tags,
    "partition": text,
    "originator": flag,
    "allow_preempt_self": flag,
    "allow_preempt_other": flag,
    "placeholder": flag,
    "task_group": text,
    "required_node": _name,
    "predicate_class": _name,
    "traceparent": _traceparent,
}
_REGISTRATION: Mapping[str, Check] = {
    "rm_id": text,
    "config": text,
    "extra_config": tags,
    "policy_group": text,
    "version": text,
    "build_info": tags,
    "instance": partial(whole, INSTANCE),
}


def nodes(given: Iterable[Node]) -> list[Node]:
    """The nodes. Raises TypeError if they are no list of nodes, Rejected for a bad field."""
    taken = _listed("nodes", "Node", Node, given)
    for item in taken:
        _check(item, _NODE, item.node_id)
    return taken


def applications(given: Iterable[Application]) -> list[Application]:
    """The applications. Raises as `nodes` does."""
    taken = _listed("applications", "Application", Application, given)
    for item in taken:
        _check(item, _APPLICATION, item.application_id)
        if item.task_groups:
            _check_gang(item)
    return taken


def _check_gang(item: Application) -> None:
    if item.placeholder_resources:
        reason = "placeholder_resources is given beside task_groups, which say it already"
        raise Rejected(item.application_id, reason)
    for number, group in enumerate(item.task_groups):
        length = len(placeholder_key(item.application_id, group.name, group.members))
        if length > MAX_KEY:
            reason = f"task_groups[{number}].name makes keys of {length} characters: "
            raise Rejected(item.application_id, f"{reason}{MAX_KEY} at most can be sent")
    for name, amount in placeholder_ask(item).items():
        if problem := whole(AMOUNT, f"{name} of all placeholders", amount):
            raise Rejected(item.application_id, problem)


def asks(given: Iterable[Ask], name: str = "asks") -> list[Ask]:
    """The asks. Raises as `nodes` does."""
    taken = _listed(name, "Ask", Ask, given)
    for item in taken:
        _check(item, _ASK, item.key)
        if has_fields(item) and (found := contradiction(item)):
            field, tag = found
            value, content = shown(getattr(item, field)), shown(item.tags[tag])
            raise Rejected(item.key, f"{field} is {value}: the tag {shown(tag)} is {content}")
    return taken


def allocations(given: Iterable[Allocation]) -> list[Allocation]:
    """The allocations. Raises as `nodes` does."""
    taken = _listed("allocations", "Allocation", Allocation, given)
    for item, ask in zip(taken, asks([item.ask for item in taken], "ask"), strict=True):
        _check(item, {"node_id": text}, ask.key)
    return taken


def keys(given: Iterable[str]) -> list[str]:
    """The keys of asks. Raises TypeError if they are no list of keys."""
    return _listed("keys", "keys", str, given)


def identifier(name: str, given: str) -> str:
    """The id in a method's argument. Raises TypeError if it is no text."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is {shown(given)}: it must be a text")
    return given


def check_registration(**values: object) -> None:
    """Raises ValueError for the first argument of a client that cannot be sent."""
    for name, value in values.items():
        problem = _REGISTRATION[name](name, value)
        if problem:
            raise ValueError(problem)


def _listed(name: str, wanted: str, kind: type[T], given: Iterable[T]) -> list[T]:
    """The items of an argument. A text is refused, though Python iterates its characters."""
    if isinstance(given, str | bytes | kind) or not isinstance(given, Iterable):
        raise TypeError(f"{name} is {shown(given)}: it must be a list of {wanted}")
    taken = list(given)
    for item in taken:
        if not isinstance(item, kind):
            raise TypeError(f"{name} holds {shown(item)}: it must be a list of {wanted}")
    return taken


def _check(item: object, checks: Mapping[str, Check], key: object) -> None:
    for name, check in checks.items():
        problem = check(name, getattr(item, name))
        if problem:
            # The key itself may be the field that is wrong.
            raise Rejected(key if isinstance(key, str) else shown(key), problem)
