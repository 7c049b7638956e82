"""Legal names, access lists, and the regular expressions of configurations (spec §§ 2.3-2.6, 3.9).

A configuration may have hostile expressions, so none may run in an engine that backtracks. RE2 does
not backtrack, and its syntax is the one that users of the older core know.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]

from licorne_core.values.errors import ConfigError, Problem, shown
from licorne_core.values.ids import UserGroup

MAX_INSTRUCTIONS = 4_096
"""Most instructions of a compiled expression; matching takes time in proportion."""

_MAX_MEMORY = 2 * 1024 * 1024
"""Bytes for one expression. Compiling gives up when they are used, so that it is short."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 writes to standard error on its own otherwise
    options.max_mem = _MAX_MEMORY
    return options


_OPTIONS = _options()
_GAVE_UP = "pattern too large"


class ProgramTooLarge(ConfigError):
    """An expression that is short as text, and too long when compiled."""


class Pattern:
    """A compiled regular expression.

    `text` is its source, `size` its number of compiled instructions.
    """

    __slots__ = ("_compiled", "size", "text")

    def __init__(self, text: str) -> None:
        """Compile, for both directions, so that no match has to.

        A text that is no regular expression is a `ConfigError` saying why, one that is compiled to
        more than `MAX_INSTRUCTIONS` a `ProgramTooLarge`.
        """
        self.text = text
        try:
            self._compiled = re2.compile(text.encode("utf-8", "replace"), _OPTIONS)
        except re2.error as error:
            reason = bytes(error.args[0]).decode("utf-8", "replace")
            if reason.startswith(_GAVE_UP):
                raise _too_large(text, f"more than {MAX_INSTRUCTIONS}") from None
            message = f"'{text}' is not a regular expression: {reason}"
            raise ConfigError([Problem(message=message)]) from None
        self.size = max(self._compiled.programsize, self._compiled.reverseprogramsize)
        if self.size > MAX_INSTRUCTIONS:
            raise _too_large(text, str(self.size))

    def __repr__(self) -> str:
        """``<Pattern 'dev.*'>``."""
        return f"<Pattern {self.text!r}>"

    def search(self, subject: str) -> bool:
        """True if it matches anywhere in the subject (spec § 3.9: filters are not anchored)."""
        return self._compiled.search(subject.encode("utf-8", "replace")) is not None

    def matches(self, subject: str) -> bool:
        """True if it matches the whole subject."""
        return self._compiled.fullmatch(subject.encode("utf-8", "replace")) is not None

    def remove(self, subject: str) -> str:
        """The subject without anything that matches; the expression must have no groups."""
        parts = self._compiled.split(subject.encode("utf-8", "replace"))
        return b"".join(parts).decode("utf-8")


def _too_large(text: str, size: str) -> ProgramTooLarge:
    message = (
        f"'{text}' is too large a regular expression: it has {size} instructions, "
        f"at most {MAX_INSTRUCTIONS} are allowed"
    )
    return ProgramTooLarge([Problem(message=message)])


RECOVERY_NAME = "@recovery@"
"""The queue directly below root for forced applications without another queue (spec § 3.14)."""

INVALID_QUEUE_NAME = (
    "invalid queue name, max 64 characters consisting of alphanumeric characters "
    "and '-', '_', '#', '@', '/', ':' allowed"
)
"""The beginning of every message about an illegal name; `found` is the end."""

ROOT = "root"
"""The name of the queue above all others, and the beginning of every full path."""

WILDCARD = "*"
"""All users, in access lists; in limits all users without a limit of their own."""

_QUEUE = Pattern("[a-zA-Z0-9_:#/@-]{1,64}")
_PARTITION = Pattern("[a-zA-Z0-9_.:#@-]{1,64}")
_RULE = Pattern("[_a-zA-Z][a-zA-Z0-9_]*")
_USER = Pattern("[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP = Pattern("[_a-zA-Z][a-zA-Z0-9:_.-]*")
_ACL_USER = Pattern("[_a-zA-Z][a-zA-Z0-9_.@-]*[$]?")
_ACL_GROUP = Pattern("[_a-zA-Z][a-zA-Z0-9_-]*")
# A full stop is none of them: `s.e` is a name (spec § 14, row 3.9).
_PATTERN_CHARACTERS = frozenset("^$*+?()[{}|")


def is_queue_name(name: str) -> bool:
    """True if it can name a queue, or be one part of a queue's path."""
    return _QUEUE.matches(name)


def is_partition_name(name: str) -> bool:
    """True if it can name a partition; brackets and slashes have a meaning of their own."""
    return _PARTITION.matches(name)


def is_rule_name(name: str) -> bool:
    """True if it can name a placement rule."""
    return _RULE.matches(name)


def is_user_name(name: str) -> bool:
    """True if it can be the name of a user in a submission, a limit or a filter."""
    return _USER.matches(name)


def is_group_name(name: str) -> bool:
    """True if it can be a group in a limit or a filter."""
    return _GROUP.matches(name)


def is_acl_user(name: str) -> bool:
    """True if an access list takes it as a user."""
    return _ACL_USER.matches(name)


def is_acl_group(name: str) -> bool:
    """True if an access list takes it as a group."""
    return _ACL_GROUP.matches(name)


def is_pattern(entry: str) -> bool:
    """True if the only entry of a filter's list is a regular expression and not a name."""
    return not _PATTERN_CHARACTERS.isdisjoint(entry)


def found(name: str | None) -> str:
    """Ending of a message that shows an illegal name; None for no name."""
    if name is None:
        return "found no name"
    return f"found '{shown(name)}'" if name else "found an empty name"


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
        return self.everyone or who.user in self.users or any(group in self.groups for group in who.groups)


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
