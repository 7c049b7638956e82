"""The reference of configurations, compared with the parser: keys, values, defaults, effects."""

import ast
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
import yaml

from licorne_core.config import extra, keys, load, properties
from licorne_core.config.kinds import Key, Kind, Section
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.schema import Configuration
from licorne_core.values.errors import ConfigError
from support.docs.pages import ROOT, Page, code_spans
from support.patience import PATIENCE

REFERENCE = Page("docs/configuration-reference.md")
# Every possible mapping, all of them empty.
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
    "Document": ("", keys.DOCUMENT),
    "Partition": ("partitions", keys.PARTITION),
    "Queue": ("partitions.queues", keys.QUEUE),
    "Limit": ("partitions.queues.limits", keys.LIMIT),
    "Placement rule": ("partitions.placementrules", keys.RULE),
}
# A value of another kind for each kind, and the parser's message with the right kind.
OTHERS: dict[Kind, tuple[object, str]] = {
    Kind.TEXT: ([], "expected a text"),
    Kind.FLAG: (7, "expected true or false"),
    Kind.COUNT: (-1, "expected a whole number from 0"),
    Kind.TEXTS: ({}, "expected a list"),
    Kind.ITEMS: ({}, "expected a list"),
    Kind.MAPPING: ([], "expected "),
    Kind.NAMED_TEXTS: ([], "expected a mapping"),
    Kind.NAMED_NUMBERS: ({"vcore": "many"}, "expected a number"),
    Kind.AMOUNTS: ({"vcore": "many"}, "invalid quantity"),
}
# For each queue property, one of these values differs from the default.
PROPERTY_VALUES = (
    *("cost", "easy", "vcore=1", "fair", "rack", "disabled", "fence", "7", "7s", "true"),
    *("0.5", "5/week", "1/1h", "22:00-06:00", "shortest", "fair-share"),
)
# The same for the extra configuration, where a name may be any logger.
EXTRA_VALUES = ("true", "false", "7", "7s", "debug")
# The files that parse, store or display a key.
ONLY_SHOWING = ("config", "views", "reports.py")
# The fields of keys that are parsed without an effect.
CHECKED = {
    "usergroupresolver.type": "user_group_resolver",
    "health.checkInterval": "health_interval",
}
# The fields of keys whose names differ.
WORKING = {"preemption_enabled", "switches", "node_sort", "child_template"}


def flattened(section: Section, before: str = "") -> Iterator[tuple[str, Key]]:
    """Keys of a mapping, nested ones as ``outer.inner``."""
    for key in section.values():
        yield before + key.name, key
        if key.inside is not None:
            yield from flattened(key.inside, f"{before}{key.name}.")


CASES = [
    pytest.param(title, path, key, id=f"{title}: {path}")
    for title, (_, section) in SECTIONS.items()
    for path, key in flattened(section)
]


def document(title: str, path: str, value: object) -> str:
    """A valid configuration with one value for a key, in JSON, which is YAML. None omits the key."""
    limit: dict[str, Any] = {"users": ["ann"], "maxresources": {"vcore": 1}}
    queue: dict[str, Any] = {"name": "batch", "limits": [limit]}
    rule: dict[str, Any] = {"name": "provided"}
    root = {"name": "root", "queues": [queue]}
    partition: dict[str, Any] = {"name": "default", "placementrules": [rule], "queues": [root]}
    top: dict[str, Any] = {"partitions": [partition]}
    places = (top, partition, queue, limit, rule)
    place = dict(zip(SECTIONS, places, strict=True))[title]
    *outer, name = path.split(".")
    for key in outer:
        place = place.setdefault(key, {})
    if value is None:
        place.pop(name, None)
    else:
        place[name] = value
    return json.dumps(top)


def problems(title: str, path: str, value: object) -> list[str]:
    """Problems of the key's own value."""
    try:
        load(document(title, path, value))
    except ConfigError as error:
        return [problem.message for problem in error.problems if path in problem.path]
    return []


def meaning(text: str) -> Configuration:
    """The parsed configuration, without its text and the places in its warnings."""
    config = load(text)
    warnings = tuple(warning.partition(": ")[2] for warning in config.warnings)
    return replace(config, text="", checksum="", warnings=warnings)


