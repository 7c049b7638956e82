"""Tables of pages, compared with the source: rules, caps, reasons, texts, targets, events."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from licorne_core.config import caps as config_caps
from licorne_core.handlers.bounds import MAX_TASK_GROUPS
from licorne_core.messages.events.records import EventDetail
from licorne_core.values.resources import MAX_RESOURCE_TYPES
from licorne_core.values.rule_kinds import RULES
from licorne_server.http import pages
from licorne_server.http.ui import feed, looking, page
from licorne_server.process.bounds import PeerBounds
from licorne_server.wire import caps
from support.docs.pages import ROOT, Page, code_spans

CONFIGURATION = Page("docs/configuration.md")
WIRE = Page("docs/wire-reference.md")
EVENTS = Page("docs/events.md")
BOUNDS = Page("docs/bounds.md")

CAPS = {
    "message": ("MAX_MESSAGE_BYTES",),
    "items in a message": ("MAX_ITEMS", "ADVISED_ITEMS"),
    "one item": ("MAX_ITEM_BYTES",),
    "fields of an item, unknown ones too: tags, attributes, amounts, groups": ("MAX_ENTRIES",),
    "tags of an application": ("MAX_APPLICATION_TAGS",),
    "id of a node, allocation key, name of a tag or resource": ("MAX_ID",),
    "id of an application, task group, user": ("MAX_ANNOTATION",),
    "all groups of a user together": ("MAX_ANNOTATION", "MAX_GROUPS"),
    "rmID": ("MAX_RM_ID",),
    "queue path": ("MAX_QUEUE_PATH",),
    "resources of an item": ("MAX_TYPES",),
    "configuration": ("MAX_CONFIG_BYTES",),
    "comment on a configuration": ("MAX_COMMENT_BYTES",),
    "`extraConfig`": ("MAX_EXTRA_BYTES", "MAX_EXTRA_ENTRIES"),
    "fields of a registration, and of any call that has no items, with the entries of "
    "`buildInfo` and `extraConfig`": ("MAX_REQUEST_FIELDS",),
    "tags of an ask that shares results by all of them (`BY_ALL_TAGS`)": ("MAX_CLASS_TAGS",),
    "fields of an `UpdateRequest` itself": ("MAX_UPDATE_FIELDS",),
    "RMs": ("MAX_RMS",),
    "answers to checks in a request": ("MAX_ANSWERS",),
    "nodes refused by an answer": ("MAX_REFUSALS", "MAX_ALL_REFUSALS"),
    "nodes named by an answer about victims": ("MAX_NEEDS",),
    "reason of a refused node": ("MAX_REASON",),
    "state of the RM in a dump": ("MAX_STATE_DUMP", "MAX_STATE_VALUES"),
}
CONFIGURATION_CAPS = {
    "bytes": config_caps.MAX_BYTES,
    "values, keys included": config_caps.MAX_NODES,
    "properties of a queue or a template": config_caps.MAX_PROPERTIES,
}
UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2}

RAISING = {
    "failed_precondition": 1,
    "aborted": 1,
    "out_of_range": 1,
    "exhausted": 1,
    "invalid_argument": 2,
    "error_info": 0,
    "FairLock": 1,
    "refusing": 1,
}
"""Functions that create an error with a reason, and the position of the reason in their arguments."""


def parsed(*folders: str) -> Iterator[tuple[Path, ast.AST]]:
    """All AST nodes of all source files."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield path, node


def test_every_kind_of_placement_rule_is_on_the_page() -> None:
    """The page has the kinds of rules that a configuration may use, with their values."""
    rows = CONFIGURATION.table("Kinds of placement rules")
    shown = {code_spans(name)[0]: bool(value) for name, _, value in rows}
    assert shown == {name: bool(kind.value_names) for name, kind in RULES.items()}


