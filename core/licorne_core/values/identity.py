"""Submitter of an application: a user and the groups the user is in."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UserGroup:
    """A user name and its groups, as the RM reported or the resolver found them."""

    user: str
    groups: tuple[str, ...] = ()
