"""Reads the text of a configuration, and returns its tree or all its errors (spec §§ 2.1 to 2.8).

The text may be inside of a Kubernetes ConfigMap, as in deployments of the older core.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from itertools import chain
from typing import Final

from licorne_core.config.caps import PROPERTIES_IN_FORCE
from licorne_core.config.document import Mapping, Node, PlaceMap, Scalar, read_document
from licorne_core.config.extra import EXTRA
from licorne_core.config.parse import NOT_SET, read_partitions
from licorne_core.config.properties import idle_properties, merge_properties, settings_of
from licorne_core.config.reader import Cursor
from licorne_core.config.report import Report, stands_for
from licorne_core.config.schema import Configuration, QueueConfig
from licorne_core.config.validate import check_partition
from licorne_core.features import modules
from licorne_core.values.errors import ConfigError, Problem, shown
from licorne_core.values.names import Pattern

FILE = "queues.yaml"
"""The key of the configuration among the data of a ConfigMap."""

_MOST_TEXTS = 5
"""Maximum number of texts that one message names."""

_DATA = "data"
_PATH = f"{_DATA}.{FILE}"


def configuration_in(document: Node | None, text: str, report: Report) -> tuple[str, PlaceMap] | None:
    """The configuration inside of the text, if the text is a ConfigMap or the values of a chart; else None.

    A warning names the part. The returned function maps places of the configuration to those in the text.

    Raises:
        ConfigError: it is a ConfigMap that has no configuration, or there are several texts with one.
    """
    if not isinstance(document, Mapping) or "partitions" in document.entries:
        return None
    if not _is_config_map(document):
        return _in_values(document, text, report)
    data = document.entries[_DATA][1] if _DATA in document.entries else document
    entries = data.entries if isinstance(data, Mapping) and data is not document else {}
    value = entries[FILE][1] if FILE in entries else data
    if FILE not in entries or not isinstance(value, Scalar):
        message = f"a ConfigMap without a text '{FILE}' in its data: give the configuration alone"
        report.problem_at(message, _DATA, value.line, value.column)
        report.raise_problems()
        return None
    report.mark(_PATH, value.line, value.column)
    _warn_of_others(entries, report)
    return value.text, _places_of(value, text)


def _warn_of_others(entries: dict[str, tuple[Scalar, Node]], report: Report) -> None:
    """Warn that only one text of a ConfigMap is read, and where its other keys belong."""
    others = [key for key in entries if key != FILE]
    extra = [key for key in others if any(stands_for(key, one) for one in EXTRA)]
    if extra:
        rest = f"; keys such as {shown(extra[0])} belong in the extra configuration that an RM registers with"
    elif others:
        rest = f", and none of its other keys such as {shown(others[0])}"
    else:
        rest = ""
    report.warn(f"this is a ConfigMap, of which {FILE} is read{rest}", _PATH)
    for key in others:
        hint = report.hint(key, EXTRA)
        if hint:
            path, mark = f"{_DATA}.{key}", entries[key][0]
            report.mark(path, mark.line, mark.column)
            report.warn(f"key {shown(key)} means nothing{hint}", path)


def _in_values(values: Mapping, text: str, report: Report) -> tuple[str, PlaceMap] | None:
    """The configuration in the values of a chart, where it is a text with its own partitions."""
    inside = list(_texts_in(values, ""))
    if not inside:
        return None
    places = ", ".join(f"{shown(path)} in line {found.line}" for path, found in inside[:_MOST_TEXTS])
    if len(inside) > 1:
        message = f"several texts have a configuration: {places}; give one of them alone"
        report.problem_at(message, "", inside[1][1].line, inside[1][1].column)
        report.raise_problems()
    path, value = inside[0]
    report.mark(path, value.line, value.column)
    report.warn(f"these are the values of a chart, of which {shown(path)} is read", path)
    return value.text, _places_of(value, text)


def _texts_in(node: Node, path: str) -> Iterator[tuple[str, Scalar]]:
    """Texts in the tree that look like configurations, with their paths."""
    if isinstance(node, Scalar):
        if not node.plain and _lists_partitions(node.text):
            yield path, node
    elif isinstance(node, Mapping):
        for key, (_, value) in node.entries.items():
            yield from _texts_in(value, f"{path}.{key}" if path else key)
    else:
        for number, item in enumerate(node.items):
            yield from _texts_in(item, f"{path}[{number}]")


def _lists_partitions(text: str) -> bool:
    """True if the text has a list of partitions; in other formats a key of that name may be a number."""
    _, key, rest = f"\n{text}".partition("\npartitions:")
    first = next((line for line in map(str.strip, rest.splitlines()) if line and line[0] != "#"), "")
    return bool(key) and first[:1] in ("-", "[")


def _is_config_map(document: Mapping) -> bool:
    kind = document.entries["kind"][1] if "kind" in document.entries else None
    return isinstance(kind, Scalar) and kind.text == "ConfigMap" and "apiVersion" in document.entries


def _places_of(value: Scalar, text: str) -> PlaceMap:
    """Map places to the whole text: line by line if each line of the value is one of the whole text."""
    inner = value.text.splitlines()
    lines = text.splitlines()[value.line : value.line + len(inner)]
    first = next((number for number, line in enumerate(inner) if line), 0)
    indent = len(lines[first]) - len(inner[first]) if first < len(lines) else 0
    is_block = len(lines) == len(inner) and all(
        line[indent:] == own for line, own in zip(lines, inner, strict=True)
    )

    def placed(line: int, column: int) -> tuple[int, int]:
        return (value.line + line, indent + column) if is_block and line else (value.line, value.column)

    return placed


DEFAULT_CONFIG = """\
partitions:
  - name: default
    placementrules:
      - name: tag
        value: namespace
        create: true
    queues:
      - name: root
        submitacl: '*'
