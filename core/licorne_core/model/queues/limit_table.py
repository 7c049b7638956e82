"""The limits of one queue by the names that they are for (spec § 10.2)."""

from collections.abc import Mapping, Sequence

from licorne_core.config.schema import LimitConfig
from licorne_core.values.names import WILDCARD


class LimitTable:
    """Limits as configured, found by name without a walk over all of them."""

    __slots__ = ("_groups", "_users", "listed")

    def __init__(self, limits: Sequence[LimitConfig] = ()) -> None:
        """Index the limits; a checked configuration has each name in one limit only."""
        self.listed = tuple(limits)
        """The limits as configured."""
        self._users: dict[str, LimitConfig] = {}
        self._groups: dict[str, LimitConfig] = {}
        for limit in limits:
            for user in limit.users:
                self._users.setdefault(user, limit)
            for group in limit.groups:
                self._groups.setdefault(group, limit)

    def __len__(self) -> int:
        """Number of limits."""
        return len(self.listed)

    def of_user(self, user: str) -> LimitConfig | None:
        """The limit that names the user, else the wildcard's."""
        return self._users.get(user) or self._users.get(WILDCARD)

    def of_kind(self, kind: str) -> Mapping[str, LimitConfig]:
        """The limits by user (`kind` is ``user``) or by group (``group``), the wildcards too."""
        return self._users if kind == "user" else self._groups

    @property
    def groups(self) -> Mapping[str, LimitConfig]:
        """The limits by group, in the order of configuration; the wildcard is a name like any."""
        return self._groups


NO_LIMITS = LimitTable()
"""The table of a queue without limits, which all of them share."""
