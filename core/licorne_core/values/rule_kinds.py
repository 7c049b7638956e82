"""The kinds of placement rules, each declared once (spec § 3, table).

`RULES` is what validation, placement and REST follow, so a new kind is a new entry here. It also
needs a line in the table "Kinds of placement rules" of ``docs/configuration.md``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from licorne_core.values.identity import UserGroup
from licorne_core.values.names import ROOT
from licorne_core.values.tags import tag_value

RECOVERY = "recovery"
"""The name of the implicit last rule, which no configuration may use (spec § 3.1)."""


class Submission(Protocol):
    """Properties of a new application that rules read."""

    @property
    def queue_name(self) -> str:
        """The queue that the application names; empty for none."""
        ...

    @property
    def user(self) -> UserGroup:
        """Submitter of the application."""
        ...

    @property
    def tags(self) -> Mapping[str, str]:
        """Its tags, by name."""
        ...


class Part(NamedTuple):
    """A rule's own part of a queue path. A `qualified` one is the whole path, from root on."""

    names: str
    qualified: bool


def _no_parameters(_value: str) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleKind:
    """A kind of placement rule, by the name that a configuration gives in lower case.

    `part` makes the rule's part of the path from the application and the rule's `value`. It is None
    where the application gives nothing, so that the rule does not match. `value_names` is the
    meaning of the rule's `value`; empty for a kind without one. `fixed` makes the same part from
    the value alone. A kind that has it does not depend on the application, so its paths are checked
    when the configuration is read. `parameters` are the value's fields in REST.
    """

    name: str
    part: Callable[[Submission, str], Part | None]
    value_names: str = ""
    fixed: Callable[[str], Part] | None = None
    parameters: Callable[[str], Mapping[str, str]] = _no_parameters

    def nothing_given(self, value: str) -> str:
        """Reason that the rule does not match where `part` is None."""
        return f"no {self.value_names} {value} given" if self.value_names else "no queue given"

    @property
    def value_missing(self) -> str:
        """Error of a rule that lacks its value."""
        return f"a {self.name} queue rule must have a {self.value_names} name set"


def unknown_rule(name: str) -> str:
    """Error of a rule of a name that `RULES` does not have."""
    return f"unknown rule name specified {name}, failing placement rule config"


def _named(value: str) -> Part | None:
    """Queue that an application names: a whole path, or one level; None for no name.

    Only a name that begins with ``root.`` in these very letters is a whole path (spec § 14, row
    3.7).
    """
    if not value:
        return None
    if value.startswith(f"{ROOT}."):
        return Part(value, qualified=True)
    return Part(_one_level(value), qualified=False)


def _one_level(value: str) -> str:
    """Level of a path, with the full stops in it spelt out (spec § 3.8)."""
    return value.replace(".", "_dot_")


def _fixed_part(value: str) -> Part:
    """The value as it stands. Its full stops separate levels; it may be a whole path from root."""
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
"""All kinds that a configuration may use, by name."""
