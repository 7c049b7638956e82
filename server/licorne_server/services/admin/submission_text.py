"""Texts that describe an application and its asks, for plans: `licorne submit --dry-run`."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from licorne.si.v1 import si_pb2 as si
from licorne_core.config.document import read_document
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.report import Report
from licorne_core.values.priorities import INT32_MAX, INT32_MIN

MAX_ASKS = 1_000
"""Asks of all entries together."""

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of all asks: an entry may stand for many."""

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
class Submission:
    """An application and its asks, as an RM would send them."""

    application: si.AddApplicationRequest
    asks: list[si.Allocation]


def read_submission_text(text: str) -> Submission:
    """Reads a submission in YAML or JSON. Quantities are written as in a configuration.

    Raises:
        ConfigError: it cannot be used; the error has every problem that was found.
    """
    report = Report()
    document = read_document(text, report)
    if document is None:
        report.problem("the text describes no application", "")
        report.raise_problems()
    assert document is not None, "nothing but an empty text has no document"
    cursor = Cursor(document, "", report)
    fields = cursor.fields(*_KEYS)
    if not cursor.is_mapping:
        report.raise_problems()
    app_id = _needed(fields, "application")
    asks = list(_asks(fields, app_id))
    application = si.AddApplicationRequest(
        applicationID=app_id,
        queueName=fields.text("queue"),
        partitionName=fields.text("partition"),
        ugi=si.UserGroupInformation(user=_needed(fields, "user"), groups=fields.texts("groups")),
        tags=fields.mapping("tags"),
        placeholderAsk=_placeholders(asks),
        gangSchedulingStyle=_style(fields),
    )
    if len({ask.allocationKey for ask in asks}) < len(asks):
        report.problem("two asks have the same name", fields.path("asks"))
    report.raise_problems()
    return Submission(application, asks)


def _needed(fields: Fields, key: str) -> str:
    text = fields.text(key)
    if not text:
        fields.owner.report.problem(f"'{key}' is missing", fields.path(key))
    return text


def _style(fields: Fields) -> str:
    style = fields.text("gangstyle")
    if style not in STYLES:
        message = f"unknown gang style '{style}', expected Soft or Hard"
        fields.owner.report.problem(message, fields.path("gangstyle"))
    return style


def _asks(fields: Fields, app_id: str) -> Iterator[si.Allocation]:
    total = size = 0
    report = fields.owner.report
    for number, cursor in enumerate(fields.items("asks")):
        entry = cursor.fields(*_ASK_KEYS)
        count = entry.count("count") if entry.has("count") else 1
        total += count
        if count < 1:
            report.problem("expected at least 1", entry.path("count"))
        if total > MAX_ASKS:
            report.problem(f"more than {MAX_ASKS} asks in all", entry.path("count"))
            return
        name = entry.text("name") or f"ask-{number + 1}"
        one = _ask(entry, app_id)
        size += count * (one.ByteSize() + len(name))
        if size > MAX_BYTES:
            report.problem(f"the asks have more than {MAX_BYTES} bytes in all", cursor.path)
            return
        for index in range(count):
            ask = si.Allocation()
            ask.CopyFrom(one)
            ask.allocationKey = name if count == 1 else f"{name}-{index + 1}"
            yield ask


def _ask(entry: Fields, app_id: str) -> si.Allocation:
    tags = entry.mapping("tags")
    node = entry.text("requirednode")
    if node:
        tags[REQUIRED_NODE] = node
    placeholder, group = entry.flag("placeholder"), entry.text("taskgroup")
    if placeholder and not group:
        entry.owner.report.problem("a placeholder needs a taskgroup", entry.path("placeholder"))
    amounts = entry.resources("resources")
    if not entry.has("resources"):
        entry.owner.report.problem("'resources' are missing", entry.path("resources"))
    return si.Allocation(
        applicationID=app_id,
        resourcePerAlloc=_resource(amounts or {}),
        priority=_priority(entry),
        taskGroupName=group,
        placeholder=placeholder,
        allocationTags=tags,
        preemptionPolicy=si.PreemptionPolicy(
            allowPreemptSelf=entry.flag("allowpreemptself"),
            # As the shim of Kubernetes says it for pods whose priority class does not forbid it.
            allowPreemptOther=entry.flag("allowpreemptother", default=True),
        ),
    )


def _priority(entry: Fields) -> int:
    text = entry.text("priority")
    digits = text.removeprefix("-")
    if not text:
        return 0
    if digits.isascii() and digits.isdecimal() and len(digits) <= len(str(INT32_MAX)):
        value = int(text)
        if INT32_MIN <= value <= INT32_MAX:
            return value
    message = f"expected a whole number from {INT32_MIN} to {INT32_MAX}, found '{text}'"
    entry.owner.report.problem(message, entry.path("priority"))
    return 0


def _placeholders(asks: list[si.Allocation]) -> si.Resource:
    """The sum of all placeholders, which is the ask of a gang."""
    total: Counter[str] = Counter()
    for ask in asks:
        if ask.placeholder:
            amounts = ask.resourcePerAlloc.resources
            total.update({name: amounts[name].value for name in amounts})
    return _resource(total)


def _resource(amounts: Mapping[str, int]) -> si.Resource:
    return si.Resource(resources={name: si.Quantity(value=amounts[name]) for name in sorted(amounts)})
