"""Filters of placement rules by user and group (spec § 3.9, § 14)."""

from licorne_core.config.schema import FilterConfig
from licorne_core.values.identity import UserGroup


def admits(only_for: FilterConfig, who: UserGroup) -> bool:
    """True if a rule with this filter is for this user. Listed users pass; with deny, others do.

    Empty lists admit all users, or with deny none. Lists of nothing but illegal names are not
    empty: they match no user, so they admit none, or with deny all (spec § 14, row 3.9).
    """
    if not (only_for.users or only_for.groups):
        return only_for.allow
    listed = only_for.users.contain(who.user) or any(map(only_for.groups.contain, who.groups))
    return listed is only_for.allow
