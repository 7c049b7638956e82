"""The tables of the pages are those of the source: keys, caps, reasons, texts, commands."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from pathlib import Path

import pytest

from licorne_core.config import extra, load, properties
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.schema import NodeSortType
from licorne_core.errors import ConfigError
from licorne_core.handlers.bounds import MAX_RESOURCE_TYPES, MAX_TASK_GROUPS
from licorne_core.rule_kinds import RULES
from licorne_server import caps
from licorne_server.__main__ import COMMANDS, main
from licorne_server.peer_bounds import PeerBounds
from support.pages import ROOT, Page, code_spans

CONFIGURATION = Page("docs/configuration.md")
SHIMS = Page("docs/shim-authors.md")
CONTRIBUTING = Page("docs/contributing.md")
OPERATING = Page("docs/operating.md")

# Every mapping that there can be, and nothing in it.
EVERYTHING = """
partitions:
  - preemption: {}
    nodesortpolicy: {}
    usergroupresolver: {}
    limits: [{}]
    placementrules: [{filter: {}, parent: {}}]
    queues: [{resources: {}, childtemplate: {resources: {}}, limits: [{}], queues: [{}]}]
"""
SECTIONS = {
    "Document": "",
    "Partition": "partitions",
    "Queue": "partitions.queues",
    "Limit": "partitions.queues.limits",
    "Placement rule": "partitions.placementrules",
}
# What a key becomes, for those that are said to be checked only.
CHECKED = {
    "preemption.enabled": "preemption_enabled",
    "preemption.quotapreemptionenabled": "quota_preemption_enabled",
    "usergroupresolver.type": "user_group_resolver",
}
# One of them means something other than the default for each queue property.
PROPERTY_VALUES = ("cost", "vcore=1", "fair", "disabled", "fence", "7", "7s")
# What the keys of the extra configuration become.
EXTRA = {
    "stateaware-as-fifo": "state_aware_as_fifo",
    "event.trackingEnabled": "event_tracking",
    "event.requestCapacity": "event_request_capacity",
    "event.ringBufferCapacity": "event_ring_capacity",
    "event.RESTResponseSize": "event_response_size",
    "event.maxStreams": "event_max_streams",
    "event.maxStreamsPerHost": "event_max_streams_per_host",
    "health.checkInterval": "health_interval",
    "log.level": "log_levels",
    "log.<logger>.level": "log_levels",
}
# They read a key, keep it, or show it.
ONLY_SHOWING = ("config", "views", "reports.py")

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
UNITS = {"": 1, "KiB": 1024, "MiB": 1024**2}

RAISING = {
    "failed_precondition": 1,
    "aborted": 1,
    "out_of_range": 1,
    "exhausted": 1,
    "error_info": 0,
    "BoundedLock": 1,
    "PartyLine": 1,
    "Places": 1,
}
"""Functions that make an error with a reason, and where among their arguments the reason is."""

REJECTING = ("Rejected", "BadItem")


def parsed(*folders: str) -> Iterator[tuple[Path, ast.AST]]:
    """All nodes of all source files."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                yield path, node


@pytest.fixture
def known_keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, set[str]]:
    """The keys that the parser knows in every mapping, by the path of the mapping."""
    known: dict[str, set[str]] = defaultdict(set)
    read = Cursor.fields

    def note(cursor: Cursor, *keys: str) -> Fields:
        path = re.sub(r"\[\d+\]", "", cursor.path)
        path = re.sub(r"(\.queues)+", ".queues", path)
        known[re.sub(r"(\.parent)+$", "", path)].update(keys)
        return read(cursor, *keys)

    monkeypatch.setattr(Cursor, "fields", note)
    with pytest.raises(ConfigError):
        load(EVERYTHING)
    return dict(known)


def flattened(known: dict[str, set[str]], path: str) -> set[str]:
    """The keys of a mapping, those of mappings inside as ``outer.inner``."""
    keys = set()
    for key in known[path]:
        inner = f"{path}.{key}" if path else key
        if inner in known and inner not in SECTIONS.values() and key != "limits":
            keys |= {f"{key}.{name}" for name in flattened(known, inner)}
        else:
            keys.add(key)
    return keys


def shown_keys(title: str) -> dict[str, str]:
    """The keys of a table of the page on configuration, with what is said in the last column."""
    rows = CONFIGURATION.table(title)
    return {key: row[-1] for row in rows for key in code_spans(row[0])}


