"""Placement rules: reading and checking each by itself (spec §§ 2.5 #14, 3.8, 14)."""

from collections.abc import Callable

from licorne_core.config.caps import (
    FILTER_NAMES,
    INSTRUCTIONS,
    MAX_PATTERN_LENGTH,
    MAX_PROGRAM,
    PATTERNS,
    PLACEMENT_RULES,
)
from licorne_core.config.keys import FILTER, RULE
from licorne_core.config.reader import Cursor, Fields
from licorne_core.config.report import Report
from licorne_core.config.schema import FilterConfig, NameList, PlacementRuleConfig, name_list
from licorne_core.values.errors import ConfigError
from licorne_core.values.names import (
    INVALID_QUEUE_NAME,
    ProgramTooLarge,
    found,
    is_group_name,
    is_pattern,
    is_queue_name,
    is_rule_name,
    is_user_name,
)
from licorne_core.values.rule_kinds import RECOVERY, RULES, Part, RuleKind, unknown_rule


def read_rule(cursor: Cursor) -> PlacementRuleConfig:
    """Read a rule with its parents. Its name becomes lower-case, and so does its value."""
    cursor.report.count(PLACEMENT_RULES, cursor.path)
    fields = cursor.fields(*RULE.names)
    name = fields.text("name").lower()
    kind = RULES.get(name)
    value = fields.text("value")
    rule = PlacementRuleConfig(
        name=name,
        create=fields.flag("create"),
        filter=_filter(fields) if fields.has("filter") else None,
        parent=_parent(fields.entries["parent"]) if fields.has("parent") else None,
        value=value.lower() if kind is not None and kind.value_names else value,
        place=cursor.place,
    )
    _check_name(fields)
    if kind is not None:
        _check_value(kind, rule, fields.path("value"), cursor.report)
    return rule


def _parent(cursor: Cursor) -> PlacementRuleConfig | None:
    """A rule, or a list of exactly one (spec § 2.9 row 10)."""
    if cursor.is_mapping:
        return read_rule(cursor)
    rules = cursor.items()
    if len(rules) == 1:
        return read_rule(rules[0])
    if not cursor.report.is_faulty(cursor.path):
        cursor.report.problem(f"expected one parent rule, found {len(rules)}", cursor.path)
    return None


def _check_name(rule: Fields) -> None:
    name, path, report = rule.text("name"), rule.path("name"), rule.owner.report
    if report.is_faulty(path):
        return
    if not is_rule_name(name):
        message = f"invalid rule name {name}, a name must be a valid identifier"
        if not name:
            message = f"{message}, {found(name if rule.has('name') else None)}"
        report.problem(message, path)
    elif name.lower() == RECOVERY:
        message = "recovery rule cannot be part of the config, failing placement rule config"
        report.problem(message, path)
    elif name.lower() not in RULES:
        report.problem(unknown_rule(name), path)


def _check_value(kind: RuleKind, rule: PlacementRuleConfig, path: str, report: Report) -> None:
    if not rule.value:
        if kind.value_names:
            report.problem(kind.value_missing, path)
        return
    if kind.fixed is None:
        return
    for name in kind.fixed(rule.value).names.split("."):
        if not is_queue_name(name):
            why = f"{INVALID_QUEUE_NAME}, {found(name)}"
            message = f"illegal {rule.name} queue name '{rule.value}': {why}"
            report.problem(message, path)
            break
    if rule.parent is None or not _is_whole_path(rule):
        return
    if any(map(_is_whole_path, chain_of(rule.parent))):
        message = f"illegal fully qualified '{rule.name}' rule with value {rule.value}"
    else:
        message = (
            f"cannot have a {rule.name} queue rule with qualified queue getName and a parent rule: "
            f"{rule.value}"
        )
    report.problem(message, path)


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
    """The rule's part of the path, as far as that is known without an application."""
    kind = RULES.get(rule.name)
    return None if kind is None or kind.fixed is None else kind.fixed(rule.value)


def _filter(rule: Fields) -> FilterConfig:
    fields = rule.fields("filter", *FILTER.names)
    kind = fields.text("type")
    if kind.lower() not in ("", "allow", "deny"):
        message = f"invalid rule filter type {kind}, filter type must be either '', allow or deny"
        fields.owner.report.problem(message, fields.path("type"))
    return FilterConfig(
        allow=kind.lower() != "deny",
        users=_filter_list(fields, "user", is_user_name),
        groups=_filter_list(fields, "group", is_group_name),
    )


def _filter_list(fields: Fields, kind: str, allowed: Callable[[str], bool]) -> NameList:
    """The entries as written. A single one is a name or a regular expression, several are names.

    In a longer list an entry that is no legal name matches no user. It stays in the list all the
    same, because a list of illegal names is not an empty list (spec § 14, row 3.9).
    """
    cursors = fields.items(f"{kind}s")
    fields.owner.report.count(FILTER_NAMES, fields.path(f"{kind}s"), len(cursors))
    entries = tuple(cursor.text() for cursor in cursors)
    if len(entries) == 1:
        return _single(cursors[0], kind, allowed)
    for cursor, entry in zip(cursors, entries, strict=True):
        if not allowed(entry):
            cursor.report.warn(f"'{entry}' is not a {kind} name and is ignored", cursor.path)
    return name_list(entries, allowed)


def _single(cursor: Cursor, kind: str, allowed: Callable[[str], bool]) -> NameList:
    """A list of one entry; one that can be used as neither name nor expression is a problem."""
    entry, report = cursor.text(), cursor.report
    if is_pattern(entry):
        report.count(PATTERNS, cursor.path)
        length = len(entry)
        report.check("characters in a regular expression", length, MAX_PATTERN_LENGTH, cursor.path)
    elif allowed(entry):
        return name_list((entry,), allowed)
    message = f"invalid rule filter {kind} list is not a proper list or regexp: [{entry}]"
    if not is_pattern(entry):
        report.problem(f"{message}{'' if entry else f', {found(entry)}'}", cursor.path)
        return NameList((entry,))
    try:
        names = name_list((entry,), allowed)
    except ConfigError as error:
        if isinstance(error, ProgramTooLarge):
            # That it is too large shows only after as much work as the largest allowed takes.
            report.count(INSTRUCTIONS, cursor.path, MAX_PROGRAM)
        report.problem(f"{message} ({error.problems[0].message})", cursor.path)
    else:
        assert names.pattern is not None, "it was compiled"
        report.count(INSTRUCTIONS, cursor.path, names.pattern.size)
        return names
    return NameList((entry,))