def test_every_cap_is_on_the_page() -> None:
    """Every cap of the wire is on the page with its number."""
    rows = {row[0]: row[1] for row in WIRE.table("Caps")}
    assert rows.pop("values of tags and attributes") == "the size of the item"
    assert numbers(rows.pop("kinds of resources in a partition")) == [MAX_RESOURCE_TYPES]
    assert numbers(rows.pop("task groups that the placeholders of an application name until it ends")) == [
        MAX_TASK_GROUPS
    ]
    assert {what: numbers(text) for what, text in rows.items()} == {
        what: [getattr(caps, name) for name in names] for what, names in CAPS.items()
    }
    in_source = {name for name in vars(caps) if name.isupper()}
    assert in_source == {name for names in CAPS.values() for name in names}


def numbers(text: str) -> list[int]:
    """Numbers in a text, in bytes if they have a unit."""
    found = re.findall(r"(\d[\d,]*)(?: (KiB|MiB))?", text)
    return [int(digits.replace(",", "")) * UNITS[unit] for digits, unit in found]


def test_error_reasons_are_on_the_page() -> None:
    """The page has exactly the reason codes of calls and streams."""
    rows = WIRE.table("Errors of calls and streams")
    shown = {reason for row in rows for reason in code_spans(row[1])}
    assert shown == set(reasons())


def reasons() -> Iterator[str]:
    """Reason codes in the source of the server."""
    for _, node in parsed("server/licorne_server"):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = RAISING.get(node.func.id)
            if place is not None and len(node.args) > place:
                argument = node.args[place]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


@pytest.mark.slow
def test_rejections_on_the_page_are_those_of_the_source() -> None:
    """The source has every text of a rejection that the page has."""
    texts = {text_of(node) for _, node in parsed("core/licorne_core", "server/licorne_server")}
    assert [pattern.pattern for pattern in shown_rejections() if not any(map(pattern.fullmatch, texts))] == []


def shown_rejections() -> list[re.Pattern[str]]:
    """Reasons on the page as patterns: each ``<name>`` matches any value."""
    spans = [text for row in WIRE.table("Rejections") for text in code_spans(row[1])]
    return [re.compile(".+".join(map(re.escape, re.split("<[^>]+>", span)))) for span in spans]


def text_of(node: ast.AST) -> str:
    """First line of a text in the source, with ``<>`` in place of each value."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "<>"
        for part in parts
    ]
    return "" if texts == ["<>"] else "".join(texts).partition("\n")[0]


def test_bounds_of_peers_are_on_the_page() -> None:
    """Quotas of peers are on the page with their numbers."""
    usual = PeerBounds()
    rows = BOUNDS.table("What one peer may have")
    assert [(numbers(row[1]), numbers(row[2])) for row in rows[:4]] == [
        ([usual.waiting], [usual.waiting_share]),
        ([usual.calls], [usual.calls_share]),
        ([usual.calls], [usual.calls_share]),
        ([usual.watchers], [usual.watchers_share]),
    ]
    assert numbers(rows[-1][1]) == [usual.http_connections]


def test_caps_of_configurations_are_those_of_the_source() -> None:
    """The caps on the page have the numbers of the source."""
    rows = BOUNDS.table("How large may a configuration be?")
    in_source = {
        cap.what: cap.limit for cap in vars(config_caps).values() if isinstance(cap, config_caps.Cap)
    }
    assert {what: int(limit) for what, limit in rows}.items() <= {**in_source, **CONFIGURATION_CAPS}.items()


def test_bounds_of_the_web_page_are_documented() -> None:
    """Bounds of the web page have their numbers, in order of the table."""
    rows = Page("docs/ui.md").table("Updates")
    assert [numbers(row[1]) for row in rows] == [
        [feed.MAX_VIEWERS],
        [feed.MAX_VIEWERS_OF_PEER],
        [looking.MAX_QUEUES],
        [pages.MAX_PAGE],
        [page.HITS],
    ]


def test_events_are_on_the_page() -> None:
    """The table of events has exactly the kinds that the core makes."""
    made = {
        node.attr
        for _, node in parsed("core")
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "EventDetail"
    }
    kinds = {detail.name for detail in EventDetail}
    named = {span for line in EVENTS.prose for span in code_spans(line)} & kinds
    assert named == made - {EventDetail.DETAILS_NONE.name}
