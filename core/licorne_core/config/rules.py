"""Placement rules: reads each one, and checks it by itself (spec §§ 2.5 #14, 3.8, 14)."""

from collections.abc import Callable, Sequence

from licorne_core.config.caps import (
    FILTER_NAMES,
    INSTRUCTIONS,
    MAX_PATTERN_LENGTH,
    MAX_PROGRAM,
    PATTERNS,
    PLACEMENT_RULES,
)
from licorne_core.config.keys import FILTER, RULE
from licorne_core.config.reader import Cursor
from licorne_core.config.schema import FilterConfig, NameList, PlacementRuleConfig, name_list
from licorne_core.values.errors import ConfigError
from licorne_core.values.names import (
    INVALID_QUEUE_NAME,
    RECOVERY_NAME,
    ROOT,
    ProgramTooLarge,
    found,
    is_group_name,
    is_pattern,
    is_queue_name,
    is_rule_name,
    is_user_name,
)
from licorne_core.values.rule_kinds import PROVIDED, RECOVERY, RULES, Part, RuleKind, unknown_rule

_PROVIDED = PlacementRuleConfig(name=PROVIDED.name)
_RECOVERY = PlacementRuleConfig(name=RECOVERY, create=True, value=f"{ROOT}.{RECOVERY_NAME}")


def rules_in_force(rules: Sequence[PlacementRuleConfig]) -> tuple[PlacementRuleConfig, ...]:
    """The configured rules, or else `provided`; the recovery rule is always the last (spec § 3)."""
    return (*(rules or (_PROVIDED,)), _RECOVERY)


def read_rule(cursor: Cursor) -> PlacementRuleConfig:
    """Read a rule with its parents. Its name becomes lower-case, and so does a value that is a queue."""
    cursor.report.count(PLACEMENT_RULES, cursor.path)
    fields = cursor.fields(RULE)
    name = fields["name"].text().lower()
    kind = RULES.get(name)
    value = fields["value"].text()
    rule = PlacementRuleConfig(
        name=name,
        create=fields["create"].flag(),
        filter=_filter(fields["filter"]),
        parent=_parent(fields["parent"]),
        value=value.lower() if kind is not None and kind.value_names else value,
        place=cursor.place,
    )
    _check_name(fields["name"])
    if kind is not None:
        _check_value(kind, rule, fields["value"])
    return rule


def _parent(cursor: Cursor) -> PlacementRuleConfig | None:
    """The parent: a rule, or a list of exactly one (spec § 2.9 row 10). None if it is absent or invalid."""
    if cursor.is_null:
        return None
    if cursor.is_mapping:
        return read_rule(cursor)
    rules = cursor.items()
    if len(rules) == 1:
        return read_rule(rules[0])
    if not cursor.is_faulty:
        cursor.problem(f"expected one parent rule, found {len(rules)}")
    return None


def _check_name(cursor: Cursor) -> None:
    name = cursor.text()
    if cursor.is_faulty:
        return
    if not is_rule_name(name):
        end = "" if name else f", {found(None if cursor.is_null else name)}"
        cursor.problem(f"invalid rule name {name}, a name must be a valid identifier{end}")
    elif name.lower() == RECOVERY:
        cursor.problem("recovery rule cannot be part of the config, failing placement rule config")
    elif name.lower() not in RULES:
        cursor.problem(unknown_rule(name))


def _check_value(kind: RuleKind, rule: PlacementRuleConfig, cursor: Cursor) -> None:
    if not rule.value:
        if kind.value_names:
            cursor.problem(kind.value_missing)
        return
    if kind.fixed is None:
        return
    for name in kind.fixed(rule.value).names.split("."):
        if not is_queue_name(name):
            why = f"{INVALID_QUEUE_NAME}, {found(name)}"
            cursor.problem(f"illegal {rule.name} queue name '{rule.value}': {why}")
            break
    if rule.parent is None or not _is_whole_path(rule):
        return
    if any(map(_is_whole_path, chain_of(rule.parent))):
        cursor.problem(f"illegal fully qualified '{rule.name}' rule with value {rule.value}")
    else:
        cursor.problem(
            f"cannot have a {rule.name} queue rule with qualified queue getName and a parent rule: "
            f"{rule.value}"
        )


def chain_of(rule: PlacementRuleConfig) -> list[PlacementRuleConfig]:
    """The rule, its parent, the parent's parent and so on."""
    chain = []
    link: PlacementRuleConfig | None = rule
    while link is not None:
        chain.append(link)
        link = link.parent
    return chain


def _is_whole_path(rule: PlacementRuleConfig) -> bool:
    part = fixed_part(rule)
    return part is not None and part.qualified


def fixed_part(rule: PlacementRuleConfig) -> Part | None:
    """The rule's part of the path, if it does not depend on the application; else None."""
    kind = RULES.get(rule.name)
    return None if kind is None or kind.fixed is None else kind.fixed(rule.value)


def _filter(cursor: Cursor) -> FilterConfig | None:
    if cursor.is_null:
        return None
    fields = cursor.fields(FILTER)
    kind = fields["type"].text()
    if kind.lower() not in ("", "allow", "deny"):
        message = f"invalid rule filter type {kind}, filter type must be either '', allow or deny"
        fields["type"].problem(message)
    return FilterConfig(
        allow=kind.lower() != "deny",
        users=_filter_list(fields["users"], "user", is_user_name),
        groups=_filter_list(fields["groups"], "group", is_group_name),
    )


def _filter_list(listed: Cursor, kind: str, allowed: Callable[[str], bool]) -> NameList:
    """The entries as written. A single entry is a name or a regular expression; several are names.

    In a longer list an entry that is no legal name matches no user. It remains in the list,
    because a list of illegal names is not an empty list (spec § 14, row 3.9).
    """
    cursors = listed.items()
    listed.report.count(FILTER_NAMES, listed.path, len(cursors))
    entries = tuple(cursor.text() for cursor in cursors)
    if len(entries) == 1:
        return _single(cursors[0], kind, allowed)
    for cursor, entry in zip(cursors, entries, strict=True):
        if not allowed(entry):
            cursor.warn(f"'{entry}' is not a {kind} name and is ignored")
    return name_list(entries, allowed)


def _single(cursor: Cursor, kind: str, allowed: Callable[[str], bool]) -> NameList:
    """A list of one entry; it is a problem if it can be used neither as a name nor as an expression."""
    entry, report = cursor.text(), cursor.report
    if is_pattern(entry):
        report.count(PATTERNS, cursor.path)
        length = len(entry)
        report.check("characters in a regular expression", length, MAX_PATTERN_LENGTH, cursor.path)
    elif allowed(entry):
        return name_list((entry,), allowed)
    message = f"invalid rule filter {kind} list is not a proper list or regexp: [{entry}]"
    if not is_pattern(entry):
        cursor.problem(f"{message}{'' if entry else f', {found(entry)}'}")
        return NameList((entry,))
    try:
        names = name_list((entry,), allowed)
    except ConfigError as error:
        if isinstance(error, ProgramTooLarge):
            # RE2 detects an expression that is too large only after compiling up to the limit.
            report.count(INSTRUCTIONS, cursor.path, MAX_PROGRAM)
        cursor.problem(f"{message} ({error.problems[0].message})")
    else:
        assert names.pattern is not None, "it was compiled"
        report.count(INSTRUCTIONS, cursor.path, names.pattern.size)
        return names
    return NameList((entry,))
