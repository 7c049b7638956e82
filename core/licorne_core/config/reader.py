"""Typed reading of the tree of nodes.

A value that cannot be read is reported and replaced by its default, so that the problems of the
rest are found as well.
"""

from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from math import isfinite

from licorne_core.config.document import Mapping, Node, Scalar, Sequence
from licorne_core.config.report import Report
from licorne_core.config.resource_names import not_usual
from licorne_core.config.schema import Place
from licorne_core.values.errors import ConfigError
from licorne_core.values.names import Pattern
from licorne_core.values.quantity import parse_quantity
from licorne_core.values.resources import Resources

UINT64_MAX = 2**64 - 1

_COUNT = Pattern("[0-9]+")
_NUMBER = Pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLAGS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}


@dataclass(frozen=True, slots=True)
class Cursor:
    """A node, the path of keys that leads to it, and the report for its problems."""

    node: Node
    path: str
    report: Report

    def __post_init__(self) -> None:
        """Tell the report where the path stands in the text."""
        self.report.mark(self.path, self.node.line, self.node.column)

    @property
    def is_null(self) -> bool:
        """True if the value is null."""
        return isinstance(self.node, Scalar) and self.node.is_null

    @property
    def is_scalar(self) -> bool:
        """True if it is a single value."""
        return isinstance(self.node, Scalar)

    @property
    def is_mapping(self) -> bool:
        """True if it has keys and values."""
        return isinstance(self.node, Mapping)

    @property
    def place(self) -> Place:
        """Place of the node."""
        return Place(path=self.path, line=self.node.line, column=self.node.column)

    def text(self) -> str:
        """Any single value as it was written; null is an empty text."""
        if not isinstance(self.node, Scalar):
            self._expected("a text")
            return ""
        return "" if self.node.is_null else self.node.text

    def flag(self) -> bool:
        """``true`` or ``false``, not quoted; no other word will do."""
        if isinstance(self.node, Scalar) and self.node.plain and self.node.text in _FLAGS:
            return _FLAGS[self.node.text]
        self._expected("true or false")
        return False

    def count(self) -> int:
        """A whole decimal number that fits an unsigned 64-bit integer."""
        text = self._plain(_COUNT)
        significant = text.lstrip("0")
        # The length is looked at first: reading a very long number takes very long.
        if text and len(significant) <= 20 and int(significant or "0") <= UINT64_MAX:
            return int(significant or "0")
        self._expected(f"a whole number from 0 to {UINT64_MAX}")
        return 0

    def number(self) -> float:
        """A decimal number, finite."""
        text = self._plain(_NUMBER)
        value = float(text) if text else 0.0
        if not text or not isfinite(value):
            self._expected("a number")
            return 0.0
        return value

    def items(self) -> list["Cursor"]:
        """The items of a list; null is an empty list."""
        if isinstance(self.node, Sequence):
            return [
                Cursor(item, f"{self.path}[{index}]", self.report)
                for index, item in enumerate(self.node.items)
            ]
        if not self.is_null:
            self._expected("a list")
        return []

    def entries(self) -> dict[str, "Cursor"]:
        """The entries of a mapping, whatever their keys; null is an empty mapping."""
        if isinstance(self.node, Mapping):
            return {
                key: Cursor(value, f"{self.path}.{key}" if self.path else key, self.report)
                for key, (_, value) in self.node.entries.items()
            }
        if not self.is_null:
            self._expected("a mapping")
        return {}

    def fields(self, *known: str) -> "Fields":
        """The entries of a mapping that may have these keys only; any other is a problem."""
        entries = self.entries()
        if isinstance(self.node, Mapping):
            for key, (mark, _) in self.node.entries.items():
                if key not in known:
                    message = f"unknown key '{key}'{self.report.hint(key, known)}"
                    self.report.problem_at(message, entries[key].path, mark.line, mark.column)
        return Fields(self, {key: entry for key, entry in entries.items() if not entry.is_null})

    def warn_of_resource(self, name: str) -> None:
        """Warn of a resource, to which the value belongs, if the name of a usual one is meant."""
        meant = self.report.meant_resource(name)
        if meant:
            self.report.warn(not_usual(name, meant), self.path)

    def _plain(self, pattern: Pattern) -> str:
        """The text of a value without quotes that matches the pattern; otherwise an empty text."""
        if isinstance(self.node, Scalar) and self.node.plain and pattern.matches(self.node.text):
            return self.node.text
        return ""

    def _expected(self, wanted: str) -> None:
        self.report.problem(f"expected {wanted}, found {self._found()}", self.path)

    def _found(self) -> str:
        if isinstance(self.node, Scalar):
            if self.node.is_null:
                return "nothing"
            return f"'{self.node.text}'" if self.node.plain else f"the text '{self.node.text}'"
        return "a list" if isinstance(self.node, Sequence) else "a mapping"


@dataclass(frozen=True, slots=True)
class Fields:
    """The entries of a mapping by key. One that is absent or null has the default of its type."""

    owner: Cursor
    entries: MappingType[str, Cursor]

    def has(self, key: str) -> bool:
        """True if the key is there, and not null."""
        return key in self.entries

    def path(self, key: str) -> str:
        """The path of the field, there or not."""
        return f"{self.owner.path}.{key}" if self.owner.path else key

    def text(self, key: str) -> str:
        """A text, default empty."""
        return self.entries[key].text() if key in self.entries else ""

    def flag(self, key: str, *, default: bool = False) -> bool:
        """True or false."""
        return self.entries[key].flag() if key in self.entries else default

    def count(self, key: str) -> int:
        """A whole number, default 0."""
        return self.entries[key].count() if key in self.entries else 0

    def items(self, key: str) -> list[Cursor]:
        """The items of a list, default none."""
        return self.entries[key].items() if key in self.entries else []

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(item.text() for item in self.items(key))

    def children(self, key: str) -> dict[str, Cursor]:
        """The entries of a mapping with any keys, default none."""
        return self.entries[key].entries() if key in self.entries else {}

    def mapping(self, key: str) -> dict[str, str]:
        """A mapping of texts to texts."""
        return {name: entry.text() for name, entry in self.children(key).items()}

    def fields(self, key: str, *known: str) -> "Fields":
        """The fields of a mapping inside, default none."""
        if key in self.entries:
            return self.entries[key].fields(*known)
        return Fields(Cursor(self.owner.node, self.path(key), self.owner.report), {})

    def resources(self, key: str) -> Resources | None:
        """Quantities by resource name; None when there are none (spec § 2.2)."""
        amounts: dict[str, int] = {}
        for name, entry in self.children(key).items():
            entry.report.count_resource(name, entry.path)
            entry.warn_of_resource(name)
            try:
                amounts[name] = parse_quantity(name, entry.text())
            except ConfigError as error:
                meant = entry.report.meant_resource(name)
                hint = f", did you mean '{meant}'?" if meant else ""
                entry.report.distrust(self.path(key))
                entry.report.problem(f"{error.problems[0].message}{hint}", entry.path)
        return amounts or None
