"""The kinds of placement rules: where each takes its part of the path from (spec § 3)."""

from licorne_core.commands import NewApplication
from licorne_core.config.rules import FIXED, ROOT, TAG, is_qualified
from licorne_core.config.schema import PlacementRuleConfig
from licorne_core.errors import ConfigError, Problem
from licorne_core.placement.filters import Filter
from licorne_core.placement.rule import Part, Rule, Source
from licorne_core.placement.tags import tag_value

PROVIDED = "provided"
USER = "user"


def build_rule(config: PlacementRuleConfig) -> Rule:
    """The rule with its parents; raises ConfigError for one that is not known.

    That a fixed or tag rule has a value, and a legal one, was seen to when it was read.
    """
    return Rule(
        _source_of(config),
        create=config.create,
        only_for=None if config.filter is None else Filter(config.filter),
        parent=None if config.parent is None else build_rule(config.parent),
    )


def _source_of(config: PlacementRuleConfig) -> Source:
    if config.name == PROVIDED:
        return _provided
    if config.name == USER:
        return _user
    if config.name == FIXED:
        return _fixed(config.value)
    if config.name == TAG:
        return _tag(config.value)
    message = f"unknown rule name specified {config.name}, failing placement rule config"
    place = config.place
    problem = Problem(message=message, path=place.path, line=place.line, column=place.column)
    raise ConfigError([problem])


def _provided(app: NewApplication) -> Part | None:
    """The queue that the application names."""
    return _named(app.queue_name)


def _user(app: NewApplication) -> Part:
    """The user's name, which is one level whatever it looks like."""
    return Part(_one_level(app.user.user), qualified=False)


def _fixed(value: str) -> Source:
    """Always the same, of as many levels as it has: its full stops are meant as such."""
    part = Part(value, is_qualified(value))
    return lambda _: part


def _tag(name: str) -> Source:
    """The value of one of the application's tags."""
    return lambda app: _named(tag_value(app.tags, name))


def _named(value: str) -> Part | None:
    """What was said with the application: a full path, or one level; None if nothing was said.

    Only what begins with ``root.`` in these very letters is a full path (spec § 14, row 3.7).
    """
    if not value:
        return None
    if value.startswith(f"{ROOT}."):
        return Part(value, qualified=True)
    return Part(_one_level(value), qualified=False)


def _one_level(value: str) -> str:
    """One level of a path, with the full stops in it spelt out (spec § 3.8)."""
    return value.replace(".", "_dot_")
