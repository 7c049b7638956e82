"""The kinds of placement rules, each declared in one place (spec § 3, table).

Validation, placement and REST use `RULES`, so a new kind needs only an entry there, and a line in the table
"Kinds of placement rules" of ``docs/configuration.md``. The case of tag keys is ignored (spec § 1.5).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from licorne_core.values.ids import UserGroup
from licorne_core.values.names import ROOT


class IndexedTags(Mapping[str, str]):
    """Tags with an index by lower-case key, for many lookups. The tags must not change."""

    __slots__ = ("_keys", "_tags")

    def __init__(self, tags: Mapping[str, str]) -> None:
        """Wrap the tags; the index is made on the first lookup."""
        self._tags = tags
        # The keys by their lower case; of several equal ones, the first in alphabetical order.
        self._keys: dict[str, str] | None = None

    def __getitem__(self, key: str) -> str:
        """Value of the exact key; raises KeyError."""
        return self._tags[key]

    def __iter__(self) -> Iterator[str]:
        """All keys."""
        return iter(self._tags)

    def __len__(self) -> int:
        """Number of tags."""
        return len(self._tags)

    def first(self, name: str) -> str:
        """Value of the alphabetically first key that equals the name but for case; empty if none does."""
        if self._keys is None:
            self._keys = {}
            for key in self._tags:
                wanted = key.lower()
                if key <= self._keys.get(wanted, key):
                    self._keys[wanted] = key
        found = self._keys.get(name.lower())
        return "" if found is None else self._tags[found]


def tag_value(tags: Mapping[str, str], name: str) -> str:
    """Value of a tag; empty if there is none.

    Of keys that differ only in case, the one spelt like `name` is used, or else the first in alphabetical
    order. The order of the tags does not matter.
    """
    exact = tags.get(name)
    if exact is not None:
        return exact
    if isinstance(tags, IndexedTags):
        return tags.first(name)
    wanted = name.lower()
    return min(((key, tags[key]) for key in tags if key.lower() == wanted), default=("", ""))[1]


RECOVERY = "recovery"
"""Name of the implicit last rule, reserved in configurations (spec § 3.1)."""


class Submission(Protocol):
    """The properties of a new application that rules read."""

    @property
    def queue_name(self) -> str:
        """Queue that the application names; empty if it names none."""
        ...

    @property
    def user(self) -> UserGroup:
        """User and groups that submit the application."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """Tags of the application, by key."""
        ...


class Part(NamedTuple):
    """A part of a queue path from one rule. A `qualified` part is a whole path from root."""

    names: str
    qualified: bool


def _no_parameters(_value: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind:
    """A kind of placement rule; `name` is its name in configurations, in lower case.

    `part` derives the rule's part of the path from the application and the rule's `value`; None if the rule
    does not match. `value_names` is the meaning of `value`; empty for a kind without a value. `fixed` makes
    the part from only the value, for a kind that does not depend on the application; such paths are checked
    when the configuration is read. `parameters` makes the fields in REST.
    """

    name: str
    part: Callable[[Submission, str], Part | None]
    value_names: str = ""
    fixed: Callable[[str], Part] | None = None
    parameters: Callable[[str], Mapping[str, str]] = _no_parameters

    def nothing_given(self, value: str) -> str:
        """The reason why a rule does not match, if its `part` is None."""
        return f"no {self.value_names} {value} given" if self.value_names else "no queue given"

    @property
    def value_missing(self) -> str:
        """The error of a rule that lacks the value that its kind needs."""
        return f"a {self.name} queue rule must have a {self.value_names} name set"


def unknown_rule(name: str) -> str:
    """The error of a rule whose name is not in `RULES`."""
    known = ", ".join(RULES)
    return f"unknown rule name specified {name}, failing placement rule config: expected one of {known}"


def _named(value: str) -> Part | None:
    """The part for a queue name that an application gives: a whole path, or one level; None for no name.

    Only a name with the beginning ``root.``, in lower case, is a whole path (spec § 14, row 3.7).
    """
    if not value:
        return None
    if value.startswith(f"{ROOT}."):
        return Part(value, qualified=True)
    return Part(_one_level(value), qualified=False)


def _one_level(value: str) -> str:
    """One level of a path, in which full stops are written as ``_dot_`` (spec § 3.8)."""
    return value.replace(".", "_dot_")


def _fixed_part(value: str) -> Part:
    """The part of a fixed value. Full stops separate levels; it may be a whole path from root."""
    return Part(value, value == ROOT or value.startswith(f"{ROOT}."))


def _fixed_parameters(value: str) -> Mapping[str, str]:
    return {"queue": value, "qualified": "true" if _fixed_part(value).qualified else "false"}


PROVIDED = RuleKind(name="provided", part=lambda app, _: _named(app.queue_name))
USER = RuleKind(name="user", part=lambda app, _: Part(_one_level(app.user.user), qualified=False))
FIXED = RuleKind(
    name="fixed",
    part=lambda _, value: _fixed_part(value),
    value_names="queue",
    fixed=_fixed_part,
    parameters=_fixed_parameters,
)
TAG = RuleKind(
    name="tag",
    part=lambda app, value: _named(tag_value(app.tags, value)),
    value_names="tag",
    parameters=lambda value: {"tagName": value},
)

RULES: Mapping[str, RuleKind] = {kind.name: kind for kind in (PROVIDED, USER, FIXED, TAG)}
"""All kinds of rules in configurations, by name."""
