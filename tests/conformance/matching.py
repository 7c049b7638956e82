"""Comparison of events with the expectations of a scenario."""

import re
from collections.abc import Mapping, Sequence
from typing import Any


def matches(pattern: object, value: object) -> bool:
    """True if a value matches a pattern.

    A mapping only compares its own keys, and an empty mapping matches an empty one. ``{matches: TEXT}``
    matches a text in which the regular expression is found, ``{one_of: LIST}`` a value that matches one of
    the patterns, and ``{any_order: LIST}`` a list with these items in any order. Everything else must be
    equal.
    """
    match pattern:
        case {"matches": str(expression), **others} if not others:
            return isinstance(value, str) and re.search(expression, value) is not None
        case {"one_of": list(options), **others} if not others:
            return any(matches(option, value) for option in options)
        case {"any_order": list(wanted), **others} if not others:
            return isinstance(value, list) and _same_items(wanted, value)
        case Mapping():
            return (
                isinstance(value, Mapping)
                and (bool(pattern) or not value)
                and all(name in value and matches(item, value[name]) for name, item in pattern.items())
            )
        case list():
            return (
                isinstance(value, list) and len(value) == len(pattern) and all(map(matches, pattern, value))
            )
        case _:
            return type(pattern) is type(value) and pattern == value


def _same_items(wanted: Sequence[object], found: Sequence[object]) -> bool:
    """True if every pattern matches an item of its own, and no item remains."""
    left = list(found)
    for pattern in wanted:
        fit = next((item for item in left if matches(pattern, item)), None)
        if fit is None:
            return False
        left.remove(fit)
    return not left


def values_at(path: str, document: Any) -> Any:
    """The value at a path of names joined by dots.

    A list on the path contributes all of its items, so that the result is a list. A missing value is None.
    """
    name, _, rest = path.partition(".")
    if isinstance(document, list):
        found = [values_at(path, item) for item in document]
        return [item for items in found for item in (items if isinstance(items, list) else [items])]
    below = document.get(name) if isinstance(document, dict) else None
    return values_at(rest, below) if rest else below
