"""Reads YAML text into a tree of nodes with their lines and columns (spec § 2.1).

The tree is built here from the parser's events. Scalars stay text, and the schema decides their
meaning, because YAML itself reads ``no``, ``010`` and ``12:30`` in a way that surprises people. Size
and depth are bounded; aliases, anchors, tags and merge keys are refused. A hostile text could
otherwise nest deeper than the C stack, grow without bounds, or build objects.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import yaml

from licorne_core.config.caps import MAX_BYTES, MAX_DEPTH, MAX_NODES
from licorne_core.config.report import Report
from licorne_core.values.errors import ConfigError, Problem

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_INDICATORS = "*@`%"
"""Characters that may not begin a plain text, although people often begin one with them."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value as it was written; `plain` is False for quoted and block text."""

    text: str
    plain: bool
    line: int
    column: int

    @property
    def is_null(self) -> bool:
        """True if it is null: empty, ``~`` or ``null`` without quotes."""
        return self.plain and self.text in _NULLS


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list."""

    line: int
    column: int
    items: list["Node"] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Mapping:
    """Values by key, in the order of the text; each key is given as a `Scalar`, which has its place."""

    line: int
    column: int
    entries: dict[str, tuple[Scalar, "Node"]] = field(default_factory=dict)


Node = Scalar | Sequence | Mapping


class _Refused(Exception):
    """The text cannot be read. Line and column are those in this text; 0 if unknown."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


PlaceMap = Callable[[int, int], tuple[int, int]]
"""Maps line and column in a text to line and column in the text that contains it; both 0 if unknown."""


def read_document(text: str, report: Report, placed: PlaceMap = lambda *place: place) -> Node | None:
    """The only document in the text; None if the text has only comments or is empty.

    `placed` is given for a text that is contained in another one. A key that is given twice is a
    problem in the report. Raises `ConfigError` for a text that is not YAML, is too large or too deep, or
    uses a feature that is refused here.
    """
    try:
        return _read(text, report, placed)
    except _Refused as refusal:
        line, column = placed(refusal.line, refusal.column)
        raise ConfigError([Problem(message=str(refusal), line=line, column=column)]) from None


def _read(text: str, report: Report, placed: PlaceMap) -> Node | None:
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "replace")) > MAX_BYTES:
        raise _Refused(f"the configuration is larger than {MAX_BYTES} bytes")
    if not text.isascii():
        _refuse_surrogates(text)
    try:
        return _Builder(text, report, placed).document()
    except yaml.reader.ReaderError as error:
        before = text.encode("utf-8")[: error.position].decode("utf-8", "ignore")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise _Refused(f"not valid YAML: {error.reason}", line, column) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
        context = f" {error.context}" if error.context else ""
        end = _advice(text, line, column, context) if mark else ""
        raise _Refused(f"not valid YAML: {error.problem}{context}{end}", line, column) from None


def _advice(text: str, line: int, column: int, context: str) -> str:
    """Correct spelling for the end of a message; empty if it is not obvious."""
    lines = text.splitlines()
    at = lines[line - 1] if line <= len(lines) else ""
    blanks = at[: len(at) - len(at.lstrip(" \t-"))]
    if "\t" in blanks and column <= len(blanks) + 1:
        return ": indent with blanks, not with tabs"
    # The scanner has passed the star of an alias when it finds no name.
    begins = at[column - 2 : column - 1] if context.endswith("alias") else at[column - 1 : column]
    return _quoting(begins) if begins and begins in _INDICATORS else ""


def _quoting(begins: str) -> str:
    return f": put what begins with {begins} in quotes, as in '{begins}'"


class _Builder:
    """Builds the tree from the parser's events in one pass, and counts the nodes."""

    def __init__(self, text: str, report: Report, placed: PlaceMap) -> None:
        self._placed = placed
        self._events: Iterator[yaml.Event] = yaml.parse(text, Loader=_LOADER)
        self._report = report
        self._nodes = 0

    def document(self) -> Node | None:
        next(self._events)  # start of the stream
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        node = self._node(next(self._events), depth=1)
        next(self._events)  # end of the document
        following = next(self._events)
        if not isinstance(following, yaml.StreamEndEvent):
            raise _unwanted("a second document is not allowed", following)
        return node

    def _node(self, event: yaml.Event, depth: int) -> Node:
        _refuse_features(event)
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise _unwanted(f"more than {MAX_NODES} values", event)
        if depth > MAX_DEPTH:
            raise _unwanted(f"nested deeper than {MAX_DEPTH} levels", event)
        line, column = self._placed(*_place(event))
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, not event.style, line, column)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(Sequence(line, column), depth)
        return self._mapping(Mapping(line, column), depth)

    def _sequence(self, sequence: Sequence, depth: int) -> Sequence:
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            sequence.items.append(self._node(event, depth + 1))
        return sequence

    def _mapping(self, mapping: Mapping, depth: int) -> Mapping:
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise _unwanted("a key must be a plain text", event)
            if key.text == "<<" and key.plain:
                raise _unwanted("merge keys are not allowed", event)
            value = self._node(next(self._events), depth + 1)
            if key.text in mapping.entries:
                first = mapping.entries[key.text][0].line
                message = f"key '{key.text}' is given twice, first in line {first}"
                self._report.problem_at(message, "", key.line, key.column)
            else:
                mapping.entries[key.text] = (key, value)
        return mapping


def _refuse_features(event: yaml.Event) -> None:
    if isinstance(event, yaml.AliasEvent):
        raise _unwanted(f"aliases are not allowed{_quoting('*')}", event)
    if isinstance(event, yaml.NodeEvent) and event.anchor is not None:
        raise _unwanted("anchors are not allowed", event)
    if getattr(event, "tag", None) is not None:
        raise _unwanted("tags are not allowed", event)


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        before = text[: error.start]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise _Refused("not valid UTF-8", line, column) from None


def _place(event: yaml.Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _unwanted(message: str, event: yaml.Event) -> _Refused:
    return _Refused(message, *_place(event))
