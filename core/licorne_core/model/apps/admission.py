"""Checks of a new application before it has a leaf: its user, and whether it is forced (spec § 3)."""

from licorne_core.messages.commands import NewApplication
from licorne_core.values.errors import Refusal, Rejected, shown
from licorne_core.values.ids import UserGroup
from licorne_core.values.names import is_user_name
from licorne_core.values.rule_kinds import tag_value

FORCE_TAG = "application.create.force"
_TRUE = frozenset({"1", "t", "true"})

NOBODY = UserGroup("nobody", ("nogroup",))
"""The user of a forced application without a user."""


def is_forced(app: NewApplication) -> bool:
    """True if the RM runs the application already, so that it must be accepted (spec § 3, table)."""
    return tag_value(app.tags, FORCE_TAG).lower() in _TRUE


def checked_user(app: NewApplication, *, forced: bool) -> UserGroup:
    """The application's user with at least one group; a user without groups gets one with its name.

    Raises Rejected for an illegal user name, and for an empty one unless the application is forced
    (spec § 14, row 11.2).
    """
    who = app.user
    if not who.user:
        if forced:
            return NOBODY
        raise Rejected("empty user cannot resolve", Refusal.INVALID_USER)
    if not is_user_name(who.user):
        raise Rejected(
            f"invalid username, it contains invalid characters, found '{shown(who.user)}'",
            Refusal.INVALID_USER,
        )
    return who if who.groups else UserGroup(who.user, (who.user,))
