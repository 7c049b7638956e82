"""Whom a placement rule is for (spec § 3.9, § 14)."""

from licorne_core.config.schema import FilterConfig
from licorne_core.values.identity import UserGroup


def admits(only_for: FilterConfig, who: UserGroup) -> bool:
    """Whether a rule with this filter is for this user. Those listed pass; with deny, others do.

    Empty lists admit everyone, or with deny nobody. Lists of nothing but illegal names are not
    empty: they match nobody, so they admit nobody, or with deny everyone (spec § 14, row 3.9).
    """
    if not (only_for.users or only_for.groups):
        return only_for.allow
    listed = only_for.users.contain(who.user) or any(map(only_for.groups.contain, who.groups))
    return listed is only_for.allow
