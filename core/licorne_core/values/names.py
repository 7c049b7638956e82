"""Legal names, access lists, and the regular expressions of configurations (spec §§ 2.3-2.6, 3.9).

Expressions of a configuration may be hostile, so RE2 runs them: it does not backtrack. Its syntax is that of
the older core.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import re2  # type: ignore[import-untyped]

from licorne_core.values.errors import ConfigError, Problem, shown
from licorne_core.values.ids import UserGroup

MAX_INSTRUCTIONS = 4_096
"""Maximum number of instructions of a compiled expression, to which the time of a match is proportional."""

_MAX_MEMORY = 2 * 1024 * 1024
"""Maximum number of bytes of memory for compiling one expression, which bounds the time as well."""


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False  # RE2 writes to standard error on its own otherwise
    options.max_mem = _MAX_MEMORY
    return options


_OPTIONS = _options()
_GAVE_UP = "pattern too large"


class ProgramTooLarge(ConfigError):
    """An expression has more than `MAX_INSTRUCTIONS` instructions when compiled."""


class Pattern:
    """A compiled regular expression.

    `text` is its source, and `size` its number of compiled instructions.
    """

    __slots__ = ("_compiled", "size", "text")

    def __init__(self, text: str) -> None:
        """Compile the text for both directions, so that matches need no compilation.

        Raises ConfigError for an invalid expression, and ProgramTooLarge for one with more than
        `MAX_INSTRUCTIONS`.
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
        """True if the expression matches anywhere in the subject; filters are not anchored (spec § 3.9)."""
        return self._compiled.search(subject.encode("utf-8", "replace")) is not None

    def matches(self, subject: str) -> bool:
        """True if the expression matches the whole subject."""
        return self._compiled.fullmatch(subject.encode("utf-8", "replace")) is not None

    def remove(self, subject: str) -> str:
        """The subject without the matches; the expression must have no groups."""
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
"""Beginning of all messages about an illegal queue name, which end with `found`."""

ROOT = "root"
"""Name of the topmost queue, and first level of every full path."""

WILDCARD = "*"
"""In access lists it stands for all users, in limits for all users without a limit of their own."""

_QUEUE = Pattern("[a-zA-Z0-9_:#/@-]{1,64}")
_PARTITION = Pattern("[a-zA-Z0-9_.:#@-]{1,64}")
_RULE = Pattern("[_a-zA-Z][a-zA-Z0-9_]*")
_USER = Pattern("[_a-zA-Z][a-zA-Z0-9:#/_.@-]*[$]?")
_GROUP = Pattern("[_a-zA-Z][a-zA-Z0-9:_.-]*")
_ACL_USER = Pattern("[_a-zA-Z][a-zA-Z0-9_.@-]*[$]?")
_ACL_GROUP = Pattern("[_a-zA-Z][a-zA-Z0-9_-]*")
# No full stop, although the original text has it: `s.e` is a name (spec § 14, row 3.9).
_PATTERN_CHARACTERS = frozenset("^$*+?()[{}|")


def is_queue_name(name: str) -> bool:
    """True for a legal name of a queue, which is one level of a path."""
    return _QUEUE.matches(name)


def is_partition_name(name: str) -> bool:
    """True for a legal name of a partition, which has no brackets or slashes."""
    return _PARTITION.matches(name)


def is_rule_name(name: str) -> bool:
    """True for a legal name of a placement rule."""
    return _RULE.matches(name)


def is_user_name(name: str) -> bool:
    """True for a legal name of a user in a submission, limit or filter."""
    return _USER.matches(name)


def is_group_name(name: str) -> bool:
    """True for a legal name of a group in a limit or filter."""
    return _GROUP.matches(name)


def is_acl_user(name: str) -> bool:
    """True for a legal name of a user in an access list."""
    return _ACL_USER.matches(name)


def is_acl_group(name: str) -> bool:
    """True for a legal name of a group in an access list."""
    return _ACL_GROUP.matches(name)


def is_pattern(entry: str) -> bool:
    """True if the only entry of a filter's list is a regular expression and not a name."""
    return not _PATTERN_CHARACTERS.isdisjoint(entry)


def found(name: str | None) -> str:
    """End of a message about an illegal name; `name` is None for a missing name."""
    if name is None:
        return "found no name"
    return f"found '{shown(name)}'" if name else "found an empty name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """An access list: users and groups with access. `everyone` is true for ``*``."""

    text: str = ""
    everyone: bool = False
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @staticmethod
    def nobody() -> "Acl":
        """The access list of a queue without a configured one, which allows no user."""
        return Acl()

    @staticmethod
    def parse(text: str, dropped: list[str] | None = None) -> "Acl":
        """Parse ``user1,user2 group1,group2``; a leading blank means that there are only groups.

        Illegal names are left out, and added to `dropped` if given. Blanks at the end are ignored.
        Raises ConfigError for more than two lists.
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
        """True if this list allows the user. Lists of parent queues are not considered."""
        return self.everyone or who.user in self.users or any(group in self.groups for group in who.groups)


def without_blanks_at_commas(text: str) -> str:
    """The access list without blanks at commas, as such a blank would wrongly separate users from groups."""
    before, *behind = text.split(",")
    for part in behind:
        before = f"{before.rstrip()},{part.lstrip()}"
    return before


def _names(text: str, allowed: Callable[[str], bool], dropped: list[str]) -> frozenset[str]:
    names = [name for name in text.split(",") if name]
    dropped.extend(name for name in names if not allowed(name))
    return frozenset(name for name in names if allowed(name))


def fits_pattern(pattern: str, name: str) -> bool:
    """True if the pattern, in which `WILDCARD` stands for any characters, matches the whole name.

    Each text between two wildcards is searched once, from the left, so that the time is at most proportional
    to the number of texts times the length of the name.
    """
    first, *rest = pattern.split(WILDCARD)
    if not rest:
        return pattern == name
    last = rest.pop()
    end = len(name) - len(last)
    if end < len(first) or not (name.startswith(first) and name.endswith(last)):
        return False
    at = len(first)
    for part in rest:
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