"""

_SUM = "checksum:[ \\t]*['\"]?[0-9a-fA-F]{64}['\"]?"
_CHECKSUM = Pattern(f"(?m)^[ \\t]*{_SUM}[ \\t]*\\r?\\n|{_SUM}")


@dataclass(frozen=True, slots=True)
class InvalidConfiguration:
    """A configuration that cannot be used: its text, and every problem found in it."""

    text: str
    problems: tuple[Problem, ...]


SubmittedConfig = Configuration | InvalidConfiguration | None
"""A configuration as submitted; None if the caller gave none, which means the scheduler's default."""


def submitted(text: str) -> SubmittedConfig:
    """Parse the configuration of a command; returns None for an empty text.

    A text without content, such as only comments, is an invalid configuration (spec § 2.5 row 1).
    Parsing takes up to a second for the largest allowed text. It needs nothing but the text, so that
    the caller can do it in another thread.
    """
    if not text:
        return None
    try:
        return load(text, required=True)
    except ConfigError as error:
        return InvalidConfiguration(text, error.problems)


_NOTES: Final = tuple(module.notes_of for _, module in modules("keys") if hasattr(module, "notes_of"))
"""Functions of features: notes on combinations of a partition's settings that lack an effect."""


@cache
def built_in() -> Configuration:
    """The default configuration (spec § 2.1.9); always the same object."""
    return load(DEFAULT_CONFIG)


def load(text: str, *, strict: bool = False, required: bool = False) -> Configuration:
    """Parse and validate a configuration (spec §§ 2.1 to 2.6).

    Of a ConfigMap, the text in it is loaded, with a warning; places are those in the whole text. An empty
    text, or one with comments only, is the built-in configuration. It is a problem if a configuration is
    `required`, as in a named file or a sent text.

    Raises:
        ConfigError: the text cannot be used; the error has every problem that was found. In strict
            mode a warning is a problem as well.
    """
    report = Report(strict=strict)
    document = read_document(text, report)
    inner = configuration_in(document, text, report)
    if inner is not None:
        text, placed = inner
        document = read_document(text, report, placed)
    if document is None or (isinstance(document, Scalar) and document.plain and not document.text):
        if required:
            raise ConfigError([Problem(message=NOT_SET)])
        return built_in()
    partitions = read_partitions(Cursor(document, "", report))
    for partition in partitions:
        check_partition(partition, report)
    report.raise_problems()
    partitions = tuple(
        replace(partition, root=_inheriting(partition.root, {}, report)) for partition in partitions
    )
    for notes_of in _NOTES:
        for note in chain.from_iterable(map(notes_of, partitions)):
            report.note(note)
    for note in chain.from_iterable(map(idle_properties, partitions)):
        report.note(note)
    return Configuration(
        partitions=partitions,
        checksum=checksum_of(text),
        text=text,
        warnings=report.warnings,
        notes=report.notes,
    )


def checksum_of(text: str) -> str:
    """Upper-case hex SHA-256 of the text without any ``checksum`` in it (spec § 2.1.4).

    A line with nothing but the checksum is left out as a whole, so that adding it does not change the sum.
    """
    return sha256(_CHECKSUM.remove(text).encode("utf-8", "replace")).hexdigest().upper()


def _inheriting(queue: QueueConfig, above: dict[str, str], report: Report) -> QueueConfig:
    """The queue and its descendants with `merged` and `settings`; `above` is the parent's `merged`.

    Raises:
        ConfigError: all queues together have too many properties.
    """
    merged = merge_properties(above, queue.properties)
    report.count(PROPERTIES_IN_FORCE, f"{queue.place.path}.properties", len(merged))
    return replace(
        queue,
        merged=merged,
        settings=settings_of(merged),
        queues=tuple(_inheriting(child, merged, report) for child in queue.queues),
    )
