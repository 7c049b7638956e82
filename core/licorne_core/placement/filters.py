"""Whom a placement rule is for (spec § 3.9, § 14)."""

from collections.abc import Callable

from licorne_core.config.schema import FilterConfig
from licorne_core.identity import UserGroup
from licorne_core.names import is_group_name, is_pattern, is_user_name
from licorne_core.patterns import Pattern


class Filter:
    """A filter by users and groups. Those listed pass; with deny, all others do."""

    __slots__ = ("_allow", "_empty", "_groups", "_users")

    def __init__(self, config: FilterConfig) -> None:
        """Read the lists; raises ConfigError if a pattern that stands alone does not compile."""
        self._allow = config.allow
        self._empty = not config.users and not config.groups
        self._users = _Names(config.users, is_user_name)
        self._groups = _Names(config.groups, is_group_name)

    def admits(self, who: UserGroup) -> bool:
        """Whether the rule is for this user.

        Empty lists admit everyone, or with deny nobody. Lists of nothing but illegal names are not
        empty: they match nobody, so they admit nobody, or with deny everyone (spec § 14, row 3.9).
        """
        if self._empty:
            return self._allow
        listed = self._users.contain(who.user) or any(map(self._groups.contain, who.groups))
        return listed is self._allow


class _Names:
    """A list of names, or one pattern that may match anywhere in a name."""

    __slots__ = ("_names", "_pattern")

    def __init__(self, entries: tuple[str, ...], is_name: Callable[[str], bool]) -> None:
        # `svc$` is a user name as well as a pattern: both readings are documented, both work.
        self._names = frozenset(filter(is_name, entries))
        alone = len(entries) == 1 and is_pattern(entries[0])
        self._pattern = Pattern(entries[0]) if alone else None

    def contain(self, name: str) -> bool:
        """Whether the name is listed, or the pattern found in it."""
        return name in self._names or (self._pattern is not None and self._pattern.search(name))