@pytest.mark.parametrize("title", SECTIONS)
def test_every_key_is_on_the_page(title: str, known_keys: dict[str, set[str]]) -> None:
    """The page has the keys that the parser knows, and no others."""
    shown = set(shown_keys(title))
    # The short form of a mapping may have a line of its own.
    short_forms = {key for key in shown if any(other.startswith(f"{key}.") for other in shown)}
    assert shown - short_forms == flattened(known_keys, SECTIONS[title])


def test_limits_of_partitions_and_queues_are_alike(known_keys: dict[str, set[str]]) -> None:
    """One table serves the limits of both."""
    assert known_keys["partitions.limits"] == known_keys["partitions.queues.limits"]


def test_every_kind_of_placement_rule_is_on_the_page() -> None:
    """The page has the kinds that a configuration may use, and says which of them take a value."""
    rows = CONFIGURATION.table("Kinds of placement rules")
    shown = {code_spans(name)[0]: bool(value) for name, _, value in rows}
    assert shown == {name: bool(kind.value_names) for name, kind in RULES.items()}


def test_every_property_is_on_the_page() -> None:
    """The page has the properties that mean something, and no others."""
    assert set(shown_keys("Queue properties")) == property_keys()


@pytest.mark.parametrize(
    ("title", "key", "policies"),
    [
        ("Partition", "nodesortpolicy.type", NodeSortType),
        ("Queue properties", properties.APP_SORT_POLICY, properties.AppSortPolicy),
    ],
)
def test_every_order_is_on_the_page(title: str, key: str, policies: type[Enum]) -> None:
    """The page has every order of nodes and of applications, and no others."""
    [row] = [row for row in CONFIGURATION.table(title) if code_spans(row[0]) == [key]]
    assert set(code_spans(row[1])) == {policy.value for policy in policies}


def property_keys() -> set[str]:
    """The keys of the properties that mean something."""
    return {
        value
        for name, value in vars(properties).items()
        if name.isupper() and isinstance(value, str) and "." in value
    }


def test_every_extra_key_is_on_the_page() -> None:
    """The page has the keys of the extra configuration that are read."""
    source = Path(extra.__file__).read_text(encoding="utf-8")
    known = set(re.findall(r'"((?:event|health)\.\w+|stateaware-\S+)"', source))
    assert set(shown_keys("Extra configuration")) == known | {"log.level", "log.<logger>.level"}


def test_what_is_only_checked_is_used_by_nobody() -> None:
    """What the page calls checked only is not looked at by the scheduler, and all else is."""
    shown: dict[str, str] = {}
    for title in SECTIONS:
        shown |= shown_keys(title)
    used = attributes("core/licorne_core")
    checked = {key for key, now in shown.items() if now == "checked"}
    assert checked == {key for key, name in CHECKED.items() if name not in used}


def test_queue_properties_work_where_the_page_says_so() -> None:
    """Of the queue properties, the scheduler looks at what is not called checked only."""
    used = attributes("core/licorne_core")
    working = {key: "yes" if used & settings_changed(key) else "checked" for key in property_keys()}
    assert shown_keys("Queue properties") == working


def settings_changed(key: str) -> set[str]:
    """The settings of a queue that a property of that key can change."""
    standard = asdict(properties.settings_of({}))
    return {
        name
        for text in PROPERTY_VALUES
        for name, value in asdict(properties.settings_of({key: text})).items()
        if value != standard[name]
    }


def test_extra_keys_work_where_the_page_says_so() -> None:
    """Of the extra configuration, core or server use what is not called checked only."""
    used = attributes("core/licorne_core", "server/licorne_server")
    shown = shown_keys("Extra configuration")
    assert shown.keys() == EXTRA.keys()
    working = {key for key, now in shown.items() if now == "yes"}
    assert working == {key for key, name in EXTRA.items() if name in used}


def attributes(*folders: str) -> set[str]:
    """The attributes that are looked at, but where settings are only read, kept or shown."""
    return {
        node.attr
        for path, node in parsed(*folders)
        if isinstance(node, ast.Attribute)
        and not set(path.relative_to(ROOT).parts) & set(ONLY_SHOWING)
    }


