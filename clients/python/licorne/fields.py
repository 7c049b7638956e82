"""Checks the caller's items before they are stored or sent.

An invalid field raises Rejected with the field's name and value. Protobuf would name neither, and would
accept None as unset and bytes as text. An argument of the wrong type is an error in the program, so it raises
TypeError.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeVar

from licorne.errors import Rejected
from licorne.model import Allocation, Application, Ask, Node, TaskGroup, placeholder_ask, placeholder_key
from licorne.tags import APPLICATION_FIELDS, ASK_FIELDS, contradiction
from licorne.values import (
    AMOUNT,
    INSTANCE,
    INT32,
    MAX_KEY,
    MAX_TIMEOUT,
    MEMBERS,
    Check,
    amounts,
    flag,
    seconds,
    shown,
    tags,
    text,
    texts,
    whole,
)

T = TypeVar("T")

_NODE: Mapping[str, Check] = {
    "node_id": text,
    "capacity": amounts,
    "attributes": tags,
    "partition": text,
    "drained": flag,
}
STYLES = ("", "Soft", "Hard")
MAX_GROUPS = 1000
"""Maximum number of task groups of an application that the server accepts."""


def _group_name(field: str, value: object) -> str:
    """The problem with the name of a task group; empty if there is none."""
    problem = text(field, value)
    if problem or not isinstance(value, str):
        return problem
    if not value:
        return f"{field} is empty"
    return "" if value.isprintable() else f"{field} is {shown(value)}: it must be printable"


def _style(field: str, value: object) -> str:
    """The problem with the style of a gang; empty if there is none."""
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
    """The problem with the task groups of an application; empty if there is none."""
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
    **APPLICATION_FIELDS,
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
    **ASK_FIELDS,
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
    """List the nodes. Raises TypeError for anything but nodes, and Rejected for an invalid field."""
    taken = _listed("nodes", "Node", Node, given)
    for item in taken:
        _check(item, _NODE, item.node_id)
    return taken


def applications(given: Iterable[Application]) -> list[Application]:
    """List the applications. Raises TypeError and Rejected like `nodes`."""
    taken = _listed("applications", "Application", Application, given)
    for item in taken:
        _check(item, _APPLICATION, item.application_id)
        _check_tags(item, item.application_id)
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
    """List the asks; `name` is the argument in an error. Raises TypeError and Rejected like `nodes`."""
    taken = _listed(name, "Ask", Ask, given)
    for item in taken:
        _check(item, _ASK, item.key)
        _check_tags(item, item.key)
    return taken


def _check_tags(item: Ask | Application, key: str) -> None:
    if item.tags and (found := contradiction(item)):
        field, tag = found
        value, content = shown(getattr(item, field)), shown(item.tags[tag])
        raise Rejected(key, f"{field} is {value}: the tag {shown(tag)} is {content}")


def allocations(given: Iterable[Allocation]) -> list[Allocation]:
    """List the allocations. Raises TypeError and Rejected like `nodes`."""
    taken = _listed("allocations", "Allocation", Allocation, given)
    for item, ask in zip(taken, asks([item.ask for item in taken], "ask"), strict=True):
        _check(item, {"node_id": text}, ask.key)
    return taken


def keys(given: Iterable[str]) -> list[str]:
    """List the keys of asks. Raises TypeError for anything but texts."""
    return _listed("keys", "keys", str, given)


def identifier(name: str, given: str) -> str:
    """Return the id in the argument `name`. Raises TypeError if it is not a text."""
    if not isinstance(given, str):
        raise TypeError(f"{name} is {shown(given)}: it must be a text")
    return given


def check_registration(**values: object) -> None:
    """Raise ValueError for the first of a client's arguments that cannot be sent."""
    for name, value in values.items():
        problem = _REGISTRATION[name](name, value)
        if problem:
            raise ValueError(problem)


def _listed(name: str, wanted: str, kind: type[T], given: Iterable[T]) -> list[T]:
    """List the items of an argument. Raises TypeError for a text, although its characters can be iterated."""
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
            # The key itself may be the invalid field.
            raise Rejected(key if isinstance(key, str) else shown(key), problem)
