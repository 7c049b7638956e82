"""Access lists (spec § 2.3): submitters and administrators of a queue."""

from collections.abc import Callable
from dataclasses import dataclass

from licorne_core.values.errors import ConfigError, Problem
from licorne_core.values.identity import UserGroup
from licorne_core.values.names import WILDCARD, is_acl_group, is_acl_user


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """Users and groups with access; `everyone` stands for ``*``. There are no deny entries."""

    text: str = ""
    everyone: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @staticmethod
    def nobody() -> "Acl":
        """The list of a queue that has none."""
        return Acl()

    @staticmethod
    def parse(text: str, dropped: list[str] | None = None) -> "Acl":
        """Read ``user1,user2 group1,group2``; a leading blank means that there are only groups.

        Names that no user or group can have are left out, and added to `dropped` if it is given.
        Blanks at the end are harmless; more than two lists are a `ConfigError`.
        """
        lists = text.strip().split(" ")
        if text[:1].isspace():
            lists.insert(0, "")
        if len(lists) > 2 and any(lists):
            raise ConfigError([Problem(message=f"multiple spaces found in ACL: '{text}'")])
        if WILDCARD in lists:
            return Acl(text=text, everyone=True)
        dropped = [] if dropped is None else dropped
        return Acl(
            text=text,
            users=_names(lists[0], is_acl_user, dropped),
            groups=_names(lists[1], is_acl_group, dropped) if len(lists) > 1 else frozenset(),
        )

    def allows(self, who: UserGroup) -> bool:
        """True if this list alone gives access, without a look at any parent's."""
        return (
            self.everyone
            or who.user in self.users
            or any(group in self.groups for group in who.groups)
        )


def without_blanks_at_commas(text: str) -> str:
    """Text as it was probably meant, where a blank next to a comma begins the groups."""
    before, *behind = text.split(",")
    for part in behind:
        before = f"{before.rstrip()},{part.lstrip()}"
    return before


def _names(text: str, allowed: Callable[[str], bool], dropped: list[str]) -> frozenset[str]:
    names = [name for name in text.split(",") if name]
    dropped.extend(name for name in names if not allowed(name))
    return frozenset(name for name in names if allowed(name))