def test_the_page_is_generated_from_the_source() -> None:
    """The committed page is the output of `make reference`."""
    command = [sys.executable, "docs/reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr


def test_every_key_is_on_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has exactly the keys that the parser reads in every mapping."""
    known: dict[str, set[str]] = defaultdict(set)
    read = Cursor.fields

    def note(cursor: Cursor, names: Collection[str]) -> Fields:
        path = re.sub(r"\[\d+\]", "", cursor.path)
        path = re.sub(r"(\.queues)+", ".queues", path)
        known[re.sub(r"(\.parent)+$", "", path)].update(names)
        return read(cursor, names)

    monkeypatch.setattr(Cursor, "fields", note)
    with pytest.raises(ConfigError):
        load(EVERYTHING)
    listed = {}
    for title, (place, _) in SECTIONS.items():
        rows = REFERENCE.table(title)
        listed[title] = {".".join(filter(None, (place, code_spans(row[0])[0]))) for row in rows}
    mappings = {place for place, _ in SECTIONS.values()}
    for path in known.keys() - {"partitions.limits"}:
        title = next(t for t in reversed(SECTIONS) if path.startswith(SECTIONS[t][0]))
        assert {f"{path}.{name}".lstrip(".") for name in known[path]} <= listed[title], path
        mappings.discard(path)
    assert not mappings, "the configuration of this test has every mapping"
    assert known["partitions.limits"] == known["partitions.queues.limits"]


def test_every_key_is_described() -> None:
    """Every key has a description and a section of the specification."""
    for section in (*(section for _, section in SECTIONS.values()), properties.PROPERTIES, extra.EXTRA):
        for _, key in flattened(section):
            assert len(key.what) > 8
            assert re.fullmatch(r"\d+(\.\d+)?", key.spec)


@pytest.mark.parametrize(("title", "path", "key"), CASES)
def test_a_value_of_another_kind_is_refused(title: str, path: str, key: Key) -> None:
    """A value of another kind than on the page is refused, with the expected kind."""
    value, wanted = OTHERS[key.kind]
    assert any(message.startswith(wanted) for message in problems(title, path, value))


@pytest.mark.parametrize(("title", "path", "key"), CASES)
def test_listed_words_are_accepted(title: str, path: str, key: Key) -> None:
    """Every listed word is accepted, and any other word is refused."""
    if key.choices:
        unknown = [word for word in key.choices if problems(title, path, word)]
        # These keys need another key beside them.
        assert set(unknown) <= {"spread"}
        assert problems(title, path, "nonsense")


@pytest.mark.parametrize(("title", "path", "key"), CASES)
def test_a_default_equals_a_missing_value(title: str, path: str, key: Key) -> None:
    """An explicit default has the same effect as no value."""
    if key.default:
        said = document(title, path, yaml.safe_load(key.default))
        assert meaning(said) == meaning(document(title, path, None))


@pytest.mark.parametrize("key", properties.PROPERTIES.values(), ids=lambda key: str(key.name))
def test_properties_have_the_listed_values(key: Key) -> None:
    """Words of a property are accepted; its default, and an invalid value, change nothing."""
    warnings: list[tuple[str, str]] = []
    for word in key.choices:
        properties.settings_of({key.name: word}, warnings)
    if key.default:
        said = properties.settings_of({key.name: key.default}, warnings)
        assert said == properties.settings_of({})
    assert not warnings
    properties.settings_of({key.name: "!"}, warnings)
    assert warnings[0][1].rpartition("taken as ")[2] in ({key.default} if key.default else {"0s", "none"})


@pytest.mark.parametrize("key", extra.EXTRA.values(), ids=lambda key: str(key.name))
def test_keys_of_the_extra_configuration_have_an_effect(key: Key) -> None:
    """Each key has an effect; its default, and an invalid value, change nothing."""
    name, standard = key.name.replace("<logger>", "core"), extra.read_extra({})
    meant = [extra.read_extra({name: text}) for text in EXTRA_VALUES]
    assert any(each != standard for each in meant)
    assert extra.read_extra({name: key.default or "!"}) == standard == extra.read_extra({name: "!"})


def attributes(*folders: str) -> set[str]:
    """The attributes that the source reads, except where settings are only parsed, stored or shown."""
    return {
        node.attr
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not set(path.relative_to(ROOT).parts) & set(ONLY_SHOWING)
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute)
    }


@pytest.mark.slow
def test_keys_that_are_checked_only_are_unused() -> None:
    """Settings marked as checked only are unused, and all others are used."""
    used = attributes("core/licorne_core", "server/licorne_server")
    every = [pair for _, section in SECTIONS.values() for pair in flattened(section)]
    every += [(key.name, key) for section in (properties.PROPERTIES, extra.EXTRA) for key in section.values()]
    assert {path for path, key in every if not key.works} == CHECKED.keys()
    assert not used & set(CHECKED.values())
    assert used >= WORKING
    for key in properties.PROPERTIES.values():
        assert used & changed(properties.settings_of({}), settings_of_values(key)), key.name
    for key in extra.EXTRA.values():
        meant = [asdict(extra.read_extra({key.name: text})) for text in EXTRA_VALUES]
        assert used & changed(extra.read_extra({}), meant) or not key.works, key.name


def settings_of_values(key: Key) -> list[dict[str, Any]]:
    """Settings for the values of a property."""
    return [asdict(properties.settings_of({key.name: text})) for text in PROPERTY_VALUES]


def changed(standard: Any, meant: list[dict[str, Any]]) -> set[str]:
    """The attributes that are read for the effect of one of the values; extensions read theirs by `of`."""
    usual = asdict(standard)
    names = {name for each in meant for name, value in each.items() if value != usual[name]}
    return {"of" if name == "extended" else name for name in names}
