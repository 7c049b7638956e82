"""Typed reading of the tree of nodes.

A value that is absent or null is read as the default of its type. An invalid value is reported and gets the
default as well, so that later problems are found too.
"""

from collections.abc import Collection
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from math import isfinite

from licorne_core.config.document import Mapping, Node, Scalar, Sequence
from licorne_core.config.properties import PROPERTIES
from licorne_core.config.report import Report, not_usual
from licorne_core.values.errors import ConfigError, TextPlace, shown
from licorne_core.values.names import Pattern
from licorne_core.values.resources import MEMORY, Resources, parse_quantity, quantities

UINT64_MAX = 2**64 - 1
TINY = 1 << 20
"""Number of bytes below which an amount of memory is probably a mistake."""

_COUNT = Pattern("[0-9]+")
_NUMBER = Pattern(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_FLAGS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}


@dataclass(slots=True)
class Cursor:
    """A node, the path of keys that leads to it, and the report for its problems.

    `node` is None for a value that is absent. Never changed after its creation. Not frozen, because there is
    one for every value, and freezing takes time.
    """

    node: Node | None
    path: str
    report: Report

    def __post_init__(self) -> None:
        """Register in the report the place of the path in the text."""
        if self.node is not None:
            self.report.mark(self.path, self.node.line, self.node.column)

    @property
    def is_null(self) -> bool:
        """True if the value is null, or absent."""
        return self.node is None or (isinstance(self.node, Scalar) and self.node.is_null)

    @property
    def is_scalar(self) -> bool:
        """True if it is a single value."""
        return isinstance(self.node, Scalar)

    @property
    def is_mapping(self) -> bool:
        """True if it has keys and values."""
        return isinstance(self.node, Mapping)

    @property
    def is_faulty(self) -> bool:
        """True if this value has a reported problem, and so cannot be used."""
        return self.report.is_faulty(self.path)

    @property
    def place(self) -> TextPlace:
        """Place of the node."""
        return self.report.place(self.path)

    def problem(self, message: str) -> None:
        """Report a problem of the value."""
        self.report.problem(message, self.path)

    def warn(self, message: str) -> None:
        """Report that the value is accepted, and probably a mistake."""
        self.report.warn(message, self.path)

    def text(self) -> str:
        """Any single value as it was written; empty by default."""
        if self.is_null:
            return ""
        if isinstance(self.node, Scalar):
            return self.node.text
        self._expected("a text")
        return ""

    def flag(self, *, default: bool = False) -> bool:
        """``true`` or ``false`` without quotes; any other word is a problem."""
        if self.is_null:
            return default
        if isinstance(self.node, Scalar) and self.node.plain and self.node.text in _FLAGS:
            return _FLAGS[self.node.text]
        self._expected("true or false")
        return False

    def count(self) -> int:
        """A whole decimal number that fits an unsigned 64-bit integer, 0 by default."""
        if self.is_null:
            return 0
        text = self._plain(_COUNT)
        significant = text.lstrip("0")
        # The length is checked first: conversion of a very long number takes very long.
        if text and len(significant) <= 20 and int(significant or "0") <= UINT64_MAX:
            return int(significant or "0")
        self._expected(f"a whole number from 0 to {UINT64_MAX}")
        return 0

    def number(self) -> float:
        """A decimal number, finite; there is no default."""
        text = self._plain(_NUMBER)
        value = float(text) if text else 0.0
        if not text or not isfinite(value):
            self._expected("a number")
            return 0.0
        return value

    def items(self) -> list["Cursor"]:
        """The items of a list, none by default."""
        if isinstance(self.node, Sequence):
            return [
                Cursor(item, f"{self.path}[{index}]", self.report)
                for index, item in enumerate(self.node.items)
            ]
        if not self.is_null:
            self._expected("a list")
        return []

    def entries(self) -> dict[str, "Cursor"]:
        """The entries of a mapping, with any keys; none by default."""
        if isinstance(self.node, Mapping):
            return {
                key: Cursor(value, _below(self.path, key), self.report)
                for key, (_, value) in self.node.entries.items()
            }
        if not self.is_null:
            self._expected("a mapping")
        return {}

    def texts(self) -> dict[str, str]:
        """The entries of a mapping whose values are texts."""
        return {name: entry.text() for name, entry in self.entries().items()}

    def resources(self) -> Resources | None:
        """Quantities by resource name; None if there are none (spec § 2.2)."""
        amounts: dict[str, int] = {}
        for name, entry in self.entries().items():
            self.report.count_resource(name, entry.path)
            entry.warn_of_resource(name)
            try:
                amounts[name] = parse_quantity(name, entry.text())
                _warn_of_size(entry, name, amounts[name])
            except ConfigError as error:
                meant = self.report.meant_resource(name)
                hint = f", did you mean '{meant}'?" if meant else f", expected {quantities(name)}"
                self.report.distrust(self.path)
                entry.problem(f"{error.problems[0].message}{hint}")
        return amounts or None

    def fields(self, known: Collection[str]) -> "Fields":
        """The entries of a mapping that may have only these keys; any other key is a problem."""
        entries = self.entries()
        if isinstance(self.node, Mapping):
            for key, (mark, _) in self.node.entries.items():
                if key not in known:
                    message = f"unknown key '{key}'{self.report.hint(key, known)}"
                    self.report.problem_at(message, entries[key].path, mark.line, mark.column)
                    if (meant := self.report.meant(key, known)) and meant not in entries:
                        # The absence of the intended key follows from the misspelling: report it once.
                        self.report.distrust(_below(self.path, meant))
        return Fields(self, entries)

    def warn_of_resource(self, name: str) -> None:
        """Warn about the name of a resource if it is probably a misspelling of another name."""
        if "." in name and (key := self.report.key_of(name, PROPERTIES)):
            self.warn(f"'{shown(name)}' is no resource here, but a property: '{key}' belongs in 'properties'")
            return
        meant = self.report.meant_resource(name)
        if meant:
            self.warn(not_usual(name, meant))

    def _plain(self, pattern: Pattern) -> str:
        """The text of a value without quotes that matches the pattern; otherwise an empty text."""
        if isinstance(self.node, Scalar) and self.node.plain and pattern.matches(self.node.text):
            return self.node.text
        return ""

    def _expected(self, wanted: str) -> None:
        self.problem(f"expected {wanted}, found {_shown(self.node)}")


@dataclass(slots=True)
class Fields:
    """The entries of a mapping by key; an absent key has an empty cursor."""

    owner: Cursor
    entries: MappingType[str, Cursor]

    def __getitem__(self, key: str) -> Cursor:
        """The value under the key."""
        entry = self.entries.get(key)
        return Cursor(None, _below(self.owner.path, key), self.owner.report) if entry is None else entry


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(node: Node | None) -> str:
    if isinstance(node, Scalar):
        if node.is_null:
            return "nothing"
        return f"'{node.text}'" if node.plain else f"the text '{node.text}'"
    return "a list" if isinstance(node, Sequence) else "a mapping"


def _warn_of_size(entry: Cursor, name: str, amount: int) -> None:
    """Warn about a number without a unit that is too few bytes to be useful: another unit may be meant."""
    text = entry.text()
    if name == MEMORY and 0 < amount < TINY and text.isdecimal():
        entry.warn(f"{text} is less than 1Mi, as it counts bytes: did you mean {text}M or {text}Mi?")