def test_caps_are_those_in_force() -> None:
    """Every cap of the wire is on the page with its number."""
    rows = {row[0]: row[1] for row in SHIMS.table("Caps")}
    assert rows.pop("values of tags and attributes") == "as the item"
    assert numbers(rows.pop("kinds of resources in a partition")) == [MAX_RESOURCE_TYPES]
    assert numbers(
        rows.pop("task groups that the placeholders of an application name until it ends")
    ) == [MAX_TASK_GROUPS]
    assert {what: numbers(text) for what, text in rows.items()} == {
        what: [getattr(caps, name) for name in names] for what, names in CAPS.items()
    }
    in_source = {name for name in vars(caps) if name.isupper()}
    assert in_source == {name for names in CAPS.values() for name in names}


def numbers(text: str) -> list[int]:
    """The numbers in a text, in bytes where they have a unit."""
    found = re.findall(r"(\d[\d,]*)(?: (KiB|MiB))?", text)
    return [int(digits.replace(",", "")) * UNITS[unit] for digits, unit in found]


def test_reasons_of_errors_are_those_of_the_server() -> None:
    """The page has the reason codes that calls and streams can end with, and no others."""
    rows = SHIMS.table("Errors of calls and streams")
    shown = {reason for row in rows for reason in code_spans(row[1])}
    assert shown == set(reasons())


def reasons() -> Iterator[str]:
    """The reason codes in the source of the server."""
    for _, node in parsed("server/licorne_server"):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            place = RAISING.get(node.func.id)
            if place is not None and len(node.args) > place:
                argument = node.args[place]
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value


def test_rejections_are_worded_as_in_the_source() -> None:
    """Every reason on the page is a text of the source, with names in place of values."""
    texts = {text_of(node) for _, node in parsed("core/licorne_core", "server/licorne_server")}
    unknown = [
        shown.pattern for shown in shown_rejections() if not any(map(shown.fullmatch, texts))
    ]
    assert not unknown


def test_every_rejection_is_on_the_page() -> None:
    """The page has every text with which the source rejects an item."""
    shown = shown_rejections()
    missing = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {text}"
        for path, node in parsed("core/licorne_core", "server/licorne_server")
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in REJECTING
        and (text := text_of(node.args[0]))
        and not any(pattern.fullmatch(text) for pattern in shown)
    ]
    assert not missing


def shown_rejections() -> list[re.Pattern[str]]:
    """The reasons on the page as patterns: each ``<name>`` stands for any value."""
    spans = [text for row in SHIMS.table("Rejections") for text in code_spans(row[1])]
    return [re.compile(".+".join(map(re.escape, re.split("<[^>]+>", span)))) for span in spans]


def text_of(node: ast.AST) -> str:
    """The first line of a text in the source, with ``<>`` in place of each value."""
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    texts = [
        part.value if isinstance(part, ast.Constant) and isinstance(part.value, str) else "<>"
        for part in parts
    ]
    return "" if texts == ["<>"] else "".join(texts).partition("\n")[0]


def test_make_targets_are_on_the_page() -> None:
    """The page for contributors has every target, and no others."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    shown = {
        span.removeprefix("make ").split()[0]
        for line in CONTRIBUTING.lines
        for span in code_spans(line)
        if span.startswith("make ")
    }
    assert shown | {"check"} == targets


def test_commands_and_options_are_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    """The page for operators has every command, and every option of the server."""
    shown = {span for row in OPERATING.table("Commands") for span in code_spans(row[0])}
    names = {span.split()[1] for span in shown}
    assert names == {"serve", "healthcheck", *COMMANDS}
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    options = set(re.findall(r"--[a-z][a-z-]+", capsys.readouterr().out)) - {"--help"}
    rows = OPERATING.table("Running the server")
    table = {option for row in rows for option in re.findall(r"--[a-z][a-z-]+", row[0])}
    assert table == options


def test_bounds_of_peers_are_those_in_force() -> None:
    """What one peer may have is on the page with its numbers."""
    usual = PeerBounds()
    rows = OPERATING.table("What one peer may have")
    assert [(numbers(row[1]), numbers(row[2])) for row in rows[:3]] == [
        ([usual.waiting], [usual.waiting_share]),
        ([usual.calls], [usual.calls_share]),
        ([usual.watchers], [usual.watchers_share]),
    ]
    assert numbers(rows[-1][1]) == [usual.http_connections]
