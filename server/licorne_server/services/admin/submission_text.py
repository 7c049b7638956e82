"""Texts that describe an application and its asks, for plans: `licorne apps plan`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from licorne.si.v1 import si_pb2 as si
from licorne_core.config.document import read_document
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.report import Report
from licorne_core.values.ranking import INT32_MAX, INT32_MIN

MAX_ASKS = 1_000
"""Maximum number of asks of all entries together."""

MAX_BYTES = 4 * 1024 * 1024
"""Maximum number of bytes of all asks, as one entry may describe many."""

REQUIRED_NODE = "yunikorn.apache.org/requiredNode"
STYLES = ("", "Soft", "Hard")

_KEYS = (
    "application",
    "partition",
    "queue",
    "user",
    "groups",
    "tags",
    "gangstyle",
    "asks",
)
_ASK_KEYS = (
    "name",
    "count",
    "resources",
    "priority",
    "taskgroup",
    "placeholder",
    "requirednode",
    "allowpreemptself",
    "allowpreemptother",
    "tags",
)


@dataclass(frozen=True, slots=True)
class ParsedSubmission:
    """An application and its asks, as an RM would send them."""

    application: si.AddApplicationRequest
    asks: list[si.Allocation]


def read_submission_text(text: str) -> ParsedSubmission:
    """Read a submission in YAML or JSON. Quantities are written as in a configuration.

    Raises:
        ConfigError: the text is invalid; the error lists all problems.
    """
    report = Report()
    document = read_document(text, report)
    if document is None:
        report.problem("the text describes no application", "")
        report.raise_problems()
    assert document is not None, "nothing but an empty text has no document"
    cursor = Cursor(document, "", report)
    fields = cursor.fields(_KEYS)
    if not cursor.is_mapping:
        report.raise_problems()
    app_id = _needed(fields["application"], "application")
    asks = list(_asks(fields["asks"], app_id))
    application = si.AddApplicationRequest(
        applicationID=app_id,
        queueName=fields["queue"].text(),
        partitionName=fields["partition"].text(),
        ugi=si.UserGroupInformation(
            user=_needed(fields["user"], "user"), groups=[group.text() for group in fields["groups"].items()]
        ),
        tags=fields["tags"].texts(),
        placeholderAsk=_placeholders(asks),
        gangSchedulingStyle=_style(fields["gangstyle"]),
    )
    if len({ask.allocationKey for ask in asks}) < len(asks):
        fields["asks"].problem("two asks have the same name")
    report.raise_problems()
    return ParsedSubmission(application, asks)


def _needed(cursor: Cursor, key: str) -> str:
    text = cursor.text()
    if not text:
        cursor.problem(f"'{key}' is missing")
    return text


def _style(cursor: Cursor) -> str:
    style = cursor.text()
    if style not in STYLES:
        cursor.problem(f"unknown gang style '{style}', expected Soft or Hard")
    return style


def _asks(listed: Cursor, app_id: str) -> Iterator[si.Allocation]:
    total = size = 0
    for number, cursor in enumerate(listed.items()):
        entry = cursor.fields(_ASK_KEYS)
        repeated = entry["count"]
        count = 1 if repeated.is_null else repeated.count()
        total += count
        if count < 1:
            repeated.problem("expected at least 1")
        if total > MAX_ASKS:
            repeated.problem(f"more than {MAX_ASKS} asks in all")
            return
        name = entry["name"].text() or f"ask-{number + 1}"
        one = _ask(entry, app_id)
        size += count * (one.ByteSize() + len(name))
        if size > MAX_BYTES:
            cursor.problem(f"the asks have more than {MAX_BYTES} bytes in all")
            return
        for index in range(count):
            ask = si.Allocation()
            ask.CopyFrom(one)
            ask.allocationKey = name if count == 1 else f"{name}-{index + 1}"
            yield ask


def _ask(entry: Fields, app_id: str) -> si.Allocation:
    tags = entry["tags"].texts()
    node = entry["requirednode"].text()
    if node:
        tags[REQUIRED_NODE] = node
    placeholder, group = entry["placeholder"].flag(), entry["taskgroup"].text()
    if placeholder and not group:
        entry["placeholder"].problem("a placeholder needs a taskgroup")
    amounts = entry["resources"].resources()
    if entry["resources"].is_null:
        entry["resources"].problem("'resources' are missing")
    return si.Allocation(
        applicationID=app_id,
        resourcePerAlloc=_resource(amounts or {}),
        priority=_priority(entry["priority"]),
        taskGroupName=group,
        placeholder=placeholder,
        allocationTags=tags,
        preemptionPolicy=si.PreemptionPolicy(
            allowPreemptSelf=entry["allowpreemptself"].flag(),
            # The Kubernetes shim sends True for pods unless their priority class forbids it.
            allowPreemptOther=entry["allowpreemptother"].flag(default=True),
        ),
    )


def _priority(cursor: Cursor) -> int:
    text = cursor.text()
    digits = text.removeprefix("-")
    if not text:
        return 0
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(INT32_MAX)):
        value = int(text)
        if INT32_MIN <= value <= INT32_MAX:
            return value
    cursor.problem(f"expected a whole number from {INT32_MIN} to {INT32_MAX}, found '{text}'")
    return 0


def _placeholders(asks: list[si.Allocation]) -> si.Resource:
    """The total of all placeholders, which is the request of a gang."""
    total: Counter[str] = Counter()
    for ask in asks:
        if ask.placeholder:
            amounts = ask.resourcePerAlloc.resources
            total.update({name: amounts[name].value for name in amounts})
    return _resource(total)


def _resource(amounts: Mapping[str, int]) -> si.Resource:
    return si.Resource(resources={name: si.Quantity(value=amounts[name]) for name in sorted(amounts)})
