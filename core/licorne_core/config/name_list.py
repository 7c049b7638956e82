"""Users or groups of a filter, prepared for look-up (spec § 3.9, § 14)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from licorne_core.values.names import is_pattern
from licorne_core.values.patterns import Pattern


@dataclass(frozen=True, slots=True)
class NameList:
    """A list of names, or one pattern that may match anywhere in a name.

    `entries` are as written. `names` are those of them that are legal. `pattern` is compiled, so
    that nothing is left to do when the list is put in force.
    """

    entries: tuple[str, ...] = ()
    names: frozenset[str] = field(default=frozenset(), compare=False)
    pattern: Pattern | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        """True if anything was written."""
        return bool(self.entries)

    def contain(self, name: str) -> bool:
        """True if the name is listed, or the pattern found in it."""
        return name in self.names or (self.pattern is not None and self.pattern.search(name))

    @property
    def expression(self) -> str:
        """The regular expression as it was written; empty for a list without one."""
        return "" if self.pattern is None else self.pattern.text


def name_list(entries: tuple[str, ...], is_name: Callable[[str], bool]) -> NameList:
    """The list of these entries. A name may be a pattern as well, and then counts as both.

    `svc$` is a user name as well as a pattern: both readings are documented, both work.
    """
    alone = len(entries) == 1 and is_pattern(entries[0])
    return NameList(
        entries, frozenset(filter(is_name, entries)), Pattern(entries[0]) if alone else None
    )
